"""Simulate combinations of cache-management policies side by side on the same kernels, in parallel."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rdmodel import presets
from rdmodel.answers.store import Answers
from rdmodel.common.axes import draw_groups, given_or_new, nothing_to_draw
from rdmodel.common.checks import check_flag, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.common.progress import Progress
from rdmodel.common.ratios import geometric_interval
from rdmodel.common.text import counted
from rdmodel.contests.defaults import default_combinations
from rdmodel.contests.kept_runs import KeptRuns, RunArguments
from rdmodel.errors import ConfigError, suggestion
from rdmodel.execution.processes import make_picklable, run_in_processes
from rdmodel.execution.shipping import Shipment, open_shipment, pack_trace
from rdmodel.execution.threads import check_jobs
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.policies import IndexFunction, Policy, policy_of_kind
from rdmodel.policies.combinations import Combination, CombinationLike, combination
from rdmodel.policies.registry import BASELINE
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.jitter import vary
from rdmodel.simulator.options import configure
from rdmodel.simulator.simulate import simulate
from rdmodel.trace import Trace
from rdmodel.trace.check import check_trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAX_VARIANTS = 1000
"""Largest number of variants of a run."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Contest(Presented):
    """Combinations of policies on the same kernels; the first, ``none``, is the baseline of the others.

    `simulations` holds for each kernel its runs by the combination's name, in the order of `combinations`, and
    `variants` the runs with other latencies and addresses, by name and number, from 1 up to `jitter` - 1. Runs are
    missing only from the contests that `contest` passes to `so_far`. `kept` is the number of runs that were taken from
    an answers file.
    """

    combinations: tuple[Combination, ...]
    simulations: tuple[Mapping[str, Simulation], ...]
    variants: tuple[Mapping[str, Mapping[int, Simulation]], ...] = ()
    jitter: int = 1
    kept: int = field(default=0, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the combinations."""
        return tuple(entry.name for entry in self.combinations)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return tuple(next(iter(runs.values())).kernel for runs in self.simulations)

    @property
    def complete(self) -> tuple[bool, ...]:
        """For each kernel, whether none of its runs is missing."""
        return tuple(
            all(name in runs and len(self._varied(kernel, name)) == self.jitter - 1 for name in self.names)
            for kernel, runs in enumerate(self.simulations)
        )

    def _varied(self, kernel: int, name: str) -> Mapping[int, Simulation]:
        """Return the finished variants of a kernel under a combination by number, from 1 on."""
        return self.variants[kernel].get(name, {}) if self.variants else {}

    def relative_ipc(self, name: str) -> tuple[float | None, ...]:
        """Return for each kernel the IPC under a combination, by that under ``none``; None where a run is missing.

        It is 1 for a kernel without instructions, and the geometric mean over the variants if there are several.
        """
        return tuple(_mean(ratios) for ratios in self._ratios(name))

    def interval(self, name: str) -> tuple[tuple[float, float] | None, ...]:
        """Return for each kernel the 95 % confidence interval of `relative_ipc` over the variants.

        By Student's t of the logarithms; None where fewer than two variants are finished.
        """
        return tuple(geometric_interval(ratios) for ratios in self._ratios(name))

    def mean_interval(self, name: str) -> tuple[float, float] | None:
        """Return the 95 % confidence interval of `geometric_mean` over the variants; None for fewer than two."""
        kernels = [ratios for ratios, complete in zip(self._ratios(name), self.complete, strict=True) if complete]
        return geometric_interval([statistics.geometric_mean(ratios) for ratios in zip(*kernels, strict=True)])

    def _ratios(self, name: str) -> tuple[tuple[float, ...], ...]:
        """Return for each kernel the IPC under a combination by that under ``none`` of the same variant, in order."""
        self._check(name)
        found = []
        for kernel, runs in enumerate(self.simulations):
            run_of, base_of = self._varied(kernel, name), self._varied(kernel, BASELINE)
            pairs = [(runs.get(name), runs.get(BASELINE))]
            pairs += [(run_of[variant], base_of.get(variant)) for variant in sorted(run_of)]
            found.append(
                tuple(_ratio(run.ipc, base.ipc) for run, base in pairs if run is not None and base is not None)
            )
        return tuple(found)

    def geometric_mean(self, name: str) -> float | None:
        """Return the geometric mean of `relative_ipc` over the kernels that are complete; None without any."""
        pairs = zip(self.relative_ipc(name), self.complete, strict=True)
        ratios = [ratio for ratio, complete in pairs if complete and ratio is not None]
        return statistics.geometric_mean(ratios) if ratios else None

    def hit_rate(self, name: str) -> tuple[float | None, ...]:
        """Return for each kernel the hit rate of its run; None where a run is missing, and for a kernel without loads.

        With variants, it is that of the first.
        """
        self._check(name)
        found = (runs.get(name) for runs in self.simulations)
        return tuple(run.hit_rate if run is not None and run.transactions else None for run in found)

    def mean_hit_rate(self, name: str) -> float | None:
        """Return the arithmetic mean of `hit_rate` over the complete kernels with loads; None without any."""
        pairs = zip(self.hit_rate(name), self.complete, strict=True)
        rates = [rate for rate, complete in pairs if complete and rate is not None]
        return statistics.fmean(rates) if rates else None

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the IPC under every combination, relative to no policies, and return the axes.

        Every kernel has a group of bars. If several kernels are complete, a last group shows their geometric means. A
        missing run leaves a gap, and variants give intervals. The axes are new ones by default; needs matplotlib (extra
        ``plot``). Raises `ConfigError` if no run with policies is finished.
        """
        heights = {name: list(self.relative_ipc(name)) for name in self.names[1:]}
        groups = list(self.kernels)
        if sum(self.complete) > 1:
            groups.append("geometric mean")
            for name, row in heights.items():
                row.append(self.geometric_mean(name))
        if not any(height is not None for row in heights.values() for height in row):
            raise nothing_to_draw(self, "no run with policies is finished")
        ax = given_or_new(ax)
        ax.axhline(1, color="0.7", linewidth=0.8, zorder=0)
        intervals = {name: [*self.interval(name), self.mean_interval(name)][: len(groups)] for name in heights}
        draw_groups(ax, groups, heights, f"IPC relative to {BASELINE}", intervals=intervals)
        ax.set_ylim(0, None)
        return ax

    def __str__(self) -> str:
        """Return the geometric means in one line."""
        means = {name: self.geometric_mean(name) for name in self.names[1:]}
        text = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items() if mean is not None)
        kernels = counted(sum(self.complete), "kernel")
        return f"IPC relative to {BASELINE} over {kernels}: {text or 'nothing to say'}"

    def to_dict(self) -> dict[str, Any]:
        """Return the contest with all runs as plain numbers, strings and dicts, ready for JSON."""
        ratios = {name: self.relative_ipc(name) for name in self.names}
        return {
            "baseline": BASELINE,
            "combinations": [entry.to_dict() for entry in self.combinations],
            "geometric_mean": {name: self.geometric_mean(name) for name in self.names},
            **({"mean_interval": {name: self.mean_interval(name) for name in self.names}} if self.jitter > 1 else {}),
            "kernels": [
                {
                    "kernel": kernel,
                    "relative_ipc": {name: ratios[name][number] for name in runs},
                    **self._plain_variants(number),
                    "simulations": {name: run.to_dict() for name, run in runs.items()},
                }
                for number, (kernel, runs) in enumerate(zip(self.kernels, self.simulations, strict=True))
            ],
        }

    def _plain_variants(self, number: int) -> dict[str, Any]:
        """Return the intervals of a kernel and the ratios of its variants by name; empty without variants."""
        if self.jitter == 1:
            return {}
        intervals = {name: self.interval(name)[number] for name in self.names}
        return {
            "interval": {name: None if ends is None else list(ends) for name, ends in intervals.items()},
            "relative_ipc_by_variant": {name: list(self._ratios(name)[number]) for name in self.names},
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row for every run: kernel, combination, relative IPC, and the row of the simulation."""
        ratios = {name: self.relative_ipc(name) for name in self.names}
        intervals = {name: self.interval(name) for name in self.names}
        rows = []
        for number, runs in enumerate(self.simulations):
            for name, run in runs.items():
                low, high = intervals[name][number] or (None, None)
                ends = {"relative_ipc_low": low, "relative_ipc_high": high} if self.jitter > 1 else {}
                head = {"kernel": run.kernel, "policies": name, "relative_ipc": ratios[name][number], **ends}
                rows.append(head | run.to_row())
        return rows

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the relative IPC of every combination, in a row for each kernel and one for the geometric means."""
        ratios = {name: self.relative_ipc(name) for name in self.names}
        rows: list[dict[str, Any]] = [
            {"kernel": kernel, **{name: ratios[name][number] for name in self.names}}
            for number, kernel in enumerate(self.kernels)
        ]
        return [*rows, {"kernel": "geometric mean", **{name: self.geometric_mean(name) for name in self.names}}]

    def _check(self, name: str) -> None:
        if name not in self.names:
            hint = suggestion(name, self.names) or f"; there are {', '.join(self.names)}"
            raise ConfigError(f"{name!r} takes no part in the contest{hint}")


def _ratio(ipc: float, base: float) -> float:
    return ipc / base if base else 1.0


def _mean(ratios: Sequence[float]) -> float | None:
    if len(ratios) < 2:
        return ratios[0] if ratios else None
    return statistics.geometric_mean(ratios)


def contest(
    traces: Trace | Iterable[Trace],
    policies: Iterable[CombinationLike] | None = None,
    gpu: str | GPU = presets.DEFAULT_GPU,
    *,
    jitter: int = 1,
    n_jobs: int = -1,
    seed: int = 0,
    check: bool = False,
    progress: Progress | None = None,
    so_far: Callable[[Contest], None] | None = None,
    answers: Answers | str | os.PathLike[str] | None = None,
    **options: Any,
) -> Contest:
    """Simulate every kernel under every combination of policies, and without policies.

    Combinations and launches are checked before the first run. The trace of an emulated program is generated only once,
    in memory.

    Parameters
    ----------
    traces : Trace or iterable of Trace
        The kernel launches.
    policies : iterable, optional
        The combinations: texts such as ``"swl:warps=2+mrpb"``, policies, index functions, sequences of these, or
        `Combination` objects; see `combination`. By default all that need no options.
    gpu : str or GPU
        Name of a preset, path of a ``.toml`` file, or a `GPU`.
    jitter : int
        Number of variants of every run, at least 1: the first is the run as it is, the others have latencies of the L1
        and the L2 that differ by up to 5 cycles, and arrays that lie up to 16 KB further apart, the same for all
        combinations. `relative_ipc` is then a mean over the variants, and `interval` its error.
    n_jobs : int
        Processes that share the runs; -1: one for each core, 1: this process only. The result is the same for any
        number.
    seed, check
        As in `simulate`.
    progress : callable, optional
        Called after each run with the number of finished runs and the number of runs in all.
    so_far : callable, optional
        Called after each run with a `Contest` of the finished runs; first with those that `answers` has, if any.
    answers : Answers, str or path, optional
        Answers file that stores each run when it finishes, and from which runs are taken that it has: the same
        contest goes on where it was interrupted. Its questions contain the blocks of the kernels, which are read once
        before the first run.
    **options
        Fields of `SimulationOptions` except `policies`.

    Returns
    -------
    Contest
        All runs, by kernel and combination.

    Raises
    ------
    ConfigError, LaunchError, TraceError, SimulationError
        As in `simulate`; `ConfigError` also for policies that cannot be combined.
    """
    gpu = presets.gpu(gpu)
    kernels = _kernels(traces, gpu)
    check_int("seed", seed, 0)
    check_int("jitter", jitter, 1, MAX_VARIANTS)
    check_flag("check", check)
    check_jobs(n_jobs)
    entries = _with_baseline(default_combinations() if policies is None else policies)
    gpus = {entry.name: _gpu_of(entry, gpu, options) for entry in entries}
    order = [
        (kernel, entry, variant)
        for kernel in range(len(kernels))
        for variant in range(jitter)
        for entry in sorted(entries, key=_run_order)
    ]
    arguments: dict[str, RunArguments] = {
        entry.name: (gpus[entry.name], seed, check, {**options, "policies": entry.policies}) for entry in entries
    }
    simulations: list[dict[str, dict[int, Simulation]]] = [{entry.name: {} for entry in entries} for _ in kernels]
    with nullcontext(answers) if answers is None or isinstance(answers, Answers) else Answers(answers) as store:
        kept = KeptRuns(store, kernels)
        left = []
        for kernel, entry, variant in order:
            found = kept.find(kernel, variant, arguments[entry.name])
            if found is None:
                left.append((kernel, entry.name, variant))
            else:
                simulations[kernel][entry.name][variant] = found
        taken = len(order) - len(left)
        token, packed = uuid4().hex, kernels if n_jobs == 1 else [pack_trace(trace) for trace in kernels]
        runs = [
            (kernel, name, variant, f"{token}:{kernel}", packed[kernel], arguments[name])
            for kernel, name, variant in left
        ]
        result = _so_far(entries, simulations, jitter, taken)
        if taken and so_far is not None:
            so_far(result)
        finished = _run_all(runs, n_jobs)
        try:
            for done, (kernel, name, variant, simulation) in enumerate(finished, taken + 1):
                simulations[kernel][name][variant] = simulation
                kept.store(kernel, variant, arguments[name], simulation)
                result = _so_far(entries, simulations, jitter, taken)
                if progress is not None:
                    progress(done, len(order))
                if so_far is not None:
                    so_far(result)
        except BaseException as error:
            # Throwing the error into the generator makes joblib end its processes at once; abandoning it gives a
            # warning.
            finished.throw(error)
    return result


# ---- entries


def _with_baseline(wanted: Iterable[CombinationLike]) -> tuple[Combination, ...]:
    """Return the baseline and the combinations, each once."""
    if isinstance(wanted, str | Policy | IndexFunction | Combination):
        raise ConfigError(f"policies={wanted!r}: must be a list of combinations")
    by_name = {BASELINE: Combination(name=BASELINE)}
    for entry in map(combination, wanted):
        if by_name.setdefault(entry.name, entry) != entry:
            raise ConfigError(f"policies: two combinations are called {entry.name!r}")
    return tuple(by_name.values())


def _gpu_of(entry: Combination, gpu: GPU, options: Mapping[str, Any]) -> GPU:
    """Return the GPU with the index function of a combination; raise `ConfigError` unless both can be combined."""
    return configure(gpu, {**options, "policies": entry})[0]


def _kernels(traces: Trace | Iterable[Trace], gpu: GPU) -> list[Trace]:
    """Return the traces as a list; raise the error of a trace that cannot be run."""
    kernels = []
    for trace in [traces] if isinstance(traces, Trace) else traces:
        check_trace(trace, "traces")
        compute_occupancy(trace.launch, gpu)
        kernels.append(make_picklable(trace))
    if not kernels:
        raise ConfigError("traces: there is nothing to run; give at least one trace")
    return kernels


# ---- runs

ContestRun = tuple[int, str, int, str, Shipment, RunArguments]
"""Numbers of a kernel and a variant, the name of a combination between them, a trace with its token, and arguments."""


def _run_order(entry: Combination) -> int:
    """Return the place of a combination among the runs of a kernel: first the baseline, then the longest runs."""
    if entry.name == BASELINE:
        return 0
    throttling = policy_of_kind(entry.policies, "throttling")
    return 1 if throttling is not None and throttling.needs_best_limit else 2


def _so_far(
    entries: tuple[Combination, ...],
    simulations: Iterable[Mapping[str, Mapping[int, Simulation]]],
    jitter: int,
    kept: int,
) -> Contest:
    """Return the contest of the kernels that have runs without changes."""
    begun = [by_name for by_name in simulations if any(0 in runs for runs in by_name.values())]
    varied = [
        {name: {variant: run for variant, run in runs.items() if variant} for name, runs in by_name.items()}
        for by_name in begun
    ]
    return Contest(
        combinations=entries,
        simulations=tuple({name: runs[0] for name, runs in by_name.items() if 0 in runs} for by_name in begun),
        variants=tuple(varied) if jitter > 1 else (),
        jitter=jitter,
        kept=kept,
    )


def _run_all(runs: Sequence[ContestRun], n_jobs: int) -> Generator[tuple[int, str, int, Simulation], None, None]:
    """Yield kernel, combination, variant and simulation of each run as it finishes, in any order."""
    return run_in_processes(_run, runs, n_jobs)


def _run(
    kernel: int, name: str, variant: int, token: str, packed: Shipment, arguments: RunArguments
) -> tuple[int, str, int, Simulation]:
    gpu, seed, check, options = arguments
    trace, gpu = vary(open_shipment(token, packed), gpu, variant, seed)
    return kernel, name, variant, simulate(trace, gpu, seed=seed, check=check, **options)
