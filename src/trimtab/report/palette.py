"""The colours of the page, once for light and once for dark, and the WCAG contrast they must keep.

The ladder `heat0..heat7` is the scale of the rank map (little kept to all kept); `on0..on7` is the text upon it.
"""

from __future__ import annotations

STEPS = 8

_LIGHT_HEAT = ("#eaf4f3", "#d2e8e6", "#b3d8d5", "#8fc5c2", "#67aeac", "#2d7f81", "#1b686b", "#0b4f53")
_DARK_HEAT = ("#1b2b2e", "#1d3a3d", "#1f4b4e", "#215e60", "#2b7576", "#5fb3ae", "#8bd0c9", "#bdeae4")


def _ladder(heat: tuple[str, ...], low_text: str, high_text: str) -> dict[str, str]:
    colours = {f"heat{step}": colour for step, colour in enumerate(heat)}
    return colours | {f"on{step}": low_text if step < 5 else high_text for step in range(STEPS)}


LIGHT: dict[str, str] = {
    "paper": "#fcfcfa",
    "panel": "#ffffff",
    "ink": "#16202a",
    "muted": "#566370",
    "line": "#e2e4e1",
    "grid": "#eceeeb",
    "ghost": "#dcdfdc",
    "accent": "#0b6b6d",
    "before": "#6b7680",
    "predicted": "#a0641a",
    "worse": "#a4341f",
    "better": "#1c6b3a",
    "warn": "#b7791f",
    "warn-paper": "#fdf4e0",
    "warn-ink": "#5c3d06",
    "dense": "#f4ead5",
    "dense-line": "#cfb98b",
    "dense-ink": "#654f1c",
    **_ladder(_LIGHT_HEAT, "#10272a", "#ffffff"),
}

DARK: dict[str, str] = {
    "paper": "#12171b",
    "panel": "#181e23",
    "ink": "#e7ebee",
    "muted": "#9aa7b2",
    "line": "#2b343b",
    "grid": "#242c32",
    "ghost": "#343e46",
    "accent": "#62c4be",
    "before": "#93a0ab",
    "predicted": "#e0a55c",
    "worse": "#f19a84",
    "better": "#7fcf9d",
    "warn": "#d9a441",
    "warn-paper": "#2c2516",
    "warn-ink": "#f2dcab",
    "dense": "#3b3324",
    "dense-line": "#77663c",
    "dense-ink": "#eddcb3",
    **_ladder(_DARK_HEAT, "#e6f3f2", "#0c2224"),
}


def step(share: float) -> int:
    """Which step of the ladder shows a share between 0 and 1."""
    return max(0, min(STEPS - 1, int(share * STEPS)))


def contrast(one: str, other: str) -> float:
    """WCAG 2.2 contrast ratio of two colours "#rrggbb", from 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
