"""Find branches that decide about values only, so that a condition that is not computed need not stop a kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.poisoning import PoisonFlow
from tracegen.ptx.lowering.program import NO_SLOT, Step
from tracegen.ptx.lowering.slicing import REGISTER_SPACES, Slice, all_arrays

_MAX_REGION = 4096
"""Maximum number of steps of a region that is examined."""

_EFFECTS = frozenset(
    {
        "STORE",
        "ATOM",
        "TEX",
        "SULD",
        "SUST",
        "MOVE_BULK",
        "BRX",
        "CALL",
        "RET",
        "EXIT",
        "BAR",
        "TRAP",
        "COPY_BULK",
        "MBAR",
    }
)


@dataclass(frozen=True, slots=True)
class Region:
    """The steps `first` to `end` - 1, of which a branch executes some; all ways lead to the step `join`."""

    first: int
    end: int
    join: int


@dataclass(frozen=True, slots=True)
class ReducedSlice:
    """A slice without the branches `skipped`, which always jump behind their regions.

    `optional` are branches that jump there for the lanes whose condition is poisoned; their regions then write poison.
    """

    members: set[int]
    skipped: dict[int, Region]
    optional: dict[int, Region]


def reduce_slice(
    steps: Sequence[Step], *, values: bool, targets: Callable[[Step], frozenset[str]] = all_arrays
) -> ReducedSlice:
    """Return the slice of `slicing`, without branches that only decide about values which are not computed."""
    full = Slice(steps, values=values, targets=targets).members
    slots = PoisonFlow(steps, full).slots
    regions = {}
    for index, step in enumerate(steps):
        if step.op == "BRA" and step.guard in slots and (region := _region(steps, index)) is not None:
            regions[index] = region
    skipped = dict(regions)
    while skipped:
        reduced = Slice(steps, values=values, without=skipped, targets=targets)
        needed = {at for at, region in skipped.items() if _decides(steps, at, region, reduced.members)}
        if not needed:
            return ReducedSlice(reduced.members, skipped, {at: r for at, r in regions.items() if at not in skipped})
        skipped = {at: region for at, region in skipped.items() if at not in needed}
    return ReducedSlice(full, {}, regions)


def written_slots(steps: Sequence[Step], region: Region) -> list[int]:
    """Return the slots that the steps of a region write, ascending."""
    return sorted({slot for step in steps[region.first : region.end] for slot in step.dst} - {NO_SLOT})


def _decides(steps: Sequence[Step], branch: int, region: Region, members: Collection[int]) -> bool:
    """Return whether a step of the slice lies in the region, where the branch decides about it."""
    return any(at in members for at in range(region.first, region.end) if steps[at].op != "BRA")


def _region(steps: Sequence[Step], branch: int) -> Region | None:
    """Return the steps that a branch decides about; None if they have effects, or other ways out."""
    after, target = branch + 1, steps[branch].target
    first, join = (after, target) if target > branch else (target, after)
    # Compilers place the rare side of a branch at the end of the code, from where it jumps back, and the start of a
    # loop, where both sides may meet, before its other parts.
    return _between(steps, first, join) or _apart(steps, after, target) or _apart(steps, target, after)


def _between(steps: Sequence[Step], first: int, join: int) -> Region | None:
    """Return the region from a step to the one behind it where all ways meet, which may follow `join`."""
    at = first
    while at < join:
        step = steps[at]
        if join - first > _MAX_REGION or _has_effect(step):
            return None
        if step.op == "BRA":
            if step.target < first:
                return None
            join = max(join, step.target)
        at += 1
    return Region(first, join, join) if join > first else None


def _apart(steps: Sequence[Step], first: int, join: int) -> Region | None:
    """Return the region from a step to a jump to `join`, which lies elsewhere in the code."""
    furthest = first
    for at in range(first, min(first + _MAX_REGION, len(steps))):
        step = steps[at]
        if at == join or _has_effect(step):
            return None
        if step.op == "BRA" and step.target == join:
            if step.guard == NO_SLOT and furthest <= at:
                return Region(first, at + 1, join)
        elif step.op == "BRA":
            if step.target < first:
                return None
            furthest = max(furthest, step.target)
    return None


def _has_effect(step: Step) -> bool:
    return step.op in _EFFECTS or (step.op == "LOAD" and step.space not in {"SHARED", *REGISTER_SPACES})
