"""Write the record as tables: how often intervals hold the exact value, where they miss it, and the time of samples."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from validation.sampling.measure import (
    BLOCK_SEEDS,
    CHOICES,
    FOLDER,
    LINE_SEEDS,
    MACHINE,
    RATES,
    SHARE,
    SIZES,
    SMS,
    Row,
)

RESULTS = FOLDER / "RESULTS.md"

LOW_COVERAGE = 0.9
"""Rows with a smaller share of intervals that hold are listed one by one."""

HEAD = f"""\
# Coverage of the intervals of samples

Written by `python -m validation.sampling --record`, with `results.csv`. The runs are the 30 kernels of the suite
`polybench` at its sizes, on {MACHINE}, with the definition `hardware`. Intervals are designed to hold the exact value
in 95 % of all samples.

* **sms**: miss rate of {SMS} of the SMs, compared with that of all SMs; {CHOICES} samples, one per seed.
* **blocks**: miss rate with `sample_blocks={SHARE:g}`, with the grid on one SM; {BLOCK_SEEDS} seeds, each with a
  separate exact run.
* **lines**: miss ratio of a fully associative cache with `--sample` {" and ".join(f"{rate:g}" for rate in RATES)}, with
  the grid on one SM and warps that take turns; {LINE_SEEDS} seeds, at {", ".join(SIZES)}.

The time is the processor time of one sampled run divided by that of the exact run. Kernels with too few blocks or SMs
are run as a whole. They are counted apart, since their intervals cannot miss.
"""


def group(row: Row) -> str:
    """Return the way of sampling without the cache size."""
    return row.way.partition(",")[0]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return lines of a table whose first two columns are text."""
    rule = "|---|---|" + "---:|" * (len(head) - 2)
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(cells)} |" for cells in rows)]


def coverage_table(rows: Sequence[Row]) -> list[str]:
    """Return the share of intervals that hold by way of sampling, over kernels and seeds."""
    lines = []
    for way in dict.fromkeys(row.way for row in rows):
        own = [row for row in rows if row.way == way]
        real = [row for row in own if not row.whole]
        held, samples = (sum(getattr(row, name) for row in real) for name in ("held", "samples"))
        share = f"{100 * held / samples:.1f} %" if samples else "-"
        errors = [abs(row.value - row.exact) for row in real] or [0.0]
        width = statistics.median([row.high - row.low for row in real] or [0.0])
        time = statistics.median([row.time for row in real or own])
        lines.append(
            (
                way,
                f"{len(real)} of {len(own)}",
                f"{samples:,}",
                share,
                f"{100 * statistics.median(errors):.2f}",
                f"{100 * width:.2f}",
                f"{time:.2f}",
            )
        )
    head = ("way", "kernels sampled", "samples", "intervals that hold", "median error", "median width", "median time")
    return table(head, lines)


def low_coverage_table(rows: Iterable[Row]) -> list[str]:
    """Return the rows with a low coverage."""
    low = [row for row in rows if row.held < LOW_COVERAGE * row.samples]
    cells = [
        (row.kernel, row.way, f"{row.held} of {row.samples}", f"{100 * row.exact:.2f}", interval_text(row))
        for row in low
    ]
    return table(("kernel", "way", "held", "exact", "seed 0: interval"), cells)


def interval_text(row: Row) -> str:
    """Return an interval in percent."""
    return f"{100 * row.low:.2f} to {100 * row.high:.2f}"


def sample_table(rows: Sequence[Row], ways: Sequence[str]) -> list[str]:
    """Return a table of every kernel under some ways of sampling, with the sample of seed 0."""
    cells = [
        (
            row.kernel,
            row.sampled,
            f"{100 * row.exact:.2f}",
            f"{100 * row.value:.2f}",
            interval_text(row),
            "yes" if row.holds else "no",
            f"{row.held} of {row.samples}",
            f"{row.time:.2f}",
        )
        for row in rows
        if row.way in ways
    ]
    return table(("kernel", "sample", "exact", "estimate", "interval", "holds", "of all samples", "time"), cells)


def results(rows: Sequence[Row], notes: str) -> str:
    """Return the whole page in Markdown; all rates are in percent."""
    lines = [HEAD, "All rates, errors and widths are in percent.", "", *coverage_table(rows), ""]
    lines += [f"## Where fewer than {100 * LOW_COVERAGE:g} % hold", "", notes, "", *low_coverage_table(rows), ""]
    lines += ["## SMs", "", *sample_table(rows, ["sms"]), "", "## Blocks", "", *sample_table(rows, ["blocks"]), ""]
    for rate in RATES:
        way = f"lines {rate:g}, 256 KB"
        lines += [f"## Lines, {rate:g}, 256 KB", "", *sample_table(rows, [way]), ""]
    return "\n".join(lines)
