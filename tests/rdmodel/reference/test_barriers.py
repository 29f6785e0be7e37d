"""Test barriers in the reference of the definition `hardware` against outcomes derived by hand."""

from __future__ import annotations

from rdmodel.reference import Instruction
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.hardware_programs import LAST, A, B, C, D, E, F, load, play, store, times


def barrier(needs: int = 0, gap: int = 0) -> Instruction:
    return Instruction(Op.BARRIER, needs, gap, ())


def test_a_warp_stands_at_a_barrier_until_the_last_one_of_its_block_has_come() -> None:
    # warp 1 comes when A, issued at 1 behind B, has arrived at 11; both join in the step after
    block = [[load(B), barrier(), load(C)], [load(A), barrier(needs=LAST), load(D)]]
    assert times(play(block)) == [(0, 0, B), (1, 1, A), (12, 0, C), (13, 1, D)]


def test_a_barrier_takes_neither_the_port_nor_a_place_in_needs() -> None:
    # warp 0 stands from 1 on while warp 1 has the port; C needs the load before the barrier, there at 10
    block = [[load(A), barrier(), load(C, needs=LAST)], [load(B), load(B), barrier()]]
    assert times(play(block)) == [(0, 0, A), (1, 1, B), (2, 1, B), (10, 0, C)]


def test_unknown_needs_of_a_barrier_are_all_earlier_loads() -> None:
    assert times(play([[load(A), load(B), barrier(), load(C)]])) == [(0, 0, A), (1, 0, B), (3, 0, C)]
    assert times(play([[load(A), load(B), barrier(ALL_NEEDS), load(C)]])) == [(0, 0, A), (1, 0, B), (12, 0, C)]


def test_a_warp_that_ends_counts_as_standing() -> None:
    # warp 1 ends at 11, when its load has arrived, and warp 2 has nothing to do
    assert times(play([[barrier(), load(A)], [load(B)], []])) == [(0, 1, B), (11, 0, A)]


def test_warps_join_in_the_order_of_their_slots_whoever_came_last() -> None:
    # warp 1 stands from 0 on, warp 0 from 1 on
    assert times(play([[load(A), barrier(), load(C)], [barrier(), load(D)]])) == [(0, 0, A), (2, 0, C), (3, 1, D)]


def test_a_warp_of_an_open_barrier_waits_for_its_own_needs() -> None:
    block = [[load(A), barrier(), load(C, needs=LAST)], [barrier(), load(D)]]
    assert times(play(block)) == [(0, 0, A), (2, 1, D), (10, 0, C)]


def test_barriers_hold_the_warps_of_their_own_block_only() -> None:
    first, second = [[load(A), barrier(LAST), load(B)], [barrier(), load(C)]], [[load(D), load(E)]]
    assert times(play(first, second, slots=2)) == [(0, 0, A), (1, 2, D), (2, 2, E), (11, 0, B), (12, 1, C)]


def test_each_of_several_barriers_takes_a_step() -> None:
    assert times(play([[barrier(), barrier(), barrier(), load(A)]])) == [(3, 0, A)]


def test_a_block_may_end_with_a_barrier() -> None:
    assert times(play([[load(A), barrier(LAST)], [barrier()]], [[load(B)]])) == [(0, 0, A), (11, 2, B)]


def test_stores_before_a_barrier_act_when_the_warp_comes_and_those_behind_it_when_it_opens() -> None:
    # warp 0 evicts A at 10 or behind the barrier, which warp 1 keeps closed until 31; block 1 loads A again at 12
    other = [[load(C), load(A, needs=LAST)]]
    for program, outcome in [
        ([load(A), store(A, needs=LAST), barrier()], "miss"),
        ([load(A), barrier(LAST), store(A)], "hit"),
    ]:
        tries, _ = play([program, [load(B), barrier(LAST)]], other, slots=2, stores="evict", draws=[0, 20, 0, 0])
        assert tries[-1] == (12, 2, A, outcome)


def test_instructions_before_a_barrier_take_their_steps_through_the_ready_list() -> None:
    block = [[barrier(gap=3), load(A)], [barrier(), load(B)]]
    assert times(play(block, gap=True)) == [(4, 0, A), (5, 1, B)]
    assert times(play(block)) == [(1, 0, A), (2, 1, B)]


def test_a_warp_with_a_late_start_comes_to_its_barrier_late() -> None:
    block = [[barrier(), load(A)]]
    assert times(play(block, [[barrier(), load(B)]], slots=2, stagger=7)) == [(1, 0, A), (8, 1, B)]


def test_a_parked_warp_comes_to_the_barrier_after_its_instruction() -> None:
    # warp 1 lacks an MSHR until 10; its barrier waits for C, there at 20
    block = [[load(A), barrier(), load(F)], [load(C), barrier(LAST)]]
    tries = [(0, 0, A), (1, 1, C), (10, 1, C), (21, 0, F)]
    assert times(play(block, cache={"mshrs": 1})) == tries


def test_without_divergence_warps_do_not_wait_at_barriers() -> None:
    block = [[load(A), barrier(ALL_NEEDS), load(C)], [load(B), load(B), barrier(), load(D)]]
    assert times(play(block, divergence=False)) == [(0, 0, A), (1, 1, B), (2, 0, C), (3, 1, B), (4, 1, D)]
