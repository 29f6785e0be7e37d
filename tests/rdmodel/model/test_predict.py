"""`predict` as its users see it: options, seeds, SMs, ablation, errors and what a result says."""

from __future__ import annotations

import dataclasses
import json
from math import isnan

import numpy as np
import pytest
from scipy import stats

from rdmodel import predict
from rdmodel.errors import ConfigError, LaunchError, TraceError
from rdmodel.model.dealing import modelled_blocks
from rdmodel.model.options import Options
from rdmodel.policies import Linear, Pric
from rdmodel.trace import Launch, Trace
from tests.support.builders import BUSY, SMALL, busy_program, load, make_trace, store

BOTH = pytest.mark.parametrize("definition", ["hardware", "paper"])
COUNTS = ("transactions", "hits", "latency_misses", "stalls_mshr", "stalls_ways", "bypassed", "steps")


# ---- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schd": "gto"}, "unknown option 'schd'; did you mean 'sched'"),
        ({"mshr": 4}, "unknown option 'mshr'; did you mean 'mshrs'"),
        ({"sched": "gtoo"}, "unknown value for sched: 'gtoo'; did you mean 'gto' or 'gty'?"),
        ({"definition": "papers"}, "unknown value for definition: 'papers'; did you mean 'paper'?"),
        ({"index": "lineal"}, "unknown index function 'lineal'; did you mean 'linear'"),
        ({"gpu": "gtx470-16"}, "unknown GPU 'gtx470-16'; did you mean 'gtx470-16k'"),
        ({"effects": "before"}, "effects='before': only the definition 'paper' has this option"),
        ({"clip": False}, "clip=False: only the definition 'paper' has this option"),
        (
            {"definition": "paper", "sched": "lrr"},
            "sched='lrr': only the definition 'hardware' has this option",
        ),
        ({"definition": "paper", "stores": "step"}, "stores='step': only the definition 'hardware' has"),
        ({"definition": "paper", "stagger": 4}, "stagger=4: only the definition 'hardware' has this option"),
        ({"seed": -1}, "seed=-1: must be at least 0"),
        ({"seed": 1.0}, "seed=1.0: must be a whole number"),
        ({"seeds": 0}, "seeds=0: must be at least 1"),
        ({"breakdown": "hardware"}, "breakdown='hardware': must be None or 'paper'"),
        ({"mshrs": 0}, "mshrs=0: must be at least 1"),
        ({"model_sms": 3}, "model_sms=3: must be at most 2, the number of SMs"),
        ({"blocks": 0}, "blocks=0: must be at least 1"),
        ({"threads": 63}, "threads=63: must be at least 64, the threads of one block"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line_that_names_it(options, message):
    with pytest.raises(ConfigError) as error:
        predict(BUSY, **{"gpu": SMALL, **options})
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_options_of_the_l1_change_the_gpu_they_are_given_with():
    other = SMALL.replace(l1=dataclasses.replace(SMALL.l1, mshrs=None, mshr_per_warp=2, index=Pric()))
    found = predict(BUSY, SMALL, mshrs=float("inf"), mshr_per_warp=2, index="pric")
    assert found == predict(BUSY, other)
    assert SMALL.l1.index == Linear()


# ---- seeds


@BOTH
def test_the_same_seed_gives_the_same_result_and_another_seed_another(definition):
    first, again, other = (predict(BUSY, SMALL, definition=definition, seed=s) for s in (5, 5, 6))
    assert first == again
    assert first.steps != other.steps


def test_several_seeds_give_the_mean_of_their_runs_and_its_interval():
    found = predict(BUSY, SMALL, seed=3, seeds=5)
    runs = [predict(BUSY, SMALL, seed=seed) for seed in range(3, 8)]
    assert list(found.runs) == runs
    for name in COUNTS:
        assert getattr(found, name) == pytest.approx(np.mean([getattr(run, name) for run in runs]))
    rates = [run.miss_rate for run in runs]
    assert found.miss_rate == pytest.approx(np.mean(rates))
    want = stats.t.interval(0.95, df=4, loc=np.mean(rates), scale=stats.sem(rates))
    assert found.interval == pytest.approx(want)
    assert found.to_dict()["seeds"] == {
        "n": 5,
        "miss_rates": rates,
        "mean": found.miss_rate,
        "interval_95": list(found.interval),
    }
    assert found.histogram.total == sum(run.transactions for run in runs)


def test_a_single_run_has_no_interval():
    found = predict(BUSY, SMALL)
    assert found.interval is None
    assert "seeds" not in found.to_dict()


# ---- SMs and blocks


@BOTH
def test_counts_are_sums_over_the_modelled_sms(definition):
    found = predict(BUSY, SMALL, definition=definition, model_sms="all")
    assert [sm.sm for sm in found.per_sm] == [0, 1]
    assert found.sms_modelled == 2
    assert sum(sm.blocks for sm in found.per_sm) == BUSY.launch.blocks
    for name in COUNTS[:-1]:
        assert getattr(found, name) == sum(getattr(sm, name) for sm in found.per_sm)
    assert found.misses.total == sum(sm.misses.total for sm in found.per_sm)
    assert found.steps == max(sm.steps for sm in found.per_sm)


def test_one_dispatcher_gives_the_next_block_to_the_sm_that_is_free_first():
    long, short = [[load(i) for i in range(30)]], [[load(1)]]
    trace = make_trace([long, short, short], warps=1)
    gpu = SMALL.replace(max_blocks=1)
    assert [sm.blocks for sm in predict(trace, gpu, model_sms="all").per_sm] == [1, 2]
    assert [sm.blocks for sm in predict(trace, gpu, model_sms="all", definition="paper").per_sm] == [2, 1]


def test_the_dispatcher_keeps_to_the_threads_of_every_sm():
    long, short = [[load(i) for i in range(30)]], [[load(1)]]
    trace = make_trace([long, short, short, short], warps=1)
    found = predict(trace, SMALL.replace(max_blocks=1), model_sms="all", threads=64)
    assert [sm.blocks for sm in found.per_sm] == [2, 2]


@BOTH
def test_with_static_dealing_an_sm_does_not_depend_on_the_others(definition):
    one, two = (predict(BUSY, SMALL, definition=definition, model_sms=n) for n in (1, 2))
    assert one.per_sm[0] == two.per_sm[0]


@BOTH
def test_the_first_blocks_of_a_grid_are_modelled_as_a_grid_of_their_own(definition):
    found = predict(BUSY, SMALL, definition=definition, blocks=3)
    small = predict(make_trace(busy_program()[:3], warps=2), SMALL, definition=definition)
    assert found.per_sm == small.per_sm
    assert found.config["options"]["blocks"] == 3


def test_only_the_modelled_blocks_are_read():
    options = Options(threads=128, model_sms=1)
    wanted = list(modelled_blocks(BUSY.launch, options.resolve(SMALL)))
    assert wanted == [0, 2]
    part = make_trace([busy_program()[block] for block in wanted], warps=2)
    trace = Trace(BUSY.launch, part.columns, wanted)
    assert predict(trace, SMALL, threads=128).per_sm == predict(BUSY, SMALL, threads=128).per_sm
    with pytest.raises(TraceError, match=r"^block 4 is not in the trace of random: it holds 2 of 8 blocks$"):
        predict(trace, SMALL, threads=192)


def test_a_block_that_cannot_be_resident_is_refused_with_its_limit():
    launch = Launch(kernel="big", grid=(8, 1, 1), block=(64, 1, 1), shared_memory=50_000)
    with pytest.raises(LaunchError) as error:
        predict(Trace(launch, BUSY.columns), SMALL)
    assert str(error.value) == (
        "a block cannot be resident: it needs 50000 bytes of shared memory, an SM of small has 49152"
    )


# ---- stores


@BOTH
@pytest.mark.parametrize("instructions", [[], [store(1), store(2)]])
def test_a_kernel_without_loads_has_counts_of_zero_and_no_rates(definition, instructions):
    trace = make_trace([[instructions]], warps=1)
    prediction = predict(trace, SMALL, definition=definition, seeds=2, ablation=True, l2=True)
    assert (prediction.transactions, prediction.misses.total, dict(prediction.histogram)) == (0, 0, {})
    assert isnan(prediction.miss_rate)
    assert isnan(prediction.latency_miss_rate)
    assert prediction.interval is None
    assert prediction.l2.writes == len(instructions)
    assert str(prediction) == f"random on small ({definition}): no loads"
    plain = json.loads(json.dumps(prediction.to_dict(), allow_nan=False))
    assert plain["miss_rate"] is plain["latency_miss_rate"] is None
    assert prediction.to_row()["miss_rate"] is None


@pytest.mark.parametrize("sample", [{"sample_sms": 2}, {"sample_blocks": 0.3}])
def test_a_sample_of_a_kernel_without_loads_has_estimates_of_counts_and_none_of_rates(sample):
    trace = make_trace([[[store(block)]] for block in range(64)], warps=1)
    prediction = predict(trace, SMALL.replace(sms=4), **sample)
    assert isnan(prediction.miss_rate)
    assert not any("rate" in name for name in prediction.estimates)
    assert prediction.estimates["transactions"].value == 0
    json.dumps(prediction.to_dict(), allow_nan=False)


@BOTH
def test_stores_count_once_they_are_asked_for(definition):
    trace = make_trace([[[load(1), store(1), store(2)]]], warps=1)
    assert predict(trace, SMALL, definition=definition).transactions == 1
    found = predict(trace, SMALL, definition=definition, stores=True)
    assert (found.transactions, found.misses.compulsory) == (3, 2)
    assert found == predict(trace, SMALL, definition=definition, stores="allocate")


# ---- ablation and breakdown


@BOTH
@pytest.mark.parametrize(("cta", "other"), [("replace", "waves"), ("waves", "replace")])
def test_an_ablation_reports_the_signed_difference_to_a_run_without_the_component(definition, cta, other):
    given = {"gpu": SMALL, "definition": definition, "cta": cta}
    found = predict(BUSY, **given, ablation=True)
    full = dataclasses.replace(SMALL.l1, ways=SMALL.l1.lines)
    without = {
        "associativity": {"gpu": SMALL.replace(l1=full)},
        "latency": {"lat_min": 0, "sigma": 0.0, "hit_latency": 0},
        "mshrs": {"mshrs": None},
        "divergence": {"divergence": False},
        "cta": {"cta": other},
    }
    assert [row.component for row in found.ablation] == list(without)
    for row in found.ablation:
        run = predict(BUSY, **{**given, **without[row.component]})
        assert (row.component, row.misses) == (row.component, run.misses.total)
        assert row.difference == found.misses.total - run.misses.total
    assert found.to_dict()["ablation"] == [dataclasses.asdict(row) for row in found.ablation]


@BOTH
@pytest.mark.parametrize("seeds", [1, 3])
def test_the_five_classes_of_the_paper_sum_to_all_misses(definition, seeds):
    found = predict(BUSY, SMALL, definition=definition, breakdown="paper", seeds=seeds)
    assert list(found.breakdown) == ["compulsory", "capacity", "associativity", "mshr", "latency"]
    assert sum(found.breakdown.values()) == pytest.approx(found.misses.total + found.latency_misses)
    assert found.breakdown["compulsory"] == found.misses.compulsory
    assert found.ablation == ()
    assert (
        found.breakdown
        == predict(BUSY, SMALL, definition=definition, breakdown="paper", seeds=seeds, ablation=True).breakdown
    )


# ---- while it runs


@BOTH
def test_without_a_histogram_everything_else_is_the_same(definition):
    found, bare = (predict(BUSY, SMALL, definition=definition, histogram=wanted) for wanted in (True, False))
    assert bare.histogram is None
    assert bare == dataclasses.replace(found, histogram=None)


@BOTH
def test_progress_counts_the_blocks_and_an_interrupt_leaves_nothing_behind(definition):
    seen: list[tuple[int, int]] = []
    whole = predict(BUSY, SMALL, definition=definition, progress=lambda *at: seen.append(at))
    assert list(dict.fromkeys(seen)) == [(i, 4) for i in range(1, 5)]

    def interrupt(begun: int, blocks: int) -> None:
        if begun == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict(BUSY, SMALL, definition=definition, progress=interrupt)
    assert predict(BUSY, SMALL, definition=definition) == whole
