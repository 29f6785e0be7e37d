"""The committed comparison of the model's L2: complete, reproduced, and as good as the documentation states."""

from __future__ import annotations

import csv
import sys

import pytest

from validation.common import records
from validation.hardware.rows import read_rows
from validation.l2 import report
from validation.l2.__main__ import main
from validation.l2.measure import (
    FOLDER,
    GPUS,
    QUICK,
    SM_COUNTS,
    SUITE,
    Few,
    Measured,
    OneSet,
    Row,
    compare_few_sms,
    hit_rates,
    predict_measured,
)

ROWS = records.from_csv(Row, report.SIMULATED.read_text())
ONE_SET = records.from_csv(OneSet, report.ONE_SET.read_text())
FEWER = records.from_csv(Few, report.FEWER.read_text())
MEASURED = records.from_csv(Measured, report.PREDICTED.read_text())


def test_the_record_has_all_kernels_on_all_gpus_in_order():
    assert [(row.gpu, row.kernel) for row in ROWS] == [(gpu, kernel) for gpu in GPUS for kernel in SUITE]
    assert [row.kernel for row in MEASURED] == [*hit_rates()]
    assert {row.sms for row in FEWER} == set(SM_COUNTS)
    assert [(row.gpu, row.kernel) for row in ONE_SET] == [(row.gpu, row.kernel) for row in report.worst_rows(ROWS)]


def test_the_results_are_those_of_the_record():
    assert report.results(ROWS, ONE_SET, FEWER, MEASURED) == report.RESULTS.read_text()


@pytest.mark.slow
def test_the_kernels_that_are_run_again_count_what_was_recorded(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["validation.l2", "--quick", "--check", "--jobs", "1"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert capsys.readouterr().out == f"{len(QUICK) * len(GPUS)} rows are as recorded\n"
    assert stop.value.code == 0


def test_a_row_that_moved_is_named():
    assert report.differences(ROWS, ROWS) == []
    (line,) = report.differences(ROWS[:1], ROWS[1:])
    assert line.startswith(f"{ROWS[0].kernel} on {ROWS[0].gpu}: nothing -> ")


def test_few_sms_and_a_measured_kernel_are_as_recorded():
    assert compare_few_sms("3dconv") == [row for row in FEWER if row.kernel == "3dconv"]
    assert predict_measured("atax.2") in MEASURED


def test_the_measured_rates_are_of_kernels_whose_launches_are_known_and_have_sources():
    assert set(hit_rates()) <= {row.kernel for row in read_rows()}
    with (FOLDER / "gtx570.csv").open(newline="") as file:
        for line in csv.DictReader(file):
            runs = [run for run in ("1", "2") if line[f"hit_rate_run{run}"]]
            assert runs
            assert all(f"run {run}: " in line["source"] for run in runs)


def test_all_stores_are_counted_on_both_sides():
    assert [row.writes for row in ROWS] == [row.simulated_writes for row in ROWS]
