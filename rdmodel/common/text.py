"""Format numbers for readers: counts, percentages, byte sizes, shapes and ranges."""

from __future__ import annotations

from math import isnan

from rdmodel.errors import escape_unprintable


def visible_text(text: str) -> str:
    """Return a text with escapes for its unprintable characters except line breaks."""
    return "\n".join(map(escape_unprintable, text.split("\n")))


def count(value: float) -> str:
    """Format a count with thousands separators; a mean over seeds gets one decimal."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Format how many things there are: 1 kernel, 1,200 kernels; without `plural`, it is the noun with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def percent(part: float, whole: float) -> str:
    """Format `part` as a percentage of `whole`; a dash if `whole` is 0, or if `part` is an undefined rate."""
    return f"{100 * part / whole:.2f} %" if whole and not isnan(part) else "-"


def size_text(size: int) -> str:
    """Format a number of bytes in the largest unit that divides it: 48 KB."""
    for unit, bits in (("MB", 20), ("KB", 10)):
        if size >= 1 << bits and size % (1 << bits) == 0:
            return f"{size >> bits:,} {unit}"
    return f"{size:,} B"


def shape_text(shape: tuple[int, ...]) -> str:
    """Format the shape of a grid or of a block: 16x1x1."""
    return "x".join(map(str, shape))


def range_text(low: int, high: int) -> str:
    """Format a range of whole numbers: 4 to 7."""
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
