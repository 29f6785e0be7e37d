"""The committed comparison of model and simulator, and the papers' behaviours: complete, explained, reproduced."""

from __future__ import annotations

import dataclasses
import re

import pytest

from rdmodel.comparison.calibrate import calibrate
from validation.simulator import __main__ as command
from validation.simulator import behaviours, causes, measure
from validation.simulator.measure import MEASURED, Run
from validation.simulator.report import (
    REFERENCE,
    RESULTS,
    differences,
    from_csv,
    large_errors,
    mean_error,
    results,
    to_csv,
)
from validation.simulator.scenarios import FOLDER, run, scenarios, settings, suite

ROWS = from_csv(REFERENCE.read_text())
MEASUREMENTS = measure.from_csv(MEASURED.read_text())
OUTCOMES = causes.from_csv(causes.CAUSES.read_text())
DEVIATIONS = FOLDER.parent / "DEVIATIONS.md"

QUICK = [(name, kernel) for name, scenario in scenarios().items() for kernel in scenario.quick]

LEFT = 0.2
"""Largest share of an error that the experiment explaining it may leave."""

QUICK_CAUSE = ("draws", "gtx480-khairy", "gramschmidt.3")


def rows_of(gpu):
    return [row for row in ROWS if row.gpu == gpu]


def section(title):
    (found,) = re.findall(rf"^## \d+\. {title}$(.*?)(?=^## |\Z)", DEVIATIONS.read_text(), re.M | re.S)
    return found


def explained():
    """The table of causes: (cause, GPU, kernel) to four rates."""
    lines = [line.strip("|").split("|") for line in section("Model and simulator").splitlines() if line[:1] == "|"]
    cells = [[cell.strip() for cell in line] for line in lines[2:]]
    return {tuple(row[:3]): [float(cell) for cell in row[3:]] for row in cells}


# ---- the record


def test_the_record_has_all_kernels_on_all_gpus_in_order():
    assert len(suite()) == 30
    assert [(row.gpu, row.kernel) for row in ROWS] == [(gpu, kernel) for gpu in scenarios() for kernel in suite()]


def test_the_record_reads_back_as_it_was_written():
    assert to_csv(ROWS) == REFERENCE.read_text()
    assert results(ROWS) == RESULTS.read_text()


@pytest.mark.parametrize(("gpu", "kernel"), QUICK)
def test_model_and_simulator_say_what_they_said(gpu, kernel):
    assert not differences([run((gpu, kernel))], ROWS)


def test_a_rate_that_moved_is_named_with_both_values():
    row = rows_of("gtx470-16k")[0]
    other = dataclasses.replace(row, simulated={**row.simulated, "misses": 12.5})
    assert differences([row], ROWS) == []
    assert differences([other], ROWS) == [
        f"2dconv on gtx470-16k: simulated misses {row.simulated['misses']:.4f} -> 12.5000"
    ]
    assert differences([dataclasses.replace(row, kernel="none")], ROWS) == ["none on gtx470-16k: not recorded"]


def call(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["program", *arguments])
    command.main()


def test_check_says_that_rows_are_as_recorded(monkeypatch, capsys):
    with pytest.raises(SystemExit) as left:
        call(monkeypatch, "--check", "--gpus", "gtx470-48k", "--quick", "--kernels", "bicg.1", "--jobs", "1")
    assert left.value.code == 0
    assert capsys.readouterr().out == "1 rows are as recorded\n"


def test_check_fails_where_a_row_has_moved(monkeypatch, capsys, tmp_path):
    other = tmp_path / "reference.csv"
    other.write_text(to_csv([dataclasses.replace(row, loads=row.loads + 1) for row in ROWS]))
    monkeypatch.setattr("validation.simulator.__main__.REFERENCE", other)
    with pytest.raises(SystemExit) as left:
        call(monkeypatch, "--check", "--gpus", "gtx470-48k", "--kernels", "bicg.1", "--jobs", "1")
    assert left.value.code == 1
    assert capsys.readouterr().out == "bicg.1 on gtx470-48k: loads 131073 -> 131072\n"


def test_some_rows_are_printed_as_a_table_or_csv(monkeypatch, capsys):
    own = next(row for row in rows_of("gtx470-48k") if row.kernel == "bicg.1")
    arguments = ("--gpus", "gtx470-48k", "--kernels", "bicg.1", "--jobs", "1")
    call(monkeypatch, *arguments)
    assert capsys.readouterr().out == results([own])
    call(monkeypatch, *arguments, "--csv")
    assert capsys.readouterr().out == to_csv([own])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--record", "--quick"),
        ("--jobs", "0"),
        ("--gpus", "none"),
        ("--recorded", "--check"),
        ("--behaviours", "--csv"),
    ],
)
def test_what_cannot_be_is_refused(monkeypatch, capsys, arguments):
    with pytest.raises(SystemExit) as left:
        call(monkeypatch, *arguments)
    assert left.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.slow
