"""Test `calibrate`: fits against SciPy, the access patterns, and the latencies stored with the presets."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import erf
from scipy.stats import halfnorm

import rdmodel as rd
from rdmodel import presets
from rdmodel.comparison import calibrate as calibrate_module
from rdmodel.comparison.calibrate import LOADS_PER_WARP, PART_SMS, PATTERNS, WARPS_PER_BLOCK, representative_part
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import LatencyConfig
from tests.support.builders import make_gpu
from tests.support.presets import FERMI

SMALL = make_gpu()


def drawn(lat_min: int, sigma: float, n: int = 20_000, seed: int = 0) -> np.ndarray:
    """Return latencies as the model draws them."""
    return lat_min + np.rint(np.abs(np.random.default_rng(seed).normal(0, sigma, n))).astype(np.int64)


# ---- measured latencies


@pytest.mark.parametrize(("lat_min", "sigma"), [(200, 40.0), (100, 5.0), (0, 700.0)])
def test_a_known_half_normal_is_recovered_as_scipy_fits_it(lat_min, sigma):
    samples = drawn(lat_min, sigma)
    found = rd.calibrate(gpu=FERMI, measured=samples)
    location, scale = halfnorm.fit(samples)
    assert found.latency == LatencyConfig(lat_min=int(location), sigma=round(scale, 1), hit_latency=20)
    assert found.latency.lat_min == lat_min
    assert found.latency.sigma == pytest.approx(sigma, rel=0.03)
    assert found.error < 0.02
    assert found.misses == len(samples)


def test_equal_latencies_have_no_spread():
    found = rd.calibrate(gpu=FERMI, measured=[321] * 5)
    assert (found.latency.lat_min, found.latency.sigma, found.error) == (321, 0.0, 0.0)


def test_an_ideal_memory_has_no_spread():
    misses = rd.simulate(PATTERNS["stream"](SMALL, 0), SMALL, memory=300, sms=1).miss_latencies
    found = rd.calibrate(gpu=FERMI, measured=np.repeat(misses.cycles, misses.counts)).latency
    assert (found.lat_min, found.sigma) == (300, 0.0)


def test_shape_order_and_type_of_the_samples_do_not_matter():
    samples = drawn(50, 9, n=600)
    plain = rd.calibrate(gpu=FERMI, measured=samples)
    assert rd.calibrate(gpu=FERMI, measured=samples[::-1].reshape(20, 30).tolist()) == plain
    assert rd.calibrate(gpu=FERMI, measured=samples.astype(np.uint16)) == plain
    assert rd.calibrate(gpu=FERMI, measured=samples + 0.3) == plain


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_is_the_largest_between_the_two_distributions(seed):
    samples = np.random.default_rng(seed).integers(0, 60, 12)
    found = rd.calibrate(gpu=FERMI, measured=samples)
    low, scale = found.latency.lat_min, max(found.latency.sigma, 1e-9)
    every = np.arange(low - 1, samples.max() + 2)
    shares = np.array([np.mean(samples <= cycle) for cycle in every])
    fitted = erf(np.maximum(every + 0.5 - low, 0) / (scale * np.sqrt(2)))
    assert found.error == pytest.approx(np.abs(shares - fitted).max())


@pytest.mark.parametrize(
    "measured",
    [
        *([], [[]], [float("nan"), 5], [5, float("inf")], [-1], [2.0**41], 1e300, [True, False], "100", ["100"]),
        *([None, 5], [3j], [[1, 2], [3]], {"a": 1}),
    ],
)
def test_what_is_no_latency_is_refused(measured):
    with pytest.raises(ConfigError, match="measured: must be latencies in cycles: at least one, each a number from 0"):
        rd.calibrate(gpu=FERMI, measured=measured)


@pytest.mark.parametrize("seed", [-1, 1.5, True])
def test_a_bad_seed_is_refused(seed):
    with pytest.raises(ConfigError, match="seed="):
        rd.calibrate(SMALL, seed=seed)


# ---- simulated latencies


def test_every_pattern_weighs_the_same():
    found = rd.calibrate(SMALL)
    samples = [rd.simulate(make(SMALL, 0), SMALL).miss_latencies for make in PATTERNS.values()]
    lat_min = min(one.cycles.min() for one in samples)
    squares = [one.counts @ (one.cycles - lat_min) ** 2.0 / one.counts.sum() for one in samples]
    assert found.latency.lat_min == lat_min
    assert found.latency.sigma == pytest.approx(np.sqrt(np.mean(squares)), abs=0.05)
    assert found.misses == sum(one.counts.sum() for one in samples)
    assert {name: row["mean"] for name, row in found.patterns.items()} == {
        name: one.mean for name, one in zip(PATTERNS, samples, strict=True)
    }


def test_equal_inputs_give_equal_outputs_and_the_seed_makes_the_random_pattern():
    found = rd.calibrate(SMALL, seed=1)
    assert found == rd.calibrate(SMALL, seed=1)
    other = rd.calibrate(SMALL, seed=2)
    assert {name for name in PATTERNS if found.patterns[name] != other.patterns[name]} == {"random"}


def test_a_slower_memory_is_seen():
    slow = SMALL.replace(dram=replace(SMALL.dram, latency=500), l2=replace(SMALL.l2, latency=400))
    fast, slower = rd.calibrate(SMALL), rd.calibrate(slow)
    assert slower.latency.lat_min > fast.latency.lat_min + 200
    assert all(slower.patterns[name]["mean"] > fast.patterns[name]["mean"] for name in PATTERNS)


def test_the_patterns_are_what_they_are_called():
    gpu = rd.presets.gpu("gtx470-16k").replace(sms=1)
    runs = {name: rd.simulate(make(gpu, 0), gpu) for name, make in PATTERNS.items()}
    assert runs["stream"].misses.compulsory == runs["stream"].loads == 2 * 6 * WARPS_PER_BLOCK * LOADS_PER_WARP
    assert runs["column"].loads == 32 * runs["stream"].loads
    assert runs["random"].l2.miss_rate > 0.8
    assert runs["resident"].miss_rate > 0.5
    assert runs["resident"].l2.miss_rate < 0.5


@pytest.mark.parametrize("line", [32, 256])
def test_a_stream_meets_nothing_twice_whatever_the_line(line):
    gpu = SMALL.replace(l1=replace(SMALL.l1, line=line))
    result = rd.simulate(PATTERNS["stream"](gpu, 0), gpu)
    assert result.misses.total == result.misses.compulsory == result.loads


@pytest.mark.parametrize(
    "limits", [{"max_threads": 64}, {"max_warps": 1}, {"max_block_threads": 32}, {"max_blocks": 1}]
)
def test_a_gpu_with_small_blocks_can_be_measured(limits):
    assert rd.calibrate(SMALL.replace(**limits)).misses > 0


def test_an_l2_of_one_line_can_be_measured():
    tiny = SMALL.replace(l2=replace(SMALL.l2, size=128, ways=1, slices=1))
    assert rd.calibrate(tiny).misses > 0


def test_progress_goes_on_over_all_patterns(monkeypatch):
    monkeypatch.setattr("rdmodel.simulator.machine_run.CYCLES_PER_PAUSE", 64)
    seen: list[tuple[int, int]] = []
    rd.calibrate(SMALL, progress=lambda *at: seen.append(at))
    begun, blocks = zip(*seen, strict=True)
    assert list(begun) == sorted(begun)
    assert len(set(blocks)) == 1
    assert max(begun) == blocks[0]


def test_a_fit_is_json():
    found = rd.calibrate(SMALL)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(plain["patterns"]) == list(PATTERNS)
    assert (plain["lat_min"], plain["sigma"], plain["gpu"]) == (found.latency.lat_min, found.latency.sigma, "small")


# ---- large machines


@pytest.mark.parametrize("name", ["a100-80g", "h100-sxm", "rtx4090", "v100"])
def test_the_part_of_a_large_machine_has_its_ratio_of_sms_to_slices(name):
    gpu = rd.presets.gpu(name)
    part = representative_part(gpu)
    assert part.sms in PART_SMS
    assert part.sms % part.l2.partitions == part.l2.slices % part.l2.partitions == 0
    assert part.sms / part.l2.slices == pytest.approx(gpu.sms / gpu.l2.slices, rel=0.03)
    assert (part.l1, part.l2.size, part.dram) == (gpu.l1, gpu.l2.size, gpu.dram)


@pytest.mark.parametrize("name", ["gtx470-16k", "wang-32k", "titan-x-pascal"])
def test_a_small_machine_is_simulated_as_a_whole(name):
    gpu = rd.presets.gpu(name)
    assert representative_part(gpu) is gpu


def test_latencies_of_a_large_machine_are_those_of_its_part(monkeypatch):
    monkeypatch.setattr(calibrate_module, "MOST_WHOLE_SMS", 4)
    monkeypatch.setattr(calibrate_module, "PART_SMS", range(1, 3))
    large = SMALL.replace(sms=8, l2=replace(SMALL.l2, slices=4))
    found = rd.calibrate(large)
    assert (found.sms, found.slices) == (2, 1)
    part = rd.calibrate(large.replace(sms=2, l2=replace(SMALL.l2, slices=1)))
    assert (found.latency, found.patterns) == (part.latency, part.patterns)


def test_a_gpu_whose_l1_serves_no_global_loads_is_refused_with_its_field():
    gpu = SMALL.replace(l1=replace(SMALL.l1, caches=("local",)))
    with pytest.raises(ConfigError, match=r"l1\.caches=local: global loads bypass the L1 of small"):
        rd.calibrate(gpu)


# ---- the presets


@pytest.mark.parametrize("name", [name for name in presets.names() if "global" in presets.gpu(name).l1.caches])
def test_every_preset_says_which_command_fitted_its_latencies(name):
    gpu = rd.presets.gpu(name)
    assert gpu.calibrated is not None
    assert gpu.sources["calibrated"] == f"fitted to the simulator by: rdmodel calibrate {name}"
    assert gpu.calibrated.hit_latency == gpu.core.hit_latency


def test_the_latencies_kept_with_a_preset_are_those_of_its_command():
    # The others are fitted by the same command, and take as long.
    assert rd.calibrate("gtx480-khairy").latency == rd.presets.gpu("gtx480-khairy").calibrated
