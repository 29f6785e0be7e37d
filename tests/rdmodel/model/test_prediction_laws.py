"""Laws that every prediction obeys, whatever the trace, the machine and the options."""

from __future__ import annotations

import dataclasses
from collections import Counter
from math import isnan

from hypothesis import given
from hypothesis import strategies as st

from rdmodel import predict
from rdmodel.gpu.config import GPU
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.results.prediction import Prediction
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.builders import LINE, Instructions, make_gpu, make_trace
from tests.support.examples import examples
from tests.support.plain_dealing import deal_one_by_one
from tests.support.random_predictions import HARDWARE, PAPER, fed_in_portions, machines, programs

OPTIONS = st.one_of(st.fixed_dictionaries(PAPER), HARDWARE)
DEFINITIONS = st.sampled_from(["hardware", "paper"])
AT_ONCE = {"lat_min": 0, "sigma": 0.0, "hit_latency": 0}
"""Latencies that let every request arrive before the next one is made."""

CASES = (programs(), machines(), OPTIONS, st.integers(0, 3))
checked = examples(40)


def with_l1(gpu: GPU, **changes: object) -> GPU:
    return gpu.replace(l1=dataclasses.replace(gpu.l1, **changes))


def requested(block: list[Instructions], options: Options) -> list[int]:
    """Return all lines that a block requests, once per transaction."""
    wanted = set(Op) if options.stores == "allocate" else {Op.LOAD}
    return [line for warp in block for op, _, _, lines in warp if op in wanted for line in lines]


def run(case: tuple[list, int], gpu: GPU, seed: int = 0, **given: object) -> tuple[Prediction, list[list[int]]]:
    """Return a prediction and, by hand, the lines that the blocks dealt to each SM request."""
    program, warps = case
    trace = make_trace(program, warps)
    options = Options(**given).resolve(gpu)
    dealt = deal_one_by_one(trace.launch, options)
    lines = [[line for block in ids for line in requested(program[block], options)] for ids in dealt]
    return predict(trace, gpu, seed=seed, **given), lines


# ---- always


@checked
@given(*CASES)
def test_every_transaction_is_a_hit_a_latency_miss_or_a_miss_of_one_cause(case, gpu, options, seed):
    found, _ = run(case, gpu, seed, **options)
    for counts in (found, *found.per_sm):
        causes = (counts.misses.compulsory, counts.misses.capacity, counts.misses.associativity)
        assert min(counts.hits, counts.latency_misses, *causes) >= 0
        assert counts.transactions == counts.hits + counts.latency_misses + sum(causes)
    assert found.misses.total <= found.transactions
    assert 0 <= found.miss_rate <= 1 if found.transactions else isnan(found.miss_rate)


@checked
@given(*CASES)
def test_every_line_of_every_modelled_block_is_requested_once(case, gpu, options, seed):
    found, lines = run(case, gpu, seed, **options)
    assert found.transactions == sum(map(len, lines))
    dealt = deal_one_by_one(make_trace(*case).launch, Options(**options).resolve(gpu))
    assert sum(sm.blocks for sm in found.per_sm) == sum(map(len, dealt))


@checked
@given(*CASES)
def test_compulsory_misses_are_the_distinct_lines_of_each_sm(case, gpu, options, seed):
    found, lines = run(case, gpu, seed, **options)
    distinct = [len(set(of_sm)) for of_sm in lines]
    if options["definition"] == "hardware" and options["model_sms"] == "all":
        # One dispatcher deals as SMs become free: what is certain is the kernel's footprint.
        footprint = len({line for of_sm in lines for line in of_sm})
        assert footprint <= found.misses.compulsory <= footprint * len(found.per_sm)
    else:
        assert [sm.misses.compulsory for sm in found.per_sm] == distinct


@checked
@given(*CASES)
def test_the_histogram_holds_every_transaction_once(case, gpu, options, seed):
    found, _ = run(case, gpu, seed, **options)
    assert found.histogram.total == found.transactions
    assert found.histogram.infinite >= found.misses.compulsory
    if options["definition"] == "paper":
        near = sum(count for distance, count in found.histogram.items() if 0 <= distance < gpu.l1.ways)
        assert found.hits == near


@checked
@given(*CASES)
def test_what_cannot_run_out_stalls_nobody(case, gpu, options, seed):
    endless = with_l1(gpu, mshrs=None, mshr_merge=None, mshr_per_warp=None)
    found, _ = run(case, endless, seed, **options)
    assert found.stalls_mshr == 0
    if options["definition"] == "paper" or options["full_set"] == "bypass":
        assert found.stalls_ways == 0
    if options["definition"] == "paper" or options["full_set"] == "stall":
        assert found.bypassed == 0


