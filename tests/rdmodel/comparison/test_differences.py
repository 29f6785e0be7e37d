"""Differences of two predictions, and conditions on them."""

from __future__ import annotations

import json
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.comparison.conditions import COMPARISONS, read_condition, relative_change
from rdmodel.errors import ConfigError

GPU = "v100"


def gemm(kernel="gemm", n=64) -> rd.Trace:
    return tracegen.kernel(kernel, NI=n, NJ=n, NK=n)


@pytest.fixture(scope="module")
def predictions() -> tuple[rd.Prediction, rd.Prediction]:
    return tuple(rd.predict(gemm(kernel), GPU, l2=True) for kernel in ("gemm", "gemm.tiled"))


def test_a_difference_has_the_counters_of_both_predictions(predictions):
    old, new = predictions
    found = rd.diff(old, new)
    assert found.kernels == ("gemm", "gemm.tiled")
    assert found.new["transactions"] == new.transactions
    assert found.old["misses"] == old.misses.total
    assert found.new["misses"] == sum(found.new[cause] for cause in ("compulsory", "capacity", "associativity"))
    assert (found.old["l2_bytes"], found.new["dram_bytes"]) == (old.l2.bytes, new.l2.dram_bytes)
    assert found.change("l2_bytes") == pytest.approx(100 * (new.l2.bytes / old.l2.bytes - 1))
    assert found.settings == {}
    assert "store_sectors" in found.changed
    assert str(found).startswith("gemm and gemm.tiled: ")


def test_saved_results_are_compared_as_the_predictions_are(predictions):
    saved = [json.loads(json.dumps(result.to_dict())) for result in predictions]
    assert rd.diff(*saved) == rd.diff(*predictions) == rd.diff(predictions[0], saved[1])


def test_a_prediction_does_not_differ_from_itself(predictions):
    found = rd.diff(predictions[0], predictions[0])
    assert found.changed == ()
    assert str(found) == "gemm: no counter differs"
    assert {row["change"] for row in found.to_rows()} == {0.0}
    assert found.broken(["misses > +0", "l2_bytes > +0%", "misses < +0"]) == []


def test_counters_that_only_one_side_has_are_left_out(predictions):
    found = rd.diff(predictions[0], rd.predict(gemm(), "a100-80g"))
    assert "l2_bytes" not in found.new
    assert found.settings["gpu"] == ("v100", "a100-80g")
    assert found.settings["sms_modelled"] == (80, 1)


def test_a_kernel_without_loads_has_a_miss_rate_of_0():
    fill = tracegen.load_affine(
        {
            "name": "fill",
            "parameters": {"N": 64},
            "arrays": {"a": ["N"]},
            "threads": ["N"],
            "block": [32],
            "body": [{"store": "a", "at": ["x"]}],
        }
    ).trace()
    found = rd.diff(rd.predict(fill, GPU), rd.predict(gemm(), GPU))
    assert found.old["miss_rate"] == 0.0
    assert found.change("transactions") == inf
    assert found.to_dict()["counters"]["transactions"] == {"old": 0, "new": found.new["transactions"], "change": None}
    assert json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("l2_bytes < -50%", True),
        ("l2_bytes > +5%", False),
        ("misses < -1", True),
        ("misses<=0", False),
        ("miss_rate < 1", True),
        (" transactions == 0% ", True),
        ("transactions != 1e3", True),
        ("dram_bytes >= .5", True),
    ],
)
def test_conditions_are_about_values_differences_and_changes_in_percent(predictions, condition, holds):
    sentences = rd.diff(*predictions).broken([condition])
    assert bool(sentences) == holds
    if holds:
        assert sentences[0].startswith(f"{condition}: ")
        assert ", was " in sentences[0]


@given(st.sampled_from(sorted(COMPARISONS)), st.integers(-9, 9), st.integers(0, 9), st.integers(0, 9))
def test_a_condition_compares_what_its_number_says(comparison, number, old, new):
    compare = COMPARISONS[comparison]
    assert read_condition(f"x {comparison} {abs(number)}").holds(None, new) == compare(new, abs(number))
    assert read_condition(f"x {comparison} {number:+}").holds(old, new) == compare(new - old, number)
    assert read_condition(f"x{comparison}{number}%").holds(old, new) == compare(relative_change(old, new), number)


def test_from_0_any_growth_is_infinite():
    assert (relative_change(0, 0), relative_change(0, 5), relative_change(0, -5)) == (0, inf, -inf)
    assert relative_change(-4, -2) == 50


@pytest.mark.parametrize("text", ["", "misses", "misses = 1", "> 5", "misses > five", "misses > 5 %%", "misses > 1 2"])
def test_a_text_that_is_no_condition_is_refused(text, predictions):
    with pytest.raises(ConfigError, match="must be a counter, a comparison and a number"):
        rd.diff(*predictions).broken([text])


