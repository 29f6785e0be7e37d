"""Stores of estimated programs of loops against those of whole grids."""

from functools import cache

import pytest

import rdmodel as rd
import tracegen
from rdmodel.estimation.counted_work import count_store_requests, fit_stores
from tests.support.builders import load, make_trace

GPU = "h100-sxm"


@cache
def product(tile):
    """Return a product of matrices by tiles, whose blocks store after loops over loads, again and again."""
    return tracegen.kernel("gemm.tiled", NI=512, NJ=512, NK=512, TI=tile, TJ=tile)


@pytest.mark.parametrize("tile", [16, 32, 64])
def test_stores_between_loops_are_as_many_as_in_the_whole_grid(tile):
    result = rd.estimate(product(tile), GPU, l2=True)
    assert result.stores.requests == 512 * 512 // min(tile, 32)
    assert result.l2.writes == pytest.approx(512 * 512 * 4 // 32)
    assert result.l2.write_backs + result.l2.dirty == pytest.approx(512 * 512 * 4 // 32)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gemm", {"NI": 64, "NJ": 64, "NK": 64}),
        ("atax.1", {"NX": 256, "NY": 256}),
        ("2dconv", {"NI": 64, "NJ": 64}),
        ("sssp", {}),
    ],
)
def test_stores_and_atomics_are_counted_without_going_through_the_loops(name, sizes):
    trace = tracegen.kernel(name, **sizes)
    stores = rd.predict(trace, GPU, model_sms="all", threads=None).stores.requests
    assert stores > 0
    assert count_store_requests(trace, trace.blocks) * len(trace.blocks) == stores


def test_blocks_that_are_written_out_are_counted_otherwise():
    assert count_store_requests(make_trace([[[load(0)]]], 1), [0]) is None


def test_counts_follow_the_requests_and_others_stay():
    counts = {"stores_requests": 10.0, "stores_sectors": 40.0, "l2_writes": 30.0, "l2_dirtied": 20.0, "l2_reads": 7.0}
    errors = dict.fromkeys(counts, 1.0)
    fit_stores(counts, errors, 25.0)
    assert counts == {
        "stores_requests": 25.0, "stores_sectors": 100.0, "l2_writes": 75.0, "l2_dirtied": 50.0, "l2_reads": 7.0
    }  # fmt: skip
    assert errors == {
        "stores_requests": 0.0, "stores_sectors": 2.5, "l2_writes": 2.5, "l2_dirtied": 2.5, "l2_reads": 1.0
    }  # fmt: skip


def test_without_a_store_in_any_excerpt_each_one_writes_a_sector():
    counts = {"stores_requests": 0.0, "l2_writes": 0.0, "l2_dirtied": 0.0}
    errors = dict.fromkeys(counts, 0.0)
    fit_stores(counts, errors, 8.0)
    assert counts == errors == {"stores_requests": 0.0, "l2_writes": 8.0, "l2_dirtied": 8.0}


def test_the_writes_of_an_l2_stay_where_the_l1_counts_no_stores():
    counts = {"stores_requests": 0.0, "l2_writes": 5.0, "l2_dirtied": 4.0}
    errors = dict.fromkeys(counts, 1.0)
    fit_stores(counts, errors, 8.0)
    assert (counts["l2_writes"], errors["l2_writes"]) == (5.0, 1.0)
