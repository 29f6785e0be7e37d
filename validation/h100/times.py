"""``python -m validation.h100.times``: predict the times of the measured launches, and print them beside these.

The times are those of Nsight Compute (`gpu__time_duration.sum`) in the run that counted, with caches that were flushed
before. They include the launch itself, 2 to 3 microseconds. ``--record`` predicts again, and renews the record.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import rdmodel as rd
from validation.common import records
from validation.h100.cases import FOLDER, Case, all_cases
from validation.h100.study import gpu_of, read_measured
from validation.tuning.measures import quantile_cells

TIMED = FOLDER / "timed.csv"
METRIC = "gpu__time_duration.sum"

SHORTEST = 5.0
"""Microseconds of a launch below which the launch itself is most of it: such cases are left out of the summary."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The predicted microseconds of a case, and the term that bounds them."""

    case: str
    microseconds: float
    bound: str


def predict(case: Case) -> Timed:
    """Return the predicted time of a case."""
    found = rd.time(case.trace(), gpu_of(case))
    return Timed(case.name, round(1000 * found.milliseconds, 2), found.bound)


def measured_times() -> dict[str, float]:
    """Return the measured microseconds of each case."""
    return {case: metrics[METRIC] / 1000 for case, metrics in read_measured().items()}


def read_timed() -> list[Timed]:
    """Return the recorded predictions."""
    return records.from_csv(Timed, TIMED.read_text())


def ratio_table() -> str:
    """Return the ratios of predicted to measured times, for all cases and by what bounds the prediction."""
    measured, rows = measured_times(), read_timed()
    bounds = [bound for bound, _ in Counter(row.bound for row in rows).most_common()]
    groups = {"all": rows, **{bound: [row for row in rows if row.bound == bound] for bound in bounds}}
    lines = ["| bound by | kernels | 10 % | 50 % | 90 % | within 25 % |", "|---|---:|---:|---:|---:|---:|"]
    for name, members in groups.items():
        found = [row.microseconds / measured[row.case] for row in members if measured[row.case] >= SHORTEST]
        if not found:
            continue
        close = sum(0.8 <= ratio <= 1.25 for ratio in found)
        lines.append(f"| {name} | {len(found)} | {quantile_cells(found)} | {close} |")
    return "\n".join(lines)


def case_table() -> str:
    """Return the measured and the predicted time of each case."""
    measured = measured_times()
    lines = ["| case | measured us | predicted us | predicted / measured | bound by |", "|---|---:|---:|---:|---|"]
    lines += [
        f"| {row.case} | {measured[row.case]:,.1f} | {row.microseconds:,.1f} "
        f"| {row.microseconds / measured[row.case]:.2f} | {row.bound} |"
        for row in read_timed()
    ]
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.h100.times", description=__doc__)
    parser.add_argument("--record", action="store_true", help="predict again, and renew the record")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="public benchmarks (as for validation.counters)")
    parser.add_argument("--jobs", type=records.positive, default=2, metavar="N", help="processes (default: 2)")
    options = parser.parse_args()
    if options.record:
        order = [*read_measured()]
        tasks = [case for case in all_cases(options.sources) if case.name in order]
        rows = {row.case: row for row in (read_timed() if TIMED.exists() else ())}
        rows |= {row.case: row for row in records.run_all(predict, tasks, options.jobs)}
        TIMED.write_text(records.to_csv(Timed, sorted(rows.values(), key=lambda row: order.index(row.case))))
    print(ratio_table(), case_table(), sep="\n\n")


if __name__ == "__main__":
    main()
