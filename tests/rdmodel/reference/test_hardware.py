"""Test the reference of the definition `hardware`, option by option, against outcomes derived by hand."""

from __future__ import annotations

import pytest

from rdmodel.reference import Counts
from rdmodel.trace import ALL_NEEDS
from tests.support.hardware_programs import LAST, A, B, C, D, E, F, Tries, load, play, store, times


def warps(result: tuple[Tries, Counts]) -> list[int]:
    return [warp for _, warp, _, _ in result[0]]


# Needs.


def test_a_warp_runs_on_until_a_value_is_used() -> None:
    # C needs the one before the last: A, there at 10. D needs B, there at 11 already
    program = [load(A), load(B), load(C, needs=2), load(D, needs=2)]
    assert times(play([program])) == [(0, 0, A), (1, 0, B), (10, 0, C), (11, 0, D)]


def test_unknown_needs_wait_for_every_earlier_load() -> None:
    program = [load(A), load(B), load(C, needs=ALL_NEEDS)]
    assert times(play([program], draws=[20, 0, 0])) == [(0, 0, A), (1, 0, B), (30, 0, C)]


def test_a_load_more_than_64_instructions_back_is_always_needed() -> None:
    # 63 stores between: the load is 64 back, and its bit is not set; one more, and it is waited for
    assert times(play([[load(A), *[store(E)] * 63, load(B)]]))[-1] == (1, 0, B)
    assert times(play([[load(A), *[store(E)] * 64, load(B)]]))[-1] == (10, 0, B)


def test_stores_wait_for_their_needs_but_delay_nothing_themselves() -> None:
    assert times(play([[load(A), store(E, needs=LAST), load(B)]])) == [(0, 0, A), (10, 0, B)]
    # the load needs the store, which has arrived as soon as it is done
    assert times(play([[load(A), store(E), load(B, needs=LAST)]])) == [(0, 0, A), (1, 0, B)]


def test_a_warp_ends_when_all_it_issued_has_arrived() -> None:
    # B of block 1 takes the slot when A has arrived, though nothing needs A
    assert times(play([[load(A), store(E)]], [[load(B)]])) == [(0, 0, A), (10, 1, B)]


def test_waiting_warps_join_in_the_order_in_which_their_needs_arrived() -> None:
    # data: warp 0 at 15, warp 1 at 11; while the port is idle time jumps
    result = play([[load(A), load(C, needs=LAST)], [load(B), load(D, needs=LAST)]], draws=[5, 0, 0, 0])
    assert times(result) == [(0, 0, A), (1, 1, B), (11, 1, D), (15, 0, C)]


# Transactions and the port.


def test_a_step_issues_one_transaction_and_an_instruction_keeps_the_port() -> None:
    assert times(play([[load(A, B)], [load(C)]])) == [(0, 0, A), (1, 0, B), (2, 1, C)]


def test_with_a_step_per_instruction_all_its_transactions_act_at_once() -> None:
    assert times(play([[load(A, B)], [load(C)]], step="instruction")) == [(0, 0, A), (0, 0, B), (1, 1, C)]


def test_a_pending_hit_arrives_with_the_fill_but_not_before_the_hit_latency() -> None:
    # A is filled at 10. Warp 1 merges at 1 and waits until 10
    block = [[load(A)], [load(A), load(B, needs=LAST)]]
    assert play(block)[0] == [(0, 0, A, "miss"), (1, 1, A, "latency"), (10, 1, B, "miss")]
    # with a hit latency of 30 it waits until 31
    assert times(play(block, hit_latency=30))[-1] == (31, 1, B)


def test_a_hit_arrives_after_the_hit_latency() -> None:
    result = play([[load(A), load(A, needs=LAST), load(B, needs=LAST)]])
    assert result[0] == [(0, 0, A, "miss"), (10, 0, A, "hit"), (12, 0, B, "miss")]


def test_a_fill_at_now_is_seen_by_the_access_at_now() -> None:
    # B at 1, C at 2, and A again at 3, when it is filled
    assert play([[load(A), load(B), load(C), load(A)]], lat_min=3)[0][-1] == (3, 0, A, "hit")


# Allocation at issue.


def test_the_victim_of_a_miss_is_gone_at_once_and_a_line_in_flight_is_no_victim() -> None:
    # two ways: C at 11 takes A's way. A at 12 finds it gone and takes B's, since C is in flight.
    # B at 13 finds both ways in flight, until C is filled at 21
    program = [load(A), load(B), load(C, needs=3), load(A), load(B)]
    tries, counts = play([program], ways=2)
    assert tries[2:] == [(11, 0, C, "miss"), (12, 0, A, "miss"), (13, 0, B, "stall"), (21, 0, B, "miss")]
    assert (counts.stalls_ways, counts.stalls_mshr) == (1, 0)


