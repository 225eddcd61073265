"""Tiny, randomly initialised models of many architectures, with a real tokenizer; nothing is downloaded."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

VOCABULARY = 320
WORDS = "the model reads a text and writes another text , one small word after the other . " * 20
CHAT_TEMPLATE = (
    "{% for message in messages %}<s>{{ message['role'] }}\n{{ message['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)

_COMMON: dict[str, Any] = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
_LLAMA: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**_LLAMA, "tie_word_embeddings": True},
    "mistral": {**_LLAMA, "sliding_window": 16, "head_dim": 16},
    "qwen2": {**_LLAMA, "tie_word_embeddings": True},
    "qwen3": {**_LLAMA, "head_dim": 16},
    "gemma3_text": {**_LLAMA, "head_dim": 16, "sliding_window": 16, "sliding_window_pattern": 2},
    "phi3": {**_LLAMA, "sliding_window": 16},
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512},
    "opt": {
        "hidden_size": 64,
        "word_embed_proj_dim": 32,
        "ffn_dim": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
    },
    "gpt_neox": {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
    },
    "qwen3_moe": {
        **_LLAMA,
        "head_dim": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "decoder_sparse_step": 1,
    },
}
ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3", "gemma3", "phi3", "gpt2", "opt", "gpt_neox", "qwen3_moe")


def tiny(arch: str, *, dtype: torch.dtype = torch.float32) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A model of `arch` (one of `ARCHITECTURES`) with the same random weights every time, and a tokenizer."""
    name = "gemma3_text" if arch == "gemma3" else arch
    config = AutoConfig.for_model(name, **{**_COMMON, **CONFIGS[name]})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
        for parameter in model.parameters():
            if parameter.dim() > 1:  # larger than the usual initialisation, so that outputs differ clearly
                torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
            else:  # norms near one and biases near zero, but no two the same
                parameter.data.add_(0.1 * torch.randn_like(parameter))
    return model, tiny_tokenizer()


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer (304 tokens, ids below `VOCABULARY`) with a chat template; it encodes any text."""
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_tokenizer_json()),
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        chat_template=CHAT_TEMPLATE,
    )


def save_tiny(arch: str, folder: Path, *, dtype: torch.dtype = torch.float32) -> Path:
    """Save `tiny(arch)` into `folder`, as its owner would, and return the folder."""
    model, tokenizer = tiny(arch, dtype=dtype)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Path(folder)


@cache
def _tokenizer_json() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS], trainer)
    return tokenizer.to_str()
