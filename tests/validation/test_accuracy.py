"""The summary of all comparisons with counters: the table and the data of the package are those of the records."""

from __future__ import annotations

import sys
from statistics import fmean

import pytest

from validation.accuracy import __main__ as command
from validation.accuracy import report
from validation.accuracy.rows import L1_MISS_RATE, Row, read_rows
from validation.counters.cases import CASES

ROWS = read_rows()


def row(kernel: str, measured: float, predicted: float, **changes: str) -> Row:
    """Return a row of a V100 that no parameter was chosen on."""
    fields = {"gpu": "v100", "device": "V100", "suite": "mine", "metric": L1_MISS_RATE, "definition": "hardware"}
    return Row(**{**fields, **changes}, kernel=kernel, measured=measured, predicted=predicted)


def test_the_table_and_the_data_of_the_package_follow_from_the_records():
    assert report.RESULTS.read_text() == report.page(ROWS), "python -m validation.accuracy --record"
    assert report.EXPECTED.read_text() == report.expected_text(ROWS), "python -m validation.accuracy --record"


def test_the_rows_are_those_of_all_records_each_once():
    assert {row.gpu for row in ROWS} == {
        *("gtx570-16k", "k40c-16k", "titan-x-pascal", "v100", "gv100", "rtx2080ti", "a100-80g"),
        *("a40", "rtx3070", "l40", "h100-sxm"),
    }
    assert {row.kernel for row in ROWS if row.gpu == "gv100"} == set(CASES)
    # 22 rows of the GTX 570, whose mean error is that of its own record.
    fermi = [row for row in ROWS if (row.gpu, row.definition) == ("gtx570-16k", "hardware")]
    assert len(fermi) == 22
    assert (
        f"mean error, 22 rows |  | {fmean(r.error for r in fermi):.2f} |"
        in (report.RESULTS.parents[1] / "hardware" / "RESULTS.md").read_text()
    )
    assert {row.fitted for row in ROWS} == {"", "latency", "l1.tag_sets", "l1.tags_per_step", "l2.dirty_ways"}


def test_a_kernel_counts_once_whatever_the_number_of_its_rows():
    rows = [row("a", 10, 20), row("a", 10, 12), row("b", 50, 52), row("c", 100, 100)]
    reuse, stream = report.expected_errors(rows)
    assert (reuse.points, reuse.largest, reuse.kernels, reuse.kind) == (4.0, 6.0, 2, "reuse")
    assert (stream.points, stream.kernels, stream.kind) == (0.0, 1, "stream")
    assert "| V100 | mine | L1 miss rate | 3 | 4 | 2.7 points | 10.0 points a |  |" in report.table(rows)


def test_kernels_on_which_a_parameter_was_chosen_are_left_out_unless_there_are_no_others():
    kepler = {"gpu": "k40c-16k", "device": "K40c"}
    chosen, other = row("matMul_gpu_sharedmem_uncoalesced", 12, 13, **kepler), row("matMul_gpu", 40, 45, **kepler)
    (error,) = report.expected_errors([chosen, other])
    assert (error.points, error.kernels, error.fitted) == (5.0, 1, "")
    (error,) = report.expected_errors([chosen])
    assert (error.points, error.kernels, error.fitted) == (1.0, 1, "l1.tags_per_step")


def test_counters_err_in_percent_and_those_that_were_measured_as_0_not_at_all():
    assert row("a", 200, 150, metric="DRAM reads").error == 25
    assert row("a", 0, 5, metric="DRAM reads").error is None
    assert row("a", 0, 5).error == 5


@pytest.mark.parametrize("options", [[], ["--record"]])
def test_the_command_prints_the_table_or_renews_the_files(options, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "RESULTS", tmp_path / "RESULTS.md")
    monkeypatch.setattr(report, "EXPECTED", tmp_path / "expected.toml")
    monkeypatch.setattr(sys, "argv", ["accuracy", *options])
    command.main()
    assert capsys.readouterr().out == ("" if options else report.table(ROWS))
    assert {path.name for path in tmp_path.iterdir()} == ({"RESULTS.md", "expected.toml"} if options else set())
