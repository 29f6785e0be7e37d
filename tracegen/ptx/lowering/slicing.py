"""Select the steps that matter: a backward slice from addresses, branches and, optionally, stored values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracegen.ptx.lowering.program import NO_SLOT, Step

_MEMORY_OPS = ("LOAD", "STORE", "ATOM")
_CONTROL_OPS = ("BRX", "RET", "BAR")
"""Control operations with sources that decide which steps follow."""

_RECORDED_SPACES = frozenset({"GLOBAL", "LOCAL", "CONST"})


def slice_steps(steps: Sequence[Step], *, values: bool) -> set[int]:
    """Return the indices of steps whose results reach an address, branch, barrier or, with `values`, a global store.

    A load in the slice adds the stores of the kernel to its space. Branches and guards, which decide about the lanes
    that execute a step, are always part of the slice. O(steps x passes over spaces).
    """
    return _Slice(steps, values).members


class _Slice:
    """A slice that grows until no step in it needs another one."""

    def __init__(self, steps: Sequence[Step], values: bool) -> None:
        self._steps = steps
        self._writers = _writers(steps)
        self._spaces: set[str] = set()
        self._slots: set[int] = set()
        self.members: set[int] = set()
        for index, step in enumerate(steps):
            self._need(_roots(step))
            if step.op in ("STORE", "ATOM") and "GLOBAL" in spaces_of(step) and values:
                self._spaces.add("GLOBAL")
            if step.op == "TRAP" and not step.dst:
                self.members.add(index)
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
    if step.op in _MEMORY_OPS:
        return (step.src[0], step.guard)
    if step.op == "BRA":
        return (step.guard,)
    return step.src if step.op in _CONTROL_OPS else ()


def spaces_of(step: Step) -> frozenset[str]:
    """Return the memory spaces that a memory step may access."""
    return frozenset({"GLOBAL", "LOCAL", "SHARED"}) if step.space == "GENERIC" else frozenset({step.space})


def depends_on_data(steps: Sequence[Step], members: set[int]) -> bool:
    """Return whether a slice reads global memory."""
    return any(steps[i].op in ("LOAD", "ATOM") and "GLOBAL" in spaces_of(steps[i]) for i in members)


def tainted_slots(steps: Sequence[Step]) -> set[int]:
    """Return the slots that can depend on a recorded load or atomic."""
    readers: dict[int, list[Step]] = {}
    waiting: list[int] = []
    for step in steps:
        if step.op not in _MEMORY_OPS:
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
