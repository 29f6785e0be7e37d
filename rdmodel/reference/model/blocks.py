"""Represent blocks, the slots of an SM that run them, and the dispatcher that deals blocks to SMs.

The rules are those of docs/model.md sections 2 and 11, for both definitions of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from rdmodel.errors import ConfigError
from rdmodel.model.options import Options
from rdmodel.reference.model.record import Counts


class LineRequest(NamedTuple):
    """One line of an instruction, and masks of the `sectors` that it asks for and of those that it writes in `full`."""

    line: int
    sectors: int
    full: int


class Instruction(NamedTuple):
    """One memory instruction of one warp, after coalescing.

    `op` is an `rdmodel.trace.Op`. `needs` and `gap` are defined as in `rdmodel.trace.Columns`. `lines` are the line
    numbers of the transactions, in order. `sectors` and `full` have the masks of each; if they are empty, a transaction
    asks for sector 0 and writes no sector in full. A load with `bypass` does not look into the L1. `pc` is the
    number of the instruction in the program.
    """

    op: int
    needs: int
    gap: int
    lines: tuple[int, ...]
    sectors: tuple[int, ...] = ()
    full: tuple[int, ...] = ()
    bypass: bool = False
    pc: int = 0

    @property
    def transactions(self) -> list[LineRequest]:
        """The transactions, in order."""
        count = len(self.lines)
        masks = zip(self.lines, self.sectors or (1,) * count, self.full or (0,) * count, strict=True)
        return [LineRequest(*transaction) for transaction in masks]


Block = list[list[Instruction]]
"""The warps of a block; each warp is the list of its instructions."""

SM = Generator[int, Block | None, Counts]
"""One SM of the reference model, as a generator.

It yields the time at which it asks for a block, is sent a block or None, and returns its counts.
"""


@dataclass(slots=True, eq=False)
class ResidentBlock:
    """A block in a slot of the reference model's SM.

    `number` is its place in the order in which blocks started on this SM. `live_warps` counts the warps that have not
    ended.
    """

    slot: int
    number: int
    live_warps: int = 0


class Slots:
    """The slots of one SM. Each runs one block at a time; a slot whose request is refused stays empty."""

    def __init__(self, count: int, options: Options) -> None:
        self._waves = options.cta == "waves"
        self._free = list(range(count))
        self._occupied = 0
        self._started = 0

    def end_warp(self, block: ResidentBlock) -> None:
        """Count the end of one warp of `block`; the last one ends the block and frees its slot."""
        block.live_warps -= 1
        if not block.live_warps:
            self._free.append(block.slot)
            self._occupied -= 1

    def fill(self, now: int, start: Callable[[Block, ResidentBlock], int]) -> Generator[int, Block | None, None]:
        """Ask for a block for every free slot, in ascending order; with ``cta="waves"`` only when all slots are free.

        `start` puts the warps of a block on the SM and returns the number of live ones. If none is live, the block ends
        at once and its slot asks again.
        """
        if self._waves and self._occupied:
            return
        free, self._free = sorted(self._free), []
        for slot in free:
            while (block := (yield now)) is not None:
                resident = ResidentBlock(slot, self._started)
                self._started += 1
                resident.live_warps = start(block, resident)
                if resident.live_warps:
                    self._occupied += 1
                    break


def resolved_latencies(options: Options) -> tuple[int, int]:
    """Return `lat_min` and `hit_latency`, in steps; raise `ConfigError` if `options` were not resolved for a GPU."""
    if options.lat_min is None or options.hit_latency is None:
        raise ConfigError(
            f"lat_min={options.lat_min}, hit_latency={options.hit_latency}: must be numbers (Options.resolve)"
        )
    return options.lat_min, options.hit_latency


def run(sm: SM, blocks: Iterable[Block]) -> Counts:
    """Run one SM on `blocks`, in order, and return its counts."""
    return run_all([sm], blocks)[0]


def run_all(sms: Sequence[SM], blocks: Iterable[Block], per_sm: int | None = None) -> list[Counts]:
    """Run several SMs with one dispatcher, at most `per_sm` blocks on each, and return their counts.

    At time 0 the dispatcher works in rounds: it serves the first request of every SM, then every second request, and so
    on. After that it serves the earliest request first; of equal ones, the request of the SM with the smallest index.
    """
    pending = iter(blocks)
    dispatched = [0] * len(sms)
    counts: dict[int, Counts] = {}
    requests: list[tuple[int, int, int]] = []

    def resume(index: int, block: Block | None) -> None:
        try:
            now = sms[index].send(block)
        except StopIteration as stop:
            counts[index] = stop.value
        else:
            heappush(requests, (now, dispatched[index] if now == 0 else 0, index))

    for index in range(len(sms)):
        resume(index, None)
    while requests:
        index = heappop(requests)[-1]
        allowed = per_sm is None or dispatched[index] < per_sm
        dispatched[index] += 1
        resume(index, next(pending, None) if allowed else None)
    return [counts[index] for index in range(len(sms))]
