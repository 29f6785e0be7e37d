"""Write the sections of a page with the results of the simulator for one kernel."""

from __future__ import annotations

from math import isnan
from xml.etree.ElementTree import Element

from rdmodel.common.text import count, percent
from rdmodel.comparison.values import SHARES, Comparison
from rdmodel.locality_analysis.values import LINE_TYPES, Locality
from rdmodel.reports.bars import draw_bars
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.labels import LAST_ACCESS_LABELS
from rdmodel.reports.markup import Node, html_table, paragraph
from rdmodel.reports.model_sections import indented, section
from rdmodel.results.counts import MissCounts
from rdmodel.results.simulation import Simulation

STALL_REASONS = {
    "line_alloc": "no way",
    "mshr_entry": "no MSHR",
    "mshr_merge": "full MSHR",
    "miss_queue": "full miss queue",
}
"""Missing resource that makes a request wait, by the name of its counter."""

EVICTION_LABELS = {
    "intra_warp": "by the warp that brought the line",
    "cross_warp_intra_block": "by another warp of its block",
    "cross_block": "by another block",
}
"""Labels of evictions, by the name of their counter."""

LINE_TYPE_NAMES = dict(zip(LINE_TYPES, ("streaming", "inter-warp", "intra-warp", "inter+intra-warp"), strict=True))
"""Labels of the types of lines."""


def simulation_section(kernel: KernelReport, comparison: Comparison, ident: str) -> Element:
    """Return the cycles, the stalls and evictions of the L1s, L2 and DRAM, and the comparison with the model."""
    run = comparison.simulation
    x, y, z = run.config["trace"]["grid"]
    blocks = sum(sm.blocks for sm in run.per_sm)
    sms = "1 SM" if run.sms == 1 else f"{run.sms} SMs"
    latency = comparison.latency
    return section(
        ident,
        "Simulation",
        paragraph(
            f"The simulator runs {blocks:,} of {x * y * z:,} blocks on {sms}, with the scheduler "
            f"{run.config['options']['sched']}. For the comparison, the model predicts the same blocks on the same "
            "SMs, with options that match the machine: its scheduling and its stalls, stores that evict, and a miss "
            f"latency of {latency.lat_min} + |N(0, {latency.sigma:g})|."
        ),
        html_table("Time", ("quantity", "value"), _time(run)),
        html_table(
            "Load transactions, simulated and predicted; errors in points", _head(comparison), _comparison(comparison)
        ),
        html_table("Cycles in which the L1s stalled a request", ("reason", "cycles", "per 1000"), _fails(run)),
        html_table("Evictions from the L1s", ("evicted", "lines", "of all"), _evictions(run)),
        *_l2_and_dram(run),
        commands=kernel.commands.get("comparison", ()),
    )


def _time(run: Simulation) -> list[tuple[Node, str]]:
    latency = run.miss_latencies.to_dict()
    return [
        ("cycles", count(run.cycles)),
        ("time", f"{1000 * run.cycles / (run.config['gpu']['clock'] * 1e6):,.3f} ms"),
        ("IPC, thread instructions", f"{run.ipc:,.2f}"),
        ("misses per 1000 thread instructions", f"{run.mpki:,.2f}"),
        ("L1 miss rate", percent(run.miss_rate, 1)),
        ("L1 miss latency, mean", f"{latency['mean']:,.1f} cycles"),
        ("L1 miss latency, 95th percentile", f"{count(latency['p95'])} cycles"),
    ]


def _head(comparison: Comparison) -> list[str]:
    return ["transactions", "simulated", *(text for name in comparison.predictions for text in (name, "error"))]


def _comparison(comparison: Comparison) -> list[list[Node]]:
    rows: list[list[Node]] = []
    for name in SHARES:
        text: Node = indented(name) if name in MissCounts.CAUSES else name.replace("_", " ")
        rows.append([text, percent(comparison.simulated[name], 1)])
        for definition in comparison.predictions:
            error = comparison.errors(definition)[name]
            # An error that rounds to 0 has no sign.
            rows[-1] += [
                percent(comparison.predicted(definition)[name], 1),
                "-" if isnan(error) else f"{error:+.2f}" if abs(error) >= 0.005 else "0.00",
            ]
    return rows


