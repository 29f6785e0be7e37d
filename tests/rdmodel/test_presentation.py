"""Results are presented alike: a short `repr`, a table in notebooks, and a data frame."""

from __future__ import annotations

import pickle
import sys
from html import unescape
from types import SimpleNamespace
from xml.etree.ElementTree import fromstring

import pytest

import rdmodel as rd
import tracegen
from rdmodel.common.presentation import MAX_ROWS, Presented, table_html, value_text
from rdmodel.errors import RdmodelError, TraceError
from rdmodel.results.prediction import Prediction

GPU = "gtx470-16k"


def trace() -> rd.Trace:
    return tracegen.affine_kernel("gemm", NI=32, NJ=32, NK=32)


def results() -> dict[str, object]:
    """Return a result of every kind."""
    kernel = trace()
    predicted = rd.predict(kernel, "v100", l2=True)
    return {
        "trace": kernel,
        "stored trace": rd.Trace(kernel.launch, kernel.columns),
        "GPU": rd.presets.gpu("a100-80g"),
        "prediction": predicted,
        "estimate": rd.estimate(kernel, GPU, l2=True, work=100),
        "simulation": rd.simulate(kernel, GPU),
        "comparison": rd.compare(kernel, GPU),
        "ranking": rd.rank_tiles(lambda TI: trace(), {"TI": [1, 2]}, gpu=GPU),
        "sweep": rd.sweep(kernel, gpu=GPU, ways=[4, 8], mshrs=[16, 32], n_jobs=1),
        "contest": rd.contest(kernel, ["bypass-all"], GPU, n_jobs=1),
        "locality": rd.locality(kernel, GPU),
        "report": rd.report(kernel, GPU),
        "histogram": predicted.histogram,
        "curve": predicted.histogram.miss_ratio_curve(),
        "sampled histogram": rd.histogram(range(1000), sample=0.5),
        "sampled curve": rd.histogram(range(1000), sample=0.5).miss_ratio_curve(),
        "time": rd.time(kernel, "a100-80g"),
    }


@pytest.fixture(scope="module")
def made() -> dict[str, object]:
    return results()


NAMES = (
    *("trace", "stored trace", "GPU", "prediction", "estimate", "simulation", "comparison", "ranking", "sweep"),
    *("contest", "locality", "report", "histogram", "curve", "sampled histogram", "sampled curve", "time"),
)
RESULTS = pytest.mark.parametrize("name", NAMES)


@RESULTS
def test_a_repr_is_one_short_line_that_begins_with_the_class(made, name):
    text = repr(made[name])
    assert text.startswith(f"{type(made[name]).__name__}(") and text.endswith(")")
    assert "\n" not in text
    assert len(text) <= 250


@RESULTS
def test_a_notebook_gets_well_formed_html_that_needs_nothing_else(made, name):
    html = made[name]._repr_html_()
    root = fromstring(html)
    assert "<script" not in html and "http" not in html.partition("srcdoc")[0]
    if name == "report":
        assert root.tag == "iframe"
        assert unescape(html.partition('srcdoc="')[2].partition('"')[0]) == made[name].to_html()
    else:
        assert "".join(root.find(".//strong").itertext()) == repr(made[name])
        assert len(root.findall(".//td")) >= 2


@RESULTS
def test_a_frame_has_the_rows_of_the_result(made, name, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows: rows))
    found = made[name].to_frame()
    if isinstance(made[name], rd.Trace):
        assert {len(column) for column in found.values()} == {len(made[name])}
    else:
        assert found == made[name].to_rows()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RdmodelError, match=r"needs pandas: pip install 'rdmodel\[frame\]'"):
        made[name].to_frame()


def test_a_frame_of_a_trace_has_the_instructions_of_the_blocks_that_are_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda columns: columns))
    kernel = trace()
    whole = rd.Trace(kernel.launch, kernel.columns)
    one, same = (each.to_frame([1]) for each in (kernel, whole))
    assert {name: column.tolist() for name, column in one.items()} == {
        name: column.tolist() for name, column in same.items()
    }
    assert set(one["block"]) == {1}
    assert set(one["warp"]) == set(range(kernel.launch.block_warps))
    assert set(one["op"]) == {"load", "store"}
    a = next(array for array in kernel.launch.arrays if array.name == "a")
    assert ((a.base <= one["address"]) & (one["address"] < a.base + a.bytes)).any()
    with pytest.raises(TraceError, match="block 99 is not in the trace"):
        kernel.to_frame([99])
    assert kernel.to_frame([]) == {}


def test_names_that_look_like_tags_stay_text():
    html = table_html("<b>", [{"<i>": "&", "y": None}, {"<i>": 2.5, "y": float("nan")}])
    assert ["".join(cell.itertext()) for cell in fromstring(html).iter("td")] == ["&", "", "2.5", ""]
    assert fromstring(html).find(".//strong").text == "<b>"


def test_of_a_long_table_the_first_rows_are_shown_and_the_others_counted():
    html = table_html("squares", [{"x": x, "y": x * x} for x in range(MAX_ROWS + 1234)])
    assert len(fromstring(html).findall(".//tbody/tr")) == MAX_ROWS
    assert "1,234 more rows" in html
    assert fromstring(table_html("nothing", [])).find(".//table") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (2.0, "2"),
        (0.123456789, "0.123457"),
        (1e300 * 1e300, "inf"),
        (True, "True"),
        ("x", "x"),
        (None, ""),
    ],
)
def test_values_are_written_for_readers(value, text):
    assert value_text(value) == text


def test_a_class_without_rows_is_named():
    with pytest.raises(NotImplementedError, match=r"Presented\.to_rows"):
        Presented().to_rows()


def test_equal_predictions_stay_equal_and_can_be_copied(made):
    copy = pickle.loads(pickle.dumps(made["prediction"]))
    assert isinstance(copy, Prediction)
    assert copy == made["prediction"]
    assert pickle.loads(pickle.dumps(made["GPU"])) == made["GPU"]
