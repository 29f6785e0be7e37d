"""Launches of numba kernels become traces with the accesses that a derivation by hand finds; no GPU is needed."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.errors import ConfigError
from rdmodel.integrations import numba
from rdmodel.integrations.ptx_launch import PtxLaunch
from rdmodel.trace import Op

ADD = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry add(.param .f32 a, .param .u64 m, .param .u64 p, .param .u64 n, .param .u64 i, .param .u64 x,
                    .param .u64 d, .param .u64 s) {
  .reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .f32 %f<4>; .reg .pred %q<2>;
  ld.param.f32 %f1, [a]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [s]; ld.param.u64 %rd4, [d];
  mov.u32 %r1, %tid.x; cvt.u64.u32 %rd3, %r1; setp.ge.u64 %q1, %rd3, %rd4; @%q1 ret;
  mad.lo.s64 %rd3, %rd3, %rd2, %rd1;
  ld.global.f32 %f2, [%rd3]; add.f32 %f3, %f2, %f1; st.global.f32 [%rd3], %f3;
  ret;
}
"""
"""The form of a kernel ``x[tid] += a`` of numba: an array is seven parameters."""


def loads(trace) -> list[int]:
    lanes = np.repeat(trace.columns.op == Op.LOAD, np.diff(trace.columns.address_start))
    return trace.columns.addresses[lanes].tolist()


def test_an_array_becomes_its_structure():
    launch = PtxLaunch(ADD, "add")
    x = np.zeros((10, 3), np.float32)[:, 1]
    launch.add(*numba.flatten("a", 2.5, launch), *numba.flatten("x", x, launch))
    trace = launch.trace(1, 32)
    (array,) = trace.launch.arrays
    assert (array.name, array.bytes) == ("x", 9 * 12 + 4)
    assert loads(trace) == [array.base + 12 * n for n in range(10)]


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        (True, [1]),
        (np.int8(-3), [-3]),
        (1.5, [1.5]),
        (2 - 1j, [2.0, -1.0]),
        ((1, (2.0, np.True_)), [1, 2.0, 1]),
        (np.zeros((4, 6), np.int16)[::2], [0, 0, 12, 2, 1 << 28, 2, 6, 24, 2]),
    ],
)
def test_an_argument_is_flattened(value, numbers):
    assert list(numba.flatten("value", value, PtxLaunch(ADD, "add"))) == numbers


def test_parameters_that_do_not_fit_are_refused():
    launch = PtxLaunch(ADD, "add")
    launch.add(1.0, 2)
    with pytest.raises(ConfigError, match="add: has 8 parameters after compilation, but the arguments make 2"):
        launch.trace(1, 32)
    with pytest.raises(ConfigError, match="sub: the PTX has the kernels add"):
        PtxLaunch(ADD, "sub", "sub")


def kernel(a, x):
    x[0] = a


@pytest.mark.parametrize(
    ("function", "args", "options", "message"),
    [
        (3, (), {}, r"kernel=3: must be a function with @cuda\.jit"),
        (kernel, (1,), {}, "kernel: 1 arguments, but it has 2 parameters"),
        (kernel, (1, [2]), {}, r"x=\[2\]: must be a NumPy array, a number"),
        (kernel, (1, (1, "a")), {}, r"x\[1\]='a': must be a NumPy array"),
        (kernel, (1, np.zeros(2, "M8[s]")), {}, r"x: elements of type datetime64\[s\]: must be numbers"),
        (kernel, (1, np.zeros(2)), {"architecture": "80"}, "architecture='80': must be a target such as sm_80"),
    ],
)
def test_a_wrong_launch_says_what_is_wrong(function, args, options, message):
    with pytest.raises(ConfigError, match=message):
        numba.trace(function, 1, 32, *args, **options)


def test_a_kernel_of_numba_is_compiled_and_traced():
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit
    def row_sums(x, total, scale, limits):
        i = cuda.grid(1)
        if i < x.shape[0]:
            for j in range(limits[0], limits[1]):
                total[i] += scale * x[i, j]

    x, total = np.zeros((100, 9), np.float32)[:, :7], np.zeros(100)
    trace = numba.trace(row_sums, 4, 32, x, total, 2.0, (1, 3))
    base = trace.launch.arrays[0].base
    found = [address for address in loads(trace) if address < trace.launch.arrays[1].base]
    assert sorted(found) == [base + 36 * i + 4 * j for i in range(100) for j in (1, 2)]
    assert trace.launch.kernel == "row_sums"
    with pytest.raises(ConfigError, match="row_sums: numba cannot compile it for sm_80"):
        numba.trace(row_sums, 4, 32, x, total, 2.0, 3)
