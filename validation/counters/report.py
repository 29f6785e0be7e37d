"""Write measured and predicted counters side by side, and renew the committed record."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from validation.common import records
from validation.common.pages import renew_tables
from validation.counters.cases import CASES, FOLDER
from validation.counters.study import COUNTERS, Row

PREDICTED = FOLDER / "predicted.csv"
RESULTS = FOLDER / "RESULTS.md"

LARGE = 5.0
"""Error in percent beyond which a row needs a reason."""


def read_rows() -> list[Row]:
    """Return the recorded rows."""
    return records.from_csv(Row, PREDICTED.read_text())


def summary_table(rows: Sequence[Row]) -> str:
    """Return the errors by counter and engine: rows with a measured number above 0, median, mean and largest error."""
    lines = ["| counter | engine | rows | median | mean | largest |", "|---|---|---:|---:|---:|---|"]
    for counter in COUNTERS:
        for engine in ("predict", "simulate"):
            errors = {
                row.case: abs(row.error)
                for row in rows
                if (row.counter, row.engine) == (counter, engine) and row.error is not None
            }
            if errors:
                worst = max(errors, key=lambda case: errors[case])
                lines.append(
                    f"| {counter} | {engine} | {len(errors)} | {median(errors.values()):.1f} % "
                    f"| {fmean(errors.values()):.1f} % | {errors[worst]:.1f} % {worst} |"
                )
    return "\n".join(lines) + "\n"


def counter_table(rows: Sequence[Row]) -> str:
    """Return every counter of every case: measured, and predicted with the error by each engine."""
    lines = ["| case | counter | measured | predict | error | simulate | error |", "|---|---|---:|---:|---:|---:|---:|"]
    found = {(row.case, row.counter, row.engine): row for row in rows}
    for case in CASES:
        for counter in COUNTERS:
            row = found.get((case, counter, "predict"))
            if row is not None:
                other = found.get((case, counter, "simulate"))
                simulated = "| |" if other is None else f"{other.predicted:,.0f} | {_error(other)} |"
                lines.append(
                    f"| {case} | {counter} | {row.measured:,.0f} | {row.predicted:,.0f} | {_error(row)} | {simulated}"
                )
    return "\n".join(lines) + "\n"


def large_errors(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return the cases and counters whose prediction is off by more than `LARGE` percent, or is not 0 as measured."""
    return [
        (row.case, row.counter)
        for row in rows
        if row.engine == "predict" and (abs(row.error) > LARGE if row.error is not None else row.predicted > 0)
    ]


def pages(rows: Sequence[Row]) -> str:
    """Return both tables."""
    return summary_table(rows) + "\n" + counter_table(rows)


def write(rows: Sequence[Row]) -> None:
    """Renew the record; the text before the first table stays."""
    PREDICTED.write_text(records.to_csv(Row, rows))
    renew_tables(RESULTS, pages(rows))


def _error(row: Row) -> str:
    return "" if row.error is None else f"{row.error:+.1f} %"
