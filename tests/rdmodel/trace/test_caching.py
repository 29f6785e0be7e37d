"""Traces that are read again and again: the same blocks, made once; and what tells traces apart."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, Columns, Op, Trace
from rdmodel.trace.caching import CachedTrace, MaterialisedTrace, fingerprint
from tests.support.builders import make_trace
from tests.support.random_traces import ProgramTrace, column_traces

ATAX = tracegen.kernel("atax.1", NX=96, NY=64, block=(32, 1, 1))


class Counted(Trace):
    """A trace that counts how often each block was made."""

    def __init__(self, trace: Trace) -> None:
        self.launch, self.blocks = trace.launch, trace.blocks
        self.params = {"N": 1}
        self.trace = trace
        self.made: list[int] = []

    def block(self, block: int):
        self.made.append(block)
        return self.trace.block(block)


def test_a_block_is_made_once_and_is_the_same():
    counted = Counted(ATAX)
    repeated = CachedTrace(counted)
    first = [rd.predict(repeated, seed=seed, model_sms=3, n_jobs=1) for seed in (0, 1)]
    assert first == [rd.predict(Counted(ATAX), seed=seed, model_sms=3, n_jobs=1) for seed in (0, 1)]
    assert sorted(counted.made) == [0, 1, 2]
    repeated.forget()
    repeated.block(1)
    assert sorted(counted.made) == [0, 1, 1, 2]


def test_the_first_blocks_are_kept_and_the_others_made_anew():
    counted = Counted(make_trace([[[(Op.LOAD, ALL_NEEDS, 0, [1])]]] * 4, warps=1))
    one = CachedTrace(counted)
    one.block(0)
    size = one._max_bytes - one._bytes_left
    repeated = CachedTrace(counted, max_bytes=2 * size)
    counted.made.clear()
    for block in [0, 1, 2, 3] * 3:
        repeated.block(block)
    assert counted.made == [0, 1, 2, 3, 2, 3, 2, 3]


def test_all_else_is_that_of_the_trace():
    repeated = CachedTrace(ATAX)
    assert repeated.params == ATAX.params
    assert len(repeated) == len(ATAX)
    assert repeated.any_order
    assert not repeated.stored
    assert repeated.shortened(0.5) is None
    with pytest.raises(AttributeError, match="nothing"):
        repeated.nothing  # noqa: B018
    with pytest.raises(TraceError, match="block 7 is not in the trace"):
        repeated.block(7)
    assert rd.predict(pickle.loads(pickle.dumps(repeated))) == rd.predict(ATAX)


def test_a_cached_trace_is_shortened_as_the_trace_is():
    tiled = tracegen.kernel("gemm.tiled", NI=64, NJ=64, NK=64)
    make, remaining = CachedTrace(tiled).shortened(0.5)
    expected, share = tiled.shortened(0.5)
    assert remaining(0) == share(0) < 1
    assert [part.trips for part in make(0, 0.0)] == [part.trips for part in expected(0, 0.0)]


def test_held_blocks_are_there_without_the_trace_and_no_others():
    counted = Counted(ATAX)
    held = pickle.loads(pickle.dumps(MaterialisedTrace(counted, [0, 2])))
    assert counted.made == [0, 2]
    assert held.params == {"N": 1}
    assert len(held) == sum(len(part) for part in map(MaterialisedTrace, [ATAX] * 2, ([0], [2])))
    with pytest.raises(TraceError, match=r"block 1 is not in the trace of atax\.1: it holds 2 of 3 blocks"):
        held.block(1)
    assert rd.predict(MaterialisedTrace(ATAX, range(3))) == rd.predict(ATAX)


# ---- fingerprints


@given(column_traces(), st.data())
def test_any_change_of_any_column_is_another_fingerprint(trace, data):
    blocks = list(trace.blocks)
    whole = fingerprint(trace, blocks)
    names = [name for name in COLUMNS if getattr(trace.columns, name) is not None]
    copy = Trace(trace.launch, Columns(**{n: np.array(getattr(trace.columns, n)) for n in names}), trace.blocks)
    assert fingerprint(copy, blocks) == whole
    changed = [
        name for name in names if name not in ("warp_start", "address_start") and len(getattr(copy.columns, name))
    ]
    if not changed:
        return
    name = data.draw(st.sampled_from(changed))
    column = np.array(getattr(copy.columns, name))
    at = data.draw(st.integers(0, len(column) - 1))
    column[at] ^= True if column.dtype == bool else 1
    other = Trace(trace.launch, replace(copy.columns, **{name: column}), trace.blocks, trusted=True)
    assert fingerprint(other, blocks) != whole


COLUMNS = tuple(Columns.__dataclass_fields__)


def test_a_fingerprint_is_of_the_blocks_that_are_named_and_of_their_numbers():
    same = make_trace([[[(Op.LOAD, ALL_NEEDS, 0, [1])]]] * 3, warps=1)
    found = {blocks: fingerprint(same, blocks) for blocks in ((0,), (1,), (0, 1), (0, 1, 2))}
    assert len(set(found.values())) == 4


def test_segments_are_told_apart_by_how_often_they_run():
    (segment,) = (part for part in ATAX.block(0) if part.trips > 2)
    traces = [ProgramTrace(ATAX.launch, {0: [replace(segment, trips=trips)]}) for trips in (2, 3, 2)]
    first, second, third = (fingerprint(trace, [0]) for trace in traces)
    assert first == third != second


def test_known_digests_are_used_and_blocks_are_read_once():
    counted = Counted(ATAX)
    known: dict[int, bytes] = {}
    whole = fingerprint(counted, [0, 1, 2], known)
    assert fingerprint(counted, [0, 1, 2], known) == whole == fingerprint(ATAX, [0, 1, 2])
    assert fingerprint(counted, [1], known) == fingerprint(ATAX, [1])
    assert counted.made == [0, 1, 2]
