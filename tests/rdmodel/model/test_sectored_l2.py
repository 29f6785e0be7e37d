"""The L2 of GPUs whose lines have sectors, against plain Python, and by hand."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rdmodel import predict, reference
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU, replace
from rdmodel.gpu.memory import L2Config
from rdmodel.model.options import Options
from rdmodel.model.shared_l2 import is_plain_l2
from rdmodel.reference.model.l2 import SectoredL2, SectoredL2Counts, spread
from tests.support.builders import LINE, make_gpu
from tests.support.examples import examples
from tests.support.random_predictions import Requests, expected
from tests.support.random_sectors import OPTIONS, coalesced, machines, make_trace, programs

COUNTS = tuple(field.name for field in dataclasses.fields(SectoredL2Counts))


@st.composite
def l2s(draw: st.DrawFn, sector: int) -> L2Config:
    ways, partitions = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    return L2Config(
        slices=partitions * draw(st.integers(1, 3)),
        ways=ways,
        size=LINE * ways * draw(st.sampled_from([1, 2, 4])),
        sector=sector,
        fetch=draw(st.sampled_from([size for size in (sector, 2 * sector, LINE) if size <= LINE])),
        index=draw(st.sampled_from(["linear", "hash"])),
        partitions=partitions,
        dirty_ways=draw(st.sampled_from([None, 1, 2])),
    )


@examples(200)
@given(programs(), machines(), OPTIONS, st.integers(0, 3), st.data())
def test_what_leaves_the_sms_and_how_a_sectored_l2_serves_it_equal_the_reference(program, gpu, options, seed, data):
    gpu = gpu.replace(l2=data.draw(l2s(gpu.l1.sector_bytes)), l1=replace(gpu.l1, sector=gpu.l1.sector_bytes))
    # An L2 with whole lines is that of test_shared_l2.py: there, a line that was written in part can be read.
    assume(not is_plain_l2(gpu))
    trace, resolved = make_trace(program), Options(**options, l2=True).resolve(gpu)
    requests: Requests = {}
    expected(trace, coalesced(program, gpu.l1, resolved, full=True), gpu, resolved, seed, requests)
    found = predict(trace, gpu, seed=seed, l2=True, **options).l2
    want = SectoredL2(gpu).serve([requests[sm] for sm in sorted(requests)])
    assert {name: getattr(found, name) for name in COUNTS} == {name: getattr(want, name) for name in COUNTS}
    assert found.reads == found.hits + found.misses


def serve(*requests: tuple[int, int, int, int], sms: int = 1, atomic: bool = False, **l2: object) -> SectoredL2Counts:
    """Serve requests (SM, line, read sectors, written sectors), one after the other, by a small L2 of four sectors.

    Writes are those of atomics if `atomic`.
    """
    config = {"slices": 2, "ways": 2, "size": 4 * LINE, "sector": 32, **l2}
    gpu = make_gpu(sector=32).replace(l2=L2Config(**config))
    logs: list[list[reference.L2Request]] = [[] for _ in range(sms)]
    for time, (sm, line, read, written) in enumerate(requests):
        request = reference.L2Request(time, line, bool(written), written or read, written, atomic and written > 0)
        logs[sm].append(request)
    return SectoredL2(gpu).serve(logs)


def test_a_read_miss_fetches_an_aligned_granule_and_its_other_sectors_hit():
    counts = serve((0, 0, 0b0001, 0), (0, 0, 0b0010, 0), (0, 0, 0b1000, 0), fetch=64)
    assert (counts.reads, counts.hits, counts.dram_read_sectors) == (3, 1, 4)


def test_a_write_never_reads_dram_and_a_sector_that_was_written_in_full_can_be_read():
    counts = serve((0, 0, 0, 0b0011), (0, 0, 0b0001, 0))
    assert (counts.writes, counts.hits, counts.dram_read_sectors, counts.dirty) == (2, 1, 0, 2)


def test_an_atomic_fetches_what_it_changes_unless_that_can_be_read():
    counts = serve((0, 0, 0, 0b0011), (0, 0, 0, 0b0001), (0, 0, 0b0011, 0), atomic=True)
    assert (counts.writes, counts.reads, counts.hits, counts.dram_read_sectors, counts.dirty) == (3, 2, 2, 2, 2)
    counts = serve((0, 0, 0b0001, 0), (0, 0, 0, 0b0011), atomic=True, fetch=64)
    assert (counts.hits, counts.dram_read_sectors, counts.write_hits) == (0, 2, 2)


def test_a_line_that_both_sides_read_is_fetched_once_and_held_twice():
    counts = serve((0, 0, 1, 0), (1, 0, 1, 0), (1, 0, 1, 0), (0, 0, 1, 0), sms=2, partitions=2)
    assert (counts.hits, counts.dram_read_sectors, counts.partition_sectors) == (3, 1, 1)


def test_a_write_takes_the_sectors_away_from_copies_on_other_sides():
    counts = serve((1, 0, 1, 0), (0, 0, 0, 1), (1, 0, 1, 0), sms=2, partitions=2)
    assert (counts.hits, counts.dram_read_sectors, counts.partition_sectors) == (1, 1, 2)


def test_dirty_sectors_are_written_back_when_their_line_is_evicted_and_only_then():
    counts = serve(*((0, 4 * line, 0, 0b0110) for line in range(3)), slices=2)
    assert (counts.write_backs, counts.dirty) == (2, 4)


def test_the_oldest_dirty_line_of_a_set_is_written_back_and_stays_when_too_many_are_dirty():
    # Lines 0, 4 and 8 share a set of four ways. Line 0 is the least recently *used* one, although line 4 is older.
    writes = [(0, line, 0, 0b0110) for line in (4, 0)]
    counts = serve(*writes, (0, 4, 0b0010, 0), (0, 8, 0, 1), slices=2, ways=4, size=8 * LINE, dirty_ways=2)
    assert (counts.write_backs, counts.dirty) == (2, 3)
    # What was cleaned can still be read, and counts as present for writes, also where only parts were written.
    again = [(0, 0, 0b0110, 0), (0, 0, 0, 0b0010)]
    counts = serve(*writes, (0, 8, 0, 1), *again, slices=2, ways=4, size=8 * LINE, dirty_ways=2)
    assert (counts.hits, counts.write_hits, counts.dram_read_sectors) == (2, 1, 0)


def test_a_limit_of_dirty_lines_changes_writes_to_dram_and_nothing_else():
    found = {}
    for ways in (None, 1):
        gpu = replace(make_gpu(sector=32), l2=L2Config(slices=1, ways=4, size=4 * LINE, sector=32, dirty_ways=ways))
        store = [{"op": 1, "needs": 0, "gap": 0, "size": 4, "lanes": {0: LINE * i}} for i in range(3)]
        load = [{"op": 0, "needs": 0, "gap": 0, "size": 4, "lanes": {0: LINE * i}} for i in range(4)]
        found[ways] = predict(make_trace([[store + load + store]]), gpu, l2=True, definition="hardware").l2
    limited, free = found[1], found[None]
    assert (free.write_backs, limited.write_backs, limited.dirty) == (0, 5, 1)
    assert dataclasses.replace(limited, write_backs=0, dirty=free.dirty) == free


@pytest.mark.parametrize("units", [1, 2, 5, 20, 64, 320])
def test_neighbours_and_large_strides_are_spread_evenly_over_all_sets(units):
    for stride in (1, 64, 4096, 1 << 20):
        taken = [spread(stride * step, units) for step in range(20 * units)]
        assert set(taken) <= set(range(units))
        most = max(taken.count(unit) for unit in set(taken))
        assert stride > 1 or most == 20
        assert len(set(taken)) > units // 3


def test_an_l2_with_other_sectors_than_those_of_the_l1_is_refused():
    gpu = make_gpu(sector=32)
    trace = make_trace([[[{"op": 0, "needs": 0, "gap": 0, "size": 4, "lanes": {0: 0}}]]])
    with pytest.raises(ConfigError, match=r"l2\.sector=128: .*l1\.sector=32"):
        predict(trace, gpu, l2=True)
    assert isinstance(gpu, GPU)
