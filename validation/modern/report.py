"""Write the predictions beside the measured numbers as tables, and renew the committed record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from validation.common import records
from validation.modern.capacity import Table
from validation.modern.study import ROUNDS, RUNS, Score, mean_error

FOLDER = Path(__file__).parent
PREDICTED = FOLDER / "predicted.csv"
RESULTS = FOLDER / "RESULTS.md"
CAPACITY = FOLDER / "RESULTS-capacity.md"

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

L1_CURVES = ("rounds", "again", "reverse")
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
        "line twice, in the same or in reverse order; the rates include the first reads. `runs`: the blocks of a\n"
        "grid read all data again and again, 256 KiB each; sectors read from the DRAM per sector read from the L2, in\n"
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
        "except `l2.dirty_ways` on DRAM writes of the GV100 and of the RTX 2080 Ti.\n"
        f"The presets are used as they are; their L1 serves all loads, as in the measured programs.\n\n"
        f"{pages(curves, counters)}"
    )


def capacity_page(predicted: Sequence[Table], replaced: Sequence[Table]) -> str:
    """Return the alternatives in Markdown: mean errors of all curves, then miss ratios by size."""
    return "\n".join(
        [
            "## Mean errors of the model\n",
            mean_errors(predicted),
            "## Mean errors with other replacement, warps in step\n",
            mean_errors(replaced),
            "## Miss ratios of the model\n",
            *map(ratio_table, predicted),
        ]
    )


def mean_errors(tables: Sequence[Table]) -> str:
    """Return the mean errors of all alternatives over all sizes of each curve."""
    lines = ["| | " + " | ".join(table.name for table in tables) + " |", "|---|" + "---:|" * len(tables)]
    for text in tables[0].found:
        errors = " | ".join(f"{table.mean_error(text):.1f}" for table in tables)
        lines += [f"| {text} | {errors} |"]
    return "\n".join(lines) + "\n"


def ratio_table(table: Table) -> str:
    """Return the miss ratios of all alternatives by size, and their mean errors at these sizes."""
    lines = [f"| {table.name} | " + " | ".join(f"{size} KiB" for size in table.sizes) + " | mean error |"]
    lines += ["|---|" + "---:|" * (len(table.sizes) + 1), _ratios("measured", table.measured) + " |"]
    lines += [f"{_ratios(text, found)} {table.knee_error(text):.1f} |" for text, found in table.found.items()]
    return "\n".join(lines) + "\n"


def _ratios(text: str, ratios: Sequence[float]) -> str:
    return f"| {text} | " + " | ".join(f"{ratio:.1f}" for ratio in ratios) + " |"


def write_capacity(predicted: Sequence[Table], replaced: Sequence[Table]) -> None:
    """Write the committed page of the alternatives."""
    CAPACITY.write_text(
        "# Other L1s at the knees of the curves\n\n"
        "Written by `python -m validation.modern --capacity --record`. Miss ratios are in percent, at sizes near the\n"
        "capacity; errors are in points. Mean errors are those of all sizes of a curve. Latencies under load are\n"
        "those that `rdmodel calibrate` stores in the preset. `all SMs at one slice`: the spread of latencies is that\n"
        f"of SMs that request the same line of the L2 at once.\n\n{capacity_page(predicted, replaced)}"
    )
