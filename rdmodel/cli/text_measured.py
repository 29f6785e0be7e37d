"""Format measured hit rates beside simulated and predicted ones as text."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.cli.text_comparison import format_heading, format_latencies, format_machine
from rdmodel.cli.text_tables import format_gpu, format_number_table, format_points, format_share
from rdmodel.common.text import count
from rdmodel.comparison.measured import HIT_RATE_UNITS, MeasuredComparison


def format_measured_comparison(result: MeasuredComparison) -> str:
    """Return one comparison with its measurement: hit rates of the L1 by sector and by line, and of the L2."""
    names = list(result.rates())
    rows = [["  hit rates", "measured", *_column_names(names)]]
    for unit in reversed(HIT_RATE_UNITS):
        rates, errors = result.rates(unit), result.errors(unit)
        # The measurement is by sector; rates by line are compared with it all the same.
        rows.append([f"    L1 by {_format_unit(result, unit)}", format_share(result.l1.hit_rate)])
        for name in names:
            rows[-1] += [format_share(rates[name]), format_points(errors[name])]
    if result.l2 is not None:
        measured, simulated = result.l2["measured"], result.l2["simulated"]
        rest = [""] * (2 * len(names) - 2)
        rows.append(
            [
                "    L2",
                format_share(measured),
                format_share(simulated),
                format_points(100 * (simulated - measured)),
                *rest,
            ]
        )
    return (
        f"{format_heading(result.comparison, 'measured, simulated and predicted')}\n{_format_source(result)}\n\n"
        f"{format_number_table(rows)}\n\n{_format_sectors(result)}{_format_legend(result)}"
    )


def format_measured_comparisons(results: Sequence[MeasuredComparison]) -> str:
    """Return several comparisons by sector, one line each, and the mean absolute error of each column."""
    names = list(results[0].rates())
    rows = [["kernel", "measured", *_column_names(names)]]
    for comparison in results:
        rows.append([comparison.kernel, format_share(comparison.l1.hit_rate)])
        for name, rate in comparison.rates().items():
            rows[-1] += [format_share(rate), format_points(comparison.errors()[name])]
    means = {name: sum(abs(comparison.errors()[name]) for comparison in results) / len(results) for name in names}
    summary = "\n".join(f"{name}: mean absolute error {mean:.2f} points" for name, mean in means.items())
    first = results[0].comparison
    where = f"{format_gpu(first.simulation.gpu)}, {format_machine(first)}"
    heads = f"L1 hit rates by 32-byte sector on {where}\n{format_latencies(first)}"
    table, legend = format_number_table(rows), _format_legend(results[0])
    return f"{heads}\n\n{table}\n\n{summary} over {len(results)} kernels\n\n{legend}"


def _column_names(names: Sequence[str]) -> list[str]:
    return [column for name in names for column in (name, "error")]


def _format_unit(result: MeasuredComparison, unit: str) -> str:
    return (
        "32-byte sector"
        if unit == "sector"
        else f"{result.comparison.simulation.config['gpu']['l1']['line']}-byte line"
    )


def _format_source(result: MeasuredComparison) -> str:
    launches = result.measurement.launches
    launch = f"launch {launches[0]}" if len(launches) == 1 else f"{len(launches)} launches"
    operations = "global loads" if result.loads_only else "all operations, stores included"
    lines = [f"measured: {result.measurement.kernel}, {launch}", f"  L1, {operations}: {', '.join(result.l1.metrics)}"]
    if result.measurement.l2 is not None:
        lines.append(f"  L2: {', '.join(result.measurement.l2.metrics)}")
    return "\n".join(lines)


def _format_sectors(result: MeasuredComparison) -> str:
    sectors = result.comparison.sectors
    measured = result.sectors_of_a_launch
    if measured is None or sectors is None:
        return ""
    return f"  sectors requested by loads: {count(round(measured))} measured, {count(sectors.sectors)} simulated\n\n"


def _format_legend(result: MeasuredComparison) -> str:
    return (
        "profilers count sectors, the model lines; errors in points, predicted minus measured; pending hits are hits;\n"
        "by sector, the model's lines cost as many sectors each as in the simulator"
    )
