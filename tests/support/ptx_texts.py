"""Provide PTX kernels as text."""

SAXPY = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y) {
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<8>;
  ld.param.u32 %r1, [n];
  ld.param.f32 %f1, [a];
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra $done;
  mul.wide.s32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f2, [%rd4];
  ld.global.f32 %f3, [%rd5];
  fma.rn.f32 %f4, %f1, %f2, %f3;
  st.global.f32 [%rd5], %f4;
$done:
  ret;
}
"""

GATHER = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x)
{
    .reg .b32 %r<4>;
    .reg .b64 %a<4>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %a1, [x];
    mul.wide.u32 %a2, %r1, 4;
    add.s64 %a2, %a1, %a2;
    ld.global.u32 %r2, [%a2];
    and.b32 %r2, %r2, 31;
    mul.wide.u32 %a3, %r2, 128;
    add.s64 %a3, %a1, %a3;
    ld.global.u32 %r3, [%a3];
    st.global.u32 [%a2], %r1;
    ret;
}
"""
