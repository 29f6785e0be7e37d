"""Find the parts of a lowered kernel whose trace may differ from that on a GPU, to tell the user."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rdmodel.common.kernel_names import base_name
from tracegen.ptx.lowering.program import NO_SLOT, LoweredKernel, Step

_MEMORY_STEPS = frozenset({"LOAD", "STORE", "ATOM", "TEX", "SULD", "SUST"})


def decisive_variables(
    program: LoweredKernel, decisive: Collection[int], places: Mapping[str, tuple[int, int]]
) -> list[str]:
    """Return the variables that addresses or branches may depend on, of those at `places`.

    `decisive` are the steps on which addresses and branches depend, and `places` has (address, bytes) of variables.
    The addresses of variables are followed through registers, but not through memory. O(steps x variables).
    """
    pointers = _pointers(program, places)
    found: set[str] = set()
    for index in decisive:
        step = program.steps[index]
        if step.op == "LOAD" and step.space in ("CONST", "GENERIC"):
            found |= pointers.get(step.src[0], set())
    return sorted(found)


def _pointers(program: LoweredKernel, places: Mapping[str, tuple[int, int]]) -> dict[int, set[str]]:
    """Return the variables that each slot may have an address of."""
    pointers: dict[int, set[str]] = {}
    for slot, constant in enumerate(program.constants, program.variables):
        if isinstance(constant, int):
            for name, (address, size) in places.items():
                if address <= constant < address + max(1, size):
                    pointers[slot] = {name}
    readers: dict[int, list[Step]] = {}
    for step in program.steps:
        if step.op not in _MEMORY_STEPS:
            for slot in step.src:
                readers.setdefault(slot, []).append(step)
    waiting = list(pointers)
    while waiting:
        slot = waiting.pop()
        for step in readers.get(slot, ()):
            for written in step.dst:
                known = pointers.setdefault(written, set())
                if written != NO_SLOT and not pointers[slot] <= known:
                    known |= pointers[slot]
                    waiting.append(written)
    return pointers


def describe_unfilled(variables: Sequence[str]) -> str:
    """Return a sentence about variables that decide about addresses or branches, but were not filled."""
    names = [base_name(name) for name in variables]
    return (
        f"addresses or branches depend on variables that hold zeros, since they were not filled: {', '.join(names)} "
        f"(fill them with --arg symbol:{names[0]}=..., or 'variables' in Python or in a launch file)"
    )
