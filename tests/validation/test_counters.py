"""The validation against counters of public benchmarks: launch files, sources and the committed record."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

from rdmodel.errors import TraceError
from tracegen.cuda import nvrtc
from tracegen.cuda.launchfile import read_launch_file
from validation.counters import __main__ as command
from validation.counters import report
from validation.counters.cases import CASES, LAUNCHES, read_measured
from validation.counters.study import COUNTERS, find_source, measured_of, study_case

ROWS = report.read_rows()

TRANSFORM = """
__global__ void CUDAkernel2DCT(float *dst, float *src, int ImgStride) {
  int x = blockIdx.x * 32 + threadIdx.y * 8 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.z * 8;
  for (int k = 0; k < 8; ++k) dst[(y + k) * ImgStride + x] = src[(y + k) * ImgStride + x];
}
"""


LAUNCHED = [case for case in CASES.values() if case.program is None]


def test_every_case_has_a_launch_file_or_a_program_measured_counters_and_a_recorded_prediction():
    assert {path.stem for path in LAUNCHES.glob("*.toml")} == {case.name for case in LAUNCHED}
    assert {counter.case for counter in read_measured()} == set(CASES)
    recorded = {(row.case, row.counter): row.measured for row in ROWS if row.engine == "predict"}
    assert recorded == {(case, counter): value for case in CASES for counter, value in measured_of(case).items()}


@pytest.mark.parametrize("case", LAUNCHED, ids=lambda case: case.name)
def test_a_launch_file_names_the_kernel_and_arguments_that_fit_in_memory(case, tmp_path):
    import numpy as np

    for name, array in case.inputs().items():
        np.save(tmp_path / f"{name}.npy", array)
    shutil.copy(LAUNCHES / f"{case.name}.toml", tmp_path)
    (launch,) = read_launch_file(tmp_path / f"{case.name}.toml").launches
    assert (launch.kernel or "").partition("<")[0] == case.kernel.partition("<")[0]


def test_the_targets_of_the_model_are_met():
    for counter, most in (("L1 loads missed", 4.0), ("L2 reads", 6.0), ("DRAM reads", 5.0)):
        found = [row for row in ROWS if row.counter == counter and row.engine == "predict" and row.measured > 100]
        errors = [abs(row.error) for row in found if row.error is not None]
        assert sum(errors) / len(errors) <= most, counter


def test_every_large_error_has_a_cause_on_the_page():
    text = report.RESULTS.read_text()
    before = text.partition("<!-- tables -->")[0]
    for case, counter in report.large_errors(ROWS):
        named = [line for line in before.splitlines() if f"`{case}`" in line or f"**{counter}**" in line]
        assert named, (case, counter)
    assert text.endswith(report.pages(ROWS))


@pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
def test_a_benchmark_is_predicted_from_a_source_that_the_user_has(tmp_path, monkeypatch, capsys):
    (tmp_path / "dct8x8").mkdir()
    (tmp_path / "dct8x8" / "dct8x8.cu").write_text(TRANSFORM)
    monkeypatch.setattr(sys, "argv", ["counters", "--sources", str(tmp_path), "--cases", "dct8x8"])
    command.main()
    out = capsys.readouterr().out
    assert "| dct8x8 | L1 loads missed | 32,768 | 32,768 | +0.0 % |" in out
    with pytest.raises(TraceError, match=re.escape("has no file rodinia/cuda/hotspot/hotspot.cu")):
        study_case(("hotspot", tmp_path, False))


def test_a_source_is_found_below_any_part_of_its_path(tmp_path):
    (tmp_path / "hotspot").mkdir()
    file = tmp_path / "hotspot" / "hotspot.cu"
    file.write_text("")
    assert find_source(tmp_path, "rodinia/cuda/hotspot/hotspot.cu") == file
    assert find_source(tmp_path.parent, "rodinia/cuda/hotspot/hotspot.cu") == file
    assert next(iter(COUNTERS)) == "L1 loads hit"
