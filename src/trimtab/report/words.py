"""Numbers in words for people: short, honest, with non-breaking spaces between a number and its unit."""

from __future__ import annotations

import math

from trimtab.report.data import SHARE

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SPACE = "\u00a0"
MINUS = "\u2212"


def count(value: int) -> str:
    """A whole number with a comma every three digits: 134,515,008."""
    return f"{value:,}"


def millions(value: int) -> str:
    """A number of parameters: 134.5 M, 7.24 B, 12,288."""
    for size, unit in ((1e9, "B"), (1e6, "M")):
        if abs(value) >= size:
            return f"{_three(value / size)}{SPACE}{unit}"
    return count(value)


def size(bytes_: int) -> str:
    """A number of bytes in decimal units, as files are advertised: 257 MB = 257 · 10^6 bytes."""
    for step, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(bytes_) >= step:
            return f"{_three(bytes_ / step)}{SPACE}{unit}"
    return f"{bytes_}{SPACE}B"


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent: 0.166 is "16.6 %"."""
    if not math.isfinite(share):
        return number(share)
    return f"{share * 100:.{digits}f}{SPACE}%".replace("-", MINUS)


def removed(before: float, after: float) -> str:
    """The change from `before` to `after` in per cent, signed: "−16.6 %"."""
    if not before:
        return "0" + SPACE + "%"
    change = (after - before) / before
    if abs(change) < 0.0005:
        return "0.0" + SPACE + "%"
    return f"{'+' if change > 0 else MINUS}{percent(abs(change))}"


def number(value: float) -> str:
    """About four significant digits: 29.61, 0.0312, 1,234, 4.1×10⁶, ∞, not a number."""
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude >= 1e5 or magnitude < 1e-3:
        return power_of_ten(value)
    if magnitude >= 1000:
        return f"{value:,.0f}".replace("-", MINUS)
    digits = 2 - math.floor(math.log10(magnitude)) if magnitude < 10 else 3 - math.floor(math.log10(magnitude))
    return f"{value:.{digits}f}".replace("-", MINUS)


def power_of_ten(value: float) -> str:
    """Two significant digits and a power of ten: 4.1×10⁶; a whole power is 10⁶."""
    mantissa, exponent = f"{value:.1e}".split("e")
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPT)}"
    return power if mantissa == "1.0" else f"{mantissa}×{power}".replace("-", MINUS)


def factor(ratio: float) -> str:
    """A ratio to two or three digits: 1.40, 320, 140,000, 4.1 million."""
    if ratio < 100:
        return f"{ratio:.2f}"
    if ratio < 1e6:
        return f"{float(f'{ratio:.2g}'):,.0f}"
    return f"{ratio / 1e6:.1f}{SPACE}million" if ratio < 1e9 else number(ratio)


def measured(value: float, unit: str) -> str:
    """The value of a metric in its unit; a share in per cent."""
    if unit == SHARE:
        return percent(value)
    return number(value)


def seconds(value: float) -> str:
    """A duration: 0.4 s, 12 s, 3 min 05 s, 1 h 02 min."""
    if value < 9.95:
        return f"{value:.1f}{SPACE}s"
    whole = round(value)
    if whole < 60:
        return f"{whole}{SPACE}s"
    if whole < 3600:
        return f"{whole // 60}{SPACE}min{SPACE}{whole % 60:02d}{SPACE}s"
    return f"{whole // 3600}{SPACE}h{SPACE}{whole % 3600 // 60:02d}{SPACE}min"


def plural(amount: int, one: str, many: str | None = None) -> str:
    """ "1 layer", "30 layers"."""
    return f"{count(amount)} {one if amount == 1 else many or one + 's'}"


def _three(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"
