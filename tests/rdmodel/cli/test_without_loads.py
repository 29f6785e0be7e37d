"""A kernel that only stores: every command tells of its stores, its L2 and its DRAM, and has no rates of loads."""

from __future__ import annotations

import csv
import io
import json

import pytest

import rdmodel as rd
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.builders import make_trace
from tests.support.html_page import Page
from tests.support.presets import FERMI

LINES = 200


@pytest.fixture
def stores(tmp_path) -> str:
    """Return a trace of one block that stores to 200 lines, each twice."""
    warp = [(int(Op.STORE), ALL_NEEDS, 0, (line,)) for line in range(LINES)] * 2
    rd.save(make_trace([[warp]], warps=1), tmp_path / "stores")
    return str(tmp_path / "stores")


@pytest.fixture
def loads(tmp_path) -> str:
    """Return a trace that loads one line."""
    rd.save(make_trace([[[(int(Op.LOAD), ALL_NEEDS, 0, (1,))]]], warps=1), tmp_path / "loads")
    return str(tmp_path / "loads")


@pytest.mark.parametrize("definition", ["hardware", "paper"])
def test_predict_says_that_there_are_no_loads_and_counts_the_stores_at_the_l2(run, stores, definition):
    status, out, err = run("predict", stores, "--definition", definition, "--gpu", FERMI)
    assert (status, err) == (0, "")
    assert out.endswith("\nL1 miss rate: no loads; --l2 counts stores at the L2, --stores in the L1\n")
    status, out, _ = run(
        "predict", stores, "--definition", definition, "--l2", "--ablation", "--seeds", "2", "--gpu", FERMI
    )
    assert status == 0
    assert out.endswith("\nL1 miss rate: no loads\n")
    plain = json.loads(run("predict", stores, "--definition", definition, "--l2", "--json", "--gpu", FERMI)[1])
    assert (plain["transactions"], plain["miss_rate"], plain["latency_miss_rate"]) == (0, None, None)
    assert (plain["l2"]["writes"], plain["l2"]["write_hits"]) == (2 * LINES, LINES)
    [row] = csv.DictReader(io.StringIO(run("predict", stores, "--definition", definition, "--csv", "--gpu", FERMI)[1]))
    assert (row["transactions"], row["miss_rate"]) == ("0", "")


def test_simulate_counts_cycles_stores_l2_and_dram(run, stores):
    status, out, err = run("simulate", stores, "--check", "--gpu", FERMI)
    assert (status, err) == (0, "")
    assert out.endswith("\nL1 miss rate: no loads\n")
    plain = json.loads(run("simulate", stores, "--json", "--gpu", FERMI)[1])
    assert (plain["loads"], plain["stores"], plain["miss_rate"]) == (0, 2 * LINES, None)
    assert plain["l2"]["writes"] == 2 * LINES
    assert plain["cycles"] >= 2 * LINES
    [row] = csv.DictReader(io.StringIO(run("simulate", stores, "--csv", "--gpu", FERMI)[1]))
    assert (row["stores"], row["miss_rate"]) == (str(2 * LINES), "")


def test_compare_has_no_rates_to_compare(run, stores):
    status, out, _ = run("compare", stores, "--latency", "50:5", "--gpu", FERMI)
    assert status == 0
    assert "\n  no loads  " in out
    assert "nan" not in out
    plain = json.loads(run("compare", stores, "--latency", "50:5", "--json", "--gpu", FERMI)[1])
    assert set(plain["errors"]["hardware"].values()) == {None}
    assert plain["simulation"]["l2"]["writes"] == 2 * LINES


