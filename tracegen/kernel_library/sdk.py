"""Declare kernels with the accesses of compiled CUDA SDK samples of NVIDIA.

Data are float32. Accesses to shared memory are not traced; kernels declare its bytes and pass its barriers. Sums and
coefficients are in registers or constant operands. Long computations are `k.gap` with the instruction counts of
compiled PTX, without address computations. In descriptions, loads stand before ``->`` and stores after it, and ``|`` is
a barrier.
"""

from __future__ import annotations

from tracegen.kernel_library.registry import Benchmark, Multiple, Position, Size
from tracegen.kernel_library.shared_memory import WORD_BYTES, halvings, publish, rounds
from tracegen.simt.kernel_trace import Array, Block
from tracegen.unrolling import NEVER

blackscholes = Benchmark(
    "blackscholes",
    {"OPT_N": 4_000_000, "BLOCKS": 480},
    lambda OPT_N: dict.fromkeys(("Call", "Put", "StockPrice", "OptionStrike", "OptionYears"), OPT_N),
)


@blackscholes.kernel(threads=lambda OPT_N: (OPT_N,), grid=lambda BLOCKS: (BLOCKS, 1, 1), block=(128, 1, 1))
def blackscholes_1(
    k: Block, StockPrice: Array, OptionStrike: Array, OptionYears: Array, Call: Array, Put: Array, OPT_N: int
) -> None:
    """Price options: for i, a grid apart: StockPrice[i], OptionStrike[i], OptionYears[i] -> Call[i], Put[i].

    A fixed grid strides over the options, as in versions of the sample before it gave every thread two options.
    """
    width, _, _ = k.launch.block
    for i in k.range(k.x, OPT_N, width * k.launch.grid[0]):
        k.load(StockPrice, i)
        k.load(OptionStrike, i)
        k.load(OptionYears, i)
        k.gap(50)
        k.store(Call, i)
        k.store(Put, i)


scalarprod = Benchmark(
    "scalarprod",
    {"VECTOR_N": 256, "ELEMENT_N": 4096, "ACCUM_N": 1024, "BLOCKS": 128},
    lambda VECTOR_N, ELEMENT_N: {"A": (VECTOR_N, ELEMENT_N), "B": (VECTOR_N, ELEMENT_N), "C": VECTOR_N},
)


@scalarprod.kernel(
    threads=lambda VECTOR_N: (VECTOR_N,),
    grid=lambda BLOCKS: (BLOCKS, 1, 1),
    block=(256, 1, 1),
    shared_memory=lambda ACCUM_N: WORD_BYTES * ACCUM_N,
)
def scalarprod_1(k: Block, A: Array, B: Array, C: Array, VECTOR_N: int, ELEMENT_N: int, ACCUM_N: int) -> None:
    """Scalar products, one per block: for j: A[v,j], B[v,j]; | for each halving, |; thread 0: -> C[v].

    A block processes vectors v a grid apart. Accumulator a, one of `ACCUM_N` in shared memory, adds the elements
    a, a + ACCUM_N, ...; thread t updates the accumulators t, t + block width, ...
    """
    for vector in k.range(k.block_x, VECTOR_N, k.launch.grid[0]):
        for first in k.range(k.thread_x, ACCUM_N, k.launch.block[0]):
            for j in k.range(first, ELEMENT_N, ACCUM_N):
                k.load(A, vector, j)
                k.load(B, vector, j)
        publish(k)
        rounds(k, halvings(ACCUM_N), 13)
        with k.where(k.thread_x == 0):
            k.store(C, vector)


vectoradd = Benchmark("vectoradd", {"N": 50_000}, lambda N: {"A": N, "B": N, "C": N})


@vectoradd.kernel(threads=lambda N: (N,))
def vectoradd_1(k: Block, A: Array, B: Array, C: Array, N: int) -> None:
    """Sum of two vectors: A[i], B[i] -> C[i]."""
    i = k.x
    with k.where(i < N):
        k.load(A, i)
        k.load(B, i)
        k.store(C, i)


