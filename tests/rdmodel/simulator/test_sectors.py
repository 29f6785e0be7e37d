"""Sectors: which of them a transaction touches, and what becomes of them, against caches that are written out."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError
from rdmodel.policies import Linear
from rdmodel.simulator import sectors as module
from rdmodel.simulator.sectors import SectorCounter, SectorCounts
from rdmodel.trace import ALL_NEEDS, WARP, Columns, Launch, Op, Space, Trace
from rdmodel.trace.coalescing import SECTOR, Chunk, StoreRule, open_block
from tests.support.builders import LINE, make_gpu
from tests.support.examples import examples
from tests.support.presets import FERMI
from tests.support.random_traces import active, column_traces, program_traces, write_out

SMALL = {"latency": rd.LatencyConfig(lat_min=100, sigma=10.0, hit_latency=5), "definitions": ["hardware"]}


def transactions_of(addresses: dict[int, int], size: int, line: int) -> list[tuple[int, int]]:
    """Return (line, sectors) of each transaction of an instruction, byte by byte."""
    together = 32 if size <= 4 else 16 if size <= 8 else 8
    groups: dict[int, dict[int, int]] = {}
    for lane in sorted(addresses):
        touched = groups.setdefault(lane // together, {})
        for byte in range(addresses[lane], addresses[lane] + size):
            touched[byte // line] = touched.get(byte // line, 0) | 1 << byte % line // SECTOR
    return [pair for group in sorted(groups) for pair in groups[group].items()]


def coalesced(trace: Trace, line: int) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return (line, sectors) of all transactions of each warp, from the compiled coalescing."""
    chunk, found = Chunk(sector=SECTOR), {}
    for block in trace.blocks:
        for warp, stream in enumerate(open_block(trace, block, line, StoreRule.MACHINE)):
            rows, more = found.setdefault((block, warp), []), True
            while more:
                more = stream.fill(chunk)
                rows += zip(chunk.lines[: chunk.used].tolist(), chunk.masks[: chunk.used].tolist(), strict=True)
    return found


@examples(40)
@given(trace=st.one_of(column_traces(), program_traces()), line=st.sampled_from([32, 64, 128, 1024]))
def test_the_sectors_of_a_transaction_are_those_of_its_bytes(trace, line):
    expected = {
        key: [
            pair
            for _, op, space, size, *_, lanes in rows
            if op != Op.BARRIER and space < Space.CONSTANT
            for pair in transactions_of(lanes, size, line)
        ]
        for key, rows in write_out(trace).items()
    }
    assert coalesced(trace, line) == expected


# ---- one warp, one access at a time: a sectored cache in order


def serial_trace(accesses: list[tuple[int, int]]) -> Trace:
    """Return a trace of one warp whose instructions each ask for the given (line, sectors), one after the other."""
    lanes = [[line * LINE + SECTOR * s for s in range(4) if sectors >> s & 1] for line, sectors in accesses]
    n = len(accesses)
    counts = np.array([len(one) for one in lanes], np.int64)
    columns = Columns(
        warp_start=np.array([0, n]),
        pc=np.zeros(n),
        op=np.full(n, Op.LOAD),
        space=np.zeros(n),
        size=np.full(n, 4),
        gap=np.zeros(n),
        needs=np.full(n, ALL_NEEDS, np.uint64),
        loop_exit=np.zeros(n),
        mask=(1 << counts) - 1,
        address_start=np.concatenate([[0], np.cumsum(counts)]),
        addresses=np.array([address for one in lanes for address in one]),
    )
    return Trace(Launch(kernel="serial", grid=(1, 1, 1), block=(WARP, 1, 1)), columns)


def sectored_cache(accesses: list[tuple[int, int]], lines: int) -> tuple[int, int]:
    """Return (tag misses, sector misses) in sectors, of an LRU cache of so many lines with a tag for four sectors."""
    cache: OrderedDict[int, set[int]] = OrderedDict()
    tag = sector = 0
    for line, mask in accesses:
        wanted = {s for s in range(4) if mask >> s & 1}
        if line in cache:
            sector += len(wanted - cache[line])
            cache[line] |= wanted
            cache.move_to_end(line)
            continue
        if len(cache) == lines:
            cache.popitem(last=False)
        cache[line] = wanted
        tag += len(wanted)
    return tag, sector


ACCESSES = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 15)), min_size=1, max_size=60)


@examples(40)
@given(accesses=ACCESSES, lines=st.sampled_from([1, 4, 8]))
def test_where_accesses_come_one_by_one_it_is_a_sectored_cache(accesses, lines):
    gpu = make_gpu(size=lines * LINE, ways=lines, index=Linear(), mshrs=None)
    counts = count(serial_trace(accesses), gpu)
    assert (counts.tag_misses, counts.sector_misses) == sectored_cache(accesses, lines)
    assert counts.sectors == sum(mask.bit_count() for _, mask in accesses)


def count(trace: Trace, gpu: rd.GPU, **options: object) -> SectorCounts:
    counter = SectorCounter()
    simulation = rd.simulate(trace, gpu, observe=counter, sectors=True, **options)
    counts = counter.result()
    assert counts.line_misses == simulation.misses.total
    return counts


# ---- many warps: row by row


