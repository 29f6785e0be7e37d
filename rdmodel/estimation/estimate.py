"""`estimate`: what `predict` would count for a whole grid, from a small part of it, with its error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from rdmodel import presets
from rdmodel.common.checks import check_flag, check_int
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError
from rdmodel.estimation.excerpt import Excerpt
from rdmodel.estimation.extrapolation import Run, counts_of, estimates, scaled, with_counts
from rdmodel.estimation.plan import HALF, Plan, Window, plan
from rdmodel.gpu.config import GPU
from rdmodel.model.predict import predict
from rdmodel.results.describe import describe_trace
from rdmodel.results.prediction import Prediction
from rdmodel.trace import Trace, missing_block
from rdmodel.trace.check import check_trace

NOT_OF_A_PART = ("model_sms", "threads", "sample_sms", "sample_blocks", "seeds", "ablation", "breakdown", "histogram")
"""Options of `predict` that are not for a part of a grid that stands for all of it."""


def estimate(
    trace: Trace,
    gpu: str | GPU = "gtx470-16k",
    *,
    l2: bool = False,
    work: float | None = 150_000,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Prediction:
    """Estimate what `predict` counts for all blocks on all SMs, from about `work` transactions of them.

    `options` are those of `predict`, but for those that say which SMs and blocks are modelled, and how often. All
    counts are those of the whole grid, `steps` is the time of the SM that ends last, and `instructions` are the warp
    instructions, gaps included; `per_sm` has what was run of the first part. `estimates` has an `Estimate` of
    "transactions", "hits", "latency_misses", "misses", "miss_rate" and "steps", with `l2` also of "l2_bytes" and
    "dram_bytes". If the whole takes no more than `work`, or with ``work=None``, everything is run, and intervals
    have no width. To open a warp of a block counts for 100 transactions, which take as long.

    The answer depends on the arguments alone. Raises `ConfigError`, `LaunchError` or `TraceError`. Time O(`work`), but
    for blocks that have to be made as a whole before they are cut.
    """
    check_trace(trace)
    for name in NOT_OF_A_PART:
        if name in options:
            raise ConfigError(f"{name}: not an option of estimate, which is of all blocks on all SMs")
    if work is not None:
        _check_work(work)
    check_flag("l2", l2)
    machine = presets.gpu(gpu)
    limits = {name: options.pop(name, None) for name in ("blocks", "sms")}
    for name, value in limits.items():
        if value is not None:
            check_int(name, value, 1)
    blocks = min(limits["blocks"] or trace.launch.blocks, trace.launch.blocks)
    _check_held(trace, blocks)
    what = plan(trace, machine, blocks, limits["sms"] or machine.sms, work, l2=l2)
    runs = _Runs(trace, machine, what, {**options, "l2": l2, "histogram": False, "seed": seed}, progress)
    errors: dict[str, float] = {}
    if what.whole:
        found, one = runs.whole()
        result, instructions = found, one.counts["instructions"]
    else:
        found, counts, errors = runs.parts()
        result, instructions = with_counts(found, counts, machine), counts["instructions"]
    config = {**found.config, "trace": describe_trace(trace), "work": work, "sampled": what.sampled}
    config["options"] = {**config["options"], "sms": what.sms, "blocks": limits["blocks"]}
    return replace(result, instructions=instructions, estimates=estimates(result, errors, what.sampled), config=config)


def _check_work(work: Any) -> None:
    if isinstance(work, bool) or not isinstance(work, int | float) or not isfinite(work) or work <= 0:
        raise ConfigError(f"work={work!r}: must be a number of transactions above 0, or None for all")


def _check_held(trace: Trace, blocks: int) -> None:
    """Raise `TraceError` if one of the first `blocks` blocks of the grid is not in the trace."""
    held = trace.blocks
    if held is None or len(held) == trace.launch.blocks:
        return
    if len(held) < blocks or held[blocks - 1] != blocks - 1:
        raise missing_block(trace, next((i for i, block in enumerate(held) if block != i), len(held)))


class _Runs:
    """All runs of one call."""

    def __init__(self, trace: Trace, gpu: GPU, what: Plan, told: Mapping[str, Any], progress: Progress | None) -> None:
        self._trace, self._gpu, self._plan, self._told, self._progress = trace, gpu, what, told, progress
        self._begun = 0
        self._total = what.blocks if what.whole else sum(window.opened for window in what.windows)

    def whole(self) -> tuple[Prediction, Run]:
        """Run all blocks."""
        blocks = self._plan.blocks
        if not self._trace.stored:
            return self._part(range(blocks), self._plan.sms)
        # Columns may be mapped: they are read where they are, and given back.
        columns = self._trace.columns
        rows = int(columns.warp_start[blocks * self._trace.launch.block_warps])
        found = self._predict(self._trace, self._plan.sms, blocks)
        return found, Run(counts_of(found, rows + int(columns.gap[:rows].sum(dtype="int64"))), blocks)

    def parts(self) -> tuple[Prediction, dict[str, float], dict[str, float]]:
        """Run the windows; return the first run, and the counts and standard errors of the whole grid."""
        first, found = None, []
        for window in self._plan.windows:
            prediction, long = self._part(window.ids, window.sms, window.share, window.starts)
            found.append((long, self._shorter(window, long)))
            first = first or prediction
        assert first is not None
        return first, *scaled(self._plan, found, self._gpu, self._trace.launch)

    def _shorter(self, window: Window, long: Run) -> Run | None:
        if window.shorter:
            return self._part(window.ids[: window.shorter], window.sms)[1]
        if window.share == 1:
            return None
        short = self._part(window.ids, window.sms, HALF * window.share, window.starts)[1]
        return short if short.whole < long.whole else None

    def _part(self, ids: Any, sms: int, share: float = 1.0, starts: Any = None) -> tuple[Prediction, Run]:
        part = Excerpt(self._trace, ids, share, starts)
        found = self._predict(part, sms, len(ids))
        return found, Run(counts_of(found, part.instructions), part.shares)

    def _predict(self, trace: Trace, sms: int, blocks: int) -> Prediction:
        before = self._begun

        def progress(begun: int, _blocks: int) -> None:
            self._begun = before + begun
            if self._progress is not None:
                self._progress(self._begun, self._total)

        return predict(
            trace, self._gpu, sms=sms, model_sms="all", threads=None, blocks=blocks, progress=progress, **self._told
        )
