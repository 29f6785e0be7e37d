"""Check the rates of GPUs: tables by compute capability, numbers of data sheets, and overrides."""

import json
import re

import pytest

import rdmodel as rd
from rdmodel import presets
from rdmodel.cli import main
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import gpu_from_dict
from rdmodel.gpu.overrides import OVERRIDE_SOURCE, override
from rdmodel.gpu.rates import MAY_BE_ZERO, RATE_NAMES, SHARES_OF_PEAKS

ORIGIN = re.compile(
    r"NVIDIA[,:]|CUDA C|[A-Za-z0-9-]+/[A-Za-z-]+@[0-9a-f]+, |validation/[a-z0-9]+/|inferred[ ,:]|"
    r"(Jia|Abdelkhalik) et al\.|Mei and Chu"
)

# Peaks of data sheets, in TFLOP/s: FP32, FP64, and matrix products of FP16 with FP32 sums.
PEAKS = {
    "p100": (9.5, 4.8, 0), "v100": (14.1, 7.1, 113), "t4": (8.1, 0.25, 65), "a100-40g": (19.5, 9.7, 312),
    "rtx3090": (35.6, 0.56, 71), "a4000": (19.2, 0.30, 76.7), "a6000": (38.7, 0.60, 154.8),
    "rtx4090": (82.6, 1.29, 165), "h100-sxm": (66.9, 33.5, 1070), "rtx5090": (87.5, 1.37, 175),
}  # fmt: skip


@pytest.mark.parametrize("name", PEAKS)
def test_rates_give_the_peaks_of_data_sheets_at_the_clock_of_the_preset(name):
    gpu = presets.gpu(name)
    rates, _ = presets.rates_of(gpu)
    tera = gpu.sms * gpu.clock * 1e6 / 1e12
    found = 2 * rates["fp32"] * tera, 2 * rates["fp64"] * tera, rates["matrix_fp16"] * tera
    assert found == pytest.approx(PEAKS[name], rel=0.03)


# Peaks of matrix products of FP16 with FP16 sums, in TFLOP/s: GeForce has half of them with FP32 sums.
HALF_SUM_PEAKS = {
    "v100": 113, "t4": 65, "a100-40g": 312, "rtx3070": 81.3, "rtx3090": 142, "a6000": 154.8, "rtx4090": 330.3,
    "rtx5090": 350, "h100-sxm": 1070,
}  # fmt: skip


@pytest.mark.parametrize("name", HALF_SUM_PEAKS)
def test_sums_in_half_precision_have_the_peaks_of_data_sheets(name):
    gpu = presets.gpu(name)
    rates, _ = presets.rates_of(gpu)
    assert rates["matrix_fp16_fp16"] * gpu.sms * gpu.clock / 1e6 == pytest.approx(HALF_SUM_PEAKS[name], rel=0.03)


def test_geforce_gpus_have_twice_the_rate_with_sums_in_half_precision():
    found = {name: presets.rates_of(presets.gpu(name))[0] for name in presets.names()}
    twice = {name for name, rates in found.items() if rates["matrix_fp16_fp16"] == 2 * rates["matrix_fp16"] > 0}
    assert twice == {"rtx2080ti", "rtx3070", "rtx3090", "rtx4090", "rtx5090"}
    same = found.keys() - twice
    assert all(found[name]["matrix_fp16_fp16"] == found[name]["matrix_fp16"] for name in same)
    assert all(found[name]["matrix_fp8_fp16"] == found[name]["matrix_fp8"] for name in same)
    assert {n for n in twice if found[n]["matrix_fp8_fp16"] == 2 * found[n]["matrix_fp8"] > 0} == {"rtx4090", "rtx5090"}


def test_every_preset_has_every_rate_with_a_source():
    for name in presets.names():
        rates, sources = presets.rates_of(presets.gpu(name))
        assert rates.keys() == sources.keys() == set(RATE_NAMES), name
        assert all(value > 0 or rate in MAY_BE_ZERO for rate, value in rates.items()), name
        assert all(rates[rate] <= 1 for rate in SHARES_OF_PEAKS), name
        assert all(ORIGIN.match(text) for text in sources.values())


def test_a_rate_can_be_overridden_and_is_kept_in_the_description():
    a100 = presets.gpu("a100-40g")
    changed = override(a100, {"rates.fp32": "128", "rates.dram_efficiency": "0.8"})
    assert changed.calibrated == a100.calibrated  # the simulator reads no rates
    rates, sources = presets.rates_of(changed)
    assert (rates["fp32"], rates["dram_efficiency"], rates["fp64"]) == (128, 0.8, 32)
    assert sources["fp32"] == OVERRIDE_SOURCE
    assert gpu_from_dict(changed.to_dict()) == changed
    assert "rates" not in a100.to_dict()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("rates.fp32", "0", r"rates\.fp32=0: must be above 0"),
        ("rates.l2_efficiency", "1.5", r"rates\.l2_efficiency=1\.5: must be at most 1, the peak"),
        ("rates.issue", "-1", r"rates\.issue=-1: must be a finite number of at least 0"),
        ("rates.fp31", "1", r"unknown key 'rates\.fp31'; did you mean"),
    ],
)
def test_a_rate_that_makes_no_sense_is_refused(key, value, message):
    with pytest.raises(ConfigError, match=message):
        override(presets.gpu("a100-40g"), {key: value})


def test_a_gpu_without_a_table_of_its_own_has_the_nearest_earlier_one():
    thor = presets.gpu("b200").replace(sources={"architecture": "NVIDIA: compute capability 11.0"})
    assert presets.rates_of(thor) == presets.rates_of(presets.gpu("b200"))
    l1 = presets.gpu("gtx470-16k").l1
    unknown = rd.GPU(name="mine", sms=1, max_threads=1024, max_blocks=8, max_warps=32, l1=l1)
    with pytest.raises(ConfigError, match=r"architecture='': must be one of Fermi, "):
        presets.rates_of(unknown)


def test_the_command_prints_rates_with_their_sources(capsys):
    assert main(["gpus", "a4000", "--set", "rates.issue=2", "--rates"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^issue +2  set by the user$", out, re.M)
    assert re.search(r"^fp32 +128  CUDA C\+\+ Programming Guide", out, re.M)
    assert main(["gpus", "a4000", "--rates", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rates"]["fp32"] == 128
    assert main(["gpus", "--rates"]) == 2
    assert "--rates: needs a GPU" in capsys.readouterr().err
