"""Plan an estimate: choose the blocks to run, the SMs to run them on, and the share of iterations that they keep."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev

from rdmodel.common.late_dataclass import dataclass
from rdmodel.estimation.bounds import loaded_bytes
from rdmodel.estimation.excerpt import EarlyPart, Excerpt
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model.options import STORES_IN_PLACE
from rdmodel.trace import Columns, Trace
from rdmodel.trace.coalescing import Chunk, StoreRule, WarpStream

TRANSACTIONS_PER_OPENED_WARP = 100
"""Cost of making and opening one warp of a block: the number of transactions that take the same time."""

PROBED_BLOCKS = 3
"""Blocks whose cost is measured before the plan is made: the first, the last, and those between."""

PROBE_SHARE = 1 / 32
"""Share of a block's iterations that is measured first: enough where the grid has far more work than is allowed."""

MAX_WINDOW_SHARE = 1 / 3
"""Share of the whole work from which on windows of all SMs are not worth their error: everything is run instead."""

PROBED_ROWS, PROBED_LINES = 2048, 16384
"""Instructions of each warp of a probed block that are coalesced to count its lines, and room for these."""

WHOLE_PROBE_RATIO = 4
"""Multiple of the allowed work up to which probed blocks are measured as a whole, if the first probe cut them.

The cost that a cut block suggests may be wrong. Near the allowed work, that could decide wrongly whether everything is
run, and there whole blocks are cheap enough to measure.
"""

MAX_ROWS_OF_WAVE = 1 << 21
"""Warp instructions of a wave up to which blocks in columns are not cut.

Such blocks are made whole before they are cut, in both runs: a cut saves little time. But the instructions of a wave
are in memory at the same time, and these take about 600 MB.
"""

LEAST_SHARE = 1e-9
"""Share of a block's iterations that asks for the fewest that its loops can keep."""

MAX_WORK_RATIO = 2.0
"""Multiple of the allowed work that may be spent if less work would give too little information."""

MAX_WORK_RATIO_OF_WHOLE_BLOCKS = 6.0
"""The same for two waves of blocks that are not cut: one wave shows neither the misses nor the time of later blocks."""

MAX_WINDOWS = 3
"""Places of the grid at which single SMs are run."""

EARLY_SHARE = 0.5
"""Share of the iterations of a window that are its early part, which is counted apart."""

EXCERPT_SHARE = 2 / 3
"""Share of the work that windows get; the rest pays for the probe and the pilot."""

SHORT_BLOCK_SHARE = 0.5
"""A block is short if the fewest iterations from which estimates are made are at least this share of its loops."""

MAX_BLOCK_LEAD = 0.5
"""Share of its length by which a block of a late wave is ahead of the others at most."""

BLOCK_LEAD_PER_WAVE = 0.05
"""Share of their length by which the blocks of two SMs drift apart in one wave.

A guess that brought estimates near exact runs (docs/sampling.md).
"""

RESIDENT_BLOCKS_PER_PAIR = 3
"""Resident blocks of a late wave for each pair of consecutive blocks that one SM was given together.

A guess that brought estimates near exact runs (docs/sampling.md).
"""

MAX_CUT_WAVES = 3
"""Waves up to which all blocks are run with a share of their iterations, and not only those of one wave."""

SMS_OF_LATER_WAVES = 2
"""SMs that are run side by side in a sample of few waves: blocks of later waves go to the one that is done first."""

MAX_SMS_SIDE_BY_SIDE = 1 << 10
"""SMs that are modelled side by side at most: time and memory grow with them, however few blocks each has."""

