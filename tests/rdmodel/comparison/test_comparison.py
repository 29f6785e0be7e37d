"""Test `compare` and `agreement`: the runs, the options of the model, and the numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isnan

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel.comparison import compare as compare_module
from rdmodel.comparison.compare import DEFINITIONS
from rdmodel.comparison.values import SHARES
from rdmodel.errors import ConfigError, LaunchError, TraceError
from rdmodel.gpu.config import LatencyConfig
from rdmodel.model.machine_options import NEAREST_SCHED
from tests.support.builders import make_gpu, make_trace
from tests.support.comparisons import ATAX, LATENCY, hand_made, loads, stores
from tests.support.presets import FERMI


def perfect(simulation: rd.Simulation, prediction: rd.Prediction) -> rd.Prediction:
    """Return a prediction that equals the counts of the simulator."""
    return replace(
        prediction,
        transactions=simulation.loads,
        hits=simulation.hits,
        latency_misses=simulation.pending_hits,
        misses=simulation.misses,
    )


# ---- the numbers


KERNELS = {
    "atax.1": {"NX": 256, "NY": 64},
    "atax.2": {"NX": 64, "NY": 256},
    "gemm": {"NI": 32, "NJ": 32, "NK": 32},
}


@pytest.mark.parametrize("name", KERNELS)
def test_shares_are_parts_of_the_loads_and_errors_their_differences(name):
    result = rd.compare(tracegen.kernel(name, **KERNELS[name]), gpu=FERMI)
    for shares in (result.simulated, *(result.predicted(definition) for definition in DEFINITIONS)):
        assert tuple(shares) == SHARES
        assert shares["hits"] + shares["pending_hits"] + shares["misses"] == pytest.approx(1)
        assert shares["compulsory"] + shares["capacity"] + shares["associativity"] == pytest.approx(shares["misses"])
    for definition in DEFINITIONS:
        predicted, errors = result.predicted(definition), result.errors(definition)
        assert errors == {name: 100 * (predicted[name] - result.simulated[name]) for name in SHARES}
        assert result.error(definition) == errors["misses"]
        assert predicted["misses"] == pytest.approx(result.predictions[definition].miss_rate)
    assert result.simulated["misses"] == result.simulation.miss_rate


def test_equal_inputs_give_equal_outputs():
    assert rd.compare(ATAX, gpu=FERMI, seed=5) == rd.compare(ATAX, gpu=FERMI, seed=5)


def test_a_perfect_model_has_no_error_and_correlates():
    kernels = [hand_made(str(i), i / 10, 0) for i in range(1, 5)]
    ideal = [
        replace(one, predictions={"hardware": perfect(one.simulation, one.predictions["hardware"])}) for one in kernels
    ]
    for one in ideal:
        assert set(one.errors().values()) == {0.0}
    summary = rd.agreement(ideal)
    assert summary.mean_absolute_error == 0
    assert summary.correlation == pytest.approx(1)


def test_where_nothing_is_used_twice_model_and_simulator_agree_exactly():
    # Two blocks of one warp, 40 lines each, on one SM.
    stream = make_trace([[loads(*range(40))], [loads(*range(40, 80))]], warps=1)
    result = rd.compare(stream, make_gpu(), latency=LATENCY, sms=1)
    for definition in DEFINITIONS:
        assert set(result.errors(definition).values()) == {0.0}
    assert result.simulated["compulsory"] == 1


def test_on_one_sm_both_count_the_same_first_touches():
    result = rd.compare(tracegen.kernel("mvt.1", N=256), gpu=FERMI, sms=1, latency=LATENCY)
    counts = {result.predictions[definition].misses.compulsory for definition in DEFINITIONS}
    assert counts == {result.simulation.misses.compulsory}


# ---- what is run


@pytest.mark.parametrize("sched", NEAREST_SCHED)
def test_both_sides_are_what_simulate_and_predict_return_with_matching_options(sched):
    gpu = make_gpu()
    trace = make_trace([[loads(1, 9, 1, 17), stores(1)]] * 4, warps=2)
    result = rd.compare(trace, gpu, sched=sched, latency=LATENCY, seed=3, blocks=3)
    extent = {"blocks": 3, "model_sms": "all", "threads": None, "histogram": False, "seed": 3}
    times = {"lat_min": 90, "sigma": 3.5}
    matching = {"hit_latency": 7, "sched": NEAREST_SCHED[sched], "schedulers": gpu.core.schedulers}
    matching |= {"stall": "head", "stores": "evict"}
    assert result.simulation == rd.simulate(trace, gpu, sched=sched, blocks=3, seed=3)
    assert result.predictions["hardware"] == rd.predict(trace, gpu, **extent, **times, **matching)
    assert result.predictions["paper"] == rd.predict(trace, gpu, definition="paper", **extent, **times)


def test_the_gpus_own_scheduler_is_matched():
    gpu = make_gpu()
    gto = gpu.replace(core=replace(gpu.core, sched="gto"))
    result = rd.compare(make_trace([[loads(1)]], warps=1), gto, latency=LATENCY)
    assert result.predictions["hardware"].config["options"]["sched"] == "gto"


def options_of(result: rd.Comparison, name: str) -> list:
    return [result.predictions[definition].config["options"][name] for definition in DEFINITIONS]


@pytest.mark.parametrize(
    ("options", "hardware", "paper"),
    [
        ({"effects": "before"}, "after", "before"),
        ({"clip": False}, True, False),
        ({"full_set": "bypass"}, "bypass", "stall"),
        ({"stall": "park"}, "park", "park"),
        ({"stagger": np.int64(3)}, 3, 0),
        ({"stores": "step"}, "step", "free"),
        ({"stores": True}, "allocate", "allocate"),
        ({"stores": False}, "free", "free"),
        ({"cta": "waves"}, "waves", "waves"),
        ({"hit_latency": 4}, 4, 4),
        ({"threads": 64}, 64, 64),
        ({"model_sms": 2}, 2, 2),
        ({"lat_min": None}, 90, 90),
    ],
)
def test_an_option_goes_to_the_definitions_that_have_it(options, hardware, paper):
    (name,) = options
    assert options_of(rd.compare(ATAX, gpu=FERMI, latency=LATENCY, **options), name) == [hardware, paper]


def test_seeds_are_averaged_on_the_models_side():
    result = rd.compare(ATAX, gpu=FERMI, seeds=2)
    assert [len(result.predictions[definition].runs) for definition in DEFINITIONS] == [2, 2]


def test_one_definition_alone_can_be_compared():
    result = rd.compare(ATAX, gpu=FERMI, definitions=["paper", "paper"], effects="before")
    assert list(result.predictions) == ["paper"]
    with pytest.raises(ConfigError, match="definition='hardware': was not compared; must be paper"):
        result.error()


def test_checking_invariants_changes_nothing():
    assert rd.compare(ATAX, gpu=FERMI, check=True, latency=LATENCY) == rd.compare(ATAX, gpu=FERMI, latency=LATENCY)


def test_progress_goes_on_over_all_runs():
    seen: list[tuple[int, int]] = []
    rd.compare(tracegen.kernel("mvt.1", N=512), gpu=FERMI, progress=lambda *at: seen.append(at))
    begun, blocks = zip(*seen, strict=True)
    assert list(begun) == sorted(begun)
    assert set(blocks) == {3 * 2}
    assert max(begun) == 6


# ---- latencies


def test_the_latencies_are_those_given_else_the_gpus_else_fitted(monkeypatch):
    fits = []

    def fit(gpu: rd.GPU, **_: object) -> rd.Calibration:
        fits.append(gpu.sms)
        return rd.Calibration(gpu=gpu.name, latency=LATENCY, misses=1, error=0, patterns={})

    monkeypatch.setattr(compare_module, "calibrate", fit)
    gpu = rd.presets.gpu("gtx470-16k")
    assert rd.compare(ATAX, gpu).latency == gpu.calibrated
    assert rd.compare(ATAX, gpu, sms=14).latency == gpu.calibrated
    assert fits == []
    assert rd.compare(ATAX, gpu, sms=2).latency == LATENCY
    assert rd.compare(ATAX, gpu.replace(calibrated=None)).latency == LATENCY
    assert fits == [2, 14]
    given = rd.compare(ATAX, gpu, latency=LatencyConfig(lat_min=1, sigma=2, hit_latency=3), sigma=9)
    assert given.latency == LatencyConfig(lat_min=1, sigma=9, hit_latency=3)
    assert options_of(given, "sigma") == [9, 9]
    alone = rd.compare(ATAX, gpu.replace(calibrated=None), lat_min=np.int64(8), sigma=np.float64(9), hit_latency=1)
    assert alone.latency == LatencyConfig(lat_min=8, sigma=9.0, hit_latency=1)
    assert fits == [2, 14]


def test_a_machine_without_fitted_latencies_is_calibrated():
    gpu = make_gpu()
    result = rd.compare(make_trace([[loads(1, 2, 3)]], warps=1), gpu)
    assert result.latency == rd.calibrate(gpu).latency


# ---- agreement


def test_agreement_is_the_mean_error_the_correlation_and_the_worst():
    from scipy.stats import pearsonr

    rates = [(0.1, 0.15, 0.2), (0.5, 0.45, 0.1), (0.9, 0.97, 0.9), (0.3, 0.3, 0.0)]
    kernels = [hand_made(f"k{i}", *rate) for i, rate in enumerate(rates)]
    simulated, hardware, paper = np.array(rates).T
    for definition, predicted in (("hardware", hardware), ("paper", paper)):
        found = rd.agreement(iter(kernels), definition, worst=2)
        errors = 100 * (predicted - simulated)
        order = np.argsort(-np.abs(errors))[:2]
        assert (found.definition, found.kernels) == (definition, 4)
        assert found.mean_absolute_error == pytest.approx(np.abs(errors).mean())
        assert found.correlation == pytest.approx(pearsonr(predicted, simulated).statistic)
        assert [name for name, _ in found.worst] == [f"k{i}" for i in order]
        assert [error for _, error in found.worst] == pytest.approx(errors[order])
        plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert plain["worst"][0] == {"kernel": f"k{order[0]}", "error": found.worst[0][1]}


def test_there_is_no_correlation_of_two_kernels_or_of_what_does_not_vary():
    assert rd.agreement([hand_made("a", 0.1, 0.2), hand_made("b", 0.3, 0.5)]).correlation is None
    assert rd.agreement([hand_made("a", i / 10, 0.5) for i in range(4)]).correlation is None


def test_the_same_kernel_may_come_twice():
    found = rd.agreement([hand_made("a", 0.1, 0.2), hand_made("a", 0.1, 0.4)])
    assert found.mean_absolute_error == pytest.approx(20)
    assert [error for _, error in found.worst] == pytest.approx([30, 10])


# ---- forms


def test_a_comparison_is_json_and_one_row():
    result = rd.compare(ATAX, gpu=FERMI, latency=LATENCY)
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["latency"] == {"lat_min": 90, "sigma": 3.5, "hit_latency": 7}
    assert plain["errors"]["paper"] == result.errors("paper")
    assert plain["simulation"]["kernel"] == plain["predictions"]["hardware"]["kernel"] == plain["kernel"] == "atax.1"
    row = result.to_row()
    assert row["hardware_error"] == result.error()
    assert row["simulated_misses"] == 100 * result.simulation.miss_rate
    assert all(isinstance(value, str | int | float) for value in row.values())
    assert str(result) == "atax.1 on gtx470-16k: miss rate 3.12 %, hardware 3.12 (+0.00), paper 3.12 (+0.00)"


def test_a_comparison_is_a_data_frame_of_one_row():
    pytest.importorskip("pandas")
    assert rd.compare(ATAX, gpu=FERMI).to_frame().shape[0] == 1


# ---- mistakes


BAD: dict[str, tuple[dict, str]] = {
    "near miss": ({"stal": "park"}, "unknown option 'stal'; did you mean 'stall'"),
    "near miss of paper": ({"efects": "before"}, "did you mean 'effects'"),
    "definition": ({"definition": "paper"}, "unknown option 'definition'; did you mean 'definitions'"),
    "of the machine": ({"mshrs": 3}, "mshrs=3: is a field of the GPU's l1 here"),
    "value": ({"stall": "hed"}, "did you mean 'head'"),
    "negative": ({"stagger": -1}, "stagger=-1: must be at least 0"),
    "foreign": ({"effects": "before", "definitions": ["hardware"]}, "only the definition 'paper' has this option"),
    "foreign too": ({"gap": True, "definitions": ["paper"]}, "only the definition 'hardware' has this option"),
    "definitions": ({"definitions": ["papr"]}, "unknown definition 'papr'; did you mean 'paper'"),
    "one definition": ({"definitions": "paper"}, "definitions='paper': must be a list of hardware and paper"),
    "no definition": ({"definitions": []}, "must be a list"),
    "seed": ({"seed": -1}, "seed=-1: must be at least 0"),
    "seeds": ({"seeds": 0}, "seeds=0: must be at least 1"),
    "check": ({"check": "yes"}, "check='yes': must be True or False"),
    "sched": ({"sched": "random"}, "unknown value for sched: 'random'"),
    "sms": ({"sms": 0}, "sms=0: must be at least 1"),
    "blocks": ({"blocks": 0}, "blocks=0: must be at least 1"),
    "model_sms": ({"model_sms": 15}, "model_sms=15: must be at most 14, the number of SMs"),
    "latency": ({"latency": (100, 5)}, r"latency=\(100, 5\): must be a LatencyConfig"),
    "sigma": ({"sigma": float("nan")}, "sigma=nan: must be a finite number"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_is_refused_before_anything_runs(case, monkeypatch):
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("predict", "simulate", "calibrate"):
        monkeypatch.setattr(compare_module, name, never)
    options, message = BAD[case]
    with pytest.raises(ConfigError, match=message):
        rd.compare(ATAX, gpu=FERMI, **options)


@pytest.mark.parametrize("latency", [LATENCY, None])
def test_a_kernel_that_accesses_no_memory_has_no_rates_to_compare(latency):
    idle = rd.compare(make_trace([[[]]], warps=1), make_gpu(), latency=latency)
    assert (idle.has_loads, idle.simulation.cycles, str(idle)) == (False, 0, "random on small: no loads")
    json.dumps(idle.to_dict(), allow_nan=False)


def test_a_kernel_without_loads_has_no_rates_and_counts_for_no_agreement():
    silent = rd.compare(make_trace([[stores(1, 2)]], warps=1), make_gpu(), latency=LATENCY)
    assert (silent.has_loads, silent.simulation.stores) == (False, 2)
    assert isnan(silent.error())
    assert set(silent.to_dict()["errors"]["hardware"].values()) == {None}
    assert silent.to_row()["hardware_error"] is None
    json.dumps(silent.to_dict(), allow_nan=False)
    assert str(silent) == "random on small: no loads"
    loud = rd.compare(ATAX, gpu=FERMI, latency=LATENCY)
    assert rd.agreement([silent, loud]) == rd.agreement([loud])
    nothing = rd.agreement([silent])
    assert (nothing.kernels, nothing.worst, nothing.to_dict()["mean_absolute_error"]) == (0, (), None)


def test_what_is_no_trace_and_what_cannot_be_resident_are_told():
    with pytest.raises(TraceError, match="must be a Trace"):
        rd.compare("atax.1", gpu=FERMI)
    with pytest.raises(LaunchError, match="cannot be resident"):
        rd.compare(make_trace([[loads(1)] * 3], warps=3), make_gpu().replace(max_threads=64), latency=LATENCY)


def test_summaries_of_nothing_are_refused():
    with pytest.raises(ConfigError, match="must hold at least one comparison"):
        rd.agreement([])
    with pytest.raises(ConfigError, match="was not compared"):
        rd.agreement([hand_made("a", 0.1, 0.2)], "paper")
    with pytest.raises(ConfigError, match="worst=-1"):
        rd.agreement([hand_made("a", 0.1, 0.2)], worst=-1)
