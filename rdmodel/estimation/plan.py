"""What a quick estimate runs of a kernel: which blocks on how many SMs, and how many of their iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from rdmodel.estimation.excerpt import Excerpt
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import Chunk, StoreRule, WarpStream

WARP_WORK = 100
"""Transactions in the time that it takes to make a warp of a block and to open it."""

PROBES = 3
"""Blocks that are looked at before anything is run: the first, the last, and those between."""

PROBE_SHARE = 1 / 32
"""What is looked at of a block, as long as the whole is much more work than there is to do."""

MUCH = 4

ITERATIONS = 6
"""Wanted in the longer of two samples of a loop: lines of 128 bytes are asked for by 32 consecutive floats."""

SLACK = 2.0
"""How much more than the work may be done where less would not tell much."""

WINDOWS = 3
"""Places of the grid at which single SMs are run."""

HALF = 0.5
"""The shorter of two samples by the longer one; and the most that a block is ahead of others in a late wave."""

DRIFT = 0.05
"""How far apart, by their own length, the blocks of two SMs are after a wave (docs/sampling.md)."""

PAIRS = 3
"""One of so many resident blocks of a late wave came together with the block after it (docs/sampling.md)."""


MOST_SMS = 1 << 10
"""SMs that are modelled side by side at most."""

GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole part, are spread evenly from 0 to 1, however many there are."""


@dataclass(frozen=True, slots=True)
class Window:
    """Blocks that run together on `sms` SMs: their ids in the order in which they are dealt, and where each begins.

    Each has `share` of its iterations, `starts` of them left out before (None: none). To tell how a run begins from how
    it goes on, it is made again: with the first `shorter` blocks, or, where that is 0 and iterations are left out,
    with half as many of them.
    """

    ids: Sequence[int]
    sms: int
    share: float = 1.0
    starts: Sequence[float] | None = None
    shorter: int = 0

    @property
    def opened(self) -> int:
        """Blocks that are opened, in both runs."""
        return len(self.ids) + (self.shorter or (len(self.ids) if self.share < 1 else 0))


@dataclass(frozen=True, slots=True)
class Plan:
    """The windows, and the grid that they stand for: `blocks`, over `sms` SMs, `resident` at a time on each.

    `spread` is the standard error of the work of a mean block, relative to it. With `whole` everything is run.
    """

    windows: tuple[Window, ...]
    blocks: int
    sms: int
    resident: int
    whole: bool = False
    spread: float = 0.0

    @property
    def covered(self) -> float:
        """The share of the grid's work that is run."""
        return min(1.0, sum(len(window.ids) * window.share for window in self.windows) / self.blocks)

    @property
    def waves(self) -> float:
        """How often all SMs are filled with blocks."""
        return self.blocks / min(self.blocks, self.sms * self.resident)

    @property
    def sampled(self) -> str:
        """What is run, in words."""
        if self.whole:
            return "everything"
        run = sum(len(window.ids) for window in self.windows)
        share = self.windows[0].share
        words = f"{run:,} of {self.blocks:,} blocks"
        return words if share == 1 else f"{words}, {100 * share:.2g} % of their iterations"


def plan(trace: Trace, gpu: GPU, blocks: int, sms: int, work: float | None, *, l2: bool) -> Plan:
    """Return what to run of the first `blocks` of a trace, over so many SMs, for about `work` transactions.

    Everything, if a block depends on which ones were asked for before it.
    """
    resident = compute_occupancy(trace.launch, gpu).blocks
    whole = Plan((), blocks, sms, resident, whole=True)
    if work is None or not trace.any_order:
        return whole
    costs, finest = _probe(trace, gpu, blocks, PROBE_SHARE, l2)
    if finest < 1 and fmean(costs) * blocks < MUCH * work:
        costs, _ = _probe(trace, gpu, blocks, 1.0, l2)
    cost = fmean(costs)
    if cost * blocks <= work:
        return whole
    overhead = WARP_WORK * trace.launch.block_warps
    part = _Parts(blocks, sms, resident, cost - overhead, overhead, min(1.0, finest), work)
    windows = part.of_all_sms() if l2 else part.of_single_sms()
    return Plan(windows, blocks, sms, resident, spread=pstdev(costs) / cost / len(costs) ** 0.5)


