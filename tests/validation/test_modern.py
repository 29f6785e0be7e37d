"""The validation against GPUs from Pascal to Ampere: every measured row has a launch, and the record is up to date."""

from __future__ import annotations

import sys

import pytest

from validation.common import records
from validation.modern import __main__ as command
from validation.modern import report
from validation.modern.cases import CASES, read_counters, read_points
from validation.modern.study import Score, mean_error, score_point

QUICK = ("stores", "add 100", "stream.copy 10240", "multiply.shared 64", "transpose.naive 128")
RECORD = records.from_csv(Score, report.PREDICTED.read_text())
CURVES, COUNTERS = RECORD[: len(read_points())], RECORD[len(read_points()) :]


def test_every_measured_counter_has_a_launch_and_a_recorded_prediction():
    measured = read_counters()
    assert {counter.case for counter in measured} == set(CASES)
    rows = [(counter.case, counter.gpu, counter.metric, counter.measured) for counter in measured]
    assert rows == [(score.name, score.gpu, score.metric, score.measured) for score in COUNTERS]


def test_the_recorded_page_is_that_of_the_recorded_numbers():
    assert report.RESULTS.read_text().endswith(report.pages(CURVES, COUNTERS))


def test_predictions_are_as_recorded():
    found = command.score_kernels(QUICK)
    assert found == [score for score in COUNTERS if score.name in QUICK]


@pytest.mark.parametrize("at", [0, 30, len(CURVES) - 1])
def test_points_of_curves_are_as_recorded(at):
    assert score_point(read_points()[at]) == CURVES[at]


def test_streams_sums_and_transposes_are_exact():
    kernels = ("stream", "add ", "sums", "transpose")
    exact = [score for score in COUNTERS if score.name.startswith(kernels) and "l1tex" in score.metric]
    assert len(exact) > 20
    assert mean_error(exact) < 0.01


def test_the_error_of_a_rate_is_in_points_and_that_of_a_counter_in_percent():
    assert Score("k", "v100", "a.pct", 40.0, 50.0).error == 10
    assert Score("k", "v100", "a.sum", 40.0, 50.0).error == 25
    assert Score("k", "v100", "a.sum", 0.0, 0.0).error == 0
    assert Score("k", "v100", "a.sum", 0.0, 3.0).error is None


def test_the_command_prints_the_counters_of_chosen_kernels(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["modern", "--kernels", "stores"])
    command.main()
    out = capsys.readouterr().out
    assert "| stores | L1 sectors, st miss | rtx3070 | 103 | 102 | -0.97 % |" in out
