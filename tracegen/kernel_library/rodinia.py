"""Declare kernels with the accesses of compiled Rodinia code (Che et al., IISWC 2009).

Data are float32, but int in Needleman-Wunsch. Accesses to shared memory are not traced; kernels declare its bytes and
pass its barriers. Sums are in registers. Long computations are `k.gap` with the instruction counts of compiled PTX. In
descriptions, loads stand before ``->`` and stores after it, and ``|`` is a barrier. Default sizes are those of Jia et
al. (HPCA 2014, table 3) for benchmarks listed there, else Rodinia's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracegen.kernel_library.registry import Benchmark, Multiple, Position, Size
from tracegen.kernel_library.shared_memory import WORD_BYTES, publish, rounds
from tracegen.simt.kernel_trace import Array, Block, Buffer
from tracegen.unrolling import NEVER


def square(BLOCK_SIZE: int) -> tuple[int, int]:
    """Return the square block of a tiled kernel."""
    return BLOCK_SIZE, BLOCK_SIZE


def alignment_arrays(N: int) -> dict[str, Buffer]:
    """Return the arrays of Needleman-Wunsch: int matrices with one row and column more than the sequences."""
    return {name: Buffer((N + 1, N + 1), np.int32) for name in ("reference", "matrix")}


NW_SIZES: dict[str, Size] = {"N": Multiple(2048, of="BLOCK_SIZE"), "BLOCK_SIZE": 16}
"""Sizes of Needleman-Wunsch that both of its kernels share."""

nw_upper = Benchmark(
    "nw", {**NW_SIZES, "DIAGONAL": Position(0, below=lambda N, BLOCK_SIZE: N // BLOCK_SIZE)}, alignment_arrays
)
nw_lower = Benchmark(
    "nw", {**NW_SIZES, "DIAGONAL": Position(0, below=lambda N, BLOCK_SIZE: N // BLOCK_SIZE - 1)}, alignment_arrays
)


def align(k: Block, reference: Array, matrix: Array, tile_x: int, tile_y: int, size: int) -> None:
    """Fill one tile of the matrix of Needleman-Wunsch."""
    x, top, left = k.thread_x, tile_y * size, tile_x * size
    with k.where(x == 0):
        k.load(matrix, top, left)
    for y in k.range(size, unroll=NEVER):  # a constant of the source: unrolled completely
        k.load(reference, top + 1 + y, left + 1 + x)
    publish(k)
    k.load(matrix, top + 1 + x, left)
    publish(k)
    k.load(matrix, top, left + 1 + x)
    publish(k)
    rounds(k, 2 * size - 1, 12)
    for y in k.range(size):
        k.store(matrix, top + 1 + y, left + 1 + x)


def alignment_memory(BLOCK_SIZE: int) -> int:
    """Return the bytes of shared memory of a tile with its border, and of its similarities."""
    return WORD_BYTES * ((BLOCK_SIZE + 1) ** 2 + BLOCK_SIZE**2)


@nw_upper.kernel(
    "1",
    threads=lambda N: (N,),
    grid=lambda N, BLOCK_SIZE, DIAGONAL: (N // BLOCK_SIZE - DIAGONAL, 1, 1),
    block=lambda BLOCK_SIZE: (BLOCK_SIZE,),
    fixed=True,
    shared_memory=alignment_memory,
)
def nw_1(k: Block, reference: Array, matrix: Array, N: int, BLOCK_SIZE: int, DIAGONAL: int) -> None:
    """Needleman-Wunsch, a diagonal of tiles: corner; for y: reference; |; west; |; north; |; | per wave; -> tile.

    The launch is `DIAGONAL` launches before that of the longest diagonal. A block is one row of threads and fills a
    tile; corner, west and north are cells of `matrix`. There are ``2 * BLOCK_SIZE - 1`` waves.
    """
    tiles = N // BLOCK_SIZE - DIAGONAL
    align(k, reference, matrix, k.block_x, tiles - 1 - k.block_x, BLOCK_SIZE)


@nw_lower.kernel(
    "2",
    threads=lambda N: (N,),
    grid=lambda N, BLOCK_SIZE, DIAGONAL: (N // BLOCK_SIZE - 1 - DIAGONAL, 1, 1),
    block=lambda BLOCK_SIZE: (BLOCK_SIZE,),
    fixed=True,
    shared_memory=alignment_memory,
)
def nw_2(k: Block, reference: Array, matrix: Array, N: int, BLOCK_SIZE: int, DIAGONAL: int) -> None:
    """Needleman-Wunsch, a shrinking diagonal: corner; for y: reference; |; west; |; north; |; | per wave; -> tile.

    As nw.1; the launch is `DIAGONAL` launches after the first shrinking diagonal.
    """
    tiles = N // BLOCK_SIZE
    align(k, reference, matrix, k.block_x + 1 + DIAGONAL, tiles - 1 - k.block_x, BLOCK_SIZE)


def hotspot_side(BLOCK_SIZE: int, PYRAMID_HEIGHT: int) -> int:
    """Return the side of the result of a block of hotspot: its tile without the border that every step loses."""
    return BLOCK_SIZE - 2 * PYRAMID_HEIGHT


hotspot = Benchmark(
    "hotspot",
    {
        "ROWS": 512,
        "COLS": 512,
        "BLOCK_SIZE": 16,
        "PYRAMID_HEIGHT": Position(2, below=lambda BLOCK_SIZE: (BLOCK_SIZE + 1) // 2, least=1),
    },
    lambda ROWS, COLS: dict.fromkeys(("temp_src", "temp_dst", "power"), (ROWS, COLS)),
)


@hotspot.kernel(
    threads=lambda ROWS, COLS: (COLS, ROWS),
    grid=lambda ROWS, COLS, BLOCK_SIZE, PYRAMID_HEIGHT: (
        -(-COLS // hotspot_side(BLOCK_SIZE, PYRAMID_HEIGHT)),
        -(-ROWS // hotspot_side(BLOCK_SIZE, PYRAMID_HEIGHT)),
        1,
    ),
    block=square,
    fixed=True,
    shared_memory=lambda BLOCK_SIZE: WORD_BYTES * 3 * BLOCK_SIZE**2,
)
def hotspot_1(k: Block, temp_src: Array, temp_dst: Array, power: Array, BLOCK_SIZE: int, PYRAMID_HEIGHT: int) -> None:
    """Heat on a chip, several steps: temp_src[y,x], power[y,x]; |; two | per step, one for the last; -> temp_dst[y,x].

    Tiles overlap: each of the `PYRAMID_HEIGHT` steps needs one more cell on every side. The cells that all steps
    computed are stored.
    """
    rows, columns = temp_src.shape
    side, border, last = hotspot_side(BLOCK_SIZE, PYRAMID_HEIGHT), PYRAMID_HEIGHT, BLOCK_SIZE - 1 - PYRAMID_HEIGHT
    tx, ty = k.thread_x, k.thread_y
    x, y = k.block_x * side - border + tx, k.block_y * side - border + ty
    with k.where((y >= 0) & (y < rows) & (x >= 0) & (x < columns)):
        k.load(temp_src, y, x)
        k.load(power, y, x)
    publish(k)
    k.gap(32)
    rounds(k, 1, 42)
    for _ in range(PYRAMID_HEIGHT - 1):
        rounds(k, 1, 6)
        rounds(k, 1, 42)
    with k.where((tx >= border) & (tx <= last) & (ty >= border) & (ty <= last) & (y < rows) & (x < columns)):
        k.store(temp_dst, y, x)


srad = Benchmark(
    "srad",
    {"ROWS": Multiple(1024, of="BLOCK_SIZE"), "COLS": Multiple(1024, of="BLOCK_SIZE"), "BLOCK_SIZE": 16},
    lambda ROWS, COLS: dict.fromkeys(("J", "C", "E_C", "W_C", "S_C", "N_C"), (ROWS, COLS)),
)


def neighbouring_lines(k: Block, image: Array) -> tuple[Any, Any, Any, Any]:
    """Return the rows north and south and the columns west and east of a block's tile, limited to the image."""
    rows, columns = image.shape
    width, height, _ = k.launch.block
    top, left = k.block_y * height, k.block_x * width
    return (
        np.maximum(top - 1, 0), np.minimum(top + height, rows - 1),
        np.maximum(left - 1, 0), np.minimum(left + width, columns - 1),
    )  # fmt: skip


