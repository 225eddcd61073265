"""`trimtab generate`: let a model answer or continue one prompt; only what it writes goes to standard output."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from trimtab.errors import OptionError, TextError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def command(
    model: Annotated[str, typer.Argument(help="Hub id, folder, .gguf file, or 'demo'.")],
    prompt: Annotated[str, typer.Argument(help="What to answer or continue; '-' reads standard input.")],
    max_new_tokens: Annotated[int, typer.Option(help="The longest continuation.")] = 256,
    temperature: Annotated[float, typer.Option(help="0: always the likeliest token; above: drawn.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Draw only from the likeliest tokens of this share.")] = 1.0,
    seed: Annotated[int, typer.Option(help="For drawing; the same seed draws the same.")] = 0,
    stream: Annotated[bool, typer.Option("--stream", help="Print while the model writes.")] = False,
    chat: Annotated[
        bool | None,
        typer.Option("--chat/--raw", help="Chat template or plain text; the template where there is one."),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Tokens and speed, to standard error.")] = False,
    dtype: Annotated[str | None, typer.Option(help="bf16, fp16 or fp32; as stored by default.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
) -> None:
    """Answer one prompt, or continue it with --raw."""
    from trimtab.evaluate.generation import check_options, check_prompt, generate_batch
    from trimtab.lowrank.load import load
    from trimtab.models.placement import device_of, dtype_of

    if prompt == "-":
        prompt = _standard_input()
    check_prompt(prompt)
    check_options(max_new_tokens, temperature, top_p, seed=seed)
    loaded, tokenizer = load(model, dtype=dtype_of(dtype), device=device_of(device))
    start = time.monotonic()
    output = generate_batch(
        loaded,
        tokenizer,
        [prompt],
        chat=_wants_chat(chat, tokenizer, model),
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        on_text=_print_piece if stream else None,
    )[0]
    print("" if stream else output.text)
    if stats:
        _print_stats(len(output.ids) + output.stopped, output.stopped, time.monotonic() - start)


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError:
        raise TextError("standard input is not UTF-8 text") from None


def _wants_chat(chat: bool | None, tokenizer: PreTrainedTokenizerBase, model: str) -> bool:
    from trimtab.text.chat import has_chat

    if chat and not has_chat(tokenizer):
        raise OptionError(f"{model} has no chat template: leave out --chat, or use --raw")
    return chat is not False


def _print_piece(text: str) -> None:
    print(text, end="", flush=True)


def _print_stats(tokens: int, stopped: bool, seconds: float) -> None:
    from trimtab.progress import say

    end = "stopped by itself" if stopped else "cut off at the limit"
    say(f"{tokens} new tokens in {seconds:.2f} s, {tokens / seconds:.1f} tokens/s with the prompt; {end}")