@checked
@given(*CASES, st.integers(1, 1 << 40))
def test_moving_all_data_by_whole_caches_changes_nothing(case, gpu, options, seed, far):
    program, warps = case
    linear = with_l1(gpu, index=Linear())
    shift = far * gpu.l1.sets
    moved = [
        [[(op, needs, gap, tuple(n + shift for n in lines)) for op, needs, gap, lines in warp] for warp in block]
        for block in program
    ]
    here, _ = run(case, linear, seed, **options)
    there, _ = run((moved, warps), linear, seed, **options)
    assert there == here


@checked
@given(*CASES, st.integers(1, 5), st.integers(1, 3))
def test_it_does_not_matter_in_what_portions_the_core_is_fed(case, gpu, options, seed, draws, instructions):
    found, _ = run(case, gpu, seed, **options)
    with fed_in_portions(draws, instructions):
        assert run(case, gpu, seed, **options)[0] == found


# ---- without latency: textbook caches


def naive_lru(lines: list[int], sets: int, ways: int) -> Counter[str]:
    """Run a set-associative LRU cache beside a fully associative one of the same size; classify every access."""
    cache: list[list[int]] = [[] for _ in range(sets)]
    whole: list[int] = []
    seen: set[int] = set()
    counts: Counter[str] = Counter()
    for line in lines:
        ways_of_set = cache[line % sets]
        if line in ways_of_set:
            counts["hits"] += 1
        elif line not in seen:
            counts["compulsory"] += 1
        else:
            counts["associativity" if line in whole else "capacity"] += 1
        seen.add(line)
        for recency, size in ((ways_of_set, ways), (whole, sets * ways)):
            if line in recency:
                recency.remove(line)
            recency.insert(0, line)
            del recency[size:]
    return counts


def load(*lines: int) -> tuple[int, int, int, tuple[int, ...]]:
    return int(Op.LOAD), ALL_NEEDS, 0, lines


def alone(lines: list[int], definition: str, sets: int, ways: int) -> Prediction:
    """Predict one warp that requests lines one by one, each arriving before the next."""
    gpu = make_gpu(size=sets * ways * LINE, ways=ways, mshrs=None)
    trace = make_trace([[[load(line) for line in lines]]], warps=1)
    return predict(trace, gpu, definition=definition, **AT_ONCE)


LINES = st.lists(st.integers(0, 24), min_size=1, max_size=80)


@checked
@given(LINES, DEFINITIONS, st.sampled_from([1, 2, 4, 8]), st.integers(1, 5))
def test_without_latency_a_warp_sees_a_textbook_lru_cache(lines, definition, sets, ways):
    found = alone(lines, definition, sets, ways)
    want = naive_lru(lines, sets, ways)
    assert (found.hits, found.latency_misses) == (want["hits"], 0)
    assert found.misses.compulsory == want["compulsory"]
    assert found.misses.capacity == want["capacity"]
    assert found.misses.associativity == want["associativity"]


@checked
@given(LINES, st.integers(1, 6), st.integers(1, 5))
def test_transactions_of_one_instruction_follow_one_another(lines, width, ways):
    gpu = make_gpu(size=4 * ways * LINE, ways=ways, mshrs=None)
    grouped = [tuple(dict.fromkeys(lines[i : i + width])) for i in range(0, len(lines), width)]
    trace = make_trace([[[load(*group) for group in grouped]]], warps=1)
    found = predict(trace, gpu, **AT_ONCE)
    assert found.hits == naive_lru([line for group in grouped for line in group], 4, ways)["hits"]


@checked
@given(LINES, DEFINITIONS, st.sampled_from([1, 4]))
def test_more_ways_never_lose_a_hit_and_the_histogram_foretells_them_all(lines, definition, sets):
    found = [alone(lines, definition, sets, ways) for ways in range(1, 9)]
    misses = [prediction.misses.total for prediction in found]
    assert misses == sorted(misses, reverse=True)
    for ways, total in enumerate(misses, 1):
        assert found[0].histogram.miss_ratio(ways) == total / len(lines)


@checked
@given(programs(), DEFINITIONS, st.sampled_from(["random", "gto"]), st.integers(1, 20))
def test_a_fully_associative_cache_has_no_associativity_misses(case, definition, sched, lines):
    gpu = make_gpu(size=lines * LINE, ways=lines)
    # With requests in flight, `hardware` may not replace the least recent line; `paper` always does.
    options = {"sched": sched, **AT_ONCE} if definition == "hardware" else {}
    found, _ = run(case, gpu, definition=definition, **options)
    assert found.misses.associativity == 0


@checked
@given(programs(), machines(), st.sampled_from(["fifo", "lrr", "gto", "oldest", "gty"]), st.integers(0, 99))
def test_where_nothing_is_drawn_the_seed_does_not_matter(case, gpu, sched, seed):
    (one, _), (other, _) = (run(case, gpu, seed=s, sigma=0.0, sched=sched) for s in (0, seed))
    assert one.per_sm == other.per_sm
