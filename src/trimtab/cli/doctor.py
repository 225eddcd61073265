"""`trimtab doctor`: what this machine has, and what would run on it."""

from __future__ import annotations


def command() -> None:
    """Show versions, threads, memory, devices and measured speed, and what would run here."""
    from trimtab.run.doctor import examine

    width = 24
    for name, value in examine().items():
        first, *others = value.split("\n")
        print(f"{name:<{width}}{first}")
        for line in others:
            print(f"{'':<{width}}{line}")
