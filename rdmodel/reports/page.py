"""Write a report as one self-contained HTML page, with its style and without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any
from xml.etree.ElementTree import Element

from rdmodel.common.text import count, percent, size_text
from rdmodel.gpu.config import GPU
from rdmodel.reports import model_sections, simulation_sections
from rdmodel.reports.findings import findings
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.markup import Node, details, element, html_table, paragraph, to_html
from rdmodel.reports.origin_section import origin_section
from rdmodel.reports.time_section import time_section
from rdmodel.results.counts import MissCounts
from rdmodel.version import __version__

CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Content security policy: the browser loads nothing, and runs no script even if a name looks like one."""

TERMS = {
    "transaction": "request of one load instruction of a warp for one line, after coalescing",
    "sector": "part of a line that is fetched on its own; where lines have several, hits and misses count sectors",
    "hit": "request to a line that is in the L1",
    "latency miss": "request to a line in flight: it waits for the line, but does not leave the SM",
    "compulsory miss": "first request to a line",
    "capacity miss": "request to a line after requests to more distinct other lines than the L1 holds",
    "associativity miss": "request to a line after requests to too many other lines of its set, though not of the L1",
    "stall": "failed attempt to send a request for lack of an MSHR or a way; it is repeated, and is not a miss",
}
"""Glossary of the page."""


def write_page(gpu: GPU, kernels: Sequence[KernelReport]) -> str:
    """Return the page: a title, the findings and sections of each kernel, the GPU, and a glossary."""
    numbered = [(f"k{number}", kernel) for number, kernel in enumerate(kernels, 1)]
    parts = {ident: list(_sections(kernel, kernel.launched_on(gpu), ident)) for ident, kernel in numbered}
    names = ", ".join(dict.fromkeys(kernel.kernel for kernel in kernels))
    title = f"Cache behaviour of {names} on {gpu.name}"
    body = element(
        "main",
        element("h1", _title(gpu, kernels)),
        *_head(gpu),
        _contents(numbered, parts),
        *(_summary(numbered) if len(numbered) > 1 else ()),
        *(_kernel(kernel, kernel.launched_on(gpu), ident, parts[ident]) for ident, kernel in numbered),
        _gpu_fields(gpu),
        _glossary(),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=CONTENT_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"rdmodel {__version__}"),
        element("title", title),
        element("style", files(__package__).joinpath("style.css").read_text(encoding="utf-8")),
    )
    return f"<!DOCTYPE html>\n{to_html(element('html', head, element('body', body), lang='en'))}\n"


# ---- the top


def _title(gpu: GPU, kernels: Sequence[KernelReport]) -> str:
    if len(kernels) == 1:
        return f"Cache behaviour of {kernels[0].kernel} on {gpu.name}"
    return f"Cache behaviour of {len(kernels)} kernels on {gpu.name}"


def _head(gpu: GPU) -> Iterator[Element]:
    l1, l2 = gpu.l1, gpu.l2
    size = f"{'up to ' if l1.unified else ''}{size_text(l1.size)}"
    index = f"{l1.sets} sets, index function {l1.index.name}"
    yield paragraph(
        f"{gpu.sms} SMs, each with an L1 of {size} ({l1.ways} ways, {index}, lines of {l1.line} "
        f"bytes), and a shared L2 of {size_text(l2.slices * l2.size)}. "
        f"Computed by rdmodel {__version__} without a GPU."
    )


def _contents(kernels: Iterable[tuple[str, KernelReport]], parts: dict[str, list[Element]]) -> Element:
    entries = []
    for ident, kernel in kernels:
        inner = element("ul", *(element("li", _link(part[0])) for part in parts[ident]))
        entries.append(element("li", element("a", kernel.source, href=f"#{ident}"), inner))
    if len(entries) > 1:
        entries.insert(0, element("li", element("a", "All kernels", href="#all")))
    last = [("gpu", "The GPU"), ("glossary", "Glossary")]
    entries += [element("li", element("a", text, href=f"#{ident}")) for ident, text in last]
    return element("nav", element("ul", *entries), aria_label="Contents")


def _link(heading: Element) -> Element:
    return element("a", heading.text or "", href=f"#{heading.get('id')}")


