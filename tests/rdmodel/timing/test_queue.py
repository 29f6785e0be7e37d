"""Check the closed network of queues: laws on random demands, and a plain fixed point beside the bisection."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.timing.demands import Demand
from rdmodel.timing.latency import Phase
from rdmodel.timing.queue import solve_queues
from rdmodel.timing.uneven import WarpLoads
from rdmodel.timing.waves import Block, on_whole_warps, time_alone, time_of_grid, time_of_wave
from tests.support.examples import examples

STAGES = ("core", "L1", "port", "DRAM")
CYCLES = st.floats(0, 1e5).map(lambda value: round(value, 3))


@st.composite
def demand_lists(draw):
    """Up to two resources per stage, in the order of stages, of which one at least is used."""
    found = []
    for stage in STAGES:
        copies = draw(st.sampled_from({"core": (1, 4), "DRAM": (0.5, 0.01)}.get(stage, (1,))))
        found += [Demand(f"{stage}{at}", stage, draw(CYCLES), copies) for at in range(draw(st.integers(0, 2)))]
    return [*found, Demand("last", "last", draw(st.floats(1, 1e5)))]


def slow_throughput(demands, customers, alone):
    """The same fixed point, written as the formula stands, by damped substitution."""
    stages = {
        demand.stage: max((d for d in demands if d.stage == demand.stage), key=lambda d: d.cycles) for demand in demands
    }
    most = 1 / max(demand.cycles for demand in demands)
    throughput = min(most, customers / alone)
    overlap = min(1.0, alone / sum(demand.copies * demand.cycles for demand in stages.values()))
    for _ in range(20_000):
        wait = 0.0
        for demand in stages.values():
            n = max(1.0, customers / demand.copies)
            v = throughput * demand.cycles * (n - 1) / n
            wait += overlap * demand.copies * demand.cycles * v / (1 - v)
        throughput += 0.02 * (min(most, customers / (alone + wait)) - throughput)
    return throughput


@examples(40)
@given(demand_lists(), st.integers(1, 64), st.floats(1, 1e6))
def test_the_flow_is_the_fixed_point_of_the_formula_within_its_bounds(demands, customers, alone):
    flow = solve_queues(demands, customers, alone)
    assert flow.throughput == pytest.approx(slow_throughput(demands, customers, alone), rel=1e-3)
    time, largest = customers / flow.throughput, max(demand.cycles for demand in demands)
    slack = 1 + 1e-9
    assert time * slack >= max(alone, customers * largest)
    stages = {demand.stage: 0.0 for demand in demands}
    for demand in demands:
        stages[demand.stage] = max(stages[demand.stage], demand.cycles)
    assert time <= (alone + customers * sum(stages.values())) * slack
    # Less work, a shorter warp and more warps never slow an SM.
    lighter = [Demand(d.name, d.stage, d.cycles / 2, d.copies) for d in demands]
    assert solve_queues(lighter, customers, alone).throughput * slack >= flow.throughput
    assert solve_queues(demands, customers, alone / 2).throughput * slack >= flow.throughput
    assert solve_queues(demands, customers + 1, alone).throughput * slack >= flow.throughput


def test_a_customer_more_never_slows_customers_that_use_two_resources_at_once():
    demands = [Demand("L1", "L1", 1.0), Demand("DRAM", "DRAM", 1.0)]
    found = [solve_queues(demands, customers, 1.0).throughput for customers in (1, 2, 3, 50)]
    assert found == [pytest.approx(1.0)] * 4


def test_one_customer_never_waits_and_an_unused_machine_takes_no_time():
    demands = [Demand("fp32", "core", 5.0), Demand("DRAM", "DRAM", 3.0, 0.5)]
    assert solve_queues(demands[:1], 1, 20.0).throughput == 1 / 20
    assert solve_queues([Demand("fp32", "core", 0.0)], 4, 0.0).throughput == math.inf


def block(warps=4, barriers=False, cycles=100.0, busy=30.0):
    phases = [[Phase(cycles, 4.0, 6.0)]]
    demands = [Demand("fp32", "core", busy, 4.0), Demand("DRAM", "DRAM", busy / 2, 0.1)]
    return Block(warps=warps, phases=phases, demands=lambda active: demands, barriers=barriers)


def test_twice_as_many_full_waves_take_twice_as_long_and_a_tail_at_most_a_wave():
    one = time_of_grid(block(), 80, 10, 4)
    two = time_of_grid(block(), 160, 10, 4)
    more = time_of_grid(block(), 81, 10, 4)
    assert (one.waves, two.waves, more.waves) == (2, 4, 2)
    assert (one.tail, two.cycles) == (0.0, pytest.approx(2 * one.cycles))
    assert one.cycles < more.cycles < one.cycles + time_of_wave(block(), 4, 10)[0]
    assert time_of_grid(block(), 80, 10, 4, longest=1.5).cycles == pytest.approx(1.25 * one.cycles)


def test_warps_that_wait_for_each_other_do_not_overlap_the_phases_of_a_block():
    # One block: its warps need 100 cycles alone in each of two phases, one for arithmetic and one for memory.
    phases = [[Phase(100.0, 0.0, 10.0), Phase(100.0, 10.0, 0.0)]]
    demands = [Demand("fp32", "core", 300.0, 4.0), Demand("L1 wavefronts", "L1", 500.0)]
    apart, together = (Block(8, phases, lambda active: demands, barriers) for barriers in (False, True))
    assert 300 + 500 <= time_of_wave(together, 1, 1)[0] < 1.01 * 800
    assert 500 <= time_of_wave(apart, 1, 1)[0] < 800


def test_the_warps_of_a_block_wait_for_each_other_in_a_phase_as_its_blocks_do_on_an_sm():
    # 8 warps of one block, and 8 blocks of one warp: 200 cycles of arithmetic and 160 of memory for all of them.
    phases = [[Phase(100.0, 5.0, 5.0)]]

    def demands(warps):
        return [Demand("fp32", "core", 25.0 * warps, 4.0), Demand("L1 wavefronts", "L1", 20.0 * warps)]

    block = time_of_wave(Block(8, phases, lambda active: demands(8), barriers=True), 1, 1)[0]
    blocks = time_of_wave(Block(1, phases, lambda active: demands(1), barriers=False), 8, 1)[0]
    assert block == pytest.approx(blocks)
    assert 200 < block < 200 + 160
    # A resource that other SMs share is waited for outside the block.
    shared = [*demands(8), Demand("L2", "L2", 150.0, 0.01)]
    assert time_alone(phases[0], shared, 8, 8, queued=True) == time_alone(phases[0], demands(8), 8, 8, queued=True)


def test_the_demand_of_products_is_in_the_time_of_their_phase_once():
    # The warps together need 300 cycles for products in one phase, and 100 cycles for other instructions in another.
    demands = [Demand("matrix units", "core", 280.0, 4.0), Demand("int", "core", 50.0, 4.0)]
    products, others = Phase(300.0, 0.0, 10.0, 4.0), Phase(100.0, 0.0, 90.0)
    known = Block(8, [[products, others]], lambda active: demands, barriers=True)
    assert time_of_wave(known, 1, 1)[0] == pytest.approx(300 + 100, rel=0.02)
    unknown = Block(8, [[products._replace(products=0.0), others]], lambda active: demands, barriers=True)
    assert time_of_wave(unknown, 1, 1)[0] == pytest.approx(300 + 0.9 * 280, rel=0.01)
    # The tensor cores bound the time all the same, and other units each phase.
    slow = [Demand("matrix units", "core", 900.0, 4.0), Demand("int", "core", 200.0, 4.0)]
    assert time_of_wave(Block(8, [[products, others]], lambda active: slow, barriers=True), 1, 1)[0] >= 900
    bound = time_of_wave(Block(8, [[products, others]], lambda active: slow[1:], barriers=True), 1, 1)[0]
    assert 300 + 180 <= bound < 1.1 * 480


# ---- warps that stay in their sub-cores


@pytest.mark.parametrize(("warps", "as_many"), [(1, 4), (2, 4), (4, 4), (5, 8), (6, 8), (8, 8), (45, 48)])
def test_warps_take_as_long_as_the_next_multiple_of_the_sub_cores(warps, as_many):
    demand = Demand("issue slots", "core", 100.0 * warps, 4.0)
    (found,) = on_whole_warps([demand], WarpLoads.even(warps), 1)
    assert found.cycles == pytest.approx(100.0 * as_many)
    # A copy serves one warp in the time of before, since it is the number of copies that is smaller.
    assert found.cycles * found.copies == pytest.approx(demand.cycles * demand.copies)


def test_resources_that_all_warps_share_serve_any_number_of_them():
    demands = [Demand("L1 wavefronts", "L1", 70.0), Demand("DRAM", "DRAM", 50.0, 0.1)]
    assert on_whole_warps(demands, WarpLoads((1.0, 1.5, 0.5, 1.0, 1.0)), 1) == demands


@pytest.mark.parametrize("barriers", [False, True])
def test_five_warps_take_as_long_as_eight_that_do_nothing_but_issue(barriers):
    def cycles(warps: int) -> float:
        # Each warp issues for 400 cycles in one of four sub-cores.
        demands = [Demand("issue slots", "core", 100.0 * warps, 4.0)]
        block = Block(warps, [[Phase(400.0, 0.0, 400.0)]], lambda _: demands, barriers)
        return time_of_wave(block, 1, 1)[0]

    assert cycles(4) == pytest.approx(400)
    assert cycles(5) == cycles(8) == pytest.approx(800, rel=0.3)
    assert cycles(5) >= 800


def test_blocks_whose_crowding_is_known_wait_on_their_sm_for_nothing_else():
    demands = [Demand("L2 port", "port", 60.0), Demand("int", "core", 10.0, 4.0)]
    phases = [[Phase(100.0, 4.0, 6.0)]]

    def time(resident, crowding, demands=demands):
        crowded = Block(4, phases, lambda active: demands, True, resident=4, crowding=crowding)
        return time_of_wave(crowded, resident, 1)[0]

    # Four blocks take 2.5 times as long as one, and two of them a third of the way from one to four.
    assert [time(resident, 2.5) for resident in (1, 2, 4)] == pytest.approx([100, 150, 250])
    # The port takes 60 cycles for each block, whatever is said.
    assert time(4, 1.0) == pytest.approx(240)
    # The L2 is shared with other SMs, and waited for in addition.
    shared = [*demands, Demand("L2", "L2", 40.0, 0.1)]
    assert 250 < time(4, 2.5, shared) < 2.5 * 250


def test_warps_that_a_barrier_releases_wait_for_their_loads_at_the_same_time():
    # Eight warps issue for 50 cycles each, two in each sub-core, and wait for 400 cycles.
    demands = [Demand("issue slots", "core", 100.0, 4.0)]
    apart, together = ([[Phase(450.0, 1.0, 50.0, waits=waits)]] for waits in (0.0, 400.0))
    found = [time_of_wave(Block(8, phases, lambda _: demands, True), 1, 1)[0] for phases in (apart, together)]
    assert found[0] == pytest.approx(450, rel=0.02)
    assert found[1] == pytest.approx(400 + 100, rel=0.02)