def test_the_latency_of_the_changed_gpu_is_the_one_that_is_fitted_to_it():
    gpu = scenarios()["gtx480-khairy-48k"].gpu
    assert gpu.calibrated == calibrate(gpu).latency


# ---- how far apart they are


def test_hardware_is_within_the_mean_over_all_gpus_and_nearer_than_paper():
    assert mean_error(ROWS, "hardware") <= settings()["mean"]
    assert mean_error(ROWS, "hardware") < mean_error(ROWS, "paper")


@pytest.mark.parametrize("gpu", scenarios())
def test_each_gpu_is_within_the_mean_or_a_known_gap(gpu):
    assert (mean_error(rows_of(gpu), "hardware") <= settings()["mean"]) == scenarios()[gpu].goal


def test_the_rows_that_are_far_off_are_those_with_a_cause():
    assert sorted((row.gpu, row.kernel) for row in large_errors(ROWS)) == sorted(key[1:] for key in explained())


def test_the_rows_with_a_cause_are_quoted_as_recorded():
    recorded = {(row.gpu, row.kernel): row for row in ROWS}
    outcomes = {(one.cause, one.gpu, one.kernel): one for one in OUTCOMES}
    assert explained().keys() == outcomes.keys()
    for key, quoted in explained().items():
        row, one = recorded[key[1:]], outcomes[key]
        rates = [row.simulated["misses"], row.predicted["hardware"]["misses"], one.simulated, one.hardware]
        assert quoted == pytest.approx(rates, abs=0.05001)


def test_the_mean_errors_are_quoted_as_recorded():
    text = section("Model and simulator")
    for definition in ("hardware", "paper"):
        assert f"{mean_error(ROWS, definition):.2f}" in text
    gaps = [name for name, scenario in scenarios().items() if not scenario.goal]
    for gpu in gaps:
        assert f"`{gpu}` alone is at {mean_error(rows_of(gpu), 'hardware'):.2f} points" in text


def test_every_experiment_takes_the_error_away():
    errors = {(row.gpu, row.kernel): abs(row.error("hardware")) for row in ROWS}
    assert [(one.cause, one.gpu, one.kernel) for one in OUTCOMES] == causes.experiments()
    for one in OUTCOMES:
        assert abs(one.hardware - one.simulated) <= LEFT * errors[one.gpu, one.kernel]


def test_an_experiment_comes_out_as_recorded():
    assert causes.run(QUICK_CAUSE) in OUTCOMES
    assert causes.to_csv(OUTCOMES) == causes.CAUSES.read_text()


# ---- the papers' behaviours


def test_the_tables_can_be_printed_from_the_record(monkeypatch, capsys):
    call(monkeypatch, "--recorded")
    assert capsys.readouterr().out == RESULTS.read_text()
    call(monkeypatch, "--behaviours", "--recorded")
    assert capsys.readouterr().out == behaviours.RESULTS.read_text()


def test_the_record_of_behaviours_is_of_all_runs_and_reads_back():
    assert [Run(one.machine, one.kernel, one.sizes) for one in MEASUREMENTS] == measure.runs()
    assert measure.to_csv(MEASUREMENTS) == MEASURED.read_text()
    assert behaviours.results(MEASUREMENTS) == behaviours.RESULTS.read_text()


@pytest.mark.parametrize("quick", settings()["behaviours"]["quick"], ids=" ".join)
def test_the_simulator_counts_what_it_counted(quick):
    assert measure.measure(Run(*quick)) in MEASUREMENTS


def test_what_the_papers_describe_is_found_but_for_known_gaps():
    gaps = {name for name, claim in behaviours.claims(MEASUREMENTS).items() if not claim.holds}
    assert gaps == set(behaviours.why())


def test_full_associativity_removes_the_intra_warp_evictions_of_the_four_kernels():
    counters = behaviours.Counters(MEASUREMENTS)
    for machine in ("c2050-base-s", "c2050-base-l"):
        for kernel in ("atax.1", "bicg.2", "gesummv", "mvt.1"):
            before, after = counters.get(machine, kernel), counters.get(f"{machine}-full", kernel)
            assert after.intra_warp < before.intra_warp / 100


def test_ways_fail_where_rows_collide_and_mshrs_where_they_do_not():
    counters = behaviours.Counters(MEASUREMENTS)
    for kernel in ("atax.1", "bicg.2", "gesummv", "mvt.1", "syr2k", "syrk"):
        assert counters.get("gtx480-khairy", kernel).most_failed == "line_alloc"
        assert counters.get("gtx480-khairy", kernel, "padded").most_failed == "mshr_entry"