def row_by_row(rows: list[list[int]]) -> SectorCounts:
    present: dict[tuple[int, int], int] = {}
    sectors = tag = late = lines = 0
    for sm, _, _, _, line, outcome, mask in rows:
        sectors += mask.bit_count()
        if outcome == 2:
            lines += 1
            tag += mask.bit_count()
            present[sm, line] = mask
        else:
            late += (mask & ~present[sm, line]).bit_count()
            present[sm, line] |= mask
    return SectorCounts(sectors, tag, late, lines)


@pytest.mark.parametrize(("name", "sizes"), [("atax.2", {"NX": 64, "NY": 256}), ("corr.corr", {"M": 40, "N": 40})])
@pytest.mark.parametrize("together", [1, 37, 1 << 18])
def test_rows_may_be_looked_at_in_any_portions(name, sizes, together, monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_BATCH", together)
    trace, rows = tracegen.kernel(name, **sizes), []
    rd.simulate(trace, gpu=FERMI, observe=lambda some: rows.extend(some.tolist()), sectors=True)
    assert count(trace, rd.presets.gpu("gtx470-16k")) == row_by_row(rows)


def test_where_transactions_touch_whole_lines_rates_by_sector_and_by_line_agree():
    compared = rd.compare(tracegen.patterns.stream(2048, passes=3), gpu=FERMI, sectors=True, **SMALL)
    assert 0 < compared.hit_rates()["simulated"] < 1
    assert compared.hit_rates("sector") == pytest.approx(compared.hit_rates("line"))
    assert compared.sectors.sector_misses == 0


def test_loads_that_went_past_the_cache_are_not_counted():
    counter = SectorCounter()
    rows = np.array([[0, 0, 0, 0, 5, 3, 15], [0, 0, 0, 0, 5, 2, 1], [0, 0, 0, 0, 5, 0, 3]])
    counter(rows)
    assert counter.result() == SectorCounts(3, 1, 1, 1)


def test_rates_and_their_names():
    counts = SectorCounts(sectors=10, tag_misses=3, sector_misses=2, line_misses=2)
    assert (counts.misses, counts.hit_rate, counts.per_line_miss) == (5, 0.5, 2.5)
    assert counts.to_dict() == {
        "sectors": 10,
        "tag_misses": 3,
        "sector_misses": 2,
        "line_misses": 2,
        "hit_rate": 0.5,
        "per_line_miss": 2.5,
    }
    empty = SectorCounter().result()
    assert (empty.hit_rate, empty.per_line_miss) == (0.0, 1.0)


# ---- in comparisons


def test_by_sector_each_line_that_the_model_misses_costs_what_one_costs_in_the_simulator():
    compared = rd.compare(tracegen.kernel("corr.corr", M=40, N=40), gpu=FERMI, sectors=True, **SMALL)
    counts, predicted = compared.sectors, compared.prediction().misses.total
    expected = 1 - predicted * counts.misses / counts.line_misses / counts.sectors
    assert compared.hit_rates("sector") == {"simulated": counts.hit_rate, "hardware": pytest.approx(expected)}
    assert compared.hit_rates()["hardware"] == pytest.approx(1 - compared.prediction().miss_rate)
    assert compared.to_dict()["sectors"] == counts.to_dict()


def test_a_model_that_is_right_by_line_is_right_by_sector():
    compared = rd.compare(tracegen.kernel("corr.corr", M=40, N=40), gpu=FERMI, sectors=True, **SMALL)
    prediction = replace(
        compared.prediction(), misses=compared.simulation.misses, transactions=compared.simulation.loads
    )
    same = replace(compared, predictions={"hardware": prediction})
    for unit in ("line", "sector"):
        rates = same.hit_rates(unit)
        assert rates["hardware"] == pytest.approx(rates["simulated"])


def test_counting_sectors_changes_nothing_else():
    trace = tracegen.kernel("atax.2", NX=64, NY=64)
    counted, plain = (rd.compare(trace, gpu=FERMI, sectors=sectors, **SMALL) for sectors in (True, False))
    assert counted.simulation == plain.simulation


def test_sectors_need_lines_that_are_made_of_them():
    trace = tracegen.kernel("atax.2", NX=64, NY=64)
    gpu = rd.presets.gpu("gtx470-16k")
    for line in (16, 2048):
        wrong = gpu.replace(l1=replace(gpu.l1, size=64 * 4 * line, line=line, index=Linear()))
        for call in (rd.compare, rd.simulate):
            with pytest.raises(ConfigError, match=f"l1.line={line}: sectors of 32 bytes need lines of 32 to 1024"):
                call(trace, wrong, sectors=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rd.simulate(tracegen.kernel("atax.2", NX=64, NY=64), gpu=FERMI, sectors=1),
            "sectors=1: must be True or False",
        ),
        (
            lambda: rd.compare(tracegen.kernel("atax.2", NX=64, NY=64), gpu=FERMI, **SMALL).hit_rates("sector"),
            "unit='sector': sectors were not counted",
        ),
        (
            lambda: rd.compare(tracegen.kernel("atax.2", NX=64, NY=64), gpu=FERMI, **SMALL).hit_rates("byte"),
            "unit: 'byte'",
        ),
    ],
)
def test_what_has_no_sectors_is_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_masks_of_lanes_are_what_they_were():
    trace, rows = serial_trace([(3, 5), (4, 15)]), []
    rd.simulate(trace, make_gpu(mshrs=None), observe=lambda some: rows.extend(some.tolist()))
    assert [row[6] for row in rows] == [3, 15]
    assert active(Op.LOAD, 3) == [0, 1]
