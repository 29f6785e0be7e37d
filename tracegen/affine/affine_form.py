"""Compute with affine forms over integers (a constant plus multiples of dimensions), their minima and maxima."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Literal

import numpy as np

from rdmodel.common.late_dataclass import dataclass

Box = Sequence[tuple[int, int]]
"""The smallest and the largest value of every dimension."""

Term = tuple[int, int]
"""A dimension and its coefficient."""


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant` plus coefficient * dimension, summed over `terms`.

    The terms are sorted by dimension, without coefficients of 0.
    """

    constant: int = 0
    terms: tuple[Term, ...] = ()

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
        """Return the coefficient of a dimension, 0 if the form has no such term."""
        return next((c for d, c in self.terms if d == dimension), 0)

    def least(self, box: Box) -> int:
        """Return the smallest value over a box."""
        return self.constant + sum(c * box[d][c < 0] for d, c in self.terms)

    def most(self, box: Box) -> int:
        """Return the largest value over a box."""
        return self.constant + sum(c * box[d][c > 0] for d, c in self.terms)

    def value(self, at: Sequence[Any]) -> Any:
        """Return the value at a point: ``at[d]`` is dimension d, a number or an array with one value per thread."""
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
        """Apply a monotonically increasing function to every affine form in the operands."""
        return Extreme(self.kind, tuple(map_affine(operand, change) for operand in self.operands))

    def negated(self) -> Extreme:
        """Return the negative: min(a, b) becomes max(-a, -b)."""
        operands = tuple(o.times(-1) if isinstance(o, Affine) else o.negated() for o in self.operands)
        return Extreme("max" if self.kind == "min" else "min", operands)

    def least(self, box: Box) -> int:
        """Return a lower bound of the value over a box."""
        return self._extreme(operand.least(box) for operand in self.operands)

    def most(self, box: Box) -> int:
        """Return an upper bound of the value over a box."""
        return self._extreme(operand.most(box) for operand in self.operands)

    def value(self, at: Sequence[Any]) -> Any:
        """Return the value; see `Affine.value`."""
        values = [operand.value(at) for operand in self.operands]
        if not any(isinstance(value, np.ndarray) for value in values):
            return self._extreme(values)
        return reduce(np.minimum if self.kind == "min" else np.maximum, values)

    def _extreme(self, values: Iterable[int]) -> int:
        return min(values) if self.kind == "min" else max(values)


Bound = Affine | Extreme
"""The first value of a loop variable, or its end."""


def map_affine(bound: Bound, change: Callable[[Affine], Affine]) -> Bound:
    """Apply a monotonically increasing function to every affine form of a bound."""
    return change(bound) if isinstance(bound, Affine) else bound.map(change)


def leaves(bound: Bound) -> list[Affine]:
    """Return all affine forms of a bound."""
    if isinstance(bound, Affine):
        return [bound]
    return [leaf for operand in bound.operands for leaf in leaves(operand)]
