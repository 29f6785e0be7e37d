"""Write the comparison of the L2s as tables, and renew the committed record."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from statistics import fmean, median

from validation.common import records
from validation.l2.measure import FOLDER, GPUS, SM_COUNTS, Few, Measured, OneSet, Row

SIMULATED = FOLDER / "simulated.csv"
ONE_SET = FOLDER / "one_set.csv"
FEWER = FOLDER / "few.csv"
PREDICTED = FOLDER / "predicted.csv"
RESULTS = FOLDER / "RESULTS.md"

WORST_ROWS = 6
"""Number of rows with the largest errors, which the page explains."""


def differences(now: Sequence[Row], recorded: Sequence[Row]) -> list[str]:
    """Return a line for every row that differs from the recorded one; runs are deterministic."""
    before = {(row.gpu, row.kernel): row for row in recorded}
    return [
        f"{row.kernel} on {row.gpu}: {before.get((row.gpu, row.kernel), 'nothing')} -> {row}"
        for row in now
        if before.get((row.gpu, row.kernel)) != row
    ]


def write(rows: Sequence[Row], alone: Sequence[OneSet], fewer: Sequence[Few], measured: Sequence[Measured]) -> None:
    """Renew the committed record."""
    SIMULATED.write_text(records.to_csv(Row, rows))
    ONE_SET.write_text(records.to_csv(OneSet, alone))
    FEWER.write_text(records.to_csv(Few, fewer))
    PREDICTED.write_text(records.to_csv(Measured, measured))
    RESULTS.write_text(results(rows, alone, fewer, measured))


def results(rows: Sequence[Row], alone: Sequence[OneSet], fewer: Sequence[Few], measured: Sequence[Measured]) -> str:
    """Return all tables."""
    parts = [HEAD, summary(rows)]
    for gpu in GPUS:
        parts += [f"## {gpu}\n", against_simulator([row for row in rows if row.gpu == gpu])]
    parts += [
        WORST_HEAD,
        against_causes(worst_rows(rows), alone),
        FEW_HEAD,
        few_table(fewer),
        MEASURED_HEAD,
        against_counters(measured),
    ]
    return "\n".join(parts)


HEAD = """\
# The model's L2

Written by `python -m validation.l2 --record`.

The kernels of PolyBench/GPU at the sizes of the suite, on all SMs and with all blocks, as `rdmodel.compare` runs them.
Hit rates are those of reads, in percent, and include pending hits. Reads, misses, writes and DRAM bytes are the
model's divided by the simulator's.
"""

WORST_HEAD = f"""\
## The {WORST_ROWS} largest errors of hit rates, and their causes

`error` is in percentage points. `of misses` is the error that would be left if the L1s of the model requested as many
lines as the simulated ones; the difference comes from the L1s. `own latency` is the error with latencies that have the
mean and standard deviation of those that the kernel meets in the simulation, in place of the GPU's. `one set` is the
error if the L2 is a single set on both sides. Where this error is small, the lines in use share few sets of the L2:
more lines are reused than these sets hold, and details of the order decide which lines stay.
"""

FEW_HEAD = f"""\
## Fewer SMs

{", ".join(map(str, SM_COUNTS))} SMs of {GPUS[0]} in place of all, over the kernels with blocks for more SMs. The
columns are the mean absolute error of the hit rate in percentage points, and the mean factor by which DRAM bytes per
block differ. `whole`: these SMs have the L2 to themselves, as the model defines it; `share`: an L2 with sets in
proportion to the SMs.
"""

MEASURED_HEAD = """\
## Measured

