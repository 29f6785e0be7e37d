"""Trace the measured kernels: each function has the accesses of one thread block, written from their description."""

from __future__ import annotations

from tracegen import Array, Block

LOADS_IN_FLIGHT = 32
"""Loads of a warp of `rounds` that are under way together: those of one unrolled loop."""


def rounds(k: Block, data: Array, repeat: int) -> None:
    """Read all data several times; a warp always reads its own eighth, and no warp waits for another."""
    threads, steps = 256, data.shape[0] // 256
    for _ in range(repeat):
        for first in range(0, steps, LOADS_IN_FLIGHT):
            for step in k.range(first, min(first + LOADS_IN_FLIGHT, steps), unroll=LOADS_IN_FLIGHT):
                k.load(data, step * threads + k.thread_x)
            k.wait()


def scan_again(k: Block, data: Array, out: Array, stride: int) -> None:
    """Read one element of every line with one thread, then its neighbour of every line in the same order."""
    for i in k.range(0, data.shape[0], stride):
        k.load(data, i)
    for i in k.range(0, data.shape[0], stride):
        k.load(data, i + 1)
    k.store(out, 0)


def scan_back(k: Block, data: Array, out: Array, stride: int) -> None:
    """Read one element of every line with one thread, then its neighbour of every line from the last to the first."""
    length = data.shape[0]
    for i in k.range(0, length, stride):
        k.load(data, i)
    for i in k.range(0, length, stride):
        k.load(data, length - stride - i + 1)
    k.store(out, 0)


def write_bytes(k: Block, source: Array, out: Array) -> None:
    """Store 32 words of one line with one block, and a word of each of 96 lines and three more with another block."""
    with k.where(k.block_x == 0):
        for i in k.range(32):
            k.store(out, i)
    with k.where(k.block_x == 1):
        for i in k.range(1024, 4096, 32):
            k.load(source, i)
            k.store(out, i)
        k.store(out, 1)
        k.load(out, 0)
        k.load(out, 32)
        k.store(out, 32)
        k.store(out, 64)


def add(k: Block, a: Array, b: Array, c: Array) -> None:
    """Add two vectors, an element per thread."""
    with k.where(k.x < a.shape[0]):
        k.load(a, k.x)
        k.load(b, k.x)
        k.store(c, k.x)


def add_strided(k: Block, a: Array, b: Array, c: Array, threads: int) -> None:
    """Add two vectors; the threads of the grid step through them together."""
    for first in k.range(0, a.shape[0], threads):
        k.load(a, first + k.x)
        k.load(b, first + k.x)
        k.store(c, first + k.x)


def copy(k: Block, a: Array, b: Array) -> None:
    """Load one vector and store another; a product with a constant has the same accesses."""
    k.load(a, k.x)
    k.store(b, k.x)