def _probe(trace: Trace, gpu: GPU, blocks: int, share: float, l2: bool) -> tuple[list[float], float]:
    """Return the transactions of some blocks, their making included, and the share that is `ITERATIONS` of loops."""
    places = sorted({at * (blocks - 1) // (PROBES - 1) for at in range(PROBES)})
    excerpt = Excerpt(trace, places, share)
    rule = StoreRule.LINES if l2 else StoreRule.KEEP
    costs, finest, chunk = [], 0.0, Chunk()
    overhead = WARP_WORK * trace.launch.block_warps
    for place in range(len(places)):
        part = excerpt.part(place)
        lines = rows = 0
        for warp in range(trace.launch.block_warps):
            WarpStream(part.content, warp, gpu.l1.line, rule).fill(chunk)
            lines += chunk.used
            rows += chunk.n
        costs.append(lines / max(rows, 1) * part.accesses / part.share + overhead)
        if part.share > 1.5 * share:
            finest = max(finest, part.share * ITERATIONS / 2)
    return costs, finest


@dataclass(frozen=True, slots=True)
class _Parts:
    """What decides about the windows: `cost` of a block's iterations and `overhead` of the block, in transactions."""

    blocks: int
    sms: int
    resident: int
    cost: float
    overhead: float
    finest: float
    work: float

    @property
    def _per_sm(self) -> int:
        return -(-self.blocks // self.sms)

    def of_all_sms(self) -> tuple[Window, ...]:
        """Return one window of all SMs, as they begin: of several waves if there is work for them, or a part of one."""
        wave = min(self.blocks, self.sms * self.resident)
        one = (self.cost + self.overhead) * wave
        waves = max(int(self.work / (1 + HALF) / one), 2 if 2 * (1 + HALF) * one <= SLACK * self.work else 1)
        # Waves of long blocks would all begin in step, unless they are most of the grid.
        if 1 < waves < self.blocks / wave and (self.finest >= HALF or 2 * waves * wave >= self.blocks):
            return (Window(range(wave * waves), self.sms, shorter=wave * (waves // 2)),)
        sms = min(self.sms, MOST_SMS)
        share = self._share(min(self.blocks, sms * self.resident))
        if share < self.finest:
            # Too few iterations to see lines being used again: rather fewer SMs.
            sms = max(1, min(sms, int(SLACK * sms * share / self.finest)))
            share = self.finest
        return (self._late(0, sms, share),)

    def of_single_sms(self) -> tuple[Window, ...]:
        """Return windows of single SMs at places from the first block to the last."""
        count = min(self.resident, self._per_sm)
        number = WINDOWS
        share = self._share(number * count)
        while share < max(self.finest, PROBE_SHARE) and number > 1:
            number -= 1
            share = self._share(number * count)
        share = min(1.0, max(share, self.finest))
        if share == 1 and 2 * count <= self._per_sm:
            return self._stretches(count)
        last = max(0, self.blocks - self.sms * count)
        return tuple(self._late(at * last // max(1, number - 1), 1, share) for at in range(number))

    def _stretches(self, count: int) -> tuple[Window, ...]:
        """Return windows of single SMs that go on for some waves."""
        waves = min(self._per_sm // count, max(2, int(self.work / 3 / (count * (self.cost + self.overhead)))))
        last = self.blocks - 1 - (count * waves - 1) * self.sms
        return tuple(
            Window(range(at * last // 1, self.blocks, self.sms)[: count * waves], 1, shorter=count * (waves // 2))
            for at in range(2 if last > 0 else 1)
        )

    def _share(self, blocks: int) -> float:
        """Return the share of their iterations that so many blocks can have; 1 if nothing has to be cut."""
        if blocks * (self.cost + self.overhead) <= self.work:
            return 1.0
        room = max(self.work / 2, self.work - 2 * self.overhead * blocks)
        return min(1.0, room / (1 + HALF) / (blocks * self.cost))

    def _late(self, first: int, sms: int, share: float) -> Window:
        """Return a wave of blocks, as it is after a while if there are others before it."""
        count = min(self.resident, self._per_sm)
        waves = self.blocks / (self.sms * count)
        pairs = 2 * (count // PAIRS) if waves > 1 else 0
        ahead = min(HALF, DRIFT * (waves - 1)) if waves > 1 and sms > 1 else 0.0
        if ahead:
            share = min(share, 1 - ahead)
        ids, starts = [], []
        for j in range(count):
            for sm in range(sms):
                block = first + (j // 2 * 2 * self.sms + 2 * sm + j % 2 if j < pairs else j * self.sms + sm)
                if block < self.blocks:
                    ids.append(block)
                    starts.append(ahead * (GOLDEN * sm % 1.0))
        return Window(ids, sms, share, starts if ahead else None)