def test_a_kernel_without_loads_is_left_out_of_the_agreement(run, stores, tmp_path):
    sizes = ["--param", "NX=64", "--param", "NY=64"]
    assert run("trace", "atax.1", *sizes, "-o", str(tmp_path / "atax"), "--all", "--gpu", FERMI)[0] == 0
    status, out, _ = run(
        "compare",
        stores,
        str(tmp_path / "atax"),
        "--latency",
        "50:5",
        "--plot",
        str(tmp_path / "a.svg"),
        "--gpu",
        FERMI,
    )
    assert status == 0
    assert "over 1 kernel\n" in out
    status, out, _ = run("compare", stores, stores, "--latency", "50:5", "--gpu", FERMI)
    assert status == 0
    assert "hardware: no kernel has loads\n" in out


@pytest.mark.parametrize(
    "more", [(), ("--simulate", "--l2", "--seeds", "2", "--definition", "hardware", "--definition", "paper")]
)
def test_a_report_has_the_sections_that_there_are_numbers_for(run, loads, stores, tmp_path, more):
    path = tmp_path / "page.html"
    status, _, err = run("report", loads, stores, "-o", str(path), *more, "--gpu", FERMI)
    assert (status, err) == (0, "")
    text = path.read_text(encoding="utf-8")
    assert Page(text)
    assert "store instructions but no loads, and so no L1 miss rate" in text
    assert ">nan" not in text
    assert "nan %" not in text
    plain = json.loads(run("report", loads, stores, "--json", *more, "--gpu", FERMI)[1])
    silent = plain["kernels"][1]
    assert (silent["predictions"]["hardware"]["miss_rate"], silent["reuse"]["curve"]) == (None, None)
    assert silent["locality"] is None
    assert (silent["comparison"] is None) == (not more)


@pytest.mark.parametrize("engine", ["predict", "estimate", "simulate"])
def test_a_sweep_has_a_row_for_every_point(run, stores, engine):
    argv = ["sweep", stores, "--gpu", FERMI, "--engine", engine, "--vary", "ways=2,4", "--no-cache", "--jobs", "1"]
    status, out, err = run(*argv)
    assert (status, err) == (0, "")
    assert "2 points run" in out
    rows = json.loads(run(*argv, "--json")[1])["rows"]
    assert [row["result"]["miss_rate"] for row in rows] == [None, None]
    assert all(row["miss_rate"] == "" for row in csv.DictReader(io.StringIO(run(*argv, "--csv")[1])))


def test_the_best_row_of_a_sweep_is_one_with_a_rate(stores):
    result = rd.sweep(
        [rd.load(stores), make_trace([[[(int(Op.LOAD), ALL_NEEDS, 0, (1,))]]], warps=1)], gpu=FERMI, ways=[2, 4]
    )
    assert result.best().trace == 1


def test_tiles_are_ranked_by_their_stores(run, tmp_path):
    (tmp_path / "fill.json").write_text(
        json.dumps({
            "name": "fill", "parameters": {"N": 4096}, "arrays": {"a": ["N"]}, "threads": ["N"], "block": [128],
            "body": [{"if": ["x < N"], "do": [{"store": "a", "at": ["x"]}]}],
        })
    )  # fmt: skip
    for objective in ("dram_bytes", "l2_bytes", "miss_rate", "misses", "time"):
        argv = ["tiles", str(tmp_path / "fill.json"), "--tile", "block=64,128", "--objective", objective, "--no-cache"]
        status, out, err = run(*argv)
        assert (status, err) == (0, "")
        assert "nan" not in out
        assert {tile["miss_rate"] for tile in json.loads(run(*argv, "--json")[1])["tiles"]} == {None}
        assert run(*argv, "--csv")[0] == 0


def test_policies_run_and_have_no_miss_rate(run, stores):
    status, out, _ = run(
        "policies", stores, "--policies", "swl:best,streaming-bypass,pd", "--jobs", "1", "--gpu", FERMI
    )
    assert status == 0
    assert "nan" not in out


@pytest.mark.parametrize("command", ["locality", "mrc", "mrc --sample 0.5"])
def test_commands_about_loads_alone_say_that_there_are_none(run, stores, command):
    name, *options = command.split()
    status, out, err = run(name, stores, *options)
    assert (status, out) == (2, "")
    assert "hold no loads" in err
