"""Blocks of warps of instructions, the slots in which an SM holds them, and who gives blocks to which SM."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from rdmodel.errors import ConfigError
from rdmodel.model.options import Options
from rdmodel.reference.model.record import Counts


class Instruction(NamedTuple):
    """One memory instruction of one warp after coalescing.

    `lines` are the line numbers of its transactions, in order; `op` is an `rdmodel.trace.Op`; `needs` and
    `gap` are as in `rdmodel.trace.Columns`.
    """

    op: int
    needs: int
    gap: int
    lines: tuple[int, ...]


Block = list[list[Instruction]]
"""The warps of a block, each the list of its instructions."""

SM = Generator[int, Block | None, Counts]
"""A modelled SM: yields the time when it asks for a block, is sent one or None, returns its counts."""


@dataclass(slots=True, eq=False)
class Resident:
    """A block on the SM: its slot, its number in the order of starting, its warps that have not ended."""

    slot: int
    number: int
    alive: int = 0


class Slots:
    """The SM's slots for blocks. A slot for which there is no block stays empty for good."""

    def __init__(self, count: int, options: Options) -> None:
        self._waves = options.cta == "waves"
        self._free = list(range(count))
        self._occupied = 0
        self._started = 0

    def leave(self, block: Resident) -> None:
        """Take note that one warp of `block` ended, and with the last one the block."""
        block.alive -= 1
        if not block.alive:
            self._free.append(block.slot)
            self._occupied -= 1

    def fill(self, now: int, start: Callable[[Block, Resident], int]) -> Generator[int, Block | None, None]:
        """Ask for blocks for the free slots, in order; with ``cta="waves"`` only once all slots are free.

        `start` is called with every block and returns how many of its warps are alive; if none, its slot asks
        again.
        """
        if self._waves and self._occupied:
            return
        free, self._free = sorted(self._free), []
        for slot in free:
            while (block := (yield now)) is not None:
                resident = Resident(slot, self._started)
                self._started += 1
                resident.alive = start(block, resident)
                if resident.alive:
                    self._occupied += 1
                    break


def resolved_latencies(options: Options) -> tuple[int, int]:
    """Return `lat_min` and `hit_latency`; raise `ConfigError` if `options` were not resolved for a GPU."""
    if options.lat_min is None or options.hit_latency is None:
        raise ConfigError(
            f"lat_min={options.lat_min}, hit_latency={options.hit_latency}: must be numbers (Options.resolve)"
        )
    return options.lat_min, options.hit_latency


def run(sm: SM, blocks: Iterable[Block]) -> Counts:
    """Run one SM on `blocks`, in order, and return its counts."""
    return run_all([sm], blocks)[0]


def run_all(sms: Sequence[SM], blocks: Iterable[Block], per_sm: int | None = None) -> list[Counts]:
    """Run several SMs with one dispatcher, at most `per_sm` blocks each, and return their counts.

    The initial fill, at time 0, goes in rounds: every SM's first request, then every SM's second, and so on.
    From then on the earliest request comes first, and of equal ones that of the SM with the smallest index.
    """
    pending = iter(blocks)
    served = [0] * len(sms)
    counts: dict[int, Counts] = {}
    requests: list[tuple[int, int, int]] = []

    def go_on(index: int, block: Block | None) -> None:
        try:
            now = sms[index].send(block)
        except StopIteration as stop:
            counts[index] = stop.value
        else:
            heappush(requests, (now, served[index] if now == 0 else 0, index))

    for index in range(len(sms)):
        go_on(index, None)
    while requests:
        index = heappop(requests)[-1]
        allowed = per_sm is None or served[index] < per_sm
        served[index] += 1
        go_on(index, next(pending, None) if allowed else None)
    return [counts[index] for index in range(len(sms))]
