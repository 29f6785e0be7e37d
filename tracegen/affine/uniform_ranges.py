"""Which iterations of a loop, one after the other, do the same but for their addresses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tracegen.affine.affine_form import Affine, Box
from tracegen.affine.nest import THREAD, NestLoop

Range = tuple[float, float]
"""Iterations from the first number on, and before the second; either may be infinite."""

EVER = float("inf")


def stretches(loop: NestLoop, first: int, end: int, at: Sequence[Any], box: Box) -> list[tuple[int, int, bool]]:
    """Cut the iterations `first` to `end` of a loop: (first, end, whether they differ in their addresses only).

    `at` are the values of all dimensions of blocks and of loops around the loop; `box` has the limits of the others.
    """
    if loop.choices is None or end - first == 1:
        return [(first, end, False)]
    decided = [_decided(choice.form, choice.both, loop.dimension, at, box) for choice in loop.choices]
    cuts = {int(cut) for ranges in decided for one in ranges for cut in one if first < cut < end}
    edges = [first, *sorted(cuts), end]
    return [
        (a, b, all(any(start <= a and b <= stop for start, stop in ranges) for ranges in decided))
        for a, b in pairwise(edges)
    ]


def _decided(form: Affine, both: bool, dimension: int, at: Sequence[Any], box: Box) -> list[Range]:
    """Return the iterations in which a form is at least 0 for all threads, and, if `both`, those in which for none."""
    least, most, step = _limits(form, dimension, at, box)
    if step > 0:
        return [(-(least // step), EVER)] + ([(-EVER, -(most // step))] if both else [])
    return [(-EVER, least // -step + 1)] + ([(most // -step + 1, EVER)] if both else [])


def _limits(form: Affine, dimension: int, at: Sequence[Any], box: Box) -> tuple[int, int, int]:
    """Return the limits of a form without its part of `dimension`, and the coefficient of that."""
    least = most = form.constant
    step = 0
    for d, coefficient in form.terms:
        if d == dimension:
            step = coefficient
            continue
        limits = box[d] if d in THREAD or d > dimension else (int(np.min(at[d])), int(np.max(at[d])))
        ends = [coefficient * limit for limit in limits]
        least, most = least + min(ends), most + max(ends)
    return least, most, step