GOLDEN_SECTION = 0.6180339887498949
"""Fractional part of the golden ratio: any number of its multiples, modulo 1, is spread evenly from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Window:
    """Blocks that run together on `sms` SMs, by their `ids` in the order in which they are dealt.

    Each block keeps `share` of its iterations and skips ``starts[i]`` of them before (None: none). To tell how a run
    begins from how it goes on, an early part is counted apart: the first `early_blocks` blocks or, if that is 0 and
    iterations are cut, `EARLY_SHARE` of the iterations of each block.
    """

    ids: Sequence[int]
    sms: int
    share: float = 1.0
    starts: Sequence[float] | None = None
    early_blocks: int = 0

    @property
    def early(self) -> EarlyPart | None:
        """The part that is counted apart, or None: a run of all blocks as a whole."""
        if self.early_blocks:
            return EarlyPart(1.0, self.early_blocks)
        return EarlyPart(EARLY_SHARE * self.share) if self.share < 1 else None

    @property
    def on_one_sm(self) -> tuple[Window, Window]:
        """The blocks that SM 0 gets if all blocks take the same time: all that they have, and the early part alone."""
        ids, starts = self.ids[:: self.sms], None if self.starts is None else self.starts[:: self.sms]
        if self.early_blocks:
            return Window(ids, 1), Window(self.ids[: self.early_blocks : self.sms], 1)
        return Window(ids, 1, self.share, starts), Window(ids, 1, EARLY_SHARE * self.share, starts)


@dataclass(frozen=True, slots=True)
class Probe:
    """Measurements of some blocks: the `costs` of each in transactions, and its mean number of instructions (`rows`).

    Costs include the opening of warps. `loaded` is the number of bytes of all arrays that the blocks load from, or None
    if they load from elsewhere.
    """

    costs: tuple[float, ...]
    rows: float
    loaded: int | None


@dataclass(frozen=True, slots=True)
class EstimationPlan:
    """The windows to run, and the grid that they stand for: `blocks` over `sms` SMs, `resident` at a time on each.

    If `whole`, everything is run, and there are no windows. Otherwise `probe` has the measurements of some blocks.
    `written_out`: blocks are made in columns, so that one part of a block may differ from another one.
    """

    windows: tuple[Window, ...]
    blocks: int
    sms: int
    resident: int
    whole: bool = False
    probe: Probe | None = None
    written_out: bool = False

    @property
    def spread(self) -> float:
        """Standard error of a block's mean work, relative to that mean."""
        return (
            0.0
            if self.probe is None
            else pstdev(self.probe.costs) / fmean(self.probe.costs) / len(self.probe.costs) ** 0.5
        )

    @property
    def covered(self) -> float:
        """Share of the grid's work that is run."""
        return min(1.0, sum(len(window.ids) * window.share for window in self.windows) / self.blocks)

    @property
    def waves(self) -> float:
        """Number of times that all SMs are filled with blocks."""
        return self.blocks / min(self.blocks, self.sms * self.resident)

    @property
    def timed(self) -> tuple[Window, ...]:
        """The runs that show how long the late part of the first window takes: of SM 0 alone, if it ran otherwise.

        The last one is that of the early part alone.
        """
        window = self.windows[0]
        if window.early is None:
            return ()
        runs = window.on_one_sm
        return runs if len(window.ids) > window.sms * self.resident and window.sms > 1 else runs[1:]

    @property
    def opened(self) -> int:
        """Number of blocks opened in all runs."""
        return self.blocks if self.whole else sum(len(window.ids) for window in (*self.windows, *self.timed))

    @property
    def deals_all(self) -> bool:
        """Whether the waves are so few that a window has all blocks of its SMs."""
        return self.blocks <= MAX_CUT_WAVES * self.sms * self.resident

    @property
    def sampled(self) -> str:
        """Description of the sample, such as "84 of 1,024 blocks"."""
        if self.whole:
            return "everything"
        run = sum(len(window.ids) for window in self.windows)
        share = self.windows[0].share
        words = f"{run:,} of {self.blocks:,} blocks"
        return words if share == 1 else f"{words}, {100 * share:.2g} % of their iterations"


