"""A table of plain text, as wide as its contents: nothing is cut off in a pipe or a narrow window."""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[str]


def plain_table(rows: Sequence[Row]) -> str:
    """Columns two spaces apart; the first is aligned to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
