"""Find the arrays that each access may address, so that a load needs the stores to its own array only.

An address is the sum of a pointer and an offset: it stays within the array that its pointer, an argument of the launch
or the address of a variable, points to. A pointer that was loaded from memory may point anywhere. So may one that was
put together from parts that were loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tracegen.ptx.lowering.program import NO_SLOT, LoweredKernel, Step
from tracegen.ptx.lowering.slicing import ANYWHERE, READS, WRITES

_PART = "part"
"""Mark of a loaded number of less than 64 bits, which may be a part of a pointer."""

_PARTS = 32
"""Bits of half a pointer."""

_WHOLE = 64
"""Bits of a pointer."""


def global_targets(
    program: LoweredKernel, constants: Mapping[int, str], mapped: Mapping[str, str]
) -> Callable[[Step], frozenset[str]]:
    """Return the function that tells the arrays which a step may access in global memory.

    `constants` has the array at the address that a constant slot holds, and `mapped` the one that a tensor map
    describes, by the name of the map. The function returns names of arrays, or `ANYWHERE` alone.
    """
    small = {
        slot
        for slot, value in enumerate(program.constants, program.variables)
        if isinstance(value, int) and value < _PARTS
    }
    targets = _follow(program.steps, {slot: {name} for slot, name in constants.items()}, small)

    def of(step: Step) -> frozenset[str]:
        found = targets.get(step.src[0], set()) - {_PART}
        if step.op == "MOVE_BULK" and step.count:  # its address is that of a tensor map
            found = {mapped.get(name, ANYWHERE) for name in found}
        return frozenset({ANYWHERE}) if not found or ANYWHERE in found else frozenset(found)

    return of


def _follow(steps: Sequence[Step], targets: dict[int, set[str]], small: Collection[int]) -> dict[int, set[str]]:
    """Pass the targets of slots on to the slots that are computed from them; `small` are numbers below 32."""
    readers: dict[int, list[Step]] = {}
    for step in steps:
        if step.op in READS:
            mark = ANYWHERE if step.width >= _WHOLE or step.space == "CONST" else _PART
            for slot in step.dst:
                targets.setdefault(slot, set()).add(mark)
        elif step.op not in WRITES:
            for slot in step.src:
                readers.setdefault(slot, []).append(step)
    waiting = list(targets)
    while waiting:
        slot = waiting.pop()
        for step in readers.get(slot, ()):
            passed = set(targets[slot])
            if _PART in passed and _joins_parts(step, small):
                passed.add(ANYWHERE)
            for written in step.dst:
                known = targets.setdefault(written, set())
                if written != NO_SLOT and not passed <= known:
                    known |= passed
                    waiting.append(written)
    return targets


def _joins_parts(step: Step, small: Collection[int]) -> bool:
    """Return whether a step moves a number to the upper half of a pointer."""
    return step.width >= _WHOLE and (step.op == "BFI" or (step.op == "SHL" and step.src[1] not in small))
