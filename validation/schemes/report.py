"""Tabulate how fast the schemes are on each GPU, and which of them help."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rdmodel.common.ratios import geometric_interval
from rdmodel.plots.contest_figure import tables_figure
from rdmodel.policies.registry import BASELINE
from validation.schemes.machines import FOLDER, GREEDY, VARIANTS, Run

RESULTS = FOLDER / "RESULTS.md"
FIGURE = FOLDER.parents[1] / "docs" / "schemes-a100.png"
FIGURE_GPU = "a100-80g"
"""The page of the tables, and the figure of one GPU."""

NOTICED = 0.02
"""Change of speed from which a kernel counts as faster or slower."""

Key = tuple[str, str, str]
"""A GPU, a kernel and a combination of policies."""


class Speeds:
    """The speeds of recorded runs relative to no policies, by GPU, kernel and combination."""

    def __init__(self, runs: Sequence[Run]) -> None:
        cycles = {(run.gpu, run.kernel, run.policies, run.variant): run.cycles for run in runs}
        self.gpus = list(dict.fromkeys(run.gpu for run in runs))
        self.kernels = list(dict.fromkeys(run.kernel for run in runs))
        self.schemes = [name for name in dict.fromkeys(run.policies for run in runs) if name != BASELINE]
        self._ratios = {
            (gpu, kernel, name): [
                cycles[gpu, kernel, BASELINE, variant] / cycles[gpu, kernel, name, variant]
                for variant in range(VARIANTS)
            ]
            for gpu in self.gpus
            for kernel in self.kernels
            for name in self.schemes
        }

    def of_kernel(self, gpu: str, kernel: str, name: str) -> float:
        """Return the geometric mean over the variants."""
        return statistics.geometric_mean(self._ratios[gpu, kernel, name])

    def mean(self, gpu: str, name: str) -> float:
        """Return the geometric mean over kernels and variants."""
        return statistics.geometric_mean([ratio for k in self.kernels for ratio in self._ratios[gpu, k, name]])

    def interval(self, gpu: str, name: str) -> tuple[float, float]:
        """Return the 95 % confidence interval of `mean` over the variants."""
        kernels = [self._ratios[gpu, kernel, name] for kernel in self.kernels]
        found = geometric_interval([statistics.geometric_mean(ratios) for ratios in zip(*kernels, strict=True)])
        assert found is not None  # there are several variants
        return found


def draw(runs: Sequence[Run]) -> None:
    """Draw the figure of `FIGURE_GPU`: speeds as geometric means over the variants, hit rates of the first variant.

    `GREEDY` is left out, since it is no scheme.
    """
    speeds = Speeds([run for run in runs if run.gpu == FIGURE_GPU])
    schemes = [name for name in speeds.schemes if name != GREEDY]
    rows: dict[str, list[float]] = {BASELINE: [1.0] * (len(speeds.kernels) + 1)}
    for name in schemes:
        ratios = [speeds.of_kernel(FIGURE_GPU, kernel, name) for kernel in speeds.kernels]
        rows[name] = [*ratios, speeds.mean(FIGURE_GPU, name)]
    hits = {(run.kernel, run.policies): 100 * run.hit_rate for run in runs if run.gpu == FIGURE_GPU and not run.variant}
    rates = {name: [hits[kernel, name] for kernel in speeds.kernels] for name in rows}
    tables_figure(
        [*speeds.kernels, "mean"],
        rows,
        {name: [*found, statistics.fmean(found)] for name, found in rates.items()},
        FIGURE,
        means=True,
    )


def page(runs: Sequence[Run]) -> str:
    """Return the tables of means and of kernels."""
    speeds = Speeds(runs)
    hits = {(run.gpu, run.kernel, run.policies): run.hit_rate for run in runs if not run.variant}
    parts = [means(speeds, hits)]
    parts += [f"On `{gpu}`, by kernel:\n\n{by_kernel(speeds, gpu)}" for gpu in speeds.gpus]
    return "\n".join(parts)


def means(speeds: Speeds, hits: dict[Key, float]) -> str:
    """Return the table of the mean speeds, with the numbers of faster and slower kernels and the hit rates."""
    lines = [
        f"| scheme | {' | '.join(f'`{gpu}` | faster, slower | L1 hits' for gpu in speeds.gpus)} |",
        "|---|" + "---:|---:|---:|" * len(speeds.gpus),
    ]
    for name in [BASELINE, *speeds.schemes]:
        cells = []
        for gpu in speeds.gpus:
            rate = f"{100 * statistics.fmean(hits[gpu, kernel, name] for kernel in speeds.kernels):.0f} %"
            cells += (
                ["1", "", rate] if name == BASELINE else [_mean(speeds, gpu, name), _counts(speeds, gpu, name), rate]
            )
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _mean(speeds: Speeds, gpu: str, name: str) -> str:
    """Return a mean with its interval; bold if it is a gain beyond the interval."""
    low, high = speeds.interval(gpu, name)
    text = f"{speeds.mean(gpu, name):.2f} ({low:.2f} to {high:.2f})"
    return f"**{text}**" if low > 1 + NOTICED else text


def _counts(speeds: Speeds, gpu: str, name: str) -> str:
    """Return how many kernels are faster and how many are slower."""
    ratios = [speeds.of_kernel(gpu, kernel, name) for kernel in speeds.kernels]
    return f"{sum(r > 1 + NOTICED for r in ratios)}, {sum(r < 1 - NOTICED for r in ratios)}"


def by_kernel(speeds: Speeds, gpu: str) -> str:
    """Return the table of the speeds of all kernels on one GPU."""
    lines = [f"| scheme | {' | '.join(speeds.kernels)} |", "|---|" + "---:|" * len(speeds.kernels)]
    for name in speeds.schemes:
        cells = " | ".join(f"{speeds.of_kernel(gpu, kernel, name):.2f}" for kernel in speeds.kernels)
        lines.append(f"| `{name}` | {cells} |")
    return "\n".join(lines) + "\n"