def plan_estimate(trace: Trace, gpu: GPU, blocks: int, sms: int, work: float | None, *, l2: bool) -> EstimationPlan:
    """Plan a run of about `work` transactions for the first `blocks` blocks of a trace, dealt over `sms` SMs.

    Everything is run if a block depends on the blocks that were read before it.
    """
    resident = compute_occupancy(trace.launch, gpu).blocks
    whole = EstimationPlan((), blocks, sms, resident, whole=True)
    if work is None or not trace.any_order:
        return whole
    places = sorted({at * (blocks - 1) // (PROBED_BLOCKS - 1) for at in range(PROBED_BLOCKS)})
    finest, written_out = _measure_cuts(trace, places, advance_bytes(gpu, l2=l2))
    probe = _probe(trace, gpu, places, 1.0 if written_out else PROBE_SHARE, l2)
    if finest < 1 and not written_out and fmean(probe.costs) * blocks < WHOLE_PROBE_RATIO * work:
        probe = _probe(trace, gpu, places, 1.0, l2)
    if written_out:
        rows = probe.rows * min(blocks, resident * (sms if l2 else 1))
        finest = max(finest, min(1.0, MAX_ROWS_OF_WAVE / max(rows, 1.0)))
    cost = fmean(probe.costs)
    if cost * blocks <= work:
        return whole
    overhead = TRANSACTIONS_PER_OPENED_WARP * trace.launch.block_warps
    planner = _WindowPlanner(blocks, sms, resident, cost - overhead, overhead, finest, work)
    windows = planner.windows_of_all_sms() if l2 else planner.windows_of_single_sms()
    if l2 and sum(map(planner.cost_of, windows)) >= MAX_WINDOW_SHARE * cost * blocks:
        return whole
    return EstimationPlan(windows, blocks, sms, resident, probe=probe, written_out=written_out)


def advance_bytes(gpu: GPU, *, l2: bool) -> int:
    """Return the bytes by which loops advance between excerpts: those that one miss brings in."""
    return max(gpu.l1.sector_bytes, gpu.l2_fetch_bytes) if l2 else gpu.l1.sector_bytes


def _measure_cuts(trace: Trace, places: Sequence[int], advance: int) -> tuple[float, bool]:
    """Return the least share of iterations of which the shorter of two runs can have fewer, at most 1.

    Also return whether a block is made in columns.
    """
    excerpt = Excerpt(trace, places, LEAST_SHARE, advance=advance)
    excerpt.announce(range(len(places)))
    least = [excerpt.cut(place) for place in range(len(places))]
    finest = min(1.0, max(part.share for part in least) / EARLY_SHARE)
    return finest, any(isinstance(part.content, Columns) for part in least)


def _probe(trace: Trace, gpu: GPU, places: Sequence[int], share: float, l2: bool) -> Probe:
    """Measure some blocks, of which a share of the iterations is coalesced."""
    excerpt = Excerpt(trace, places, share)
    rule = StoreRule.LINES if l2 or gpu.l1.stores in STORES_IN_PLACE else StoreRule.KEEP
    chunk = Chunk(PROBED_ROWS, PROBED_LINES)
    overhead = TRANSACTIONS_PER_OPENED_WARP * trace.launch.block_warps
    excerpt.announce(range(len(places)))
    parts = [excerpt.cut(place) for place in range(len(places))]
    costs = []
    for part in parts:
        lines = rows = 0
        for warp in range(trace.launch.block_warps):
            WarpStream(part.content, warp, gpu.l1.line, rule, None, gpu.l1.request_bytes).fill(chunk)
            lines += chunk.used
            rows += chunk.n
        costs.append(lines / max(rows, 1) * part.accesses / part.share + overhead)
    loaded = loaded_bytes(trace.launch, [part.content for part in parts], gpu.l2_fetch_bytes) if l2 else None
    return Probe(tuple(costs), fmean(part.accesses / part.share for part in parts), loaded)


@dataclass(frozen=True, slots=True)
class _WindowPlanner:
    """Chooses windows for a grid whose blocks cost `cost` for their iterations and `overhead` each, in transactions.

    `finest` is the smallest share of iterations in which reuse shows, `work` the number of transactions to run.
    """

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

    def windows_of_all_sms(self) -> tuple[Window, ...]:
        """Return one window of all SMs from the first block on: some waves if `work` allows it, else part of one."""
        wave = min(self.blocks, self.sms * self.resident)
        wave_work = (self.cost + self.overhead) * wave
        work = EXCERPT_SHARE * self.work
        most = MAX_WORK_RATIO if self.finest < 1 else MAX_WORK_RATIO_OF_WHOLE_BLOCKS
        waves = max(int(work / wave_work), 2 if 2 * wave_work <= most * work else 1)
        # Waves of long blocks would all begin in step, which matters unless they are most of the grid.
        if 1 < waves < self.blocks / wave and (self.finest >= SHORT_BLOCK_SHARE or 2 * waves * wave >= self.blocks):
            return (Window(range(wave * waves), self.sms, early_blocks=wave * (waves // 2)),)
        sms = min(self.sms, MAX_SMS_SIDE_BY_SIDE)
        # With fewer iterations no reuse would show, and with fewer SMs another L2: a large GPU takes more than `work`.
        if self.sms <= MAX_SMS_SIDE_BY_SIDE and self.blocks <= MAX_CUT_WAVES * wave:
            # The dispatcher deals later waves in another order, and the last one leaves slots empty.
            share = max(self.finest, self._affordable_share(self.blocks))
            return (Window(range(self.blocks), self.sms, share),)
        share = max(self.finest, self._affordable_share(min(self.blocks, sms * self.resident)))
        return (self._late_wave(0, sms, share),)

    def cost_of(self, window: Window) -> float:
        """Return the work of a window in transactions."""
        return len(window.ids) * (self.overhead + window.share * self.cost)

    def windows_of_single_sms(self) -> tuple[Window, ...]:
        """Return windows of single SMs, at places from the first block to the last."""
        if self.blocks <= MAX_CUT_WAVES * self.sms * self.resident:
            return self._windows_of_few_waves()
        count = min(self.resident, self._per_sm)
        number, share = self._affordable_windows(count, MAX_WINDOWS)
        if share == 1 and 2 * count <= self._per_sm:
            return self._windows_of_waves(count)
        last = max(0, self.blocks - self.sms * count)
        return tuple(self._late_wave(at * last // max(1, number - 1), 1, share) for at in range(number))

    def _windows_of_few_waves(self) -> tuple[Window, ...]:
        """Return windows of some SMs with all blocks that they are given, in a grid of few waves."""
        used = min(self.sms, self.blocks)
        side_by_side = min(used, 1 if self.blocks <= self.sms * self.resident else SMS_OF_LATER_WAVES)
        number, share = self._affordable_windows(side_by_side * self._per_sm, used // side_by_side)
        places = used - side_by_side + 1
        firsts = [(2 * at + 1) * places // (2 * number) for at in range(number)]
        return tuple(Window(self._dealt_to(first, side_by_side), side_by_side, share) for first in firsts)

    def _dealt_to(self, first: int, sms: int) -> list[int]:
        """Return the blocks that `sms` SMs are given, from SM `first` on: in the first wave, every `self.sms`-th one.

        Later waves are dealt to the SM that is done first: these SMs get one of as many blocks as the others together.
        """
        wave = min(self.blocks, self.sms * self.resident)
        ids = [sm + at for at in range(0, wave, self.sms) for sm in range(first, first + sms) if sm + at < wave]
        later = round((self.blocks - wave) * sms / self.sms)
        for at in range(later):
            low, high = (wave + (self.blocks - wave) * (at + end) // later for end in range(2))
            ids.append(low + int(GOLDEN_SECTION * (at + 1 + first) % 1.0 * (high - low)))
        return ids

    def _windows_of_waves(self, count: int) -> tuple[Window, ...]:
        """Return windows of single SMs that run some waves of whole blocks."""
        waves = min(
            self._per_sm // count, max(2, int(EXCERPT_SHARE * self.work / 2 / (count * (self.cost + self.overhead))))
        )
        last = self.blocks - 1 - (count * waves - 1) * self.sms
        return tuple(
            Window(range(at * last, self.blocks, self.sms)[: count * waves], 1, early_blocks=count * (waves // 2))
            for at in range(2 if last > 0 else 1)
        )

    def _affordable_windows(self, blocks: int, most: int) -> tuple[int, float]:
        """Return a number of windows of `blocks` blocks, `MAX_WINDOWS` and `most` at most, and the share they keep."""
        number = min(MAX_WINDOWS, most)
        while number > 1 and self._affordable_share(number * blocks) < max(self.finest, PROBE_SHARE):
            number -= 1
        return number, min(1.0, max(self._affordable_share(number * blocks), self.finest))

    def _affordable_share(self, blocks: int) -> float:
        """Return the share of their iterations that `blocks` blocks can keep; 1 if nothing has to be cut."""
        if blocks * (self.cost + self.overhead) <= self.work:
            return 1.0
        work = EXCERPT_SHARE * self.work
        return min(1.0, max(work / 2, work - self.overhead * blocks) / (blocks * self.cost))

    def _late_wave(self, first: int, sms: int, share: float) -> Window:
        """Return a wave of blocks as it looks after earlier waves, if there are any: out of step, and in pairs."""
        count = min(self.resident, self._per_sm)
        waves = self.blocks / (self.sms * count)
        paired = 2 * (count // RESIDENT_BLOCKS_PER_PAIR) if waves > 1 else 0
        lead = min(MAX_BLOCK_LEAD, BLOCK_LEAD_PER_WAVE * (waves - 1)) if waves > 1 and sms > 1 else 0.0
        share = max(self.finest, min(share, 1 - lead))
        lead = min(lead, 1 - share)
        ids, starts = [], []
        for j in range(count):
            for sm in range(sms):
                block = first + (j // 2 * 2 * self.sms + 2 * sm + j % 2 if j < paired else j * self.sms + sm)
                if block < self.blocks:
                    ids.append(block)
                    starts.append(lead * (GOLDEN_SECTION * sm % 1.0))
        return Window(ids, sms, share, starts if lead else None)
