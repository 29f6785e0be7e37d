"""Launches of Warp kernels become traces with the accesses that a derivation by hand finds; no GPU is needed."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rdmodel.errors import ConfigError
from rdmodel.integrations import warp
from rdmodel.trace import Op


@pytest.mark.parametrize(
    ("shape", "bounds"),
    [((5,), struct.pack("<IIQQ", 5, 0, 5, 1)), ((2, 3, 4), struct.pack("<IIIIQQ", 2, 3, 4, 0, 24, 1))],
)
def test_the_shape_of_a_launch_is_a_structure(shape, bounds):
    assert warp.pack_bounds(shape) == bounds


def test_an_array_is_a_structure_with_strides_in_bytes():
    packed = warp.pack_array(4096, (3, 5), (20, 4))
    assert packed == struct.pack("<QQ", 4096, 0) + struct.pack("<8i", 3, 5, 0, 0, 20, 4, 0, 0) + struct.pack(
        "<HHI", 2, 0, 0
    )


@pytest.mark.parametrize(
    ("kernel", "dim", "message"),
    [
        (3, 4, r"kernel=3: must be a function with @wp\.kernel"),
        (3, (), r"dim=\(\): must be one to four whole numbers"),
        (3, (2, 0), r"dim=\(2, 0\): must be one to four whole numbers of at least 1"),
    ],
)
def test_a_wrong_launch_says_what_is_wrong(kernel, dim, message):
    with pytest.raises(ConfigError, match=message):
        warp.trace(kernel, dim)


def test_a_kernel_of_warp_is_compiled_and_traced(tmp_path):
    pytest.importorskip("warp")
    from tests.support.warp_kernels import shift

    field, speed = np.zeros((10, 64), np.float32), np.zeros((10, 3), np.float32)
    trace = warp.trace(shift, (10, 64), [2.0, field, speed, (1.0, 2.0, 3.0)], block_dim=128)
    assert (trace.launch.kernel, trace.launch.grid, trace.launch.block) == ("shift", (5, 1, 1), (128, 1, 1))
    first, second = trace.launch.arrays[:2]
    lanes = np.repeat(trace.columns.op == Op.LOAD, np.diff(trace.columns.address_start))
    loaded = trace.columns.addresses[lanes]
    assert sorted(loaded[loaded < second.base]) == [first.base + 4 * n for n in range(640)]
    assert set(loaded[loaded >= second.base].tolist()) == {second.base + 12 * i + 4 for i in range(10)}
    for wrong, message in (
        ([2.0, field, speed], "shift: 3 arguments, but it has 4 parameters"),
        ([2.0, field[0], speed, (1, 2, 3)], r"field: has the shape \(64,\), must have 2 dimensions"),
        ([2.0, field, field, (1, 2, 3)], r"speed: has the shape .* 1 dimensions and components \(3,\)"),
        (["a", field, speed, (1, 2, 3)], "a='a': must be a number"),
        ([2.0, field, speed, "abc"], "gravity='abc': must be a"),
    ):
        with pytest.raises(ConfigError, match=message):
            warp.trace(shift, (10, 64), wrong)
