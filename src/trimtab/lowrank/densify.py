"""Make an ordinary checkpoint of a low-rank one, for tools that know nothing of low rank."""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedModel

from trimtab.errors import CheckpointError
from trimtab.lowrank.load import load
from trimtab.lowrank.output import check_output, fresh_folder
from trimtab.lowrank.ranks import low_rank_layers
from trimtab.models.quiet import quiet_libraries


def densify(spec: str | Path, out: Path | str, *, overwrite: bool = False) -> None:
    """Multiply the factors of the low-rank checkpoint `spec`, and write the ordinary model to `out`.

    The result has the type of the factors, computes the same up to its rounding, is as large as the model before
    compression, and loads without Trimtab.

    Raises:
        CheckpointError: `spec` is not low-rank, or is damaged.
        ModelError: `spec` is not a model.
        OutputError: `out` exists and `overwrite` is not set, cannot be written, or the disk is full.
    """
    check_output(out, overwrite=overwrite)
    model, tokenizer = load(spec)
    if not low_rank_layers(model):
        raise CheckpointError(f"{spec} has no low-rank layers; it is an ordinary model already")
    to_dense(model)
    with fresh_folder(out, overwrite=overwrite) as folder:
        with quiet_libraries():
            model.save_pretrained(folder, max_shard_size="5GB")
            tokenizer.save_pretrained(folder)
        (folder / "README.md").write_text(_card(str(spec)), "utf-8")


def to_dense(model: PreTrainedModel) -> None:
    """Make a loaded low-rank model an ordinary one, in place."""
    model.dequantize()


def _card(spec: str) -> str:
    return (
        "---\nlibrary_name: transformers\ntags:\n- trimtab\n---\n\n"
        f"An ordinary (dense) copy of the low-rank checkpoint `{Path(spec).name}`, written by `trimtab densify`. Its "
        "matrices have low rank, but all their parameters are stored: it is not smaller than the model that "
        "was compressed.\n"
    )
