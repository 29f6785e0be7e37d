"""An L1 whose ways are tags alone: all sets share a pool of data (docs/gpus.md, "Data that belong to no set")."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import predict
from rdmodel.errors import ConfigError
from rdmodel.gpu.cache import OWN_DATA
from rdmodel.gpu.config import GPU, CacheConfig, replace
from rdmodel.policies import Linear
from tests.support.builders import LINE, load, make_gpu, make_trace
from tests.support.examples import examples
from tests.support.random_predictions import HARDWARE, machines, programs

STEPS = {"definition": "hardware", "lat_min": 1, "sigma": 0.0, "hit_latency": 0}


def pooled(lines: int, sets: int = 4, ways: int = 2, **l1: Any) -> GPU:
    """Return a GPU whose L1 has 8 tags by default, and data for so many lines."""
    return make_gpu(size=lines * LINE, ways=ways, tag_sets=sets, **l1)


def misses(gpu: GPU, *lines: int) -> int:
    """Return the misses of one warp that loads lines one after the other."""
    found = predict(make_trace([[[load(line) for line in lines]]], 1), gpu, **STEPS)
    return int(found.misses.total)


# ---- scenarios


def test_lines_of_all_sets_hit_while_there_are_data():
    assert misses(pooled(4), 0, 1, 4, 5, 0, 1, 4, 5) == 4


def test_a_full_set_replaces_its_own_oldest_line_although_there_are_data():
    # Lines 0, 4 and 8 are in set 0, which has two tags.
    assert misses(pooled(8), 1, 0, 4, 8, 1) == 4
    assert misses(pooled(8), 1, 0, 4, 8, 0) == 5


def test_without_data_a_line_of_the_set_whose_turn_it_is_leaves():
    # It is the turn of set 0, and then of set 1.
    assert misses(pooled(3), 0, 1, 2, 3, 1, 2) == 4
    assert misses(pooled(3), 0, 1, 2, 3, 0) == 5
    assert misses(pooled(3), 0, 1, 2, 3, 0, 2, 3) == 5
    assert misses(pooled(3), 0, 1, 2, 3, 0, 1) == 6


def test_a_set_without_lines_passes_its_turn_on():
    # Set 0 is empty, so that line 1 leaves, and then line 2.
    assert misses(pooled(2), 1, 2, 3, 2, 3) == 3
    assert misses(pooled(2), 1, 2, 3, 1, 3) == 4


def test_of_the_set_whose_turn_it_is_the_least_recently_used_line_leaves():
    # Lines 0 and 4 are in set 0.
    assert misses(pooled(4), 0, 4, 1, 2, 0, 3, 0, 1, 2) == 5
    assert misses(pooled(4), 0, 4, 1, 2, 0, 3, 4) == 6


def test_a_line_of_a_full_set_takes_no_turn():
    # Line 8 replaces line 0 in the full set 0. It is still the turn of set 0, and then of set 1.
    assert misses(pooled(3), 0, 4, 1, 8, 2, 8, 1) == 5
    assert misses(pooled(3), 0, 4, 1, 8, 2, 4) == 6


def test_sets_of_another_part_give_no_data():
    # Sets 0 and 1 share two lines, and so do sets 2 and 3.
    gpu = pooled(4, pools=2)
    assert misses(gpu, 2, 3, 0, 1, 4, 2, 3, 1) == 5
    assert misses(gpu, 2, 3, 0, 1, 4, 0) == 6


def replaced(order: str, protected: int = 2) -> str:
    """Return which lines of a set of four ways hit after loads of lines, a digit each."""
    gpu = pooled(16, ways=4, protected=protected)
    lines = [4 * int(digit) for digit in order]
    return "".join(d for d in sorted(set(order)) if misses(gpu, *lines, 4 * int(d)) == misses(gpu, *lines))


@pytest.mark.parametrize(
    ("order", "left"),
    [
        ("01234", "1234"),
        ("001234", "0234"),
        ("001234567", "0567"),
        ("0011234", "0134"),
        ("00112233", "0123"),
        ("001122334", "1234"),
        ("0011223345", "2345"),
        ("00112233456", "2356"),
        ("0011223456789", "1289"),
        ("00112345566", "0156"),
        ("0011223345567", "3567"),
        ("0123012345", "2345"),
        ("012301234567", "2367"),
    ],
)
def test_lines_that_were_used_again_leave_last_as_on_an_h200(order, left):
    # Measured by `validation/h100/chains.py`, experiment "reuse".
    assert replaced(order) == left


def test_without_protection_the_least_recently_used_line_leaves():
    assert replaced("001234", protected=0) == "1234"


def test_reserved_bytes_hold_no_lines():
    gpu = pooled(4, reserved=LINE)
    assert gpu.l1.lines == gpu.l1.pool == 3
    assert misses(gpu, 0, 1, 2, 0, 1, 2) == 3
    assert misses(gpu, 0, 1, 2, 3, 0) == 5


# ---- laws


@examples(100)
@given(programs(), machines(), HARDWARE, st.integers(0, 3), st.integers(0, 9))
def test_as_many_data_as_tags_are_those_of_ordinary_ways(program, gpu, options, seed, more):
    gpu = gpu.replace(l1=replace(gpu.l1, size=gpu.l1.sets * gpu.l1.ways * LINE, **OWN_DATA))
    whole = gpu.replace(l1=replace(gpu.l1, size=gpu.l1.size + more * LINE, tag_sets=gpu.l1.sets))
    trace = make_trace(*program)
    ordinary, shared = (predict(trace, each, seed=seed, **options) for each in (gpu, whole))
    assert [sm.hits for sm in shared.per_sm] == [sm.hits for sm in ordinary.per_sm]
    assert [sm.misses.total for sm in shared.per_sm] == [sm.misses.total for sm in ordinary.per_sm]


@examples(50)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=60), st.integers(1, 8))
def test_a_set_of_all_tags_makes_the_data_an_lru_cache(lines, size):
    whole = make_gpu(size=size * LINE, ways=size)
    assert misses(pooled(size, sets=1, ways=16), *lines) == misses(whole, *lines)


# ---- configuration


def test_a_carve_out_leaves_tags_as_they_are():
    l1 = CacheConfig(
        size=64 * LINE, ways=4, index=Linear(), tag_sets=16, reserved=2 * LINE, unified=64 * LINE,
        carveouts=(0, 10 * LINE),
    ).with_carveout(10 * LINE)  # fmt: skip
    assert (l1.sets, l1.ways, l1.size, l1.pool) == (16, 4, 54 * LINE, 52)


def test_a_fully_associative_cache_has_data_in_its_ways():
    l1 = pooled(6).l1.fully_associative()
    assert (l1.sets, l1.ways, l1.pool) == (1, 6, 0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tag_sets": 3}, "tag_sets=3: must be a power of two, or 0"),
        ({"tag_sets": 4, "size": 100}, "size=100: is not a multiple of line=128"),
        ({"tag_sets": 4, "reserved": 100}, "reserved=100: is not a multiple of line=128"),
        ({"tag_sets": 4, "reserved": 1024}, "reserved=1024: must be less than size=1024, so that there is data"),
        ({"reserved": 128}, "reserved=128: needs tag_sets, so that data belong to no set"),
        ({"pools": 2}, "pools=2: needs tag_sets, so that data belong to no set"),
        ({"protected": 1}, "protected=1: needs tag_sets, so that data belong to no set"),
        ({"tag_sets": 4, "pools": 3}, "pools=3: must be a power of two, and at most tag_sets=4"),
        ({"tag_sets": 4, "pools": 8}, "pools=8: must be a power of two, and at most tag_sets=4"),
        ({"tag_sets": 4, "pools": 4, "reserved": 128}, "pools=4: must divide the 7 lines with data; set l1.size"),
        ({"tag_sets": 4, "protected": 3}, "protected=3: must be at most ways=2"),
        ({"tag_sets": 4, "ways": 17}, "ways=17: must be at most 16"),
    ],
)
def test_impossible_shapes_are_refused_by_name(fields, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        CacheConfig(**{"size": 1024, "ways": 2, "index": Linear(), **fields})
