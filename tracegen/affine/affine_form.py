"""Affine forms in whole numbers: a constant plus coefficients of dimensions; and the smaller or larger of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np

Box = Sequence[tuple[int, int]]
"""The least and the largest value of every dimension."""


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant` + the sum of coefficient * dimension over `terms`: pairs (dimension, coefficient), sorted, none 0."""

    constant: int = 0
    terms: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(constant: int, coefficients: Mapping[int, int]) -> Affine:
        """Return the form with these coefficients by dimension."""
        return Affine(constant, tuple(sorted((d, c) for d, c in coefficients.items() if c)))

    def __add__(self, other: Affine) -> Affine:
        """Return the sum."""
        if not other.terms:
            return Affine(self.constant + other.constant, self.terms)
        total = dict(self.terms)
        for dimension, coefficient in other.terms:
            total[dimension] = total.get(dimension, 0) + coefficient
        return Affine.of(self.constant + other.constant, total)

    def __sub__(self, other: Affine) -> Affine:
        """Return the difference."""
        return self + other.times(-1)

    def plus(self, number: int) -> Affine:
        """Return the sum with a number."""
        return Affine(self.constant + number, self.terms)

    def times(self, factor: int) -> Affine:
        """Return the product with a number."""
        if not factor:
            return Affine()
        return Affine(self.constant * factor, tuple((d, c * factor) for d, c in self.terms))

    def coefficient(self, dimension: int) -> int:
        """Return the coefficient of a dimension, 0 if it has none."""
        return next((c for d, c in self.terms if d == dimension), 0)

    def least(self, box: Box) -> int:
        """Return the least value over a box."""
        return self.constant + sum(c * box[d][c < 0] for d, c in self.terms)

    def most(self, box: Box) -> int:
        """Return the largest value over a box."""
        return self.constant + sum(c * box[d][c > 0] for d, c in self.terms)

    def value(self, at: Sequence[Any]) -> Any:
        """Return the value where dimension d is ``at[d]``, a number or an array of one per thread."""
        total: Any = self.constant
        for dimension, coefficient in self.terms:
            total = total + at[dimension] * coefficient
        return total


@dataclass(frozen=True, slots=True)
class Extreme:
    """The smallest (`kind` "min") or the largest ("max") of several operands."""

    kind: Literal["min", "max"]
    operands: tuple[Bound, ...]

    def map(self, change: Callable[[Affine], Affine]) -> Extreme:
        """Return the same with every affine form in it changed by a function that rises."""
        return Extreme(self.kind, tuple(map_affine(operand, change) for operand in self.operands))

    def negated(self) -> Extreme:
        """Return what is its negative: min(a, b) becomes max(-a, -b)."""
        operands = tuple(o.times(-1) if isinstance(o, Affine) else o.negated() for o in self.operands)
        return Extreme("max" if self.kind == "min" else "min", operands)

    def least(self, box: Box) -> int:
        """Return a number that it is never below, over a box."""
        return self._of(operand.least(box) for operand in self.operands)

    def most(self, box: Box) -> int:
        """Return a number that it is never above, over a box."""
        return self._of(operand.most(box) for operand in self.operands)

    def value(self, at: Sequence[Any]) -> Any:
        """Return the value; see `Affine.value`."""
        values = [operand.value(at) for operand in self.operands]
        if not any(isinstance(value, np.ndarray) for value in values):
            return self._of(values)
        return reduce(np.minimum if self.kind == "min" else np.maximum, values)

    def _of(self, values: Iterable[int]) -> int:
        return min(values) if self.kind == "min" else max(values)


Bound = Affine | Extreme
"""What a loop may start from or end at."""


def map_affine(bound: Bound, change: Callable[[Affine], Affine]) -> Bound:
    """Return a bound with every affine form in it changed by a function that rises."""
    return change(bound) if isinstance(bound, Affine) else bound.map(change)


def leaves(bound: Bound) -> list[Affine]:
    """Return all affine forms of a bound."""
    if isinstance(bound, Affine):
        return [bound]
    return [leaf for operand in bound.operands for leaf in leaves(operand)]