def test_a_counter_that_there_is_not_is_refused_with_the_known_ones(predictions):
    with pytest.raises(ConfigError, match=r"condition 'l2_byte > 1': unknown counter 'l2_byte'; did you mean"):
        rd.diff(*predictions).broken(["l2_byte > 1"])
    with pytest.raises(ConfigError, match=r"unknown counter 'dram_bytes'.*; l2=True \(--l2\) counts it"):
        rd.diff(rd.predict(gemm(), GPU), predictions[1]).broken(["dram_bytes > 1"])


@pytest.mark.parametrize("change", [{"misses": 3}, {"stores": None}, {"l2": {}}, {"hits": "many"}, {"sectors": True}])
def test_what_is_no_prediction_is_refused(change, predictions):
    with pytest.raises(ConfigError, match=r"lacks counters|must be a number"):
        rd.diff({**predictions[0].to_dict(), **change}, predictions[1])
    with pytest.raises(ConfigError, match="lacks counters"):
        rd.diff({}, predictions[1])


# ---- origins

OLD_NEST = {
    "name": "rows",
    "arrays": {"A": [64, 64], "B": [64], "y": [64]},
    "block": [64],
    "threads": [64],
    "body": [
        {"for": "j", "to": 64, "do": [{"load": "A", "at": ["x", "j"]}, {"load": "B", "at": ["j"]}]},
        {"store": "y", "at": ["x"]},
    ],
}


def nest(first: list[str]) -> rd.Trace:
    """Return the trace of a nest that reads A with these subscripts."""
    loop, store = OLD_NEST["body"]
    body = [{**loop, "do": [{"load": "A", "at": first}, *loop["do"][1:]]}, store]
    return tracegen.load_affine({**OLD_NEST, "body": body}).trace()


def test_origins_are_matched_by_name_and_sorted_by_the_change_of_their_misses():
    old, new = (rd.predict(nest(at), GPU, origins=True) for at in (["x", "j"], ["j", "x"]))
    found = rd.diff(old, new)
    assert set(found.by) == {"line", "array", "instruction"}
    assert {change.name for change in found.by["array"]} == {"A", "B", "y"}
    lines = {change.name: change for change in found.by["line"]}
    assert (lines["load A[x][j]"].only, lines["load A[j][x]"].only, lines["load B[j]"].only) == ("old", "new", "")
    assert not lines["store y[x]"].changed
    moved = [abs(change.new["misses"] - change.old["misses"]) for change in found.by["line"]]
    assert moved == sorted(moved, reverse=True)
    for changes in found.by.values():
        for side, result in (("old", old), ("new", new)):
            assert sum(getattr(change, side)["misses"] for change in changes) == result.misses.total


def test_lines_that_have_moved_are_matched_by_their_text():
    row = rd.predict(nest(["x", "j"]), GPU, origins=True).to_dict()["by"]["line"][0]

    def saved(*lines: tuple[int, str], name: str) -> dict:
        rows = [{**row, "name": f"{name}:{n}", "file": name, "line": n, "source": text} for n, text in lines]
        return {**rd.predict(nest(["x", "j"]), GPU).to_dict(), "by": {"line": rows}}

    found = rd.diff(
        saved((3, "a[i];"), (4, "}"), (7, "a[i];"), name="old.cu"),
        saved((5, "a[i];"), (9, "a[i];"), (10, "b[i];"), name="new.cu"),
    )
    assert {(change.name, change.only) for change in found.by["line"]} == {
        ("new.cu:5", ""),
        ("new.cu:9", ""),
        ("new.cu:10", "new"),
        ("old.cu:4", "old"),
    }


def test_without_texts_on_one_side_lines_are_matched_by_name():
    result = rd.predict(tracegen.kernel("gemm", NI=64, NJ=64, NK=64), GPU, origins=True)
    assert not any(change.changed for change in rd.diff(result, result.to_dict()).by["line"])


def test_origins_of_one_side_only_are_left_out():
    with_origins, without = (rd.predict(nest(["x", "j"]), GPU, origins=origins) for origins in (True, False))
    assert rd.diff(with_origins, without).by == rd.diff(without, with_origins).by == {}
    assert "by" not in rd.diff(with_origins, without).to_dict()


def test_changes_by_origin_survive_json():
    result = rd.predict(nest(["x", "j"]), GPU, origins=True)
    plain = json.loads(json.dumps(rd.diff(result, result).to_dict()))
    assert plain["by"]["array"][0]["counters"]["misses"]["old"] == result.by("array").rows[0].counts.misses.total


@pytest.mark.parametrize("rows", [3, [3], [{}], [{"name": "x", "misses": {}}], [{"name": "x", "misses": None}]])
def test_rows_that_are_no_origins_are_refused(rows):
    result = rd.predict(nest(["x", "j"]), GPU, origins=True)
    with pytest.raises(ConfigError, match="by: lacks counters of origins"):
        rd.diff({**result.to_dict(), "by": {"line": rows}}, result)
