"""Test the comparison with Nsight Compute: the selection of launches, the errors, and the command."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace

import pytest

import rdmodel as rd
import tracegen
from rdmodel.comparison.measured import MeasuredComparison, compare_measured, select_measurement
from rdmodel.comparison.nsight import NCU_COMMAND, Measurement, read_ncu
from rdmodel.errors import ConfigError, TraceError
from rdmodel.results.metrics import SECTOR_METRIC
from rdmodel.trace import Launch
from tests.support.builders import make_gpu, make_trace
from tests.support.comparisons import stores
from tests.support.paths import DATA as TEST_DATA
from tests.support.presets import FERMI

DATA = TEST_DATA / "ncu"
REPORT = read_ncu(DATA / "wide.csv")
SIZES = {"NX": 256, "NY": 256}
SMALL = ("--param", "NX=256", "--param", "NY=256", "--latency", "132:50", "--definition", "hardware")
NCU = ("--ncu", str(DATA / "long.csv"))
OPTIONS = {"latency": rd.LatencyConfig(lat_min=132, sigma=50.0, hit_latency=20), "definitions": ["hardware"]}
LAUNCH = tracegen.kernel("atax.2", **SIZES).launch
KERNEL = "atax_kernel2(int, int, float *, float *, float *)"


@pytest.fixture(scope="module")
def result() -> MeasuredComparison:
    measurement = select_measurement(REPORT, LAUNCH, pattern="*kernel2")
    return compare_measured(tracegen.kernel("atax.2", **SIZES), measurement, gpu=FERMI, **OPTIONS)


def launch(kernel: str, blocks: int = 1, threads: int = 256) -> Launch:
    return Launch(kernel=kernel, grid=(blocks, 1, 1), block=(threads, 1, 1))


# ---- numbers


def test_errors_are_predicted_minus_measured_in_points(result):
    measured = (2015 + 2021) / 20480
    assert result.l1.hit_rate == measured
    assert result.loads_only
    for unit in ("line", "sector"):
        rates = result.comparison.hit_rates(unit)
        assert result.rates(unit) == rates
        assert result.errors(unit) == {name: 100 * (rate - measured) for name, rate in rates.items()}
    assert rates["simulated"] == result.comparison.sectors.hit_rate


def test_a_kernel_without_loads_has_no_rate_to_compare_with_the_measured_one(result):
    with pytest.raises(TraceError, match=r"^random: holds no loads, whose hit rate could be compared"):
        compare_measured(make_trace([[stores(1, 2)]], warps=1), result.measurement, make_gpu(), **OPTIONS)


def test_a_trace_of_the_same_run_asks_for_as_many_sectors_as_were_measured(result):
    assert result.sectors_of_a_launch == result.comparison.sectors.sectors == 10240


def test_the_l2_is_that_of_the_simulator(result):
    assert result.l2 == {
        "measured": (4021 + 4035) / (8225 + 8219),
        "simulated": 1 - result.comparison.simulation.l2.miss_rate,
    }
    without = replace(
        result.measurement, metrics={SECTOR_METRIC + "ld.sum": 2.0, SECTOR_METRIC + "ld_lookup_hit.sum": 1.0}
    )
    assert replace(result, measurement=without).l2 is None


def test_a_rate_of_all_operations_serves_where_loads_are_not_told_apart():
    whole = Measurement(
        kernel="k", launches=("0",), grid=None, block=None, metrics={"l1tex__t_sector_hit_rate.pct": 50.0}
    )
    result = compare_measured(tracegen.kernel("atax.2", **SIZES), whole, gpu=FERMI, **OPTIONS)
    assert (result.l1.hit_rate, result.loads_only, result.sectors_of_a_launch) == (0.5, False, None)
    assert result.errors()["simulated"] == pytest.approx(100 * result.rates()["simulated"] - 50)


def test_the_dict_and_the_row_hold_the_same(result):
    plain, row = json.loads(json.dumps(result.to_dict(), allow_nan=False)), result.to_row()
    assert plain["measured"]["launches"] == ["1", "2"]
    assert plain["sectors"] == {"measured": 10240, "simulated": 10240}
    assert plain["comparison"]["sectors"]["sectors"] == 10240
    for unit in ("line", "sector"):
        for name in ("simulated", "hardware"):
            assert row[f"{name}_by_{unit}"] == 100 * plain["hit_rates"][unit][name]
            assert row[f"{name}_by_{unit}_error"] == plain["errors"][unit][name]
    assert row["l2_measured"] == 100 * plain["l2"]["measured"]
    assert str(result).startswith("atax.2 on gtx470-16k: hit rate 19.71 %, simulated 19.6")


def test_a_measurement_without_rates_is_refused_with_the_command_that_collects_them():
    empty = Measurement(kernel="k(int)", launches=("0",), grid=None, block=None, metrics={"dram__bytes.sum": 1.0})
    with pytest.raises(TraceError) as error:
        compare_measured(tracegen.kernel("atax.2", **SIZES), empty, gpu=FERMI)
    assert f"k(int): the Nsight Compute report lacks {SECTOR_METRIC}ld.sum, {SECTOR_METRIC}ld_lookup_hit.sum" in str(
        error.value
    )
    assert NCU_COMMAND in str(error.value)


# ---- which launch


def test_a_kernel_is_found_by_its_name():
    for name in ("atax_kernel1", "void atax_kernel1<float>(int)", REPORT[0].kernel):
        assert select_measurement(REPORT, launch(name)) == REPORT[0]


def test_a_pattern_may_mean_the_name_or_all_that_the_report_says():
    for pattern in ("atax_kernel1", "*1", "void *<float>*"):
        assert select_measurement(REPORT, launch("other"), pattern=pattern) == REPORT[0]


def test_the_only_kernel_of_a_report_is_meant_if_there_is_but_one_source():
    assert select_measurement(REPORT[:1], launch("atax.1"), alone=True) == REPORT[0]
    for report, alone in ((REPORT[:1], False), (REPORT, True)):
        with pytest.raises(
            ConfigError,
            match=r"atax.1: is not in the Nsight Compute report, which holds void atax_kernel1<float>.*--ncu-kernel",
        ):
            select_measurement(report, launch("atax.1"), alone=alone)


def test_launches_of_the_same_size_are_taken_together():
    assert select_measurement(REPORT, launch("atax_kernel2")).launches == ("1", "2")
    assert select_measurement(REPORT, launch("atax_kernel2", blocks=2)).launches == ("3",)
    assert select_measurement(REPORT, launch("atax_kernel2", blocks=2), ids=["2", "3"]).launches == ("2", "3")
    sizeless = [replace(one, grid=None, block=None) for one in REPORT[1:]]
    assert select_measurement(sizeless, launch("atax_kernel2", blocks=7)).launches == ("1", "2", "3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"launch": launch("atax_kernel2", blocks=5)},
            r"grid \(5, 1, 1\) and block \(256, 1, 1\), the Nsight Compute report has grid",
        ),
        ({"launch": launch("atax_kernel2", threads=32)}, r"the trace has grid \(1, 1, 1\) and block \(32, 1, 1\)"),
        (
            {"launch": launch("k"), "pattern": "*atax*"},
            r"ncu_kernel='\*atax\*': matches several kernels of the Nsight Compute report: void atax_kernel1",
        ),
        (
            {"launch": launch("k"), "pattern": "x*"},
            r"ncu_kernel='x\*': is not in the Nsight Compute report, which holds void atax_kernel1<float>",
        ),
        (
            {"launch": launch("atax_kernel2"), "ids": ["9"]},
            "ncu_launch=9: is not a launch of atax_kernel2 in the Nsight Compute report, which has 1, 2, 3$",
        ),
    ],
)
def test_what_is_not_in_the_report_or_not_clear_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        select_measurement(REPORT, **arguments)


# ---- the command


def test_the_command_prints_what_the_library_returns(run, result):
    arguments = ("compare", "atax.2", *SMALL, *NCU, "--ncu-kernel", "*kernel2", "--gpu", FERMI)
    status, out, err = run(*arguments, "--json")
    assert (status, err) == (0, "")
    plain, same = json.loads(out), json.loads(json.dumps(result.to_dict()))
    for key in ("kernel", "measured", "hit_rates", "errors", "l2", "sectors"):
        assert plain[key] == same[key]
    _, out, _ = run(*arguments, "--csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert row == {name: str(value) for name, value in result.to_row().items()}


def test_the_text_has_both_units_the_l2_and_what_was_counted(run):
    _, out, err = run("compare", "atax.2", *SMALL, *NCU, "--ncu-kernel", "*kernel2", "--gpu", FERMI)
    assert err == ""
    assert (
        f"measured: {KERNEL}, 2 launches\n  L1, global loads: {SECTOR_METRIC}ld_lookup_hit.sum, {SECTOR_METRIC}ld.sum"
        in out
    )
    rows = [line.split() for line in out.splitlines()]
    assert ["L1", "by", "32-byte", "sector", "19.71", "%", "19.69", "%", "-0.02", "19.69", "%", "-0.02"] in rows
    assert ["L1", "by", "128-byte", "line", "19.71", "%", "49.80", "%", "+30.10", "49.80", "%", "+30.10"] in rows
    assert any(row[:4] == ["L2", "48.99", "%", "0.00"] for row in rows)
    assert "sectors requested by loads: 10,240 measured, 10,240 simulated" in out


def test_several_kernels_have_a_pattern_each_and_a_line_each(run):
    patterns = ("--ncu-kernel", "*kernel1", "--ncu-kernel", "*kernel2")
    arguments = ("compare", "atax.1", "atax.2", *SMALL, *NCU, *patterns, "--gpu", FERMI)
    _, out, _ = run(*arguments)
    assert [line.split()[:2] for line in out.splitlines()[4:6]] == [["atax.1", "2.98"], ["atax.2", "19.71"]]
    assert "hardware: mean absolute error" in out
    _, out, _ = run(*arguments, "--json")
    assert [one["kernel"] for one in json.loads(out)["comparisons"]] == ["atax.1", "atax.2"]


def test_a_trace_is_matched_by_its_kernels_name(run, tmp_path):
    trace = tracegen.kernel("atax.2", **SIZES)
    trace.launch = replace(trace.launch, kernel="atax_kernel2")
    rd.save(trace, tmp_path / "t")
    status, out, _ = run("compare", str(tmp_path / "t"), *SMALL[4:], *NCU, "--json", "--gpu", FERMI)
    assert status == 0
    assert json.loads(out)["measured"]["kernel"] == KERNEL


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ncu", "no.csv"], "no.csv: No such file or directory"),
        ([*NCU], "atax.2: is not in the Nsight Compute report, which holds void atax_kernel1"),
        ([*NCU, "--ncu-kernel", "a", "--ncu-kernel", "b"], "--ncu-kernel: 2 patterns for 1 kernels; give one for each"),
        (["--ncu-kernel", "a"], "--ncu-kernel: needs a report of Nsight Compute; name it with --ncu FILE"),
        (["--ncu-launch", "1"], "--ncu-launch: needs a report of Nsight Compute; name it with --ncu FILE"),
        ([*NCU, "--plot", "x.svg"], "--plot cannot be combined with --ncu: it draws predicted against simulated rates"),
        (
            [*NCU, "--ncu-kernel", "*2", "--l1", "4K:4:16", "--index", "linear"],
            "l1.line=16: sectors of 32 bytes need lines of 32 to 1024",
        ),
    ],
)
def test_mistakes_are_one_line(run, arguments, message):
    status, out, err = run("compare", "atax.2", *SMALL, *arguments, "--gpu", FERMI)
    assert (status, out) == (2, "")
    assert err.startswith("rdmodel: error: ") and err.count("\n") == 1
    assert message in err


def test_a_report_without_the_metrics_is_refused_before_anything_runs(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["rdmodel.comparison.compare"], "predict", None)
    (tmp_path / "r.csv").write_text('"ID","Kernel Name","dram__bytes.sum"\n"0","k","5"\n')
    status, _, err = run("compare", "atax.2", *SMALL, "--ncu", str(tmp_path / "r.csv"), "--gpu", FERMI)
    assert status == 2
    assert "collect them with: ncu --csv --page raw --metrics l1tex__" in err
