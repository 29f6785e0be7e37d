"""Fill an L2 before a window: with the latest requests, and then with older ones where it is still empty."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.model._l2 import SectoredCache, SharedCache, Supply, Warmer

READ, WRITE = 0, 1


def send(cache: SharedCache | SectoredCache, requests: list[tuple[int, int, int]], old: bool = False) -> Warmer:
    """Send (op, line, sectors) from one SM; stores write whole sectors."""
    warmer = Warmer(cache, sms=1, entries=1, old=old)
    ops, lines, sectors = (np.array(column) for column in zip(*requests, strict=True))
    masks, ones = sectors.astype(np.uint32), np.ones(len(ops), np.int32)
    supply = Supply(ops.astype(np.uint8), ones, lines.astype(np.int64), masks, masks)
    warmer.send(0, 0, supply, len(ops))
    return warmer


def read(cache: SharedCache | SectoredCache, line: int, sectors: int = 1) -> dict[str, int]:
    """Read sectors in period 1; return the counters of that period so far."""
    lines, kinds = np.array([line]), np.full(1, 4, np.uint8)
    if isinstance(cache, SharedCache):
        cache.request(lines, kinds)
    else:
        masks = np.array([sectors], np.uint32)
        cache.request(lines, masks, masks, kinds, np.zeros(1, np.int64))
    return cache.counts(1)


def caches(ways: int, dirty_ways: int = -1) -> list[SharedCache | SectoredCache]:
    return [
        SharedCache(sets=1, ways=ways, dirty_ways=dirty_ways),
        SectoredCache(units=1, partitions=1, ways=ways, fetch=1, hashed=False, dirty_ways=dirty_ways),
    ]


@pytest.mark.parametrize("cache", caches(2))
def test_older_requests_take_only_ways_that_are_empty(cache):
    assert send(cache, [(READ, 1, 1)]).empty_share() == 0.5
    assert send(cache, [(READ, 2, 1), (READ, 3, 1)], old=True).empty_share() == 0
    assert read(cache, 1)["hits"] == 1
    assert read(cache, 3)["hits"] == 1
    # The place of line 3 was that of line 2, the oldest.
    assert read(cache, 1)["hits"] == 2
    assert read(cache, 2)["hits"] == 2


@pytest.mark.parametrize("cache", caches(4))
def test_the_first_read_of_an_older_line_is_counted_apart(cache):
    send(cache, [(READ, 1, 1)])
    send(cache, [(READ, 1, 1), (READ, 2, 1)], old=True)
    assert read(cache, 1)["old_hits"] == 0
    assert read(cache, 2)["old_hits"] == 1
    assert read(cache, 2)["old_hits"] == 1


@pytest.mark.parametrize("cache", caches(1))
def test_older_stores_are_written_back_when_their_line_leaves(cache):
    send(cache, [(WRITE, 5, 1)], old=True)
    assert cache.dirty() == 1
    assert read(cache, 6)["write_backs"] == 1


@pytest.mark.parametrize("cache", caches(4, dirty_ways=1))
def test_older_stores_beyond_the_limit_of_dirty_lines_have_been_written_back_already(cache):
    send(cache, [(WRITE, 5, 1)])
    send(cache, [(WRITE, 6, 1), (READ, 7, 1)], old=True)
    assert cache.dirty() == 1
    assert read(cache, 6)["old_hits"] == 1


def test_older_sectors_of_a_recent_line_are_added_to_it():
    cache = SectoredCache(units=1, partitions=1, ways=1, fetch=1, hashed=False)
    send(cache, [(READ, 1, 0b01)])
    send(cache, [(READ, 1, 0b11)], old=True)
    found = read(cache, 1, 0b11)
    assert found["hits"] == 2
    assert found["old_hits"] == 1
