"""`contest`: combinations of cache-management policies side by side on the same kernels, run in parallel."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rdmodel import presets
from rdmodel.common.checks import check_flag, check_int
from rdmodel.common.progress import Progress
from rdmodel.contests.combinations import BASELINE, Combination, Wanted, combination
from rdmodel.errors import ConfigError, suggestion
from rdmodel.execution.processes import make_picklable, run_in_processes
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.policies import SWL, IndexFunction, Policy, policy_of_kind
from rdmodel.results.describe import frame
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.simulate import make_options, simulate
from rdmodel.trace import Trace
from rdmodel.trace.check import check_trace

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Combinations of policies on the same kernels; the first, ``none``, is what the others are relative to.

    `simulations` holds for each kernel its runs by the combination's name, in the order of `combinations`. All are
    there, unless the contest is one of those that `contest` shows on its way.
    """

    combinations: tuple[Combination, ...]
    simulations: tuple[Mapping[str, Simulation], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the combinations."""
        return tuple(one.name for one in self.combinations)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels' names."""
        return tuple(next(iter(runs.values())).kernel for runs in self.simulations)

    @property
    def complete(self) -> tuple[bool, ...]:
        """For each kernel, whether all of its runs are there."""
        return tuple(len(runs) == len(self.combinations) for runs in self.simulations)

    def relative_ipc(self, name: str) -> tuple[float | None, ...]:
        """Return for each kernel the IPC under a combination, by that under ``none``; None where a run is missing."""
        self._check(name)
        pairs = [(runs.get(name), runs.get(BASELINE)) for runs in self.simulations]
        return tuple(None if one is None or base is None else one.ipc / base.ipc for one, base in pairs)

    def geometric_mean(self, name: str) -> float | None:
        """Return the geometric mean of `relative_ipc` over the kernels that are complete; None without any."""
        pairs = zip(self.relative_ipc(name), self.complete, strict=True)
        ratios = [ratio for ratio, complete in pairs if complete and ratio is not None]
        return statistics.geometric_mean(ratios) if ratios else None

    def __str__(self) -> str:
        """Return the geometric means in one line."""
        means = {name: self.geometric_mean(name) for name in self.names[1:]}
        text = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items() if mean is not None)
        count = sum(self.complete)
        return f"IPC relative to {BASELINE} over {count} kernel{'' if count == 1 else 's'}: {text or 'nothing to say'}"

    def to_dict(self) -> dict[str, Any]:
        """Return the contest with all of its runs as plain numbers, strings and dicts, ready for JSON."""
        ratios = {name: self.relative_ipc(name) for name in self.names}
        return {
            "baseline": BASELINE,
            "combinations": [one.to_dict() for one in self.combinations],
            "geometric_mean": {name: self.geometric_mean(name) for name in self.names},
            "kernels": [
                {
                    "kernel": kernel,
                    "relative_ipc": {name: ratios[name][number] for name in runs},
                    "simulations": {name: run.to_dict() for name, run in runs.items()},
                }
                for number, (kernel, runs) in enumerate(zip(self.kernels, self.simulations, strict=True))
            ],
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one flat row for every run: kernel, combination, relative IPC, and the row of the simulation."""
        ratios = {name: self.relative_ipc(name) for name in self.names}
        return [
            {"kernel": run.kernel, "policies": name, "relative_ipc": ratios[name][number], **run.to_row()}
            for number, runs in enumerate(self.simulations)
            for name, run in runs.items()
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return `to_rows` as a data frame; needs pandas (extra ``frame``)."""
        return frame(self.to_rows())

    def _check(self, name: str) -> None:
        if name not in self.names:
            hint = suggestion(name, self.names) or f"; there are {', '.join(self.names)}"
            raise ConfigError(f"{name!r} takes no part in the contest{hint}")


def contest(
    traces: Trace | Iterable[Trace],
    policies: Iterable[Wanted],
    gpu: str | GPU = "gtx470-16k",
    *,
    n_jobs: int = -1,
    seed: int = 0,
    check: bool = False,
    progress: Progress | None = None,
    so_far: Callable[[Contest], None] | None = None,
    **options: Any,
) -> Contest:
    """Simulate every kernel under every combination of policies, and under none.

    `policies` has texts (``"swl:warps=2+mrpb"``, see `combination`), policies, index functions, sequences of these, or
    `Combination` objects. `options` are the fields of `SimulationOptions` but for its policies; `seed` and `check` are
    as in `simulate`. The runs are shared out to `n_jobs` processes (-1: one for each core; 1: none but this one), and
    the result is the same for any number. `progress` is called with (runs finished, runs in all), `so_far` with a
    `Contest` of the runs that are finished, after each.

    Combinations and launches are checked before the first run. The trace of an emulated program is written out, once,
    in memory. Raises what `simulate` raises.
    """
    machine = presets.gpu(gpu)
    kernels = _kernels(traces, machine)
    check_int("seed", seed, 0)
    check_flag("check", check)
    if n_jobs != -1:
        check_int("n_jobs", n_jobs, 1)
    combined = _with_baseline(policies)
    machines = {one.name: _check_machine(one, machine, options) for one in combined}
    order = [(kernel, one) for kernel in range(len(kernels)) for one in sorted(combined, key=_turn)]
    runs = [
        (kernel, one.name, (kernels[kernel], machines[one.name], seed, check, {**options, "policies": one.policies}))
        for kernel, one in order
    ]
    found: list[dict[str, Simulation]] = [{} for _ in kernels]
    result = Contest(combinations=combined, simulations=())
    finished = _run_all(runs, n_jobs)
    try:
        for done, (kernel, name, simulation) in enumerate(finished, 1):
            found[kernel][name] = simulation
            result = Contest(combinations=combined, simulations=_in_order(found, machines))
            if progress is not None:
                progress(done, len(runs))
            if so_far is not None:
                so_far(result)
    except BaseException as error:
        # joblib ends its processes at once if it is told; it would warn if it were only left.
        finished.throw(error)
    return result


# ---- what takes part


def _with_baseline(wanted: Iterable[Wanted]) -> tuple[Combination, ...]:
    """Return the combinations, each once, after the baseline."""
    if isinstance(wanted, str | Policy | IndexFunction | Combination):
        raise ConfigError(f"policies={wanted!r}: must be a list of combinations")
    found = {BASELINE: Combination(name=BASELINE)}
    for one in map(combination, wanted):
        if found.setdefault(one.name, one) != one:
            raise ConfigError(f"policies: two combinations are called {one.name!r}")
    return tuple(found.values())


def _check_machine(one: Combination, gpu: GPU, options: Mapping[str, Any]) -> GPU:
    """Return the GPU with a combination's index function; raise `ConfigError` for what it cannot be run with."""
    make_options({**options, "policies": one.policies})
    return gpu if one.index is None else gpu.replace(l1=dataclasses.replace(gpu.l1, index=one.index))


def _kernels(traces: Trace | Iterable[Trace], gpu: GPU) -> list[Trace]:
    """Return the traces as a list; raise what a trace raises that cannot be run."""
    kernels = []
    for trace in [traces] if isinstance(traces, Trace) else traces:
        check_trace(trace, "traces")
        compute_occupancy(trace.launch, gpu)
        kernels.append(make_picklable(trace))
    if not kernels:
        raise ConfigError("traces: there is nothing to run")
    return kernels


# ---- runs

Arguments = tuple[Trace, GPU, int, bool, Mapping[str, Any]]
Run = tuple[int, str, Arguments]
"""Which kernel, under which combination, and with what it is simulated."""


def _turn(one: Combination) -> int:
    """Return when a kernel's run under a combination comes: the baseline first, then what takes longest."""
    if one.name == BASELINE:
        return 0
    throttling = policy_of_kind(one.policies, "throttling")
    return 1 if isinstance(throttling, SWL) and throttling.warps == "best" else 2


def _in_order(found: Iterable[Mapping[str, Simulation]], names: Iterable[str]) -> tuple[Mapping[str, Simulation], ...]:
    """Return the runs of kernels that have any, in the order of the names, whichever was finished first."""
    wanted = tuple(names)
    return tuple({name: runs[name] for name in wanted if name in runs} for runs in found if runs)


def _run_all(runs: Sequence[Run], n_jobs: int) -> Generator[tuple[int, str, Simulation], None, None]:
    """Yield the runs' kernels, combinations and simulations as they are finished, in any order."""
    return run_in_processes(_run, runs, n_jobs)


def _run(kernel: int, name: str, arguments: Arguments) -> tuple[int, str, Simulation]:
    trace, gpu, seed, check, options = arguments
    return kernel, name, simulate(trace, gpu, seed=seed, check=check, **options)
