"""Progress of long loops: a bar on a terminal or in a notebook, plain lines elsewhere.

Everything goes to standard error, so that a command's standard output stays usable in a pipe.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

_PLAIN_LINE_SECONDS = 10.0


def say(line: str) -> None:
    """Print one plain line for people, to standard error."""
    print(line, file=sys.stderr, flush=True)


def track(items: Iterable[Item], description: str, total: int) -> Iterator[Item]:
    """Yield each of `items`, showing how many of `total` are done and how long the rest will take."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        yield from _track_bar(items, description, total, console)
    else:
        yield from _track_lines(items, description, total)


def _track_bar(items: Iterable[Item], description: str, total: int, console: object) -> Iterator[Item]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:  # type: ignore[arg-type]
        task = progress.add_task(description, total=total)
        for item in items:
            yield item
            progress.advance(task)


def _track_lines(items: Iterable[Item], description: str, total: int) -> Iterator[Item]:
    start = last = time.monotonic()
    done = 0
    for done, item in enumerate(items, 1):
        yield item
        now = time.monotonic()
        if now - last >= _PLAIN_LINE_SECONDS and done < total:
            left = (now - start) / done * (total - done)
            say(f"{description}: {done}/{total}, {now - start:.0f} s, about {left:.0f} s left")
            last = now
    say(f"{description}: {done}/{total}, {time.monotonic() - start:.1f} s")
