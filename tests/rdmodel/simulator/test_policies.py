"""Effects of cache-management policies on a simulation, by scenario, as users of `simulate` see them."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import simulate
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.policies import (
    DWTCS,
    MRPB,
    OWL,
    PCAL,
    PD,
    SWL,
    BypassAll,
    BypassOnStall,
    LazyCTA,
    StreamingBypass,
    parse_policy,
)
from rdmodel.results.simulation import Simulation
from rdmodel.simulator.launch_sequence import max_scheduler_warps
from rdmodel.simulator.options import SimulationOptions
from rdmodel.trace import Op, Trace
from tests.support.builders import LINE, make_trace
from tests.support.examples import examples
from tests.support.random_machines import Driven, Mix, random_blocks, random_gpu, random_policies
from tests.support.scenarios import load, local, machine, store

SEEDS = st.integers(0, 2**32 - 1)
checked = examples(25)

EVERY = (
    "swl:warps=2",
    "swl:best",
    "pcal:tokens=1,extra=1",
    "dwt-cs:period=300,confirm=1",
    "ccws:base=20",
    "dyncta:period=100,low=10,high=40",
    "latency-limit:period=50,high=1.2,low=1.1,lost=0",
    "lazy-cta",
    "lazy-cta:group=1,baws=true",
    "owl:group=1",
    "owl:group=2,locality=false",
    "cca:period=100",
    "daws:share=0.3,converged=1",
    "bypass-all",
    "bypass-on-stall",
    "bypass-on-stall:on=all",
    "streaming-bypass:period=100,threshold=0.3",
    "streaming-bypass:period=100,threshold=0.3,caches=l2",
    "pd:distance=6",
    "pdp:period=60,most=16,every=1",
    "g-cache:period=300",
    "abyp:threshold=2",
    "apcm",
    *(f"mrpb:signature={s},drain={d}" for s in ("warp", "block") for d in ("longest", "greedy-round-robin")),
    "mrpb:latency=0,entries=1,flush=false,bypass=none",
)


def rounds(lines: range, times: int) -> list:
    """Load lines in turn, again and again, each when the one before has come."""
    return [load(line, needs=1) for _ in range(times) for line in lines]


def thrashing(blocks: int, warps: int, lines: int, times: int) -> Trace:
    """Return a trace of warps that each use `lines` lines of their own `times` times."""
    warp = lambda number: rounds(range(number * lines, (number + 1) * lines), times)  # noqa: E731
    return make_trace([[warp(block * warps + i) for i in range(warps)] for block in range(blocks)], warps)


def observed(trace: Trace, gpu: GPU, **options: Any) -> tuple[Simulation, np.ndarray]:
    """Return what a run says, and (SM, block, warp, pc, line, outcome, lanes) of its load transactions."""
    rows: list[np.ndarray] = []
    result = simulate(trace, gpu, observe=lambda some: rows.append(some.copy()), **options)
    return result, np.concatenate(rows)


BUSY = make_trace(
    [
        [[*rounds(range(9 * i, 9 * i + 8), 3), store(9 * i, 200), load(9 * i)] for i in range(j, j + 6)]
        for j in range(3)
    ],
    warps=6,
)
SMALL = machine(sms=2, l1={"size": 8 * LINE, "ways": 2, "mshrs": 4, "mshr_merge": 2}, core={"schedulers": 2})


# ---- how policies are given, and what a result says of them


def test_policies_are_given_as_objects_texts_or_what_a_result_says_of_them():
    given = SWL(warps=2), PD(distance=4), MRPB(entries=None, flush=False)
    result = simulate(BUSY, SMALL, policies=given)
    plain = json.loads(json.dumps(result.to_dict()["config"]["options"]["policies"]))
    assert plain[0] == {"name": "swl", "warps": 2}
    assert plain[2]["entries"] is None
    texts = ["swl:warps=2", "pd:distance=4", "mrpb:entries=inf,flush=false"]
    for same in (list(given), texts, tuple(texts), plain, [given[0], texts[1], plain[2]]):
        assert simulate(BUSY, SMALL, policies=same) == result


@pytest.mark.parametrize("text", EVERY)
def test_the_configuration_in_a_result_is_enough_to_run_it_again(text):
    result = simulate(BUSY, SMALL, policies=[text])
    options = json.loads(json.dumps(result.config["options"]))
    assert SimulationOptions(**options).policies == (parse_policy(text),)
    assert simulate(BUSY, SMALL, **options) == result


def test_without_policies_the_configuration_says_so():
    result = simulate(BUSY, SMALL)
    assert (result.config["options"]["policies"], result.found, result.bypassed) == ([], {}, 0)


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (["swl:warps=2", "pcal:tokens=1,extra=1"], "policies: 'swl' and 'pcal' are both of the kind 'throttling'"),
        ([PD(), BypassAll()], "policies: 'pd' and 'bypass-all' are both of the kind 'admission'"),
        ([SWL(warps=1), {"name": "swl", "warps": 1}], "policies: 'swl' and 'swl' are both of the kind 'throttling'"),
        (None, "policies: None is neither a text, nor a policy, nor a sequence of them"),
        ([4], "policies: 4 is neither a text, nor a policy, nor an index function"),
        (["swll:warps=2"], "unknown policy 'swll'; did you mean 'swl'"),
        (["swl"], "policy 'swl': option 'warps' is missing"),
        (["swl:warps=0"], "policy 'swl': warps=0: must be at least 1"),
        (["fermi+pric"], "policies: 'fermi' and 'pric' are both index functions of the L1"),
        ([{"warps": 2}], "unknown policy 'None'"),
        ([{"name": "swl", "wraps": 2}], "unknown option of policy 'swl': 'wraps'; did you mean 'warps'?"),
        ([{"name": "pd", "distance": [8]}], "policy 'pd': distance='[8]': must be a whole number"),
    ],
)
def test_policies_that_mean_nothing_are_refused_in_one_line(policies, message):
    with pytest.raises(ConfigError) as error:
        simulate(BUSY, SMALL, policies=policies)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("memory", [None, 30])
@pytest.mark.parametrize("text", EVERY)
def test_every_policy_keeps_the_books_and_the_invariants(text, memory):
    result = simulate(BUSY, SMALL, policies=[text], memory=memory, check=True)
    plain, none = result.to_dict(), simulate(BUSY, SMALL, memory=memory)
    served = ("hits", "pending_hits", "bypassed")
    for counts in (plain, *plain["per_sm"]):
        assert counts["transactions"] == sum(counts[name] for name in served) + sum(
            counts["misses"][cause] for cause in ("compulsory", "capacity", "associativity")
        )
    assert (result.transactions, result.instructions) == (none.transactions, none.instructions)
    assert result.traffic.response_messages == result.misses.total + result.bypassed
    assert result.to_row()["bypassed"] == result.bypassed == sum(sm.bypassed for sm in result.per_sm)


@pytest.mark.parametrize("memory", [None, 30])
@pytest.mark.parametrize("text", EVERY)
def test_an_observer_sees_every_load_once_whatever_the_policy(text, memory):
    _, plain = observed(BUSY, SMALL, memory=memory)
    result, rows = observed(BUSY, SMALL, memory=memory, policies=[text])
    assert Counter(map(tuple, rows[:, [1, 2, 3, 4, 6]])) == Counter(map(tuple, plain[:, [1, 2, 3, 4, 6]]))
    found = Counter(rows[:, 5].tolist())
    assert (found[0], found[1], found[2]) == (result.hits, result.pending_hits, result.misses.total)
    assert found[3] == result.bypassed


def test_numbers_beyond_all_cycles_and_warps_mean_no_limit():
    huge = 2**40
    assert observed_books(SWL(warps=huge)) == observed_books(PCAL(tokens=huge, extra=huge)) == observed_books()
    assert observed_books(DWTCS(period=huge, limit=huge)) == observed_books(StreamingBypass(period=huge))
    assert observed_books(MRPB(entries=huge)) == observed_books(MRPB(entries=None))
    assert observed_books(LazyCTA(group=1, lcs=False)) == observed_books()
    assert observed_books(OWL(group=huge)) == observed_books(OWL(group=SMALL.max_warps))


def observed_books(*policies: Any) -> dict[str, Any]:
    plain = simulate(BUSY, SMALL, policies=policies).to_dict()
    return {name: value for name, value in plain.items() if not name.endswith("seconds") and name != "config"}


# ---- throttling


@checked
@given(SEEDS, st.integers(1, 3))
def test_no_more_warps_than_the_limit_ever_issue_loads_between_two_ends_or_barriers(seed, limit):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, core={"schedulers": int(random.integers(1, 3))})
    options = SimulationOptions(sms=1, policies=(SWL(warps=limit),)).resolve(gpu)
    blocks = random_blocks(random, 3, 5, Mix(most=8, ops=(Op.LOAD,), empty=0))
    log = Driven(blocks, gpu, options, 1, 5).log()
    # With one slot and without barriers, warps come together and leave one by one, the oldest of them are active.
    loading: dict[tuple[int, int], list[int]] = defaultdict(list)
    begun = 0
    for kind, *_, slot, what in (entry for entry in log if entry[0] in ("begin", "issue")):
        begun += kind == "begin"
        if kind == "issue" and what == 1:
            loading[begun, slot % gpu.core.schedulers].append(slot)
    for slots in loading.values():
        last = {slot: place for place, slot in enumerate(slots)}
        for place in range(len(slots)):
            assert len({slot for slot in slots[: place + 1] if last[slot] > place}) <= limit


def test_one_warp_at_a_time_keeps_what_all_of_them_displace():
    trace = thrashing(1, 6, lines=4, times=10)
    gpu = machine(l1={"size": 4 * LINE})
    free, one = simulate(trace, gpu), simulate(trace, gpu, policies=["swl:warps=1"])
    assert (one.misses.total, one.contention.intra_warp) == (6 * 4, 0)
    assert free.misses.total > 5 * one.misses.total


def test_warps_with_no_token_do_not_displace_anything():
    trace = thrashing(1, 3, lines=4, times=10)
    result = simulate(trace, machine(l1={"size": 4 * LINE}), policies=["pcal:tokens=1,extra=9"])
    assert result.contention.intra_warp == 0
    assert result.bypassed > 0
    assert result.misses.compulsory == result.misses.total <= 12


@pytest.mark.parametrize("gpu", [machine(), machine(sms=2, core={"schedulers": 2})])
def test_the_best_limit_is_the_fewest_warps_among_the_fastest_of_all_limits(gpu):
    trace = thrashing(4, 6, lines=3, times=8)
    most = max_scheduler_warps(trace, gpu, SimulationOptions().resolve(gpu))
    assert most == 6 // gpu.core.schedulers
    tried = {limit: simulate(trace, gpu, policies=[SWL(warps=limit)]) for limit in range(1, most + 1)}
    fastest = max(result.ipc for result in tried.values())
    best = min(limit for limit, result in tried.items() if result.ipc == fastest)
    found = simulate(trace, gpu, policies=["swl:best"])
    assert found.found == {"swl.warps": best} == found.to_dict()["found"]
    assert found.to_row()["found_swl.warps"] == best
    assert dataclasses.replace(found, found={}, config=tried[best].config) == tried[best]


def test_pcal_starts_from_the_best_limit_and_adds_extra_warps():
    trace, gpu = thrashing(4, 6, lines=3, times=8), machine()
    best = simulate(trace, gpu, policies=["swl:best", "mrpb"]).found["swl.warps"]
    rows = []
    for text, extra in (("pcal", 2), ("pcal:extra=1", 1), ("pcal:tokens=best,extra=0", 0)):
        found = simulate(trace, gpu, policies=[text, "mrpb"], observe=lambda some: rows.append(len(some)))
        plain = simulate(trace, gpu, policies=[PCAL(tokens=best, extra=extra), MRPB()])
        assert found.found == {"pcal.tokens": best}
        assert dataclasses.replace(found, found={}, config=plain.config) == plain
        assert found.config["options"]["policies"][0] == {"name": "pcal", "tokens": "best", "extra": extra}
        assert sum(rows) == found.transactions
        rows.clear()


def test_limits_beyond_the_warps_of_a_scheduler_limit_nothing():
    for blocks, sms, schedulers in ((1, 1, 1), (1, 2, 2), (3, 2, 1), (5, 2, 4)):
        trace = thrashing(blocks, 6, lines=3, times=4)
        gpu = machine(sms=sms, core={"schedulers": schedulers}).replace(max_blocks=2)
        most = max_scheduler_warps(trace, gpu, SimulationOptions().resolve(gpu))
        assert most == -(-6 * min(2, -(-blocks // sms)) // schedulers)
        assert books(simulate(trace, gpu, policies=[SWL(warps=most)])) == books(simulate(trace, gpu))


def books(result: Simulation) -> Simulation:
    return dataclasses.replace(result, config={})


def test_several_warps_that_are_as_fast_count_as_the_fewest():
    # Nothing loads: all limits are one.
    trace = make_trace([[[store(i)] for i in range(4)]], warps=4)
    assert simulate(trace, machine(), policies=["swl:best"]).found == {"swl.warps": 1}


@pytest.mark.parametrize("observing", [False, True])
def test_progress_goes_through_all_runs_of_a_search_once(monkeypatch, observing):
    monkeypatch.setattr("rdmodel.simulator.machine_run.CYCLES_PER_PAUSE", 50)
    trace, gpu, seen = thrashing(5, 3, lines=3, times=4), machine(), []
    observe = (lambda rows: None) if observing else None
    simulate(trace, gpu, policies=["swl:best"], progress=lambda *now: seen.append(now), observe=observe)
    done, totals = zip(*seen, strict=True)
    assert set(totals) == {5 * (3 + observing)}
    assert sorted(done) == list(done)
    assert done[0] <= 5 < done[len(done) // 2]
    assert done[-1] == totals[0]


def test_cores_sampling_finds_the_best_limit_of_warps_that_thrash():
    # Four warps of four lines each fit into 16 ways, five do not, and LRU keeps nothing at all of more. A sample must
    # be long enough for the lines of those that are stopped to leave, and of the others to come back.
    trace, gpu = thrashing(24, 8, lines=4, times=60), machine(sms=8, l1={"size": 16 * LINE, "ways": 16})
    best = simulate(trace, gpu, policies=["swl:best"])
    found = simulate(trace, gpu, policies=["dwt-cs:period=1000,confirm=1"])
    assert best.found == {"swl.warps": 4}
    assert found.found == {"dwt-cs.limit": 4}
    free = simulate(trace, gpu)
    assert best.cycles < found.cycles < free.cycles / 3
    # A later launch has to thrash first, too, but it does not sample again.
    again = simulate(trace, gpu, policies=[DWTCS(period=1000, confirm=1, limit=4)])
    assert again.found == {}
    assert again.cycles < found.cycles


def test_samples_that_are_too_short_see_what_was_there_before():
    trace, gpu = thrashing(24, 8, lines=4, times=60), machine(sms=8, l1={"size": 16 * LINE, "ways": 16})
    assert simulate(trace, gpu, policies=["dwt-cs:period=300,confirm=1"]).found == {"dwt-cs.limit": 8}


def test_cores_sampling_leaves_alone_what_does_not_thrash():
    result = simulate(thrashing(4, 2, lines=2, times=50), machine(), policies=["dwt-cs:period=50,mpki=100"])
    assert (result.found, result.to_dict()["found"]) == ({}, {})


# ---- admission


def test_where_all_loads_bypass_nothing_hits_misses_or_is_in_flight():
    result = simulate(BUSY, SMALL, policies=["bypass-all"])
    assert (result.hits, result.pending_hits, result.misses.total, result.loads, result.miss_rate) == (0, 0, 0, 0, 0.0)
    assert result.bypassed == result.transactions
    assert result.contention.to_dict() == {"intra_warp": 0, "cross_warp_intra_block": 0, "cross_block": 0}
    assert {name for name, count in result.reservation_fails.to_dict().items() if count} <= {"miss_queue"}


def test_bypassing_where_no_way_is_left_leaves_no_waiting_for_ways():
    none = simulate(BUSY, SMALL)
    assert none.reservation_fails.line_alloc > 0
    ways = simulate(BUSY, SMALL, policies=["bypass-on-stall"])
    assert (ways.reservation_fails.line_alloc, ways.bypassed > 0) == (0, True)
    every = simulate(BUSY, SMALL, policies=["bypass-on-stall:on=all"]).reservation_fails
    assert every.total == every.miss_queue


def test_a_line_in_use_is_protected_from_a_stream():
    # One warp uses a line now and then, another streams through the set, six lines of four ways meanwhile.
    user = [load(0), *[load(0, needs=1, gap=200) for _ in range(59)]]
    stream = [load(100, gap=9), *[load(101 + i, needs=1) for i in range(400)]]
    trace = make_trace([[user, stream]], warps=2)
    hits = {d: simulate(trace, machine(), memory=30, policies=[PD(distance=d)]).hits for d in (1, 64)}
    assert hits == {1: 0, 64: 59}


def test_a_distance_of_one_protects_nothing_that_matters():
    trace, gpu = thrashing(2, 4, lines=6, times=5), machine(sms=2)
    assert simulate(trace, gpu, policies=[PD(distance=1)]).misses.total <= simulate(trace, gpu).misses.total


def test_an_l1_closes_on_a_stream_and_opens_when_lines_are_used_again():
    stream = [load(10 + i, needs=1) for i in range(300)]
    trace = make_trace([[[*stream, *rounds(range(4), 100)]]], warps=1)
    _, rows = observed(trace, machine(), memory=30, policies=[StreamingBypass(period=3000, threshold=0.5)])
    outcomes = rows[:, 5].tolist()
    first, last = outcomes.index(3), len(outcomes) - 1 - outcomes[::-1].index(3)
    assert set(outcomes[:first]) == {2}  # nothing hits, so it closes
    assert set(outcomes[first : last + 1]) == {3}  # all bypass, the first rounds of the lines used again too
    assert 0 < first < 300 < last < len(outcomes) - 100
    assert outcomes[last + 1 :] == [2] * 4 + [0] * (len(outcomes) - last - 5)  # open, empty at first


@pytest.mark.parametrize(("lanes", "bypasses"), [(32, True), (16, True), (15, False), (1, False)])
def test_an_l1_with_more_misses_than_one_in_sixteen_thread_instructions_thrashes_and_stays_open(lanes, bypasses):
    stream = [load(*[10 + i] * lanes, needs=1) for i in range(300)]
    trace = make_trace([[stream]], warps=1)
    result = simulate(trace, machine(), memory=30, policies=[StreamingBypass(period=3000, threshold=0.5, mpki=62.5)])
    assert (result.bypassed > 0) == bypasses


def test_an_l1_that_nothing_closes_is_as_ever():
    plain = simulate(BUSY, SMALL)
    assert books(simulate(BUSY, SMALL, policies=[StreamingBypass(period=50, threshold=1.0)])) == books(plain)


def test_local_stores_of_a_closed_l1_are_not_lost():
    program = [*[load(10 + i, needs=1) for i in range(30)], *[store(i) for i in range(12)]]
    trace = local(make_trace([[program]], warps=1))
    result = simulate(trace, machine(), policies=[StreamingBypass(period=100, threshold=0.0)])
    assert (result.writes, result.bypassed > 0) == (12, True)
    assert result.traffic.write_messages == result.l2.writes == 12 - 4  # four are still there


# ---- reordering


@checked
@given(SEEDS, st.integers(1, 3))
def test_a_buffer_never_reorders_the_requests_of_one_warp(seed, slots):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, core={"ldst_queue": 4})
    policies = tuple(policy for policy in random_policies(random) if policy.kind != "reordering")
    signature, drain = random.choice(["warp", "block", "warp-in-block"]), random.choice(["longest", "greedy-fixed"])
    buffer = MRPB(signature=str(signature), drain=str(drain), latency=int(random.integers(6)))
    options = SimulationOptions(sms=1, policies=(*policies, buffer)).resolve(gpu)
    # Every transaction of a warp is to a line of its own.
    blocks = random_blocks(random, 4, 3, Mix(most=12, pool=tuple(range(5)), local=0))
    wanted = defaultdict(list)
    for i, block in enumerate(blocks):
        for j, warp in enumerate(block):
            for at, instruction in enumerate(warp):
                lines = tuple(3 * (1000 * i + 10 * at + line) + j for line in range(len(instruction.lines)))
                warp[at] = instruction._replace(lines=lines)
                wanted[i, j] += lines
    got = defaultdict(list)
    for kind, _, _, line, *_ in Driven(blocks, gpu, options, slots, 3).log():
        if kind == "access":
            got[line // 3 // 1000, line % 3].append(line)
    assert got == {warp: lines for warp, lines in wanted.items() if lines}


def test_a_buffer_lets_one_warp_use_its_lines_before_another_displaces_them():
    # Four warps with four lines each, and four ways: in turn they displace each other's lines.
    program = lambda i: [load(*range(4 * i, 4 * i + 4)) for _ in range(12)]  # noqa: E731
    trace = make_trace([[program(i) for i in range(4)]], warps=4)
    gpu = machine(core={"sched": "lrr", "ldst_queue": 8})
    plain = simulate(trace, gpu)
    buffered = simulate(trace, gpu, policies=["mrpb:drain=greedy-fixed,entries=48,bypass=none,latency=0"])
    assert buffered.misses.total < plain.misses.total / 2
    assert buffered.contention.cross_warp_intra_block < plain.contention.cross_warp_intra_block
    assert buffered.instructions == plain.instructions


def test_a_buffer_without_room_for_more_than_one_and_no_latency_delays_by_a_cycle_or_so():
    trace = make_trace([[[load(7)]]], warps=1)
    plain, buffered = (simulate(trace, machine(), policies=p) for p in ([], ["mrpb:entries=1,latency=0"]))
    late = simulate(trace, machine(), policies=["mrpb:entries=1,latency=5"])
    assert (buffered.cycles, late.cycles) == (plain.cycles + 1, plain.cycles + 5)


def test_policies_of_all_kinds_work_at_once():
    policies = [SWL(warps=2), BypassOnStall(on="all"), MRPB(drain="greedy-longest", bypass=None)]
    result = simulate(BUSY, SMALL, policies=policies, check=True)
    assert result.reservation_fails.line_alloc == 0
    assert result.transactions == simulate(BUSY, SMALL).transactions
