"""Check the times of kernels with matrix products: products alone, and what needs them."""

import pytest

import rdmodel as rd
from rdmodel import presets
from tests.support.times import of_blocks
from tracegen import cuda

A100, H100 = presets.gpu("a100-80g"), presets.gpu("h100-sxm")
TRIPS, PRODUCTS, SUMS = 200, 16, 128


def kernel(sums, barrier=""):
    """Return a kernel with a loop of independent products, a chain of `sums` that needs the last of them, and again."""
    products = "".join(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, "
        "{%z, %z, %z, %z}; ".replace("%f0, %f1, %f2, %f3", ", ".join(f"%f{4 * at + i}" for i in range(4)))
        for at in range(PRODUCTS)
    )
    chain = f"add.f32 %z, %f{4 * PRODUCTS - 1}, %f1; " + "add.f32 %z, %z, %z; " * (sums - 1) if sums else ""
    return f""".version 8.0 .target sm_80 .address_size 64 .visible .entry k(.param .u64 out) {{
      .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %p; .reg .f32 %f<{4 * PRODUCTS}>; .reg .f32 %z;
      mov.u32 %r1, 0; mov.u32 %r2, 0; mov.f32 %z, 0f00000000;
    L: .pragma "nounroll"; {products} {chain} {barrier} add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, {TRIPS}; @%p bra L;
      ld.param.u64 %rd1, [out]; st.global.f32 [%rd1], %z; ret; }}"""


def timed(text, block):
    return rd.time(cuda.trace(text, "k", A100.sms, block, ["float[4]:zeros"]), A100)


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
@pytest.mark.parametrize("block", [128, 256])
def test_warps_with_products_alone_reach_the_rate_of_the_tensor_cores(block, barrier):
    found = timed(kernel(0, barrier), block)
    peak = block / 128 * TRIPS * PRODUCTS * 8
    assert found.terms["matrix units"] == pytest.approx(peak)
    assert peak <= of_blocks(found) == pytest.approx(peak, rel=0.2)


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_a_warp_alone_takes_its_products_and_then_what_needs_them(barrier):
    found = timed(kernel(SUMS, barrier), 128)
    assert found.cycles == pytest.approx(TRIPS * (PRODUCTS * 8 + 14 + SUMS * 4), rel=0.1)


def test_a_second_warp_of_a_sub_core_has_its_products_during_the_sums_of_the_first():
    one, two = (timed(kernel(SUMS, "bar.sync 0;"), block).cycles for block in (128, 256))
    assert two == pytest.approx(one + TRIPS * PRODUCTS * 8, rel=0.02)


def group_kernel(n, first):
    """Return a kernel with a loop of products of a group of four warps: 64 x n x 16, `first` as the first factor."""
    sums = ", ".join(f"%f{at}" for at in range(n // 2))
    product = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{sums}}}, {first}, %rd1, 1, 1, 1, 0"
    product += ", 0;" if first.startswith("{") else ", 0, 0;"
    return f""".version 8.0 .target sm_90a .address_size 64 .visible .entry k(.param .u64 out) {{
      .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %p; .reg .f32 %f<{n // 2}>;
      mov.u32 %r1, 0; mov.u32 %r2, 0; mov.b64 %rd1, 0;
    L: .pragma "nounroll"; wgmma.fence.sync.aligned; {product * PRODUCTS}
      wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
      add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, {TRIPS}; @%p bra L;
      ld.param.u64 %rd1, [out]; st.global.f32 [%rd1], %f0; ret; }}"""


IN_REGISTERS = "{%r1, %r1, %r1, %r1}"


@pytest.mark.parametrize(
    ("n", "first", "rows"), [(256, "%rd1", 64 + 256), (32, "%rd1", 64 + 32), (32, IN_REGISTERS, 32)]
)
def test_products_take_at_least_the_cycles_that_shared_memory_needs_for_their_factors(n, first, rows):
    trace = cuda.trace(group_kernel(n, first), "k", H100.sms * 2, 128, ["float[4]:zeros"])
    found = rd.time(trace, H100)
    blocks, loops = 2, TRIPS * PRODUCTS
    assert found.terms["matrix units"] == pytest.approx(blocks * loops * 64 * n * 16 * 2 / 4096)
    assert found.terms["matrix factors"] == pytest.approx(blocks * loops * rows * 16 * 2 / 128, rel=0.01)
    assert found.cycles >= max(found.terms["matrix units"], found.terms["matrix factors"])


def test_factors_that_shared_memory_reads_faster_than_tensor_cores_compute_take_no_time():
    arguments = ("k", H100.sms * 2, 128, ["float[4]:zeros"])
    shared, own = (rd.time(cuda.trace(group_kernel(256, first), *arguments), H100) for first in ("%rd1", IN_REGISTERS))
    assert shared.terms["matrix factors"] > own.terms["matrix factors"]
    assert shared.cycles == pytest.approx(own.cycles, rel=0.001)
