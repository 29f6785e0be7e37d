"""The clock falls under matrix products, as far as the power of a GPU makes it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.overrides import override
from rdmodel.timing.clock import clock_share, with_clock_share
from tests.support.examples import examples
from tests.support.times import of_blocks
from tracegen import cuda

PRODUCTS = """.version 8.0 .target sm_80 .address_size 64
.visible .entry k(.param .u64 a) {
  .reg .b64 %rd<9>; .reg .b32 %r<19>; .reg .f32 %f<140>; .reg .pred %p<9>; ld.param.u64 %rd1, [a]; mov.u32 %r1, 0;
L: PRODUCTS add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 100; @%p1 bra L; st.global.f32 [%rd1], %f0; ret; }"""


def products(count):
    """A kernel whose loop has so many independent products."""
    sums = [", ".join(f"%f{4 * at + i}" for i in range(4)) for at in range(count)]
    factors = "{%r1, %r1, %r1, %r1}, {%r1, %r1}"
    body = "".join(
        f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{own}}}, {factors}, {{{own}}};" for own in sums
    )
    return cuda.trace(PRODUCTS.replace("PRODUCTS", body), "k", 132 * 8, 256, ["float[1024]:zeros"])


@given(st.floats(0.01, 1), st.floats(0.3, 1))
@examples(50)
def test_the_power_of_tensor_cores_is_bounded(used, least):
    share = clock_share(used, {"matrix_clock": least})
    assert least <= share <= 1
    assert used * share**3 <= least**3 * (1 + 1e-9)
    assert share == 1 or used * share**3 == pytest.approx(least**3)


def test_a_gpu_whose_tensor_cores_are_idle_has_its_highest_clock():
    assert clock_share(0.0, {"matrix_clock": 0.5}) == 1
    gpu = presets.gpu("h100-sxm")
    assert with_clock_share(gpu, 1.0) is gpu


def test_the_l2_follows_the_clock_of_the_sms_and_the_dram_does_not():
    gpu = presets.gpu("h100-sxm")
    slower = with_clock_share(gpu, 0.5)
    assert (slower.clock, slower.l2.clock, slower.crossbar.clock) == (gpu.clock // 2,) * 3
    assert slower.dram == gpu.dram


def test_a_kernel_of_products_takes_the_cycles_at_a_lower_clock():
    trace = products(16)
    gpu = presets.gpu("h100-sxm")
    found, cool = (rd.time(trace, override(gpu, {"rates.matrix_clock": clock})) for clock in ("0.62", "1"))
    assert cool.clock == gpu.clock
    assert of_blocks(found) == pytest.approx(of_blocks(cool), rel=0.01)
    used = cool.terms["matrix units"] / cool.cycles
    assert found.clock == pytest.approx(0.62 / used ** (1 / 3) * gpu.clock, abs=1)
    # The products are not faster than those of cuBLAS, from which the clock is known.
    assert 0.62 * gpu.clock - 1 <= found.clock < 0.7 * gpu.clock


def test_few_products_leave_the_clock_alone():
    trace = cuda.trace(
        ".version 8.0 .target sm_80 .address_size 64 .visible .entry k(.param .u64 a) { .reg .b64 %rd<3>; ret; }",
        "k", 1, 32, ["float[4]:zeros"],
    )  # fmt: skip
    assert rd.time(trace, "h100-sxm").clock == presets.gpu("h100-sxm").clock


def test_the_time_that_dram_needs_does_not_depend_on_the_clock():
    source = """extern "C" __global__ void k(float *a) { a[blockIdx.x * 256 + threadIdx.x] = 1; }"""
    trace = cuda.trace(source, "k", 1 << 14, 256, [np.zeros(1 << 22, np.float32)])
    gpu = presets.gpu("h100-sxm")
    whole, half = (rd.time(trace, with_clock_share(gpu, share)) for share in (1.0, 0.5))
    assert half.terms["DRAM"] / half.clock == pytest.approx(whole.terms["DRAM"] / whole.clock, rel=0.01)
