"""Samples of SMs and of blocks: laws, estimators over all samples that there are, and how often intervals hold."""

from __future__ import annotations

import itertools
import json
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import predict
from rdmodel.common.intervals import Estimate, student_estimate, student_quantile
from rdmodel.errors import ConfigError
from rdmodel.model.averages import subtract_counts
from rdmodel.model.dealing import deal
from rdmodel.model.monitor import RunMonitor
from rdmodel.model.options import Options
from rdmodel.model.run import ModelRun
from rdmodel.model.sample_blocks import (
    DRIFT_WEIGHT,
    LEAD_IN_WAVES,
    MAX_SAMPLED_SHARE,
    SHARED_ERROR,
    WARMUP_WAVES,
    WAVES_PER_STRETCH,
    SampledSm,
    Stretch,
    StretchPlan,
    estimate_from_stretches,
    plan_stretches,
)
from rdmodel.model.sample_sms import Stratum, choose_sms, estimate_from_sms, make_strata
from rdmodel.model.sampled_runs import SampledBlocksRun
from rdmodel.results.counts import MissCounts, SmCounts, StoreCounts
from tests.support.builders import BUSY, load, make_gpu, make_trace

SMALL = make_gpu()
BOTH = pytest.mark.parametrize("definition", ["hardware", "paper"])


def many_blocks(blocks: int, seed: int = 0):
    """Return a trace of blocks that load lines of their own and lines that all share."""
    rng = np.random.default_rng(seed)

    def warp(block: int):
        own = 100 + 10 * block + rng.integers(0, 10, 4)
        shared = rng.integers(0, 40, 8)
        return [load(int(line)) for line in rng.permutation(np.concatenate([own, shared]))]

    return make_trace([[warp(block), warp(block)] for block in range(blocks)], warps=2)


MANY = many_blocks(120)
MORE = many_blocks(200)


def counts(sm: int, transactions: int, hits: int, misses: tuple[int, int, int], blocks: int = 1) -> SmCounts:
    return SmCounts(
        sm=sm,
        blocks=blocks,
        requests=transactions,
        transactions=transactions,
        sectors=transactions,
        hits=hits,
        latency_misses=transactions - hits - sum(misses),
        misses=MissCounts(*misses),
        tag_misses=sum(misses),
        sector_misses=0,
        stores=StoreCounts(),
        stalls_mshr=0,
        stalls_ways=0,
        bypassed=0,
        steps=transactions,
    )


def random_counts(number: int, same_work: bool) -> list[SmCounts]:
    rng = np.random.default_rng(number)
    whole = rng.integers(500, 900, number)
    if same_work:
        whole[:] = 700
    return [
        counts(i, int(n), int(rng.integers(50, 300)), tuple(rng.integers(0, 60, 3).tolist()))
        for i, n in enumerate(whole)
    ]


# ---- Estimate


def test_an_interval_is_student_s_and_stays_where_values_can_be():
    one = student_estimate(0.95, 0.04**2, 3, "4 of 9 SMs", most=1.0)
    assert student_quantile(3) == pytest.approx(3.182446, abs=1e-6)
    assert (one.low, one.high) == (pytest.approx(0.95 - 3.182446 * 0.04), 1.0)
    assert one.standard_error == pytest.approx(0.04)
    assert 0.9 in one
    assert 0.5 not in one
    assert str(one).startswith("0.95 (95 % interval 0.82")
    exact = student_estimate(0.3, 0.0, 3, "all")
    assert (exact.low, exact.high, exact.standard_error) == (0.3, 0.3, 0.0)


# ---- SMs


@BOTH
def test_a_sample_of_all_sms_is_exact_and_its_intervals_have_no_width(definition):
    gpu = SMALL.replace(sms=5)
    exact = predict(BUSY, gpu, definition=definition, model_sms=5)
    found = predict(BUSY, gpu, definition=definition, sample_sms=5)
    assert found.per_sm == exact.per_sm
    assert found.histogram == exact.histogram
    for name, one in found.estimates.items():
        assert isinstance(one, Estimate)
        assert one.low == one.value == one.high
        value = exact.misses.total if name == "misses" else getattr(exact, name, None) or getattr(exact.misses, name)
        assert one.value == pytest.approx(value)


