"""Read numbers from texts of a user: ASCII digits only, and whole numbers that fit into 64 bits.

``int`` and ``float`` of Python also take the digits of other scripts and underscores, such as ``3_2``.
"""

from __future__ import annotations

import re
from math import isfinite

LARGEST_INTEGER = (1 << 63) - 1
"""The largest whole number that a text may denote, and, negated, the smallest one."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def read_integer(text: str) -> int:
    """Return the whole number that a text denotes, such as ``-15``.

    Raises `ValueError` for any other text; its message is what the text should be, such as ``a whole number``.
    """
    if not _INTEGER.fullmatch(text):
        raise ValueError("a whole number")
    # Python refuses to convert more than a few thousand digits.
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > len(str(LARGEST_INTEGER)) or int(digits) > LARGEST_INTEGER:
        raise ValueError("a whole number of at most 2^63 - 1")
    return -int(digits) if text.startswith("-") else int(digits)


def read_decimal(text: str) -> float:
    """Return the finite number that a text denotes, such as ``0.5`` or ``1e6``.

    Raises `ValueError` for any other text; its message is ``a finite number``.
    """
    value = float(text) if _DECIMAL.fullmatch(text) else float("nan")
    if not isfinite(value):
        raise ValueError("a finite number")
    return value