def _summary(kernels: Iterable[tuple[str, KernelReport]]) -> Iterator[Element]:
    """Yield a table with a row for every kernel."""
    rows: list[list[Node]] = []
    every = list(kernels)
    for ident, kernel in every:
        prediction, misses = kernel.prediction, kernel.prediction.misses
        row: list[Node] = [element("a", kernel.source, href=f"#{ident}"), count(prediction.transactions)]
        row += [percent(other.miss_rate, 1) for other in kernel.predictions.values()]
        row += [percent(getattr(misses, name), misses.total) for name in MissCounts.CAUSES]
        row += [] if prediction.l2 is None else [count(prediction.l2.dram_bytes)]
        row += [] if kernel.comparison is None else [percent(kernel.comparison.simulation.miss_rate, 1)]
        rows.append(row)
    first = every[0][1]
    head = ["kernel", "transactions", *(f"miss rate, {name}" for name in first.predictions)]
    head += [f"{name}, of misses" for name in MissCounts.CAUSES]
    head += [] if first.prediction.l2 is None else ["DRAM bytes"]
    head += [] if first.comparison is None else ["miss rate, simulated"]
    yield element("h2", "All kernels", id="all")
    yield html_table("L1 miss rates, and misses by cause", head, rows)


# ---- a kernel


def _sections(kernel: KernelReport, gpu: GPU, ident: str) -> Iterator[Element]:
    """Yield the sections of a kernel that have content: causes, remedies and bounds first, then every number."""
    if kernel.origins is not None and kernel.origins.entries:
        yield origin_section(kernel, f"{ident}-origins")
    if kernel.has_loads and (kernel.prediction.ablation or kernel.what_ifs):
        yield model_sections.remedies_section(kernel, gpu, f"{ident}-help")
    if kernel.timed is not None:
        yield time_section(kernel, kernel.timed, f"{ident}-time")
    yield model_sections.l1_section(kernel, f"{ident}-l1")
    if kernel.prediction.l2 is not None:
        yield model_sections.l2_section(kernel, f"{ident}-l2")
    if kernel.histogram.total:
        yield model_sections.reuse_section(kernel, gpu, f"{ident}-reuse")
    yield model_sections.launch_section(kernel, f"{ident}-launch")
    if kernel.comparison is not None:
        yield simulation_sections.simulation_section(kernel, kernel.comparison, f"{ident}-simulated")
    if kernel.locality is not None:
        yield simulation_sections.locality_section(kernel, kernel.locality, f"{ident}-locality")
    yield _configurations(kernel, f"{ident}-config")


def _kernel(kernel: KernelReport, gpu: GPU, ident: str, parts: Iterable[Element]) -> Element:
    items = [
        part
        for subject, sentences in findings(kernel, gpu).items()
        for part in (element("dt", subject), *(element("dd", sentence) for sentence in sentences))
    ]
    head = element("h2", kernel.source, id=ident)
    return element("article", head, element("dl", *items, class_="findings"), *parts)


def _configurations(kernel: KernelReport, ident: str) -> Element:
    """Return all options of each run; the GPU stands at the end of the page."""
    runs: dict[str, Any] = {f"prediction, {name}": run.config for name, run in kernel.predictions.items()}
    runs["reuse distances"] = kernel.reuse.config
    if kernel.comparison is not None:
        runs["simulation"] = kernel.comparison.simulation.config
        predictions = kernel.comparison.predictions.items()
        runs |= {f"prediction beside the simulation, {name}": run.config for name, run in predictions}
    shown = []
    for name, config in runs.items():
        plain = {key: value for key, value in config.items() if key != "gpu"}
        text = json.dumps(plain, indent=1, ensure_ascii=True)
        shown.append(details(name, element("pre", element("code", text))))
    note = "Options, seed and launch of every run. Another run with these gives the same numbers."
    return model_sections.section(ident, "Options of the runs", paragraph(note), *shown)


# ---- the end


def _gpu_fields(gpu: GPU) -> Element:
    """Return every field of the GPU with its source."""
    rows = []
    for key, value in _flat(gpu.to_dict()):
        source = gpu.sources.get(key) or gpu.sources.get(key.partition(".")[0], "")
        rows.append((key, "inf" if value is None else str(value), source))
    head = ("field", "value", "source")
    return element("section", element("h2", "The GPU", id="gpu"), html_table(gpu.name, head, rows, words=(2,)))


def _flat(plain: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in plain.items():
        if before + key == "l1.index":
            yield "l1.index", " ".join([value["name"], *(f"{k}={v}" for k, v in value.items() if k != "name")])
        elif key != "sources" and isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        elif key not in ("sources", "name"):
            yield before + key, value


def _glossary() -> Element:
    terms = [part for word, meaning in TERMS.items() for part in (element("dt", word), element("dd", meaning))]
    return element("section", element("h2", "Glossary", id="glossary"), element("dl", *terms))
