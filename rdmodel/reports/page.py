"""A report as one page of HTML, which needs nothing else: its style is in it, and it has no scripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any
from xml.etree.ElementTree import Element

from rdmodel.common.text import count, percent, size_text
from rdmodel.gpu.config import GPU
from rdmodel.reports import sections, simulated
from rdmodel.reports.findings import findings
from rdmodel.reports.kernel_report import KernelReport
from rdmodel.reports.markup import Node, details, element, paragraph, table, written
from rdmodel.version import __version__

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for the page: nothing; a name that looks like a script is not one here either."""

WORDS = {
    "transaction": "what the loads of a warp's instruction ask of one line, after coalescing",
    "hit": "the line is in the L1",
    "latency miss": "the line is already on its way: the request waits, but none leaves the SM for it",
    "compulsory miss": "the first request to the line",
    "capacity miss": "more distinct lines came in between than the L1 holds",
    "associativity miss": "the L1 has room for as many lines, but not in this set",
    "stall": "a try that failed for want of an MSHR or a way; it is no miss",
}


def page(gpu: GPU, kernels: Sequence[KernelReport]) -> str:
    """Return the page of some kernels on one GPU: its title, the findings, each kernel's sections, and the machine."""
    numbered = [(f"k{number}", one) for number, one in enumerate(kernels, 1)]
    parts = {ident: list(_sections(one, gpu, ident)) for ident, one in numbered}
    names = ", ".join(dict.fromkeys(one.kernel for one in kernels))
    title = f"{names}: caches of {gpu.name}"
    body = element(
        "main",
        element("h1", _title(gpu, kernels)),
        *_head(gpu),
        _contents(numbered, parts),
        *(_summary(numbered) if len(numbered) > 1 else ()),
        *(_kernel(one, gpu, ident, parts[ident]) for ident, one in numbered),
        _machine(gpu),
        _words(),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"rdmodel {__version__}"),
        element("title", title),
        element("style", files(__package__).joinpath("style.css").read_text(encoding="utf-8")),
    )
    return f"<!DOCTYPE html>\n{written(element('html', head, element('body', body), lang='en'))}\n"


# ---- the top


def _title(gpu: GPU, kernels: Sequence[KernelReport]) -> str:
    if len(kernels) == 1:
        return f"What the caches of {gpu.name} do with {kernels[0].kernel}"
    return f"What the caches of {gpu.name} do with {len(kernels)} kernels"


def _head(gpu: GPU) -> Iterator[Element]:
    l1, l2 = gpu.l1, gpu.l2
    index = f"{l1.sets} sets, index function {l1.index.name}"
    yield paragraph(
        f"{gpu.sms} SMs, each with an L1 of {size_text(l1.size)} ({l1.ways} ways, {index}, lines of {l1.line} "
        f"bytes), and an L2 of {size_text(l2.slices * l2.size)} that they share. "
        f"Computed by rdmodel {__version__} without a GPU."
    )


def _contents(kernels: Iterable[tuple[str, KernelReport]], parts: dict[str, list[Element]]) -> Element:
    entries = []
    for ident, one in kernels:
        inner = element("ul", *(element("li", _link(part[0])) for part in parts[ident]))
        entries.append(element("li", element("a", one.source, href=f"#{ident}"), inner))
    if len(entries) > 1:
        entries.insert(0, element("li", element("a", "All kernels", href="#all")))
    last = [("machine", "The machine"), ("words", "Words")]
    entries += [element("li", element("a", text, href=f"#{ident}")) for ident, text in last]
    return element("nav", element("ul", *entries), aria_label="Contents")


def _link(heading: Element) -> Element:
    return element("a", heading.text or "", href=f"#{heading.get('id')}")


