"""Find the chains of dependent instructions in the straight pieces of a kernel: what a warp waits for when it is alone.

A piece is a sequence of steps that is entered at its first one only, and left after its last one only. The assembler
orders the instructions of a piece, so that a warp needs for it the cycles of the longest chain, or of all instructions.
It loads early only what there are registers for, and no data that a store may change. Of a short loop, it makes one
piece of several iterations. A barrier ends a piece. Short branches are predicates and end none. Where a piece has more
of them than there are predicates, the assembler leaves their instructions in place: where one of them uses what another
one has loaded, the warp waits before it comes to the next branch.

A matrix product occupies the tensor core for many cycles. So the instructions of a piece with products are scheduled on
the units of the sub-core, for all warps that pass it together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.constants import constant_loads
from tracegen.ptx.lowering.links import ACCESS, Link, Product, latency_of, with_leaders, with_lifetimes, with_products
from tracegen.ptx.lowering.load_window import EARLY_LOADS, LoadWindow
from tracegen.ptx.lowering.machine_code import machine_code
from tracegen.ptx.lowering.predication import CONTROL, predicated_branches
from tracegen.ptx.lowering.program import NO_SLOT, LoweredKernel
from tracegen.ptx.lowering.slicing import READS, is_memory_step
from tracegen.ptx.lowering.store_order import NONE, stores_before
from tracegen.ptx.lowering.units import SubCore, WarpSchedule
from tracegen.ptx.lowering.unrolled_loops import unrolled_copies

LOOP_ITERATIONS = 3
"""Iterations of a loop after which the time from one to the next does not change."""

PRODUCT_ITERATIONS = 8
"""Those of a loop with products, which may go on while the next iterations begin."""

PREDICATES = 7
"""Predicates of a thread: as many short branches overlap (`validation.scheduling`)."""

_LOADS = {
    "GLOBAL": "load_global", "GENERIC": "load_global", "LOCAL": "load_local", "SHARED": "load_shared",
}  # fmt: skip
"""Names of the latencies of loads, by space."""

_FOLLOWER = "load_again"
"""Name of the latency of a load whose data another one has brought into the L1."""

Chain = tuple[float, Mapping[str, float], float]
"""A piece, summed over its executions: cycles, its instructions by class without accesses to memory, its accesses."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A straight piece: its links, and its instructions by class; `accesses` are those of memory.

    `counted` is the step by which the emulator counts its executions, or -1 if it has none. `loop` tells whether the
    piece may follow itself; then the assembler makes one piece of up to `copies` iterations. `most_live` are the most
    registers that are live at an instruction of the kernel. `crowded` tells whether it has more short branches than
    there are predicates.
    """

    counted: int
    links: Sequence[Link]
    classes: Mapping[str, int]
    accesses: int
    loop: bool
    most_live: int = 0
    copies: int = 1
    crowded: bool = False

    @property
    def has_products(self) -> bool:
        """Whether the piece has matrix products, whose occupation of the tensor core its time includes."""
        return any(link.product is not None for link in self.links)

    def longest_chain(
        self, latencies: Mapping[str, float], registers: int = 0, copies: int = 1, warps: int = 1
    ) -> float:
        """Return the cycles from the begin of the piece to its last result, and to the start of its last load.

        A load or a product whose results no step of the piece uses is not waited for. In a loop, the next iteration may
        need it: then the result is the time from one iteration to the next, if `copies` are in one body of the machine
        code. Loads overlap as far as a thread has `registers` for their data; 0: without bound.

        In a piece with products, each link also waits for an issue slot and its unit, which serve so many `warps`: the
        result is the time of all of them.
        """
        core = SubCore(latencies) if self.has_products else None
        most = max(registers, self.most_live + EARLY_LOADS) if registers else 0
        executing = [
            _Warp(self, latencies, most, copies, WarpSchedule(core) if core else None)
            for _ in range(warps if core else 1)
        ]
        ends = [0.0]
        iterations = PRODUCT_ITERATIONS if core else LOOP_ITERATIONS
        for _ in range(iterations if self.loop else 1):
            for warp in executing:
                warp.iterate()
            ends.append(max(warp.end for warp in executing))
        # The products at the end of a piece delay those of the next one.
        occupied = core.longest / (len(ends) - 1) if core else 0.0
        return max(ends[-1] - ends[-2], occupied) / copies


class _Warp:
    """A warp that executes a piece again and again: when its results are there, and the `end` of an iteration."""

    def __init__(
        self, piece: Piece, latencies: Mapping[str, float], most: int, copies: int, schedule: WarpSchedule | None
    ) -> None:
        self._piece, self._latencies, self._copies = piece, latencies, copies
        self._registers, self._schedule = most, schedule
        self._ready: dict[int, float] = {}
        self.end = 0.0

    def iterate(self) -> None:
        """Execute the piece, and as many copies as are in the body of a loop."""
        piece, latencies, ready, schedule = self._piece, self._latencies, self._ready, self._schedule
        begin = longest = self.end
        branch, window = _Branch(begin), LoadWindow(self._registers)
        starts, arrivals = [begin] * len(piece.links), [begin] * len(piece.links)
        for first in range(0, self._copies * len(piece.links), max(1, len(piece.links))):
            for at, link in enumerate(piece.links):
                waits = [schedule.wait(link, ready)] if schedule else [ready.get(slot, begin) for slot in link.src]
                start = max(begin, window.enter(first + at, link), *waits)
                if piece.crowded and link.branch != NONE:
                    start = max(start, branch.enter(first, link))
                if link.behind != NONE:
                    start = max(start, starts[link.behind])
                if schedule:
                    start, end = schedule.schedule(link, start)
                else:
                    end = start + latency_of(link, latencies)
                if link.leader != NONE:
                    end = max(start + latencies[_FOLLOWER], arrivals[link.leader])
                for slot in link.dst:
                    ready[slot] = end
                if piece.crowded and link.branch != NONE:
                    branch.add(link, start)
                window.add(first + at, first + link.last_use, link, start)
                starts[at], arrivals[at] = start, end
                longest = max(longest, start + 1 if link.memory or link.product else end)
        self.end = longest


class _Branch:
    """The branch whose instructions a warp issues, and when it comes to the next one."""

    def __init__(self, begin: float) -> None:
        self._number = (-1, -1)
        self._begin = self._next = begin
        self._loaded: set[int] = set()

    def enter(self, copy: int, link: Link) -> float:
        """Return the time before which a link with a predicate cannot start: when the branch before it is over."""
        if self._number != (copy, link.branch):
            self._number, self._begin, self._loaded = (copy, link.branch), self._next, set()
        return self._begin

    def add(self, link: Link, start: float) -> None:
        """Let the next branch wait for a link that uses what its own branch has loaded."""
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
    most_live = max(live.values(), default=0)
    return [
        _piece(kernel, first, end, skips, constants, live, most_live) for first, end in pairwise([*ordered, len(steps)])
    ]


def _piece(
    kernel: LoweredKernel,
    first: int,
    end: int,
    skips: Collection[int],
    constants: Mapping[int, str],
    live: Mapping[int, int],
    most_live: int,
) -> Piece:
    links, classes, accesses, counted = list[Link](), dict[str, int](), 0, NONE
    steps = [step for at, step in enumerate(kernel.steps[first:end], start=first) if at not in skips]
    behind = stores_before(steps)
    crowded = sum(at in skips for at in range(first, end)) > PREDICATES
    predicates: list[tuple[int, int, int]] = []  # slot, end and number of each branch around a step
    for index, step in enumerate(kernel.steps[first:end], start=first):
        predicates = [each for each in predicates if index < each[1]]
        if index in skips:
            predicates.append((step.guard, step.target, index))
            continue
        latency, memory = "", is_memory_step(step) and step.space != "FRAME"
        own, product = dict[str, int](), None
        if counted < 0 and "COUNTED" in step.flags and not predicates:
            counted = index
        if memory:
            accesses += 1
            loads = "atomic" if step.op == "ATOM" else constants.get(index) or _LOADS.get(step.space, "load_global")
            if crowded and predicates and loads == "load_global":
                loads = "load_alone"
            latency = loads if step.op in READS else ""
            own = {} if step.flags & {"LAZY", "ASYNC"} or index in constants else {ACCESS: 1}
        elif "COUNTED" in step.flags:
            code = machine_code(step.origin)
            own = dict(code.classes)
            if code.matrix_type:
                product = Product(code.matrix_type, code.matrix_flops, step.origin.opcode == "wgmma")
            latency = max(own, key=lambda name: own[name], default="")
            for name, count in own.items():
                classes[name] = classes.get(name, 0) + count
        src = tuple(slot for slot in (*step.src, step.guard, *(each[0] for each in predicates)) if slot != NO_SLOT)
        dst = tuple(slot for slot in step.dst if slot != NO_SLOT)
        registers = len(dst) * max(1, step.width // 32) if memory and latency and index not in constants else 0
        branch = predicates[0][2] if predicates else NONE
        store = behind[len(links)]
        link = Link(src, dst, latency, memory, branch, registers, behind=store, classes=own, product=product)
        links.append(replace(link, pc=step.pc))
    last = kernel.steps[end - 1]
    is_loop = last.op == "BRA" and last.target == first
    copies = unrolled_copies(kernel, first, end) if is_loop else 1
    links = with_products(links, steps)
    links = with_leaders(with_lifetimes(links, [live.get(id(step.origin), -1) for step in steps]), steps)
    return Piece(counted, links, classes, accesses, is_loop, most_live, copies, crowded)


class PieceTimes:
    """The pieces of a kernel, and the cycles of each, which are kept for the latencies that were given last."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._given: tuple[object, ...] = ()
        self._cycles: dict[tuple[int, int], float] = {}

    def chains(
        self, issued: NDArray[np.int64], warps: int, latencies: Mapping[str, float], registers: int, together: int = 1
    ) -> list[Chain]:
        """Return the pieces as an average one of `warps` warps executes them, which have issued each step so often.

        A sub-core executes `together` warps, which pass each piece with products together.
        """
        given = (registers, together, *latencies.items())
        if self._given != given:
            self._given, self._cycles = given, {}
        executed = [int(issued[piece.counted]) if piece.counted >= 0 else 0 for piece in self._pieces]
        found: list[Chain] = []
        for at, piece in enumerate(self._pieces):
            if not executed[at]:
                continue
            share, copies = executed[at] / warps, min(piece.copies, _iterations(executed, at))
            if (at, copies) not in self._cycles:
                self._cycles[at, copies] = piece.longest_chain(latencies, registers, copies, together)
            classes = {name: number * share for name, number in piece.classes.items()}
            found.append((self._cycles[at, copies] * share, classes, piece.accesses * share))
        return found


def _iterations(executed: Sequence[int], at: int) -> int:
    """Return how often a piece follows itself, as far as those around it tell: they are executed once for each loop."""
    around = [executed[place] for place in (at - 1, at + 1) if 0 <= place < len(executed) and executed[place]]
    return max(1, executed[at] // min(around, default=executed[at]))
