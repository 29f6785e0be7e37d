"""The L1 of the reference `hardware` model with sectors: one rule of docs/model.md section 13 after the other."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import pytest

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.reference import Counts, Instruction, L2Request, Log, Try, hardware, run
from rdmodel.trace import ALL_NEEDS, Op

A, B, C = 0, 1, 2
"""Lines of one set."""


def load(*asked: tuple[int, int], needs: int = ALL_NEEDS) -> Instruction:
    """Return a load of (line, sectors) pairs."""
    return Instruction(Op.LOAD, needs, 0, tuple(line for line, _ in asked), tuple(mask for _, mask in asked))


def store(line: int, sectors: int, full: int = 0, needs: int = 0) -> Instruction:
    return Instruction(Op.STORE, needs, 0, (line,), (sectors,), (full,))


def play(*warps: list[Instruction], ways: int = 2, stores: str = "through", **changes: Any) -> tuple[Counts, Log]:
    """Run warps of one block on one set of lines of four sectors; a miss takes 10 steps, a hit 2."""
    cache_fields = ("tags_per_step", "mshrs", "mshr_merge", "mshr_per_warp")
    geometry = {name: changes.pop(name) for name in cache_fields if name in changes}
    cache = CacheConfig(size=128 * ways, ways=ways, index=Linear(), sector=32, **geometry)
    options = Options(sigma=0.0, **{"lat_min": 10, "hit_latency": 2, "sched": "fifo", "stores": stores, **changes})
    log: Log = []
    requests: list[L2Request] = []
    sm = hardware(cache, options, 1, repeat(0), repeat(0.0), log, requests)
    return run(sm, [list(warps)]), [entry for entry in log if isinstance(entry, Try)]


def outcomes(counts: Counts) -> tuple[int, int, int]:
    return counts.hits, counts.latency_misses, counts.misses


# Hits, pending sectors and misses.


def test_a_transaction_counts_each_of_its_sectors():
    counts, _ = play([load((A, 0b0011)), load((A, 0b0111))])
    assert (counts.transactions, counts.sectors, outcomes(counts)) == (2, 5, (2, 0, 3))


def test_a_line_that_is_there_without_the_sector_is_a_sector_miss_and_not_a_tag_miss():
    counts, _ = play([load((A, 0b0001)), load((A, 0b0110)), load((B, 0b0001))])
    assert (counts.tag_misses, counts.sector_misses) == (2, 1)


def test_a_sector_in_flight_is_pending_and_another_one_of_its_line_misses_meanwhile():
    counts, log = play([load((A, 1))], [load((A, 0b11), needs=0)])
    assert outcomes(counts) == (0, 1, 2)
    assert [entry.effect_at for entry in log] == [10, 11]


def test_data_are_there_with_the_last_of_the_sectors_but_not_before_the_hit_latency():
    _, log = play([load((A, 1)), load((A, 0b11))], lat_min=10)
    assert [entry.effect_at for entry in log] == [10, 20]
    _, log = play([load((A, 1)), load((A, 0b11))], lat_min=1)
    assert [entry.effect_at for entry in log] == [1, 3]


def test_one_mshr_holds_all_sectors_that_a_transaction_misses():
    counts, _ = play([load((A, 0b1111), needs=0), load((B, 0b1111), needs=0)], mshrs=2)
    assert counts.stalls_mshr == 0
    counts, _ = play([load((A, 1), needs=0), load((A, 2), needs=0), load((A, 4), needs=0)], mshrs=2)
    assert counts.stalls_mshr == 1


def test_a_transaction_merges_into_the_mshr_of_each_sector_that_is_in_flight():
    program = [load((A, 1), needs=0), load((A, 2), needs=0), load((A, 3), needs=0), load((A, 1), needs=0)]
    counts, _ = play(program, mshr_merge=2)
    assert counts.stalls_mshr == 1


def test_a_line_with_one_sector_in_flight_keeps_its_way():
    # B tries at 2, at 10, when the first sector of A arrives, and at 11, when the second one does.
    counts, log = play([load((A, 1)), load((A, 2), needs=0), load((B, 1), needs=0)], ways=1)
    assert (counts.stalls_ways, log[-1].time) == (2, 11)


# Causes.


def test_the_first_request_to_a_sector_is_compulsory_even_if_its_line_was_evicted_meanwhile():
    counts, _ = play([load((A, 1)), load((B, 1)), load((A, 2))], ways=1)
    assert (counts.compulsory, counts.capacity) == (3, 0)


def test_a_sector_that_the_shadow_lost_with_its_line_is_a_capacity_miss():
    counts, _ = play([load((A, 3)), load((B, 1)), load((A, 1)), load((A, 2))], ways=1)
    assert (counts.compulsory, counts.capacity, counts.associativity) == (3, 2, 0)


# The tag stage.


@pytest.mark.parametrize(("tags", "steps"), [(1, [0, 1, 2, 3, 4]), (4, [0, 0, 0, 0, 1])])
def test_a_step_looks_up_so_many_transactions_of_one_instruction(tags, steps):
    _, log = play([load(*((line, 1) for line in range(5)))], ways=8, tags_per_step=tags)
    assert [entry.time for entry in log] == steps


def test_transactions_of_two_instructions_do_not_share_a_step():
    _, log = play([load((A, 1), needs=0), load((B, 1), needs=0)], ways=8, tags_per_step=4)
    assert [entry.time for entry in log] == [0, 1]


def test_a_stall_ends_the_step_and_the_rest_is_tried_again_after_a_fill():
    _, log = play([load((A, 1), (B, 1), (C, 1))], ways=2, tags_per_step=4)
    assert [(entry.time, entry.outcome) for entry in log] == [(0, "miss"), (0, "miss"), (0, "stall"), (10, "miss")]


# Stores.


def test_a_sector_that_was_written_in_full_can_be_read():
    counts, _ = play([store(A, 0b11, 0b11), load((A, 0b11), needs=0)])
    assert outcomes(counts) == (2, 0, 0)


def test_a_sector_that_was_written_in_part_is_fetched_by_a_load_but_hit_by_a_store():
    counts, _ = play([store(A, 1), load((A, 1), needs=0), store(A, 0b11)])
    assert outcomes(counts) == (0, 0, 1)
    assert (counts.store_transactions, counts.store_sectors, counts.store_hits) == (2, 3, 1)
    assert (counts.tag_misses, counts.sector_misses) == (0, 1)


def test_a_store_to_a_sector_in_flight_hits_and_does_not_make_it_readable_before_its_fill():
    counts, _ = play([load((A, 1)), store(A, 1, 1), load((A, 1), needs=0)])
    assert (outcomes(counts), counts.store_hits) == ((0, 1, 1), 1)


def test_update_does_not_allocate_and_through_does():
    program = [store(A, 1, 1), store(A, 1, 1), load((A, 1), needs=0)]
    assert outcomes(play(program, stores="update")[0]) == (0, 0, 1)
    assert outcomes(play(program, stores="through")[0]) == (1, 0, 0)


def test_update_writes_where_the_line_is_and_makes_it_the_most_recent_one():
    program = [load((A, 1)), load((B, 1)), store(A, 2, 2, needs=ALL_NEEDS), load((C, 1)), load((A, 3))]
    counts, _ = play(program, stores="update")
    assert outcomes(counts) == (2, 0, 3)


def test_a_store_passes_by_where_all_ways_are_in_flight_and_never_stalls():
    counts, log = play([load((A, 1), needs=0), store(B, 1, 1), load((B, 1))], ways=1)
    assert counts.store_transactions == 1
    assert [entry.outcome for entry in log] == ["miss", "miss"]
    assert counts.stalls_ways == 0


def test_stores_are_no_requests_for_a_sector_and_do_not_act_on_the_shadow():
    # The load of A is compulsory although A was written; B and C push nothing out of the shadow.
    program = [store(A, 1), load((A, 1)), store(B, 1, needs=ALL_NEEDS), store(C, 1), load((A, 1))]
    counts, _ = play(program, ways=1)
    assert (counts.compulsory, counts.associativity, counts.capacity) == (1, 1, 0)


def test_a_store_takes_its_step_and_nothing_waits_for_it():
    _, log = play([store(A, 1), store(B, 1), load((C, 1))], ways=4)
    assert [entry.time for entry in log] == [2]


def test_all_sectors_of_a_store_go_on_to_the_l2():
    cache = CacheConfig(size=256, ways=2, index=Linear(), sector=32)
    options = Options(sigma=0.0, lat_min=10, hit_latency=2, sched="fifo", stores="through")
    requests: list[L2Request] = []
    run(hardware(cache, options, 1, repeat(0), repeat(0.0), None, requests), [[[store(A, 7, 1), load((A, 3))]]])
    assert requests == [L2Request(0, A, True, 7, 1), L2Request(1, A, False, 2)]
