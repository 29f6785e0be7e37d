"""Compare the work of CUDA kernels with counts by hand; every derivation stands beside its kernel.

All warps have 32 active lanes unless the derivation says so. An access of a whole warp to 32 neighbouring floats is one
request of one line and four sectors.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from rdmodel.trace import Work
from rdmodel.trace.counting import count_work
from tracegen import cuda
from tracegen.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

SOURCE = r"""
#define X (blockIdx.x * blockDim.x + threadIdx.x)
template <int PAD> __device__ void turn(float* a, float* b, int n) {
  __shared__ float tile[32][32 + PAD];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = a[(y + j) * n + x];
  __syncthreads();
  for (int j = 0; j < 32; j += 8) b[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" {
__global__ void copy(float* a, float* b) { b[X] = a[X]; }
__global__ void copy4(float4* a, float4* b) { b[X] = a[X]; }
__global__ void saxpy(float* x, float* y, float a, int n) { int i = X; if (i < n) y[i] = a * x[i] + y[i]; }

__global__ void transpose(float* a, float* b, int n) { turn<0>(a, b, n); }
__global__ void transpose_padded(float* a, float* b, int n) { turn<1>(a, b, n); }

__global__ void reduction(float* a, float* sums) {
  __shared__ float part[256];
  int t = threadIdx.x;
  part[t] = a[X];
  __syncthreads();
  for (int s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] = part[t] + part[t + s];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}

__global__ void gemm(float* a, float* b, float* c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    as[ty][tx] = a[row * n + k + tx];
    bs[ty][tx] = b[(k + ty) * n + column];
    __syncthreads();
    for (int m = 0; m < 16; m++) sum += as[ty][m] * bs[m][tx];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void stencil(float* a, float* b, int n) {
  int i = X + 1;
  if (i < n - 1) b[i] = 0.25f * a[i - 1] + 0.5f * a[i] + 0.25f * a[i + 1];
}

__global__ void histogram(unsigned* a, unsigned* counts) {
  __shared__ unsigned bins[64];
  if (threadIdx.x < 64) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[a[X]], 1u);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&counts[threadIdx.x], bins[threadIdx.x]);
}

__global__ void strided(float* out, int stride) {
  __shared__ float words[1024];
  words[threadIdx.x * stride] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = words[threadIdx.x * stride];
}

__global__ void wide(float4* a, float4* out) {
  __shared__ float4 words[64];
  words[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = words[threadIdx.x ^ 1];
}

__global__ void wave(double* a, double* b, double c) {
  __shared__ double words[64];
  words[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  b[threadIdx.x] = fma(c, words[threadIdx.x ^ 1], words[threadIdx.x]) + c;
}

__constant__ float table[32];
__global__ void lookup(float* a, int* indices) { a[X] = table[indices[X]]; }

__global__ void generic(float* a, float* b, int which) {
  __shared__ float words[64];
  words[threadIdx.x] = b[threadIdx.x];
  __syncthreads();
  float* from = (which >> (threadIdx.x / 32)) & 1 ? words : a;
  b[threadIdx.x] = from[threadIdx.x];
}

__global__ void mixed(float* a, float* b) {
  float x = a[X];
  b[X] = x / 7.5f;
  if (threadIdx.x % 2) a[X] = x * 3.0f + 1.0f;
}
}
"""


@cache
def ptx() -> str:
    return cuda.compile(SOURCE, architecture="sm_80")


def work(kernel: str, grid, block, args, **options) -> Work:
    return count_work(cuda.trace(ptx(), kernel, grid, block, args, **options))


def only(counts) -> dict[str, int]:
    """Return what is not zero."""
    return {name: value for name, value in counts.items() if value}


def memory(found: Work) -> dict[str, int]:
    return {name: value for name, value in only(found.instructions).items() if "_" in name}


def test_a_copy_loads_and_stores_each_element_once():
    # 4 blocks of 8 warps; each warp: 1 load and 1 store of 128 bytes.
    found = work("copy", 4, 256, ["float[1024]", "float[1024]"])
    assert (found.blocks, found.warps) == (4, 32)
    assert memory(found) == {"load_global": 32, "store_global": 32}
    assert only(found.requests) == only(found.tag_lookups) == {"load_global": 32, "store_global": 32}
    assert only(found.sectors) == {"load_global": 128, "store_global": 128}
    assert only(found.flops) == {}
    assert only(found.shared_wavefronts) == {}
    # 16 bytes per lane: a request has 512 bytes, 4 lines (one per quarter warp), 16 sectors.
    wider = work("copy4", 4, 64, ["float[1024]", "float[1024]"])
    assert memory(wider) == {"load_global": 8, "store_global": 8}
    assert only(wider.tag_lookups) == {"load_global": 32, "store_global": 32}
    assert only(wider.sectors) == {"load_global": 128, "store_global": 128}


def test_saxpy_has_one_fma_per_element_and_not_per_lane():
    # 1000 elements in 1024 threads: the last of 32 warps has 8 active lanes, in one line, one sector per array.
    found = work("saxpy", 4, 256, ["float[1000]", "float[1000]", 2.0, 1000])
    assert found.operations["fp32_fma"] == 1000
    assert only(found.flops) == {"fp32": 2000}
    assert found.instructions["fp32"] == 32
    assert memory(found) == {"load_global": 64, "store_global": 32}
    assert only(found.sectors) == {"load_global": 2 * (31 * 4 + 1), "store_global": 31 * 4 + 1}
    # Per warp: index (1), comparison (1), two addresses (one wide multiply-add each); the thread and the block number.
    assert found.instructions["int"] == 4 * 32
    assert found.instructions["other"] == 2 * 32


def test_a_transpose_conflicts_in_shared_memory_unless_rows_are_padded():
    # A block of 8 warps: 4 stores of a row (32 banks, 1 wavefront) and 4 loads of a column per warp. Without padding, a
    # column lies in one bank: 32 wavefronts. With rows of 33 words, in 32 banks.
    arguments = ["float[1024]", "float[1024]", 32]
    plain = work("transpose", 1, (32, 8), arguments)
    padded = work("transpose_padded", 1, (32, 8), arguments)
    accesses = {"load_shared": 32, "store_shared": 32}
    assert {k: v for k, v in memory(plain).items() if "shared" in k} == accesses
    assert only(plain.shared_groups) == accesses
    assert only(plain.shared_wavefronts) == {"load_shared": 32 * 32, "store_shared": 32}
    assert only(plain.shared_conflicts) == {"load_shared": 32 * 31}
    assert only(padded.shared_wavefronts) == accesses
    assert only(padded.shared_conflicts) == {}
    assert only(plain.sectors) == {"load_global": 4 * 32, "store_global": 4 * 32}
    assert plain.instructions["barrier"] == 8


def test_a_reduction_halves_its_active_lanes():
    # s = 128, 64, 32, 16, 8, 4, 2, 1: 255 additions. Active warps: 4, 2, 1, then one for each of five steps: 12. Each
    # of them loads twice and stores once; before that 8 warps store, after it one warp loads once.
    found = work("reduction", 2, 256, ["float[512]", "float[2]"])
    assert found.operations["fp32_add"] == 2 * 255
    assert found.instructions["fp32"] == 2 * 12
    assert found.instructions["load_shared"] == 2 * (2 * 12 + 1)
    assert found.instructions["store_shared"] == 2 * (8 + 12)
    assert only(found.shared_conflicts) == {}
    # One barrier before the loop, one in each of 8 iterations, of 8 warps.
    assert found.instructions["barrier"] == 2 * 9 * 8
    assert found.requests["store_global"] == 2


def test_a_tiled_multiply_loads_two_words_from_shared_memory_per_product():
    # n = 32: 2 tiles. 8 warps of 2 rows; per tile, each thread does 16 fma: 2 x 16 x 256 = 8192 per block, 4 blocks.
    # as[ty][m] is two words in different banks (broadcast), bs[m][tx] 16 words twice: 1 wavefront each, also where
    # 4 neighbouring words of a row come in one load of 16 bytes, of which a quarter warp reads one word.
    found = work("gemm", (2, 2), (16, 16), ["float[1024]"] * 3 + [32])
    assert found.operations["fp32_fma"] == 4 * 8192
    assert only(found.flops) == {"fp32": 2 * 4 * 8192}
    assert found.instructions["fp32"] == 4 * 8 * 2 * 16
    assert found.instructions["store_shared"] == 4 * 8 * 2 * 2
    assert only(found.shared_conflicts) == {}
    # A row of 16 floats is half a line: 2 lines and 2 x 2 sectors per request of a or b.
    assert found.requests["load_global"] == 4 * 8 * 2 * 2
    assert found.tag_lookups["load_global"] == 2 * found.requests["load_global"]
    assert found.sectors["load_global"] == 4 * found.requests["load_global"]
    assert found.instructions["barrier"] == 4 * 8 * 2 * 2


def test_words_of_relocatable_code_are_loaded_one_by_one():
    # as[ty][m] is 16 neighbouring words of a row: 4 loads of 16 bytes, or one of each word. bs[m][tx] is one word each.
    launch = "gemm", (2, 2), (16, 16), [*["float[1024]"] * 3, 32]
    linked, relocatable = work(*launch), work(*launch, options=["-rdc=true"])
    assert linked.instructions["load_shared"] == 4 * 8 * 2 * (4 + 16)
    assert relocatable.instructions["load_shared"] == 4 * 8 * 2 * (16 + 16)


def test_a_stencil_has_three_loads_and_five_operations_per_element():
    # 128 threads for elements 1 to 126 of 128: 126 active. 0.25 a + 0.5 b + 0.25 c: a multiplication, then two fma.
    found = work("stencil", 1, 128, ["float[128]", "float[128]", 128])
    assert found.operations["fp32_mul"] == 126
    assert found.operations["fp32_fma"] == 2 * 126
    assert only(found.flops) == {"fp32": 5 * 126}
    assert memory(found) == {"load_global": 12, "store_global": 4}
    # a[i - 1] is aligned: 4 x 4 sectors. a[i] and a[i + 1] of warps 0 to 2 lie in 2 lines, 5 sectors; of warp 3, lanes
    # 0 to 29 remain: a[97..126] is in 1 line of 4 sectors, a[98..127] as well.
    assert found.tag_lookups["load_global"] == 4 + 2 * (3 * 2 + 1)
    assert found.sectors["load_global"] == 16 + 2 * (3 * 5 + 4)


def test_atomics_to_one_word_of_shared_memory_are_served_one_after_the_other():
    # Bins by lane: 0 to 31 (no conflict, 1 wavefront); all 5 (32 wavefronts); i and i + 32 share a bank (2).
    rows = [np.arange(32), np.full(32, 5), np.arange(32) // 2 + 32 * (np.arange(32) % 2)]
    values = np.concatenate(rows).astype(np.uint32)
    found = work("histogram", 1, 96, [values, np.zeros(64, np.uint32)])
    assert found.instructions["atomic_shared"] == 3
    assert found.shared_groups["atomic_shared"] == 3
    assert found.shared_wavefronts["atomic_shared"] == 1 + 32 + 2
    # Two warps clear the bins, and two add them to global memory: 64 words are two lines of four sectors.
    assert found.instructions["store_shared"] == found.instructions["load_shared"] == 2
    assert found.requests["atomic_global"] == found.tag_lookups["atomic_global"] == 2
    assert found.sectors["atomic_global"] == 8


@pytest.mark.parametrize(("stride", "wavefronts"), [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (31, 1), (32, 32)])
def test_a_stride_conflicts_as_often_as_it_shares_factors_with_the_banks(stride, wavefronts):
    # 32 lanes meet 32 / gcd(stride, 32) banks, gcd lanes in each; stride 0 is a broadcast.
    found = work("strided", 1, 32, ["float[32]", stride])
    assert found.shared_wavefronts["load_shared"] == found.shared_wavefronts["store_shared"] == wavefronts
    assert found.shared_groups["load_shared"] == found.shared_groups["store_shared"] == 1


def test_sixteen_bytes_per_lane_take_a_wavefront_per_quarter_of_the_warp():
    # 2 warps: a quarter warp accesses 8 x 16 = 128 bytes, every bank once; neighbours are exchanged within it.
    found = work("wide", 1, 64, ["float[256]", "float[256]"])
    assert memory(found) == {"load_global": 2, "store_global": 2, "load_shared": 2, "store_shared": 2}
    assert only(found.shared_wavefronts) == only(found.shared_groups) == {"load_shared": 8, "store_shared": 8}


def test_double_precision_takes_a_wavefront_per_half_of_the_warp():
    # 2 warps of 2 halves: 1 store and 2 loads each. One fma and one addition per thread.
    found = work("wave", 1, 64, ["double[64]", "double[64]", 1.5])
    assert only(found.shared_wavefronts) == only(found.shared_groups) == {"load_shared": 8, "store_shared": 4}
    assert (found.operations["fp64_fma"], found.operations["fp64_add"]) == (64, 64)
    assert only(found.flops) == {"fp64": 3 * 64}
    assert found.instructions["fp64"] == 4


def test_constant_memory_serves_one_word_at_a_time():
    # Warp 0 reads one word: no replay. Warp 1 reads 32 words: 31 replays. Warp 2 reads 4 words: 3.
    indices = np.concatenate([np.full(32, 7), np.arange(32), np.arange(32) % 4]).astype(np.int32)
    found = work("lookup", 1, 96, ["float[96]", indices])
    assert found.instructions["load_constant_indexed"] == 3
    assert found.constant_replays == 0 + 31 + 3
    assert not any("constant" in name for name in found.requests)


def test_generic_accesses_count_in_the_space_that_they_reach():
    # Warp 0 reads a, warp 1 shared memory.
    found = work("generic", 1, 64, ["float[64]", "float[64]", 2])
    assert memory(found) == {"load_global": 3, "store_global": 2, "load_shared": 1, "store_shared": 2}
    assert found.requests["load_global"] == 3
    assert found.shared_wavefronts["load_shared"] == 1


def test_lanes_that_are_switched_off_do_no_arithmetic():
    # 64 threads: 32 of them do an fma; all divide, which is one operation each but several instructions.
    found = work("mixed", 1, 64, ["float[64]", "float[64]"])
    assert found.operations["fp32_fma"] == 32
    assert found.operations["fp32_other"] == 64
    assert only(found.flops) == {"fp32": 2 * 32 + 64}
    assert found.instructions["special"] == 2  # a reciprocal per warp


def test_blocks_of_unequal_work_are_seen_one_by_one():
    # 40 elements in two blocks of 32 threads: 32 and 8 of them are active.
    trace = cuda.trace(ptx(), "saxpy", 2, 32, ["float[40]", "float[40]", 2.0, 40])
    assert [count_work(trace, [block]).operations["fp32_fma"] for block in range(2)] == [32, 8]
    assert count_work(trace, [0]).scaled(2).flops["fp32"] == 128
