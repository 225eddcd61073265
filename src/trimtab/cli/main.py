"""The command `trimtab`: one file a command, errors as one line, exit code 2 for what a user can mend."""

from __future__ import annotations

import sys

import typer

from trimtab.cli import compress as compress
from trimtab.cli import densify, doctor, evaluate, generate, inspect, methods
from trimtab.errors import TrimtabError

app = typer.Typer(
    name="trimtab",
    help="Make a trained language model smaller without training it again, and measure what that cost.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (compress, evaluate, generate, inspect, densify, methods, doctor):
    app.command(module.__name__.rsplit(".", 1)[-1])(module.command)


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    try:
        app()
    except TrimtabError as error:
        print(f"trimtab: {error}", file=sys.stderr)
        sys.exit(2)
    except SystemExit as end:  # Typer turns Ctrl-C into this
        if end.code == 130:
            print("trimtab: interrupted; nothing that was there before has changed", file=sys.stderr)
        raise
