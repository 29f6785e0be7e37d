"""Define products of matrices as kernels of Gluon, which wait in different ways for their tiles; needs Triton.

Each program computes a tile of the result from tiles of the factors, which bulk copies bring to shared memory. On
Hopper, groups of warps compute products with ``wgmma``, on Blackwell one thread starts them with ``tcgen05``.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell, hopper

mbarrier, tma = hopper.mbarrier, hopper.tma


@gluon.jit
def _fetch(a_map, b_map, row, column, k, ready, a, b):  # type: ignore[no-untyped-def]
    mbarrier.expect(ready, a_map.block_type.nbytes + b_map.block_type.nbytes)
    tma.async_copy_global_to_shared(a_map, [row, k], ready, a)
    tma.async_copy_global_to_shared(b_map, [k, column], ready, b)


@gluon.jit
def _store(result, c_map, row, column):  # type: ignore[no-untyped-def]
    tile = gl.allocate_shared_memory(c_map.dtype, c_map.block_type.shape, c_map.layout)
    tile.store(result.to(c_map.dtype))
    hopper.fence_async_shared()
    tma.async_copy_shared_to_global(c_map, [row, column], tile)
    tma.store_wait(pendings=0)


@gluon.jit  # type: ignore[untyped-decorator]
def _fetch_into(  # type: ignore[no-untyped-def]
    a_map, b_map, row, column, k, ready, a, b, put, count: gl.constexpr
):
    """Fetch tiles into the buffers of a step, and return the next step."""
    at = put % count
    _fetch(a_map, b_map, row, column, k, ready.index(at), a.index(at), b.index(at))
    return put + 1


@gluon.jit  # type: ignore[untyped-decorator]
def _barriers(count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return initialized mbarriers."""
    found = gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(count):
        mbarrier.init(found.index(i), count=1)
    return found


@gluon.jit  # type: ignore[untyped-decorator]
def _buffers(a_map, b_map, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return shared memory for tiles. Gluon has no lists with stars."""
    a = gl.allocate_shared_memory(a_map.dtype, [count] + a_map.block_type.shape, a_map.layout)  # noqa: RUF005
    b = gl.allocate_shared_memory(b_map.dtype, [count] + b_map.block_type.shape, b_map.layout)  # noqa: RUF005
    return a, b


@gluon.jit
def _tiles(c_map):  # type: ignore[no-untyped-def]
    """Return the tiles of the result that a persistent program computes, which are passed column by column."""
    total = (c_map.shape[0] // c_map.block_type.shape[0]) * (c_map.shape[1] // c_map.block_type.shape[1])
    each = gl.cdiv(total, gl.num_programs(0))
    return gl.program_id(0) * each, min((gl.program_id(0) + 1) * each, total)


@gluon.jit
def _corner(c_map, tile):  # type: ignore[no-untyped-def]
    """Return the first row and column of a tile of the result."""
    rows: gl.constexpr = c_map.block_type.shape[0]
    columns: gl.constexpr = c_map.block_type.shape[1]
    high = c_map.shape[0] // rows
    return (tile % high) * rows, (tile // high) * columns


# ---- Hopper


@gluon.jit  # type: ignore[untyped-decorator]
def hopper_waits(a_map, b_map, c_map, layout: gl.constexpr, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Wait for the tiles and for their product in each step."""
    rows: gl.constexpr = c_map.block_type.shape[0]
    columns: gl.constexpr = c_map.block_type.shape[1]
    row, column = gl.program_id(0) * rows, gl.program_id(1) * columns
    ready = _barriers(count)
    a, b = _buffers(a_map, b_map, count)
    phase = 0
    total = gl.zeros((rows, columns), dtype=gl.float32, layout=layout)
    for k in range(0, a_map.shape[1], a_map.block_type.shape[1]):
        _fetch(a_map, b_map, row, column, k, ready.index(0), a.index(0), b.index(0))
        mbarrier.wait(ready.index(0), phase=phase)
        phase ^= 1
        total = hopper.warpgroup_mma(a.index(0), b.index(0), total, is_async=True)
        total = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(total,))
    _store(total, c_map, row, column)


