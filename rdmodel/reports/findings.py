"""Summarise the results of a kernel in a few sentences, each derived from the numbers alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from rdmodel.common.text import count, percent, size_text
from rdmodel.gpu.config import GPU
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.labels import LAST_ACCESS_LABELS
from rdmodel.timing.values import LATENCY, SHOWN_SHARE

CAUSE_EXPLANATIONS = {
    "compulsory": "first requests to a {part}, which no L1 avoids",
    "capacity": "more distinct lines come between two requests than the L1 holds",
    "associativity": "too many lines map to the same set",
}
"""Explanations of the causes of misses; `part` is what a miss fetches."""

MOST_NAMED = 3
"""Lines, arrays or terms that a sentence names."""

MIN_COMPONENT_SHARE = 0.01
"""Least share of the transactions for which a component of the model is mentioned."""


def findings(kernel: KernelReport, gpu: GPU) -> dict[str, list[str]]:
    """Return the sentences about a kernel by subject: causes, remedies and bounds before all else."""
    sentences = {
        "Modelled": _modelled(kernel),
        "Where the misses come from": chain(_misses(kernel), _origins(kernel), _coalescing(kernel)),
        "What would help": chain(_changes(kernel), _curve(kernel, gpu), _components(kernel)),
        "What bounds the kernel": chain(_time(kernel), _traffic(kernel)),
        "In the simulation": chain(_simulated(kernel), _reuse(kernel)),
    }
    return {subject: told for subject, parts in sentences.items() if (told := list(parts))}


def _modelled(kernel: KernelReport) -> Iterator[str]:
    prediction = kernel.prediction
    blocks, sms = sum(sm.blocks for sm in prediction.per_sm), prediction.config["options"]["sms"]
    whole = kernel.summary.blocks
    part = "all" if blocks == whole else f"{percent(blocks, whole)} of the grid"
    yield (
        f"{blocks:,} of {whole:,} blocks ({part}), on {prediction.sms_modelled:,} of {sms:,} SMs. "
        "All counts are of these blocks, unless a section says otherwise."
    )


def _origins(kernel: KernelReport) -> Iterator[str]:
    if kernel.origins is None or not kernel.prediction.misses.total:
        return
    tables = {"lines of the source": kernel.origins.by("line"), "arrays": kernel.origins.by("array")}
    for noun, table in tables.items():
        rows = [row for row in table.rows if row.counts.missed_sectors]
        whole = sum(row.counts.missed_sectors for row in rows)
        if len(rows) > 1:
            named = [f"{row.name} ({percent(row.counts.missed_sectors, whole)})" for row in rows[:MOST_NAMED]]
            yield f"The {noun} with most misses: {', '.join(named)}."


def _misses(kernel: KernelReport) -> Iterator[str]:
    prediction = kernel.prediction
    if not kernel.has_loads:
        stores = sum(n for name, n in kernel.summary.instructions.items() if name in ("store", "atomic"))
        yield f"The modelled blocks have {count(stores)} store instructions but no loads, and so no L1 miss rate."
        return
    if not prediction.misses.total:
        waiting = percent(prediction.latency_miss_rate, 1)
        in_flight = "sectors" if _has_sectors(kernel) else "lines"
        yield f"No load request leaves the SM; {waiting} of the {prediction.unit} wait for {in_flight} in flight."
        return
    causes = {name: getattr(prediction.misses, name) for name in CAUSE_EXPLANATIONS}
    part = "sector" if _has_sectors(kernel) else "line"
    most = max(causes, key=lambda name: causes[name])
    yield (
        f"{percent(prediction.miss_rate, 1)} of the load {prediction.unit} leave the SM. "
        f"{percent(causes[most], prediction.misses.total)} of these misses are {most} misses: "
        f"{CAUSE_EXPLANATIONS[most].format(part=part)}."
    )


def _has_sectors(kernel: KernelReport) -> bool:
    return kernel.prediction.unit == "sectors"


def _coalescing(kernel: KernelReport) -> Iterator[str]:
    summary = kernel.summary
    if summary.instructions["load"]:
        yield (
            f"A load instruction of a warp makes {summary.transactions_per_load:.2f} transactions on average; "
            f"it would make 1 if the data of its threads lay in one {summary.line}-byte line."
        )


def _curve(kernel: KernelReport, gpu: GPU) -> Iterator[str]:
    if not kernel.histogram.total:
        return
    histogram, l1 = kernel.histogram, gpu.l1
    here = histogram.miss_ratio(l1.lines)
    larger = [(n, ratio) for n, ratio in kernel.curve() if n > l1.lines and ratio <= here / 2]
    by_line = ", by line," if _has_sectors(kernel) else ""
    ideal = (
        f"With warps that take turns, a fully associative LRU cache of the size of the L1 ({size_text(l1.size)}) would "
        f"have a miss ratio{by_line} of {percent(here, 1)}"
    )
    if larger:
        n, ratio = larger[0]
        yield f"{ideal}, and one of {size_text(n * l1.line)} or more at most {percent(ratio, 1)}."
    elif here:
        yield f"{ideal}, and no larger one at most half of that."


def _components(kernel: KernelReport) -> Iterator[str]:
    prediction = kernel.prediction
    if kernel.has_loads and prediction.ablation:
        most = max(prediction.ablation, key=lambda row: row.difference)
        if most.difference > MIN_COMPONENT_SHARE * prediction.sectors:
            yield (
                f"Of the components of the model, {most.component} accounts for the most misses: without it there are "
                f"{count(round(most.difference))} fewer ({percent(most.difference, prediction.sectors)} of the "
                f"{prediction.unit})."
            )
        else:
            yield (
                "No single component of the model (associativity, latency, MSHRs, divergence, the order of blocks) "
                f"accounts for misses of more than {percent(MIN_COMPONENT_SHARE, 1)} of the {prediction.unit}."
            )


def _changes(kernel: KernelReport) -> Iterator[str]:
    if kernel.has_loads and kernel.what_ifs:
        best = min(kernel.what_ifs, key=lambda name: kernel.what_ifs[name].miss_rate)
        rate, now = kernel.what_ifs[best].miss_rate, kernel.prediction.miss_rate
        if rate < now:
            yield f"Of the changed GPUs, “{best}” misses least: {percent(rate, 1)} instead of {percent(now, 1)}."
        else:
            yield "None of the changed GPUs misses less."


def _time(kernel: KernelReport) -> Iterator[str]:
    timed = kernel.timed
    if timed is None or not timed.cycles:
        return
    first, *others = ((name, share) for name, share in timed.shares.items() if share >= SHOWN_SHARE)
    more = ", ".join(f"{name} {100 * share:.0f} %" for name, share in others[:MOST_NAMED])
    waiting = "memory latency: warps wait although no resource is busy" if first[0] == LATENCY else first[0]
    yield (
        f"The launch takes about {timed.milliseconds:,.4g} ms and is bound by {waiting} ({100 * first[1]:.0f} % of the "
        f"time{f'; then {more}' if more else ''}). {timed.resident_warps} of {timed.max_warps} warps are on an SM, "
        f"limited by the {timed.limiter}."
    )


def _traffic(kernel: KernelReport) -> Iterator[str]:
    l2 = kernel.prediction.l2
    if l2 is not None:
        yield (
            f"The L2 serves {percent(l2.hits, l2.reads)} of the reads that miss in the L1s; "
            f"{count(l2.dram_bytes)} bytes move between L2 and DRAM."
        )


def _simulated(kernel: KernelReport) -> Iterator[str]:
    if kernel.comparison is not None:
        run = kernel.comparison.simulation
        blocks = sum(sm.blocks for sm in run.per_sm)
        part = "the whole launch" if blocks == kernel.summary.blocks else f"the first {blocks:,} blocks"
        loads = "load sectors" if run.unit == "sectors" else run.unit
        missed = f"{percent(run.miss_rate, 1)} of the {loads} miss in the L1s"
        yield (
            f"In the simulation, {run.sms} SMs run {part} in {count(run.cycles)} cycles, at an IPC of {run.ipc:,.2f}; "
            f"{missed if run.loads else 'it has no loads'}."
        )


def _reuse(kernel: KernelReport) -> Iterator[str]:
    locality = kernel.locality
    if locality is not None and locality.unbounded.total:
        classes = locality.unbounded.to_dict()
        most = max(classes, key=lambda name: classes[name])
        yield (
            f"Of the simulated re-references, {percent(classes[most], locality.unbounded.total)} are to lines last "
            f"touched by {LAST_ACCESS_LABELS[most]}; the L1s serve "
            f"{percent(locality.bounded.total, locality.accesses)} of all load transactions."
        )
