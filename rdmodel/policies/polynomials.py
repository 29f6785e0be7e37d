"""Compute with polynomials over GF(2) as whole numbers, one bit per coefficient: 37 = 0b100101 is x^5 + x^2 + 1."""

from __future__ import annotations

from itertools import count


def remainder(a: int, b: int) -> int:
    """Return the remainder of `a` divided by `b` (not 0)."""
    while a.bit_length() >= b.bit_length():
        a ^= b << (a.bit_length() - b.bit_length())
    return a


def is_irreducible(poly: int) -> bool:
    """Return whether a polynomial has no factor of smaller positive degree; constants are not irreducible.

    Ben-Or's test, O(degree^2) word operations: x^(2^i) - x is divisible by every irreducible polynomial of
    degree i, so a reducible one shares a factor with it for an i of at most half its degree.
    """
    degree = poly.bit_length() - 1
    power = x = 0b10
    for _ in range(degree // 2):
        power = remainder(_square(power), poly)
        if _gcd(poly, power ^ x) != 1:
            return False
    return degree >= 1


def smallest_irreducible(degree: int) -> int:
    """Return the numerically smallest irreducible polynomial of a degree with a constant term (37 for 5).

    Degree 0, for a cache of one set, gives 1: every polynomial leaves the remainder 0.
    """
    if degree == 0:
        return 1
    return next(poly for poly in count((1 << degree) | 1, 2) if is_irreducible(poly))


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, remainder(a, b)
    return a


def _square(a: int) -> int:
    # Squaring over GF(2) moves each coefficient to twice its place: binary digits read as digits of base 4.
    return int(f"{a:b}", 4)