@srad.kernel(
    "1",
    threads=lambda ROWS, COLS: (COLS, ROWS),
    block=square,
    fixed=True,
    shared_memory=lambda BLOCK_SIZE: WORD_BYTES * 6 * BLOCK_SIZE**2,
)
def srad_1(k: Block, J: Array, C: Array, E_C: Array, W_C: Array, S_C: Array, N_C: Array) -> None:
    """Diffusion coefficients: north, south; |; west, east; |; J[y,x]; |; |; -> C, E_C, W_C, S_C, N_C [y,x].

    Every thread loads the borders of the tile in its own column and row, needed or not, and its own cell, all from `J`.
    """
    x, y = k.x, k.y
    north, south, west, east = neighbouring_lines(k, J)
    k.load(J, north, x)
    k.load(J, south, x)
    publish(k)
    k.load(J, y, west)
    k.load(J, y, east)
    publish(k)
    k.load(J, y, x)
    publish(k)
    rounds(k, 1, 51)
    k.store(C, y, x)
    k.store(E_C, y, x)
    k.store(W_C, y, x)
    k.store(S_C, y, x)
    k.store(N_C, y, x)


@srad.kernel(
    "2",
    threads=lambda ROWS, COLS: (COLS, ROWS),
    block=square,
    fixed=True,
    shared_memory=lambda BLOCK_SIZE: WORD_BYTES * 5 * BLOCK_SIZE**2,
)
def srad_2(k: Block, J: Array, C: Array, E_C: Array, W_C: Array, S_C: Array, N_C: Array) -> None:
    """Diffusion: J[y,x]; |; south; |; east; |; C[y,x]; |; N_C, S_C, W_C, E_C [y,x]; |; -> J[y,x].

    South and east are borders in `C`, as in srad.1.
    """
    x, y = k.x, k.y
    _, south, _, east = neighbouring_lines(k, J)
    k.load(J, y, x)
    publish(k)
    k.load(C, south, x)
    publish(k)
    k.load(C, y, east)
    publish(k)
    k.load(C, y, x)
    publish(k)
    k.load(N_C, y, x)
    k.load(S_C, y, x)
    k.load(W_C, y, x)
    k.load(E_C, y, x)
    publish(k)
    k.store(J, y, x)
