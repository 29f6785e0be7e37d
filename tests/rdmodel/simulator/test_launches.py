"""Launches one after another on one L2, in both machines and for users of `simulate_launches`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel import simulate, simulate_launches
from rdmodel.errors import ConfigError, SimulationError, TraceError
from rdmodel.policies import GCache, StreamingBypass
from rdmodel.simulator.machine_run import MachineRun
from rdmodel.trace import Op
from tests.support.builders import make_trace
from tests.support.engine_checks import MEMORIES, SEEDS, check_launches
from tests.support.examples import examples
from tests.support.random_machines import MACHINES, mixed, random_blocks, random_policies
from tests.support.scenarios import load, machine, store


def random_launches(random, gpu, kind, launches):
    mix = mixed(gpu, kind, most=8, empty=0.1)
    return [random_blocks(random, int(random.integers(1, 6)), 3, mix) for _ in range(launches)]


@pytest.mark.parametrize("kind", MACHINES)
@examples(30)
@given(SEEDS, st.integers(2, 4), st.integers(1, 3), MEMORIES)
def test_launches_find_the_l2_of_the_launch_before_alike(kind, seed, launches, sms, memory):
    random = np.random.default_rng(seed)
    gpu = MACHINES[kind](random)
    check_launches(random, gpu, random_launches(random, gpu, kind, launches), 2, sms, memory)


@pytest.mark.parametrize("kind", MACHINES)
@examples(25)
@given(SEEDS)
def test_policies_of_later_launches_decide_alike(kind, seed):
    random = np.random.default_rng(seed)
    gpu = MACHINES[kind](random)
    check_launches(random, gpu, random_launches(random, gpu, kind, 3), 2, 2, None, random_policies(random))


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("policy", [StreamingBypass(period=20, threshold=0.3), GCache(period=50, sharers=2)])
@examples(12)
@given(SEEDS)
def test_tags_without_data_end_and_victim_bits_stay_with_a_launch_alike(policy, kind, seed):
    random = np.random.default_rng(seed)
    gpu = MACHINES[kind](random)
    check_launches(random, gpu, random_launches(random, gpu, kind, 3), 2, 2, None, (policy,))


# ---- by hand


def one_warp(*instructions):
    return make_trace([[list(instructions)]], warps=1)


def test_a_later_launch_hits_in_the_l2_and_misses_in_the_l1():
    first, second = simulate_launches([one_warp(load(1), load(2)), one_warp(load(2), load(3))], machine(), check=True)
    assert (first.l2.hits, first.l2.misses) == (0, 2)
    assert (second.l2.hits, second.l2.misses) == (1, 1)
    assert second.misses.compulsory == 2
    assert second.dram.reads == 1


def test_written_lines_stay_in_the_l2_and_are_written_back_by_the_launch_that_replaces_them():
    small = machine(l2={"size": 2 * 128, "ways": 2})
    first, second = simulate_launches([one_warp(store(1)), one_warp(load(3), load(5), load(7))], small, check=True)
    assert (first.dram.writes, second.dram.writes) == (0, 1)


def test_each_launch_counts_its_own_cycles_from_an_idle_machine():
    trace = one_warp(load(1), load(2))
    first, second, third = simulate_launches([trace] * 3, machine(), check=True)
    assert first.cycles == simulate(trace, machine()).cycles
    assert second.cycles == third.cycles < first.cycles


def test_one_launch_is_a_plain_simulation():
    trace = tracegen.kernel("atax.1", NX=128, NY=128)
    (only,) = simulate_launches([trace], "gtx480-khairy", policies="dwt-pric")
    assert only == simulate(trace, "gtx480-khairy", policies="dwt-pric")
    assert "earlier_launches" not in only.config


def test_launches_may_have_blocks_of_other_sizes():
    small, large = (make_trace([[[load(1)]] * warps], warps=warps) for warps in (1, 4))
    runs = simulate_launches([small, large, small], machine(), check=True)
    assert [run.l2.misses for run in runs] == [1, 0, 0]


@pytest.mark.parametrize("gpu", ["a100", "h100", "v100", "gtx480-khairy"])
def test_a_kernel_runs_faster_on_the_l2_that_it_has_filled(gpu):
    trace = tracegen.kernel("gesummv", N=128)
    first, second = simulate_launches([trace, trace], gpu)
    assert second.l2.misses == 0 < first.l2.misses
    assert second.cycles < first.cycles


def test_a_result_counts_the_launches_before():
    traces = [tracegen.kernel("bfs.1", N=256, LEVEL=level) for level in range(3)]
    runs = simulate_launches(traces, "gtx480-khairy")
    assert [run.config.get("earlier_launches") for run in runs] == [None, 1, 2]


# ---- policies


def rounds(lines, times):
    """Return a launch of four warps that load as many lines in turn."""
    warp = [load(*range(4 * i, 4 * i + 4), needs=1) for i in range(lines)] * times
    return make_trace([[warp] * 4] * 2, warps=4)


def test_one_limit_is_the_best_for_all_launches_together():
    traces = [tracegen.kernel("atax.1", NX=256, NY=128), tracegen.kernel("atax.2", NX=256, NY=128)]
    best = simulate_launches(traces, "gtx470-16k", policies="swl:best")
    found = {run.found["swl.warps"] for run in best}
    assert len(found) == 1

    def cycles(limit):
        return sum(run.cycles for run in simulate_launches(traces, "gtx470-16k", policies=f"swl:warps={limit}"))

    assert sum(run.cycles for run in best) == min(cycles(limit) for limit in range(1, 9))


def test_launches_of_a_kernel_know_the_limit_that_an_earlier_one_sampled():
    trace = tracegen.kernel("spmv", N=2048)
    policy = "dwt-cs:period=500"
    first, second = simulate_launches([trace, trace], "gtx480-khairy", policies=policy)
    limit = first.found["dwt-cs.limit"]
    assert second.found == {}
    assert second.config["options"]["policies"][0]["limit"] == limit
    other = tracegen.kernel("iix", N=1024)
    assert (
        simulate_launches([trace, other], "gtx480-khairy", policies=policy)[1].config["options"]["policies"][0]["limit"]
        is None
    )


def test_progress_goes_through_all_launches_of_all_runs(monkeypatch):
    monkeypatch.setattr("rdmodel.simulator.machine_run.CYCLES_PER_PAUSE", 5)
    seen = []
    traces = [rounds(2, 3), one_warp(load(1)), rounds(3, 3)]
    simulate_launches(traces, machine(), policies="swl:best", progress=lambda *now: seen.append(now))
    done, totals = zip(*seen, strict=True)
    assert sorted(done) == list(done)
    assert set(totals) == {5 * 4}  # four limits
    assert {2, 3, 5, 20} <= set(done)


# ---- bad input


@pytest.mark.parametrize("traces", [[], (), one_warp(load(1)), "atax.1", {0: one_warp(load(1))}])
def test_something_else_than_launches_is_refused(traces):
    with pytest.raises(ConfigError, match=r"^traces=.{1,60}: must be a sequence of at least one trace$"):
        simulate_launches(traces, machine())


def test_a_launch_that_is_no_trace_is_refused():
    with pytest.raises(TraceError, match=r"traces\[1\]='atax\.1': must be a Trace"):
        simulate_launches([one_warp(load(1)), "atax.1"], machine())


def test_launches_on_an_ideal_memory_share_nothing_but_limits():
    traces = [tracegen.kernel("spmv", N=1024)] * 2
    first, second = simulate_launches(traces, "gtx480-khairy", memory=50)
    assert first.cycles == second.cycles == simulate(traces[0], "gtx480-khairy", memory=50).cycles
    limits = {run.found["swl.warps"] for run in simulate_launches(traces, machine(), memory=50, policies="swl:best")}
    assert len(limits) == 1


def test_a_later_launch_that_goes_wrong_is_named_with_its_number(monkeypatch):
    def pause(run):
        if run._request.earlier:
            run._fail("broken", ["one line twice"])

    monkeypatch.setattr(MachineRun, "_pause", pause)
    monkeypatch.setattr("rdmodel.simulator.machine_run.CYCLES_PER_PAUSE", 5)
    with pytest.raises(SimulationError, match=r"^launch 2 \(\w+\), cycle \d+: broken: one line twice$"):
        simulate_launches([rounds(2, 9)] * 2, machine())


def test_an_unknown_option_is_refused():
    with pytest.raises(ConfigError, match="unknown option 'shed'; did you mean 'sched'"):
        simulate_launches([one_warp(load(1))], machine(), shed="gto")


def test_barriers_and_empty_launches_leave_the_l2_as_it_was():
    nothing = make_trace([[[(Op.BARRIER, 0, 0, [])]]], warps=1)
    runs = simulate_launches([one_warp(load(1)), nothing, one_warp(load(1))], machine(), check=True)
    assert [run.l2.misses for run in runs] == [1, 0, 0]
