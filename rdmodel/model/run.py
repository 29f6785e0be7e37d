"""One run of the model, a case and a seed, in parts that do not wait for each other; of all SMs or of a sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from rdmodel.errors import TraceError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model import shared_l2
from rdmodel.model.averages import each_counter, sum_histograms
from rdmodel.model.cores import make_core
from rdmodel.model.dealing import cap_blocks, deal
from rdmodel.model.monitor import Clock
from rdmodel.model.options import Options
from rdmodel.model.sample_blocks import Plan, Sampled, estimates_of_blocks
from rdmodel.model.sm import Sm, dispatch
from rdmodel.results.describe import describe
from rdmodel.results.prediction import L2Prediction, Prediction, SmCounts
from rdmodel.reuse.histogram import Histogram
from rdmodel.trace import Trace


@dataclass(frozen=True, slots=True)
class Part:
    """What one SM, or several that share a dispatcher, came to."""

    counts: list[SmCounts]
    histograms: list[Histogram]
    trace_seconds: float
    seconds: float
    l2: L2Prediction | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run: a case and a seed."""

    trace: Trace
    gpu: GPU
    options: Options
    track: bool
    seed: int

    @property
    def blocks(self) -> int:
        """How many blocks are run, over all SMs."""
        return sum(len(blocks) for _, blocks in self._dealt)

    @property
    def _dealt(self) -> list[tuple[int, Sequence[int]]]:
        return list(enumerate(deal(self.trace.launch, self.options)))

    @property
    def _dispatched(self) -> bool:
        return self.options.model_sms == "all" and self.options.definition == "hardware"

    def parts(self) -> list[Callable[[Clock], Part]]:
        """Return the parts of the run that do not wait for each other."""
        if self._dispatched or self.options.l2:
            return [self._run_together]
        return [partial(self._run_alone, sm, blocks) for sm, blocks in self._dealt]

    def _run_alone(self, sm: int, blocks: Sequence[int], clock: Clock) -> Part:
        started = perf_counter()
        one = self._sm(sm, clock)
        one.run(iter(blocks))
        return self._part([one], clock, started)

    def _run_together(self, clock: Clock) -> Part:
        started = perf_counter()
        dealt = self._dealt
        sms = [self._sm(sm, clock) for sm, _ in dealt]
        cap = cap_blocks(self.trace.launch, self.options)
        shared = iter(range(self.blocks))
        if not self.options.l2:
            dispatch(sms, shared, cap)
            return self._part(sms, clock, started)
        l2 = shared_l2.SharedL2(self.gpu, len(sms))
        supplies = [shared if self._dispatched else iter(blocks) for _, blocks in dealt]
        shared_l2.run_side_by_side(sms, supplies, cap, l2)
        return dataclasses.replace(self._part(sms, clock, started), l2=l2.prediction())

    def _sm(self, sm: int, clock: Clock) -> Sm:
        launch = self.trace.launch
        core = make_core(
            self.gpu, self.options, compute_occupancy(launch, self.gpu).blocks, launch.block_warps, self.track
        )
        return Sm(self.trace, core, self.gpu, self.options, self.seed, sm, clock)

    def _part(self, sms: Sequence[Sm], clock: Clock, started: float) -> Part:
        seconds = perf_counter() - started - clock.trace_seconds - clock.waited
        histograms = [sm.histogram() for sm in sms] if self.track else []
        return Part([sm.counts() for sm in sms], histograms, clock.trace_seconds, seconds)

    def result(self, parts: Sequence[Part]) -> Prediction:
        """Return what all parts say together."""
        counts = [sm for part in parts for sm in part.counts]
        if not any(sm.transactions for sm in counts):
            raise TraceError(
                f"the modelled blocks of {self.trace.launch.kernel} hold no loads"
                + ("" if self.options.stores == "allocate" else " (stores are not modelled; option stores)")
            )
        # SMs run side by side: their counts add up, their time does not.
        totals = {**each_counter(sum, counts), "steps": max(sm.steps for sm in counts)}
        histograms = [histogram for part in parts for histogram in part.histograms]
        return Prediction(
            kernel=self.trace.launch.kernel,
            gpu=self.gpu.name,
            definition=self.options.definition,
            seed=self.seed,
            sms_modelled=len(counts),
            **totals,
            histogram=sum_histograms(histograms) if self.track else None,
            l2=parts[0].l2,
            trace_seconds=sum(part.trace_seconds for part in parts),
            seconds=sum(part.seconds for part in parts),
            config={**describe(self.trace, self.gpu, self.options, self.seed), "seeds": 1},
            per_sm=tuple(counts),
        )


@dataclass(frozen=True, slots=True)
class SmsRun(Run):
    """A run of some of the SMs."""

    sms: tuple[int, ...]

    @property
    def _dealt(self) -> list[tuple[int, Sequence[int]]]:
        assert self.options.sms is not None
        per_sm = deal(self.trace.launch, dataclasses.replace(self.options, model_sms=self.options.sms))
        return [(sm, per_sm[sm]) for sm in self.sms]


@dataclass(frozen=True, slots=True)
class BlocksRun(Run):
    """A run of some stretches of the SMs' blocks; `plans` has one plan per modelled SM."""

    plans: tuple[Plan, ...]

    @property
    def blocks(self) -> int:
        """How many blocks are run, over all SMs; those before a stretch too."""
        return sum(one.run for one in self.plans)

    def parts(self) -> list[Callable[[Clock], Part]]:
        """Return the SMs: the stretches of one follow each other on it."""
        return [
            partial(self._run_stretches, sm, blocks, one)
            for (sm, blocks), one in zip(self._dealt, self.plans, strict=True)
        ]

    def _run_stretches(self, sm: int, blocks: Sequence[int], one: Plan, clock: Clock) -> Part:
        started = perf_counter()
        counts = self._sm(sm, clock).run_stretches(
            blocks, one.parts, compute_occupancy(self.trace.launch, self.gpu).blocks
        )
        return Part(counts, [], clock.trace_seconds, perf_counter() - started - clock.trace_seconds - clock.waited)

    def result(self, parts: Sequence[Part]) -> Prediction:
        """Return what the stretches say of all blocks of their SMs."""
        sms = [
            Sampled(one, tuple(part.counts[::2]), tuple(part.counts[1::2]))
            for one, part in zip(self.plans, parts, strict=True)
        ]
        part = Part([sm.total() for sm in sms], [], sum(p.trace_seconds for p in parts), sum(p.seconds for p in parts))
        return dataclasses.replace(Run.result(self, [part]), estimates=estimates_of_blocks(sms))
