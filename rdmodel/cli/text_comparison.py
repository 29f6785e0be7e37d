"""Comparisons of the model with the simulator, and fitted latencies, as text."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.cli.text import blocks_of_grid, count, subject, table
from rdmodel.comparison.calibrate import Calibration
from rdmodel.comparison.values import SHARES, Agreement, Comparison
from rdmodel.gpu.config import LatencyConfig
from rdmodel.model.options import Definition

LABELS = dict(
    zip(SHARES, ("hits", "pending hits", "misses", "  compulsory", "  capacity", "  associativity"), strict=True)
)
"""What the rows of a comparison are called."""


def comparison(result: Comparison) -> str:
    """Return one comparison: every share of the loads as simulated and as predicted, with the error in points."""
    rows = [[f"  of {count(result.simulation.loads)} loads", *_columns(result)]]
    for name, label in LABELS.items():
        rows.append([f"    {label}", percent(result.simulated[name])])
        for definition in result.predictions:
            rows[-1] += [percent(result.predicted(definition)[name]), points(result.errors(definition)[name])]
    return f"{heading(result)}\n\n{aligned(rows)}\n\n{_times([result])}\n\n{_legend(result)}"


def several(results: Sequence[Comparison], agreements: Sequence[Agreement]) -> str:
    """Return comparisons with their miss rates, one line each, and how well each definition agrees."""
    rows = [["kernel", "loads", *_columns(results[0])]]
    for one in results:
        rows.append([one.kernel, count(one.simulation.loads), percent(one.simulated["misses"])])
        for definition in one.predictions:
            rows[-1] += [percent(one.predicted(definition)["misses"]), points(one.error(definition))]
    first = results[0]
    heading = f"L1 miss rates on {first.simulation.gpu}, {machine(first)}\n{told(first)}"
    summary = "\n".join(_agreement(one) for one in agreements)
    return f"{heading}\n\n{aligned(rows)}\n\n{summary}\n\n{_times(results)}\n\n{_legend(first)}"


def calibration(result: Calibration) -> str:
    """Return fitted latencies: the samples, the fit, and the table for a GPU's file."""
    names = ("min", "median", "mean", "p95", "max")
    rows = [["  cycles", "shortest", "median", "mean", "95 % within", "longest"]]
    rows += [[f"    {name}", *(count(round(row[key], 1)) for key in names)] for name, row in result.patterns.items()]
    source = "measured" if "measured" in result.patterns else f"simulated on {result.gpu}"
    latency = result.latency
    return (
        f"{count(result.misses)} L1 miss latencies, {source}\n\n{aligned(rows)}\n\n"
        f"{_latency(latency)}\n"
        f"largest distance between the distributions {result.error:.3f} (0 to 1; Kolmogorov-Smirnov)\n\n"
        f"[calibrated]\nlat_min = {latency.lat_min}\nsigma = {latency.sigma}\nhit_latency = {latency.hit_latency}"
    )


# ---- parts


def heading(result: Comparison, what: str = "simulated and predicted") -> str:
    """Return which kernel ran where, on how much of what, and what the model was told."""
    simulation = result.simulation
    blocks = blocks_of_grid(sum(sm.blocks for sm in simulation.per_sm), simulation.config)
    return (
        f"{subject(result.kernel, simulation.config)} on {simulation.gpu}, {what}\n"
        f"{machine(result)}: {blocks}, seed {simulation.seed}\n{told(result)}"
    )


def machine(result: Comparison) -> str:
    """Return the SMs and the scheduler."""
    sms = "1 SM" if result.simulation.sms == 1 else f"{result.simulation.sms} SMs"
    return f"{sms}, scheduler {result.simulation.config['options']['sched']}"


def told(result: Comparison) -> str:
    """Return the latencies that the model was told; `paper` has its own of a hit."""
    paper = result.predictions.get("paper")
    own = f" (paper: {paper.config['options']['hit_latency']})" if paper is not None else ""
    return _latency(result.latency) + own


def _latency(latency: LatencyConfig) -> str:
    return f"latency of a miss {latency.lat_min} + |N(0, {latency.sigma:g})|, of a hit {latency.hit_latency}"


def _columns(result: Comparison) -> list[str]:
    return ["simulated", *(name for definition in result.predictions for name in (definition, "error"))]


def _agreement(one: Agreement) -> str:
    kernels = "1 kernel" if one.kernels == 1 else f"{one.kernels} kernels"
    related = "" if one.correlation is None else f", correlation {one.correlation:.3f}"
    worst = ", ".join(f"{kernel} {points(error)}" for kernel, error in one.worst)
    return (
        f"{one.definition}: mean absolute error {one.mean_absolute_error:.2f} points over {kernels}{related}\n"
        f"  largest: {worst}"
    )


def _times(results: Sequence[Comparison]) -> str:
    def seconds(definition: Definition) -> float:
        return sum(one.predictions[definition].seconds for one in results)

    model = "".join(f", {definition} {seconds(definition):.2f} s" for definition in results[0].predictions)
    return f"  time: simulation {sum(one.simulation.seconds for one in results):.2f} s{model}, without traces"


def _legend(result: Comparison) -> str:
    line = result.simulation.config["gpu"]["l1"]["line"]
    return (
        f"shares of the loads' coalesced {line}-byte transactions, over all SMs; errors in points, predicted minus\n"
        "simulated; pending hits, to lines in flight, are the model's latency misses and no part of the misses"
    )


def percent(share: float) -> str:
    """Return a share, 0 to 1, in percent."""
    return f"{100 * share:.2f} %"


def points(error: float) -> str:
    """Return a difference in points, with its sign."""
    # No sign for what rounds to nothing.
    return f"{error:+.2f}" if abs(error) >= 0.005 else "0.00"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table of which all columns but the first stand right."""
    return table(rows, right=range(1, len(rows[0])))