def _summary(kernels: Iterable[tuple[str, KernelReport]]) -> Iterator[Element]:
    """Yield a table with a row for every kernel."""
    rows: list[list[Node]] = []
    every = list(kernels)
    for ident, one in every:
        found, misses = one.prediction, one.prediction.misses
        row: list[Node] = [element("a", one.source, href=f"#{ident}"), count(found.transactions)]
        row += [percent(other.miss_rate, 1) for other in one.predictions.values()]
        row += [percent(getattr(misses, name), misses.total) for name in ("compulsory", "capacity", "associativity")]
        row += [] if found.l2 is None else [count(found.l2.dram_bytes)]
        row += [] if one.comparison is None else [percent(one.comparison.simulation.miss_rate, 1)]
        rows.append(row)
    first = every[0][1]
    head = ["kernel", "transactions", *(f"miss rate, {name}" for name in first.predictions)]
    head += [f"{name}, of misses" for name in ("compulsory", "capacity", "associativity")]
    head += [] if first.prediction.l2 is None else ["DRAM bytes"]
    head += [] if first.comparison is None else ["miss rate, simulated"]
    yield element("h2", "All kernels", id="all")
    yield table("L1 miss rates, and how the misses divide", head, rows)


# ---- a kernel


def _sections(kernel: KernelReport, gpu: GPU, ident: str) -> Iterator[Element]:
    """Yield the sections of a kernel, those that there is something for."""
    yield sections.launch(kernel, f"{ident}-launch")
    yield sections.prediction(kernel, f"{ident}-l1")
    if kernel.prediction.l2 is not None:
        yield sections.below(kernel, f"{ident}-l2")
    yield sections.reuse(kernel, gpu, f"{ident}-reuse")
    if kernel.prediction.ablation or kernel.what_ifs:
        yield sections.remedies(kernel, gpu, f"{ident}-help")
    if kernel.comparison is not None:
        yield simulated.simulation(kernel, kernel.comparison, f"{ident}-simulated")
    if kernel.locality is not None:
        yield simulated.locality(kernel, kernel.locality, f"{ident}-locality")
    yield _configurations(kernel, f"{ident}-config")


def _kernel(kernel: KernelReport, gpu: GPU, ident: str, parts: Iterable[Element]) -> Element:
    told = [element("li", sentence) for sentence in findings(kernel, gpu)]
    return element("article", element("h2", kernel.source, id=ident), element("ul", *told), *parts)


def _configurations(kernel: KernelReport, ident: str) -> Element:
    """Return what each run was told, fully expanded, but for the machine, which stands at the end of the page."""
    runs: dict[str, Any] = {f"prediction, {name}": one.config for name, one in kernel.predictions.items()}
    runs["reuse distances"] = kernel.reuse.config
    if kernel.comparison is not None:
        runs["simulation"] = kernel.comparison.simulation.config
        beside = kernel.comparison.predictions.items()
        runs |= {f"prediction beside the simulation, {name}": one.config for name, one in beside}
    shown = []
    for name, config in runs.items():
        plain = {key: value for key, value in config.items() if key != "gpu"}
        text = json.dumps(plain, indent=1, ensure_ascii=True)
        shown.append(details(name, element("pre", element("code", text))))
    why = "Options, seed and launch of every run; rdmodel run with these again gives the same numbers."
    return sections.section(ident, "Options of the runs", paragraph(why), *shown)


# ---- the end


def _machine(gpu: GPU) -> Element:
    """Return every number of the machine with its source."""
    rows = []
    for key, value in _flat(gpu.to_dict()):
        source = gpu.sources.get(key) or gpu.sources.get(key.partition(".")[0], "")
        rows.append((key, "inf" if value is None else str(value), source))
    head = ("field", "value", "source")
    return element("section", element("h2", "The machine", id="machine"), table(gpu.name, head, rows, words=(2,)))


def _flat(plain: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in plain.items():
        if before + key == "l1.index":
            yield "l1.index", " ".join([value["name"], *(f"{k}={v}" for k, v in value.items() if k != "name")])
        elif key != "sources" and isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        elif key not in ("sources", "name"):
            yield before + key, value


def _words() -> Element:
    terms = [part for word, meaning in WORDS.items() for part in (element("dt", word), element("dd", meaning))]
    return element("section", element("h2", "Words", id="words"), element("dl", *terms))
