"""Test the reference of the definition `paper`, option by option, against outcomes derived by hand."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.reference import Block, Counts, Instruction, Log, Try, paper, run
from rdmodel.trace import Op

A, B, C, D = range(4)


def load(*lines: int) -> Instruction:
    return Instruction(Op.LOAD, 0, 0, lines)


def store(*lines: int) -> Instruction:
    return Instruction(Op.STORE, 0, 0, lines)


def play(
    *blocks: Block,
    ways: int = 4,
    slots: int = 1,
    draws: Any = None,
    cache: dict[str, Any] | None = None,
    **changes: Any,
) -> tuple[list[tuple[int, int, int, str]], Counts]:
    """Return (time, warp, line, outcome) of every try in one set; a miss takes 10 steps, a hit 0 by default."""
    geometry = CacheConfig(size=128 * ways, ways=ways, index=Linear(), **(cache or {}))
    chosen: dict[str, Any] = {"lat_min": 10, "hit_latency": 0, **changes}
    options = Options(definition="paper", sigma=0.0, **chosen)
    log: Log = []
    counts = run(paper(geometry, options, slots, iter(draws) if draws else repeat(0), log), blocks)
    return [(t.time, t.warp, t.line, t.outcome) for t in log if isinstance(t, Try)], counts


def times(tries: list[tuple[int, int, int, str]]) -> list[tuple[int, int, int]]:
    return [(time, warp, line) for time, warp, line, _ in tries]


def test_one_step_issues_all_transactions_of_an_instruction_and_the_next_instruction_waits_for_the_last() -> None:
    # the misses at 0 take 10 and 13; nothing is ready until 13, where only the end of a step is done
    tries, counts = play([[load(A, B), load(C)]], draws=[0, 3, 0])
    assert times(tries) == [(0, 0, A), (0, 0, B), (14, 0, C)]
    assert counts.steps == 24


def test_warps_take_turns_in_fifo_order_and_join_the_queue_as_their_data_arrives() -> None:
    # data: warp 0 at 0 + 12, warp 1 at 1 + 10, so warp 1 is first; hits take effect at once
    tries, _ = play([[load(A), load(A)], [load(B), load(B)]], draws=[2, 0])
    assert times(tries) == [(0, 0, A), (1, 1, B), (12, 1, B), (13, 0, A)]


def test_a_request_for_a_line_in_flight_is_a_latency_miss_and_arrives_with_it() -> None:
    # A arrives at 10 for both warps, warp 0 issued it first
    tries, counts = play([[load(A), load(B)], [load(A), load(C)]])
    assert tries == [(0, 0, A, "miss"), (1, 1, A, "latency"), (11, 0, B, "miss"), (12, 1, C, "miss")]
    assert (counts.latency_misses, counts.misses) == (1, 3)


def test_without_clipping_a_merged_request_has_a_latency_of_its_own() -> None:
    # warp 1 waits until 1 + 10 + 5 = 16
    tries, _ = play([[load(A), load(B)], [load(A), load(C)]], clip=False, draws=[0, 5, 0, 0])
    assert times(tries) == [(0, 0, A), (1, 1, A), (11, 0, B), (17, 1, C)]


def test_without_clipping_an_mshr_is_held_until_the_last_merged_request_arrived() -> None:
    # A's MSHR is held until 16, so B stalls at 11 and is tried again at 17
    tries, counts = play([[load(A), load(B)], [load(A)]], clip=False, draws=[0, 5, 0], cache={"mshrs": 1})
    assert tries[2:] == [(11, 0, B, "stall"), (17, 0, B, "miss")]
    assert counts.stalls_mshr == 1


def test_accesses_come_before_the_effects_of_their_time_unless_told_otherwise() -> None:
    # A is issued at 0 and takes effect at 1, when warp 1 reads it
    assert play([[load(A)], [load(A)]], lat_min=1)[0][1] == (1, 1, A, "latency")
    assert play([[load(A)], [load(A)]], lat_min=1, effects="before")[0][1] == (1, 1, A, "hit")


def test_with_effects_before_a_warp_issues_at_the_time_at_which_its_data_arrives() -> None:
    assert times(play([[load(A), load(B)]])[0]) == [(0, 0, A), (11, 0, B)]
    assert times(play([[load(A), load(B)]], effects="before")[0]) == [(0, 0, A), (10, 0, B)]


def test_a_stalled_instruction_keeps_what_it_issued_and_tries_the_rest_when_an_mshr_is_freed() -> None:
    tries, counts = play([[load(A, B, C)]], cache={"mshrs": 2})
    assert tries == [(0, 0, A, "miss"), (0, 0, B, "miss"), (0, 0, C, "stall"), (11, 0, C, "miss")]
    assert counts.stalls_mshr == 1


def test_a_stalled_instruction_waits_for_the_data_it_asked_for_before_the_stall() -> None:
    # A is there at 10, B only at 40; C is issued at 11 and there at 21; so D waits for B
    tries, _ = play([[load(A, B, C), load(D)]], cache={"mshrs": 2}, draws=[0, 30, 0, 0])
    assert times(tries)[-2:] == [(11, 0, C), (41, 0, D)]


def test_stalled_warps_join_the_queue_after_those_whose_data_arrived_in_the_order_of_stalling() -> None:
    # at 10 warp 0's data is there and the MSHR is free: warps 0, 1, 2 are tried, and 2 stalls once more
    tries, _ = play([[load(A), load(A)], [load(B)], [load(C)]], cache={"mshrs": 1})
    assert tries == [
        (0, 0, A, "miss"),
        (1, 1, B, "stall"),
        (2, 2, C, "stall"),
        (11, 0, A, "hit"),
        (12, 1, B, "miss"),
        (13, 2, C, "stall"),
        (23, 2, C, "miss"),
    ]


def test_while_warps_are_stalled_those_that_need_no_mshr_go_on() -> None:
    tries, _ = play([[load(A)], [load(B)], [load(A)]], cache={"mshrs": 1})
    assert tries[:3] == [(0, 0, A, "miss"), (1, 1, B, "stall"), (2, 2, A, "latency")]


def test_one_warp_holds_no_more_mshrs_than_it_may() -> None:
    tries, _ = play([[load(A, B)], [load(C)]], cache={"mshr_per_warp": 1})
    assert tries == [(0, 0, A, "miss"), (0, 0, B, "stall"), (1, 1, C, "miss"), (11, 0, B, "miss")]


def test_an_mshr_serves_no_more_transactions_than_it_may() -> None:
    # the miss and one merged request; the third is tried again when the line is there
    tries, counts = play([[load(A)], [load(A)], [load(A)]], cache={"mshr_merge": 2})
    assert [t[-1] for t in tries] == ["miss", "latency", "stall", "hit"]
    assert (tries[-1][0], counts.stalls_mshr) == (11, 1)


def test_a_line_is_pushed_out_by_effects_not_by_issues() -> None:
    # one way: B's miss at 11 does not touch A before 21, so warp 1 still hits A at 12
    tries, _ = play([[load(A), load(B)], [load(A), load(A)]], ways=1)
    assert tries[2:] == [(11, 0, B, "miss"), (12, 1, A, "hit")]


def test_without_divergence_warps_take_turns_and_never_wait() -> None:
    tries, counts = play([[load(A), load(A)], [load(B), load(B)]], divergence=False)
    assert times(tries) == [(0, 0, A), (1, 1, B), (2, 0, A), (3, 1, B)]
    assert counts.latency_misses == 2


def test_without_divergence_a_stalled_warp_is_tried_again_in_its_turn() -> None:
    # B is tried at every step until the effect at the end of 3 frees the MSHR
    tries, counts = play([[load(A)], [load(B)]], divergence=False, cache={"mshrs": 1}, lat_min=3)
    assert [t[0] for t in tries] == [0, 1, 2, 3, 4]
    assert counts.stalls_mshr == 3


def test_without_divergence_a_block_ends_when_its_last_instruction_is_issued() -> None:
    tries, _ = play([[load(A)]], [[load(B)]], divergence=False)
    assert times(tries) == [(0, 0, A), (1, 1, B)]


def test_a_block_that_ends_is_replaced_at_once_or_with_the_whole_wave() -> None:
    # block 0 ends at 10, block 1's second load is issued at 12 and ends it at 22
    blocks = [[load(A)]], [[load(B), load(C)]], [[load(D)]]
    assert times(play(*blocks, slots=2)[0]) == [(0, 0, A), (1, 1, B), (11, 2, D), (12, 1, C)]
    assert times(play(*blocks, slots=2, cta="waves")[0]) == [(0, 0, A), (1, 1, B), (12, 1, C), (23, 2, D)]


def test_stores_are_left_out_unless_they_allocate() -> None:
    assert times(play([[store(A), load(B), store(C)]])[0]) == [(0, 0, B)]
    allocated, counts = play([[store(A), load(A)]], stores="allocate")
    assert allocated == [(0, 0, A, "miss"), (11, 0, A, "hit")]
    assert counts.transactions == 2
