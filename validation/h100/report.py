"""Write measured and predicted counters of the H100 side by side, and renew the committed page."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, median

from validation.common import records
from validation.common.pages import renew_tables
from validation.counters.study import COUNTERS, by_words
from validation.h100.cases import FOLDER
from validation.h100.placed import PLACED, Placed
from validation.h100.schedulers import RULES, read_scheduled
from validation.h100.study import PREDICTED, Predicted, read_measured, read_predicted
from validation.h100.times import case_table, ratio_table

RESULTS = FOLDER / "RESULTS.md"

FEW = 1000
"""Sectors below which a counter is left out of the errors in percent, which then say nothing."""

SEEN = 0.5
"""Error of the L1 miss rate in points beyond which a case is in the table of schedulers."""


Counters = Mapping[str, Mapping[str, float]]


def predicted() -> dict[str, dict[str, float]]:
    """Return the recorded predictions by case and counter."""
    found: dict[str, dict[str, float]] = {}
    for row in read_predicted():
        found.setdefault(row.case, {})[row.counter] = row.value
    return found


def miss_rate(counters: Mapping[str, float]) -> float | None:
    """Return the percentage of the sectors of loads that miss in the L1; None without loads."""
    hits, misses = counters["L1 loads hit"], counters["L1 loads missed"]
    return 100 * misses / (hits + misses) if hits + misses else None


def errors(measured: Counters, model: Counters, counter: str) -> dict[str, float]:
    """Return the errors of a counter in percent, by case."""
    return {
        case: 100 * (model[case][counter] - own[counter]) / own[counter]
        for case, own in measured.items()
        if case in model and own[counter] >= FEW
    }


def summary_table(measured: Counters, model: Counters) -> str:
    """Return the errors by counter: cases that count at least `FEW` sectors, median, mean and largest error."""
    lines = ["| counter | kernels | median | mean | largest |", "|---|---:|---:|---:|---|"]
    for counter in COUNTERS:
        found = {case: abs(error) for case, error in errors(measured, model, counter).items()}
        worst = max(found, key=lambda case: found[case])
        lines.append(
            f"| {counter} | {len(found)} | {median(found.values()):.1f} % | {fmean(found.values()):.1f} % "
            f"| {found[worst]:.1f} % {worst} |"
        )
    return "\n".join(lines) + "\n"


def rates(measured: Counters, model: Counters) -> dict[str, tuple[float, float]]:
    """Return the measured and the predicted L1 miss rate, by case with loads."""
    pairs = {case: (miss_rate(own), miss_rate(model[case])) for case, own in measured.items() if case in model}
    return {case: (a, b) for case, (a, b) in pairs.items() if a is not None and b is not None}


def rate_errors(measured: Counters, model: Counters) -> dict[str, float]:
    """Return the errors of the L1 miss rate in points, by case with loads."""
    return {case: b - a for case, (a, b) in rates(measured, model).items()}


def rate_table(measured: Counters, model: Counters) -> str:
    """Return the L1 miss rates and the sectors of each case."""
    lines = [
        "| case | L1 miss rate | predicted | error | L1 stores missed | predicted | DRAM reads | predicted |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    known = rates(measured, model)
    for case, own in measured.items():
        if case not in model:
            continue
        shown = ["", "", ""]
        if case in known:
            a, b = known[case]
            shown = [f"{a:.2f} %", f"{b:.2f} %", f"{b - a:+.2f}"]
        sectors = [f"{each[name]:,.0f}" for name in ("L1 stores missed", "DRAM reads") for each in (own, model[case])]
        lines.append(f"| {case} | {' | '.join([*shown, *sectors])} |")
    return "\n".join(lines) + "\n"


def placed_table(measured: Counters, model: Counters) -> str:
    """Return measured misses, and both predictions: with blocks dealt in rounds, and as on the GPU (`placed.py`)."""
    lines = ["| case | L1 loads missed | dealt in rounds | error | as on the GPU | error |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for row in records.from_csv(Placed, PLACED.read_text()):
        found = measured[row.case][COUNTERS["L1 loads missed"]]
        both = (model[row.case]["L1 loads missed"], row.misses)
        cells = [f"{each:,.0f} | {100 * (each - found) / found:+.1f} %" for each in both]
        lines.append(f"| {row.case} | {found:,.0f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def scheduled_table(measured: Counters, model: Counters) -> str:
    """Return the errors of the L1 miss rate in points, by default and under schedulers (`schedulers.py`)."""
    known, scheduled = rates(measured, model), read_scheduled()
    off = {
        case: [b - known[case][0] for b in (known[case][1], *(own[rule] for rule in RULES))]
        for case, own in scheduled.items()
    }
    columns = ("default", *RULES)
    lines = [f"| case | L1 miss rate | {' | '.join(columns)} |", f"|---|{'---:|' * (1 + len(columns))}"]
    for case, errors_of in off.items():
        if max(map(abs, errors_of)) > SEEN:
            lines.append(f"| {case} | {known[case][0]:.2f} % | {' | '.join(f'{error:+.2f}' for error in errors_of)} |")
    worst = max(off, key=lambda case: max(map(abs, off[case])))
    others = [errors_of for case, errors_of in off.items() if case != worst]
    for name, kept in ((f"mean of all {len(off)}", [*off.values()]), (f"mean without {worst}", others)):
        means = [fmean(map(abs, column)) for column in zip(*kept, strict=True)]
        lines.append(f"| {name} | | {' | '.join(f'{mean:.2f}' for mean in means)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the tables of the page."""
    measured = {case: by_words(metrics) for case, metrics in read_measured().items()}
    model = predicted()
    off = {case: abs(error) for case, error in rate_errors(measured, model).items()}
    reused = [error for case, error in off.items() if measured[case]["L1 loads hit"]]
    worst = max(off, key=lambda case: off[case])
    return (
        f"The L1 miss rate of loads is off by {fmean(off.values()):.2f} points on average over {len(off)} kernels, "
        f"by {fmean(reused):.2f} over the {len(reused)} with hits, and by {off[worst]:.1f} at most ({worst}).\n\n"
        f"{summary_table(measured, model)}\n{rate_table(measured, model)}"
        f"\n## With the first blocks where the GPU begins them\n\n{placed_table(read_measured(), model)}"
        f"\n## With the schedulers of an SM\n\n{scheduled_table(measured, model)}"
        f"\n## Times\n\n{ratio_table()}\n\n{case_table()}\n"
    )


def write_page() -> None:
    """Renew the tables of the page; the text before them stays."""
    renew_tables(RESULTS, page())


def write_predicted(rows: list[Predicted]) -> None:
    """Renew the recorded predictions."""
    PREDICTED.write_text(records.to_csv(Predicted, rows))
