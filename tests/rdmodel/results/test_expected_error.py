"""The error to expect of a prediction: the rows that it follows from, and every form in which it is shown."""

from __future__ import annotations

import json

import pytest

import rdmodel as rd
from rdmodel.results.expected_error import find_expected_error
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.builders import BUSY, SMALL, make_trace

STREAM = make_trace([[[(int(Op.LOAD), ALL_NEEDS, 0, (line,)) for line in range(9)]]], warps=1)
AGAIN = make_trace([[[(int(Op.LOAD), ALL_NEEDS, 0, (line,)) for line in (1, 2, 1, 2)]]], warps=1)


@pytest.fixture
def stored(tmp_path):
    """Return a trace whose loads hit, as a file."""
    rd.save(AGAIN, tmp_path / "again")
    return str(tmp_path / "again")


def test_the_error_is_that_of_the_architecture_and_of_kernels_with_or_without_reuse():
    volta, stream = (rd.predict(trace, "v100").expected_error for trace in (AGAIN, STREAM))
    assert (volta.architecture, volta.kind, stream.kind) == ("Volta", "reuse", "stream")
    assert 0.5 < volta.points < 10
    assert 0 <= stream.points < 0.5
    assert volta.largest >= volta.points
    assert "gv100" in volta.gpus
    # Nothing was measured that streams on an Ampere GPU: the other kernels, which are harder, stand in.
    assert rd.predict(STREAM, "a100-80g").expected_error.kind == "reuse"


def test_rows_on_which_a_parameter_was_chosen_count_only_where_there_are_no_others():
    assert rd.predict(AGAIN, "gtx470-16k").expected_error.fitted == "latency"
    assert rd.predict(AGAIN, "gtx470-16k", definition="paper").expected_error.fitted == ""
    # The strided kernel, on which `l1.tags_per_step` was chosen, is not among the three of the K40c.
    kepler = rd.predict(AGAIN, "k40c-16k").expected_error
    assert (kepler.fitted, kepler.kernels) == ("", 3)


def test_without_counters_or_loads_there_is_no_error_to_expect():
    assert rd.predict(AGAIN, "b200").expected_error is None
    assert rd.predict(BUSY, SMALL).expected_error is None
    assert find_expected_error("Blackwell", "hardware", "stream") is None
    stores = make_trace([[[(int(Op.STORE), ALL_NEEDS, 0, (1,))]]], warps=1)
    assert rd.predict(stores, "v100").expected_error is None


def test_predict_ends_with_the_error_to_expect_or_says_that_there_are_no_counters(run, stored, tmp_path):
    volta = rd.predict(AGAIN, "v100").expected_error
    assert run("predict", stored, "--gpu", "v100")[1].splitlines()[-1] == (
        f"typical error on Volta {volta.points:.1f} points ({volta.kernels} kernels with reuse)"
    )
    assert run("predict", stored, "--gpu", "gtx470-16k")[1].endswith("with reuse; latency was fitted to them)\n")
    assert run("predict", stored, "--gpu", "b200")[1].endswith("\nno L1 counters of Blackwell to compare with\n")
    mine = tmp_path / "mine.toml"
    mine.write_text(rd.presets.dumps(rd.presets.gpu("v100").replace(architecture="")))
    assert run("predict", stored, "--gpu", str(mine))[1].endswith(" and stores\n")


def test_json_and_reports_have_the_error(run, stored, tmp_path):
    found = json.loads(run("predict", stored, "--gpu", "v100", "--json")[1])["expected_error"]
    expected = rd.predict(AGAIN, "v100").expected_error
    assert found == expected.to_dict()
    assert {"points", "architecture", "kernels", "kind", "largest", "gpus", "fitted", "definition"} == set(found)
    assert json.loads(run("predict", stored, "--gpu", "b200", "--json")[1])["expected_error"] is None
    page = tmp_path / "report.html"
    assert run("report", stored, "--gpu", "v100", "-o", str(page))[0] == 0
    assert f"T{str(expected)[1:]}." in page.read_text()
