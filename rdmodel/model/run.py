"""Run one case with one seed, as independent parts; samples of blocks are in `rdmodel.model.sampled_runs`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import partial
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING

from rdmodel.common.late_dataclass import dataclass
from rdmodel.gpu.config import GPU
from rdmodel.gpu.served_loads import bypasses_l1
from rdmodel.model import shared_l2
from rdmodel.model._core import Core
from rdmodel.model.averages import combine_counters, sum_histograms
from rdmodel.model.cores import core_maker
from rdmodel.model.dealing import cap_blocks
from rdmodel.model.late_counts import LateCounts
from rdmodel.model.monitor import PartTimer
from rdmodel.model.options import Options
from rdmodel.model.origins import begin_tally, collect_tally
from rdmodel.model.sm import Sm, dispatch
from rdmodel.results.counts import SmCounts, idle_counts
from rdmodel.results.describe import describe
from rdmodel.results.origins import Origins, add_origins
from rdmodel.results.prediction import L2Prediction, Prediction
from rdmodel.reuse.histogram import Histogram
from rdmodel.trace import Trace
from rdmodel.trace.constants import ConstantReads

if TYPE_CHECKING:
    from rdmodel.model.grid_windows import WindowResult


@dataclass(frozen=True, slots=True)
class PartResult:
    """Counters and times of one part: of one SM, or of several SMs that share a dispatcher or an L2.

    `constants` are the numbers of the lines of constant memory that the blocks of the part read, with an L2.
    """

    counts: list[SmCounts]
    histograms: list[Histogram]
    trace_seconds: float
    seconds: float
    l2: L2Prediction | None = None
    window: WindowResult | None = None
    late: LateCounts | None = None
    constants: AbstractSet[int] = frozenset()
    origins: tuple[Origins, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRun:
    """One run: a case and a seed.

    `origins` says that transactions are counted by origin, too. `dealt` has the number of each modelled SM and the ids
    of its blocks; `resident` blocks fit on an SM at a time. A dispatcher deals the blocks in `order` first, and then
    the others, ascending.
    """

    trace: Trace
    gpu: GPU
    options: Options
    track: bool
    origins: bool
    seed: int
    dealt: tuple[tuple[int, Sequence[int]], ...]
    resident: int
    order: Sequence[int] = field(default=(), kw_only=True)

    @property
    def blocks(self) -> int:
        """Number of blocks that are run, over all SMs."""
        return sum(len(blocks) for _, blocks in self.dealt)

    @property
    def _busy(self) -> list[tuple[int, Sequence[int]]]:
        """Those of the dealt SMs that get a block, the first ones, since blocks go round; the others do nothing."""
        return [(number, blocks) for number, blocks in self.dealt if blocks]

    @property
    def _dispatched(self) -> bool:
        return self.options.model_sms == "all" and self.options.definition == "hardware"

    def parts(self) -> list[Callable[[PartTimer], PartResult]]:
        """Return the parts of the run; they do not depend on each other."""
        if self._dispatched or self.options.l2:
            return [self._run_together]
        return [partial(self._run_alone, sm, blocks) for sm, blocks in self._busy]

    def _run_alone(self, number: int, blocks: Sequence[int], timer: PartTimer) -> PartResult:
        started = perf_counter()
        sm = self._sm(number, timer)
        timer.announce(self.trace, blocks)
        sm.run(iter(blocks))
        return self._part_result([sm], timer, started)

    def _run_together(self, timer: PartTimer) -> PartResult:
        started, busy = perf_counter(), self._busy
        sms = self._sms([number for number, _ in busy], timer)
        cap = cap_blocks(self.trace.launch, self.options)
        first = set(self.order)
        queue = chain(self.order, (block for block in range(self.blocks) if block not in first))
        dealt = range(self.blocks) if self._dispatched else sorted(chain(*(blocks for _, blocks in busy)))
        timer.announce(self.trace, dealt)
        if not self.options.l2:
            dispatch(sms, queue, cap)
            return self._part_result(sms, timer, started)
        constants = self._collect_constants(timer)
        l2 = shared_l2.SharedL2(self.gpu, len(self.dealt))
        supplies = [queue if self._dispatched else iter(blocks) for _, blocks in busy]
        shared_l2.run_side_by_side(sms, supplies, cap, l2)
        result = self._add_l2(self._part_result(sms, timer, started), l2)
        return dataclasses.replace(result, constants=constants.numbers)

    def _collect_constants(self, timer: PartTimer) -> ConstantReads:
        """Return the constant memory that the blocks of a part read, as far as they have been opened."""
        timer.constants = ConstantReads(self.trace.launch, self.gpu.constant_fetch_bytes)
        return timer.constants

    def _sm(self, number: int, timer: PartTimer) -> Sm:
        return self._sms([number], timer)[0]

    def _sms(self, numbers: Sequence[int], timer: PartTimer) -> list[Sm]:
        bypasses = bypasses_l1(self.gpu.l1, self.trace)
        make = core_maker(self.gpu, self.options, self.resident, self.trace.launch.block_warps, self.track, bypasses)
        sms: list[Sm] = []
        for number in numbers:
            core = make()
            tallies = self._begin_tally(core)
            machine = self.trace, core, self.gpu, self.options, self.seed
            sms.append(Sm(*machine, number, timer, origins=tallies, beside=sms[0] if sms else None))
        return sms

    def _begin_tally(self, core: Core) -> bool:
        """Let a new core count by origin if that is wanted; return whether it is."""
        if self.origins:
            begin_tally(core, self.trace.launch, self.gpu)
        return self.origins

    def _part_result(self, sms: Sequence[Sm], timer: PartTimer, started: float) -> PartResult:
        histograms = [sm.histogram() for sm in sms] if self.track else []
        origins = tuple(collect_tally(sm.core, self.trace, self.gpu) for sm in sms) if self.origins else ()
        counts, seconds = [sm.counts() for sm in sms], model_seconds(timer, started)
        return PartResult(counts, histograms, timer.trace_seconds, seconds, origins=origins)

    def _add_l2(self, result: PartResult, l2: shared_l2.SharedL2) -> PartResult:
        return dataclasses.replace(result, l2=l2.prediction())

    def result(self, parts: Sequence[PartResult]) -> Prediction:
        """Combine the results of all parts."""
        counts = [sm for part in parts for sm in part.counts]
        counts += [idle_counts(number) for number, blocks in self.dealt if not blocks]
        # SMs run side by side: their counts add up, their time does not.
        totals = {**combine_counters(sum, counts), "steps": max(sm.steps for sm in counts)}
        histograms = [histogram for part in parts for histogram in part.histograms]
        origins = [tallied for part in parts for tallied in part.origins]
        return Prediction(
            kernel=self.trace.launch.kernel,
            gpu=self.gpu.name,
            definition=self.options.definition,
            seed=self.seed,
            sms_modelled=len(counts),
            **totals,
            histogram=sum_histograms(histograms) if self.track else None,
            l2=_add_constants(parts, self.gpu),
            origins=add_origins(origins) if origins else None,
            trace_seconds=sum(part.trace_seconds for part in parts),
            seconds=sum(part.seconds for part in parts),
            config={**describe(self.trace, self.gpu, self.options, self.seed), "seeds": 1},
            per_sm=tuple(counts),
        )


def all_constants(parts: Sequence[PartResult]) -> AbstractSet[int]:
    """Return the numbers of the lines of constant memory that the blocks of all parts have read."""
    return frozenset[int]().union(*(part.constants for part in parts))


def _add_constants(parts: Sequence[PartResult], gpu: GPU) -> L2Prediction | None:
    """Return the counters of the L2 of the first part, with the constant memory that the blocks of all parts read."""
    l2, lines = parts[0].l2, all_constants(parts)
    if l2 is None or not lines:
        return l2
    return l2.with_constants(len(lines) * gpu.constant_fetch_sectors)


def model_seconds(timer: PartTimer, started: float) -> float:
    """Return the seconds since `started` that were not spent on the trace."""
    return perf_counter() - started - timer.trace_seconds - timer.wait_seconds
