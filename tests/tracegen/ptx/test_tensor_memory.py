"""Instructions of Blackwell's tensor cores: addresses and barriers go on, and values are poisoned."""

from __future__ import annotations

import pytest

from rdmodel.errors import TraceError
from tests.support.ptx_kernels import module_of
from tracegen.ptx.emulator.emulated_launch import LoadedModule

KERNEL = """
.visible .entry product(.param .u64 x) {{
  .reg .b32 %r<12>; .reg .b64 %rd<6>; .reg .pred %p<4>; .shared .align 8 .b64 barrier; .shared .align 4 .b32 place;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [barrier], 1;
READY:
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 64;
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  bar.sync 0;
  ld.shared.u32 %r2, [place]; mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd3, %rd4; ld.global.u32 %r9, [%rd5];
  @%p1 bra DONE;
  tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd1, %rd2, %r3, %p1;
  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [barrier];
DONE:
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [barrier], 0;
  @!%p2 bra WAIT;
  tcgen05.fence::after_thread_sync;
  tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r4, %r5, %r6, %r7}}, [%r2];
  tcgen05.wait::ld.sync.aligned;
  {body}
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;
  ret; }}
"""


def run(body, **options):
    machine = LoadedModule(module_of(KERNEL.format(body=body)))
    launched = machine.launch("product", 1, 64, [machine.allocate(1024, "x")], **options)
    return launched.run(0)


def test_products_of_blackwell_are_passed_over_and_their_barriers_complete():
    columns = run("st.global.u32 [%rd3], %r4;", values=False)
    assert columns.op.tolist() == [3, 0, 1] * 2
    assert columns.addresses.size == 4 * 32


def test_values_from_tensor_memory_are_poisoned():
    body = "mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r8, [%rd5];"
    with pytest.raises(
        TraceError, match=r"address of ld\.global\.u32 depends on a value that is not computed: .*tcgen05"
    ):
        run(body, values=False)
    with pytest.raises(TraceError, match=r"st\.global\.u32 stores a result that depends on a value"):
        run("st.global.u32 [%rd3], %r4;", values=True)


DESCRIPTORS = {
    "f16": (16, "fp16", 0x10), "tf32": (8, "tf32", 0x10), "i8": (32, "int8", 0), "f8f6f4": (32, "fp8", 0x10),
    "mxf8f6f4.block_scale": (32, "fp8", 0), "mxf4nvf4.block_scale.scale_vec::4X": (64, "fp4", 0x480),
}  # fmt: skip
"""Common extent of the factors of a product, their type, and other bits of its descriptor, by the kind."""


def work_of_products(kind, descriptor, before="", first="%rd1"):
    """Return the operations of three products that one of 64 threads issues, and the bytes that they read."""
    text = f"""{{.reg .b32 %d; mov.b32 %d, {descriptor}; {before}
    .reg .pred %e; elect.sync _|%e, -1; .reg .b32 %n; mov.u32 %n, 0;
    setp.ge.u32 %p3, %r1, 32; @%p3 bra BEHIND;
    AGAIN: @%e tcgen05.mma.cta_group::1.kind::{kind} [%r2], {first}, %rd2, %d, %p1;
    add.u32 %n, %n, 1; setp.lt.u32 %p3, %n, 3; @%p3 bra AGAIN;
    BEHIND: }}"""
    machine = LoadedModule(module_of(KERNEL.format(body=text)))
    launched = machine.launch("product", 1, 64, [machine.allocate(1024, "x")], values=False)
    launched.run(0)
    work = launched.last_work()
    return {name: flops for name, flops in work.matrix_flops.items() if flops}, work.matrix_bytes


@pytest.mark.parametrize("kind", DESCRIPTORS)
@pytest.mark.parametrize(("m", "n"), [(128, 256), (64, 8), (256, 16)])
def test_the_shape_of_a_product_is_in_its_descriptor(kind, m, n):
    k, factors, other = DESCRIPTORS[kind]
    bits = {"fp16": 16, "tf32": 32, "int8": 8, "fp8": 8, "fp4": 4}[factors]
    expected = {factors: 3 * 2 * m * n * k}
    assert work_of_products(kind, m << 20 | n << 14 | other) == (expected, 3 * (m + n) * k * bits // 8)
    # The first factor may be in tensor memory.
    assert work_of_products(kind, m << 20 | n << 14 | other, first="[%r2]") == (expected, 3 * n * k * bits // 8)


def test_factors_of_bfloat16_are_told_by_the_descriptor():
    assert work_of_products("f16", 128 << 20 | 64 << 14 | 0x490)[0] == {"bf16": 3 * 2 * 128 * 64 * 16}


@pytest.mark.parametrize(
    ("kind", "k", "type"), [("f16", 16, "fp16_fp16"), ("f8f6f4", 32, "fp8_fp16"), ("tf32", 8, "tf32")]
)
def test_sums_in_half_precision_are_told_by_the_descriptor(kind, k, type):
    assert work_of_products(kind, 128 << 20 | 64 << 14)[0] == {type: 3 * 2 * 128 * 64 * k}


def test_a_product_whose_descriptor_is_computed_has_an_unknown_shape():
    assert work_of_products("f16", 128 << 20, before="or.b32 %d, %d, %r1;") == ({}, 0)