def test_hits_and_pending_hits_move_a_line_to_the_top() -> None:
    # two ways: after A, B, A the victim of C is B
    merged = [load(A), load(B), load(A), load(C, needs=7), load(A), load(B, needs=2)]
    assert [t[3] for t in play([merged], ways=2)[0]] == ["miss", "miss", "latency", "miss", "hit", "miss"]
    hit = [load(A), load(B), load(A, needs=3), load(C, needs=7), load(A), load(B, needs=2)]
    assert [t[3] for t in play([hit], ways=2)[0]] == ["miss", "miss", "hit", "miss", "hit", "miss"]


def test_a_full_set_can_be_bypassed() -> None:
    # one way, held by A until 10: B goes around it at 1, is merged with at 2, and absent once filled at 11,
    # when A is still there
    block = [[load(A)], [load(B)], [load(B), load(A, needs=LAST), load(B)]]
    tries, counts = play(block, ways=1, full_set="bypass")
    assert tries == [
        (0, 0, A, "miss"),
        (1, 1, B, "miss"),
        (2, 2, B, "latency"),
        (11, 2, A, "hit"),
        (12, 2, B, "miss"),
    ]
    assert (counts.bypassed, counts.stalls_ways) == (1, 0)


def test_a_bypassing_miss_still_needs_an_mshr() -> None:
    _, counts = play([[load(A)], [load(B)]], ways=1, full_set="bypass", cache={"mshrs": 1})
    assert (counts.stalls_mshr, counts.bypassed) == (1, 0)


def test_a_missing_mshr_is_noticed_before_a_missing_way() -> None:
    _, counts = play([[load(A)], [load(B)]], ways=1, cache={"mshrs": 1})
    assert (counts.stalls_mshr, counts.stalls_ways) == (1, 0)


# Stalls.


def test_a_parked_warp_lets_others_issue_and_tries_again_at_the_next_fill() -> None:
    tries, counts = play([[load(A)], [load(B)], [load(A)]], cache={"mshrs": 1})
    assert tries == [(0, 0, A, "miss"), (1, 1, B, "stall"), (2, 2, A, "latency"), (10, 1, B, "miss")]
    assert counts.stalls_mshr == 1


def test_a_stall_at_the_head_lets_nobody_issue_until_the_next_fill() -> None:
    tries, counts = play([[load(A)], [load(B)], [load(A)]], cache={"mshrs": 1}, stall="head")
    assert tries == [(0, 0, A, "miss"), (1, 1, B, "stall"), (10, 1, B, "miss"), (11, 2, A, "hit")]
    assert counts.stalls_mshr == 1


def test_a_stalled_instruction_keeps_what_it_issued() -> None:
    tries, _ = play([[load(A, B), load(A)]], cache={"mshrs": 1})
    assert tries == [(0, 0, A, "miss"), (1, 0, B, "stall"), (10, 0, B, "miss"), (11, 0, A, "hit")]


def test_parked_warps_join_before_warps_whose_needs_have_arrived() -> None:
    # at 10 warp 1 is first and takes the MSHR that warp 0 then lacks
    block = [[load(A), load(C, needs=LAST)], [load(B)]]
    tries, _ = play(block, cache={"mshrs": 1})
    assert tries[1:4] == [(1, 1, B, "stall"), (10, 1, B, "miss"), (11, 0, C, "stall")]


def test_one_warp_holds_no_more_mshrs_than_it_may() -> None:
    tries, _ = play([[load(A, B)], [load(C)]], cache={"mshr_per_warp": 1})
    assert tries == [(0, 0, A, "miss"), (1, 0, B, "stall"), (2, 1, C, "miss"), (10, 0, B, "miss")]


def test_an_mshr_serves_no_more_transactions_than_it_may() -> None:
    tries, counts = play([[load(A)], [load(A)], [load(A)]], cache={"mshr_merge": 2})
    assert tries[1:] == [(1, 1, A, "latency"), (2, 2, A, "stall"), (10, 2, A, "hit")]
    assert counts.stalls_mshr == 1


# Stores.


def test_a_store_can_take_a_step() -> None:
    assert times(play([[load(A), store(E), load(B)]])) == [(0, 0, A), (1, 0, B)]
    assert times(play([[load(A), store(E), load(B)]], stores="step")) == [(0, 0, A), (2, 0, B)]