def dot(k: Block, a: Array, b: Array, sums: Array, threads: int) -> None:
    """Sum products of two vectors through which the grid steps, and store a sum per block."""
    for first in k.range(0, -(-a.shape[0] // threads) * threads, threads):
        with k.where(first + k.x < a.shape[0]):
            k.load(a, first + k.x)
            k.load(b, first + k.x)
    k.barrier()
    with k.where(k.thread_x == 0):
        k.store(sums, k.block_x)


def sum_rows(k: Block, data: Array, sums: Array) -> None:
    """Sum a row with each thread."""
    for j in k.range(data.shape[1]):
        k.load(data, k.x, j)
    k.store(sums, k.x)


def sum_columns(k: Block, data: Array, sums: Array) -> None:
    """Sum a column with each thread."""
    for i in k.range(data.shape[0]):
        k.load(data, i, k.x)
    k.store(sums, k.x)


def transpose_columns(k: Block, a: Array, b: Array) -> None:
    """Load a column with each warp, and store a row."""
    k.load(a, k.x, k.y)
    k.store(b, k.y, k.x)


def transpose_rows(k: Block, a: Array, b: Array) -> None:
    """Load a row with each warp, and store a column."""
    k.load(a, k.y, k.x)
    k.store(b, k.x, k.y)


def transpose_tile(k: Block, a: Array, b: Array) -> None:
    """Load a tile by rows, and store it by rows of the result, through shared memory."""
    width, height, _ = k.launch.block
    k.load(a, k.y, k.x)
    k.barrier()
    k.store(b, k.block_x * width + k.thread_y, k.block_y * height + k.thread_x)


def multiply_shared(k: Block, a: Array, b: Array, c: Array, tile: int) -> None:
    """Multiply two matrices, with square tiles of both in shared memory."""
    for first in k.range(0, a.shape[1], tile):
        k.load(a, k.y, first + k.thread_x)
        k.load(b, first + k.thread_y, k.x)
        k.barrier()
        k.barrier()
    k.store(c, k.y, k.x)


def multiply_register(k: Block, a: Array, b: Array, c: Array) -> None:
    """Multiply a transposed matrix with a strip of 16 columns per block; 8 rows of it are in shared memory at a time.

    A thread has a row of the strip's product: it loads an element of `a` per step, and loads and stores its 16 results.
    """
    row, column = k.block_x * 128 + k.thread_y * 16 + k.thread_x, k.block_y * 16
    for first in k.range(0, a.shape[0], 8):
        k.load(b, first + k.thread_y, column + k.thread_x)
        k.barrier()
        for step in k.range(first, first + 8, unroll="none"):  # unrolled completely: the results are in registers
            k.load(a, step, row)
        k.barrier()
    for i in k.range(16):
        k.load(c, column + i, row)
        k.store(c, column + i, row)


def sort_shared(k: Block, keys: Array, values: Array, sorted_keys: Array, sorted_values: Array) -> None:
    """Load two keys and two values, sort those of a block in shared memory, and store them."""
    first = k.block_x * 2 * 512 + k.thread_x
    for half in (0, 512):
        k.load(keys, first + half)
        k.load(values, first + half)
    k.barrier()
    for half in (0, 512):
        k.store(sorted_keys, first + half)
        k.store(sorted_values, first + half)


def transform_columns(k: Block, image: Array, result: Array) -> None:
    """Load a column of eight pixels with each thread, transform the blocks of 8 by 8, and store the columns."""
    column, row = k.block_x * 32 + k.thread_y * 8 + k.thread_x, k.block_y * 16 + k.thread_z * 8
    for i in range(8):
        k.load(image, row + i, column)
    k.barrier()
    for i in range(8):
        k.store(result, row + i, column)


def count_bytes(k: Block, data: Array, counts: Array, threads: int) -> None:
    """Count the bytes of 16-byte words, through which the grid steps, in shared memory; store 64 counts per block."""
    for first in k.range(0, -(-data.shape[0] // threads) * threads, threads):
        with k.where(first + k.x < data.shape[0]):
            k.load(data, first + k.x)
    k.barrier()
    k.store(counts, k.x)


def store_sequences(k: Block, out: Array, threads: int) -> None:
    """Store three sequences, one for each row of threads; the grid steps through them."""
    length = out.shape[0] // 3
    for first in k.range(0, length, threads):
        k.store(out, k.thread_y * length + first + k.x)


def diffuse(
    k: Block,
    image: Array,
    north: Array,
    south: Array,
    west: Array,
    east: Array,
    to_north: Array,
    to_south: Array,
    to_west: Array,
    to_east: Array,
    factor: Array,
    rows: int,
) -> None:
    """Load a pixel and its four neighbours, whose rows and columns are in arrays, and store five results."""
    pixels = image.shape[0]
    with k.where(k.x < pixels):
        row, column = k.x % rows, k.x // rows
        for neighbours, place in ((north, row), (south, row), (west, column), (east, column)):
            k.load(neighbours, place)
        k.load(image, k.x)
        for inside, step in ((row > 0, -1), (row < rows - 1, 1), (k.x >= rows, -rows), (k.x < pixels - rows, rows)):
            with k.where(inside):
                k.load(image, k.x + step)
        for result in (to_north, to_south, to_west, to_east, factor):
            k.store(result, k.x)


def potential(k: Block, atoms: Array, grid: Array, slices: int) -> None:
    """Load all atoms with each thread, a column of them at a time, and add to slices of a grid of potentials."""
    for atom in k.range(atoms.shape[1]):
        for number in range(atoms.shape[0]):
            k.load(atoms, number, atom)
    for i in range(slices):
        k.load(grid, k.block_z * slices + i, k.y, k.x)
        k.store(grid, k.block_z * slices + i, k.y, k.x)


def sum_runs(k: Block, data: Array, run: int) -> None:
    """Load 32 numbers with each thread, at distances that blocks of a run fill; every run of blocks reads all data."""
    for i in range(32):
        k.load(data, (run * i + k.block_x % run) * 1024 + k.thread_x)
    k.wait()
