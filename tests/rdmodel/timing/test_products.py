"""Check the times of kernels with matrix products: products alone, and what needs them."""

import pytest

import rdmodel as rd
from rdmodel import presets
from tracegen import cuda

A100 = presets.gpu("a100-80g")
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
    assert peak <= found.cycles == pytest.approx(peak, rel=0.2)


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_a_warp_alone_takes_its_products_and_then_what_needs_them(barrier):
    found = timed(kernel(SUMS, barrier), 128)
    assert found.cycles == pytest.approx(TRIPS * (PRODUCTS * 8 + 14 + SUMS * 4), rel=0.1)


def test_a_second_warp_of_a_sub_core_has_its_products_during_the_sums_of_the_first():
    one, two = (timed(kernel(SUMS, "bar.sync 0;"), block).cycles for block in (128, 256))
    assert two == pytest.approx(one + TRIPS * PRODUCTS * 8, rel=0.02)
