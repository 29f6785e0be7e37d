"""Find the chains of dependent instructions in the straight pieces of a kernel: what a warp waits for when it is alone.

A piece is a sequence of steps that is entered at its first one only, and left after its last one only. The assembler
orders the instructions of a piece, so that a warp needs for it the cycles of the longest chain, or of all instructions.
It loads early only what there are registers for. A barrier ends a piece. Short branches are predicates and end none,
but the assembler leaves their instructions in place: where one of them uses what another one has loaded, the warp waits
before it comes to the next branch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.constants import constant_loads
from tracegen.ptx.lowering.machine_code import machine_code
from tracegen.ptx.lowering.predication import CONTROL, predicated_branches
from tracegen.ptx.lowering.program import NO_SLOT, LoweredKernel, Step
from tracegen.ptx.lowering.slicing import READS, is_memory_step

EARLY_LOADS = 8
"""Registers that the assembler takes beside those of the values that are live in the PTX, because it loads early.

It is the mean of the kernels in `tracegen/cuda/sources` (docs/work.md). Where the assembler takes fewer than these in
all, it has saved others, such as those of addresses.
"""

LOOP_ITERATIONS = 3
"""Iterations of a loop after which the time from one to the next does not change."""

_LOADS = {
    "GLOBAL": "load_global", "GENERIC": "load_global", "LOCAL": "load_local", "SHARED": "load_shared",
}  # fmt: skip
"""Names of the latencies of loads, by space."""


Chain = tuple[float, Mapping[str, float], float]
"""A piece, summed over its executions: cycles, its instructions by class without accesses to memory, its accesses."""


@dataclass(frozen=True, slots=True)
class Link:
    """A step in a chain: the slots that it reads and writes, and its `latency`, by name ("" for none).

    `branch` is the step of the branch whose predicate it has; -1 for none. A load takes `registers` until the link
    `last_use`, while `held` registers have other values; `held` is negative if this is unknown.
    """

    src: tuple[int, ...]
    dst: tuple[int, ...]
    latency: str
    memory: bool
    branch: int = -1
    registers: int = 0
    last_use: int = 0
    held: int = -1


@dataclass(frozen=True, slots=True)
class Piece:
    """A straight piece: its links, and its instructions by class; `accesses` are those of memory.

    `counted` is the step by which the emulator counts its executions, or -1 if it has none. `loop` tells whether the
    piece may follow itself. `most_live` are the most registers that are live at an instruction of the kernel.
    """

    counted: int
    links: Sequence[Link]
    classes: Mapping[str, int]
    accesses: int
    loop: bool
    most_live: int = 0

    def longest_chain(self, latencies: Mapping[str, float], registers: int = 0) -> float:
        """Return the cycles from the begin of the piece to its last result, and to the start of its last load.

        A load whose data no step of the piece uses is not waited for. In a loop, the next iteration may need it: then
        the result is the time from one iteration to the next. Loads overlap as far as a thread has `registers` for
        their data; 0: without bound.
        """
        ready: dict[int, float] = {}
        ends = [0.0]
        most = max(registers, self.most_live + EARLY_LOADS) if registers else 0
        for _ in range(LOOP_ITERATIONS if self.loop else 1):
            begin = longest = ends[-1]
            branch, window = _Branch(begin), _Window(most)
            for at, link in enumerate(self.links):
                start = max((ready.get(slot, begin) for slot in link.src), default=begin)
                start = max(start, begin if link.branch < 0 else branch.enter(link), window.enter(at, link))
                end = start + (latencies[link.latency] if link.latency else 0.0)
                for slot in link.dst:
                    ready[slot] = end
                branch.add(link, start)
                window.add(at, link, start)
                longest = max(longest, start + 1 if link.memory else end)
            ends.append(longest)
        return ends[-1] - ends[-2]


class _Window:
    """The loads under way, which have registers for their data, and when these are free for other loads.

    The assembler moves loads ahead of instructions that do not need them, as far as there are registers for the data.
    So a load starts when the data of enough earlier ones have been used by instructions that precede it in the PTX.
    """

    def __init__(self, registers: int) -> None:
        self._registers = registers
        self._taken = 0
        self._loads: dict[int, tuple[Link, float]] = {}  # by their places, with the times of their last uses so far
        self._loaded: dict[int, int] = {}  # the load of each slot

    def enter(self, at: int, link: Link) -> float:
        """Return the time before which the link at a place cannot start: when there are registers for a load."""
        start = 0.0
        if not self._registers or not link.registers or link.held < 0:
            return start
        while self._taken + link.registers > self._registers - link.held:
            used = [place for place, (load, _) in self._loads.items() if load.last_use < at]
            if not used:
                break
            first = min(used, key=lambda place: self._loads[place][1])
            load, free = self._loads.pop(first)
            self._taken -= load.registers
            start = max(start, free)
        return start

    def add(self, at: int, link: Link, start: float) -> None:
        """Let a link that has started use the data of loads; if it is a load, it takes registers."""
        for slot in link.src:
            place = self._loaded.get(slot, -1)
            if place in self._loads:
                load, before = self._loads[place]
                self._loads[place] = load, max(before, start)
        for slot in link.dst:
            self._loaded.pop(slot, None)
        if self._registers and link.registers and link.held >= 0:
            self._loads[at] = link, start
            self._loaded |= dict.fromkeys(link.dst, at)
            self._taken += link.registers


class _Branch:
    """The branch whose instructions a warp issues, and when it comes to the next one."""

    def __init__(self, begin: float) -> None:
        self._number = -1
        self._begin = self._next = begin
        self._loaded: set[int] = set()

    def enter(self, link: Link) -> float:
        """Return the time before which a link with a predicate cannot start: when the branch before it is over."""
        if link.branch != self._number:
            self._number, self._begin, self._loaded = link.branch, self._next, set()
        return self._begin

    def add(self, link: Link, start: float) -> None:
        """Let the next branch wait for a link that uses what its own branch has loaded."""
        if link.branch < 0:
            return
        if self._loaded & set(link.src):
            self._next = max(self._next, start)
        if link.memory:
            self._loaded |= set(link.dst)


def straight_pieces(kernel: LoweredKernel, live: Mapping[int, int]) -> list[Piece]:
    """Return the pieces of a kernel, in the order of its steps.

    `live` are the registers that are live at each instruction, by its `id`.
    """
    steps = kernel.steps
    skips, constants = predicated_branches(steps), constant_loads(kernel)
    starts = {0, *kernel.targets}
    for index, step in enumerate(steps):
        if step.op in CONTROL and index not in skips:
            starts.add(index + 1)
            if isinstance(step.target, int) and step.op in ("BRA", "CALL"):
                starts.add(step.target)
    ordered = sorted(start for start in starts if start < len(steps))
    return [_piece(steps, first, end, skips, constants, live) for first, end in pairwise([*ordered, len(steps)])]


def _piece(
    steps: Sequence[Step],
    first: int,
    end: int,
    skips: Collection[int],
    constants: Mapping[int, str],
    live: Mapping[int, int],
) -> Piece:
    links, classes, accesses, counted = [], dict[str, int](), 0, -1
    predicates: list[tuple[int, int, int]] = []  # slot, end and number of each branch around a step
    alive: list[int] = []
    for index, step in enumerate(steps[first:end], start=first):
        predicates = [each for each in predicates if index < each[1]]
        if index in skips:
            predicates.append((step.guard, step.target, index))
            continue
        latency, memory = "", is_memory_step(step) and step.space != "FRAME"
        if counted < 0 and "COUNTED" in step.flags and not predicates:
            counted = index
        if memory:
            accesses += 1
            loads = "atomic" if step.op == "ATOM" else constants.get(index) or _LOADS.get(step.space, "load_global")
            if predicates and loads == "load_global":
                loads = "load_alone"
            latency = loads if step.op in READS else ""
        elif "COUNTED" in step.flags:
            own = machine_code(step.origin).classes
            latency = max(own, key=lambda name: own[name], default="")
            for name, count in own.items():
                classes[name] = classes.get(name, 0) + count
        src = tuple(slot for slot in (*step.src, step.guard, *(each[0] for each in predicates)) if slot != NO_SLOT)
        dst = tuple(slot for slot in step.dst if slot != NO_SLOT)
        registers = len(dst) * max(1, step.width // 32) if memory and latency and index not in constants else 0
        links.append(Link(src, dst, latency, memory, predicates[0][2] if predicates else -1, registers))
        alive.append(live.get(id(step.origin), -1))
    last = steps[end - 1]
    is_loop = last.op == "BRA" and last.target == first
    return Piece(counted, _with_lifetimes(links, alive), classes, accesses, is_loop, max(live.values(), default=0))


def _with_lifetimes(links: Sequence[Link], alive: Sequence[int]) -> list[Link]:
    """Return links with the last uses of what loads have loaded, and the registers that are held beside it."""
    last_use: dict[int, int] = {}
    loaded: dict[int, int] = {}
    for at, link in enumerate(links):
        for slot in link.src:
            if slot in loaded:
                last_use[loaded[slot]] = at
        for slot in link.dst:
            loaded.pop(slot, None)
        if link.registers:
            last_use[at] = len(links)  # until there is a use
            loaded |= dict.fromkeys(link.dst, at)
    found, under_way = [], dict[int, int]()
    for at, (link, registers) in enumerate(zip(links, alive, strict=True)):
        if not link.registers:
            found.append(link)
            continue
        under_way = {end: taken for end, taken in under_way.items() if end >= at}
        held = registers - link.registers - sum(under_way.values()) if registers >= 0 else -1
        under_way[last_use[at]] = under_way.get(last_use[at], 0) + link.registers
        found.append(replace(link, last_use=last_use[at], held=max(0, held) if registers >= 0 else -1))
    return found


class PieceTimes:
    """The pieces of a kernel, and the cycles of each, which are kept for the latencies that were given last."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._given: tuple[object, ...] = ()
        self._cycles: dict[int, float] = {}

    def chains(
        self, issued: NDArray[np.int64], warps: int, latencies: Mapping[str, float], registers: int
    ) -> list[Chain]:
        """Return the pieces as an average one of `warps` warps executes them, which have issued each step so often."""
        if self._given != (registers, *latencies.items()):
            self._given, self._cycles = (registers, *latencies.items()), {}
        found: list[Chain] = []
        for at, piece in enumerate(self._pieces):
            share = int(issued[piece.counted]) / warps if piece.counted >= 0 else 0.0
            if share:
                if at not in self._cycles:
                    self._cycles[at] = piece.longest_chain(latencies, registers)
                classes = {name: number * share for name, number in piece.classes.items()}
                found.append((self._cycles[at] * share, classes, piece.accesses * share))
        return found
