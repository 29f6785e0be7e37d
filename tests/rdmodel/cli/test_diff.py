"""``rdmodel diff``: sources and saved results side by side, and exit statuses for CI."""

from __future__ import annotations

import csv
import io
import json

import pytest

from rdmodel.cli import main

SIZES = [word for name in ("NI", "NJ", "NK") for word in ("--param", f"{name}=64")]
GPU = ["--gpu", "v100"]


def run(capsys, *words: str) -> tuple[int, str, str]:
    try:
        status = main(["diff", *words, *GPU])
    except SystemExit as stop:
        status = stop.code
    return (status, *capsys.readouterr())


@pytest.fixture
def saved(tmp_path, capsys) -> str:
    """Return a file with the result of gemm."""
    assert main(["predict", "gemm", *SIZES, *GPU, "--l2", "--json"]) == 0
    file = tmp_path / "old.json"
    file.write_text(capsys.readouterr().out)
    return str(file)


def test_two_kernels_are_compared_counter_by_counter(capsys):
    status, out, _ = run(capsys, "gemm", "gemm.tiled", *SIZES)
    assert status == 0
    lines = out.splitlines()
    assert lines[:3] == ["old  gemm", "new  gemm.tiled", ""]
    assert lines[3].split() == ["counter", "old", "new", "change"]
    table = {line.split()[0]: line.split()[1:] for line in lines[4:]}
    assert table["misses"][-1] == "%"


def test_a_saved_result_is_the_older_side_of_a_later_run(capsys, saved):
    status, out, err = run(capsys, saved, "gemm", *SIZES, "--l2", "--fail-if", "dram_bytes > +0%")
    assert (status, err) == (0, "")
    assert all(row["change"] == 0 for row in json_of(capsys, saved, saved)["counters"].values())
    assert "l2_bytes" in out


def json_of(capsys, *words: str) -> dict:
    _, out, _ = run(capsys, *words, "--json")
    return json.loads(out)


def test_a_condition_that_holds_fails_the_command(capsys, saved):
    words = (saved, "gemm.tiled", *SIZES, "--l2", "--fail-if", "l2_bytes > +5%", "--fail-if", "hits > +0")
    status, out, err = run(capsys, *words)
    assert status == 1
    assert "l2_bytes" in out
    [line] = err.splitlines()
    assert line.startswith("rdmodel: failed: gemm.tiled: hits > +0: ")
    assert [text.split(":")[0] for text in json_of(capsys, *words)["failed"]] == ["hits > +0"]


def test_several_launches_are_paired_by_kernel_and_number(capsys, saved, tmp_path):
    one = json.loads((tmp_path / "old.json").read_text())
    old, new = tmp_path / "a.json", tmp_path / "b.json"
    old.write_text(json.dumps([one, {**one, "kernel": "gone"}, {**one, "transactions": 7}]))
    new.write_text(json.dumps([one, {**one, "transactions": 14}, {**one, "kernel": "fresh"}]))
    _, out, err = run(capsys, str(old), str(new), "--csv")
    rows = [row for row in csv.DictReader(io.StringIO(out)) if row["counter"] == "transactions"]
    assert [(row["old"], row["new"]) for row in rows] == [(str(one["transactions"]),) * 2, ("7", "14")]
    assert err.splitlines() == [f"rdmodel: only in {old}: gone", f"rdmodel: only in {new}: fresh"]


def test_bad_input_is_refused_before_any_run(capsys, saved, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps([{"kernel": "x"}]))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    other = tmp_path / "other.json"
    one = json.loads((tmp_path / "old.json").read_text())
    other.write_text(json.dumps([{**one, "kernel": "x"}, {**one, "kernel": "y"}]))
    for words, message in (
        ((saved, saved, "--fail-if", "misses"), "condition 'misses': must be a counter, a comparison and a number"),
        ((saved, saved, "--fail-if", "mises > 1"), "condition 'mises > 1': unknown counter 'mises'; did you mean"),
        ((saved, str(bad)), "bad.json: result 1: the result lacks counters of predict"),
        ((saved, str(broken)), "broken.json: "),
        ((saved, str(other)), "other.json: has no kernel of"),
        ((saved, "none.json"), "none.json: no such file"),
        (("-", "-"), "-: standard input can be read only once"),
    ):
        status, _, err = run(capsys, *words)
        assert status == 2
        assert err.startswith("rdmodel: error: ")
        assert message in err


def test_the_change_of_each_array_follows_the_counters(capsys):
    _, out, _ = run(capsys, "gemm", "gemm.tiled", *SIZES, "--by", "array")
    table = out.split("\n\n")[-1].splitlines()
    assert table[0].split()[:2] == ["by", "array"]
    assert {line.split()[0] for line in table[1:]} == {"a", "b", "c"}
    assert list(json_of(capsys, "gemm", "gemm.tiled", *SIZES, "--by", "array")["by"]) == ["array"]


def test_csv_has_the_origins_that_were_asked_for(capsys):
    _, out, _ = run(capsys, "gemm", "gemm.tiled", *SIZES, "--by", "array", "--by", "line", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["by"] for row in rows} == {"array", "line"}
    assert {"misses_old", "misses_new", "only"} < set(rows[0])


def test_equal_sides_have_no_origin_that_differs(capsys):
    _, out, _ = run(capsys, "gemm", "gemm", *SIZES, "--by", "line")
    assert out.endswith("  by line: no origin differs\n  5 not shown: they differ least, or not at all\n")


def test_a_saved_result_without_origins_says_how_to_save_them(capsys, saved):
    status, _, err = run(capsys, saved, "gemm", *SIZES, "--by", "line")
    assert status == 2
    assert "a saved result of gemm has no misses by line; rdmodel predict --by line --json saves them" in err