def _fails(run: Simulation) -> list[tuple[Node, str, str]]:
    fails, rates = run.reservation_fails.to_dict(), run.fails_per_kilocycle
    return [(STALL_REASONS[name], count(n), f"{rates[name]:,.2f}") for name, n in fails.items()]


def _evictions(run: Simulation) -> list[tuple[Node, str, str]]:
    evicted = run.contention.to_dict()
    whole = sum(evicted.values())
    return [(EVICTION_LABELS[name], count(n), percent(n, whole)) for name, n in evicted.items()]


def _l2_and_dram(run: Simulation) -> list[Element]:
    """Return the table of L2 and DRAM; none for an ideal memory."""
    if run.l2 is None or run.dram is None:
        return []
    l2, dram = run.l2, run.dram
    rows: list[tuple[Node, str, str]] = [
        ("L2 reads", count(l2.reads), ""),
        (indented("hits"), count(l2.hits), percent(l2.hits, l2.reads)),
        (indented("pending hits"), count(l2.pending_hits), percent(l2.pending_hits, l2.reads)),
        (indented("misses"), count(l2.misses), percent(l2.misses, l2.reads)),
        ("L2 writes", count(l2.writes), ""),
        *([("between partitions", count(l2.partition_sectors), "")] if l2.partition_sectors else []),
        ("DRAM reads", count(dram.reads), ""),
        ("DRAM writes", count(dram.writes), ""),
        ("DRAM bytes", count(dram.bytes), ""),
        ("DRAM row hits", "", percent(dram.row_hit_rate, 1)),
    ]
    return [html_table("L2 and DRAM", ("requests", "count", "share"), rows)]


# ---- locality


def locality_section(kernel: KernelReport, locality: Locality, ident: str) -> Element:
    """Return the re-references by the last access to their line, the hits among them, lines by type, and loads."""
    unbounded, bounded, whole = locality.unbounded.to_dict(), locality.bounded.to_dict(), locality.accesses
    rows: list[tuple[Node, ...]] = [
        ("first touches", count(locality.first_touches), percent(locality.first_touches, whole), "", "")
    ]
    rows += [
        (
            text,
            count(unbounded[name]),
            percent(unbounded[name], whole),
            count(bounded[name]),
            percent(bounded[name], whole),
        )
        for name, text in LAST_ACCESS_LABELS.items()
    ]
    shares = [("first touches", locality.first_touches / whole)]
    shares += [(LAST_ACCESS_LABELS[name], n / whole) for name, n in unbounded.items()]
    figure = draw_bars("Load transactions by last access to their line", shares)
    return section(
        ident,
        "Locality",
        paragraph("Load transactions of the simulated L1s, by the last access to their line before."),
        figure,
        html_table(
            "Load transactions and hits by last access to their line",
            ("last access by", "transactions", "of all", "hits", "of all"),
            rows,
        ),
        html_table(
            "Lines by type of reuse", ("type", "fetched", "of all", "re-references", "mean distance"), _lines(locality)
        ),
        html_table(
            "Loads by program counter",
            ("pc", "transactions", "hits", "lines", "dominant type", "share of it"),
            _loads(locality),
            words=(4,),
        ),
        commands=kernel.commands.get("locality", ()),
    )


def _lines(locality: Locality) -> list[tuple[Node, ...]]:
    rows: list[tuple[Node, ...]] = []
    for name, n in locality.lines.to_dict().items():
        reuse = locality.reuse_distances[name]
        distance = f"{reuse.mean:,.1f}" if reuse.total else ""
        rows.append((LINE_TYPE_NAMES[name], count(n), percent(n, locality.lines.total), count(reuse.total), distance))
    return rows


def _loads(locality: Locality) -> list[tuple[Node, ...]]:
    rows: list[tuple[Node, ...]] = []
    for load in locality.loads:
        lines, dominant = load.lines, load.dominant
        share = percent(lines.to_dict()[dominant], lines.total) if dominant else ""
        kind = ("", "") if dominant is None else (LINE_TYPE_NAMES[dominant], share)
        hits = percent(load.hits, load.accesses)
        rows.append((str(load.pc), count(load.accesses), hits, count(lines.total), *kind))
    return rows
