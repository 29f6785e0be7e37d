"""Miss ratios of a sample of lines: against a naive SHARDS, exact curves, and how often intervals hold."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
from rdmodel import predict
from rdmodel.errors import ConfigError, TraceError
from rdmodel.model.options import Options
from rdmodel.model.round_robin import kernel_histogram
from rdmodel.reuse.sampled import SampledCurve, SampledHistogram
from rdmodel.reuse.shards import HASH_VALUES
from tests.support.builders import BUSY, load, make_gpu, make_trace, store
from tests.support.examples import examples

PARTS = 16
WORD = (1 << 64) - 1


def naive_hash(line: int, seed: int) -> int:
    """Return a line's hash, by Python's integers."""
    salt = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    x = (line + salt) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return (x ^ (x >> 31)) >> 11


def naive_shards(lines, rate, seed):
    """Return {(distance, part): accesses} among the sampled lines, by a list as the stack; -1 = infinite."""
    limit = max(1, round(rate * HASH_VALUES))
    stack, counts = [], {}
    for line in lines:
        if (own := naive_hash(line, seed)) >= limit:
            continue
        distance = stack.index(line) if line in stack else -1
        if distance >= 0:
            stack.remove(line)
        stack.insert(0, line)
        at = (distance, own * PARTS // limit)
        counts[at] = counts.get(at, 0) + 1
    return counts, len(stack)


def counted(found: SampledHistogram):
    cells = {(d, part): int(n) for d, row in enumerate(found.counts) for part, n in enumerate(row) if n}
    return cells | {(-1, part): int(n) for part, n in enumerate(found.infinite) if n}


def naive_curve(lines, rate, seed, size):
    """Return the miss ratio with SHARDS-adj: what the sample lacks, or has too much, are hits at distance 0."""
    counts, _ = naive_shards(lines, rate, seed)
    misses = sum(n for (distance, _), n in counts.items() if distance < 0 or distance / rate >= size)
    return 1.0 if size == 0 else min(1.0, misses / (rate * len(lines)))


STREAMS = st.lists(st.integers(-40, 40), min_size=1, max_size=200)


# ---- against naive code


@given(STREAMS, st.sampled_from([1.0, 0.75, 0.5, 0.25]), st.integers(0, 9))
def test_the_compiled_sample_is_the_naive_one(lines, rate, seed):
    counts, distinct = naive_shards(lines, rate, seed)
    if distinct == 0:
        with pytest.raises(TraceError, match=rf"^sample={rate:g}: no line is in the sample; choose a larger sample$"):
            rd.histogram(lines, sample=rate, seed=seed)
        return
    found = rd.histogram(lines, sample=rate, seed=seed)
    assert counted(found) == counts
    assert (found.total, found.lines) == (len(lines), distinct)
    assert found.followed == sum(counts.values())
    sizes = [0, 1, 2, 3, 7, 20, 100]
    curve = rd.miss_ratio_curve(lines, sizes, sample=rate, seed=seed)
    assert curve.miss_ratios.tolist() == pytest.approx([naive_curve(lines, rate, seed, size) for size in sizes])


@given(STREAMS, st.integers(0, 9))
def test_a_sample_of_all_lines_is_exact_and_its_intervals_have_no_width(lines, seed):
    found = rd.histogram(lines, sample=1.0, seed=seed)
    assert found.scaled() == rd.histogram(lines)
    exact, curve = rd.miss_ratio_curve(lines), found.miss_ratio_curve()
    assert curve.sizes.tolist() == exact.sizes.tolist()
    for (_, ratio), one in zip(exact, curve.estimates(), strict=True):
        assert one.value == one.low == one.high == ratio
        assert one.standard_error == 0


LINES = st.lists(st.integers(0, 30), min_size=1, max_size=4, unique=True)
INSTRUCTIONS = st.lists(st.tuples(st.booleans(), LINES), max_size=6)


@given(
    program=st.lists(st.lists(INSTRUCTIONS, min_size=2, max_size=2), min_size=1, max_size=7),
    model_sms=st.integers(1, 2),
    slots=st.integers(1, 3),
    rate=st.sampled_from([1.0, 0.5]),
)
@examples(60)
def test_warps_that_take_turns_ask_in_the_order_of_the_model_without_latencies(program, model_sms, slots, rate):
    blocks = [
        [[store(*lines) if stores else load(*lines) for stores, lines in warp] for warp in block] for block in program
    ]
    trace = make_trace(blocks, warps=2)
    gpu = make_gpu(mshrs=None).replace(max_blocks=slots)
    gpu = gpu.replace(l1=dataclasses.replace(gpu.l1, ways=gpu.l1.lines))
    options = Options(definition="paper", model_sms=model_sms).resolve(gpu)
    turns = {"lat_min": 0, "sigma": 0.0, "hit_latency": 0, "divergence": False}
    exact = predict(trace, gpu, definition="paper", model_sms=model_sms, **turns)
    if not exact.transactions:
        with pytest.raises(TraceError, match="hold no loads"):
            kernel_histogram(trace, gpu, options, rate, 0)
        return
    try:
        found = kernel_histogram(trace, gpu, options, rate, 0)
    except TraceError:
        assert rate < 1
        return
    assert found.total == exact.transactions
    if rate == 1:
        assert found.scaled() == exact.histogram


def test_progress_counts_the_blocks():
    seen = []
    gpu = make_gpu()
    kernel_histogram(BUSY, gpu, Options(definition="paper").resolve(gpu), 1.0, 0, lambda *at: seen.append(at))
    assert seen == [(i, 4) for i in range(1, 5)]


# ---- how often intervals hold, where the answer is known


def held(lines, sizes, rate, seeds=100):
    exact = rd.miss_ratio_curve(lines, sizes)
    curves = [rd.miss_ratio_curve(lines, sizes, sample=rate, seed=seed) for seed in range(seeds)]
    return [sum(exact.at(size) in curve.estimate(size) for curve in curves) / seeds for size in sizes]


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(RNG.integers(0, 3000, 60_000), id="uniform"),
        pytest.param(RNG.zipf(1.3, 60_000) % 10_000, id="zipf"),
        pytest.param(np.arange(60_000), id="streaming"),
        pytest.param(np.tile(np.arange(2000), 30), id="loop"),
        pytest.param((RNG.normal(0, 400, 60_000) + np.arange(60_000) / 25).astype(np.int64), id="window"),
    ],
)
def test_intervals_hold_about_as_often_as_they_should(lines):
    # 0.83 is five standard deviations of 100 answers below 0.95, and more than one below what skewed samples reach.
    assert min(held(lines, [256, 1024, 4096], 0.1)) >= 0.83


def test_hashes_of_neighbours_have_nothing_to_do_with_each_other():
    lines = np.arange(1 << 16) + (1 << 21)
    kept = np.array([rd.histogram(lines, sample=0.1, seed=seed).lines for seed in range(40)])
    off = (kept - 0.1 * len(lines)) / (len(lines) * 0.1 * 0.9) ** 0.5
    assert abs(off.mean()) < 0.8
    assert 0.6 < off.std() < 1.5


# ---- results and refusals


def test_a_sampled_curve_says_what_it_is():
    lines = RNG.integers(0, 3000, 20_000)
    curve = rd.miss_ratio_curve(lines, [100, 1000], sample=0.2, seed=3)
    assert isinstance(curve, SampledCurve)
    one = curve.estimate(1000)
    assert one.value == curve.at(1000)
    assert one.low < one.value < one.high
    assert one.sampled.endswith(" lines, 20 % of all hashes")
    assert curve.to_dict().keys() == {"sizes", "miss_ratios", "standard_errors", "lows", "highs"}
    assert one.to_dict().keys() >= {"value", "standard_error", "low", "high", "confidence", "sampled"}
    assert "95 % interval" in str(one)
    with pytest.raises(ConfigError, match=r"^size=7: not on the curve"):
        curve.estimate(7)


@pytest.mark.parametrize("sample", [0, -0.1, 1.01, float("nan"), float("inf"), True, "0.1"])
def test_a_rate_is_a_number_above_0_and_at_most_1(sample):
    with pytest.raises(ConfigError, match=r"^sample=.*: must be a number above 0 and at most 1$"):
        rd.histogram([1, 2], sample=sample)


def test_what_cannot_be_sampled_is_refused():
    with pytest.raises(ConfigError, match="only a stream of lines can be sampled"):
        rd.miss_ratio_curve(rd.histogram([1, 2]), sample=0.5)
    with pytest.raises(ConfigError, match=r"^seed=-1: must be at least 0$"):
        rd.histogram([1, 2], sample=0.5, seed=-1)
    with pytest.raises(TraceError, match="at least one access"):
        rd.histogram([], sample=0.5)


def test_the_command_shows_estimate_and_interval(run):
    status, out, err = run("mrc", "atax.1", "--param", "NX=256", "--param", "NY=256", "--sample", "0.5")
    assert (status, err) == (0, "")
    assert "95 % interval" in out
    assert "50 % of all hashes" in out
    status, out, _ = run("mrc", "atax.1", "--param", "NX=256", "--param", "NY=256", "--sample", "0.5", "--csv")
    assert out.startswith("lines,bytes,miss_ratio,standard_error,low,high\n")


def test_the_command_at_rate_1_says_what_it_says_without_a_sample(run):
    import json

    size = ("atax.1", "--param", "NX=256", "--param", "NY=256", "--json", "--model-sms", "2")
    plain, sampled = (json.loads(run("mrc", *size, *more)[1]) for more in ((), ("--sample", "1")))
    assert sampled["histogram"] == plain["histogram"]
    assert sampled["transactions"] == plain["transactions"]
    for one, other in zip(sampled["curve"], plain["curve"], strict=False):
        assert {k: one[k] for k in other} == other
        assert one["low"] == one["high"] == one["miss_ratio"]


def test_a_sample_has_no_schedule(run):
    status, _, err = run("mrc", "atax.1", "--sample", "0.5", "--order", "hardware")
    assert status == 2
    assert (
        err == "rdmodel: error: sample cannot be combined with order='hardware': the schedule of a definition "
        "needs all lines; use --order round-robin\n"
    )
