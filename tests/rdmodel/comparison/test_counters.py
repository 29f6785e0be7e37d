"""Predicted counters beside those of a report, by name, as values and on the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import rdmodel as rd
import tracegen
from rdmodel.comparison.nsight import NCU_COMMAND, merge_launches
from rdmodel.errors import ConfigError, TraceError
from rdmodel.results.metrics import L1_RATE_METRIC, L2_RATE_METRIC, LOAD_RATE_METRIC, REQUEST_METRIC, SECTOR_METRIC

N = 4096
TRACE = tracegen.kernel("vectoradd", N=N)
SECTORS = N * 4 // 32
KERNEL = "vectorAdd(const float *, const float *, float *, int)"
LOADS, LOAD_HITS, STORES = f"{SECTOR_METRIC}ld.sum", f"{SECTOR_METRIC}ld_lookup_hit.sum", f"{SECTOR_METRIC}st.sum"


def report(path: Path, *launches: dict[str, object], kernel: str = KERNEL) -> str:
    """Write a report of launches with the size of the trace, and return its name."""
    rows = ['"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"']
    for number, metrics in enumerate(launches):
        head = f'"{number}","{kernel}","(256, 1, 1)","({N // 256}, 1, 1)"'
        rows += [f'{head},"{name}","sector","{value}"' for name, value in metrics.items()]
    path.write_text("\n".join(rows))
    return str(path)


MEASURED = {LOADS: 1000, LOAD_HITS: 0, STORES: SECTORS, L1_RATE_METRIC: 2.5, "gpc__cycles_elapsed.max": 17}


def test_counters_are_compared_by_name_and_others_are_left_out(tmp_path):
    (measurement,) = rd.read_ncu(report(tmp_path / "a.csv", MEASURED))
    found = rd.compare_counters(TRACE, measurement, "v100")
    assert found.measured == {LOADS: 1000, LOAD_HITS: 0, STORES: SECTORS, L1_RATE_METRIC: 2.5}
    assert found.predicted == {LOADS: 2 * SECTORS, LOAD_HITS: 0, STORES: SECTORS, L1_RATE_METRIC: 0}
    assert found.errors() == {LOADS: pytest.approx(2.4), LOAD_HITS: None, STORES: 0, L1_RATE_METRIC: -2.5}
    assert found.prediction.sms_modelled == 80
    assert found.prediction.l2 is None
    assert sum(sm.blocks for sm in found.prediction.per_sm) == N // 256
    assert str(found) == f"vectoradd on v100: {L1_RATE_METRIC} 2.50 %, predicted 0.00 %"


def test_merged_launches_are_compared_per_launch(tmp_path):
    launches = rd.read_ncu(report(tmp_path / "a.csv", MEASURED, MEASURED | {LOADS: 2000, L1_RATE_METRIC: 3.5}))
    found = rd.compare_counters(TRACE, merge_launches(launches), "v100")
    assert (found.measured[LOADS], found.measured[L1_RATE_METRIC]) == (1500, 3.0)


def test_the_hit_rate_of_the_default_pages_is_that_of_all_operations(tmp_path):
    (measurement,) = rd.read_ncu(report(tmp_path / "a.csv", {"L1/TEX Hit Rate": 33.33}))
    assert rd.compare_counters(TRACE, measurement, "v100").measured == {L1_RATE_METRIC: 33.33}


def test_an_l2_is_modelled_if_the_report_has_counters_of_it(tmp_path):
    measured = {"L2 Hit Rate": 33.25, "dram__sectors_read.sum": 1030}
    (measurement,) = rd.read_ncu(report(tmp_path / "a.csv", measured))
    found = rd.compare_counters(TRACE, measurement, "v100")
    assert found.measured == {L2_RATE_METRIC: 33.25, "dram__sectors_read.sum": 1030}
    assert found.predicted == {L2_RATE_METRIC: pytest.approx(100 / 3), "dram__sectors_read.sum": 2 * SECTORS}


def test_a_report_without_such_counters_is_refused_with_the_command_that_collects_them(tmp_path):
    (measurement,) = rd.read_ncu(report(tmp_path / "a.csv", {"gpc__cycles_elapsed.max": 50}))
    with pytest.raises(TraceError) as refused:
        rd.compare_counters(TRACE, measurement, "v100")
    assert NCU_COMMAND in str(refused.value)


def test_a_gpu_without_sectors_of_32_bytes_is_refused(tmp_path):
    (measurement,) = rd.read_ncu(report(tmp_path / "a.csv", MEASURED))
    with pytest.raises(ConfigError, match=r"l1\.sector=128"):
        rd.compare_counters(TRACE, measurement, "gtx470-16k")


def test_the_command_that_collects_counters_names_requests():
    assert f"{REQUEST_METRIC}ld.sum" in NCU_COMMAND


# ---- the command


def compared(run, path: str, *more: str) -> tuple[int, str, str]:
    return run("compare", "vectoradd", "--param", f"N={N}", "--gpu", "v100", "--ncu", path, *more)


def test_compare_prints_a_line_for_each_counter(run, tmp_path):
    status, out, err = compared(run, report(tmp_path / "a.csv", MEASURED))
    assert (status, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line.startswith("  ")]
    assert lines == [
        ["counter", "measured", "predicted", "error"],
        [LOADS, "1,000", "1,024", "+2.40", "%"],
        [LOAD_HITS, "0", "0", "-"],
        [STORES, "512", "512", "0.00", "%"],
        [L1_RATE_METRIC, "2.50", "%", "0.00", "%", "-2.50"],
    ]


def test_json_and_csv_have_the_same_counters(run, tmp_path):
    path = report(tmp_path / "a.csv", MEASURED)
    plain = json.loads(compared(run, path, "--json")[1])
    assert plain["counters"][LOADS] == {"measured": 1000, "predicted": 1024, "error": pytest.approx(2.4)}
    (row,) = csv.DictReader(io.StringIO(compared(run, path, "--csv")[1]))
    assert (row[LOADS], row[f"{LOADS}_predicted"]) == ("1000.0", "1024")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--check",), "--check: is an option of the simulator"),
        (("--sched", "gto"), "--sched gto: is an option of the simulator"),
        (("--definition", "paper"), "--definition paper: must be hardware"),
    ],
)
def test_options_of_the_simulator_are_refused(run, tmp_path, options, message):
    status, out, err = compared(run, report(tmp_path / "a.csv", MEASURED), *options)
    assert (status, out) == (2, "")
    assert message in err


# ---- predict


def test_predict_prints_its_counters_by_the_names_of_the_profiler(run):
    options = ("vectoradd", "--param", f"N={N}", "--gpu", "v100", "--metrics", "ncu")
    whole = ("--model-sms", "all", "--threads", "all")
    _, out, _ = run("predict", *options, *whole)
    lines = dict(line.split(None, 1) for line in out.splitlines() if "l1tex__" in line)
    assert lines[LOADS] == "1,024"
    assert lines[LOAD_RATE_METRIC] == "0.00 %"
    assert "counted for" not in out
    assert "counted for 1 of 16 blocks; --model-sms all" in run("predict", *options)[1]
    plain = json.loads(run("predict", *options, *whole, "--json")[1])
    assert plain["metrics"][LOADS] == 1024
    (row,) = csv.DictReader(io.StringIO(run("predict", *options, *whole, "--csv")[1]))
    assert row[LOADS] == "1024"


def test_predict_refuses_metrics_of_a_cache_of_whole_lines_before_it_runs(run):
    status, out, err = run("predict", "vectoradd", "--gpu", "gtx470-16k", "--metrics", "ncu")
    assert (status, out) == (2, "")
    assert err.startswith("rdmodel: error: l1.sector=128: Nsight Compute counts sectors of 32 bytes")
