"""The committed comparison with a GTX 570: complete, consistent, and what the model still says."""

from __future__ import annotations

import csv
import re
from statistics import fmean

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rdmodel.trace import Op
from validation.hardware.launches import PASSES, launches
from validation.hardware.report import RECORD, RESULTS, from_csv, to_csv, to_markdown
from validation.hardware.rows import FOLDER, TOOLS, Row, read_rows
from validation.hardware.study import DEFINITIONS, Settings, score

ROWS = {row.kernel: row for row in read_rows()}
SCORES = from_csv(RECORD.read_text())
RECORDED = {(s.kernel, s.definition, s.sms): s for s in SCORES}
DEVIATIONS = FOLDER.parent / "DEVIATIONS.md"

FAST = ("3dconv", "atax.1", "atax.2", "bicg.2", "corr.mean", "corr.std", "gemm", "gesummv", "mvt.2", "syr2k", "syrk")
"""Rows that take at most about a tenth of a second per seed."""

SAME = 1e-4
"""Points by which a row may move: the record has four digits, and equal seeds give equal results."""

GAP = 2.5
"""Points of error beyond which a row is a known gap."""


def absolute_errors(definition, sms, kernels=ROWS):
    return [
        abs(s.predicted - s.measured)
        for s in SCORES
        if (s.definition, s.sms) == (definition, sms) and s.kernel in kernels
    ]


def tables(text):
    """The cells of all Markdown tables, line by line, without heads and rulers."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return [line for line in lines if line[0] not in ("kernel", "gap") and not line[0].startswith("---")]


def test_the_record_holds_every_measured_row_by_both_definitions_on_one_sm_and_on_all():
    expected = {(kernel, definition, sms) for kernel in ROWS for definition in DEFINITIONS for sms in (1, "all")}
    assert set(RECORDED) == expected
    assert len(SCORES) == len(expected)


def test_the_record_quotes_the_measurements():
    with (FOLDER / "gtx570.csv").open(newline="") as file:
        measured = {row["kernel"]: row for row in csv.DictReader(file)}
    assert len(measured) == 22
    for s in SCORES:
        row = measured[s.kernel]
        runs = [float(row[name]) for name in ("miss_rate_run1", "miss_rate_run2") if row[name]]
        assert s.measured == pytest.approx(fmean(runs), abs=0.006)
        assert s.tools == any(row[tool] for tool in TOOLS)


def test_the_record_reads_back_as_it_was_written():
    assert to_csv(SCORES) == RECORD.read_text()


@pytest.mark.parametrize("sms", [1, "all"])
def test_the_mean_errors_in_the_results_are_those_of_the_rows(sms):
    section = RESULTS.read_text().split("\n## ")[1 if sms == 1 else 2]
    every, shared = tables(section)[-2:]
    with_tools = [kernel for kernel, row in ROWS.items() if row.others]
    assert len(with_tools) == 16
    for column, definition in enumerate(DEFINITIONS, start=2):
        assert every[column] == f"{fmean(absolute_errors(definition, sms)):.2f}"
        assert shared[column] == f"{fmean(absolute_errors(definition, sms, with_tools)):.2f}"
    for column, tool in enumerate(TOOLS, start=2 + len(DEFINITIONS)):
        errors = [abs(row.others[tool] - row.measured) for row in ROWS.values() if row.others]
        assert shared[column] == f"{fmean(errors):.2f}"


@pytest.mark.parametrize("sms", [1, "all"])
def test_the_tables_of_the_results_are_those_of_the_record(sms):
    scores = [s for s in SCORES if s.sms == sms]
    assert to_markdown(list(ROWS.values()), scores) in RESULTS.read_text()


@pytest.mark.parametrize("kernel", ROWS)
def test_the_launches_of_a_row_have_its_block_and_grid(kernel):
    row = ROWS[kernel]
    traces = launches(row)
    assert len(traces) == (8 if kernel in PASSES else 2 if kernel == "3dconv" else 1)
    for trace in traces:
        assert trace.launch.kernel == kernel
        assert trace.launch.block == (*row.block, 1, 1)[:3]
        assert trace.launch.grid == (*row.grid, 1, 1)[:3]


def loads_of_data(trace):
    """Where in `data` the lanes of a trace load, in bytes, sorted."""
    (data,) = (array for array in trace.launch.arrays if array.name == "data")
    columns = trace.columns
    loads = np.repeat(columns.op == Op.LOAD, np.diff(columns.address_start))
    return np.sort(columns.addresses[loads] - data.base)


@pytest.mark.parametrize("kernel", PASSES)
@pytest.mark.parametrize("pad", [0, 1])
def test_all_passes_together_load_what_the_whole_kernel_does(kernel, pad):
    row = Row(kernel, {"M": 40, "N": 5}, (32,), (2,), 0.0, {})
    (whole,) = launches(row, pad, passes=None)
    passes = launches(row, pad, passes=40 - PASSES[kernel])
    assert_array_equal(loads_of_data(whole), np.sort(np.concatenate([*map(loads_of_data, passes)])))


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("kernel", FAST)
def test_the_model_says_what_it_said(kernel, definition):
    recorded = RECORDED[kernel, definition, 1]
    now = score(ROWS[kernel], definition, Settings())
    assert now.predicted == pytest.approx(recorded.predicted, abs=SAME)
    assert now.seeds == recorded.seeds


def test_hardware_is_nearer_to_the_measurements_than_paper_and_other_tools():
    with_tools = [kernel for kernel, row in ROWS.items() if row.others]
    for sms in (1, "all"):
        own = fmean(absolute_errors("hardware", sms, with_tools))
        assert own < fmean(absolute_errors("paper", sms, with_tools))
        for tool in TOOLS:
            assert own < fmean(abs(ROWS[kernel].others[tool] - ROWS[kernel].measured) for kernel in with_tools)


def known_gaps():
    section = re.search(r"^## \d+\. Known gaps$(.*?)^## ", DEVIATIONS.read_text(), re.M | re.S)
    assert section
    return {row[1]: row[2:] for row in tables(section[1])}


def test_the_rows_that_are_far_off_are_the_known_gaps():
    far = {s.kernel for s in SCORES if s.definition == "hardware" and abs(s.predicted - s.measured) > GAP}
    assert far == set(known_gaps())


def test_the_known_gaps_are_quoted_as_recorded():
    for kernel, (measured, one, every) in known_gaps().items():
        assert float(measured) == pytest.approx(ROWS[kernel].measured, abs=0.05001)
        assert float(one) == pytest.approx(RECORDED[kernel, "hardware", 1].predicted, abs=0.05001)
        assert float(every) == pytest.approx(RECORDED[kernel, "hardware", "all"].predicted, abs=0.05001)
