"""Run a window of a grid: all SMs side by side for a short time, with an L2 that earlier blocks have filled."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

import numpy as np

from rdmodel.common.late_dataclass import dataclass
from rdmodel.gpu.config import GPU
from rdmodel.gpu.served_loads import bypasses_l1
from rdmodel.model import shared_l2
from rdmodel.model._l2 import Supply
from rdmodel.model.averages import combine_counters, subtract_counts
from rdmodel.model.cores import make_chunk, make_core, store_rule
from rdmodel.model.grid_pilot import Pilot
from rdmodel.model.grid_schedule import GridMoment, GridSchedule
from rdmodel.model.late_blocks import LateBlocks
from rdmodel.model.monitor import PartTimer
from rdmodel.model.options import Options
from rdmodel.model.sample_sms import SAMPLE_SALT
from rdmodel.model.sm import Sm
from rdmodel.results.counts import SmCounts
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import Chunk, WarpStream

STOPS_PER_CHECK = 2
"""Requests of each SM, on average, between two checks whether a period of a window is over."""

ROWS_PER_TURN = 256
"""Instructions of a warp that fill the L2 before the next warp has its turn."""

LAST_TURNS_PER_BLOCK = 32
"""Turns in which a block sends its instructions just before a window, so that it sends no more than it has issued."""

FULL = 0.001
"""Share of the ways of the L2 that may be empty when older blocks need not fill it."""

LONGEST_WARMUP = 6.0
"""Multiple of its planned length to which a warm-up is extended until the L1s are full."""

MIN_CHUNK_ROWS, MAX_CHUNK_ROWS = 24, 256
"""Instructions of a warp that are prepared at a time in a window."""

CHUNKS_PER_WINDOW = 5
"""Number of times that a warp gets instructions in a window. In between, a period cannot end."""


@dataclass(frozen=True, slots=True)
class GridWindow:
    """A window that begins when `begin` blocks of the grid are done.

    Before that, the L2 is filled by the `history` blocks before and, where it is still empty, by a random sample of
    `older` blocks.
    It has three periods, each of which ends when the instructions of so many blocks have been issued since the window
    began: `ends`. In the first one the L1s fill; those after it are counted.
    """

    begin: float
    ends: tuple[float, float, float]
    history: float = 0.0
    older: float = 0.0


@dataclass(frozen=True, slots=True)
class PeriodCounts:
    """Counters of a period: of all SMs (`steps` are summed) and of the L2, and the instructions that count as work."""

    sms: SmCounts
    l2: dict[str, int]
    work: float


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The periods of a window, and the share of the older blocks before it that filled the L2 (1: of all)."""

    periods: tuple[PeriodCounts, ...]
    share: float


