"""Raw kernels of CuPy are traced from their sources, without CuPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from rdmodel.errors import ConfigError
from rdmodel.integrations import cupy

PTX = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry twice(.param .u64 x, .param .u32 n) {
  .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [x]; ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, %r2; @%p1 ret;
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r3, [%rd3]; add.u32 %r3, %r3, %r3; st.global.u32 [%rd3], %r3;
  ret;
}
"""


@pytest.mark.parametrize("kind", [cupy.RawKernel, SimpleNamespace])
def test_a_raw_kernel_is_traced(kind):
    x = np.arange(64, dtype=np.int32)
    trace = cupy.trace(kind(code=PTX, name="twice", options=()), (2,), (64,), (x, np.int32(50)))
    assert len(trace) == 2 * 2 * 2
    assert (trace.columns.mask == (1 << 18) - 1).sum() == 4
    assert x.tolist() == list(range(64))


def test_a_kernel_without_source_is_refused():
    with pytest.raises(ConfigError, match="must have the source text as code"):
        cupy.trace(SimpleNamespace(name="twice"), 1, 32, ())
