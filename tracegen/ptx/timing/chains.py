"""Find the chains of dependent instructions in the straight pieces of a kernel: what a warp waits for when it is alone.

A piece is a sequence of steps that is entered at its first one only, and left after its last one only. The assembler
orders the instructions of a piece, so that a warp needs for it the cycles of the longest chain, or of all instructions.
Of a short loop, it makes one piece of several iterations. A barrier ends a piece. Short branches are predicates and
end none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracegen.ptx.lowering.asynchronous import is_copy_step, is_wait_step
from tracegen.ptx.lowering.constants import constant_loads
from tracegen.ptx.lowering.predication import CONTROL, predicated_branches
from tracegen.ptx.lowering.program import NO_SLOT, LoweredKernel, Step
from tracegen.ptx.lowering.slicing import READS, REGISTER_SPACES, is_memory_step
from tracegen.ptx.timing.links import ACCESS, Link, Product, with_leaders, with_lifetimes, with_products
from tracegen.ptx.timing.pieces import Piece
from tracegen.ptx.timing.pipelines import pipelined_cycles
from tracegen.ptx.timing.store_order import NONE, stores_before
from tracegen.ptx.timing.unrolled_loops import unrolled_copies

PREDICATES = 7
"""Predicates of a thread: as many short branches overlap (`validation.scheduling`)."""

_LOADS = {
    "GLOBAL": "load_global", "GENERIC": "load_global", "LOCAL": "load_local", "SHARED": "load_shared",
}  # fmt: skip
"""Names of the latencies of loads, by space."""

Chain = tuple[float, Mapping[str, float], float]
"""A piece, summed over its executions: cycles, its instructions by class without accesses to memory, its accesses."""


def piece_bounds(kernel: LoweredKernel, cuts: Collection[int] = ()) -> list[tuple[int, int, int]]:
    """Return the first step of each piece, the one behind its last, and the one that is counted, or -1.

    The emulator counts the executions of a piece by its first instruction that no short branch skips. Pieces also begin
    at the steps `cuts`.
    """
    steps = kernel.steps
    skips = predicated_branches(steps)
    starts = {0, *kernel.targets, *cuts}
    for index, step in enumerate(steps):
        if step.op in CONTROL and index not in skips:
            starts.add(index + 1)
            if isinstance(step.target, int) and step.op in ("BRA", "CALL"):
                starts.add(step.target)
    ordered = sorted(start for start in starts if start < len(steps))
    return [(first, end, _counted(steps, first, end, skips)) for first, end in pairwise([*ordered, len(steps)])]


def _counted(steps: Sequence[Step], first: int, end: int, skips: Collection[int]) -> int:
    skipped = 0  # the step up to which short branches skip
    for index in range(first, end):
        if index in skips:
            skipped = max(skipped, steps[index].target)
        elif index >= skipped and "COUNTED" in steps[index].flags:
            return index
    return NONE


def straight_pieces(kernel: LoweredKernel, live: Mapping[int, int], cuts: Collection[int] = ()) -> list[Piece]:
    """Return the pieces of a kernel, in the order of its steps.

    `live` are the registers that are live at each instruction, by its `id`. `cuts` are those of `piece_bounds`.
    """
    skips, constants = predicated_branches(kernel.steps), constant_loads(kernel)
    most_live = max(live.values(), default=0)
    return [
        _piece(kernel, first, end, counted, skips, constants, live, most_live)
        for first, end, counted in piece_bounds(kernel, cuts)
    ]


def _piece(
    kernel: LoweredKernel,
    first: int,
    end: int,
    counted: int,
    skips: Collection[int],
    constants: Mapping[int, str],
    live: Mapping[int, int],
    most_live: int,
) -> Piece:
    links, classes, accesses = list[Link](), dict[str, int](), 0
    steps = [step for at, step in enumerate(kernel.steps[first:end], start=first) if at not in skips]
    behind = stores_before(steps)
    crowded = sum(at in skips for at in range(first, end)) > PREDICATES
    predicates: list[tuple[int, int, int]] = []  # slot, end and number of each branch around a step
    for index, step in enumerate(kernel.steps[first:end], start=first):
        predicates = [each for each in predicates if index < each[1]]
        if index in skips:
            predicates.append((step.guard, step.target, index))
            continue
        latency, memory = "", is_memory_step(step) and step.space not in REGISTER_SPACES
        own, product = dict[str, int](), None
        if memory:
            accesses += 1
            loads = "atomic" if step.op == "ATOM" else constants.get(index) or _LOADS.get(step.space, "load_global")
            if crowded and predicates and loads == "load_global":
                loads = "load_alone"
            latency = loads if step.op in READS else ""
            own = {} if step.flags & {"LAZY", "ASYNC"} or index in constants else {ACCESS: 1}
        elif "COUNTED" in step.flags:
            code = step.machine_code()
            own = dict(code.classes)
            if code.matrix_type:
                product = Product(code.matrix_type, code.matrix_flops, step.origin.opcode == "wgmma")
            latency = code.slowest
            for name, count in own.items():
                classes[name] = classes.get(name, 0) + count
        src = tuple(slot for slot in (*step.src, step.guard, *(each[0] for each in predicates)) if slot != NO_SLOT)
        dst = tuple(slot for slot in step.dst if slot != NO_SLOT)
        registers = len(dst) * max(1, step.width // 32) if memory and latency and index not in constants else 0
        copies = is_copy_step(step)
        links.append(
            Link(
                src,
                dst,
                latency,
                memory,
                branch=predicates[0][2] if predicates else NONE,
                registers=0 if copies else registers,
                behind=NONE if copies else behind[len(links)],
                pc=step.pc,
                copies=copies,
                classes=own,
                product=product,
            )
        )
    last = kernel.steps[end - 1]
    is_loop = last.op == "BRA" and last.target == first
    unrolled = unrolled_copies(kernel, first, end) if is_loop else 1
    links = with_products(links, steps)
    links = with_leaders(with_lifetimes(links, [live.get(id(step.origin), -1) for step in steps]), steps)
    waits = any(is_wait_step(step) for step in steps)
    numbers = [at for at in range(first, end) if at not in skips]
    return Piece(counted, links, classes, accesses, is_loop, most_live, unrolled, crowded, waits, numbers)


class PieceTimes:
    """The pieces of a kernel, and the cycles of each, which are kept for the latencies that were given last."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._given: tuple[object, ...] = ()
        self._cycles: dict[tuple[int, int], float] = {}
        self._pipelined: dict[tuple[float, ...], dict[int, float]] = {}

    def chains(
        self, issued: NDArray[np.int64], warps: int, latencies: Mapping[str, float], registers: int, together: int = 1
    ) -> list[Chain]:
        """Return the pieces as an average one of `warps` warps executes them, which have issued each step so often.

        A sub-core executes `together` warps, which pass each piece with products together.
        """
        given = (registers, together, *latencies.items())
        if self._given != given:
            self._given, self._cycles, self._pipelined = given, {}, {}
        executed = [int(issued[piece.counted]) if piece.counted >= 0 else 0 for piece in self._pieces]
        shares = tuple(times / warps for times in executed)

        def alone(at: int) -> float:
            piece = self._pieces[at]
            copies = min(piece.copies, _iterations(executed, at))
            if (at, copies) not in self._cycles:
                self._cycles[at, copies] = piece.longest_chain(latencies, registers, copies, together)
            return self._cycles[at, copies]

        if shares not in self._pipelined:
            self._pipelined[shares] = pipelined_cycles(self._pieces, shares, alone, latencies, registers, together)
        pipelined = self._pipelined[shares]
        found: list[Chain] = []
        for at, (piece, share) in enumerate(zip(self._pieces, shares, strict=True)):
            if share:
                classes = {name: number * share for name, number in piece.classes.items()}
                cycles = pipelined[at] if at in pipelined else alone(at) * share
                found.append((cycles, classes, piece.accesses * share))
        return found

    def united(self, issued: NDArray[np.int64], warps: int, cycles: float) -> Chain:
        """Return the pieces as one that takes so many cycles; the other arguments are those of `chains`."""
        classes: dict[str, float] = {}
        accesses = 0.0
        for piece in self._pieces:
            share = int(issued[piece.counted]) / warps if piece.counted >= 0 else 0.0
            accesses += piece.accesses * share
            for name, number in piece.classes.items():
                classes[name] = classes.get(name, 0.0) + number * share
        return cycles, classes, accesses


def _iterations(executed: Sequence[int], at: int) -> int:
    """Return how often a piece follows itself, as far as those around it tell: they are executed once for each loop."""
    around = [executed[place] for place in (at - 1, at + 1) if 0 <= place < len(executed) and executed[place]]
    return max(1, executed[at] // min(around, default=executed[at]))
