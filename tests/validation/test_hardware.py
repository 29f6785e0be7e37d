"""The committed comparison with a GTX 570: complete, consistent, and reproduced by the model."""

from __future__ import annotations

import csv
import re
from itertools import pairwise
from statistics import fmean

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rdmodel.trace import Op, Space
from tracegen.cuda import nvrtc
from validation.hardware import compiled, other_gpus
from validation.hardware.launches import FIRST_DISTANCE, launches
from validation.hardware.report import RECORDS, from_csv, to_csv, to_markdown
from validation.hardware.rows import FOLDER, TOOLS, Row, read_rows
from validation.hardware.study import DEFINITIONS, Settings, score

ROWS = {row.kernel: row for row in read_rows()}
SCORES_OF = {source: from_csv(record.csv.read_text()) for source, record in RECORDS.items()}
SCORES = SCORES_OF["python"]
RECORDED_OF = {source: {(s.kernel, s.definition, s.sms): s for s in scores} for source, scores in SCORES_OF.items()}
RECORDED = RECORDED_OF["python"]
DEVIATIONS = FOLDER.parent / "DEVIATIONS.md"

FAST = ("3dconv", "atax.1", "atax.2", "bicg.2", "corr.mean", "corr.std", "gemm", "gesummv", "mvt.2", "syr2k", "syrk")
"""Rows that take at most about a tenth of a second per seed."""

SAME = 1e-4
"""Points by which a row may move: the record has four digits, and equal seeds give equal results."""

SAME_CODE = {"hardware": 1.5, "paper": 5.0}
"""Points by which a row from compiled code may move: another compiler may load the operands of an expression in another
order, and orders of the same loads are that far apart."""

GAP = 2.5
"""Points of error beyond which a row is a known gap."""


SOURCES = pytest.mark.parametrize("source", RECORDS)
NEEDS_NVRTC = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")


def absolute_errors(definition, sms, kernels=ROWS, source="python"):
    return [
        abs(s.predicted - s.measured)
        for s in SCORES_OF[source]
        if (s.definition, s.sms) == (definition, sms) and s.kernel in kernels
    ]