@gluon.jit  # type: ignore[untyped-decorator]
def _add_product(a, b, total, got, ready, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Start a product when its tiles and the product before are there."""
    at = got % count
    mbarrier.wait(ready.index(at), got // count & 1)
    total = hopper.warpgroup_mma_wait(0, (total,))
    return hopper.warpgroup_mma(a.index(at), b.index(at), total, is_async=True)


@gluon.jit  # type: ignore[untyped-decorator]
def _sum_with_groups(  # type: ignore[no-untyped-def]
    a_map, b_map, c_map, row, column, layout: gl.constexpr, count: gl.constexpr, ready, step
):
    """Return a tile of the result: fetch tiles `count` - 2 steps ahead, and wait for a product in the next step."""
    depth: gl.constexpr = a_map.block_type.shape[1]
    a, b = _buffers(a_map, b_map, count)
    sums = gl.zeros((c_map.block_type.shape[0], c_map.block_type.shape[1]), dtype=gl.float32, layout=layout)
    total = hopper.warpgroup_mma_init(sums)
    put, got = step, step
    for i in gl.static_range(count - 2):
        put = _fetch_into(a_map, b_map, row, column, i * depth, ready, a, b, put, count)
    for k in range(depth * (count - 2), a_map.shape[1], depth):
        put = _fetch_into(a_map, b_map, row, column, k, ready, a, b, put, count)
        total = _add_product(a, b, total, got, ready, count)
        got += 1
    for _ in gl.static_range(count - 2):
        total = _add_product(a, b, total, got, ready, count)
        got += 1
    return hopper.warpgroup_mma_wait(0, (total,)), got


@gluon.jit  # type: ignore[untyped-decorator]
def hopper_ring(a_map, b_map, c_map, layout: gl.constexpr, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Compute one tile of the result with tiles that are fetched ahead."""
    row = gl.program_id(0) * c_map.block_type.shape[0]
    column = gl.program_id(1) * c_map.block_type.shape[1]
    total, _ = _sum_with_groups(a_map, b_map, c_map, row, column, layout, count, _barriers(count), 0)
    _store(total, c_map, row, column)


@gluon.jit  # type: ignore[untyped-decorator]
def hopper_persistent(a_map, b_map, c_map, layout: gl.constexpr, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Compute several tiles of the result, one after the other, with tiles that are fetched ahead."""
    ready = _barriers(count)
    step = 0
    first, end = _tiles(c_map)
    for tile in range(first, end):
        row, column = _corner(c_map, tile)
        total, step = _sum_with_groups(a_map, b_map, c_map, row, column, layout, count, ready, step)
        _store(total, c_map, row, column)


# ---- Blackwell


@gluon.jit
def _sums(c_map):  # type: ignore[no-untyped-def]
    """Return tensor memory for a tile of the result."""
    rows: gl.constexpr = c_map.block_type.shape[0]
    columns: gl.constexpr = c_map.block_type.shape[1]
    layout: gl.constexpr = blackwell.TensorMemoryLayout([rows, columns], col_stride=1)
    return blackwell.allocate_tensor_memory(gl.float32, [rows, columns], layout)


@gluon.jit  # type: ignore[untyped-decorator]
def blackwell_waits(a_map, b_map, c_map, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Wait for the tiles and for their product in each step."""
    row = gl.program_id(0) * c_map.block_type.shape[0]
    column = gl.program_id(1) * c_map.block_type.shape[1]
    ready, done = _barriers(count), _barriers(1)
    a, b = _buffers(a_map, b_map, count)
    total = _sums(c_map)
    phase = 0
    more = False
    for k in range(0, a_map.shape[1], a_map.block_type.shape[1]):
        _fetch(a_map, b_map, row, column, k, ready.index(0), a.index(0), b.index(0))
        mbarrier.wait(ready.index(0), phase=phase)
        blackwell.tcgen05_mma(a.index(0), b.index(0), total, use_acc=more)
        blackwell.tcgen05_commit(done.index(0))
        mbarrier.wait(done.index(0), phase=phase)
        more = True
        phase ^= 1
    _store(total.load(total.get_reg_layout()), c_map, row, column)


@gluon.jit  # type: ignore[untyped-decorator]
def _start_product(a, b, total, more, got, ready, done, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Start a product when its tiles and the product before are there."""
    at = got % count
    mbarrier.wait(ready.index(at), got // count & 1)
    mbarrier.wait(done.index((got - 1) & 1), ((got - 1) >> 1) & 1)
    blackwell.tcgen05_mma(a.index(at), b.index(at), total, use_acc=more)
    blackwell.tcgen05_commit(done.index(got & 1))


@gluon.jit  # type: ignore[untyped-decorator]
def _sum_in_tensor_memory(  # type: ignore[no-untyped-def]
    a_map, b_map, row, column, total, count: gl.constexpr, ready, done, step
):
    """Sum up a tile of the result: fetch tiles `count` - 2 steps ahead, and wait for a product in the next step."""
    depth: gl.constexpr = a_map.block_type.shape[1]
    a, b = _buffers(a_map, b_map, count)
    more = False
    put, got = step, step
    for i in gl.static_range(count - 2):
        put = _fetch_into(a_map, b_map, row, column, i * depth, ready, a, b, put, count)
    for k in range(depth * (count - 2), a_map.shape[1], depth):
        put = _fetch_into(a_map, b_map, row, column, k, ready, a, b, put, count)
        _start_product(a, b, total, more, got, ready, done, count)
        more = True
        got += 1
    for _ in gl.static_range(count - 2):
        _start_product(a, b, total, more, got, ready, done, count)
        got += 1
    mbarrier.wait(done.index((got - 1) & 1), ((got - 1) >> 1) & 1)
    return got


@gluon.jit  # type: ignore[untyped-decorator]
def blackwell_ring(a_map, b_map, c_map, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Compute one tile of the result with tiles that are fetched ahead."""
    row = gl.program_id(0) * c_map.block_type.shape[0]
    column = gl.program_id(1) * c_map.block_type.shape[1]
    ready, done = _barriers(count), _barriers(2)
    total = _sums(c_map)
    _sum_in_tensor_memory(a_map, b_map, row, column, total, count, ready, done, 0)
    _store(total.load(total.get_reg_layout()), c_map, row, column)


@gluon.jit  # type: ignore[untyped-decorator]
def blackwell_persistent(a_map, b_map, c_map, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Compute several tiles of the result, one after the other, with tiles that are fetched ahead."""
    ready, done = _barriers(count), _barriers(2)
    total = _sums(c_map)
    step = 0
    first, end = _tiles(c_map)
    for tile in range(first, end):
        row, column = _corner(c_map, tile)
        step = _sum_in_tensor_memory(a_map, b_map, row, column, total, count, ready, done, step)
        _store(total.load(total.get_reg_layout()), c_map, row, column)
