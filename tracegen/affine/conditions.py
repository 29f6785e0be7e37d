"""Evaluate the expressions and conditions that are made of numbers and the sizes of a tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracegen.affine.affine_form import Affine
from tracegen.affine.expression import Expression, evaluate_condition, evaluate_constant


def evaluate_size(expression: Expression, sizes: Mapping[str, Any]) -> int:
    """Return the value of an expression of numbers and named sizes.

    Sizes that are not whole numbers have no value. Raises `TraceError` for a malformed expression or an unknown name.
    """
    return evaluate_constant(expression, _scope(sizes))


def holds(condition: str, sizes: Mapping[str, Any]) -> bool:
    """Return whether a condition, such as ``"BX * BY <= 1024"``, holds for named sizes; errors as `evaluate_size`."""
    return all(form.constant >= 0 for form in evaluate_condition(condition, _scope(sizes)))


def _scope(sizes: Mapping[str, Any]) -> dict[str, Affine]:
    return {name: Affine(value) for name, value in sizes.items() if isinstance(value, int)}
