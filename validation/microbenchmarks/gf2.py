"""Compute reduced bases over GF(2); vectors are whole numbers, one bit per coordinate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def reduced(vectors: Iterable[int]) -> tuple[int, ...]:
    """Return the reduced basis of the span, pivots at the lowest bits, ascending: equal for equal spans."""
    basis: dict[int, int] = {}
    for given in vectors:
        vector = given
        for pivot, row in basis.items():
            if vector & pivot:
                vector ^= row
        if not vector:
            continue
        lowest = vector & -vector
        basis = {pivot: row ^ vector if row & lowest else row for pivot, row in basis.items()}
        basis[lowest] = vector
    return tuple(basis[pivot] for pivot in sorted(basis))


def annihilator(vectors: Iterable[int], bits: int) -> tuple[int, ...]:
    """Return the reduced basis of all masks of `bits` bits that have even parity with every vector."""
    basis = reduced(vectors)
    pivots = [row & -row for row in basis]
    free = [1 << i for i in range(bits) if 1 << i not in pivots]
    masks = (one | sum(pivot for pivot, row in zip(pivots, basis, strict=True) if row & one) for one in free)
    return reduced(masks)


def image(masks: Sequence[int], vector: int) -> int:
    """Return the number whose bit j is the parity of ``vector & masks[j]``."""
    return sum(((vector & mask).bit_count() & 1) << j for j, mask in enumerate(masks))
