"""The committed record of sampled grids: reproduced, and with intervals that hold as often as stated."""

from __future__ import annotations

from rdmodel.common.intervals import CONFIDENCE
from validation.common import records
from validation.sampling.grid import COUNTS, MEASURED, QUICK, RESULTS, GridRow, differences, measure_case, results

ROWS = records.from_csv(GridRow, MEASURED.read_text())


def test_the_record_reads_back():
    assert records.to_csv(GridRow, ROWS) == MEASURED.read_text()
    assert results(ROWS) == RESULTS.read_text()


def test_what_was_recorded_is_what_is_measured():
    assert differences(measure_case(QUICK, seeds=(0,)), ROWS) == []


def test_intervals_hold_the_exact_count_as_often_as_stated():
    sampled = [row for row in ROWS if row.count in COUNTS]
    assert sum(row.holds for row in sampled) >= CONFIDENCE * len(sampled)
