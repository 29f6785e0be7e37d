"""Select the steps that matter: a backward slice from addresses, branches and, optionally, stored values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tracegen.ptx.isa._code import BULK_COPIES
from tracegen.ptx.lowering.program import NO_SLOT, Step

_MEMORY_OPS = frozenset({"LOAD", "STORE", "ATOM", "TEX", "SULD", "SUST"})

READS = frozenset({"LOAD", "ATOM", "TEX", "SULD", "MOVE_BULK"})
WRITES = frozenset({"STORE", "ATOM", "SUST", "MOVE_BULK"})
"""Operations that read and that write memory, textures and surfaces included."""

_TEXTURE_OPS = frozenset({"TEX", "SULD", "SUST"})
_CONTROL_OPS = ("BRX", "RET", "BAR")
"""Control operations with sources that decide which steps follow."""

_RECORDED_SPACES = frozenset({"GLOBAL", "LOCAL", "CONST"})

REGISTER_SPACES = frozenset({"FRAME", "KEPT"})
"""Spaces whose contents machine code has in registers: parameters of functions, and some local arrays."""


ANYWHERE = "anywhere"
"""Target of an access to global memory that may address any array."""

PARAMETER = "parameter "
"""Start of the name of a target that is a parameter of the kernel, at an offset; no store changes it."""

PRIVATE = "private "
"""Start of the name of a target of which each block has a part of its own; no address of it lies in memory.

A block writes what it reads there before it reads it, so that nothing passes from one block to another.
"""

MAP_FLAG = "MAP"
"""Flag of the stores to a tensor map in shared memory, and of the loads of one that these stores fill alone."""


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
            if step.op in WRITES and "GLOBAL" in spaces_written(step) and values:
                self._spaces.add(_ALL)
            if step.op in ("TRAP", "MBAR", "COPY_BULK"):
                self._enter(index)
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
        if step.op in READS or step.op == "COPY_BULK":
            self._spaces |= self._places(step, spaces_read(step)) - {"CONST"}

    def _add_stores(self) -> None:
        """Add the stores to every space that the slice reads, until the slice stops growing."""
        done = -1
        while done != len(self.members):
            done = len(self.members)
            for index, step in enumerate(self._steps):
                if step.op not in WRITES or index in self.members:
                    continue
                if self._is_read(self._places(step, spaces_written(step))):
                    self._enter(index)
                    self._need((*step.src, step.guard))

    def _places(self, step: Step, spaces: frozenset[str]) -> set[str]:
        """Return the spaces of an access, with the arrays for global memory; private ones are spaces of their own."""
        arrays = [a for a in self._targets(step) if not a.startswith(PARAMETER)] if "GLOBAL" in spaces else []
        return {*spaces - {"GLOBAL"}, *(a if a.startswith(PRIVATE) else f"GLOBAL {a}" for a in arrays)}

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
    if step.op in ("MOVE_BULK", "COPY_BULK", "MBAR"):
        return (*step.src, step.guard)
    if step.op == "POISON" and step.origin.opcode == "tcgen05":
        return (step.guard,)  # tells which warp starts a product
    return step.src if step.op in _CONTROL_OPS else ()


def is_memory_step(step: Step) -> bool:
    """Return whether a step loads, stores or updates memory."""
    return step.op in _MEMORY_OPS


_MOVED = {
    "BULK_LOAD": ({"GLOBAL"}, "SHARED"),
    "BULK_STORE": ({"SHARED"}, "GLOBAL"),
    "BULK_REDUCE": ({"SHARED", "GLOBAL"}, "GLOBAL"),
    "BULK_SHARED": ({"SHARED"}, "SHARED"),
    "BULK_UPDATE": ({"SHARED"}, "SHARED"),
    "BULK_CLEAR": (set[str](), "SHARED"),
}
"""The spaces that the data of a bulk copy come from, and the one that they go to, by the kind of the copy."""

_MOVES = {BULK_COPIES[kind]: (frozenset(origins), frozenset({target})) for kind, (origins, target) in _MOVED.items()}


def spaces_read(step: Step) -> frozenset[str]:
    """Return the spaces that a step reads: of a bulk copy, the one with its tensor map, which tells what to access."""
    tensor_map = frozenset({step.space}) if step.op in ("MOVE_BULK", "COPY_BULK") and step.count else frozenset[str]()
    if step.op == "MOVE_BULK":
        return spaces_moved(step) | tensor_map
    if step.op == "LOAD" and MAP_FLAG in step.flags:
        return _MAPS
    return tensor_map if step.op == "COPY_BULK" else spaces_of(step)


def spaces_moved(step: Step) -> frozenset[str]:
    """Return the spaces that the data of a bulk copy come from."""
    return _MOVES[step.mode][0]


def spaces_written(step: Step) -> frozenset[str]:
    """Return the spaces that a step writes, if it writes memory."""
    if step.op == "MOVE_BULK":
        return _MOVES[step.mode][1]
    return spaces_of(step) | (_MAPS if MAP_FLAG in step.flags else frozenset())


_MAPS = frozenset({"MAP"})
"""Space of the tensor maps in shared memory, beside that of all its contents."""


def spaces_of(step: Step) -> frozenset[str]:
    """Return the memory spaces that a memory step may access."""
    return frozenset({"GLOBAL", "LOCAL", "SHARED"}) if step.space == "GENERIC" else frozenset({step.space})


def depends_on_data(steps: Sequence[Step], members: set[int], targets: Callable[[Step], frozenset[str]]) -> bool:
    """Return whether a slice reads global memory, other than the parameters of the kernel and what is private."""
    readers = READS | {"COPY_BULK"}
    reads = (steps[i] for i in members if steps[i].op in readers and "GLOBAL" in spaces_read(steps[i]))
    return any(not name.startswith((PARAMETER, PRIVATE)) for step in reads for name in targets(step))


def changes_data(steps: Sequence[Step], members: set[int], targets: Callable[[Step], frozenset[str]]) -> bool:
    """Return whether a slice writes global memory, other than what is private to a block.

    A slice holds the stores to every array that it may read. If it reads arrays and holds no stores, the kernel leaves
    these arrays alone; otherwise, a block may find what another has stored.
    """
    writes = (steps[i] for i in members if steps[i].op in WRITES and "GLOBAL" in spaces_written(steps[i]))
    return any(not name.startswith(PRIVATE) for step in writes for name in targets(step))


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
