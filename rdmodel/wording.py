"""Numbers as people write them: counts, shares, sizes, and distances by powers of two."""

from __future__ import annotations

import numpy as np

from rdmodel.reuse import Histogram


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


def by_powers(histogram: Histogram) -> list[tuple[int, int, int]]:
    """Return (least, most, count) for the distances 0, 1, 2 to 3, 4 to 7, ..., those that occurred."""
    rows = []
    end = int(histogram.distances[-1]).bit_length() + 1 if len(histogram.distances) else 0
    for bits in range(end):
        low, high = (0, 0) if bits == 0 else (1 << (bits - 1), (1 << bits) - 1)
        first, last = np.searchsorted(histogram.distances, [low, high + 1])
        if first < last:
            rows.append((low, high, int(histogram.counts[first:last].sum())))
    return rows


def range_text(low: int, high: int) -> str:
    """Return whole numbers from one to another: 4 to 7."""
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