def test_a_store_can_evict_a_valid_line_but_not_one_in_flight() -> None:
    valid = [load(A), store(A, needs=LAST), load(A)]
    assert [t[3] for t in play([valid])[0]] == ["miss", "hit"]
    assert [t[3] for t in play([valid], stores="evict")[0]] == ["miss", "miss"]
    assert [t[3] for t in play([[load(A), store(A), load(A)]], stores="evict")[0]] == ["miss", "latency"]


def test_the_last_store_of_a_warp_evicts_before_the_warp_ends() -> None:
    result = play([[load(A), store(A, needs=LAST)]], [[load(A)]], stores="evict")
    assert result[0] == [(0, 0, A, "miss"), (10, 1, A, "miss")]


def test_a_warp_of_stores_only_evicts_when_its_block_starts() -> None:
    result = play([[load(A)]], [[store(A)]], [[load(A)]], stores="evict")
    assert [t[3] for t in result[0]] == ["miss", "miss"]


def test_a_store_can_be_like_a_load() -> None:
    result = play([[store(A), load(A), load(B, needs=2)]], stores="allocate")
    assert result[0] == [(0, 0, A, "miss"), (1, 0, A, "latency"), (10, 0, B, "miss")]


# Warp choice. Loads need nothing, so that every warp is ready again in the step after its own.

THREE = [[load(A), load(B)], [load(C), load(D)], [load(E), load(F)]]


@pytest.mark.parametrize(
    ("sched", "order"),
    [
        ("fifo", [0, 1, 2, 0, 1, 2]),
        ("lrr", [0, 1, 2, 0, 1, 2]),
        ("gto", [0, 0, 1, 1, 2, 2]),
        ("oldest", [0, 0, 1, 1, 2, 2]),
        ("gty", [2, 2, 1, 1, 0, 0]),
    ],
)
def test_schedulers_choose_among_warps_that_are_all_ready(sched: str, order: list[int]) -> None:
    assert warps(play(THREE, sched=sched)) == order


@pytest.mark.parametrize(
    ("sched", "order"),
    [
        ("fifo", [0, 1, 2, 1, 2, 0, 1, 2]),
        ("lrr", [0, 1, 2, 0, 1, 2, 1, 2]),
        ("gto", [0, 1, 1, 1, 0, 2, 2, 2]),
        ("oldest", [0, 1, 1, 0, 1, 2, 2, 2]),
        ("gty", [2, 2, 2, 1, 1, 1, 0, 0]),
    ],
)
def test_schedulers_choose_when_a_warp_comes_back(sched: str, order: list[int]) -> None:
    # warp 0's data is there at 3, and it joins in that step, behind the others in the list
    block = [[load(A), load(A, needs=LAST)], [load(B), load(B), load(B)], [load(C), load(C), load(C)]]
    assert warps(play(block, sched=sched, lat_min=3)) == order


def test_oldest_goes_by_the_start_of_the_block_and_lrr_by_the_slot() -> None:
    # block 0 in slot 0 ends at 1 and block 2 takes its place
    blocks = [[load(A)]], [[load(B), load(B), load(B)]], [[load(C), load(C)]]
    assert warps(play(*blocks, slots=2, lat_min=1, sched="oldest")) == [0, 1, 1, 1, 2, 2]
    assert warps(play(*blocks, slots=2, lat_min=1, sched="lrr")) == [0, 1, 2, 1, 2, 1]


def test_youngest_goes_by_the_start_of_the_block() -> None:
    # Blocks 2 and 3 in slot 2 are the youngest and go first. When block 3 is done at 12, block 4 has taken slot 0, and
    # the data of block 1 in slot 1 have arrived.
    blocks = [[load(A)]], [[load(B), load(B, needs=LAST)]], [[load(C)] * 2], [[load(D)] * 8], [[load(E)]]
    assert warps(play(*blocks, slots=3, lat_min=4, sched="gty")) == [2, 2, 1, 0] + [3] * 8 + [4, 1]


@pytest.mark.parametrize(
    ("sched", "order"),
    [
        # warps 0 and 2 are those of scheduler 0; the schedulers take turns at the port
        ("gto", [0, 1, 0, 1, 2, 3, 2, 3]),
        ("oldest", [0, 1, 0, 1, 2, 3, 2, 3]),
        ("gty", [2, 3, 2, 3, 0, 1, 0, 1]),
        ("lrr", [0, 1, 2, 3, 0, 1, 2, 3]),
    ],
)
def test_two_schedulers_choose_among_their_own_warps_in_turn(sched: str, order: list[int]) -> None:
    block = [[load(line), load(line)] for line in (A, B, C, D)]
    assert warps(play(block, sched=sched, schedulers=2)) == order


