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
def _buffers(a_map, b_map, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return shared memory for tiles, and an initialized mbarrier for each pair of tiles."""
    # Gluon has no lists with stars.
    a = gl.allocate_shared_memory(a_map.dtype, [count] + a_map.block_type.shape, a_map.layout)  # noqa: RUF005
    b = gl.allocate_shared_memory(b_map.dtype, [count] + b_map.block_type.shape, b_map.layout)  # noqa: RUF005
    ready = gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(count):
        mbarrier.init(ready.index(i), count=1)
    return a, b, ready


@gluon.jit  # type: ignore[untyped-decorator]
def hopper_waits(a_map, b_map, c_map, layout: gl.constexpr, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Wait for the tiles and for their product in each step."""
    rows: gl.constexpr = c_map.block_type.shape[0]
    columns: gl.constexpr = c_map.block_type.shape[1]
    row, column = gl.program_id(0) * rows, gl.program_id(1) * columns
    a, b, ready = _buffers(a_map, b_map, count)
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
def hopper_ring(a_map, b_map, c_map, layout: gl.constexpr, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Fetch tiles `count` - 2 steps ahead, and wait for a product in the next step."""
    rows: gl.constexpr = c_map.block_type.shape[0]
    columns: gl.constexpr = c_map.block_type.shape[1]
    depth: gl.constexpr = a_map.block_type.shape[1]
    row, column = gl.program_id(0) * rows, gl.program_id(1) * columns
    a, b, ready = _buffers(a_map, b_map, count)
    total = hopper.warpgroup_mma_init(gl.zeros((rows, columns), dtype=gl.float32, layout=layout))
    for i in gl.static_range(count - 2):
        _fetch(a_map, b_map, row, column, i * depth, ready.index(i), a.index(i), b.index(i))
    put, got = count - 2, 0
    for k in range(depth * (count - 2), a_map.shape[1], depth):
        at = put % count
        _fetch(a_map, b_map, row, column, k, ready.index(at), a.index(at), b.index(at))
        put += 1
        at = got % count
        mbarrier.wait(ready.index(at), got // count & 1)
        total = hopper.warpgroup_mma_wait(0, (total,))
        total = hopper.warpgroup_mma(a.index(at), b.index(at), total, is_async=True)
        got += 1
    for _ in gl.static_range(count - 2):
        at = got % count
        mbarrier.wait(ready.index(at), got // count & 1)
        total = hopper.warpgroup_mma_wait(0, (total,))
        total = hopper.warpgroup_mma(a.index(at), b.index(at), total, is_async=True)
        got += 1
    total = hopper.warpgroup_mma_wait(0, (total,))
    _store(total, c_map, row, column)


@gluon.jit  # type: ignore[untyped-decorator]
def blackwell_waits(a_map, b_map, c_map, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Wait for the tiles and for their product in each step."""
    rows: gl.constexpr = c_map.block_type.shape[0]
    columns: gl.constexpr = c_map.block_type.shape[1]
    row, column = gl.program_id(0) * rows, gl.program_id(1) * columns
    a, b, ready = _buffers(a_map, b_map, count)
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    phase = 0
    sums: gl.constexpr = blackwell.TensorMemoryLayout([rows, columns], col_stride=1)
    total = blackwell.allocate_tensor_memory(gl.float32, [rows, columns], sums)
    more = False
    for k in range(0, a_map.shape[1], a_map.block_type.shape[1]):
        _fetch(a_map, b_map, row, column, k, ready.index(0), a.index(0), b.index(0))
        mbarrier.wait(ready.index(0), phase=phase)
        blackwell.tcgen05_mma(a.index(0), b.index(0), total, use_acc=more)
        blackwell.tcgen05_commit(done)
        mbarrier.wait(done, phase=phase)
        more = True
        phase ^= 1
    _store(total.load(total.get_reg_layout()), c_map, row, column)


@gluon.jit  # type: ignore[untyped-decorator]
def _multiply(a, b, total, more, got, ready, done, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Start a product when its tiles and the product before are there."""
    at = got % count
    mbarrier.wait(ready.index(at), got // count & 1)
    mbarrier.wait(done.index((got - 1) & 1), ((got - 1) >> 1) & 1)
    blackwell.tcgen05_mma(a.index(at), b.index(at), total, use_acc=more)
    blackwell.tcgen05_commit(done.index(got & 1))


@gluon.jit  # type: ignore[untyped-decorator]
def blackwell_ring(a_map, b_map, c_map, count: gl.constexpr):  # type: ignore[no-untyped-def]
    """Fetch tiles `count` - 2 steps ahead, and wait for a product in the next step."""
    rows: gl.constexpr = c_map.block_type.shape[0]
    columns: gl.constexpr = c_map.block_type.shape[1]
    depth: gl.constexpr = a_map.block_type.shape[1]
    row, column = gl.program_id(0) * rows, gl.program_id(1) * columns
    a, b, ready = _buffers(a_map, b_map, count)
    done = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(done.index(i), count=1)
    sums: gl.constexpr = blackwell.TensorMemoryLayout([rows, columns], col_stride=1)
    total = blackwell.allocate_tensor_memory(gl.float32, [rows, columns], sums)
    more = False
    for i in gl.static_range(count - 2):
        _fetch(a_map, b_map, row, column, i * depth, ready.index(i), a.index(i), b.index(i))
    put, got = count - 2, 0
    for k in range(depth * (count - 2), a_map.shape[1], depth):
        at = put % count
        _fetch(a_map, b_map, row, column, k, ready.index(at), a.index(at), b.index(at))
        put += 1
        _multiply(a, b, total, more, got, ready, done, count)
        more = True
        got += 1
    for _ in gl.static_range(count - 2):
        _multiply(a, b, total, more, got, ready, done, count)
        got += 1
    mbarrier.wait(done.index((got - 1) & 1), ((got - 1) >> 1) & 1)
    _store(total.load(total.get_reg_layout()), c_map, row, column)