@BOTH
def test_an_sm_counts_the_same_in_a_sample_as_among_all(definition):
    gpu = SMALL.replace(sms=8)
    exact = predict(MANY, gpu, definition=definition, model_sms=8, seed=3)
    found = predict(MANY, gpu, definition=definition, sample_sms=3, seed=3)  # 15 blocks on each
    chosen = found.config["sample_sms"]
    assert len(chosen) == found.sms_modelled == 3
    assert found.per_sm == tuple(exact.per_sm[sm] for sm in chosen)
    assert found.estimates["miss_rate"].value == pytest.approx(found.miss_rate)
    assert found.estimates["miss_rate"].sampled == "3 of 8 SMs"


def test_sms_are_chosen_by_the_seed_and_each_as_likely():
    chosen = [tuple(*choose_sms([range(6)], 3, seed)) for seed in range(400)]
    assert chosen == [tuple(*choose_sms([range(6)], 3, seed)) for seed in range(400)]
    often = np.bincount(np.concatenate(chosen), minlength=6)
    assert abs(often - 200).max() < 50
    assert len(set(chosen)) == comb(6, 3)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(2, 30), st.integers(0, 5))
def test_every_group_of_sms_has_its_share(sizes, size, seed):
    groups = [[100 * number + at for at in range(count)] for number, count in enumerate(sizes)]
    least = sum(min(2, count) for count in sizes)
    if size < least:
        with pytest.raises(ConfigError, match=rf"^sample_sms={size}: must be at least {least}, for"):
            choose_sms(groups, size, seed)
        return
    chosen = choose_sms(groups, size, seed)
    assert sum(map(len, chosen)) == min(size, sum(sizes))
    for some, group in zip(chosen, groups, strict=True):
        assert sorted(set(some)) == some
        assert set(some) <= set(group)
        assert len(some) >= min(2, len(group))


def test_sms_with_two_blocks_are_sampled_apart_from_those_with_one():
    assert make_strata({0: 2, 1: 2, 2: 1, 3: 1, 4: 0}) == [[2, 3], [0, 1]]
    assert make_strata({0: 12, 1: 11, 2: 11}) == [[0, 1, 2]]
    trace = many_blocks(8)
    gpu = SMALL.replace(sms=6)
    held = []
    for seed in range(40):
        exact = predict(trace, gpu, model_sms=6, seed=seed, histogram=False).miss_rate
        one = predict(trace, gpu, sample_sms=4, seed=seed, histogram=False)
        assert {0, 1} <= set(one.config["sample_sms"])
        held.append(exact in one.estimates["miss_rate"])
    assert np.mean(held) > 0.8


def test_sms_without_blocks_are_left_out():
    gpu = SMALL.replace(sms=14)
    found = predict(BUSY, gpu, sample_sms=12)
    assert found.sms_modelled == BUSY.launch.blocks
    assert found.estimates["transactions"].value == predict(BUSY, gpu, model_sms=14).transactions


def test_over_all_samples_the_estimated_total_and_its_variance_are_right_on_average():
    # With as many blocks everywhere, the ratio estimate of a total is the plain expansion: unbiased, and so is the
    # variance (Cochran, Sampling Techniques, theorem 2.4).
    whole = random_counts(9, same_work=False)
    totals, variances = [], []
    for sample in itertools.combinations(whole, 4):
        one = estimate_from_sms([Stratum(sample, 9, 9)])["misses"]
        totals.append(one.value)
        variances.append(one.standard_error**2)
    assert np.mean(totals) == pytest.approx(sum(sm.misses.total for sm in whole))
    assert np.mean(variances) == pytest.approx(np.var(totals))


def test_over_all_samples_rates_hold_about_as_often_as_they_should():
    for same_work in (True, False):
        whole = random_counts(12, same_work)
        exact = sum(sm.misses.total for sm in whole) / sum(sm.transactions for sm in whole)
        samples = list(itertools.combinations(whole, 4))
        held = [exact in estimate_from_sms([Stratum(sample, 12, 12)])["miss_rate"] for sample in samples]
        assert 0.88 < np.mean(held) <= 1


def test_the_rate_is_estimated_as_by_hand():
    sample = [counts(0, 100, 50, (20, 20, 0)), counts(1, 300, 150, (30, 60, 0))]
    one = estimate_from_sms([Stratum(sample, 4, 4)])["miss_rate"]
    rate = 130 / 400
    off = [40 - rate * 100, 90 - rate * 300]
    variance = (1 - 2 / 4) / 2 * sum(x * x for x in off) / (200**2)
    assert one.value == rate
    assert one.standard_error == pytest.approx(variance**0.5)