@dataclass(frozen=True, slots=True)
class WindowRunner:
    """Runs windows of one grid, whose blocks have `rows` instructions on average, and count `work` of them as work.

    Work is counted in loads that have transactions or, in a kernel without loads, in such stores.
    """

    trace: Trace
    gpu: GPU
    options: Options
    seed: int
    resident: int
    schedule: GridSchedule
    pilot: Pilot
    rows: float
    work: float

    def run(self, window: GridWindow, timer: PartTimer) -> WindowResult:
        """Run a window."""
        l2 = shared_l2.SharedL2(self.gpu, self._sms)
        if window.begin <= 0:
            return WindowResult(self._count(l2, window, None, 0, timer), 1.0)
        place, shift = self.schedule.place_of(window.begin)
        time = self.schedule.time_of(place)
        since = self.schedule.time_of(place - window.history) if place > window.history else 0.0
        share = self._fill(l2, since, time, shift, window.older, timer)
        return WindowResult(self._count(l2, window, self.schedule.moment(time), shift, timer), share)

    # ---- the L2 before the window

    def _fill(
        self, l2: shared_l2.SharedL2, since: float, until: float, shift: int, older: float, timer: PartTimer
    ) -> float:
        """Send what blocks request between two times of the schedule to the L2, and before, what older blocks request.

        There are no latencies: blocks proceed evenly from their beginnings to their ends. About `older` blocks that end
        before `since` are chosen at random; they fill what is still empty, the latest first. Returns their share of all
        such blocks; 1 if there are none.
        """
        schedule = self.schedule
        ids, share = np.arange(int((schedule.end <= since).sum()) + shift), 1.0
        if len(ids) > older:
            share = int(older) / len(ids)
            ids = np.sort(np.random.default_rng([SAMPLE_SALT, self.seed]).choice(ids, int(older), replace=False))
        fill = _Fill(self, l2, timer)
        fill.run_in_order(since, until, shift)
        fill = _Fill(self, l2, timer, old=True)
        for place, block in enumerate(reversed(ids.tolist())):
            if fill.warmer.empty_share() <= FULL:
                break
            fill.add(block, place % self._sms, 0.0)
        return share

    @property
    def _sms(self) -> int:
        assert self.options.sms is not None
        return self.options.sms

    # ---- the window itself

    def _count(
        self, l2: shared_l2.SharedL2, window: GridWindow, moment: GridMoment | None, shift: int, timer: PartTimer
    ) -> tuple[PeriodCounts, ...]:
        """Run the SMs from a moment on (None: from the beginning), and return the counts of the periods."""
        own: list[list[int]] = [[] for _ in range(self._sms)]
        trace, first = self.trace, 0
        if moment is not None:
            ids = (moment.resident + shift).tolist()
            for block, sm in zip(ids, moment.sms.tolist(), strict=True):
                own[sm].append(block)
            rng, parts = np.random.default_rng([SAMPLE_SALT, self.seed, first := moment.next + shift]), {}
            for block, share in zip(ids, moment.shares.tolist(), strict=True):
                shares = self.pilot.warp_shares(share, rng)
                parts[block] = share if shares is None else shares, 1.0
            trace = LateBlocks(trace, parts)
        queue = iter(range(first, self.schedule.blocks))
        rows = window.ends[-1] * self.rows / min(self.schedule.slots, self.schedule.blocks)
        chunk = round(rows / trace.launch.block_warps / CHUNKS_PER_WINDOW)
        chunk = min(MAX_CHUNK_ROWS, max(MIN_CHUNK_ROWS, chunk))
        sms = [self._sm(trace, number, timer, chunk) for number in range(self._sms)]
        marks, calls = [_total(sms)], 0

        late = 0.0

        def ended() -> bool:
            nonlocal calls, late
            calls += 1
            if (
                calls % (STOPS_PER_CHECK * self._sms)
                or (issued := _issued(sms) / self.work - late) < window.ends[l2.period]
            ):
                return False
            if (
                not l2.period
                and window.begin > 0
                and not self._filled(sms)
                and issued < LONGEST_WARMUP * window.ends[0]
            ):
                return False
            marks.append(_total(sms))
            if len(marks) > len(window.ends):
                return True
            late += 0.0 if l2.period else issued - window.ends[0]
            l2.begin_period(sms)
            return False

        supplies: list[Iterator[int]] = [chain(blocks, queue) for blocks in own]
        shared_l2.run_side_by_side(sms, supplies, self.schedule.blocks, l2, ended)
        if len(marks) <= len(window.ends):
            marks.append(_total(sms))
        return tuple(
            PeriodCounts(
                each := subtract_counts(after, before),
                l2.counts(period),
                (each.requests + each.bypassed_requests) or each.stores.requests,
            )
            for period, (before, after) in enumerate(pairwise(marks))
        )

    def _filled(self, sms: Sequence[Sm]) -> bool:
        """Return whether the L1s that are in use have been filled with lines once."""
        used = [sm for sm in sms if sm.blocks_started]
        return sum(map(_tag_misses, used)) >= len(used) * self.gpu.l1.lines

    def _sm(self, trace: Trace, number: int, timer: PartTimer, chunk: int) -> Sm:
        core = make_core(
            self.gpu, self.options, self.resident, trace.launch.block_warps, False, bypasses_l1(self.gpu.l1, trace)
        )
        return Sm(trace, core, self.gpu, self.options, self.seed, number, timer, chunk)


