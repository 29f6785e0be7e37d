"""Write the predictions beside the measured numbers as tables, and renew the committed record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from validation.common import records
from validation.modern import chases
from validation.modern.study import ROUNDS, RUNS, Score, mean_error

FOLDER = Path(__file__).parent
PREDICTED = FOLDER / "predicted.csv"
RESULTS = FOLDER / "RESULTS.md"

SHORT_NAMES = {
    "l1tex__t_requests_pipe_lsu_mem_global_op_": "L1 requests, ",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_": "L1 sectors, ",
    "l1tex__t_sector_pipe_lsu_mem_global_op_": "L1 sectors, ",
    "l1tex__t_sector_hit_rate": "L1 hit rate, all",
    "lts__t_sectors_srcunit_tex_op_": "L2 sectors, ",
    "lts__t_sector_hit_rate": "L2 hit rate, all",
    "dram__sectors_": "DRAM sectors, ",
    "_lookup_": " ",
    "_hit_rate": " hit rate",
    ".sum": "",
    ".pct": "",
}
"""Parts of metric names, and their form in the tables."""

FLAT = 0.5
"""Points by which measured and predicted ratio differ at most, both near 0 or near 100, in rows that are left out."""

L1_CURVES = ("rounds", "again", "reverse", "chase")
"""Curves that depend on the capacity of the L1."""

STORING = (
    *("stores", "walsh", "sort", "backprop", "hotspot", "multiply.register"),
    *("transform", "count", "sequences", "diffuse"),
)
"""Beginnings of the names of cases whose stores were measured at the L1."""

SUMMARISED = {
    "streams, sums and transposes: L1 requests and sectors": (("stream", "add ", "sums", "transpose"), ("l1tex",)),
    "stores: L1 sectors": (STORING, ("_op_st",)),
    "L1 sectors of loads, missed": ((), ("op_ld_lookup_miss",)),
    "L2 sectors read": ((), ("tex_op_read.sum", "tex_op_read_lookup")),
    "L2 sectors written": ((), ("tex_op_write.sum", "tex_op_write_lookup_hit")),
    "DRAM sectors read": ((), ("dram__sectors_read",)),
    "DRAM sectors written": ((), ("dram__sectors_write",)),
}
"""Groups of counters with a mean error: beginnings of the names of cases (none: all), and parts of the metrics."""


def short(metric: str) -> str:
    """Return the form of a metric in the tables."""
    for part, name in SHORT_NAMES.items():
        metric = metric.replace(part, name)
    return metric


def curve_table(scores: Sequence[Score]) -> str:
    """Return the curves in Markdown: the sizes at which they are neither flat nor exact, and the mean errors."""
    lines = ["| curve | GPU | measured | predicted | error |", "|---|---|---:|---:|---:|"]
    curves: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        curves.setdefault((score.name.split(" ")[0], score.gpu), []).append(score)
    for names, group in curves.items():
        lines += [_line(score.name, score) for score in group if not _is_flat(score)]
        lines.append(f"| mean error of {names[0]}, {len(group)} sizes | {names[1]} | | | {mean_error(group):.2f} |")
    of_l1 = [group for (name, _), group in curves.items() if name in L1_CURVES]
    if len(of_l1) > 1:
        sizes = [score for group in of_l1 for score in group]
        by_curve = fmean(map(mean_error, of_l1))
        lines.append(f"| mean error of the {len(of_l1)} curves of L1s | | | | {by_curve:.2f} |")
        lines.append(f"| mean error of their {len(sizes)} sizes | | | | {mean_error(sizes):.2f} |")
    return "\n".join(lines) + "\n"


def _is_flat(score: Score) -> bool:
    return abs(score.predicted - score.measured) <= FLAT and not FLAT < score.measured < 100 - FLAT


def counter_table(scores: Sequence[Score]) -> str:
    """Return the counters in Markdown, a row each."""
    lines = ["| kernel | counter | GPU | measured | predicted | error |", "|---|---|---|---:|---:|---:|"]
    lines += [_line(f"{score.name} | {short(score.metric)}", score) for score in scores]
    return "\n".join(lines) + "\n"


def summary_table(scores: Sequence[Score]) -> str:
    """Return the mean error of each group of counters in Markdown."""
    lines = ["| counters | rows | mean error |", "|---|---:|---:|"]
    for name, (cases, parts) in SUMMARISED.items():
        group = [
            score
            for score in scores
            if (not cases or score.name.startswith(cases)) and any(part in score.metric for part in parts)
        ]
        group = [score for score in group if not score.is_rate and score.error is not None]
        lines.append(f"| {name} | {len(group)} | {mean_error(group):.2f} % |")
    return "\n".join(lines) + "\n"


def _line(name: str, score: Score) -> str:
    error = "-" if score.error is None else f"{score.error:+.2f}" + ("" if score.is_rate else " %")
    if score.is_rate:
        return f"| {name} | {score.gpu} | {score.measured:.2f} % | {score.predicted:.2f} % | {error} |"
    return f"| {name} | {score.gpu} | {score.measured:,.0f} | {score.predicted:,.0f} | {error} |"


def pages(curves: Sequence[Score], counters: Sequence[Score]) -> str:
    """Return all tables, each with its heading."""
    return (
        f"## Miss-ratio curves\n\n"
        f"`rounds`: each SM has one block of eight warps, which reads the same data again and again; {ROUNDS} rounds\n"
        "are modelled, and the first is not counted. `again` and `reverse`: one thread reads an element of every\n"
        "line twice, in the same or in reverse order; the rates include the first reads. `chase`: one thread loads\n"
        f"lines in a random circle, {chases.ROUNDS} times, of which the first is not counted; the median of\n"
        f"{chases.ORDERS} circles. Its measured ratios are those of latencies: 0 is that of a hit, and 100 % that of\n"
        "data that are larger than any L1. `runs`: the blocks of a grid read all data again and again, 256 KiB each;\n"
        "sectors read from the DRAM per sector read from the L2, in "
        f"the last of {RUNS[-1]} modelled readings. Sizes at which both ratios are 0 or 100 % are left out of the\n"
        "table, but not of the means. Errors are in points.\n\n"
        f"{curve_table(curves)}\n"
        f"## Counters: mean errors\n\n{summary_table(counters)}\n"
        f"## Counters\n\n{counter_table(counters)}"
    )


def write(curves: Sequence[Score], counters: Sequence[Score]) -> None:
    """Write the committed record: all scores as CSV, and the page of tables."""
    PREDICTED.write_text(records.to_csv(Score, [*curves, *counters]))
    RESULTS.write_text(
        "# GPUs from Pascal to Ampere: measured and predicted counters\n\n"
        "Written by `python -m validation.modern --record`. No parameter of the model was chosen on these numbers,\n"
        "except `l2.dirty_ways` on DRAM writes of the GV100 and of the RTX 2080 Ti, and numbers of sets and tags of\n"
        "the L1 on the curves `chase`.\n"
        f"The presets are used as they are; their L1 serves all loads, as in the measured programs.\n\n"
        f"{pages(curves, counters)}"
    )
