"""Printed results: names from files and options control neither the terminal nor a spreadsheet."""

from __future__ import annotations

import csv
import io
import os

import pytest

import rdmodel as rd
import tracegen
from rdmodel.cli.output import print_csv, print_note, print_text

CONTROL = "\x1b]0;owned\x07\x1b[2J\u202e\r\x85\U000e0001"
ESCAPED = r"\x1b]0;owned\x07\x1b[2J\u202e\r\x85\U000e0001"
SMALL = ["--param", "NX=64", "--param", "NY=64"]


# ---- the terminal


def shown(text: str) -> bool:
    """Tell whether a terminal shows every character of a text."""
    return all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize("command", ["report --no-what-if", "trace"])
def test_the_name_of_a_written_file_is_printed_with_escapes(run, tmp_path, command):
    name = f"a{CONTROL}\nb.html"
    status, out, err = run(
        *command.split(), "atax.1", *SMALL, "-o", str(tmp_path / name), *["--format", "trc"][: 2 * (command == "trace")]
    )
    assert status == 0
    assert shown(out + err)
    assert out.startswith(f"{tmp_path}/a{ESCAPED}\\nb.html: wrote ")
    assert os.path.exists(tmp_path / name)


@pytest.mark.parametrize(
    "line",
    [
        "predict NAME",
        "predict NAME.trc",
        "predict atax.1 --gpu NAME",
        "predict atax.1 --NAME",
        "predict atax.1 --seed NAME",
        "predict atax.1 --set NAME=3",
        "predict atax.1 --param NAME=3",
        "compare atax.1 --plot NAME/a.svg",
        "report atax.1 -o NAME/a.html",
        "trace atax.1 -o NAME/a",
        "sweep atax.1 --gpu gtx470-16k --vary ways=1,2 --param NX=64 --param NY=64 --cache /dev/null/NAME",
        "NAME",
    ],
)
def test_a_name_in_a_message_is_printed_with_escapes(run, line):
    _, out, err = run(*(word.replace("NAME", CONTROL) for word in line.split()))
    assert shown(out + err)
    assert "owned" in err


def gpu_file(folder) -> str:
    """Write a GPU whose name controls the terminal."""
    path = folder / "mine.toml"
    path.write_text(rd.presets.dumps(rd.presets.gpu("gtx470-16k").replace(name=f"{CONTROL}\nNot a line")))
    return str(path)


@pytest.mark.parametrize(
    "line",
    [
        "predict atax.1",
        "simulate atax.1",
        "locality atax.1",
        "compare atax.1 --latency 100:5",
        "compare atax.1 atax.2 --latency 100:5",
        "policies atax.1 --policies swl:warps=1 --jobs 1",
        "sweep atax.1 --gpu gtx470-16k --vary ways=1,2 --no-cache --jobs 1",
        "tiles atax.1 --tile block=32,64 --no-cache",
    ],
)
def test_the_name_of_a_gpu_is_printed_with_escapes(run, tmp_path, line):
    status, out, _ = run(*line.split(), *SMALL, "--gpu", gpu_file(tmp_path))
    assert status == 0
    assert shown(out)
    assert f"{ESCAPED}\\nNot a line" in out


def test_a_gpu_is_printed_so_that_it_can_be_read_again(run, tmp_path):
    _, out, _ = run("gpus", gpu_file(tmp_path))
    assert shown(out)
    (tmp_path / "again.toml").write_text(out)
    assert rd.presets.gpu(tmp_path / "again.toml").name == CONTROL + "\nNot a line"


def test_lines_stay_lines_and_notes_are_one_line(capsys):
    print_text(f"a{CONTROL}\nb")
    print_note(f"a{CONTROL}\nb")
    out, err = capsys.readouterr()
    assert (out, err) == (f"a{ESCAPED}\nb\n", f"rdmodel: a{ESCAPED}\\nb\n")


# ---- spreadsheets


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1+1", "'+1+1"),
        ("-1+1", "'-1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1+1", r"\t=1+1"),
        ("\r=1+1", r"\r=1+1"),
        ("\n=1+1", r"\n=1+1"),
        ("-5", "-5"),
        ("+1.5e-3", "+1.5e-3"),
        ("-", "'-"),
        ("-inf", "'-inf"),
        ("plain = 1", "plain = 1"),
        ("", ""),
        (None, ""),
        (-5, "-5"),
        (-0.5, "-0.5"),
    ],
)
def test_a_text_in_a_table_is_never_a_formula_and_numbers_stay(capsys, value, cell):
    print_csv([{"a": value, "b": 1}])
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [["a", "b"], [cell, "1"]]


def test_the_head_of_a_table_is_never_a_formula(capsys):
    print_csv([{"=1+1": 2}, {"b": 3}])
    assert capsys.readouterr().out == "'=1+1,b\n2,\n,3\n"


@pytest.mark.parametrize(
    "command", ["predict", "simulate", "locality", "policies --policies swl:warps=1 --jobs 1", "compare --latency 9:1"]
)
def test_the_name_of_a_kernel_in_a_file_is_never_a_formula(run, tmp_path, command):
    rd.save(tracegen.kernel("atax.1", NX=64, NY=64), tmp_path / "trace")
    meta = tmp_path / "trace" / "meta.json"
    meta.write_text(meta.read_text().replace('"atax.1"', '"=1+1"', 1))
    status, out, _ = run(*command.split(), str(tmp_path / "trace"), "--csv")
    assert status == 0
    assert {row["kernel"] for row in csv.DictReader(io.StringIO(out))} == {"'=1+1"}
