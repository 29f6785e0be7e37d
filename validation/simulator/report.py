"""Write the comparison of model and simulator as CSV and tables, and compare it with the committed record."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from statistics import StatisticsError, correlation, fmean

from rdmodel.comparison.compare import DEFINITIONS
from rdmodel.comparison.values import SHARES
from rdmodel.model.options import Definition
from validation.simulator.scenarios import DIGITS, FOLDER, Row, Scenario, scenarios, settings, suite

REFERENCE = FOLDER / "reference.csv"
RESULTS = FOLDER / "RESULTS.md"

WORST_KERNELS = 5
"""Number of kernels with the largest errors that the table of a GPU names."""


def columns() -> list[str]:
    """Return the names of the columns of the CSV."""
    rates = [f"{who}_{name}" for who in ("simulated", *DEFINITIONS) for name in SHARES]
    return ["gpu", "kernel", "loads", "cycles", *rates, *(f"{definition}_error" for definition in DEFINITIONS)]


def to_csv(rows: Sequence[Row]) -> str:
    """Return the rows as CSV: rates in percent, errors of the miss rate in points."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns())
    for row in rows:
        rates = [shares[name] for shares in (row.simulated, *_predicted(row)) for name in SHARES]
        numbers = [*rates, *(row.error(definition) for definition in DEFINITIONS)]
        writer.writerow([row.gpu, row.kernel, row.loads, row.cycles, *(f"{n:.{DIGITS}f}" for n in numbers)])
    return text.getvalue()


def _predicted(row: Row) -> Iterator[Mapping[str, float]]:
    return (row.predicted[definition] for definition in DEFINITIONS)


def from_csv(text: str) -> list[Row]:
    """Return the rows that `to_csv` wrote."""
    return [
        Row(
            gpu=line["gpu"],
            kernel=line["kernel"],
            loads=int(line["loads"]),
            cycles=int(line["cycles"]),
            simulated={name: float(line[f"simulated_{name}"]) for name in SHARES},
            predicted={d: {name: float(line[f"{d}_{name}"]) for name in SHARES} for d in DEFINITIONS},
        )
        for line in csv.DictReader(io.StringIO(text))
    ]


def mean_error(rows: Sequence[Row], definition: Definition) -> float:
    """Return the mean absolute error of the miss rate, in points."""
    return fmean(abs(row.error(definition)) for row in rows)


def large_errors(rows: Sequence[Row]) -> list[Row]:
    """Return the rows whose error under `hardware` needs a known cause, the largest error first."""
    large = [row for row in rows if abs(row.error("hardware")) > settings()["far"]]
    return sorted(large, key=lambda row: -abs(row.error("hardware")))


def differences(now: Sequence[Row], recorded: Sequence[Row]) -> list[str]:
    """Return a line for every value that differs from the recorded one by more than the tolerance in points."""
    before = {(row.gpu, row.kernel): row for row in recorded}
    return [line for row in now for line in _row_differences(row, before.get((row.gpu, row.kernel)))]


def _row_differences(now: Row, recorded: Row | None) -> list[str]:
    where = f"{now.kernel} on {now.gpu}"
    if recorded is None:
        return [f"{where}: not recorded"]
    lines = [] if now.loads == recorded.loads else [f"{where}: loads {recorded.loads} -> {now.loads}"]
    pairs = [("simulated", now.simulated, recorded.simulated)]
    pairs += [(d, now.predicted[d], recorded.predicted[d]) for d in DEFINITIONS]
    for who, new, old in pairs:
        lines += [
            f"{where}: {who} {name} {old[name]:.{DIGITS}f} -> {new[name]:.{DIGITS}f}"
            for name in SHARES
            if abs(new[name] - old[name]) > settings()["tolerance"]
        ]
    return lines


def to_markdown(rows: Sequence[Row]) -> str:
    """Return the table of one GPU, with mean error, correlation and largest errors below."""
    lines = ["| kernel | loads | simulated | hardware | paper |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        cells = [f"{row.predicted[d]['misses']:.2f} ({row.error(d):+.2f})" for d in DEFINITIONS]
        lines.append(f"| {row.kernel} | {row.loads:,} | {row.simulated['misses']:.2f} | {' | '.join(cells)} |")
    means = [f"{mean_error(rows, d):.2f}" for d in DEFINITIONS]
    lines.append(f"| mean error | | | {' | '.join(means)} |")
    lines.append(f"| correlation | | | {' | '.join(_correlation(rows, d) for d in DEFINITIONS)} |")
    lines.append(f"| worst | | | {' | '.join(_worst(rows, d) for d in DEFINITIONS)} |")
    return "\n".join(lines) + "\n"


def _correlation(rows: Sequence[Row], definition: Definition) -> str:
    predicted = [row.predicted[definition]["misses"] for row in rows]
    try:
        return f"{correlation(predicted, [row.simulated['misses'] for row in rows]):.3f}"
    except StatisticsError:
        return ""


def _worst(rows: Sequence[Row], definition: Definition) -> str:
    ordered = sorted(rows, key=lambda row: -abs(row.error(definition)))
    return ", ".join(f"{row.kernel} {row.error(definition):+.1f}" for row in ordered[:WORST_KERNELS])


def summary(rows: Sequence[Row]) -> str:
    """Return the table of GPUs: latencies, mean errors and the number of rows with a large error."""
    lines = ["| GPU | latency | hardware | paper | large errors |", "|---|---:|---:|---:|---:|"]
    for scenario, own in by_scenario(rows):
        means = " | ".join(f"{mean_error(own, d):.2f}" for d in DEFINITIONS)
        lines.append(f"| {scenario.name} | {_latency(scenario)} | {means} | {len(large_errors(own))} |")
    return "\n".join(lines) + "\n"


def _latency(scenario: Scenario) -> str:
    latency = scenario.gpu.calibrated
    return "" if latency is None else f"{latency.lat_min} + {latency.sigma:g}"


def by_scenario(rows: Sequence[Row]) -> Iterator[tuple[Scenario, list[Row]]]:
    """Yield every scenario with its rows; skip scenarios without any."""
    for name, scenario in scenarios().items():
        if own := [row for row in rows if row.gpu == name]:
            yield scenario, own


HEAD = """\
# The model and the simulator

Written by `python -m validation.simulator --record`, with `reference.csv`, which also has hits, pending hits and causes
of misses. {kernels} kernels on every GPU of `scenarios.toml` (one folder up): L1 miss rates in percent of the load
transactions, and in brackets errors of the model in percentage points. Mean errors are means of absolute errors. The
runs are those of `rdmodel.compare`. Latencies, in cycles, are fitted to the simulated machine: shortest + sigma.
`DEVIATIONS.md` (one folder up) has the cause of every error of `hardware` beyond {far:g} points.
"""


def results(rows: Sequence[Row]) -> str:
    """Return the whole page in Markdown."""
    parts = [HEAD.format(kernels=len(suite()), far=settings()["far"]), summary(rows)]
    for scenario, own in by_scenario(rows):
        parts += [f"## {scenario.name}\n", to_markdown(own)]
    return "\n".join(parts)
