"""Tell which loads the assembler leaves behind a store that may change what they read (`validation.scheduling`).

It moves a load ahead of stores to other spaces, and of stores whose address is in the same register as its own. It
leaves the load behind any other store, since nothing is known of two pointers, unless the load is one of data that do
not change (``ld.global.nc``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tracegen.ptx.lowering.program import NO_SLOT, Step
from tracegen.ptx.lowering.slicing import WRITES, is_memory_step

NONE = -1

_CONFLICTS = {
    "GLOBAL": ("GLOBAL", "GENERIC"),
    "SHARED": ("SHARED", "GENERIC"),
    "LOCAL": ("LOCAL", "GENERIC"),
    "GENERIC": ("GENERIC", "GLOBAL", "SHARED", "LOCAL"),
}
"""Spaces of stores that may change what the loads of a space read."""


class _Latest:
    """The latest store to a space, the register of its address, and the latest one with another register."""

    def __init__(self) -> None:
        self.base, self.store, self.other = NO_SLOT, NONE, NONE

    def add(self, base: int, store: int) -> None:
        if base != self.base:
            self.other, self.base = self.store, base
        self.store = store

    def in_the_way(self, base: int) -> int:
        return self.other if base == self.base else self.store


def stores_before(steps: Sequence[Step]) -> list[int]:
    """Return for each step of a piece the place of the store that it stays behind; `NONE` if there is none.

    A place that does not precede the step is that of a store in the iteration before. O(steps).
    """
    latest: dict[str, _Latest] = {}
    found: list[int] = []
    for iteration in range(2):
        found = []
        for at, step in enumerate(steps):
            store = _store_before(step, latest)
            found.append(store % len(steps) if store != NONE else NONE)
            if step.op in WRITES and is_memory_step(step):
                latest.setdefault(step.space, _Latest()).add(step.src[0], at + iteration * len(steps))
    return found


def _store_before(step: Step, latest: Mapping[str, _Latest]) -> int:
    if step.op not in ("LOAD", "ATOM") or "nc" in step.origin.modifiers:
        return NONE
    if step.space == "KEPT":  # an array in registers: the load is a use of what the store defines
        return latest["KEPT"].store if "KEPT" in latest else NONE
    spaces = _CONFLICTS.get(step.space, ())
    return max((latest[space].in_the_way(step.src[0]) for space in spaces if space in latest), default=NONE)