def test_a_scheduler_without_a_ready_warp_leaves_its_turn_to_the_next() -> None:
    # scheduler 1 has warp 1 alone, whose data comes at 10
    block = [[load(A), load(A), load(A)], [load(B), load(B, needs=LAST)], [load(C)]]
    assert times(play(block, sched="oldest", schedulers=2)) == [
        (0, 0, A), (1, 1, B), (2, 0, A), (3, 0, A), (4, 2, C), (11, 1, B),
    ]  # fmt: skip


def test_schedulers_issue_instructions_that_do_not_access_memory_side_by_side() -> None:
    block = [[load(A, gap=2)], [load(B, gap=2)]]
    assert times(play(block, gap=True, sched="lrr")) == [(4, 0, A), (5, 1, B)]
    assert times(play(block, gap=True, sched="lrr", schedulers=2)) == [(2, 0, A), (3, 1, B)]


def test_random_takes_the_warp_at_the_drawn_place_of_the_ready_list() -> None:
    # the lists are 012, 012, 120, 10, 01 and 1
    choices = iter([0.99, 0.0, 0.5, 0.34, 0.0, 0.7])
    assert warps(play(THREE, sched="random", choices=choices)) == [2, 0, 2, 1, 0, 1]
    assert next(choices, None) is None


def test_random_draws_also_when_only_one_warp_is_ready() -> None:
    choices = iter([0.1, 0.2, 0.3, 0.4])
    play([[load(A), load(B, C)]], sched="random", choices=choices)
    assert list(choices) == [0.3, 0.4]


def test_without_divergence_warps_never_wait_and_are_chosen_in_turn_without_draws() -> None:
    block = [[load(A), load(B, needs=LAST)], [load(C), load(D, needs=LAST)]]
    result = play(block, [[load(E)]], divergence=False, sched="random", choices=iter([]))
    # the block ends when its last load, issued at 3, has arrived
    assert times(result) == [(0, 0, A), (1, 1, C), (2, 0, B), (3, 1, D), (13, 2, E)]


# Blocks.


def test_a_block_that_ends_is_replaced_at_once_or_with_the_whole_wave() -> None:
    blocks = [[load(A)]], [[load(B), load(C, needs=LAST)]], [[load(D)]]
    assert times(play(*blocks, slots=2)) == [(0, 0, A), (1, 1, B), (10, 2, D), (11, 1, C)]
    assert times(play(*blocks, slots=2, cta="waves")) == [(0, 0, A), (1, 1, B), (11, 1, C), (21, 2, D)]


def test_staggered_blocks_of_the_initial_fill_start_one_after_another() -> None:
    # block 2 is not of the initial fill: it starts when block 0 ends
    blocks = [[load(A)], [load(B)]], [[load(C)], [load(D)]], [[load(E)]]
    expected = [(0, 0, A), (1, 1, B), (5, 2, C), (6, 3, D), (11, 4, E)]
    assert times(play(*blocks, slots=2, stagger=5)) == expected


# Time.


def test_the_gap_takes_steps_through_the_ready_list() -> None:
    block = [[load(A, gap=2)], [load(B)]]
    assert times(play(block)) == [(0, 0, A), (1, 1, B)]
    # steps: gap of warp 0, B, gap, A
    assert times(play(block, gap=True)) == [(1, 1, B), (3, 0, A)]


def test_the_gap_counts_that_of_the_stores_before_and_begins_when_the_needs_are_there() -> None:
    program = [load(A), store(E, gap=2), load(B, needs=2, gap=1)]
    assert times(play([program], gap=True)) == [(0, 0, A), (13, 0, B)]


def test_the_first_touch_of_a_line_can_take_longer() -> None:
    # one way: A is there at 20, B at 40, A again, no longer new, at 50
    program = [load(A), load(B, needs=LAST), load(A, needs=LAST), load(A, needs=LAST)]
    assert times(play([program], ways=1, first_touch_factor=2.0)) == [
        (0, 0, A),
        (20, 0, B),
        (40, 0, A),
        (50, 0, A),
    ]


def test_the_latency_of_a_first_touch_is_rounded_half_up() -> None:
    # 0.25 x 10 = 2.5
    assert times(play([[load(A), load(B, needs=LAST)]], first_touch_factor=0.25))[-1] == (3, 0, B)


def test_each_miss_takes_one_draw_and_a_failed_try_none() -> None:
    # A 10 + 1; B stalls at 1 and is tried when A is there; B 10 + 2; C 10 + 3
    program = [load(A), load(B), load(C, needs=LAST)]
    result = play([program], draws=[1, 2, 3], cache={"mshrs": 1})
    assert times(result) == [(0, 0, A), (1, 0, B), (11, 0, B), (23, 0, C)]
    assert result[1].steps == 36
