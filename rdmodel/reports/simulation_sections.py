"""What the simulator says of one kernel, beside the model, as sections of a page."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from rdmodel.common.text import count, percent
from rdmodel.comparison.values import SHARES, Comparison
from rdmodel.locality_analysis.values import TYPES, Locality
from rdmodel.reports import figures
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.labels import CAUSES, CLASSES
from rdmodel.reports.markup import Node, paragraph, table
from rdmodel.reports.sections import inner, section
from rdmodel.results.simulation import Simulation

LACKS = {
    "line_alloc": "no way",
    "mshr_entry": "no MSHR",
    "mshr_merge": "full MSHR",
    "miss_queue": "full miss queue",
}
"""What a request had to wait for, by the names of the counters."""

EVICTORS = {
    "intra_warp": "by the warp that brought the line",
    "cross_warp_intra_block": "by another warp of its block",
    "cross_block": "by another block",
}


LINES = dict(zip(TYPES, ("streaming", "inter-warp", "intra-warp", "inter+intra-warp"), strict=True))


def simulation(kernel: KernelReport, found: Comparison, ident: str) -> Element:
    """Return cycles, what held up the L1s, the traffic behind them, and the model beside all that."""
    run = found.simulation
    x, y, z = run.config["trace"]["grid"]
    blocks = sum(sm.blocks for sm in run.per_sm)
    sms = "1 SM" if run.sms == 1 else f"{run.sms} SMs"
    told = found.latency
    return section(
        ident,
        "Simulated",
        paragraph(
            f"{sms}, scheduler {run.config['options']['sched']}, {blocks:,} of {x * y * z:,} blocks: cycle by cycle. "
            "For the comparison the model runs on all of that too, and is told what the machine does: how it "
            f"schedules and stalls, that stores evict, and a latency of {told.lat_min} + |N(0, {told.sigma:g})|."
        ),
        table("Time", ("quantity", "value"), _time(run)),
        table("Load transactions, simulated and predicted; errors in points", _head(found), _comparison(found)),
        table("Cycles in which the L1s could not take a request", ("for want of", "cycles", "per 1000"), _fails(run)),
        table("Evictions from the L1s", ("evicted", "lines", "of all"), _evictions(run)),
        *_behind(run),
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
        ("L1 miss latency, 95 % within", f"{count(latency['p95'])} cycles"),
    ]


def _head(found: Comparison) -> list[str]:
    return ["transactions", "simulated", *(text for name in found.predictions for text in (name, "error"))]


def _comparison(found: Comparison) -> list[list[Node]]:
    rows: list[list[Node]] = []
    for name in SHARES:
        text: Node = inner(name) if name in CAUSES else name.replace("_", " ")
        rows.append([text, percent(found.simulated[name], 1)])
        for definition in found.predictions:
            error = found.errors(definition)[name]
            # No sign for what rounds to nothing.
            rows[-1] += [
                percent(found.predicted(definition)[name], 1),
                f"{error:+.2f}" if abs(error) >= 0.005 else "0.00",
            ]
    return rows


def _fails(run: Simulation) -> list[tuple[Node, str, str]]:
    fails, rates = run.reservation_fails.to_dict(), run.fails_per_kilocycle
    return [(LACKS[name], count(n), f"{rates[name]:,.2f}") for name, n in fails.items()]


def _evictions(run: Simulation) -> list[tuple[Node, str, str]]:
    evicted = run.contention.to_dict()
    whole = sum(evicted.values())
    return [(EVICTORS[name], count(n), percent(n, whole)) for name, n in evicted.items()]


def _behind(run: Simulation) -> list[Element]:
    """Return the L2 and the DRAM; nothing for an ideal memory."""
    if run.l2 is None or run.dram is None:
        return []
    l2, dram = run.l2, run.dram
    rows: list[tuple[Node, str, str]] = [
        ("L2 reads", count(l2.reads), ""),
        (inner("hits"), count(l2.hits), percent(l2.hits, l2.reads)),
        (inner("pending hits"), count(l2.pending_hits), percent(l2.pending_hits, l2.reads)),
        (inner("misses"), count(l2.misses), percent(l2.misses, l2.reads)),
        ("L2 writes", count(l2.writes), ""),
        ("DRAM reads", count(dram.reads), ""),
        ("DRAM writes", count(dram.writes), ""),
        ("DRAM bytes", count(dram.bytes), ""),
        ("DRAM row hits", "", percent(dram.row_hit_rate, 1)),
    ]
    return [table("L2 and DRAM", ("requests", "count", "share"), rows)]


# ---- locality


def locality(kernel: KernelReport, found: Locality, ident: str) -> Element:
    """Return who uses whose lines again, and how much of that the L1s serve."""
    unbounded, bounded, whole = found.unbounded.to_dict(), found.bounded.to_dict(), found.accesses
    rows: list[tuple[Node, ...]] = [
        ("first touches", count(found.first_touches), percent(found.first_touches, whole), "", "")
    ]
    rows += [
        (
            text,
            count(unbounded[name]),
            percent(unbounded[name], whole),
            count(bounded[name]),
            percent(bounded[name], whole),
        )
        for name, text in CLASSES.items()
    ]
    shares = [("first touches", found.first_touches / whole)]
    shares += [(CLASSES[name], n / whole) for name, n in unbounded.items()]
    figure = figures.bars(f"{ident}-classes", "Load transactions by who touched their line before", shares)
    return section(
        ident,
        "Who reuses whose lines",
        paragraph("Load transactions of the simulated L1s by who touched their line last on the same SM."),
        figure,
        table(
            "Reuse, and how much of it the L1s serve",
            ("last touched by", "transactions", "of all", "hits", "of all"),
            rows,
        ),
        table("Lines by who uses them", ("type", "brought", "of all", "used again", "mean distance"), _lines(found)),
        table(
            "Loads by their place in the code",
            ("pc", "transactions", "hits", "lines", "mostly", "of them"),
            _loads(found),
            words=(4,),
        ),
        commands=kernel.commands.get("locality", ()),
    )


def _lines(found: Locality) -> list[tuple[Node, ...]]:
    rows: list[tuple[Node, ...]] = []
    for name, n in found.lines.to_dict().items():
        reuse = found.reuse_distances[name]
        distance = f"{reuse.mean:,.1f}" if reuse.total else ""
        rows.append((LINES[name], count(n), percent(n, found.lines.total), count(reuse.total), distance))
    return rows


def _loads(found: Locality) -> list[tuple[Node, ...]]:
    rows: list[tuple[Node, ...]] = []
    for load in found.loads:
        lines, dominant = load.lines, load.dominant
        kind = ("", "") if dominant is None else (LINES[dominant], percent(lines.to_dict()[dominant], lines.total))
        hits = percent(load.hits, load.accesses)
        rows.append((str(load.pc), count(load.accesses), hits, count(lines.total), *kind))
    return rows
