"""Numbers as people write them: counts, shares, sizes, and distances by powers of two."""

from __future__ import annotations


def count(value: float) -> str:
    """Return a count with separators; means over seeds keep one decimal."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def percent(part: float, whole: float) -> str:
    """Return a share in percent."""
    return f"{100 * part / whole:.2f} %" if whole else "-"


def size_text(size: int) -> str:
    """Return a number of bytes as a person writes it."""
    for unit, bits in (("MB", 20), ("KB", 10)):
        if size >= 1 << bits and size % (1 << bits) == 0:
            return f"{size >> bits:,} {unit}"
    return f"{size:,} B"


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a grid or a block: 16x1x1."""
    return "x".join(map(str, shape))


def range_text(low: int, high: int) -> str:
    """Return whole numbers from one to another: 4 to 7."""
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
