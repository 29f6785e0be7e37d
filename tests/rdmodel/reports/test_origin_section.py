"""The section of a report that says where misses come from: tables, and the source with the misses of its lines."""

from __future__ import annotations

import re
from html import unescape

import rdmodel as rd
import tracegen
from rdmodel.reports import origin_section
from rdmodel.trace import Trace


def kernel(k, a, b, n):
    for j in k.range(n):
        k.load(a, k.x, j)  # a row per thread: <scattered>
    k.store(b, k.x)


def strided(**arguments) -> Trace:
    return tracegen.trace(kernel, grid=4, block=32, arrays={"a": (128, 64), "b": 128}, n=64, **arguments)


def text_of(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())


def test_the_source_is_listed_with_the_misses_of_each_line():
    report = rd.report(strided(), "v100", what_ifs={}, ablation=False)
    rows = {row.name.rpartition(":")[0]: row.counts for row in report.kernels[0].origins.by("line").rows}
    assert set(rows) == {"test_origin_section.py"}
    text = text_of(report.to_html())
    load = next(row for row in report.kernels[0].origins.by("line").rows if row.counts.misses.total)
    assert f"{load.source.line} " in text
    misses = f"{load.counts.misses.total:,.0f}"
    assert f"{misses} 100.00 % {load.counts.l2_bytes:,.0f} k.load(a, k.x, j) # a row per thread: <scattered>" in text
    assert "def kernel(k, a, b, n):" in text
    assert "Misses by line of test_origin_section.py" in text


def test_a_nest_without_a_file_has_a_table_of_its_accesses():
    nest = tracegen.kernel("gemm.tiled", NI=64, NJ=64, NK=64)
    text = text_of(rd.report(nest, "v100", what_ifs={}, ablation=False).to_html())
    assert "Misses by array" in text
    assert "Misses by line line transactions" in text
    assert "load a[" in text.lower()


def test_the_origins_are_those_of_the_first_definition_without_the_l2():
    report = rd.report(strided(), "v100", what_ifs={}, ablation=False, l2=True, definitions=("hardware",))
    alone = rd.predict(strided(), "v100", origins=True)
    assert report.kernels[0].origins == alone.origins
    assert report.to_dict()["kernels"][0]["by"]["array"] == alone.by("array").to_dict()


def test_a_long_source_shows_the_lines_with_most_misses(monkeypatch):
    monkeypatch.setattr(origin_section, "MAX_LISTED_LINES", 7)
    rows = {50: None, 10: None, 52: None}
    assert list(origin_section._shown_lines(rows, 100)) == [*range(47, 54)]
    monkeypatch.setattr(origin_section, "MAX_LISTED_LINES", 14)
    assert list(origin_section._shown_lines(rows, 51)) == [*range(7, 14), None, *range(47, 52), 52]


def test_a_kernel_without_loads_and_stores_has_no_such_section():
    def empty(k, a):
        k.barrier()

    trace = tracegen.trace(empty, grid=1, block=32, arrays={"a": 32})
    page = rd.report(trace, "v100", what_ifs={}, ablation=False).to_html()
    assert "Where the misses come from</h3>" not in page
