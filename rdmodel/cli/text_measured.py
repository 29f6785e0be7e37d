"""Measured hit rates beside simulated and predicted ones, as text."""

from __future__ import annotations

from collections.abc import Sequence

from rdmodel.cli.text import count
from rdmodel.cli.text_comparison import aligned, heading, machine, percent, points, told
from rdmodel.comparison.measured import HIT_RATE_UNITS, MeasuredComparison


def measured(result: MeasuredComparison) -> str:
    """Return one comparison with its measurement: L1 by sector and by line, L2, and how much was counted."""
    names = list(result.rates())
    rows = [["  hit rates", "measured", *_columns(names)]]
    for unit in reversed(HIT_RATE_UNITS):
        rates, errors = result.rates(unit), result.errors(unit)
        # What was measured is by sector; a rate by line is shown against it all the same.
        rows.append([f"    L1 by {_unit(result, unit)}", percent(result.l1.hit_rate)])
        for name in names:
            rows[-1] += [percent(rates[name]), points(errors[name])]
    if result.l2 is not None:
        whole, simulated = result.l2["measured"], result.l2["simulated"]
        rest = [""] * (2 * len(names) - 2)
        rows.append(["    L2", percent(whole), percent(simulated), points(100 * (simulated - whole)), *rest])
    return (
        f"{heading(result.comparison, 'measured, simulated and predicted')}\n{_source(result)}\n\n"
        f"{aligned(rows)}\n\n{_sectors(result)}{_legend(result)}"
    )


def several(results: Sequence[MeasuredComparison]) -> str:
    """Return comparisons with a report, one line each, by sector, and the mean absolute error of each column."""
    names = list(results[0].rates())
    rows = [["kernel", "measured", *_columns(names)]]
    for one in results:
        rows.append([one.kernel, percent(one.l1.hit_rate)])
        for name, rate in one.rates().items():
            rows[-1] += [percent(rate), points(one.errors()[name])]
    means = {name: sum(abs(one.errors()[name]) for one in results) / len(results) for name in names}
    summary = "\n".join(f"{name}: mean absolute error {mean:.2f} points" for name, mean in means.items())
    first = results[0].comparison
    heads = f"L1 hit rates by 32-byte sector on {first.simulation.gpu}, {machine(first)}\n{told(first)}"
    return f"{heads}\n\n{aligned(rows)}\n\n{summary} over {len(results)} kernels\n\n{_legend(results[0])}"


def _columns(names: Sequence[str]) -> list[str]:
    return [column for name in names for column in (name, "error")]


def _unit(result: MeasuredComparison, unit: str) -> str:
    return (
        "32-byte sector"
        if unit == "sector"
        else f"{result.comparison.simulation.config['gpu']['l1']['line']}-byte line"
    )


def _source(result: MeasuredComparison) -> str:
    launches = result.measurement.launches
    which = f"launch {launches[0]}" if len(launches) == 1 else f"{len(launches)} launches"
    what = "global loads" if result.loads_only else "all operations, stores too"
    lines = [f"measured: {result.measurement.kernel}, {which}", f"  L1, {what}: {', '.join(result.l1.metrics)}"]
    if result.measurement.l2 is not None:
        lines.append(f"  L2: {', '.join(result.measurement.l2.metrics)}")
    return "\n".join(lines)


def _sectors(result: MeasuredComparison) -> str:
    sectors = result.comparison.sectors
    measured = result.sectors_of_a_launch
    if measured is None or sectors is None:
        return ""
    return f"  sectors that loads ask for: {count(round(measured))} measured, {count(sectors.sectors)} simulated\n\n"


def _legend(result: MeasuredComparison) -> str:
    return (
        "profilers count sectors, the model lines; errors in points, predicted minus measured; pending hits are hits;\n"
        "by sector, the model's lines cost as many sectors each as in the simulator"
    )
