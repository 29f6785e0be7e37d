"""Select the steps that matter: a backward slice from addresses, branches and, optionally, stored values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tracegen.ptx.isa._code import BULK_COPIES
from tracegen.ptx.lowering.program import NO_SLOT, Step

_MEMORY_OPS = ("LOAD", "STORE", "ATOM")
_CONTROL_OPS = ("BRX", "RET", "BAR", "COPY_BULK", "MBAR")
"""Control operations with sources that decide which steps follow, or what they access."""

_RECORDED_SPACES = frozenset({"GLOBAL", "LOCAL", "CONST"})


def slice_steps(steps: Sequence[Step], *, values: bool) -> set[int]:
    """Return the indices of steps whose results reach an address, branch, barrier or, with `values`, a global store.

    A load in the slice adds the stores of the kernel to its space. Branches and guards, which decide about the lanes
    that execute a step, are always part of the slice. O(steps x passes over spaces).
    """
    return Slice(steps, values=values).members


class Slice:
    """A slice that grows until no step in it needs another one; the branches `without` are no part of it."""

    def __init__(self, steps: Sequence[Step], *, values: bool, without: Collection[int] = ()) -> None:
        self._steps = steps
        self._writers = _writers(steps)
        self._spaces: set[str] = set()
        self._slots: set[int] = set()
        self.members: set[int] = set()
        for index, step in enumerate(steps):
            if index not in without:
                self._need(_roots(step))
            if step.op in ("STORE", "ATOM") and "GLOBAL" in spaces_of(step) and values:
                self._spaces.add("GLOBAL")
            if step.op in ("TRAP", "MBAR"):
                self.members.add(index)
            if step.op == "COPY_BULK":
                self._enter(index)
                if values:
                    self._spaces.add("GLOBAL")
        self._add_stores()

    def _need(self, slots: Iterable[int]) -> None:
        waiting = [slot for slot in slots if slot != NO_SLOT]
        while waiting:
            slot = waiting.pop()
            if slot in self._slots:
                continue
            self._slots.add(slot)
            for index in self._writers.get(slot, ()):
                self._enter(index)
                step = self._steps[index]
                waiting += [source for source in (*step.src, step.guard) if source != NO_SLOT]

    def _enter(self, index: int) -> None:
        self.members.add(index)
        step = self._steps[index]
        if step.op in ("LOAD", "ATOM"):
            self._spaces |= spaces_of(step) - {"CONST"}
        if step.op == "COPY_BULK":
            self._spaces |= spaces_read_by_copy(step)

    def _add_stores(self) -> None:
        """Add the stores to every space that the slice reads, until the slice stops growing."""
        done = -1
        while done != len(self.members):
            done = len(self.members)
            for index, step in enumerate(self._steps):
                if step.op in ("STORE", "ATOM") and spaces_of(step) & self._spaces:
                    self._enter(index)
                    self._need((*step.src, step.guard))


def _writers(steps: Sequence[Step]) -> dict[int, list[int]]:
    writers: dict[int, list[int]] = {}
    for index, step in enumerate(steps):
        for slot in step.dst:
            writers.setdefault(slot, []).append(index)
    return writers


def _roots(step: Step) -> tuple[int, ...]:
    if step.op in _MEMORY_OPS and "LAZY" not in step.flags:
        return (step.src[0], step.guard)
    if step.op == "BRA":
        return (step.guard,)
    if step.op in ("COPY_BULK", "MBAR"):
        return (*step.src, step.guard)
    return step.src if step.op in _CONTROL_OPS else ()


def is_memory_step(step: Step) -> bool:
    """Return whether a step loads, stores or updates memory."""
    return step.op in _MEMORY_OPS


def spaces_written_by_copy(step: Step) -> frozenset[str]:
    """Return the spaces that a bulk copy fills."""
    return frozenset({"SHARED" if step.mode == BULK_COPIES["BULK_LOAD"] else "GLOBAL"})


def spaces_read_by_copy(step: Step) -> frozenset[str]:
    """Return the spaces with the tensor map of a bulk copy, which decides what it accesses."""
    return frozenset({step.space} - {"CONST"}) if step.count else frozenset()


def spaces_of(step: Step) -> frozenset[str]:
    """Return the memory spaces that a memory step may access."""
    return frozenset({"GLOBAL", "LOCAL", "SHARED"}) if step.space == "GENERIC" else frozenset({step.space})


def depends_on_data(steps: Sequence[Step], members: set[int]) -> bool:
    """Return whether a slice reads global memory."""
    return any(
        (steps[i].op in ("LOAD", "ATOM") and "GLOBAL" in spaces_of(steps[i]))
        or (steps[i].op == "COPY_BULK" and "GLOBAL" in spaces_read_by_copy(steps[i]))
        for i in members
    )


def tainted_slots(steps: Sequence[Step]) -> set[int]:
    """Return the slots that can depend on a recorded load or atomic."""
    readers: dict[int, list[Step]] = {}
    waiting: list[int] = []
    for step in steps:
        if step.op == "COPY_BULK":
            waiting += step.dst
        elif step.op not in _MEMORY_OPS:
            for slot in step.src:
                readers.setdefault(slot, []).append(step)
        elif spaces_of(step) & _RECORDED_SPACES:
            waiting += step.dst
    tainted: set[int] = set()
    while waiting:
        slot = waiting.pop()
        if slot != NO_SLOT and slot not in tainted:
            tainted.add(slot)
            waiting += [written for step in readers.get(slot, ()) for written in step.dst]
    return tainted
