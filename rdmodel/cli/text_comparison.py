"""Format comparisons of the model with the simulator, and fitted latencies, as text."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.cli.table_folding import fold_prose, terminal_width
from rdmodel.cli.text_tables import (
    format_blocks,
    format_gpu,
    format_kernel,
    format_number_table,
    format_points,
    format_share,
    format_sms,
)
from rdmodel.common.text import count
from rdmodel.comparison.calibrate import Calibration
from rdmodel.comparison.values import SHARES, Agreement, Comparison
from rdmodel.gpu.config import LatencyConfig
from rdmodel.model.options import Definition
from rdmodel.results.simulation import Simulation

SHARE_LABELS = dict(
    zip(SHARES, ("hits", "pending hits", "misses", "  compulsory", "  capacity", "  associativity"), strict=True)
)
"""Row labels of a comparison, by the names of the shares."""


def format_comparison(result: Comparison) -> str:
    """Return one comparison: every simulated and predicted share of the loads, with the error in points."""
    loads = _counted(result.simulation) if result.has_loads else "no loads"
    rows = [[f"  {loads}", *_column_names(result)]]
    for name, label in SHARE_LABELS.items():
        rows.append([f"    {label}", format_share(result.simulated[name])])
        for definition in result.predictions:
            rows[-1] += [
                format_share(result.predicted(definition)[name]),
                format_points(result.errors(definition)[name]),
            ]
    table, times = format_number_table(rows), _format_times([result])
    return f"{format_heading(result)}\n\n{table}\n\n{times}\n\n{_format_legend(result)}"


def format_comparisons(results: Sequence[Comparison], agreements: Sequence[Agreement]) -> str:
    """Return the miss rates of several comparisons, one line each, and the agreement of each definition."""
    rows = [["kernel", "loads", *_column_names(results[0])]]
    for comparison in results:
        rows.append(
            [comparison.kernel, count(comparison.simulation.loads), format_share(comparison.simulated["misses"])]
        )
        for definition in comparison.predictions:
            rows[-1] += [
                format_share(comparison.predicted(definition)["misses"]),
                format_points(comparison.error(definition)),
            ]
    first = results[0]
    heading = f"L1 miss rates on {format_gpu(first.simulation.gpu)}, {format_machine(first)}\n{format_latencies(first)}"
    summary = "\n".join(_format_agreement(agreement) for agreement in agreements)
    return (
        f"{heading}\n\n{format_number_table(rows)}\n\n{summary}\n\n{_format_times(results)}\n\n{_format_legend(first)}"
    )


def format_calibration(result: Calibration) -> str:
    """Return fitted latencies: the samples, the fit, and the table for the file of a GPU."""
    names = ("min", "median", "mean", "p95", "max")
    rows = [["  cycles", "shortest", "median", "mean", "95 % within", "longest"]]
    rows += [[f"    {name}", *(count(round(row[key], 1)) for key in names)] for name, row in result.patterns.items()]
    source = "measured" if "measured" in result.patterns else f"simulated on {format_gpu(result.gpu)}"
    if result.sms is not None:
        source += f": a part of {format_sms(result.sms)} and {result.slices} L2 slices"
    latency = result.latency
    return (
        f"{count(result.misses)} L1 miss latencies, {source}\n\n{format_number_table(rows)}\n\n"
        f"{_format_latency(latency)}\n"
        f"largest distance between the distributions {result.error:.3f} (0 to 1; Kolmogorov-Smirnov)\n\n"
        f"[calibrated]\nlat_min = {latency.lat_min}\nsigma = {latency.sigma}\nhit_latency = {latency.hit_latency}"
    )


# ---- parts


def format_heading(result: Comparison, compared: str = "simulated and predicted") -> str:
    """Return kernel, GPU, names of the `compared` rates, modelled part of the grid, and the latencies of the model."""
    simulation = result.simulation
    blocks = format_blocks(sum(sm.blocks for sm in simulation.per_sm), simulation.config)
    return (
        f"{format_kernel(result.kernel, simulation.config)} on {format_gpu(simulation.gpu)}, {compared}\n"
        f"{format_machine(result)}: {blocks}, seed {simulation.seed}\n{format_latencies(result)}"
    )


def format_machine(result: Comparison) -> str:
    """Return the number of SMs and the scheduler."""
    return f"{format_sms(result.simulation.sms)}, scheduler {result.simulation.config['options']['sched']}"


def format_latencies(result: Comparison) -> str:
    """Return the latencies of the model; the definition `paper` has a different hit latency."""
    paper = result.predictions.get("paper")
    paper_hit = f" (paper: {paper.config['options']['hit_latency']})" if paper is not None else ""
    return _format_latency(result.latency) + paper_hit


def _format_latency(latency: LatencyConfig) -> str:
    return f"latency of a miss {latency.lat_min} + |N(0, {latency.sigma:g})|, of a hit {latency.hit_latency}"


def _column_names(result: Comparison) -> list[str]:
    return ["simulated", *(name for definition in result.predictions for name in (definition, "error"))]


def _format_agreement(agreement: Agreement) -> str:
    if not agreement.kernels:
        return f"{agreement.definition}: no kernel has loads"
    kernels = "1 kernel" if agreement.kernels == 1 else f"{agreement.kernels} kernels"
    correlation = "" if agreement.correlation is None else f", correlation {agreement.correlation:.3f}"
    error = f"{agreement.mean_absolute_error:.2f} points"
    worst = ", ".join(f"{kernel} {format_points(error)}" for kernel, error in agreement.worst)
    return f"{agreement.definition}: mean absolute error {error} over {kernels}{correlation}\n  largest: {worst}"


def _format_times(results: Sequence[Comparison]) -> str:
    def seconds(definition: Definition) -> float:
        return sum(comparison.predictions[definition].seconds for comparison in results)

    model = "".join(f", {definition} {seconds(definition):.2f} s" for definition in results[0].predictions)
    simulation = sum(comparison.simulation.seconds for comparison in results)
    return f"  time: simulation {simulation:.2f} s{model}, without traces"


def _counted(run: Simulation) -> str:
    """Return the number of which the shares are: sectors of the loads where lines have several, else loads."""
    return f"of {count(run.loads)} loads" if run.lookups is None else f"of {count(run.sectors)} sectors"


def _format_legend(result: Comparison) -> str:
    l1 = result.simulation.config["gpu"]["l1"]
    unit, part = f"coalesced {l1['line']}-byte transactions", "lines"
    if result.simulation.lookups is not None:
        unit, part = f"{l1.get('sector') or l1['line']}-byte sectors", "sectors"
    text = (
        f"shares of the loads' {unit}, over all SMs; errors in points, predicted minus\n"
        f"simulated; pending hits, to {part} in flight, are the model's latency misses and no part of the misses"
    )
    return fold_prose(text, terminal_width())
