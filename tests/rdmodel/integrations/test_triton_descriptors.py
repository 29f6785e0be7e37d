"""Descriptors of tensors, and arrays of addresses, as arguments of Triton kernels.

On sm_90 a descriptor is a tensor map, whose copies pass the L1; before, it is an address with shapes and strides.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from rdmodel import predict
from rdmodel.errors import ConfigError
from rdmodel.integrations.triton import perf_model, trace
from rdmodel.integrations.triton_tracing import trace_keywords
from tests.support.tensor_descriptors import Descriptor
from tracegen.arrays import BASE
from tracegen.cuda.session import OrderedTrace

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(0, K, STEP):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(tl.float16))


def launch(architecture, m=128, n=192, k=256, tile=(64, 64, 32), **options):
    rows, columns, step = tile
    a = Descriptor(np.zeros((m, k), np.float16), [rows, step])
    b = Descriptor(np.zeros((k, n), np.float16), [step, columns])
    c = Descriptor(np.zeros((m, n), np.float16), [rows, columns])
    grid = (m // rows, n // columns)
    return trace(product, grid, a, b, c, k, M=rows, N=columns, STEP=step, architecture=architecture, **options)


# A block reads 64 rows of `a` and 64 columns of `b`, 256 deep, in halves.
SECTORS = 2 * 3 * (2 * 64 * 256 * 2 // 32)


@pytest.mark.parametrize("warps", [4, 8])
def test_before_sm_90_descriptors_are_read_through_the_l1(warps):
    found = predict(launch("sm_80", num_warps=warps), "a100", sms=1)
    assert (found.sectors, found.bypassed_sectors) == (SECTORS, 0)


@pytest.mark.parametrize("warps", [4, 8])
def test_on_sm_90_tensor_maps_copy_boxes_past_the_l1(warps):
    found = predict(launch("sm_90", num_warps=warps), "h100", sms=1)
    assert (found.sectors, found.bypassed_sectors) == (0, SECTORS)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_what_lies_beyond_the_tensor_is_not_read(architecture):
    # The second of two blocks of rows ends after 32 rows, the third of three blocks of columns after 32 columns.
    a = Descriptor(np.zeros((96, 256), np.float16), [64, 32])
    b = Descriptor(np.zeros((256, 160), np.float16), [32, 64])
    c = Descriptor(np.zeros((96, 160), np.float16), [64, 64])
    traced = trace(product, (2, 3), a, b, c, 256, M=64, N=64, STEP=32, architecture=architecture)
    found = predict(traced, "h100", sms=1)
    assert found.sectors + found.bypassed_sectors == 3 * (96 * 256 * 2 // 32) + 2 * (160 * 256 * 2 // 32)


def test_a_tensor_that_two_descriptors_share_is_one_array():
    base = np.zeros((128, 128), np.float16)
    a, b = Descriptor(base, [64, 32]), Descriptor(base, [32, 64])
    c = Descriptor(np.zeros((128, 128), np.float16), [64, 64])
    traced = trace(product, (2, 2), a, b, c, 128, M=64, N=64, STEP=32, architecture="sm_90")
    assert [array.name for array in traced.launch.arrays[:2]] == ["a", "c"]


def test_a_tuner_passes_descriptors_by_keyword():
    a = Descriptor(np.zeros((64, 64), np.float16), [64, 32])
    b, c = replace(a, block_shape=[32, 64]), replace(a, block_shape=[64, 64])
    keywords = {"a": a, "b": b, "c": c, "K": 64, "M": 64, "N": 64, "STEP": 32, "num_warps": 4, "unknown": 1}
    found = predict(trace_keywords(product, (1, 1), keywords, "sm_80"), "a100", sms=1)
    assert found.sectors == 2 * 64 * 64 * 2 // 32


def test_configurations_with_descriptors_are_ranked_with_the_shapes_that_their_hook_sets():
    m = n = k = 256
    a, b, c = (Descriptor(np.zeros(shape, np.float16), [1, 1]) for shape in ((m, k), (k, n), (m, n)))

    def set_shapes(values):
        rows, columns, step = (values[name] for name in ("M", "N", "STEP"))
        values["a"].block_shape = [rows, step]
        values["b"].block_shape = [step, columns]
        values["c"].block_shape = [rows, columns]

    model = perf_model(
        product,
        "h100",
        grid=lambda meta: (m // meta["M"], n // meta["N"]),
        architecture="sm_90",
        pre_hook=set_shapes,
        objective="l2_bytes",
    )
    values = {
        size: model(a=a, b=b, c=c, K=k, M=size, N=size, STEP=32, num_warps=4, num_stages=3) for size in (32, 64, 128)
    }
    assert values[32] > values[64] > values[128]
    assert a.block_shape == b.block_shape == c.block_shape == [1, 1]


@pytest.mark.parametrize(
    ("base", "block_shape", "message"),
    [
        (np.zeros((64, 64), complex), [64, 32], "a: elements of type complex128: must be one of"),
        (np.zeros((64, 65), np.float16)[:, :64], [64, 32], "a: strides=.*: strides must be multiples of 16 bytes"),
        (np.zeros((64, 64), np.float16), [64, 33], "product: Triton cannot compile it for sm_90"),
    ],
)
def test_a_descriptor_that_no_kernel_takes_is_refused(base, block_shape, message):
    good = Descriptor(np.zeros((64, 64), np.float16), [32, 64])
    bad = Descriptor(base, block_shape)
    with pytest.raises(ConfigError, match=message):
        trace(product, 1, bad, good, replace(good, block_shape=[64, 64]), 64, M=64, N=64, STEP=32, architecture="sm_90")


@triton.jit
def gather(addresses, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = tl.program_id(0)
    values = tl.load(tl.load(addresses + place).to(tl.pointer_type(tl.float32)) + at)
    tl.store(out + place * BLOCK + at, values)


def test_addresses_in_arrays_lead_to_the_memory_that_is_given():
    pools = [np.zeros(2048, np.float32), np.zeros(1024, np.float32)]
    addresses = np.array([pools[0].ctypes.data, pools[1].ctypes.data, pools[0][1024:].ctypes.data], np.int64)
    out = np.zeros(3 * 1024, np.float32)
    traced = trace(gather, 3, addresses, out, BLOCK=1024, memory=pools)
    found = predict(traced, "a100", sms=1)
    # Each of the four warps of a block reads the address. The compiler does not know the alignment of the pool, so a
    # lane loads its 16 bytes in four parts, and each sector is read four times.
    assert found.sectors == 3 * (4 + 4 * 1024 * 4 // 32)
    names = {array.name: array.bytes for array in traced.launch.arrays}
    assert (names["memory[0]"], names["memory[1]"]) == (8192, 4096)


def test_tensors_of_torch_have_addresses_too():
    torch = pytest.importorskip("torch")
    pool = torch.zeros(1024)
    addresses = torch.tensor([pool.data_ptr()])
    assert ctypes.c_int64(pool.data_ptr()).value == int(addresses[0])
    traced = trace(gather, 1, addresses, torch.zeros(1024), BLOCK=1024, memory=[pool])
    assert predict(traced, "a100", sms=1).sectors == 4 + 4 * 128


# ---- the order of blocks


@triton.jit
def scaled_tiles(places, x, y, rows, COLUMNS: tl.constexpr, M: tl.constexpr, STEP: tl.constexpr):
    first = tl.load(places + tl.program_id(0)).to(tl.int32) * M
    source = tl.make_tensor_descriptor(x, [rows, COLUMNS], [COLUMNS, 1], [M, STEP])
    result = tl.make_tensor_descriptor(y, [rows, COLUMNS], [COLUMNS, 1], [M, STEP])
    for column in range(0, COLUMNS, STEP):
        result.store([first, column], source.load([first, column]) * 2)


@triton.jit
def moved_rows(places, x, y, N: tl.constexpr, M: tl.constexpr):
    rows = tl.load(places + tl.program_id(0) * M + tl.arange(0, M))
    elements = rows[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + elements, tl.load(x + elements))


PLACES = np.random.default_rng(0).permutation(256)
LAUNCHES = {
    "descriptors that the kernel makes": lambda: trace(
        scaled_tiles, 16, PLACES[PLACES < 16], halves(1024), halves(1024), 1024, COLUMNS=128, M=64, STEP=64,
        architecture="sm_90",
    ),
    "rows by indices of 64 bits": lambda: trace(moved_rows, 16, PLACES, halves(256), halves(256), N=128, M=16),
    "rows by addresses": lambda: trace(
        moved_rows, 1, PLACES[:16] + BASE, halves(256), halves(256), N=128, M=16
    ),
}  # fmt: skip


def halves(rows: int) -> np.ndarray:
    return np.zeros((rows, 128), np.float16)


@pytest.mark.parametrize("name", list(LAUNCHES)[:2])
def test_blocks_that_change_nothing_which_decides_are_executed_on_their_own(name):
    traced, ordered = LAUNCHES[name](), OrderedTrace(LAUNCHES[name]().launched)
    assert traced.any_order and not isinstance(traced, OrderedTrace)
    for block in (15, 3, 8):
        one, other = traced.block(block), ordered.block(block)
        for column in ("pc", "op", "size", "gap", "needs", "mask", "addresses", "warp_start"):
            np.testing.assert_array_equal(getattr(one, column), getattr(other, column))


def test_numbers_that_may_be_addresses_keep_the_order_of_the_blocks():
    assert isinstance(LAUNCHES["rows by addresses"](), OrderedTrace)