Hit rates of reads from L1s (`l2_l1_read_hit_rate`) on a GeForce GTX 570, from one or two runs of a profiler
(`gtx570.csv` has them with their sources), and from the model with all SMs. No parameter was adjusted to them. The
model begins with an empty L2. The L2 of the GPU holds data that were copied or computed before. `one set` is the model
with an L2 that is a single set. Where only this column is near the measured one, the GPU uses another index function
than the line number modulo the sets, which maps the rows of a matrix to few sets.
"""


def summary(rows: Sequence[Row]) -> str:
    """Return one line per GPU: mean absolute errors, and the mean factor by which DRAM bytes differ."""
    lines = [
        "| GPU | kernels | error of the hit rate | of misses | own latency | factor of DRAM bytes | largest factor |"
    ]
    lines.append("|---|---:|---:|---:|---:|---:|---|")
    for gpu in GPUS:
        own = [row for row in rows if row.gpu == gpu]
        if own:
            far = max(own, key=lambda row: abs(log2(row.dram / row.simulated_dram)))
            errors = ("error", "error_of_misses", "error_with_latency")
            cells = [f"{fmean(abs(getattr(row, name)) for row in own):.2f}" for name in errors]
            factor = _factor([row.dram / row.simulated_dram for row in own])
            lines.append(
                f"| {gpu} | {len(own)} | {' | '.join(cells)} | {factor:.3f} | "
                f"{far.kernel} {far.dram / far.simulated_dram:.3f} |"
            )
    return "\n".join(lines) + "\n"


def _factor(ratios: Sequence[float]) -> float:
    """Return the geometric mean of the factors, each at least 1, by which ratios differ from 1."""
    return float(2 ** fmean(abs(log2(ratio)) for ratio in ratios))


def against_simulator(rows: Sequence[Row]) -> str:
    """Return the table of one GPU."""
    lines = ["| kernel | simulated reads | hit rate | model | reads | misses | writes | DRAM bytes |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        ratios = [
            _ratio(row.reads, row.simulated_reads),
            _ratio(row.misses, row.simulated_misses),
            _ratio(row.writes, row.simulated_writes),
            _ratio(row.dram, row.simulated_dram),
        ]
        lines.append(
            f"| {row.kernel} | {row.simulated_reads:,} | {row.simulated_hits:.2f} | "
            f"{row.hits:.2f} ({row.error:+.2f}) | {' | '.join(ratios)} |"
        )
    return "\n".join(lines) + "\n"


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def worst_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the largest errors of the hit rate, in descending order."""
    return sorted(rows, key=lambda row: -abs(row.error))[:WORST_ROWS]


def against_causes(rows: Sequence[Row], alone: Sequence[OneSet]) -> str:
    """Return the rows with the largest errors, beside their errors with one cause removed."""
    found = {(one.gpu, one.kernel): one.hits - one.simulated_hits for one in alone}
    lines = ["| kernel | GPU | error | of misses | own latency | one set |", "|---|---|---:|---:|---:|---:|"]
    for row in rows:
        errors = (row.error, row.error_of_misses, row.error_with_latency, found[row.gpu, row.kernel])
        lines.append(f"| {row.kernel} | {row.gpu} | {' | '.join(f'{error:+.2f}' for error in errors)} |")
    return "\n".join(lines) + "\n"


def few_table(rows: Sequence[Few]) -> str:
    """Return one line per number of SMs."""
    lines = ["| SMs | kernels | whole: hit rate | DRAM bytes | share: hit rate | DRAM bytes |"]
    lines.append("|---:|---:|---:|---:|---:|---:|")
    for sms in SM_COUNTS:
        own = [row for row in rows if row.sms == sms]
        if own:
            cells = [
                f"{fmean(abs(row.whole_hits - row.hits) for row in own):.1f}",
                f"{_factor([row.whole_dram for row in own]):.2f}",
                f"{fmean(abs(row.share_hits - row.hits) for row in own):.1f}",
                f"{_factor([row.share_dram for row in own]):.2f}",
            ]
            lines.append(f"| {sms} | {len(own)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def against_counters(rows: Sequence[Measured]) -> str:
    """Return the table of measured and predicted hit rates."""
    lines = ["| kernel | runs | measured | model | one set |", "|---|---:|---:|---:|---:|"]
    for row in rows:
        cells = [f"{value:.2f} ({value - row.measured:+.2f})" for value in (row.predicted, row.one_set)]
        lines.append(f"| {row.kernel} | {row.runs} | {row.measured:.2f} | {' | '.join(cells)} |")
    if rows:
        errors = [(abs(row.predicted - row.measured), abs(row.one_set - row.measured)) for row in rows]
        for name, combine in (("mean absolute error", fmean), ("median", median)):
            cells = [f"{combine(column):.2f}" for column in zip(*errors, strict=True)]
            lines.append(f"| {name} | | | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
