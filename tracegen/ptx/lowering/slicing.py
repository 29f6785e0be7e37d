"""Select the steps that matter: a backward slice from addresses, branches and, optionally, stored values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tracegen.ptx.isa._code import BULK_COPIES
from tracegen.ptx.lowering.program import NO_SLOT, Step

READS = frozenset({"LOAD", "ATOM", "TEX", "SULD"})
WRITES = frozenset({"STORE", "ATOM", "SUST"})
"""Operations that read and that write memory, textures and surfaces included."""

_MEMORY_OPS = READS | WRITES
_TEXTURE_OPS = frozenset({"TEX", "SULD", "SUST"})
_CONTROL_OPS = ("BRX", "RET", "BAR", "COPY_BULK", "MBAR")
"""Control operations with sources that decide which steps follow, or what they access."""

_RECORDED_SPACES = frozenset({"GLOBAL", "LOCAL", "CONST"})


ANYWHERE = "anywhere"
"""Target of an access to global memory that may address any array."""


def all_arrays(step: Step) -> frozenset[str]:
    """Return that an access may address any array."""
    return frozenset({ANYWHERE})


class Slice:
    """A backward slice: the steps whose results reach an address, branch, barrier or, with `values`, a global store.

    It grows until no step in it needs another one. A load in the slice adds the stores of the kernel to its space; in
    global memory, the stores to the arrays that it may read (`targets` tells the arrays of an access). Branches and
    guards, which decide about the lanes that execute a step, are part of the slice, except for the branches `without`.
    O(steps x passes over spaces).
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        values: bool,
        without: Collection[int] = (),
        targets: Callable[[Step], frozenset[str]] = all_arrays,
    ) -> None:
        self._steps = steps
        self._targets = targets
        self._writers = _writers(steps)
        self._spaces: set[str] = set()
        self._slots: set[int] = set()
        self.members: set[int] = set()
        for index, step in enumerate(steps):
            if index not in without:
                self._need(_roots(step))
            if step.op in WRITES and "GLOBAL" in spaces_of(step) and values:
                self._spaces.add(_ALL)
            if step.op in ("TRAP", "MBAR"):
                self.members.add(index)
            if step.op == "COPY_BULK":
                self._enter(index)
                if values:
                    self._spaces.add(_ALL)
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
        if step.op in READS:
            self._spaces |= self._places(step) - {"CONST"}
        if step.op == "COPY_BULK":
            self._spaces |= {_ALL if space == "GLOBAL" else space for space in spaces_read_by_copy(step)}

    def _add_stores(self) -> None:
        """Add the stores to every space that the slice reads, until the slice stops growing."""
        done = -1
        while done != len(self.members):
            done = len(self.members)
            for index, step in enumerate(self._steps):
                if step.op in WRITES and index not in self.members and self._is_read(self._places(step)):
                    self._enter(index)
                    self._need((*step.src, step.guard))

    def _places(self, step: Step) -> set[str]:
        """Return the spaces of an access, with the array for global memory."""
        spaces = spaces_of(step)
        return {*spaces - {"GLOBAL"}} | ({f"GLOBAL {a}" for a in self._targets(step)} if "GLOBAL" in spaces else set())

    def _is_read(self, places: set[str]) -> bool:
        reads_all, writes_all = _ALL in self._spaces, _ALL in places
        if (reads_all and any(_is_global(p) for p in places)) or (writes_all and any(map(_is_global, self._spaces))):
            return True
        return not places.isdisjoint(self._spaces)


_ALL = f"GLOBAL {ANYWHERE}"


def _is_global(place: str) -> bool:
    return place.startswith("GLOBAL")


def _writers(steps: Sequence[Step]) -> dict[int, list[int]]:
    writers: dict[int, list[int]] = {}
    for index, step in enumerate(steps):
        for slot in step.dst:
            writers.setdefault(slot, []).append(index)
    return writers


def _roots(step: Step) -> tuple[int, ...]:
    if step.op in _TEXTURE_OPS:
        return (*step.src[:4], step.guard)
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


_TO_GLOBAL = BULK_COPIES["BULK_STORE"], BULK_COPIES["BULK_REDUCE"]


def spaces_written_by_copy(step: Step) -> frozenset[str]:
    """Return the spaces that a bulk copy fills."""
    return frozenset({"GLOBAL" if step.mode in _TO_GLOBAL else "SHARED"})


def spaces_read_by_copy(step: Step) -> frozenset[str]:
    """Return the spaces with the tensor map of a bulk copy, which decides what it accesses."""
    return frozenset({step.space} - {"CONST"}) if step.count else frozenset()


def spaces_of(step: Step) -> frozenset[str]:
    """Return the memory spaces that a memory step may access."""
    return frozenset({"GLOBAL", "LOCAL", "SHARED"}) if step.space == "GENERIC" else frozenset({step.space})


def depends_on_data(steps: Sequence[Step], members: set[int]) -> bool:
    """Return whether a slice reads global memory."""
    return any(
        (steps[i].op in READS and "GLOBAL" in spaces_of(steps[i]))
        or (steps[i].op == "COPY_BULK" and "GLOBAL" in spaces_read_by_copy(steps[i]))
        for i in members
    )


def changes_own_data(steps: Sequence[Step], members: set[int]) -> bool:
    """Return whether a slice that reads global memory also writes there: a block may find what another has stored.

    A slice holds the stores to every array that it may read, so that one without stores reads arrays that the kernel
    leaves alone.
    """
    return depends_on_data(steps, members) and any(
        (steps[i].op in WRITES and "GLOBAL" in spaces_of(steps[i]))
        or (steps[i].op == "COPY_BULK" and "GLOBAL" in spaces_written_by_copy(steps[i]))
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
