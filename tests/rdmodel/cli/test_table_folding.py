"""Tables that are wider than the terminal are folded; no cell is lost."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import presets
from rdmodel.cli.table_folding import LEAST_WIDTH, fold_prose, fold_table
from tests.support.commands import SMALL
from tests.support.examples import examples


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that makes stdout a terminal of some width."""

    def make(columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    return make


def test_a_table_that_fits_is_not_folded():
    rows = [("name", "n", "text"), ("a", "1", "some words")]
    whole = fold_table(rows, {1}, 1, None)
    assert whole == "name  n  text\na     1  some words"
    assert fold_table(rows, {1}, 1, 19) == whole


def test_texts_continue_in_their_column():
    rows = [("name", "description"), ("a", "one two three four five six seven eight nine ten"), ("b", "short")]
    assert fold_table(rows, (), 1, 40).splitlines() == [
        "name  description",
        "a     one two three four five six seven",
        "      eight nine ten",
        "b     short",
    ]


def test_blocks_of_columns_repeat_the_columns_that_name_a_row():
    heads = ("group", "name", *(f"column {i}" for i in range(5)))
    rows = [heads, ("x", "a", *"12345"), ("", "b", *"67890")]
    assert fold_table(rows, range(2, 7), 2, 40).splitlines() == [
        "group  name  column 0  column 1",
        "x      a            1         2",
        "       b            6         7",
        "",
        "group  name  column 2  column 3",
        "x      a            3         4",
        "       b            8         9",
        "",
        "group  name  column 4",
        "x      a            5",
        "       b            0",
    ]


def test_a_column_without_a_head_of_its_own_stays_with_the_one_on_its_left():
    heads = ("kernel", "one", "error", "two", "error", "three", "error")
    rows = [heads, ("a" * 20, *(["1234"] * 6))]
    blocks = fold_table(rows, range(1, 7), 1, 40).split("\n\n")
    assert [block.split("\n")[0].split() for block in blocks] == [
        ["kernel", "one", "error"],
        ["kernel", "two", "error"],
        ["kernel", "three", "error"],
    ]


CELLS = st.text("ab ,", max_size=60)


@examples(200)
@given(
    st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=4)),
    st.sets(st.integers(1, 5)),
    st.integers(LEAST_WIDTH, 90),
    st.data(),
)
def test_every_letter_of_a_folded_table_is_printed_within_the_width(rows, right, width, data):
    keys = data.draw(st.integers(1, len(rows[0])))
    # Numbers, which are flush right, are never broken; they are short.
    rows = [[cell[:12] if i in right else cell for i, cell in enumerate(row)] for row in rows]
    text = fold_table(rows, right, keys, width)
    assert all(len(line) <= width for line in text.splitlines())
    for letter in "ab,":
        assert text.count(letter) >= sum(cell.count(letter) for row in rows for cell in row)


@pytest.mark.parametrize(
    "command",
    [
        ["policies"],
        ["policies", "--list"],
        ["kernels"],
        ["gpus"],
        ["gpus", "v100", "--rates"],
        ["compare", "atax.1", "mvt.1", *SMALL, "--param", "N=64", "--gpu", "gtx470-16k", "--sms", "1"],
        ["locality", "atax.1", *SMALL, "--sms", "1"],
        ["simulate", "atax.1", *SMALL, "--sms", "1"],
        ["predict", "atax.1", *SMALL, "--metrics", "ncu"],
        ["time", "atax.1", *SMALL],
        ["info", "atax.1", *SMALL],
        ["mrc", "atax.1", *SMALL],
        ["tiles", "syrk.tiled", "--param", "N=32", "--param", "M=32", "--tile", "TI=8,16", "--no-cache", "--jobs", "1"],
        ["policies", "atax.1", *SMALL, "--sms", "1", "--policies", "none", "--policies", "bypass-all", "--jobs", "1"],
        [
            "sweep",
            "atax.1",
            *SMALL,
            "--vary",
            "l1.ways=4,8",
            "--gpu",
            "gtx470-16k",
            "--vary",
            "seed=0,1",
            "--no-cache",
            "--jobs",
            "1",
        ],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_the_tables_of_a_command_fit_80_columns(run, terminal, command):
    terminal(80)
    status, out, err = run(*command)
    assert status == 0, err
    table_lines = [line for line in out.splitlines() if "   " in line.strip()]
    assert table_lines
    assert [line for line in table_lines if len(line) > 80] == []


def test_a_table_in_a_pipe_is_whole_whatever_COLUMNS_says(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = run("gpus")
    assert max(map(len, out.splitlines())) > 80


def test_the_blocks_of_the_list_of_gpus_name_each_gpu(run, terminal):
    terminal(60)
    _, out, _ = run("gpus")
    blocks = [block for block in out.split("\n\n") if block.startswith("architecture")]
    assert len(blocks) > 1
    assert all(f"  {name} " in block for block in blocks for name in presets.names())


def test_sentences_break_at_spaces_and_go_on_indented():
    text = "  bound by: latency 83 %, L2 69 %, load/store requests 48 %\n\nshort"
    assert fold_prose(text, 30) == "  bound by: latency 83 %, L2\n    69 %, load/store requests\n    48 %\n\nshort"
    assert fold_prose(text, None) == text
    assert fold_prose(text, 80) == text