def _tag_misses(sm: Sm) -> int:
    """Return `SmCounts.tag_misses` so far; it is asked for often."""
    core = sm.core
    return core.tag_misses if core.sectored else core.compulsory + core.capacity + core.associativity


def _total(sms: Sequence[Sm]) -> SmCounts:
    """Return the counters of all SMs so far."""
    counts = [sm.counts() for sm in sms]
    return SmCounts(sm=0, blocks=sum(sm.blocks for sm in counts), **combine_counters(sum, counts))


def _issued(sms: Sequence[Sm]) -> int:
    """Return the number of loads or, if there are none, of stores that have been issued."""
    loads = sum(sm.core.requests + sm.core.bypassed_requests for sm in sms)
    return loads or sum(sm.core.store_requests for sm in sms)


class _Fill:
    """Fills the L2 with what blocks request, without latencies."""

    def __init__(self, runner: WindowRunner, l2: shared_l2.SharedL2, timer: PartTimer, old: bool = False) -> None:
        self.warmer = l2.warmer(1 << max(runner.gpu.l1.lines - 1, 1).bit_length(), old)
        self._runner, self._timer = runner, timer
        self._partitions = runner.gpu.l2.partitions
        self._row = 1 / max(1.0, runner.rows / runner.trace.launch.block_warps)
        self._rows = ROWS_PER_TURN, max(1, min(ROWS_PER_TURN, round(1 / self._row / LAST_TURNS_PER_BLOCK)))
        chunks = [make_chunk(runner.gpu, runner.options, rows) for rows in self._rows]
        self._chunks = [(one, Supply(one.op, one.count, one.lines, one.masks, one.full)) for one in chunks]

    def add(self, block: int, sm: int, begin: float) -> None:
        """Send all requests of a block from a share of its instructions on."""
        streams = self._open(block, sm, begin)
        while streams:
            streams = self._turn(streams, sm, self._chunks[0])

    def run_in_order(self, since: float, until: float, shift: int) -> None:
        """Send what blocks request between two times of the schedule; they proceed evenly from beginning to end."""
        schedule = self._runner.schedule
        [ids] = np.nonzero((schedule.start < until) & (schedule.end > since))
        order = [(max(since, schedule.start.item(block)), block) for block in ids.tolist()]
        heapq.heapify(order)
        streams: dict[int, list[WarpStream]] = {}
        while order:
            time, block = order[0]
            start, duration = schedule.start.item(block), schedule.end.item(block) - schedule.start.item(block)
            if block not in streams:
                streams[block] = self._open(block + shift, schedule.sm.item(block), (time - start) / duration)
            turns = [rows * self._row * duration for rows in self._rows]
            # A block that ends in time sends all it has; of others, warps must not run ahead.
            last = start + duration > until and time + turns[0] > until
            if start + duration <= until or time + turns[last] <= until:
                streams[block] = self._turn(streams[block], schedule.sm.item(block), self._chunks[last])
                time += turns[last]
            else:
                streams[block] = []
            if streams[block]:
                heapq.heapreplace(order, (time, block))
            else:
                heapq.heappop(order)
                del streams[block]

    def _open(self, block: int, sm: int, begin: float) -> list[WarpStream]:
        self._timer.tick()
        runner = self._runner
        assert runner.options.sms is not None
        place = sm * runner.resident + block // runner.options.sms % runner.resident
        trace = LateBlocks(runner.trace, {block: (begin, 1.0)}) if begin > 0 else runner.trace
        line, request_bytes = runner.gpu.l1.line, runner.gpu.l1.request_bytes
        rule = store_rule(runner.options)
        return self._timer.open_block(trace, block, line, rule, request_bytes, None, begins=False, place=place)

    def _turn(self, streams: Sequence[WarpStream], sm: int, buffers: tuple[Chunk, Supply]) -> list[WarpStream]:
        """Send the next instructions of some warps; return the warps that have more."""
        left, side = [], sm % self._partitions
        chunk, supply = buffers
        for stream in streams:
            if stream.fill(chunk):
                left.append(stream)
            self.warmer.send(sm, side, supply, chunk.n)
        return left