def global_passes(LOG2N: int, ELEMENTARY_LOG2SIZE: int) -> int:
    """Return the number of radix-4 passes over global memory before the rest fits into shared memory."""
    return max(0, -(-(LOG2N - ELEMENTARY_LOG2SIZE) // 2))


def elementary_log2(LOG2N: int, ELEMENTARY_LOG2SIZE: int) -> int:
    """Return the base-2 logarithm of the elements that one block transforms in shared memory."""
    return LOG2N - 2 * global_passes(LOG2N, ELEMENTARY_LOG2SIZE)


FWT_SIZES: dict[str, Size] = {
    "LOG2N": Position(23, below=40, least=2),
    "ELEMENTARY_LOG2SIZE": Position(11, below=13, least=3),
}
"""Sizes of the Walsh transform that both of its kernels share."""

fwt = Benchmark("fwt", FWT_SIZES, lambda LOG2N: {"data": 1 << LOG2N})
fwt_global = Benchmark("fwt", {**FWT_SIZES, "STAGE": Position(0, below=global_passes)}, fwt.arrays)


@fwt.kernel(
    "1",
    threads=lambda LOG2N: (1 << LOG2N - 2,),
    block=lambda LOG2N, ELEMENTARY_LOG2SIZE: (1 << elementary_log2(LOG2N, ELEMENTARY_LOG2SIZE) - 2,),
    fixed=True,
    shared_memory=lambda LOG2N, ELEMENTARY_LOG2SIZE: WORD_BYTES << elementary_log2(LOG2N, ELEMENTARY_LOG2SIZE),
)
def fwt_1(k: Block, data: Array, LOG2N: int, ELEMENTARY_LOG2SIZE: int) -> None:
    """Walsh transform in shared memory: for 4 positions: data[i]; | per radix-4 or radix-2 stage, |; -> data[i].

    A block transforms ``2^elementary`` neighbours, 4 per thread; the 4 are a quarter of the block's elements apart.
    """
    log2 = elementary_log2(LOG2N, ELEMENTARY_LOG2SIZE)
    first = (k.block_x << log2) + k.thread_x
    for quarter in k.range(4, unroll=NEVER):  # unrolled completely
        k.load(data, first + quarter * (1 << log2 - 2))
    publish(k)
    rounds(k, log2 // 2 + log2 % 2, 31)
    for quarter in k.range(4):
        k.store(data, first + quarter * (1 << log2 - 2))


@fwt_global.kernel("2", threads=lambda LOG2N: (1 << LOG2N - 2,), block=(256, 1, 1))
def fwt_2(k: Block, data: Array, LOG2N: int, STAGE: int) -> None:
    """Walsh transform, radix-4 butterflies a stride of N/4^(STAGE+1) apart: 4 of data -> the same 4."""
    stride = 1 << LOG2N - 2 - 2 * STAGE
    i = k.x
    low = i % stride
    first = (i - low) * 4 + low
    with k.where(i < 1 << LOG2N - 2):
        k.load(data, first)
        k.load(data, first + stride)
        k.load(data, first + 2 * stride)
        k.load(data, first + 3 * stride)
        k.store(data, first)
        k.store(data, first + stride)
        k.store(data, first + 2 * stride)
        k.store(data, first + 3 * stride)


def convolution_arrays(H: int, W: int) -> dict[str, tuple[int, int]]:
    """Return the arrays of a separable convolution: rows go from Input to Buffer, columns from Buffer to Output."""
    return dict.fromkeys(("Input", "Output", "Buffer"), (H, W))


convsep_rows = Benchmark(
    "convsep",
    {
        "W": Multiple(3072, of=lambda RESULT_STEPS, BLOCKDIM_X: RESULT_STEPS * BLOCKDIM_X),
        "H": Multiple(3072, of="BLOCKDIM_Y"),
        "BLOCKDIM_X": 16,
        "BLOCKDIM_Y": 4,
        "RESULT_STEPS": 8,
        "HALO_STEPS": 1,
    },
    convolution_arrays,
)


@convsep_rows.kernel(
    "rows",
    threads=lambda W, H, RESULT_STEPS: (W // RESULT_STEPS, H),
    block=lambda BLOCKDIM_X, BLOCKDIM_Y: (BLOCKDIM_X, BLOCKDIM_Y),
    fixed=True,
    shared_memory=lambda block, RESULT_STEPS, HALO_STEPS: (
        WORD_BYTES * block[1] * (RESULT_STEPS + 2 * HALO_STEPS) * block[0]
    ),
)
def convsep_rows_1(k: Block, Input: Array, Buffer: Array, W: int, RESULT_STEPS: int, HALO_STEPS: int) -> None:
    """Convolution along rows: for its results: Input[y,x]; left, right halo: Input[y,x]; |; -> Buffer[y,x].

    A thread has `RESULT_STEPS` results, a block width apart, and `HALO_STEPS` cells of the halo on either side, loaded
    where they are inside the image. The weights are constant operands.
    """
    width, _, _ = k.launch.block
    left, right = HALO_STEPS, HALO_STEPS + RESULT_STEPS
    first, y = (k.block_x * RESULT_STEPS - HALO_STEPS) * width + k.thread_x, k.y
    for step in k.range(left, right, unroll=NEVER):  # unrolled completely, as the source says
        k.load(Input, y, first + step * width)
    for step in range(left):
        with k.where(first + step * width >= 0):
            k.load(Input, y, first + step * width)
    for step in range(right, right + HALO_STEPS):
        with k.where(first + step * width < W):
            k.load(Input, y, first + step * width)
    publish(k)
    for step in k.range(left, right):
        k.gap(33)
        k.store(Buffer, y, first + step * width)


convsep_columns = Benchmark(
    "convsep",
    {
        "W": Multiple(3072, of="BLOCKDIM_X"),
        "H": Multiple(3072, of=lambda RESULT_STEPS, BLOCKDIM_Y: RESULT_STEPS * BLOCKDIM_Y),
        "BLOCKDIM_X": 16,
        "BLOCKDIM_Y": 8,
        "RESULT_STEPS": 8,
        "HALO_STEPS": 1,
    },
    convolution_arrays,
)


@convsep_columns.kernel(
    "columns",
    threads=lambda W, H, RESULT_STEPS: (W, H // RESULT_STEPS),
    block=lambda BLOCKDIM_X, BLOCKDIM_Y: (BLOCKDIM_X, BLOCKDIM_Y),
    fixed=True,
    shared_memory=lambda block, RESULT_STEPS, HALO_STEPS: (
        WORD_BYTES * block[0] * ((RESULT_STEPS + 2 * HALO_STEPS) * block[1] + 1)
    ),
)
def convsep_columns_1(k: Block, Buffer: Array, Output: Array, H: int, RESULT_STEPS: int, HALO_STEPS: int) -> None:
    """Convolution along columns: for its results: Buffer[y,x]; upper, lower halo: Buffer[y,x]; |; -> Output[y,x].

    As convsep.rows; the results of a thread are a block height apart.
    """
    _, height, _ = k.launch.block
    upper, lower = HALO_STEPS, HALO_STEPS + RESULT_STEPS
    x, first = k.x, (k.block_y * RESULT_STEPS - HALO_STEPS) * height + k.thread_y
    for step in k.range(upper, lower, unroll=NEVER):  # unrolled completely, as the source says
        k.load(Buffer, first + step * height, x)
    for step in range(upper):
        with k.where(first + step * height >= 0):
            k.load(Buffer, first + step * height, x)
    for step in range(lower, lower + HALO_STEPS):
        with k.where(first + step * height < H):
            k.load(Buffer, first + step * height, x)
    publish(k)
    for step in k.range(upper, lower):
        k.gap(26)
        k.store(Output, first + step * height, x)


mcpi = Benchmark(
    "mcpi",
    {"NUM_SIMS": 100_000, "BLOCKS": 195},
    lambda NUM_SIMS, BLOCKS: {"points": (2, NUM_SIMS), "results": BLOCKS},
)


@mcpi.kernel(
    threads=lambda NUM_SIMS: (NUM_SIMS,),
    grid=lambda BLOCKS: (BLOCKS, 1, 1),
    block=(128, 1, 1),
    shared_memory=lambda block: WORD_BYTES * block[0],
)
def mcpi_1(k: Block, points: Array, results: Array, NUM_SIMS: int) -> None:
    """Monte-Carlo pi: for i, a grid apart: points[0,i], points[1,i]; | and for each halving |; -> results[block].

    A generator has written the random points. The sample halves its grid until an SM has at most 20 blocks, which gives
    195 blocks for 15 SMs.
    """
    width, _, _ = k.launch.block
    for i in k.range(k.x, NUM_SIMS, width * k.launch.grid[0]):
        k.load(points, 0, i)
        k.load(points, 1, i)
    publish(k)
    rounds(k, halvings(width), 11)
    with k.where(k.thread_x == 0):
        k.store(results, k.block_x)
