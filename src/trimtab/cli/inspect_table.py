"""What `trimtab inspect` prints: plain tables that fit 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimtab.cli.plain_table import Row, plain_table

if TYPE_CHECKING:
    from trimtab.lowrank.inspection import Inspection, ProjectionFacts

WIDTH = 80


def page(found: Inspection) -> str:
    """The whole page for one model."""
    parts = [_title(found)]
    if found.low_rank:
        parts.append("Rank of each projection (. = dense)\n\n" + _ranks(found.projections))
    parts += ["Projections by kind\n\n" + _kinds(found), "Sizes\n\n" + _sizes(found), _left(found)]
    if found.made:
        parts.append("How it was made\n\n" + _made(found.made))
    return "\n\n".join(parts)


def _title(found: Inspection) -> str:
    kind = f"low-rank checkpoint, format {found.format_version}" if found.low_rank else "ordinary model"
    return f"{found.model}\n{kind}, {found.architecture}, stored as {', '.join(found.dtypes)}"


def _ranks(projections: Sequence[ProjectionFacts]) -> str:
    """One row a layer, one column a kind; several tables below each other where one would be too wide."""
    cells: dict[tuple[str, str], list[int | None]] = defaultdict(list)
    for each in projections:
        cells[_layer(each), _column(each)].append(each.rank)
    layers = list(dict.fromkeys(_layer(each) for each in projections))
    columns = list(dict.fromkeys(_column(each) for each in projections))
    labels = _labels(columns)
    body = {column: [labels[column], *(_cell(cells[layer, column]) for layer in layers)] for column in columns}
    tables = []
    for group in _groups(columns, {column: max(map(len, body[column])) for column in columns}):
        rows = zip(["layer", *layers], *(body[column] for column in group), strict=True)
        tables.append(plain_table(list(rows)))
    return "\n\n".join(tables)


def _layer(each: ProjectionFacts) -> str:
    return "-" if each.layer is None else str(each.layer)


def _column(each: ProjectionFacts) -> str:
    """The path below the layer, without expert numbers: the same in every layer."""
    below = each.name if each.layer is None else re.split(rf"(?:^|\.){each.layer}\.", each.name, maxsplit=1)[-1]
    return re.sub(r"\.\d+(?=\.)", "", below)


def _labels(columns: Sequence[str]) -> dict[str, str]:
    """The last part of each path, or the whole path where two end the same (GPT-2's two `c_proj`)."""
    ends = Counter(column.rsplit(".", 1)[-1] for column in columns)
    return {column: end if ends[end := column.rsplit(".", 1)[-1]] == 1 else column for column in columns}


def _cell(ranks: Sequence[int | None]) -> str:
    """One rank, or the range where a layer has several projections of the kind (experts)."""
    known = sorted(rank for rank in ranks if rank is not None)
    if len(ranks) == 1 and known:
        return str(known[0])
    if not known:
        return "." if ranks else ""
    return f"{known[0]}-{known[-1] if len(known) == len(ranks) else '.'}"


def _groups(columns: Sequence[str], widths: Mapping[str, int]) -> list[list[str]]:
    """Split columns into groups that fit beside the layer column."""
    groups: list[list[str]] = [[]]
    used = len("layer")
    for column in columns:
        if groups[-1] and used + 2 + widths[column] > WIDTH:
            groups.append([])
            used = len("layer")
        groups[-1].append(column)
        used += 2 + widths[column]
    return groups


def _kinds(found: Inspection) -> str:
    groups: dict[tuple[str, int, int], list[ProjectionFacts]] = defaultdict(list)
    for each in found.projections:
        groups[_column(each), each.out_features, each.in_features].append(each)
    labels = _labels(list(dict.fromkeys(column for column, _, _ in groups)))
    last = ("now", "kept") if found.low_rank else ("break-even rank",)
    rows: list[Row] = [("kind", "matrix", "number", "parameters", *last)]
    for (column, out_features, in_features), members in groups.items():
        dense, now = sum(each.parameters_dense for each in members), sum(each.parameters for each in members)
        end = (f"{now:,}", f"{now / dense:.1%}") if found.low_rank else (f"{members[0].break_even}",)
        rows.append((labels[column], f"{out_features} x {in_features}", f"{len(members)}", f"{dense:,}", *end))
    return plain_table(rows)


def _sizes(found: Inspection) -> str:
    pairs = [
        ("parameters in projections", found.projection_parameters_dense, found.projection_parameters),
        ("parameters, whole model", found.total_parameters_dense, found.total_parameters),
        ("bytes of projections", found.projection_bytes_dense, found.projection_bytes),
        ("bytes of the weight files", found.file_bytes_dense, found.file_bytes),
    ]
    if not found.low_rank:
        return plain_table([(name, _number(now)) for name, _, now in pairs])
    rows: list[Row] = [("", "if dense", "now", "kept")]
    for name, dense, now in pairs:
        kept = f"{now / dense:.1%}" if dense and now is not None else "?"
        rows.append((name, _number(dense), _number(now), kept))
    return plain_table(rows)


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _left(found: Inspection) -> str:
    rest = ", ".join(f"{what} {count:,}" for what, count in found.untouched.items())
    line = f"{found.coverage:.1%} of all parameters (if dense) are in projections; not in them: {rest or 'none'}"
    return textwrap.fill(line, WIDTH)


def _made(made: Mapping[str, Any]) -> str:
    lines = list(_flat(made, ""))
    column = min(24, max(len(name) for name, _ in lines)) + 2
    return "\n".join(
        textwrap.fill(value, WIDTH, initial_indent=f"{name:<{column}}", subsequent_indent=" " * column)
        for name, value in lines
    )


def _flat(value: Any, name: str) -> list[tuple[str, str]]:
    """Nested tables as `outer.inner` names; everything else as one line of text."""
    if isinstance(value, Mapping) and value:
        return [line for key, inner in value.items() for line in _flat(inner, f"{name}.{key}".lstrip("."))]
    if isinstance(value, list | tuple):
        return [(name, ", ".join(map(str, value)))]
    return [(name, str(value))]
