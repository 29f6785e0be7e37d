"""Which steps matter: a backward slice from addresses, branches and, if wanted, stored values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracegen.ptx.lowering.program import NONE, Step

_MEMORY = ("LOAD", "STORE", "ATOM")
_CONTROL = ("BRX", "RET", "BAR")
_RECORDED = frozenset({"GLOBAL", "LOCAL", "CONST"})


def slice_steps(steps: Sequence[Step], *, values: bool) -> set[int]:
    """Return the steps whose results reach an address, a branch or a barrier; with `values`, also a global store.

    A load in the slice brings in what the kernel stores to its space. Which lanes execute a step is decided by
    branches and guards, and these are always in. O(steps x passes over spaces).
    """
    return _Slice(steps, values).members


class _Slice:
    """Grows until nothing more is needed."""

    def __init__(self, steps: Sequence[Step], values: bool) -> None:
        self._steps = steps
        self._writers = _writers(steps)
        self._spaces: set[str] = set()
        self._slots: set[int] = set()
        self.members: set[int] = set()
        for index, step in enumerate(steps):
            self._need(_roots(step))
            if step.op in ("STORE", "ATOM") and "GLOBAL" in spaces(step) and values:
                self._spaces.add("GLOBAL")
            if step.op == "TRAP" and not step.dst:
                self.members.add(index)
        self._add_stores()

    def _need(self, slots: Iterable[int]) -> None:
        waiting = [slot for slot in slots if slot != NONE]
        while waiting:
            slot = waiting.pop()
            if slot in self._slots:
                continue
            self._slots.add(slot)
            for index in self._writers.get(slot, ()):
                self._enter(index)
                step = self._steps[index]
                waiting += [source for source in (*step.src, step.guard) if source != NONE]

    def _enter(self, index: int) -> None:
        self.members.add(index)
        step = self._steps[index]
        if step.op in ("LOAD", "ATOM"):
            self._spaces |= spaces(step) - {"CONST"}

    def _add_stores(self) -> None:
        """Bring in the stores to every space that is read, until no more spaces are."""
        done = -1
        while done != len(self.members):
            done = len(self.members)
            for index, step in enumerate(self._steps):
                if step.op in ("STORE", "ATOM") and spaces(step) & self._spaces:
                    self._enter(index)
                    self._need((*step.src, step.guard))


def _writers(steps: Sequence[Step]) -> dict[int, list[int]]:
    writers: dict[int, list[int]] = {}
    for index, step in enumerate(steps):
        for slot in step.dst:
            writers.setdefault(slot, []).append(index)
    return writers


def _roots(step: Step) -> tuple[int, ...]:
    if step.op in _MEMORY:
        return (step.src[0], step.guard)
    if step.op == "BRA":
        return (step.guard,)
    return step.src if step.op in _CONTROL else ()


def spaces(step: Step) -> frozenset[str]:
    """Return the memory spaces that a memory step may access."""
    return frozenset({"GLOBAL", "LOCAL", "SHARED"}) if step.space == "GENERIC" else frozenset({step.space})


def depends_on_data(steps: Sequence[Step], members: set[int]) -> bool:
    """Return whether a slice reads what global memory holds."""
    return any(steps[i].op in ("LOAD", "ATOM") and "GLOBAL" in spaces(steps[i]) for i in members)


def tainted_slots(steps: Sequence[Step]) -> set[int]:
    """Return the slots that can depend on a recorded load or atomic."""
    readers: dict[int, list[Step]] = {}
    waiting: list[int] = []
    for step in steps:
        if step.op not in _MEMORY:
            for slot in step.src:
                readers.setdefault(slot, []).append(step)
        elif spaces(step) & _RECORDED:
            waiting += step.dst
    tainted: set[int] = set()
    while waiting:
        slot = waiting.pop()
        if slot != NONE and slot not in tainted:
            tainted.add(slot)
            waiting += [written for step in readers.get(slot, ()) for written in step.dst]
    return tainted