# ---- blocks


@given(st.integers(0, 3000), st.integers(1, 8), st.floats(0.01, 1), st.integers(0, 3))
def test_a_plan_has_both_ends_and_whole_stretches_in_between(blocks, resident, share, seed):
    found = plan_stretches(blocks, resident, share, seed, 0)
    if not found.chosen:
        assert found.parts == (Stretch(0, 0, blocks),)
        return
    head, tail = found.ends
    waves = min(WARMUP_WAVES, blocks // resident // 4)
    long = resident * (WAVES_PER_STRETCH if waves == WARMUP_WAVES else WAVES_PER_STRETCH // 2)
    assert (head.begin, head.first, head.last) == (0, 0, waves * resident)
    assert (tail.first, tail.last) == (head.last + long * found.stretches, blocks)
    assert tail.last - tail.first >= LEAD_IN_WAVES * resident
    assert 4 <= len(found.chosen) < found.stretches
    assert all(stretch.last - stretch.first == long for stretch in found.chosen)
    assert all((stretch.first - head.last) % long == 0 for stretch in found.chosen)
    for earlier, part in itertools.pairwise(found.parts):
        assert earlier.last <= part.begin <= part.first < part.last  # no block is run twice
        assert part.first - part.begin == (0 if earlier.last == part.first else LEAD_IN_WAVES * resident)
    assert found.blocks_run <= MAX_SAMPLED_SHARE * blocks


def test_whether_there_is_a_sample_does_not_depend_on_what_is_chosen():
    for blocks in range(150, 400, 10):
        assert len({bool(plan_stretches(blocks, 6, 0.3, seed, 0).chosen) for seed in range(30)}) == 1


@BOTH
def test_all_blocks_are_exact_and_the_intervals_have_no_width(definition):
    exact = predict(MANY, SMALL, definition=definition, histogram=False)
    found = predict(MANY, SMALL, definition=definition, sample_blocks=1.0)
    assert found.per_sm == exact.per_sm
    for one in found.estimates.values():
        assert one.low == one.value == one.high
        assert one.sampled == "60 of 60 blocks"
    assert found.estimates["miss_rate"].value == exact.miss_rate


def run_in_parts(definition: str, *parts: Stretch) -> tuple[SmCounts, ...]:
    """Return what each part of `MANY` counted, and what the wave before it did, on one SM with 2 resident blocks."""
    options = Options(definition=definition, threads=None, sms=1).resolve(SMALL)
    plan = StretchPlan((parts[0], parts[-1]), parts[1:-1], 0, 120)
    [part] = SampledBlocksRun(MANY, SMALL, options, False, False, 0, ((0, range(120)),), 2, (plan,)).parts()
    return tuple(part(RunMonitor(1, None).new_timer()).counts)


def counts_when_blocks_begin(definition: str, blocks: list[int]) -> list[SmCounts]:
    """Return what one SM with just these blocks has counted when each begins, and at the end."""
    options = Options(definition=definition, threads=None, sms=1).resolve(SMALL)
    sm = ModelRun(MANY, SMALL, options, False, False, 0, ((0, range(120)),), 2)._sm(0, RunMonitor(1, None).new_timer())
    found = []
    for block in (*blocks, None, None):
        assert sm.run_to_block()
        found.append(sm.counts())
        sm.give_block(block)
    assert not sm.run_to_block()
    return [*found[: len(blocks)], sm.counts()]


def sum_of(sms) -> dict[str, float]:
    names = ("blocks", "transactions", "hits", "latency_misses", "stalls_mshr", "stalls_ways", "bypassed", "steps")
    causes = ("compulsory", "capacity", "associativity")
    totals = {name: sum(getattr(sm, name) for sm in sms) for name in names}
    return totals | {cause: sum(getattr(sm.misses, cause) for sm in sms) for cause in causes}


@BOTH
def test_stretches_without_a_gap_add_up_to_the_run(definition):
    found = run_in_parts(definition, *(Stretch(a, a, b) for a, b in itertools.pairwise((0, 7, 30, 31, 90, 120))))
    exact = predict(MANY, SMALL, definition=definition, threads=None, sms=1, histogram=False).per_sm
    assert sum_of(found[::2]) == sum_of(exact)
    assert not any(sum_of(found[1::2]).values())  # nothing was skipped, so nothing stands before a part


@BOTH
def test_parts_count_what_an_sm_counts_that_has_only_their_blocks(definition):
    parts = (Stretch(0, 0, 20), Stretch(36, 40, 48), Stretch(48, 48, 56), Stretch(70, 74, 82), Stretch(100, 104, 120))
    found = run_in_parts(definition, *parts)
    order = [block for part in parts for block in range(part.begin, part.last)]
    seen = counts_when_blocks_begin(definition, order)
    at = {block: place for place, block in enumerate(order)}
    for number, part in enumerate(parts):
        counted, before = found[2 * number : 2 * number + 2]
        first, last = seen[at[part.first]], seen[at[part.last - 1] + 1]
        assert counted == subtract_counts(last, first)
        assert before == subtract_counts(first, seen[at[part.first - 2]] if part.begin < part.first else first)
    assert deal(MANY.launch, Options(threads=None, sms=1).resolve(SMALL))[0] == range(120)


def test_what_lies_between_two_counts_is_their_difference():
    after, before = counts(1, 100, 50, (20, 20, 5), blocks=9), counts(1, 60, 30, (20, 5, 0), blocks=4)
    assert subtract_counts(after, before) == counts(1, 40, 20, (0, 15, 5), blocks=5)


def sampled(head: SmCounts, chosen, tail: SmCounts, before=None) -> SampledSm:
    """Return an SM of 8 stretches of 4 blocks, some of them chosen; what stands before each is like it by default."""
    ends = (Stretch(0, 0, 4), Stretch(36, 36, 40))
    counted = (head, *chosen, tail)
    return SampledSm(StretchPlan(ends, (Stretch(4, 4, 8),) * len(chosen), 8, 40), counted, before or counted)


def test_over_all_choices_of_stretches_totals_are_right_and_variances_not_too_small_on_average(monkeypatch):
    monkeypatch.setattr("rdmodel.model.sample_blocks.SHARED_ERROR", 0.0)
    whole, (head, tail) = random_counts(8, same_work=False), random_counts(2, same_work=False)
    found = [
        estimate_from_stretches([sampled(head, some, tail)])["misses"] for some in itertools.combinations(whole, 3)
    ]
    totals = [one.value for one in found]
    assert np.mean(totals) == pytest.approx(sum(sm.misses.total for sm in (*whole, head, tail)))
    # As for draws from without end: the same stretches of another run would count something else.
    assert np.mean([one.standard_error**2 for one in found]) * (1 - 3 / 8) == pytest.approx(np.var(totals))


def test_what_a_skip_leaves_and_what_no_stretch_shows_make_intervals_wider():
    warm, cold = counts(0, 100, 90, (10, 0, 0), blocks=4), counts(0, 100, 50, (50, 0, 0), blocks=4)
    same = estimate_from_stretches([sampled(warm, (warm,) * 4, warm)])
    drifted = estimate_from_stretches([sampled(warm, (warm,) * 4, warm, before=(cold,) * 6)])
    least = 8 / 4**0.5  # stretches that agree are taken to vary by a request
    shared = SHARED_ERROR / 4**0.5 * 10 * 8
    assert same["misses"].standard_error == pytest.approx((least**2 + shared**2) ** 0.5)
    assert same["hits"].standard_error == same["misses"].standard_error
    assert same["transactions"].standard_error == 0
    assert drifted["miss_rate"].value == same["miss_rate"].value == 0.1
    left = DRIFT_WEIGHT * 40 * 8
    assert drifted["misses"].standard_error == pytest.approx((left**2 + least**2 + shared**2) ** 0.5)
    assert drifted["miss_rate"].standard_error == pytest.approx(drifted["misses"].standard_error / 1000)


def test_what_several_sms_have_in_common_does_not_average_out():
    warm, cold = counts(0, 100, 90, (10, 0, 0), blocks=4), counts(0, 100, 50, (50, 0, 0), blocks=4)
    one = sampled(warm, (warm,) * 4, warm, before=(cold,) * 6)
    alone, both = (estimate_from_stretches([one] * number)["misses"].standard_error for number in (1, 2))
    least = 8 / 4**0.5
    assert both**2 - 2 * least**2 == pytest.approx(4 * (alone**2 - least**2))


def test_where_nothing_was_skipped_nothing_drifts():
    warm, none = counts(0, 100, 90, (10, 0, 0), blocks=4), counts(0, 0, 0, (0, 0, 0), blocks=0)
    close = sampled(warm, (warm,) * 4, warm, before=(none,) * 6)
    assert estimate_from_stretches([close]) == estimate_from_stretches([sampled(warm, (warm,) * 4, warm)])


@BOTH
def test_intervals_of_blocks_hold_where_blocks_are_alike(definition):
    held = []
    for seed in range(25):
        options = {"definition": definition, "threads": None, "sms": 1, "seed": seed, "histogram": False}
        one = predict(MORE, SMALL, sample_blocks=0.1, **options).estimates["miss_rate"]
        assert one.standard_error > 0
        held.append(predict(MORE, SMALL, **options).miss_rate in one)
    assert np.mean(held) >= 0.9


@BOTH
def test_a_sample_of_blocks_adds_up_and_is_the_same_in_threads(definition):
    options = {"definition": definition, "threads": None, "model_sms": 2, "sample_blocks": 0.1}
    one, other = (predict(MORE, SMALL, n_jobs=jobs, **options) for jobs in (1, 3))
    assert one == other
    assert one.estimates["miss_rate"].standard_error > 0
    assert one.estimates["miss_rate"].sampled.endswith(" of 200 blocks")
    assert one.transactions == pytest.approx(one.hits + one.latency_misses + one.misses.total)
    assert one.histogram is None
    assert one.estimates["transactions"].value == pytest.approx(one.transactions)
    assert one.estimates["miss_rate"].value == pytest.approx(one.miss_rate)
    assert one.config["sample_blocks"] == 0.1


# ---- results and refusals


def test_estimates_are_in_every_form_of_the_result():
    found = predict(MANY, SMALL.replace(sms=6), sample_sms=3)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["estimates"]["miss_rate"]["value"] == found.estimates["miss_rate"].value
    row = found.to_row()
    assert row["estimate_low"] <= row["estimate"] <= row["estimate_high"]
    assert "estimates" not in predict(MANY, SMALL).to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_sms": 1}, "sample_sms=1: must be at least 2, for the error to be estimated"),
        ({"sample_sms": 0}, "sample_sms=0: must be at least 1"),
        ({"sample_sms": 2.0}, "sample_sms=2.0: must be a whole number"),
        ({"sample_sms": 3}, "sample_sms=3: must be at most 2, the number of SMs"),
        ({"sample_sms": 2, "model_sms": 2}, "sample_sms cannot be combined with model_sms: "),
        ({"sample_sms": 2, "seeds": 2}, "sample_sms cannot be combined with seeds: a sample is drawn for a single run"),
        ({"sample_sms": 2, "ablation": True}, "sample_sms cannot be combined with ablation: "),
        ({"sample_blocks": 0.1, "breakdown": "paper"}, "sample_blocks cannot be combined with breakdown: "),
        ({"sample_blocks": 0}, "sample_blocks=0: must be a number above 0 and at most 1"),
        ({"sample_blocks": 1.5}, "sample_blocks=1.5: must be a number above 0 and at most 1"),
        ({"sample_blocks": True}, "sample_blocks=True: must be a number"),
        ({"sample_blocks": float("nan")}, "sample_blocks=nan: must be a number"),
        ({"sample_blocks": 0.1, "sample_sms": 2}, "sample_blocks=0.1 cannot be combined with sample_sms: "),
        ({"sample_blocks": 0.1, "model_sms": "all"}, "sample_blocks cannot be combined with model_sms='all': "),
        (
            {"sample_blocks": 0.1, "first_touch_factor": 2.0},
            "sample_blocks cannot be combined with first_touch_factor: ",
        ),
    ],
)
def test_what_cannot_be_sampled_is_refused(options, message):
    with pytest.raises(ConfigError) as error:
        predict(BUSY, SMALL, **options)
    assert str(error.value).startswith(message)


def test_the_command_shows_estimates(run):
    size = ("2dconv", "--param", "NI=256", "--param", "NJ=256", "--gpu", "gtx470-16k")
    status, out, err = run("predict", *size, "--sample-sms", "4")
    assert (status, err) == (0, "")
    assert "a sample: 4 of 14 SMs" in out
    assert "estimated (95 % interval" in out
    status, out, _ = run("predict", *size, "--sample-blocks", "0.1", "--sms", "1", "--threads", "all", "--json")
    assert status == 0
    found = json.loads(out)["estimates"]["miss_rate"]
    assert found["sampled"].endswith(" of 256 blocks")
    assert found["standard_error"] > 0
    status, _, err = run("predict", *size, "--sample-sms", "1")
    assert (status, err.count("\n")) == (2, 1)