def tables(text):
    """The cells of all Markdown tables, line by line, without heads and rulers."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return [line for line in lines if line[0] not in ("kernel", "gap") and not line[0].startswith("---")]


@SOURCES
def test_the_record_holds_every_measured_row_by_both_definitions_on_one_sm_and_on_all(source):
    expected = {(kernel, definition, sms) for kernel in ROWS for definition in DEFINITIONS for sms in (1, "all")}
    assert set(RECORDED_OF[source]) == expected
    assert len(SCORES_OF[source]) == len(expected)


@SOURCES
def test_the_record_quotes_the_measurements(source):
    with (FOLDER / "gtx570.csv").open(newline="") as file:
        measured = {row["kernel"]: row for row in csv.DictReader(file)}
    assert len(measured) == 22
    for s in SCORES_OF[source]:
        row = measured[s.kernel]
        runs = [float(row[name]) for name in ("miss_rate_run1", "miss_rate_run2") if row[name]]
        assert s.measured == pytest.approx(fmean(runs), abs=0.006)
        assert s.tools == any(row[tool] for tool in TOOLS)


@SOURCES
def test_the_record_reads_back_as_it_was_written(source):
    assert to_csv(SCORES_OF[source]) == RECORDS[source].csv.read_text()


@SOURCES
@pytest.mark.parametrize("sms", [1, "all"])
def test_the_mean_errors_in_the_results_are_those_of_the_rows(sms, source):
    section = RECORDS[source].results.read_text().split("\n## ")[1 if sms == 1 else 2]
    every, shared = tables(section)[-2:]
    with_tools = [kernel for kernel, row in ROWS.items() if row.others]
    assert len(with_tools) == 16
    for column, definition in enumerate(DEFINITIONS, start=2):
        assert every[column] == f"{fmean(absolute_errors(definition, sms, source=source)):.2f}"
        assert shared[column] == f"{fmean(absolute_errors(definition, sms, with_tools, source)):.2f}"
    for column, tool in enumerate(TOOLS, start=2 + len(DEFINITIONS)):
        errors = [abs(row.others[tool] - row.measured) for row in ROWS.values() if row.others]
        assert shared[column] == f"{fmean(errors):.2f}"


@SOURCES
@pytest.mark.parametrize("sms", [1, "all"])
def test_the_tables_of_the_results_are_those_of_the_record(sms, source):
    scores = [s for s in SCORES_OF[source] if s.sms == sms]
    assert to_markdown(list(ROWS.values()), scores) in RECORDS[source].results.read_text()


@pytest.mark.parametrize("make", [launches, pytest.param(compiled.launches, marks=NEEDS_NVRTC)])
@pytest.mark.parametrize("kernel", ROWS)
def test_the_launches_of_a_row_have_its_block_and_grid(kernel, make):
    row = ROWS[kernel]
    traces = make(row)
    assert len(traces) == (8 if kernel in FIRST_DISTANCE else 2 if kernel == "3dconv" else 1)
    for trace in traces:
        assert trace.launch.kernel == kernel
        assert trace.launch.block == (*row.block, 1, 1)[:3]
        assert trace.launch.grid == (*row.grid, 1, 1)[:3]


def loads_of_data(trace):
    """Return the sorted offsets in `data`, in bytes, that the lanes of a trace load from."""
    (data,) = (array for array in trace.launch.arrays if array.name == "data")
    columns = trace.columns
    loads = np.repeat(columns.op == Op.LOAD, np.diff(columns.address_start))
    return np.sort(columns.addresses[loads] - data.base)


@pytest.mark.parametrize("kernel", FIRST_DISTANCE)
@pytest.mark.parametrize("pad", [0, 1])
def test_all_passes_together_load_what_the_whole_kernel_does(kernel, pad):
    row = Row(kernel, {"M": 40, "N": 5}, (32,), (2,), 0.0, {})
    (whole,) = launches(row, pad, passes=None)
    passes = launches(row, pad, passes=40 - FIRST_DISTANCE[kernel])
    assert_array_equal(loads_of_data(whole), np.sort(np.concatenate([*map(loads_of_data, passes)])))


def lines_of_warps(trace):
    """Return the loads and stores of every warp in order: the operation and the 128-byte lines that it accesses."""
    c = trace.columns
    accesses = zip(c.op.tolist(), np.split(c.addresses // 128, c.address_start[1:-1]), strict=True)
    rows = [(op, *np.unique(lines).tolist()) for op, lines in accesses]
    return [rows[start:end] for start, end in pairwise(c.warp_start.tolist())]


@NEEDS_NVRTC
@pytest.mark.parametrize("kernel", FIRST_DISTANCE)
@pytest.mark.parametrize("pad", [0, 1])
def test_compiled_passes_one_after_the_other_access_what_the_compiled_kernel_does(kernel, pad):
    row = Row(kernel, {"M": 40, "N": 150}, (32,), (2,), 0.0, {})  # a shorter loop over N would be unrolled as a whole
    places = compiled.python.trace(compiled.python.plans(row, pad, 1)[0]).launch  # the passes' arrays
    name = kernel.replace(".", "_")
    path = compiled.sources.source_path(kernel.partition(".")[0])
    whole = lines_of_warps(compiled.emulate(path, name, places, {**row.sizes, "PAD": pad}, {}))
    passes = [lines_of_warps(trace) for trace in compiled.launches(row, pad, passes=40 - FIRST_DISTANCE[kernel])]
    for warp, accesses in enumerate(whole):
        diagonal = accesses[:1] if kernel == "corr.corr" and accesses else []  # symmat[j1][j1] = 1, before the passes
        assert accesses == diagonal + [access for one in passes for access in one[warp]]


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("kernel", FAST)
def test_the_model_says_what_it_said(kernel, definition):
    recorded = RECORDED[kernel, definition, 1]
    now = score(ROWS[kernel], definition, Settings())
    assert now.predicted == pytest.approx(recorded.predicted, abs=SAME)
    assert now.seeds == recorded.seeds


@NEEDS_NVRTC
@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("kernel", FAST)
def test_the_model_says_of_compiled_code_what_it_said(kernel, definition):
    recorded = RECORDED_OF["cuda"][kernel, definition, 1]
    now = score(ROWS[kernel], definition, Settings(source="cuda"))
    this_compiler = compiled.compiler() in RECORDS["cuda"].results.read_text()
    assert now.predicted == pytest.approx(recorded.predicted, abs=SAME if this_compiler else SAME_CODE[definition])


@SOURCES
def test_hardware_is_nearer_to_the_measurements_than_paper_and_other_tools(source):
    with_tools = [kernel for kernel, row in ROWS.items() if row.others]
    for sms in (1, "all"):
        own = fmean(absolute_errors("hardware", sms, with_tools, source))
        assert own < fmean(absolute_errors("paper", sms, with_tools, source))
        for tool in TOOLS:
            assert own < fmean(abs(ROWS[kernel].others[tool] - ROWS[kernel].measured) for kernel in with_tools)


@pytest.mark.parametrize("sms", [1, "all"])
def test_the_mean_error_from_compiled_code_is_at_most_two_and_a_half_points(sms):
    assert fmean(absolute_errors("hardware", sms, source="cuda")) <= 2.5


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


def test_the_rows_that_compiled_code_moves_are_quoted_as_recorded():
    (section,) = re.findall(r"^## \d+\. From compiled code$(.*?)^## ", DEVIATIONS.read_text(), re.M | re.S)
    quoted = {row[0]: [float(cell) for cell in row[1:]] for row in tables(section)}
    for kernel, numbers in quoted.items():
        recorded = [RECORDED_OF[source][kernel, "hardware", sms].predicted for sms in (1, "all") for source in RECORDS]
        assert numbers == pytest.approx([ROWS[kernel].measured, *recorded], abs=0.05001)
    moved = {
        kernel
        for kernel, definition, sms in RECORDED
        if definition == "hardware"
        and abs(RECORDED[kernel, definition, sms].predicted - RECORDED_OF["cuda"][kernel, definition, sms].predicted)
        > 0.4
    }
    assert moved == set(quoted)


# ---- other GPUs


OTHER = {(row.kernel, row.n): row for row in other_gpus.read_rows()}


def other_record():
    with other_gpus.RECORD.open(newline="") as file:
        return {(row["kernel"], int(row["n"])): row for row in csv.DictReader(file)}


def test_the_record_of_the_k40c_is_of_the_measured_rows():
    record = other_record()
    assert record.keys() == OTHER.keys()
    for key, row in OTHER.items():
        assert float(record[key]["measured"]) == row.miss_rate
    predicted = [[float(record[key][definition]) for definition in DEFINITIONS] for key in OTHER]
    assert other_gpus.to_csv([*OTHER.values()], predicted) == other_gpus.RECORD.read_text()
    assert other_gpus.to_markdown([*OTHER.values()], predicted) in other_gpus.RESULTS.read_text()


@NEEDS_NVRTC
@pytest.mark.parametrize("kernel", dict.fromkeys(kernel for kernel, _ in OTHER))
def test_the_kernels_of_the_k40c_ask_for_as_many_transactions_as_were_counted(kernel):
    row = min((row for row in OTHER.values() if row.kernel == kernel), key=lambda row: row.n)
    trace = other_gpus.trace(row)
    columns = trace.block(0)  # every block does the same elsewhere
    loads = np.flatnonzero((columns.op == Op.LOAD) & (columns.space == Space.GLOBAL))
    lines = np.split(columns.addresses // 128, columns.address_start[1:-1])
    assert trace.launch.blocks * sum(len(np.unique(lines[at])) for at in loads) == row.transactions


@NEEDS_NVRTC
@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("kernel", ["matMul_gpu", "matMul_gpu_uncoalesced", "matMul_gpu_sharedmem", "vectorAdd"])
def test_the_model_says_of_the_k40c_what_it_said(kernel, definition):
    row = min((row for row in OTHER.values() if row.kernel == kernel), key=lambda row: row.n)
    recorded = float(other_record()[kernel, row.n][definition])
    predicted = dict(zip(DEFINITIONS, other_gpus.predict(row), strict=True))
    tolerance = SAME if compiled.compiler() in other_gpus.RESULTS.read_text() else SAME_CODE[definition]
    assert predicted[definition] == pytest.approx(recorded, abs=tolerance)
