"""Test quick estimates of blocks in columns: straight code, in which one part of a block differs from another."""

from __future__ import annotations

import pytest

import rdmodel as rd
import tracegen
from rdmodel.estimation import plan
from rdmodel.estimation.counted_work import fit_to_blocks
from rdmodel.model.count_blocks import BLOCK_COUNTS, BlockCounts
from rdmodel.trace import Columns, Trace

GPU = rd.presets.gpu("v100").replace(sms=4)
WAYS = pytest.mark.parametrize("l2", [False, True], ids=["l1", "l2"])

TRANSPOSE = {
    "name": "transpose",
    "parameters": {"N": 512, "T": 32, "R": 8},
    "arrays": {"o": ["N", "N"], "i": ["N", "N"]},
    "grid": ["N // T", "N // T"],
    "block": ["T", "R"],
    "body": [
        *({"load": "i", "at": [f"block_y * T + thread_y + R * {k}", "block_x * T + thread_x"]} for k in range(4)),
        "barrier",
        *({"store": "o", "at": [f"block_x * T + thread_y + R * {k}", "block_y * T + thread_x"]} for k in range(4)),
    ],
}
"""All loads of a block stand before its stores."""

PRODUCT = {"NI": 128, "NJ": 128, "NK": 128}


def columns_of(kernel, **sizes) -> Trace:
    """Return the trace of a loop nest in columns, without its loops."""
    made = tracegen.affine_kernel(kernel, **sizes)
    return Trace(made.launch, made.columns)


def exact_counts(trace, l2):
    found = rd.predict(trace, GPU, model_sms="all", threads=None, histogram=False, l2=l2)
    counts = {"transactions": found.transactions, "sectors": found.sectors, "misses": found.misses.total}
    if l2:
        counts |= {"l2_reads": found.l2.reads, "l2_bytes": found.l2.bytes, "dram_bytes": found.l2.dram_bytes}
        counts |= {"l2_writes": found.l2.writes}
    return counts


def estimated_counts(found):
    counts = {name: one.value for name, one in found.estimates.items()}
    return counts if found.l2 is None else {**counts, "l2_writes": found.l2.writes}


@WAYS
def test_a_block_that_loads_before_it_stores_is_counted_as_a_whole(l2):
    """Half of such a block has all of its loads, and none of its stores."""
    trace = columns_of(TRANSPOSE)
    assert isinstance(trace.block(0), Columns)
    found, exact = rd.estimate(trace, GPU, l2=l2, work=5_000), exact_counts(trace, l2)
    assert found.config["sampled"] not in ("everything", "")
    assert "iterations" not in found.config["sampled"]
    counts = estimated_counts(found)
    assert {name: counts[name] for name in exact if name != "dram_bytes"} == pytest.approx(
        {name: count for name, count in exact.items() if name != "dram_bytes"}
    )
    if l2:
        assert exact["dram_bytes"] in found.estimates["dram_bytes"]


@WAYS
@pytest.mark.parametrize("rows", [8, 256, 2048])
def test_long_blocks_that_are_cut_are_scaled_to_the_transactions_of_whole_blocks(l2, rows, monkeypatch):
    monkeypatch.setattr(plan, "MAX_ROWS_OF_WAVE", rows)
    trace = columns_of("gemm", **PRODUCT)
    found, exact = rd.estimate(trace, GPU.replace(sms=1), l2=l2, work=5_000), exact_counts(trace, l2)
    assert "iterations" in found.config["sampled"]
    counts = estimated_counts(found)
    assert counts["transactions"] == pytest.approx(exact["transactions"])
    assert counts["sectors"] == pytest.approx(exact["sectors"])
    assert found.hits + found.latency_misses + found.misses.total == pytest.approx(exact["sectors"])
    if l2:
        assert found.l2.hits + found.l2.misses == pytest.approx(found.l2.reads)
        assert found.l2.writes == pytest.approx(exact["l2_writes"])


def test_one_wave_of_long_blocks_does_not_show_how_later_blocks_share_the_cache():
    """Blocks of the first wave begin together; later ones do not, and any of their hits may be a miss."""
    trace = columns_of("gemm", **PRODUCT)
    found = rd.estimate(trace, GPU.replace(sms=1), l2=True, work=1_000)
    assert found.config["sampled"] == "8 of 64 blocks"
    assert found.estimates["misses"].high > 0.9 * found.sectors


def block_counts(**means) -> BlockCounts:
    return BlockCounts(10, {name: means.get(name, 0.0) for name in BLOCK_COUNTS}, dict.fromkeys(BLOCK_COUNTS, 0.5))


COUNTS = {
    "requests": 20.0,
    "transactions": 40.0,
    "sectors": 80.0,
    "hits": 30.0,
    "compulsory": 50.0,
    "bypassed_sectors": 0.0,
    "stores_sectors": 0.0,
    "l2_reads": 50.0,
    "l2_dirtied": 0.0,
    "l2_writes": 0.0,
    "steps": 7.0,
}


def test_rates_of_an_excerpt_are_applied_to_the_sectors_of_whole_blocks():
    counts, errors = {**COUNTS, "l2_writes": 5.0, "l2_dirtied": 4.0}, dict.fromkeys(COUNTS, 1.0)
    fit_to_blocks(counts, errors, block_counts(transactions=8.0, sectors=4.0, writes=2.0))
    assert counts["transactions"] == 80
    assert (counts["sectors"], counts["hits"], counts["compulsory"], counts["l2_reads"]) == (40, 15, 25, 25)
    assert (counts["l2_writes"], counts["l2_dirtied"], counts["steps"]) == (20, 16, 7)
    assert (errors["sectors"], errors["transactions"], errors["steps"]) == (5, 5, 1)
    assert errors["hits"] == pytest.approx((0.5**2 + 15**2) ** 0.5)


def test_stores_that_no_excerpt_has_are_taken_to_write_clean_sectors():
    counts, errors = dict(COUNTS), dict.fromkeys(COUNTS, 1.0)
    fit_to_blocks(counts, errors, block_counts(transactions=4.0, sectors=8.0, writes=3.0))
    assert (counts["l2_writes"], counts["l2_dirtied"]) == (30, 30)
    assert (errors["l2_writes"], errors["l2_dirtied"]) == (5, 30)
