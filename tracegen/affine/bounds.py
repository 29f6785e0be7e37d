"""Whether subscripts stay inside their arrays: proofs over all threads and iterations, and threads that do not.

A form is proven to be at least 0 by taking multiples of conditions that hold (guards, bounds of loops) away from it,
each of which eliminates a dimension (Fourier and Motzkin), until its least value over the box of all dimensions is
above -1; all in whole numbers. What is neither proven nor refuted is checked when a block is generated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import gcd

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Launch
from tracegen.affine.affine_form import Affine, Box, leaves
from tracegen.affine.nest import BLOCK, NestAccess, NestLoop
from tracegen.arrays import Place
from tracegen.simt.block import Geometry

STEPS = 150
TRIALS = 256
"""Steps of one proof; blocks, and ends of loops in them, that are searched for a thread outside an array."""

MOST_STEPS = 10_000
MOST_TRIALS = 1000
"""The same for a whole kernel: the answer comes soon, whatever the kernel is."""


class Effort:
    """What is left for the proofs and searches of a kernel."""

    def __init__(self) -> None:
        self.steps = iter(range(MOST_STEPS))
        self.trials = iter(range(MOST_TRIALS))


Path = Sequence[NestLoop | tuple[Affine, ...]]
"""The loops around an access, and the conditions of the guards around it, from outside to inside."""


# ---- proofs


def stays_inside(access: NestAccess, conditions: Sequence[Affine], box: Box, effort: Effort) -> bool:
    """Tell whether all subscripts are proven to be inside wherever `conditions` hold (are at least 0)."""
    for subscript, extent in zip(access.subscripts, access.array.shape, strict=True):
        for form in (subscript, subscript.times(-1).plus(extent - 1)):
            if not proven(form, conditions, box, effort):
                return False
    return True


def proven(form: Affine, conditions: Sequence[Affine], box: Box, effort: Effort) -> bool:
    """Tell whether a form is proven to be at least 0 over the part of a box where `conditions` are."""
    return _prove(form, 1, tuple(c for c in conditions if c.terms), box, islice(effort.steps, STEPS))


def _prove(form: Affine, scale: int, conditions: tuple[Affine, ...], box: Box, steps: Iterator[int]) -> bool:
    """Prove that ``form / scale`` is above -1."""
    if form.least(box) > -scale:
        return True
    for dimension, coefficient in reversed(form.terms):
        for i, condition in enumerate(conditions):
            other = condition.coefficient(dimension)
            if other * coefficient <= 0:
                continue
            if next(steps, None) is None:
                return False
            common = gcd(other, coefficient)
            mine, theirs = abs(other) // common, abs(coefficient) // common
            rest = form.times(mine) - condition.times(theirs)
            if _prove(rest, scale * mine, conditions[:i] + conditions[i + 1 :], box, steps):
                return True
    return False


# ---- refutations


def outside(access: NestAccess, path: Path, launch: Launch, box: Box, effort: Effort) -> str | None:
    """Return what is wrong with a subscript of some thread, or None if no such thread is found."""
    if next(effort.trials, None) is None:
        return None
    geometry = Geometry(launch)
    blocks = product(*(_candidates(dimension, access, path, box) for dimension in BLOCK))
    loops = sum(isinstance(part, NestLoop) for part in path)
    trials = product(blocks, product((0, 1), repeat=min(loops, 6)))
    for _, (block, ends) in zip(islice(effort.trials, TRIALS), trials, strict=False):
        at: list[NDArray[np.int64] | int] = [*block, *geometry.thread, *[0] * (len(box) - 6)]
        lanes = _reach(path, at, ends, geometry.mask.lanes)
        if lanes.any() and (wrong := complaint(access, at, lanes, launch)):
            return wrong
    return None


def _candidates(dimension: int, access: NestAccess, path: Path, box: Box) -> list[int]:
    """Return block ids at which a condition or a subscript may begin to fail: the ends, and where a form crosses 0."""
    last = box[dimension][1]
    found = {0, last}
    forms = [form for part in path for form in (leaves(part.distance) if isinstance(part, NestLoop) else part)]
    for subscript, extent in zip(access.subscripts, access.array.shape, strict=True):
        forms += [subscript, subscript.times(-1).plus(extent - 1)]
    for form in forms:
        if coefficient := form.coefficient(dimension):
            rest = form - Affine.of(0, {dimension: coefficient})
            for value in (rest.least(box), rest.most(box)):
                crossing = -value // coefficient
                found |= {min(max(crossing + by, 0), last) for by in (0, 1)}
    return sorted(found, reverse=True)


def _reach(
    path: Path, at: list[NDArray[np.int64] | int], ends: Sequence[int], lanes: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Put every loop into its first or last iteration, by thread; return the threads that get there."""
    which = iter(ends)
    for part in path:
        if isinstance(part, NestLoop):
            if part.first >= 0:
                at[part.first] = part.lower.value(at)
            trips = np.broadcast_to(-(-np.asarray(part.distance.value(at)) // part.stride), lanes.shape)
            lanes = lanes & (trips > 0)
            at[part.dimension] = np.where(trips > 0, trips - 1, 0) if next(which, 1) else 0
        else:
            for condition in part:
                lanes = lanes & np.asarray(condition.value(at) >= 0)
    return lanes


def complaint(
    access: NestAccess, at: Sequence[NDArray[np.int64] | int], lanes: NDArray[np.bool_], launch: Launch
) -> str:
    """Return which of `lanes` is outside the array and where, or nothing."""
    indices = tuple(subscript.value(at) for subscript in access.subscripts)
    place = Place(access.array, access.array.shape, indices, (0,) * len(indices))
    wrong = place.outside(lanes)
    if wrong is None:
        return ""
    lane, what = wrong
    ids = (
        at[d] * size + np.broadcast_to(at[3 + d], lanes.shape)[lane]
        for d, size in zip(BLOCK, launch.block, strict=True)
    )
    return f"thread ({', '.join(str(int(i)) for i in ids)}): {access.where}: {what}"
