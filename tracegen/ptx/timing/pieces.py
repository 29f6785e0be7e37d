"""Execute straight pieces of a kernel as a warp does that waits for what it needs, and for the units of its sub-core.

A warp needs for a piece the cycles of its longest chain of dependent instructions. It loads early only what there are
registers for, and no data that a store may change. Where a piece has more short branches than there are predicates, the
assembler leaves their instructions in place: where one of them uses what another one has loaded, the warp waits before
it comes to the next branch. A matrix product occupies the tensor core for many cycles. So the instructions of a piece
with products are scheduled on the units of the sub-core, for all warps that pass it together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.timing.links import Link, latency_of
from tracegen.ptx.timing.load_window import EARLY_LOADS, LoadWindow
from tracegen.ptx.timing.store_order import NONE
from tracegen.ptx.timing.units import SubCore, WarpSchedule

LOOP_ITERATIONS = 3
"""Iterations of a loop after which the time from one to the next does not change."""

PRODUCT_ITERATIONS = 8
"""Those of a loop with products, which may go on while the next iterations begin."""

_FOLLOWER = "load_again"
"""Name of the latency of a load whose data another one has brought into the L1."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A straight piece: its links, and its instructions by class; `accesses` are those of memory.

    `steps` are the numbers of the steps of its links. `counted` is the step by which the emulator counts its
    executions, or -1 if it has none. `loop` tells whether the piece may follow itself; then the assembler makes one
    piece of up to `copies` iterations. `most_live` are the most registers that are live at an instruction of the
    kernel. `crowded` tells whether it has more short branches than there are predicates, and `waits` whether it waits
    for asynchronous copies.
    """

    counted: int
    links: Sequence[Link]
    classes: Mapping[str, int]
    accesses: int
    loop: bool
    most_live: int = 0
    copies: int = 1
    crowded: bool = False
    waits: bool = False
    steps: Sequence[int] = ()

    @property
    def has_copies(self) -> bool:
        """Whether the piece starts asynchronous copies to shared memory."""
        return any(link.copies for link in self.links)

    @property
    def has_products(self) -> bool:
        """Whether the piece has matrix products, whose occupation of the tensor core its time includes."""
        return any(link.product is not None for link in self.links)

    def registers_for_loads(self, registers: int) -> int:
        """Return the registers that bound the loads under way, of a thread that has so many; 0: nothing does."""
        return max(registers, self.most_live + EARLY_LOADS) if registers else 0

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
        most = self.registers_for_loads(registers)
        executing = [Warp(latencies, most, core) for _ in range(warps if core else 1)]
        ends = [0.0]
        iterations = PRODUCT_ITERATIONS if core else LOOP_ITERATIONS
        for _ in range(iterations if self.loop else 1):
            for warp in executing:
                warp.execute(self, copies)
            ends.append(max(warp.end for warp in executing))
        # The products at the end of a piece delay those of the next one.
        occupied = core.longest / (len(ends) - 1) if core else 0.0
        return max(ends[-1] - ends[-2], occupied) / copies


class Warp:
    """A warp that executes pieces, one after the other: when its results are there, and the `end` of the last piece.

    `latencies` are those of `Piece.longest_chain`. Loads overlap as far as it has `registers` for their data. Pieces
    with products are scheduled on the units of `core`, which other warps may share.
    """

    def __init__(self, latencies: Mapping[str, float], registers: int, core: SubCore | None) -> None:
        self._latencies, self._registers = latencies, registers
        self._schedule = WarpSchedule(core) if core else None
        self._ready: dict[int, float] = {}
        self.end = 0.0

    def pass_time(self, cycles: float) -> None:
        """Let time pass in which as much stays under way as is now."""
        self._ready = {slot: time + cycles for slot, time in self._ready.items() if time > self.end}
        self.end += cycles

    def execute(self, piece: Piece, copies: int = 1) -> list[float]:
        """Execute a piece, and as many copies as are in the body of a loop; return the starts of the last copy's links.

        Asynchronous copies to shared memory are not waited for, but by the instructions that wait for groups of them.
        """
        latencies, ready, schedule = self._latencies, self._ready, self._schedule if piece.has_products else None
        begin = longest = self.end
        branch, window = _Branch(begin), LoadWindow(self._registers)
        starts, arrivals = [begin] * len(piece.links), [begin] * len(piece.links)
        copying = dict[int, float]()  # starts of copies, which no load stays behind
        for first in range(0, copies * len(piece.links), max(1, len(piece.links))):
            for at, link in enumerate(piece.links):
                if link.copies:
                    start = max(begin, *(ready.get(slot, begin) for slot in link.src))
                    if schedule:
                        start, _ = schedule.schedule(link, start)
                    ready |= dict.fromkeys(link.dst, start + latency_of(link, latencies))
                    copying[at] = start
                    continue
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
        return [copying.get(at, start) for at, start in enumerate(starts)]


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
