"""The L2 comparison as tables, and the committed record of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from statistics import fmean, median

from validation.common import records
from validation.l2.measure import FEW, FOLDER, GPUS, Few, Measured, OneSet, Row

SIMULATED = FOLDER / "simulated.csv"
ONE_SET = FOLDER / "one_set.csv"
FEWER = FOLDER / "few.csv"
PREDICTED = FOLDER / "predicted.csv"
RESULTS = FOLDER / "RESULTS.md"

WORST = 6
"""Rows that are explained."""


def moved(now: Sequence[Row], recorded: Sequence[Row]) -> list[str]:
    """Return a line for every row that is not what was recorded; runs are deterministic."""
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
        against_causes(worst(rows), alone),
        FEW_HEAD,
        few(fewer),
        MEASURED_HEAD,
        against_counters(measured),
    ]
    return "\n".join(parts)


HEAD = """\
# The model's L2

Written by `python -m validation.l2 --record`.

PolyBench/GPU at the sizes of the suite, all SMs and blocks, as `rdmodel.compare` runs them. Hit rates are of reads, in
percent, pending hits included; reads, misses, writes and DRAM bytes are the model's divided by the simulator's.
"""

WORST_HEAD = f"""\
## The {WORST} worst hit rates, and why

`error` is in points. `of misses` is what is left of it if the L1s of the model asked for as many lines as the simulated
ones: the rest of the error is the L1's. `own latency` is the error with latencies that have the mean and standard
deviation of those that the kernel meets in the simulation, in place of those of the GPU. `one set` is the error if the
L2 is a single set on both sides: where that takes it away, the lines in use share few sets of the L2, so that more of
them come round than have room, and details of the order decide which stay.
"""

FEW_HEAD = f"""\
## Fewer SMs

{", ".join(map(str, FEW))} SMs of {GPUS[0]} in place of all, over the kernels that have blocks for more. Mean absolute
error of the hit rate in points, and the mean factor by which DRAM bytes per block are off. `whole`: these SMs have the
L2 to themselves, which is how it is defined; `share`: sets in proportion to the SMs.
"""

MEASURED_HEAD = """\
## Measured

Hit rates of reads from L1s (`l2_l1_read_hit_rate`) on a GeForce GTX 570, from one or two runs of a profiler
(`gtx570.csv` has them with their sources), and by the model with all SMs. Nothing was adjusted to them. The model
begins with an empty L2; that of the GPU holds what was copied or computed before. `one set` is the model with an L2
that is a single set: where only that is near, the GPU spreads lines over its sets by another function than their number
modulo the sets, which maps the rows of a matrix to few of them.
"""


def summary(rows: Sequence[Row]) -> str:
    """Return one line per GPU: mean absolute errors, and the mean factor by which DRAM bytes are off."""
    lines = ["| GPU | kernels | error of the hit rate | of misses | own latency | factor of DRAM bytes | worst |"]
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
    """Return the mean factor, at least 1, by which ratios are off."""
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


def worst(rows: Sequence[Row]) -> list[Row]:
    """Return the rows whose hit rates are furthest off, the worst first."""
    return sorted(rows, key=lambda row: -abs(row.error))[:WORST]


def against_causes(rows: Sequence[Row], alone: Sequence[OneSet]) -> str:
    """Return the rows that are furthest off, and what takes their errors away."""
    found = {(one.gpu, one.kernel): one.hits - one.simulated_hits for one in alone}
    lines = ["| kernel | GPU | error | of misses | own latency | one set |", "|---|---|---:|---:|---:|---:|"]
    for row in rows:
        errors = (row.error, row.error_of_misses, row.error_with_latency, found[row.gpu, row.kernel])
        lines.append(f"| {row.kernel} | {row.gpu} | {' | '.join(f'{error:+.2f}' for error in errors)} |")
    return "\n".join(lines) + "\n"


def few(rows: Sequence[Few]) -> str:
    """Return one line per number of SMs."""
    lines = ["| SMs | kernels | whole: hit rate | DRAM bytes | share: hit rate | DRAM bytes |"]
    lines.append("|---:|---:|---:|---:|---:|---:|")
    for sms in FEW:
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
    """Return the measured rows beside the model's."""
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
