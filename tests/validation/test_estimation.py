"""The committed record of quick estimates: complete, reproduced, and with intervals that hold as often as stated."""

from __future__ import annotations

import dataclasses
from statistics import fmean, median

import pytest

from validation.common import records
from validation.estimation.__main__ import main
from validation.estimation.kernels import CASES
from validation.estimation.measure import COUNTS, GPUS, MEASURED, SECTORED, WORKS, Row, differences
from validation.estimation.report import RESULTS, results

ROWS = records.from_csv(Row, MEASURED.read_text())


def test_the_record_has_every_kernel_on_every_gpu_and_reads_back():
    assert {(row.gpu, row.kernel) for row in ROWS} == {(gpu, kernel) for gpu in GPUS for kernel in CASES}
    assert {(row.way, row.work, row.count) for row in ROWS} == {
        (way, work, count)
        for way in ("l1", "l2")
        for work in WORKS
        for count in (COUNTS if way == "l2" else COUNTS[:3])
    }
    assert records.to_csv(Row, ROWS) == MEASURED.read_text()
    assert results(ROWS) == RESULTS.read_text()


@pytest.mark.slow
def test_what_was_recorded_is_what_is_measured(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["program", "--check", "--jobs", "1", "--kernels", "atax.2", "transpose 32x8"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert "are as recorded" in capsys.readouterr().out
    assert stop.value.code == 0


def test_a_row_that_moved_is_named():
    first = dataclasses.replace(ROWS[0], value=ROWS[0].value + 1)
    assert differences([first], ROWS)[0].startswith(f"{first.kernel} on {first.gpu}: ")
    assert differences([dataclasses.replace(ROWS[0], time=9.0)], ROWS) == []


def test_where_everything_is_run_nothing_is_off():
    assert all(row.error == 0 for row in ROWS if row.whole)


@pytest.mark.parametrize("count", ["l2_misses", "l2_miss_rate", "dram_read_sectors", "dram_bytes"])
def test_intervals_of_the_l2_hold_where_lines_have_sectors(count):
    some = [row for row in ROWS if row.gpu in SECTORED and row.count == count and not row.whole]
    assert fmean(row.holds for row in some) > 0.95
    assert median(abs(row.error) for row in some) < 0.1


@pytest.mark.parametrize("count", COUNTS)
def test_most_intervals_hold_the_exact_count(count):
    some = [row.holds for row in ROWS if row.count == count and row.work == WORKS[1]]
    assert fmean(some) > 0.8
