"""Estimate the prediction for a whole grid from excerpts of it: the function `estimate` (docs/sampling.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from statistics import fmean
from typing import Any

from rdmodel import presets
from rdmodel.common.checks import check_flag, check_int
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError
from rdmodel.estimation.bounds import has_long_warps, reach_of_order, warps_may_drift
from rdmodel.estimation.counted_work import count_store_requests, fit_stores
from rdmodel.estimation.excerpt import Excerpt
from rdmodel.estimation.extrapolation import (
    ExcerptRun,
    collect_counts,
    count_early,
    limits_of_dram_reads,
    make_estimates,
    replace_counts,
    scale_to_grid,
)
from rdmodel.estimation.plan import EstimationPlan, Window, advance_bytes, plan_estimate
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import GPU
from rdmodel.model.count_blocks import BlockCounts, count_blocks
from rdmodel.model.divided_runs import predict_parts
from rdmodel.model.predict import make_options, predict, with_l1_options
from rdmodel.model.single_runs import predict_steps
from rdmodel.model.work import check_work
from rdmodel.results.describe import describe_trace
from rdmodel.results.prediction import Prediction
from rdmodel.trace import Trace, missing_block
from rdmodel.trace.check import check_trace

UNSUPPORTED_OPTIONS = (
    "model_sms",
    "threads",
    "sample_sms",
    "sample_blocks",
    "seeds",
    "ablation",
    "breakdown",
    "histogram",
)
"""Options of `predict` that `estimate` refuses: they choose the part of the grid that is run, or need a whole run."""

NO_MODEL_OPTIONS = ("seed", "n_jobs")
"""Options of `predict` that do not describe the machine."""

STORE_BLOCKS = 16
"""Blocks, at most, whose stores are counted if they are programs of loops."""


def estimate(
    trace: Trace,
    gpu: str | GPU | None = None,
    *,
    l2: bool = False,
    work: float | None = 150_000,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Prediction:
    """Estimate what `predict` counts for all blocks on all SMs, from excerpts of about `work` transactions.

    Blocks and iterations are sampled, and every count is scaled to the whole grid. The result depends on the arguments
    alone. It takes time O(`work`), unless blocks have to be made as a whole before they can be cut.

    Parameters
    ----------
    trace : Trace
        The kernel launch.
    gpu : str or GPU, optional
        Name of a preset, path of a ``.toml`` file, or a `GPU`; by default `presets.DEFAULT_GPU`, and
        `presets.PAPER_GPU` with ``definition="paper"``.
    l2 : bool
        Whether requests go on to the L2 that the SMs share.
    work : float or None
        Approximate number of transactions to run. Opening one warp of a block counts as 100 transactions, since it
        takes the same time. With None, or if the whole grid takes no more than `work`, everything is run and the
        result is exact.
    seed : int
        Seed of the model's random numbers.
    progress : callable, optional
        Called with the number of blocks begun and the number of blocks in all.
    **options
        Options of `predict`, except those that choose SMs, blocks and the number of runs.

    Returns
    -------
    Prediction
        All counts are those of the whole grid. `steps` is the time of the SM that ends last. `instructions` counts warp
        instructions, gaps included. `per_sm` has the counts of the first excerpt that was run. `estimates` has an
        `Estimate` of "transactions", "hits", "latency_misses", "misses", "miss_rate" and "steps", and with `l2` of
        "l2_bytes" and "dram_bytes". If the result is exact, the intervals have no width.

    Raises
    ------
    ConfigError
        If an option is unknown, has a bad value, or is not an option of `estimate`.
    LaunchError
        If no block of the launch fits on an SM.
    TraceError
        If `trace` is not a `Trace`, or lacks a block.
    """
    return estimate_again(FinishedRuns(), trace, gpu, l2=l2, work=work, seed=seed, progress=progress, **options)


WindowRuns = tuple[Prediction, list[tuple[ExcerptRun, ExcerptRun | None]]]
"""The prediction of the first window, and the runs of all windows: with all of their work, and shorter."""


class FinishedRuns:
    """The runs of the last estimate of a trace, for the next one with more `work`, and all else the same.

    More work does not always change what is run, since there is a least excerpt that shows reuse.
    """

    def __init__(self) -> None:
        self._last: tuple[tuple[Window, ...], WindowRuns] | None = None

    def of(self, windows: tuple[Window, ...], run: Callable[[], WindowRuns]) -> WindowRuns:
        """Return the runs of some windows: the finished ones, or, if these are of others, those that `run` returns."""
        if self._last is None or self._last[0] != windows:
            self._last = windows, run()
        return self._last[1]


def estimate_again(
    finished: FinishedRuns,
    trace: Trace,
    gpu: str | GPU | None,
    *,
    l2: bool,
    work: float | None,
    seed: int,
    progress: Progress | None,
    **options: Any,
) -> Prediction:
    """Estimate as `estimate` does, but take runs that are `finished`; all but `work` must be the same every time."""
    check_trace(trace)
    for name in UNSUPPORTED_OPTIONS:
        if name in options:
            raise ConfigError(f"{name}: not an option of estimate, which always estimates all blocks on all SMs")
    check_work(work)
    check_flag("l2", l2)
    gpu = fit_to_launch(presets.gpu_or_default(gpu, [options.get("definition")]), trace.launch)
    limits = {name: options.pop(name, None) for name in ("blocks", "sms")}
    for name, value in limits.items():
        if value is not None:
            check_int(name, value, 1)
    blocks = min(limits["blocks"] or trace.launch.blocks, trace.launch.blocks)
    _check_blocks(trace, blocks)
    plan = plan_estimate(trace, gpu, blocks, limits["sms"] or gpu.sms, work, l2=l2)
    runs = _PlannedRuns(trace, gpu, plan, {**options, "l2": l2, "seed": seed}, progress)
    if plan.whole:
        first, run = runs.run_whole()
        result, instructions = first, run.counts["instructions"]
        estimates = make_estimates(result, {}, plan.sampled)
    else:
        assert work is not None
        counted = runs.count_blocks(work, seed) if plan.written_out else None
        first, longest, counts, errors = runs.run_windows(finished, counted)
        ids = sorted({block for window in plan.windows for block in window.ids})
        stores = count_store_requests(trace, ids[:: -(-len(ids) // STORE_BLOCKS)])
        if stores is not None:
            fit_stores(counts, errors, blocks * stores)
        result, instructions = replace_counts(first, counts, gpu), counts["instructions"]
        reach = reach_of_order(counts, runs.may_drift(work, seed)) if not plan.windows[0].early_blocks else None
        dram_limits = limits_of_dram_reads(plan, longest, gpu, trace.launch) if l2 else (0.0, inf)
        estimates = make_estimates(result, errors, plan.sampled, reach, dram_limits)
    config = {**first.config, "trace": describe_trace(trace), "work": work, "sampled": plan.sampled}
    config["options"] = {**config["options"], "sms": plan.sms, "blocks": limits["blocks"]}
    return replace(result, instructions=instructions, estimates=estimates, config=config)


def _check_blocks(trace: Trace, blocks: int) -> None:
    """Raise `TraceError` if one of the first `blocks` blocks of the grid is not in the trace."""
    present = trace.blocks
    if present is None or len(present) == trace.launch.blocks:
        return
    if len(present) < blocks or present[blocks - 1] != blocks - 1:
        raise missing_block(trace, next((i for i, block in enumerate(present) if block != i), len(present)))


class _PlannedRuns:
    """The runs of the model that a plan asks for, with one progress count over all of them."""

    def __init__(
        self, trace: Trace, gpu: GPU, plan: EstimationPlan, options: Mapping[str, Any], progress: Progress | None
    ) -> None:
        self._trace, self._gpu, self._plan, self._options, self._progress = trace, gpu, plan, options, progress
        self._advance = advance_bytes(gpu, l2=options["l2"])
        self._late_share: float | None = None
        self._begun = 0
        self._total = plan.opened

    def run_whole(self) -> tuple[Prediction, ExcerptRun]:
        """Run all blocks."""
        blocks = self._plan.blocks
        if not self._trace.stored:
            return self._run_excerpt(Excerpt(self._trace, range(blocks), advance=self._advance), self._plan.sms)
        # Columns may be mapped from a file: they are read in place, and their pages released after use.
        columns = self._trace.columns
        rows = int(columns.warp_start[blocks * self._trace.launch.block_warps])
        prediction = self._predict(self._trace, self._plan.sms, blocks)
        instructions = rows + int(columns.gap[:rows].sum(dtype="int64"))
        return prediction, ExcerptRun(collect_counts(prediction, instructions), blocks)

    def count_blocks(self, work: float, seed: int) -> BlockCounts:
        """Count the transactions of some whole blocks."""
        rest = {name: value for name, value in self._options.items() if name not in NO_MODEL_OPTIONS}
        gpu = with_l1_options(self._gpu, rest)
        options = make_options({**rest, "sms": self._plan.sms}).resolve(gpu)
        return count_blocks(self._trace, gpu, options, self._plan.blocks, work, seed)

    def run_windows(
        self, finished: FinishedRuns, counted: BlockCounts | None
    ) -> tuple[Prediction, ExcerptRun, dict[str, float], dict[str, float]]:
        """Run the windows, unless they are `finished`.

        Returns the first one's prediction and run, and counts and errors of the whole grid.
        """
        first, runs = finished.of(self._plan.windows, self._run_all_windows)
        return first, runs[0][0], *scale_to_grid(self._plan, runs, self._gpu, self._trace.launch, counted)

    def _run_all_windows(self) -> WindowRuns:
        runs = [self._run_window(window) for window in self._plan.windows]
        return runs[0][0], [(long, early) for _, long, early in runs]

    def may_drift(self, work: float | None, seed: int) -> bool:
        """Return whether warps, of a block or of later waves, may drift apart further than excerpts show."""
        probe, plan = self._plan.probe, self._plan
        assert probe is not None and work is not None
        if plan.waves > 1 and (plan.written_out or plan.windows[0].share == 1):
            return has_long_warps(self._trace, probe.rows)
        counts = BlockCounts(plan.blocks, {"rows": probe.rows, "all_transactions": fmean(probe.costs)}, {})
        options = {name: value for name, value in self._options.items() if name not in NO_MODEL_OPTIONS}
        return warps_may_drift(self._trace, self._gpu, options, plan.sms, counts, work, seed)

    def _run_window(self, window: Window) -> tuple[Prediction, ExcerptRun, ExcerptRun | None]:
        """Run a window; return also its early part as a run, or None if all of it is early."""
        excerpt = Excerpt(self._trace, window.ids, window.share, window.starts, self._advance, window.early)
        if window.early is None:
            return *self._run_excerpt(excerpt, window.sms), None
        prediction, late = predict_parts(excerpt, self._gpu, **self._of_all_sms(window.sms, len(window.ids)))
        run = ExcerptRun(collect_counts(prediction, excerpt.instructions), excerpt.shares)
        if excerpt.early_shares >= excerpt.shares:
            return prediction, run, None
        if self._late_share is None:
            self._late_share = self._time_late_part(prediction)
        steps = self._late_share * prediction.steps
        return prediction, run, count_early(run, late, steps, excerpt.early_instructions, excerpt.early_shares)

    def _time_late_part(self, prediction: Prediction) -> float:
        """Return the share of the time of SM 0 that it takes longer than for its early part alone.

        `prediction` is that of the first window. In a run of both parts, warps that end the early part go on while
        others do not, so that no moment of it is the end of that part. Requests to the L2 take no time in the model.
        """
        *alone, early = map(self._steps_of, self._plan.timed)
        steps = alone[0] if alone else prediction.per_sm[0].steps
        return max(0.0, 1 - early / steps) if steps else 0.0

    def _steps_of(self, window: Window) -> float:
        excerpt = Excerpt(self._trace, window.ids, window.share, window.starts, self._advance)
        options = self._of_all_sms(window.sms, len(window.ids)) | {"l2": False}
        return predict_steps(excerpt, self._gpu, **options)

    def _run_excerpt(self, excerpt: Excerpt, sms: int) -> tuple[Prediction, ExcerptRun]:
        prediction = self._predict(excerpt, sms, excerpt.launch.blocks)
        return prediction, ExcerptRun(collect_counts(prediction, excerpt.instructions), excerpt.shares)

    def _predict(self, trace: Trace, sms: int, blocks: int) -> Prediction:
        return predict(trace, self._gpu, histogram=False, **self._of_all_sms(sms, blocks))

    def _of_all_sms(self, sms: int, blocks: int) -> dict[str, Any]:
        """Return options for a run of the first blocks of a trace on all of some SMs."""
        before = self._begun

        def progress(begun: int, _blocks: int) -> None:
            self._begun = before + begun
            if self._progress is not None:
                self._progress(self._begun, self._total)

        machine = {"sms": sms, "model_sms": "all", "threads": None, "blocks": blocks}
        return {**machine, "progress": progress, **self._options}
