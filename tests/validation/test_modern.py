"""The validation against GPUs from Pascal to Ampere: every measured row has a launch, and the record is up to date."""

from __future__ import annotations

import re
import sys

import pytest

from rdmodel.policies import Linear
from validation.common import records
from validation.modern import __main__ as command
from validation.modern import capacity, replacement, report, simulated
from validation.modern.cases import CASES, Point, read_counters, read_points
from validation.modern.study import Score, machine, mean_error, score_point

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


@pytest.mark.parametrize("at", [0, 30, 109])
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


def test_every_measured_point_has_a_recorded_prediction():
    points = [(f"{point.curve} {point.kib} KiB", point.gpu, point.measured) for point in read_points()]
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
    (task,) = simulated.tasks(["t4"], [kernel])[1:]
    assert simulated.run(task) in SIMULATED


def test_model_and_simulator_agree_on_average_where_strides_do_not_collide():
    for gpu in simulated.GPUS:
        assert simulated.mean_error(r for r in SIMULATED if (r.gpu, r.index) == (gpu, "hashed")) <= 3


def test_presets_are_selected_with_the_simulator_only(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["modern", "--gpus", "t4"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--gpus selects presets of --simulator" in capsys.readouterr().err


# ---- other L1s at the knees of the curves


@pytest.mark.parametrize(("curve", "kib"), [("again", 108), ("again", 128), ("reverse", 120), ("reverse", 384)])
def test_scans_replayed_with_lru_miss_as_in_the_model(curve, kib):
    point = Point(curve, "rtx3070", kib, 0.0)  # its driver reserves 8 KiB, so 960 lines are left
    model = score_point(point).predicted
    assert replacement.miss_ratio(point, Linear(), 4, 240, "LRU") == pytest.approx(model, abs=0.3)


def test_the_line_whose_bit_is_clear_is_replaced_first():
    ways = replacement.NotRecent(2)
    assert [ways.access(line) for line in (1, 2, 3, 2, 1, 3)] == [False, False, False, True, False, False]


def test_the_page_has_the_mean_errors_of_every_alternative_on_every_curve():
    page = report.CAPACITY.read_text()
    tables = (
        page.split("## Mean errors of the model")[1].split("## ")[0],
        page.split("warps in step")[1].split("## ")[0],
    )
    texts = [text for text, _, _ in capacity.alternatives(machine("v100"))]
    assert re.findall(r"^\| (?!\|)(.+?) \| [\d.]+ \|", tables[0], re.M) == texts
    assert len(re.findall(r"^\| .*(?:LRU|used|random) \|", tables[1], re.M)) == 3 * len(
        [*replacement.organisations(1024)]
    )
