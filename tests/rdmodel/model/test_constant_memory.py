"""First reads of constant memory: sectors of the DRAM that are no reads of the L1s."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel import presets
from rdmodel.trace import Space, Trace
from rdmodel.trace.storage import load, save
from tests.support.builders import LINE, make_gpu
from tracegen.arrays import Buffer
from tracegen.cuda import trace as cuda_trace

GPU = presets.gpu("gv100").replace(sms=4)
UNKNOWN = GPU.replace(constant_line=0)
SECTORS_PER_LINE = 8
ROWS = 16
"""Rows of `row_kernel`, of 100 words: a block reads one of them, and data."""


def row_kernel(k, x, table):
    """A block reads the row of its own number, the word of its lane."""
    k.load(x, k.x)
    with k.where(k.thread_x < 100):
        k.load(table, k.block_x % ROWS, k.thread_x)


def same_row_kernel(k, x, table):
    """All blocks read the first row."""
    k.load(x, k.x)
    with k.where(k.thread_x < 100):
        k.load(table, 0, k.thread_x)


def make_trace(blocks: int = ROWS, kernel=row_kernel) -> Trace:
    arrays = {"table": Buffer((ROWS, 100), np.float32, space=Space.CONSTANT), "x": 128 * blocks}
    return tracegen.trace(kernel, grid=(blocks, 1, 1), block=(128, 1, 1), arrays=arrays)


def lines_of(rows: range) -> int:
    """Return the lines of 256 bytes of the words of some rows of the table, which is aligned to a line."""
    return len({4 * (100 * row + word) // 256 for row in rows for word in range(100)})


def without_constants(result: rd.Prediction) -> dict[str, object]:
    """Return everything in a prediction that constant memory does not change."""
    plain = result.to_dict()
    for name in ("seconds", "trace_seconds", "config"):
        del plain[name]
    changed = ("dram_read_sectors", "dram_bytes", "constant_sectors")
    plain["l2"] = {name: value for name, value in plain["l2"].items() if name not in changed}
    return plain


def test_constant_memory_adds_its_lines_to_the_dram_reads_and_changes_no_other_counter():
    found, without = (rd.predict(make_trace(), gpu, l2=True) for gpu in (GPU, UNKNOWN))
    sectors = SECTORS_PER_LINE * lines_of(range(ROWS))
    assert found.l2.constant_sectors == sectors
    assert found.l2.dram_read_sectors == without.l2.dram_read_sectors + sectors
    assert found.l2.missed_sectors == without.l2.dram_read_sectors
    assert found.l2.dram_bytes == without.l2.dram_bytes + 32 * sectors
    assert without_constants(found) == without_constants(without)
    changed = {name for name, value in found.metrics().items() if without.metrics()[name] != value}
    assert changed == {"dram__sectors_read.sum"}


def test_json_has_the_sectors_only_where_constant_memory_is_read():
    found = json.loads(json.dumps(rd.predict(make_trace(), GPU, l2=True).to_dict()))
    assert found["l2"]["constant_sectors"] == SECTORS_PER_LINE * lines_of(range(ROWS))
    assert "constant_sectors" not in rd.predict(make_trace(), UNKNOWN, l2=True).to_dict()["l2"]
    assert "constant_sectors" not in rd.predict(tracegen.kernel("vectoradd", N=256), GPU, l2=True).to_dict()["l2"]
    simulated = rd.simulate(make_trace(), UNKNOWN).to_dict()["dram"]
    assert "constant_sectors" not in simulated


@pytest.mark.parametrize("blocks", [1, 3, ROWS])
def test_the_blocks_that_are_modelled_count(blocks, tmp_path):
    found = rd.predict(make_trace(), GPU, l2=True, blocks=blocks, work=None)
    assert found.l2.constant_sectors == SECTORS_PER_LINE * lines_of(range(blocks))
    save(make_trace(), tmp_path / "stored")
    stored = load(tmp_path / "stored")
    assert rd.predict(stored, GPU, l2=True, blocks=blocks, work=None).l2 == found.l2
    assert rd.simulate(stored, GPU, blocks=blocks).dram.constant_sectors == found.l2.constant_sectors


def test_of_one_modelled_sm_its_own_blocks_count():
    found = rd.predict(make_trace(), GPU, l2=True, model_sms=1)
    assert found.l2.constant_sectors == SECTORS_PER_LINE * lines_of(range(0, ROWS, 4))


@pytest.mark.parametrize(("line", "sectors"), [(64, 1), (512, 4)])
def test_where_the_l2_has_no_sectors_whole_lines_of_it_are_counted(line, sectors):
    plain = make_gpu().replace(sms=4, constant_line=line)
    found = rd.predict(make_trace(1), plain, l2=True)
    assert found.l2.sector == LINE
    assert found.l2.constant_sectors == 400 // max(LINE, line) * sectors + sectors


def test_seeds_and_runs_of_several_sms_have_the_same_sectors():
    found = rd.predict(make_trace(), GPU, l2=True, seeds=3)
    assert found.l2.constant_sectors == SECTORS_PER_LINE * lines_of(range(ROWS))


def test_the_simulator_adds_them_to_the_bytes_of_the_dram_and_to_nothing_else():
    found, without = (rd.simulate(make_trace(), gpu) for gpu in (GPU, UNKNOWN))
    sectors = SECTORS_PER_LINE * lines_of(range(ROWS))
    assert found.dram == dataclasses.replace(
        without.dram, bytes=without.dram.bytes + 32 * sectors, constant_sectors=sectors
    )
    assert (found.cycles, found.l2, found.misses) == (without.cycles, without.l2, without.misses)


def test_a_later_launch_finds_the_lines_of_an_earlier_one_in_the_l2():
    first, second, third = rd.simulate_launches([make_trace(1), make_trace(2), make_trace(2)], GPU)
    one, both = lines_of(range(1)), lines_of(range(2))
    assert [run.dram.constant_sectors // SECTORS_PER_LINE for run in (first, second, third)] == [one, both - one, 0]


def test_a_sample_of_a_grid_adds_the_lines_that_its_windows_read():
    trace = make_trace(2_000)
    found, without = (rd.predict(trace, gpu.replace(sms=1), l2=True, work=1000, lat_min=10) for gpu in (GPU, UNKNOWN))
    sectors = SECTORS_PER_LINE * lines_of(range(ROWS))
    assert found.l2.constant_sectors == sectors
    assert found.l2.dram_read_sectors == without.l2.dram_read_sectors + sectors
    estimate, before = (result.estimates["dram_read_sectors"] for result in (found, without))
    assert estimate == before.plus(sectors)
    assert estimate.value == found.l2.dram_read_sectors


@pytest.mark.parametrize("work", [1000, None])
def test_a_quick_estimate_does_not_extrapolate_them(work):
    trace = make_trace(320, same_row_kernel)
    found, without = (rd.estimate(trace, gpu, l2=True, work=work) for gpu in (GPU, UNKNOWN))
    sectors = SECTORS_PER_LINE * lines_of(range(1))
    assert found.l2.constant_sectors == sectors
    for name, unit in (("dram_read_sectors", 1), ("dram_bytes", 32)):
        assert found.estimates[name] == without.estimates[name].plus(unit * sectors)
        assert found.estimates[name].value == pytest.approx(getattr(found.l2, name))


TABLE = """
__constant__ unsigned int table[3][31];
struct Weights { float w[64]; };
__global__ void sequences(float *out, unsigned int seed) {
  unsigned int result = 0;
  for (int bit = 0; bit < 31; bit++, seed >>= 1) if (seed & 1) result ^= table[threadIdx.y][bit];
  out[blockIdx.x * blockDim.x + threadIdx.x] = (float)result;
}
__global__ void row(float *out, int n) { out[threadIdx.x] = (float)table[n][threadIdx.x % 31]; }
__global__ void weighted(float *out, Weights weights) { out[threadIdx.x] = weights.w[threadIdx.x % 64]; }
"""


@pytest.mark.parametrize(
    ("kernel", "block", "args", "lines"),
    [
        ("sequences", (32, 3), ["float[128]", 2**31 - 1], 2),  # 372 bytes
        ("sequences", (32, 3), ["float[128]", 1], 1),  # words 0, 31 and 62
        ("sequences", (32, 3), ["float[128]", 0], 0),
        ("row", 32, ["float[32]", 0], 1),
        ("row", 32, ["float[32]", 2], 2),  # bytes 248 to 372
        ("weighted", 64, ["float[64]", bytes(256)], 0),  # a parameter
    ],
)
def test_a_cuda_kernel_reads_the_lines_of_its_constants_and_none_of_its_parameters(kernel, block, args, lines):
    trace = cuda_trace(TABLE, kernel, 1, block, args)
    assert rd.predict(trace, "gv100", l2=True).l2.constant_sectors == SECTORS_PER_LINE * lines
    assert rd.simulate(trace, "gv100").dram.constant_sectors == SECTORS_PER_LINE * lines
