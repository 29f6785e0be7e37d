"""Test locality (classes of re-references, types of lines, reuse distances) against an oracle that looks back."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import FrozenInstanceError, asdict
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.locality_analysis import classify as classify_module
from rdmodel.locality_analysis._locality import Accesses
from rdmodel.locality_analysis.concentration import balance, concentration_by_load
from rdmodel.locality_analysis.values import LINE_TYPES, Locality, ReReferences
from rdmodel.simulator import machine_run
from rdmodel.trace import Op
from rdmodel.trace.coalescing import Chunk, StoreRule, open_block
from tests.support.examples import examples
from tests.support.presets import FERMI

GPU = rd.presets.gpu("gtx470-16k")
HIT, PENDING, MISS = 0, 1, 2
CLASSES = ("first", "intra_thread", "inter_thread", "intra_block", "intra_core", "inter_core")

Row = tuple[int, int, int, int, int, int, int]
"""SM, block, warp, pc, line, outcome, lanes."""


def classify(rows: Iterable[Row], sms: int = 3, pieces: Iterable[int] = ()) -> Locality:
    """Return the locality of rows that are fed in pieces."""
    array = np.array(list(rows), np.int64).reshape(-1, 7)
    accesses = Accesses(sms)
    for part in np.split(array, sorted(min(at, len(array)) for at in pieces)):
        accesses.feed(np.ascontiguousarray(part))
    result = SimpleNamespace(sms=sms, loads=len(array))
    return classify_module.summarise_accesses(accesses, result, GPU.l1, defaultdict(lambda: 1.0))


# ---- the oracle: every access looks back at all before it


def class_of(rows: list[Row], at: int) -> str:
    sm, block, warp, _, line, _, lanes = rows[at]
    before = [row for row in rows[:at] if row[4] == line]
    here = [row for row in before if row[0] == sm]
    if not here:
        return "inter_core" if before else "first"
    _, last_block, last_warp, *_, last_lanes = here[-1]
    if (last_block, last_warp) == (block, warp):
        return "intra_thread" if set_bits(lanes) & set_bits(last_lanes) else "inter_thread"
    return "intra_block" if last_block == block else "intra_core"


def set_bits(mask: int) -> set[int]:
    return {lane for lane in range(32) if mask >> lane & 1}


def type_of(accesses: list[Row]) -> str:
    """Return the type of a line by table 2 of Koo et al., from all of its accesses on one SM."""
    by_allocating = sum(row[1:3] == accesses[0][1:3] for row in accesses)
    if len(accesses) == 1:
        return "streaming"
    if by_allocating == 1:
        return "inter_warp"
    return "intra_warp" if by_allocating == len(accesses) else "inter_intra_warp"


def distances_of(stream: list[int], line: int) -> list[int]:
    """Return the number of distinct other lines between any two neighbouring accesses to a line."""
    at = [i for i, other in enumerate(stream) if other == line]
    return [len(set(stream[i + 1 : j])) for i, j in pairwise(at)]


def stays_of(accesses: list[Row]) -> list[int]:
    """Return the accesses of a line from each miss to the next; hits before the first miss count as a stay."""
    stays: list[int] = []
    for row in accesses:
        if row[5] == MISS or not stays:
            stays.append(0)
        stays[-1] += 1
    return stays


def expected(rows: list[Row]) -> dict:
    """Return what `facts` returns, computed by looking back at each access."""
    classes = [class_of(rows, at) for at in range(len(rows))]
    of_line = defaultdict(list)
    for row in rows:
        of_line[row[0], row[4]].append(row)
    streams = {sm: [row[4] for row in rows if row[0] == sm] for sm in {row[0] for row in rows}}
    distances: dict[str, list[int]] = {name: [] for name in LINE_TYPES}
    brought = defaultdict(Counter)
    for (sm, line), accesses in of_line.items():
        distances[type_of(accesses)] += distances_of(streams[sm], line)
        brought[accesses[0][3]][type_of(accesses)] += 1
    return {
        "classes": Counter(classes),
        "served": Counter(name for name, row in zip(classes, rows, strict=True) if row[5] != MISS and name != "first"),
        "loads": [
            (
                pc,
                sum(row[3] == pc for row in rows),
                sum(row[3] == pc and row[5] != MISS for row in rows),
                dict(brought[pc]),
            )
            for pc in sorted({row[3] for row in rows})
        ],
        "per_line": Counter(len(accesses) for accesses in of_line.values()),
        "per_stay": Counter(n for accesses in of_line.values() for n in stays_of(accesses)),
        "distances": {
            name: (Counter(d.bit_length() for d in found), sum(found)) for name, found in distances.items() if found
        },
    }


def facts(found: Locality) -> dict:
    """Return a locality in the terms of the oracle."""
    return {
        "classes": +Counter({"first": found.first_touches, **found.unbounded.to_dict()}),
        "served": +Counter(found.bounded.to_dict()),
        "loads": [(load.pc, load.accesses, load.hits, +Counter(load.lines.to_dict())) for load in found.loads],
        "per_line": Counter({int(count): n for count, n in found.accesses_per_line.to_dict().items()}),
        "per_stay": Counter({int(count): n for count, n in found.accesses_per_stay.to_dict().items()}),
        "distances": {
            name: (+Counter(dict(enumerate(part.buckets))), round(part.mean * part.total))
            for name, part in found.reuse_distances.items()
            if part.total
        },
    }


# Lanes of one, two neighbouring or all threads; few lines, or many; blocks are on one SM, as 3 divides them.
LANES = st.one_of(st.integers(0, 4).map(lambda n: 3 << n), st.sampled_from([1, 1 << 31, 2**32 - 1]))


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    most = draw(st.sampled_from([2, 5, 40]))
    lines = st.integers(0, most).map(lambda n: n * 977)
    tuples = st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 3), lines, st.integers(0, 2), LANES)
    rows = draw(st.lists(tuples, min_size=1, max_size=60))
    return [(block % 3, block, warp, pc, line, outcome, lanes) for block, warp, pc, line, outcome, lanes in rows]


@examples(300)
@given(streams(), st.lists(st.integers(0, 60), max_size=3))
def test_any_stream_is_classified_as_by_the_oracle_wherever_it_is_cut(rows, pieces):
    found = classify(rows, pieces=pieces)
    assert facts(found) == expected(rows)
    assert found.accesses == len(rows)


@pytest.mark.parametrize(("lines", "pcs"), [(3000, 400), (200, 2)])
def test_tables_grow_with_a_long_stream(lines, pcs):
    # More lines, loads and different numbers of accesses than there is room for at first.
    random = np.random.default_rng(1)
    rows = [
        (0, int(b), int(w), int(pc), int(n), int(o), int(m))
        for b, w, pc, n, o, m in zip(
            *(random.integers(0, most, 4000) for most in (3, 2, pcs, lines, 3, 2**32)), strict=True
        )
    ]
    of_line = defaultdict(list)
    for row in rows:
        of_line[row[4]].append(row)
    found = facts(classify(rows))
    assert found["per_line"] == Counter(map(len, of_line.values()))
    assert found["per_stay"] == Counter(n for accesses in of_line.values() for n in stays_of(accesses))
    assert {pc: (times, hits) for pc, times, hits, _ in found["loads"]} == {
        pc: (sum(row[3] == pc for row in rows), sum(row[3] == pc and row[5] != MISS for row in rows))
        for pc in {row[3] for row in rows}
    }


# ---- by hand


def test_the_class_of_an_access_is_that_of_the_last_one_on_the_same_sm_and_else_of_any():
    rows = [
        # SM, block, warp, pc, line, outcome, lanes
        (0, 0, 0, 1, 7, MISS, 0b01),  # first touch
        (0, 0, 0, 1, 7, HIT, 0b01),  # the same thread
        (0, 0, 0, 1, 7, PENDING, 0b10),  # the thread beside it
        (0, 0, 0, 1, 7, HIT, 0b11),  # one of two was it
        (0, 0, 1, 1, 7, HIT, 0b11),  # another warp
        (0, 0, 0, 1, 7, MISS, 0b11),  # the first warp again: the other one was last
        (0, 2, 0, 1, 7, MISS, 0b11),  # another block
        (1, 1, 0, 1, 7, MISS, 0b11),  # the other SM
        (1, 1, 0, 1, 7, HIT, 0b10),  # the same thread
        (0, 2, 0, 1, 7, HIT, 0b10),  # the same thread: what the other SM did is nothing to this one
        (1, 1, 0, 1, 8, MISS, 0b10),  # first touch
        (0, 2, 0, 1, 8, MISS, 0b10),  # the other SM
    ]
    found = classify(rows)
    assert found.first_touches == 2
    assert found.unbounded == ReReferences(intra_thread=4, inter_thread=1, intra_block=2, intra_core=1, inter_core=2)
    assert found.bounded == ReReferences(intra_thread=4, inter_thread=1, intra_block=1, intra_core=0, inter_core=0)
    assert (found.unbounded.intra_warp, found.unbounded.total, found.bounded.total) == (5, 10, 6)


def test_types_are_those_of_table_2_and_a_line_belongs_to_the_load_that_brought_it():
    warps = {
        # line: the load and the warp of each access
        10: [(1, 0)],
        11: [(1, 0), (1, 1), (2, 2)],
        12: [(1, 0), (2, 0), (2, 0)],
        13: [(1, 0), (1, 1), (1, 0)],
        14: [(2, 1), (1, 1)],
    }
    rows = [(0, 0, warp, pc, line, MISS, 1) for line, uses in warps.items() for pc, warp in uses]
    found = classify(rows)
    assert found.lines.to_dict() == {"streaming": 1, "inter_warp": 1, "intra_warp": 2, "inter_intra_warp": 1}
    first, second = found.loads
    assert (first.lines.total, first.similarity, first.dominant) == (4, 0.25, "streaming")
    assert (second.lines.total, second.similarity, second.dominant) == (1, 1.0, "intra_warp")
    assert found.similarity == (1 + 1) / (4 + 1)
    assert found.accesses_per_line.to_dict() == {"1": 1, "2": 1, "3": 3}
    assert found.accesses_per_line.mean == 12 / 5


def test_a_warp_of_another_block_is_another_warp():
    assert classify([(0, 0, 0, 1, 5, MISS, 1), (0, 3, 0, 1, 5, HIT, 1)]).lines.inter_warp == 1


def test_a_line_counts_on_every_sm_that_loads_it():
    found = classify([(sm, sm, 0, 1, 5, MISS, 1) for sm in (0, 1, 2)])
    assert found.lines.streaming == 3
    assert (found.first_touches, found.unbounded.inter_core) == (1, 2)


def test_a_load_that_brings_no_line_has_no_type():
    _, second = classify([(0, 0, 0, 1, 5, MISS, 1), (0, 0, 0, 2, 5, HIT, 1)]).loads
    assert (second.accesses, second.hits, second.dominant, second.similarity) == (1, 1, None, None)


def test_reuse_distances_belong_to_the_type_of_their_line_and_to_their_sm():
    a, b, c, d = 1, 2, 3, 4
    order = [(0, a), (0, b), (1, c), (0, c), (0, a), (0, a), (1, c), (1, b), (0, b), (1, a), (1, d), (1, c)]
    rows = [(sm, sm, line == b and i > 3, 1, line, MISS, 1) for i, (sm, line) in enumerate(order)]
    found = classify(rows).reuse_distances
    # SM 0: a b c a a b: a after 2 others and after none; b, from another warp, after c and a.
    # SM 1: c c b a d c: c after none and after 3 others.
    assert found["intra_warp"].by_power() == {"0": 2, "1": 0, "2-3": 2}
    assert found["intra_warp"].mean == (2 + 0 + 0 + 3) / 4
    assert found["inter_warp"].by_power() == {"0": 0, "1": 0, "2-3": 1}
    assert found["inter_warp"].to_dict() == {"total": 1, "mean": 2.0, "buckets": {"0": 0, "1": 0, "2-3": 1}}
    assert found["streaming"].to_dict() == {"total": 0, "mean": 0.0, "buckets": {}}


def test_a_stay_lasts_from_a_miss_to_the_next():
    outcomes = [MISS, PENDING, HIT, MISS, MISS, HIT]
    found = classify([(0, 0, 0, 1, 5, outcome, 1) for outcome in outcomes])
    assert found.accesses_per_stay.to_dict() == {"1": 1, "2": 1, "3": 1}
    assert found.accesses_per_line.to_dict() == {"6": 1}


def test_accesses_per_line_are_shown_by_powers_of_two():
    rows = [(0, 0, 0, 1, line, MISS, 1) for line, times in enumerate([1, 2, 2, 3, 4, 5, 8, 9]) for _ in range(times)]
    found = classify(rows).accesses_per_line
    assert found.by_power() == {"1": 1, "2": 2, "3-4": 2, "5-8": 2, "9-16": 1}
    assert found == classify(rows).accesses_per_line
    assert found != classify(rows[1:]).accesses_per_line


# ---- kernels


def first_then_neighbour(k, A):
    k.load(A, k.x)
    k.load(A, k.x ^ 1)


def test_a_load_of_the_neighbours_element_is_inter_thread_only_where_lanes_are_apart():
    # The whole warp loads one line twice, so each thread is in both transactions.
    trace = tracegen.trace(first_then_neighbour, grid=1, block=32, arrays={"A": 32})
    assert rd.locality(trace, gpu=FERMI).unbounded == ReReferences(1, 0, 0, 0, 0)

    def halves(k, A):
        with k.where(k.x < 16):
            k.load(A, k.x)
        with k.where(k.x >= 16):
            k.load(A, k.x)

    trace = tracegen.trace(halves, grid=1, block=32, arrays={"A": 32})
    assert rd.locality(trace, gpu=FERMI).unbounded == ReReferences(0, 1, 0, 0, 0)


def test_two_half_warps_that_share_a_line_are_inter_thread():
    trace = tracegen.trace(lambda k, A: k.load(A, k.x % 16), grid=1, block=32, arrays={"A": np.zeros(16)})
    found = rd.locality(trace, gpu=FERMI)
    assert found.accesses == 2
    assert found.unbounded == ReReferences(0, 1, 0, 0, 0)


def same_line(k, A):
    k.load(A, 0 * k.x)


@pytest.mark.parametrize(
    ("grid", "sms", "classes"), [(1, 1, (0, 0, 3, 0, 0)), (2, 1, (0, 0, None, None, 0)), (3, 3, (0, 0, 9, 0, 2))]
)
def test_one_line_for_all_is_reused_by_warps_blocks_and_sms(grid, sms, classes):
    trace = tracegen.trace(same_line, grid=grid, block=128, arrays={"A": 32})
    found = rd.locality(trace, gpu=FERMI, sms=sms).unbounded
    assert found.total == 4 * grid - 1
    for number, wanted in zip(asdict(found).values(), classes, strict=True):
        assert wanted is None or number == wanted


KERNELS = {
    "atax.1": {"NX": 96, "NY": 96},
    "gemm": {"NI": 64, "NJ": 64, "NK": 16},
    "2dconv": {"NI": 96, "NJ": 96},
    "bicg.1": {"NX": 128, "NY": 128},
}


def observed(trace, **options) -> list[Row]:
    rows: list[Row] = []
    rd.simulate(trace, gpu=FERMI, observe=lambda array: rows.extend(map(tuple, array.tolist())), **options)
    return rows


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_classified_as_its_rows_are(name):
    trace = tracegen.kernel(name, **KERNELS[name])
    found = rd.locality(trace, gpu=FERMI, sms=3)
    assert facts(found) == facts(classify(observed(trace, sms=3)))
    assert found.simulation == rd.simulate(trace, gpu=FERMI, sms=3)
    assert [load.concentration for load in found.loads] == list(
        concentration_by_load(trace, GPU.l1.index, GPU.l1.sets).values()
    )


@pytest.mark.parametrize("name", KERNELS)
def test_the_lanes_of_a_transaction_are_those_that_coalescing_saw(name, monkeypatch):
    # Small chunks and a record of few rows, so that buffers are moved and filled often.
    monkeypatch.setattr(machine_run, "DEFAULT_CHUNK_INSTRUCTIONS", 3)
    monkeypatch.setattr(machine_run, "RECORDED_ACCESSES", 5)
    trace = tracegen.kernel(name, **KERNELS[name])
    seen = defaultdict(list)
    for _, block, warp, _, line, _, lanes in observed(trace, sms=2):
        seen[block, warp].append((line, lanes))
    wanted = {
        (block, warp): loads
        for block in trace.blocks
        for warp, stream in enumerate(open_block(trace, block, 128, StoreRule.MACHINE))
        if (loads := loads_of(stream))
    }
    assert dict(seen) == wanted


def loads_of(stream) -> list[tuple[int, int]]:
    chunk, found, more = Chunk(masks=True), [], True
    while more:
        more = stream.fill(chunk)
        keep = np.repeat(chunk.op[: chunk.n] == Op.LOAD, chunk.count[: chunk.n])
        pairs = np.stack((chunk.lines[: chunk.used], chunk.masks[: chunk.used].astype(np.int64)), axis=1)
        found += map(tuple, pairs[keep].tolist())
    return found


# ---- laws


@pytest.mark.parametrize("sms", [1, 4])
@pytest.mark.parametrize("gpu", ["gtx470-16k", "koo-kepler"])
@pytest.mark.parametrize("name", KERNELS)
def test_counts_add_up(name, gpu, sms):
    found = rd.locality(tracegen.kernel(name, **KERNELS[name]), gpu, sms=sms)
    run = found.simulation
    assert found.accesses == run.loads == found.first_touches + found.unbounded.total
    assert found.bounded.total == run.hits + run.pending_hits
    for name, served in found.bounded.to_dict().items():
        assert served <= getattr(found.unbounded, name)
    assert found.bounded.inter_core == 0
    assert sms > 1 or found.unbounded.inter_core == 0
    assert found.lines.total == found.first_touches + found.unbounded.inter_core
    assert sum(part.total for part in found.reuse_distances.values()) == found.accesses - found.lines.total
    assert found.reuse_distances["streaming"].total == 0
    for histogram, lines in ((found.accesses_per_line, found.lines.total), (found.accesses_per_stay, run.misses.total)):
        assert histogram.lines.sum() == lines
        assert histogram.counts @ histogram.lines == found.accesses
    assert found.accesses_per_stay.mean <= found.accesses_per_line.mean
    assert sum(load.accesses for load in found.loads) == found.accesses
    assert sum(load.hits for load in found.loads) == found.bounded.total
    assert 0.25 <= found.similarity <= 1


@pytest.mark.parametrize("name", KERNELS)
def test_an_l1_that_forgets_nothing_serves_every_re_reference_on_its_sm(name):
    huge = rd.CacheConfig(size=1 << 26, ways=1 << 19, line=128, index=rd.policies.Linear())
    found = rd.locality(tracegen.kernel(name, **KERNELS[name]), GPU.replace(l1=huge), sms=3, stores=False)
    assert found.bounded.total == found.unbounded.total - found.unbounded.inter_core
    assert found.accesses_per_stay == found.accesses_per_line


def test_balance_is_the_mean_over_the_sms_by_their_accesses():
    trace = tracegen.kernel("gemm", **KERNELS["gemm"])
    rows = np.array(observed(trace, sms=3))
    values, weights = [], []
    for sm in range(3):
        lines = rows[rows[:, 0] == sm, 4]
        values.append(balance(np.bincount(GPU.l1.index.set_of(lines, GPU.l1.sets), minlength=GPU.l1.sets)))
        weights.append(len(lines))
    assert rd.locality(trace, gpu=FERMI, sms=3).balance == pytest.approx(np.average(values, weights=weights))


# ---- the face


def test_only_the_first_blocks_are_looked_at_if_so_asked():
    trace = tracegen.kernel("gemm", **KERNELS["gemm"])
    found = rd.locality(trace, gpu=FERMI, sms=2, blocks=3)
    assert {row[1] for row in observed(trace, sms=2, blocks=3)} == {0, 1, 2}
    assert found.accesses == found.simulation.loads
    assert len(trace.blocks) == trace.launch.blocks > 3
    assert [load.concentration for load in found.loads] == list(
        concentration_by_load(
            tracegen.kernel("gemm", **KERNELS["gemm"], blocks=range(3)), GPU.l1.index, GPU.l1.sets
        ).values()
    )


def test_the_result_is_frozen_and_plain():
    found = rd.locality(tracegen.kernel("gemm", **KERNELS["gemm"]), gpu=FERMI, sms=2)
    with pytest.raises(FrozenInstanceError):
        found.accesses = 0
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["unbounded"] == found.unbounded.to_dict()
    assert plain["config"]["options"]["sms"] == 2
    assert [load["pc"] for load in plain["loads"]] == sorted(load.pc for load in found.loads)
    row = found.to_row()
    assert all(isinstance(value, str | int | float) for value in row.values())
    assert row["bounded_intra_block"] == found.bounded.intra_block
    assert str(found).startswith("gemm on gtx470-16k: ")


def test_a_kernel_that_only_stores_is_refused():
    trace = tracegen.trace(lambda k, A: k.store(A, k.x), grid=1, block=32, arrays={"A": 32})
    with pytest.raises(rd.TraceError, match=r"the simulated blocks of .* hold no loads"):
        rd.locality(trace, gpu=FERMI)


@pytest.mark.parametrize(
    ("options", "message"), [({"shed": "gto"}, "shed"), ({"sms": 0}, "sms=0"), ({"sms": "2"}, "sms")]
)
def test_options_are_those_of_simulate(options, message):
    trace = tracegen.trace(same_line, grid=1, block=32, arrays={"A": 32})
    with pytest.raises(rd.ConfigError, match=message):
        rd.locality(trace, gpu=FERMI, **options)
