"""Kernels of Gluon are traced as those of Triton; their layouts are arguments."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel import predict
from rdmodel.integrations.triton import recorded_launches, trace
from rdmodel.trace.counting import count_work
from tests.support.tensor_descriptors import Descriptor

pytest.importorskip("triton")
gluon = pytest.importorskip("triton.experimental.gluon")
gl = pytest.importorskip("triton.experimental.gluon.language")
hopper = pytest.importorskip("triton.experimental.gluon.language.nvidia.hopper")
blackwell = pytest.importorskip("triton.experimental.gluon.language.nvidia.blackwell")
mbarrier, tma = hopper.mbarrier, hopper.tma


def described(array, *block):
    return Descriptor(array, list(block), gl.NVMMASharedLayout.get_default_for(list(block), gl.float16))


@gluon.jit
def copy(x, out, n, BLOCK: gl.constexpr, layout: gl.constexpr):
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    gl.store(out + at, gl.load(x + at, mask=at < n), mask=at < n)


@gluon.jit
def copy_tiles(source, target, ROWS: gl.constexpr):
    row = gl.program_id(0) * ROWS
    tile = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    mbarrier.expect(ready, source.block_type.nbytes)
    tma.async_copy_global_to_shared(source, [row, 0], ready, tile)
    mbarrier.wait(ready, phase=0)
    mbarrier.invalidate(ready)
    hopper.fence_async_shared()
    tma.async_copy_shared_to_global(target, [row, 0], tile)
    tma.store_wait(pendings=0)


@gluon.jit
def multiply(a_map, b_map, out, N: gl.constexpr, layout: gl.constexpr):
    a = gl.allocate_shared_memory(a_map.dtype, a_map.block_shape, a_map.layout)
    b = gl.allocate_shared_memory(b_map.dtype, b_map.block_shape, b_map.layout)
    total = blackwell.allocate_tensor_memory(gl.float32, [N, N], blackwell.TensorMemoryLayout([N, N], col_stride=1))
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    mbarrier.expect(ready, 2 * a_map.block_type.nbytes)
    tma.async_copy_global_to_shared(a_map, [0, 0], ready, a)
    tma.async_copy_global_to_shared(b_map, [0, 0], ready, b)
    mbarrier.wait(ready, phase=0)
    blackwell.tcgen05_mma(a, b, total, use_acc=False)
    blackwell.tcgen05_commit(ready)
    mbarrier.wait(ready, phase=1)
    at = gl.arange(0, 128, layout=layout)
    gl.store(out + at, at)


@pytest.mark.parametrize(("each", "requests"), [(1, 32), (4, 8)])
def test_the_layout_decides_how_many_elements_a_lane_loads_at_once(each, requests):
    x, layout = np.zeros(1024, np.float32), gl.BlockedLayout([each], [32], [4], [0])
    options = {"BLOCK": 1024, "layout": layout, "num_warps": 4, "architecture": "sm_90"}
    found = predict(trace(copy, 1, x, np.zeros_like(x), 1024, **options), "h100")
    assert (found.requests, found.sectors) == (requests, x.nbytes / 32)


def test_descriptors_of_gluon_become_tensor_maps():
    x = np.arange(512 * 64).reshape(512, 64).astype(np.float16)
    out = np.zeros_like(x)
    with recorded_launches("h100", architecture="sm_90", values=True) as traces:
        copy_tiles[(8,)](described(x, 64, 64), described(out, 64, 64), 64, num_warps=4)
    assert np.array_equal(out, x)
    assert predict(traces[0], "h100", sms=1, l2=True).l2.reads == x.nbytes / 32


def test_products_of_tensor_cores_of_blackwell_are_counted():
    a, b = (np.zeros((128, 128), np.float16) for _ in range(2))
    made = trace(
        multiply, 1, described(a, 128, 128), described(b, 128, 128), np.zeros(128, np.int32),
        N=128, layout=gl.BlockedLayout([1], [32], [4], [0]), num_warps=4, architecture="sm_100",
    )  # fmt: skip
    flops = {name: count for name, count in count_work(made, [0]).matrix_flops.items() if count}
    assert flops == {"fp16": 2 * 128**3}
