"""Write the sections of a page with the results of the model for one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from rdmodel.common.text import count, percent, range_text, shape_text, size_text
from rdmodel.gpu.config import GPU
from rdmodel.reports import figures
from rdmodel.reports.bars import draw_bars
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.markup import Node, details, element, html_table, paragraph
from rdmodel.results.describe import describe_memory
from rdmodel.results.prediction import L2Prediction, Prediction
from rdmodel.reuse.histogram import by_powers
from rdmodel.trace.work import work_rows

ABLATION_NOTE = (
    "Each row switches off one component: without associativity, the L1 is fully associative; without latency, misses "
    "are served at once; without mshrs, any number of lines may be in flight; without divergence, warps take turns; "
    "without cta, blocks start in the other way (when all resident blocks have ended, or whenever one ends). A "
    "negative number means that there are more misses without the component."
)
"""Explanation of the table of components."""


def section(ident: str, title: str, *content: Node, commands: Sequence[str] = ()) -> Element:
    """Return a section of a kernel: a heading, the content, and the commands that reproduce its numbers."""
    root = element("section", element("h3", title, id=ident), *content)
    if commands:
        root.append(element("pre", element("code", "\n".join(f"$ {command}" for command in commands))))
    return root


def indented(text: str) -> Element:
    """Return the label of a row that is a part of the row above."""
    return element("span", text, class_="in")


def launch_section(kernel: KernelReport, ident: str) -> Element:
    """Return the launch and its memory accesses."""
    summary = kernel.summary
    sizes = kernel.prediction.config["trace"]["params"]
    rows: list[tuple[Node, Node]] = [
        ("kernel", summary.kernel),
        *([("sizes", " ".join(f"{name}={value}" for name, value in sizes.items()))] if sizes else []),
        ("grid", f"{shape_text(summary.grid)} blocks"),
        ("block", f"{shape_text(summary.block)} threads"),
        *([] if kernel.occupancy is None else [("occupancy", str(kernel.occupancy))]),
        *([("L1", division)] if (division := describe_memory(kernel.prediction.config["gpu"])) else []),
        ("blocks in the counts below", f"{summary.blocks_held:,} of {summary.blocks:,}"),
        *((f"{name} instructions", f"{n:,}") for name, n in summary.instructions.items() if n),
        ("lane accesses", f"{summary.lane_accesses:,} ({summary.active_lanes:.1f} active lanes per instruction)"),
        ("bytes requested", f"{summary.bytes_requested:,}"),
        ("footprint", f"{summary.footprint:,} bytes ({summary.lines:,} lines of {summary.line} bytes)"),
        (
            "load transactions",
            f"{summary.load_transactions:,} ({summary.transactions_per_load:.2f} per load instruction)",
        ),
    ]
    parts: list[Node] = [html_table("Launch and memory accesses", ("quantity", "value"), rows, words=(1,))]
    if summary.work is not None:
        executed = [
            (indented(name.strip()) if name.startswith(" ") else name, count(n)) for name, n in work_rows(summary.work)
        ]
        parts.append(html_table("Executed instructions", ("quantity", "number"), executed))
    if summary.arrays:
        head = ("array", "base", "bytes", "lane accesses", "touched")
        uses = [
            (a.name, f"{a.base:#x}", f"{a.bytes:,}", f"{a.accesses:,}", size_text(a.footprint)) for a in summary.arrays
        ]
        parts.append(html_table("Arrays", head, uses))
        if summary.elsewhere:
            parts.append(paragraph(f"{summary.elsewhere:,} lane accesses are outside these arrays."))
    return section(ident, "Launch", *parts, commands=kernel.commands.get("summary", ()))


# ---- L1


def l1_section(kernel: KernelReport, ident: str) -> Element:
    """Return the L1 prediction of every definition, with the misses by cause."""
    parts: list[Node] = []
    for name, prediction in kernel.predictions.items():
        if not prediction.transactions:
            parts.append(paragraph(f"{_extent(prediction)}, definition {name}: no loads."))
            continue
        figure = draw_bars(f"Load {prediction.unit} by outcome, definition {name}", _outcomes(prediction))
        parts.append(element("figure", figure, element("figcaption", f"{_extent(prediction)}, definition {name}")))
    head = [kernel.prediction.unit, *(text for name in kernel.predictions for text in (name, "of all"))]
    parts += [
        html_table(f"Load {kernel.prediction.unit} at the L1", head, _counts(kernel)),
        *map(_rate, kernel.predictions.values()),
    ]
    return section(ident, "L1 prediction", *parts, commands=kernel.commands.get("predictions", ()))


def _outcomes(prediction: Prediction) -> list[tuple[str, float]]:
    whole = prediction.sectors
    return [
        ("hits", prediction.hits / whole),
        ("latency misses", prediction.latency_misses / whole),
        ("compulsory misses", prediction.misses.compulsory / whole),
        ("capacity misses", prediction.misses.capacity / whole),
        ("associativity misses", prediction.misses.associativity / whole),
    ]


def _counts(kernel: KernelReport) -> list[list[Node]]:
    names: list[tuple[Node, str]] = [
        ("all", "sectors"),
        ("hits", "hits"),
        ("latency misses", "latency_misses"),
        ("misses", "total"),
        (indented("compulsory"), "compulsory"),
        (indented("capacity"), "capacity"),
        (indented("associativity"), "associativity"),
    ]
    rows: list[list[Node]] = []
    for text, field in names:
        rows.append([text])
        for prediction in kernel.predictions.values():
            value = getattr(prediction.misses if hasattr(prediction.misses, field) else prediction, field)
            rows[-1] += [count(value), percent(value, prediction.sectors)]
    for text, field in (("stalls: no MSHR", "stalls_mshr"), ("stalls: no way", "stalls_ways")):
        values: list[list[Node]] = [
            [count(getattr(prediction, field)), ""] for prediction in kernel.predictions.values()
        ]
        rows.append([text, *(cell for pair in values for cell in pair)])
    if kernel.prediction.unit == "sectors":
        rows += _transactions(kernel)
    if any(prediction.bypassed_transactions for prediction in kernel.predictions.values()):
        rows += _past_the_l1(kernel)
    return rows


def _transactions(kernel: KernelReport) -> list[list[Node]]:
    """Return the rows of the tag lookups and of the stores, which only L1s with sectors count."""
    rows: list[list[Node]] = [["transactions"], [indented("line absent")], [indented("sectors absent")]]
    rows += [["sectors of stores"], [indented("hits")]]
    for p in kernel.predictions.values():
        lookups = ((n, p.transactions) for n in (p.transactions, p.tag_misses, p.sector_misses))
        written = ((n, p.stores.sectors) for n in (p.stores.sectors, p.stores.hits))
        for row, (value, whole) in zip(rows, (*lookups, *written), strict=True):
            row += [count(value), percent(value, whole)]
    return rows


def _past_the_l1(kernel: KernelReport) -> list[list[Node]]:
    """Return the rows of the loads whose operator, or the L1, sends them to the L2 without a look-up."""
    rows: list[list[Node]] = [["loads past the L1"], [indented("sectors")]]
    for p in kernel.predictions.values():
        for row, value in zip(rows, (p.bypassed_transactions, p.bypassed_sectors), strict=True):
            row += [count(value), ""]
    return rows


def _extent(prediction: Prediction) -> str:
    """Return the modelled part of the launch."""
    options = prediction.config["options"]
    x, y, z = prediction.config["trace"]["grid"]
    blocks = sum(sm.blocks for sm in prediction.per_sm)
    sms = "SM 0" if prediction.sms_modelled == 1 else f"{prediction.sms_modelled} SMs"
    seeds = (
        f"seed {prediction.seed}"
        if not prediction.runs
        else f"mean of {len(prediction.runs)} seeds from {prediction.seed}"
    )
    return f"{sms} of {options['sms']}, {blocks:,} of {x * y * z:,} blocks, {seeds}"


def _rate(prediction: Prediction) -> Element:
    interval = ""
    if not prediction.transactions:
        return paragraph(element("strong", f"L1 miss rate, {prediction.definition}: no loads"))
    if prediction.interval is not None:
        low, high = prediction.interval
        interval = f" (95 % interval {100 * low:.2f} to {100 * high:.2f} %)"
    l1 = prediction.config["gpu"]["l1"]
    unit, in_flight = f"coalesced {l1['line']}-byte transaction", "lines"
    if prediction.unit == "sectors":
        unit, in_flight = f"{l1['sector']}-byte sector", "sectors"
    return paragraph(
        element("strong", f"L1 miss rate, {prediction.definition}: {percent(prediction.miss_rate, 1)}"),
        f"{interval}. The rate counts load requests that leave the SM, per {unit}; it "
        f"leaves out requests to {in_flight} already in flight ({percent(prediction.latency_miss_rate, 1)}).",
        *_expected_error(prediction),
    )


def _expected_error(prediction: Prediction) -> list[str]:
    """Return a sentence on the error that counters lead one to expect; none for a GPU of no named architecture."""
    error = str(prediction.expected_error or f"no L1 counters of {prediction.architecture} to compare with")
    return [f" {error[0].upper()}{error[1:]}."] if prediction.architecture else []


# ---- L2 and DRAM


def l2_section(kernel: KernelReport, ident: str) -> Element:
    """Return the requests at the L2 and the DRAM traffic."""
    predictions = [
        (name, prediction.l2) for name, prediction in kernel.predictions.items() if prediction.l2 is not None
    ]
    head = ["requests", *(text for name, _ in predictions for text in (name, "share"))]
    rows: list[list[Node]] = []
    for text, field, of in (
        ("reads of the L2", "reads", ""),
        (indented("hits"), "hits", "reads"),
        (indented("misses"), "misses", "reads"),
        ("writes", "writes", ""),
        (indented("hits"), "write_hits", "writes"),
        ("write-backs", "write_backs", ""),
        ("bytes between L1s and L2", "bytes", ""),
        ("bytes between L2 and DRAM", "dram_bytes", ""),
    ):
        rows.append([text])
        for _, l2 in predictions:
            rows[-1] += [count(getattr(l2, field)), percent(getattr(l2, field), getattr(l2, of)) if of else ""]
    parts: list[Node] = [html_table("Requests at the L2 and DRAM traffic", head, rows)]
    note = _alone(predictions[0][1], kernel.prediction.config["options"]["sms"])
    if note:
        parts.append(paragraph(note))
    return section(ident, "L2 and DRAM", *parts, commands=kernel.commands.get("predictions", ()))


def _alone(l2: L2Prediction, sms: int) -> str:
    if l2.sms_modelled == sms:
        return ""
    alone = "1 SM alone" if l2.sms_modelled == 1 else f"{l2.sms_modelled} SMs alone"
    rest = "without the requests of the other SMs (without --model-sms, all SMs are modelled)"
    return f"These counts are for {alone}, {rest}."


# ---- reuse distances


def reuse_section(kernel: KernelReport, gpu: GPU, ident: str) -> Element:
    """Return the miss-ratio curve and the histogram of reuse distances, with the capacities of the caches."""
    line, caches = gpu.l1.line, capacities(gpu)
    # The curve counts transactions of lines; without sectors, these rates are the miss rates.
    rates = {str(name): prediction.tag_miss_rate for name, prediction in kernel.predictions.items()}
    rate = "miss rate" if gpu.l1.sectors == 1 else "share of transactions whose line is absent,"
    curve = figures.draw_curve(f"{ident}-curve", "Miss-ratio curve", kernel.histogram, line, caches, rates)
    spread = figures.draw_distances(f"{ident}-distances", "Reuse distances", kernel.histogram, caches)
    marks = " and ".join(f"{name} ({'circle' if at == 0 else 'cross'})" for at, name in enumerate(rates))
    points: list[tuple[Node, ...]] = [
        (_size_label(size, line, caches), f"{size:,}", percent(ratio, 1))
        for size, ratio in kernel.curve(*caches.values())
    ]
    total = kernel.histogram.total
    rows = [(range_text(low, high), count(n), percent(n, total)) for low, high, n in by_powers(kernel.histogram)]
    rows.append(("first touch", count(kernel.histogram.infinite), percent(kernel.histogram.infinite, total)))
    return section(
        ident,
        "Reuse distances",
        paragraph(
            "The reuse distance of a request is the number of distinct other lines since the last request to its line. "
            "Here warps take turns, one instruction each and without latencies, so that no cache affects the order."
        ),
        element(
            "figure",
            curve,
            element(
                "figcaption",
                "Miss ratio of a fully associative LRU cache by its size, first touches included. The vertical lines "
                f"show the sizes of an L1 and of the shared L2, and marks the {rate} predicted by {marks}.",
            ),
        ),
        element("figure", spread, element("figcaption", "Share of the load transactions by reuse distance.")),
        details(
            "Both figures as tables",
            html_table("Miss-ratio curve", ("cache", "lines", "miss ratio"), points),
            html_table("Reuse distances", ("distance", "transactions", "share"), rows),
        ),
        commands=kernel.commands.get("reuse", ()),
    )


def capacities(gpu: GPU) -> dict[str, int]:
    """Return the capacities of the L1 and the L2 in lines, by labels with their sizes."""
    l2 = gpu.l2.slices * gpu.l2.size
    return {f"L1, {size_text(gpu.l1.size)}": gpu.l1.lines, f"L2, {size_text(l2)}": l2 // gpu.l1.line}


def _size_label(size: int, line: int, caches: dict[str, int]) -> Node:
    names = ", ".join(name.partition(",")[0] for name, lines in caches.items() if lines == size)
    return f"{size_text(size * line)} ({names})" if names else size_text(size * line)


# ---- causes and remedies


def remedies_section(kernel: KernelReport, gpu: GPU, ident: str) -> Element:
    """Return the misses by component of the model, and the miss rates of changed GPUs."""
    parts: list[Node] = []
    for name, prediction in kernel.predictions.items():
        if prediction.ablation:
            rows = [
                (
                    row.component,
                    count(row.misses),
                    f"{row.difference:+,.0f}",
                    percent(row.difference, prediction.sectors),
                )
                for row in prediction.ablation
            ]
            head = ("without", "misses", "accounts for", "of all")
            parts.append(
                html_table(f"Misses with one component of the model switched off, definition {name}", head, rows)
            )
    if any(prediction.ablation for prediction in kernel.predictions.values()):
        parts.append(paragraph(ABLATION_NOTE))
    if kernel.what_ifs:
        parts += _what_ifs(kernel, gpu)
    commands = kernel.commands.get("what_ifs", ())
    return section(ident, "Causes and remedies", *parts, commands=commands)


def _what_ifs(kernel: KernelReport, gpu: GPU) -> list[Node]:
    first = kernel.prediction
    tried = {f"unchanged: {size_text(gpu.l1.size)}, {gpu.l1.ways} ways": first, **kernel.what_ifs}
    rates = [(name, prediction.miss_rate) for name, prediction in tried.items()]
    below = first.l2 is not None
    rows = []
    for name, prediction in tried.items():
        change = 100 * (prediction.miss_rate - first.miss_rate)
        row = [
            name,
            percent(prediction.miss_rate, 1),
            f"{change:+.2f}" if prediction is not first else "",
            count(prediction.misses.total),
        ]
        rows.append([*row, *([count(prediction.l2.dram_bytes)] if prediction.l2 is not None else [])])
    head = ["GPU", "miss rate", "points", "misses", *(["DRAM bytes"] if below else [])]
    figure = draw_bars("Predicted L1 miss rates of changed GPUs", rates)
    return [
        element("figure", figure, element("figcaption", f"L1 miss rates, definition {first.definition}.")),
        html_table("The same kernel on changed GPUs", head, rows),
    ]
