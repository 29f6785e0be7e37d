"""The validation against GPUs from Pascal to Ampere: every measured row has a launch, and the record is up to date."""

from __future__ import annotations

import sys

import pytest

from validation.common import records
from validation.modern import __main__ as command
from validation.modern import chases, report, simulated
from validation.modern.cases import CASES, read_counters, read_points
from validation.modern.study import Score, mean_error, score_point

QUICK = (
    "stores",
    "add 100",
    "transform",
    "sequences",
    "diffuse",
    "stream.copy 10240",
    "multiply.shared 64",
    "transpose.naive 128",
)
RECORD = records.from_csv(Score, report.PREDICTED.read_text())
SIMULATED = records.from_csv(simulated.Row, simulated.ROWS.read_text())
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


@pytest.mark.parametrize("at", [0, 30, 109, 130, 175])
def test_points_of_curves_are_as_recorded(at):
    assert score_point(read_points()[at]) == CURVES[at]


def test_a_chase_loads_every_line_once_in_a_round():
    trace = chases.chase(24, 0)
    lines = trace.columns.addresses.reshape(chases.ROUNDS, 24)
    assert (lines == lines[0]).all()
    assert sorted(lines[0]) == [128 * line for line in range(24)]


def test_chases_on_five_gpus_are_right_within_two_points():
    for gpu in ("v100", "a100-80g", "a40", "l40", "h100-sxm"):
        scores = [score for score in CURVES if score.name.startswith("chase") and score.gpu == gpu]
        assert len(scores) > 10
        assert mean_error(scores) < 2


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


def test_every_measured_point_has_a_recorded_prediction():
    points = [(f"{point.curve} {point.kib:g} KiB", point.gpu, point.measured) for point in read_points()]
    assert points == [(score.name, score.gpu, score.measured) for score in CURVES]


def test_the_kernels_with_blocks_in_the_order_of_the_grid_read_what_was_measured():
    exact = [score for score in COUNTERS if score.name in ("transform", "count") and "write" not in score.metric]
    assert len(exact) == 14
    assert mean_error(exact) < 0.1


# ---- model and simulator


def test_the_record_has_thirty_kernels_with_both_indices_on_seven_presets_in_order():
    assert len(simulated.KERNELS) == 30 and len(simulated.GPUS) == 7
    assert [(row.gpu, row.index, row.kernel) for row in SIMULATED] == simulated.tasks(simulated.GPUS, simulated.KERNELS)
    assert simulated.RESULTS.read_text() == simulated.results(SIMULATED)


@pytest.mark.parametrize("kernel", ["corr.mean", "covar.reduce", "gramschmidt.2"])
def test_a_comparison_with_the_simulator_is_as_recorded(kernel):
    (task,) = simulated.tasks(["t4"], [kernel])
    assert simulated.run(task) in SIMULATED


def test_model_and_simulator_agree_on_average_where_strides_do_not_collide():
    for gpu in simulated.GPUS:
        assert simulated.mean_error(r for r in SIMULATED if (r.gpu, r.index) == (gpu, "preset")) <= 3


def test_presets_are_selected_with_the_simulator_only(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["modern", "--gpus", "t4"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--gpus selects presets of --simulator" in capsys.readouterr().err
