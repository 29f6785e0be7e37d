"""Find ranges of iterations of a loop that differ in their addresses only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tracegen.affine.affine_form import Affine, Box
from tracegen.affine.nest import THREAD_DIMENSIONS, NestLoop

IterationRange = tuple[float, float]
"""First iteration, and the one after the last; either may be infinite."""

INFINITY = float("inf")
"""End of a range of iterations without an end."""


def cut_iterations(loop: NestLoop, first: int, end: int, at: Sequence[Any], box: Box) -> list[tuple[int, int, bool]]:
    """Cut the iterations `first` to `end` of a loop into ranges (first, end, whether they differ in addresses only).

    `at` has the values of the dimensions of blocks and outer loops; `box` has the limits of the other dimensions.
    """
    if loop.sign_tests is None or end - first == 1:
        return [(first, end, False)]
    uniform = [_uniform_ranges(test.form, test.uniform_below_zero, loop.dimension, at, box) for test in loop.sign_tests]
    cuts = {int(cut) for ranges in uniform for limits in ranges for cut in limits if first < cut < end}
    edges = [first, *sorted(cuts), end]
    return [
        (a, b, all(any(start <= a and b <= stop for start, stop in ranges) for ranges in uniform))
        for a, b in pairwise(edges)
    ]


def _uniform_ranges(
    form: Affine, below_zero: bool, dimension: int, at: Sequence[Any], box: Box
) -> list[IterationRange]:
    """Return the iterations in which a form is at least 0 for all threads, and, if `below_zero`, for no thread."""
    least, most, step = _form_limits(form, dimension, at, box)
    if step > 0:
        return [(-(least // step), INFINITY)] + ([(-INFINITY, -(most // step))] if below_zero else [])
    return [(-INFINITY, least // -step + 1)] + ([(most // -step + 1, INFINITY)] if below_zero else [])


def _form_limits(form: Affine, dimension: int, at: Sequence[Any], box: Box) -> tuple[int, int, int]:
    """Return the least and largest value of a form without its term in `dimension`, and the coefficient of that."""
    least = most = form.constant
    step = 0
    for d, coefficient in form.terms:
        if d == dimension:
            step = coefficient
            continue
        limits = box[d] if d in THREAD_DIMENSIONS or d > dimension else (int(np.min(at[d])), int(np.max(at[d])))
        ends = [coefficient * limit for limit in limits]
        least, most = least + min(ends), most + max(ends)
    return least, most, step
