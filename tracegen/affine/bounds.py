"""Prove that subscripts stay inside their arrays for all threads and iterations, or find a thread that leaves one.

To prove that a form is at least 0, multiples of conditions that hold (guards, bounds of loops) are subtracted from it.
Each of them eliminates a dimension (Fourier and Motzkin), until the least value of the form over the box of all
dimensions is above -1; all in whole numbers. Subscripts that are neither proven nor refuted are checked when a block
is generated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from math import gcd

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Launch
from tracegen.affine.affine_form import Affine, Box, leaves
from tracegen.affine.nest import BLOCK_DIMENSIONS, NestAccess, NestLoop
from tracegen.arrays import Place
from tracegen.simt.block import Geometry

PROOF_STEPS = 150
SEARCH_TRIALS = 256
"""Limits for one access: steps of a proof, and combinations of a block and loop ends searched for a violation."""

KERNEL_PROOF_STEPS = 10_000
KERNEL_SEARCH_TRIALS = 1000
"""Limits for a whole kernel: steps of all proofs, and searches; they bound the time for every kernel."""


class ProofBudget:
    """The steps and searches that are left for a kernel."""

    def __init__(self) -> None:
        self.steps = iter(range(KERNEL_PROOF_STEPS))
        self.trials = iter(range(KERNEL_SEARCH_TRIALS))


Path = Sequence[NestLoop | tuple[Affine, ...]]
"""The loops around an access, and the conditions of the guards around it, outermost first."""


# ---- proofs


def stays_inside(access: NestAccess, conditions: Sequence[Affine], box: Box, budget: ProofBudget) -> bool:
    """Tell whether all subscripts are proven to be inside the array wherever all `conditions` are at least 0."""
    for subscript, extent in zip(access.subscripts, access.array.shape, strict=True):
        for form in (subscript, subscript.times(-1).plus(extent - 1)):
            if not is_nonnegative(form, conditions, box, budget):
                return False
    return True


def is_nonnegative(form: Affine, conditions: Sequence[Affine], box: Box, budget: ProofBudget) -> bool:
    """Tell whether a form is proven to be at least 0 in the part of a box where all `conditions` are."""
    return _prove(form, 1, tuple(c for c in conditions if c.terms), box, islice(budget.steps, PROOF_STEPS))


def _prove(form: Affine, scale: int, conditions: tuple[Affine, ...], box: Box, steps: Iterator[int]) -> bool:
    """Tell whether ``form / scale`` is proven to be above -1."""
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


def find_violation(access: NestAccess, path: Path, launch: Launch, box: Box, budget: ProofBudget) -> str | None:
    """Return a message about a thread whose subscript leaves the array, or None if the search finds none."""
    if next(budget.trials, None) is None:
        return None
    geometry = Geometry(launch)
    blocks = product(*(_candidates(dimension, access, path, box) for dimension in BLOCK_DIMENSIONS))
    loops = sum(isinstance(part, NestLoop) for part in path)
    trials = product(blocks, product((0, 1), repeat=min(loops, 6)))
    for _, (block, ends) in zip(islice(budget.trials, SEARCH_TRIALS), trials, strict=False):
        at: list[NDArray[np.int64] | int] = [*block, *geometry.thread, *[0] * (len(box) - 6)]
        lanes = _reached_lanes(path, at, ends, geometry.mask.lanes)
        if lanes.any() and (wrong := describe_violation(access, at, lanes, launch)):
            return wrong
    return None


def _candidates(dimension: int, access: NestAccess, path: Path, box: Box) -> list[int]:
    """Return block ids at which a condition or a subscript may begin to fail: the ends, and the zeros of forms."""
    last = box[dimension][1]
    candidates = {0, last}
    forms = [form for part in path for form in (leaves(part.distance) if isinstance(part, NestLoop) else part)]
    for subscript, extent in zip(access.subscripts, access.array.shape, strict=True):
        forms += [subscript, subscript.times(-1).plus(extent - 1)]
    for form in forms:
        if coefficient := form.coefficient(dimension):
            rest = form - Affine.of(0, {dimension: coefficient})
            for value in (rest.least(box), rest.most(box)):
                crossing = -value // coefficient
                candidates |= {min(max(crossing + by, 0), last) for by in (0, 1)}
    return sorted(candidates, reverse=True)


def _reached_lanes(
    path: Path, at: list[NDArray[np.int64] | int], ends: Sequence[int], lanes: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Set every loop to its first (`ends` 0) or last (1) iteration, by thread; return the lanes that execute it."""
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


def describe_violation(
    access: NestAccess, at: Sequence[NDArray[np.int64] | int], lanes: NDArray[np.bool_], launch: Launch
) -> str:
    """Return a message about the first of `lanes` whose subscript leaves the array, or an empty string."""
    indices = tuple(subscript.value(at) for subscript in access.subscripts)
    place = Place(access.array, indices, (0,) * len(indices))
    wrong = place.outside(lanes)
    if wrong is None:
        return ""
    lane, message = wrong
    ids = (
        at[d] * size + np.broadcast_to(at[3 + d], lanes.shape)[lane]
        for d, size in zip(BLOCK_DIMENSIONS, launch.block, strict=True)
    )
    return f"thread ({', '.join(str(int(i)) for i in ids)}): {access.where}: {message}"
