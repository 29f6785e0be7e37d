"""Test the launches of PolyBench/GPU's kernels: grids, arrays, sizes and parameters."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

import tracegen
from rdmodel.errors import ConfigError, LaunchError, TraceError
from tests.support.scalar_polybench import ROWS
from tracegen.kernel_library.suites import POLYBENCH


@pytest.mark.parametrize("name", ROWS)
def test_the_grid_covers_every_thread_that_has_something_to_do(name):
    scalar, sizes = ROWS[name]
    launch = tracegen.kernel(name, **sizes).launch
    width, height = (launch.grid[d] * launch.block[d] for d in (0, 1))
    assert not list(scalar(width, 0, **sizes))
    if name != "covar.reduce":  # the suite's own grid leaves rows out
        assert not list(scalar(0 if name != "fdtd2d.2" else 1, height, **sizes)) or height == 1


def test_covar_reduce_covers_a_quarter_of_the_rows_as_the_suite_does():
    launch = tracegen.kernel("covar.reduce").launch
    assert (launch.grid, launch.block) == ((64, 64, 1), (32, 8, 1))


def test_the_suite_has_thirty_kernels_described_in_a_line_each():
    specs = [spec for spec in tracegen.kernels() if spec.name in POLYBENCH]
    assert sorted(spec.name for spec in specs) == sorted(ROWS)
    assert len(specs) == 30
    assert all(spec.description and "\n" not in spec.description for spec in specs)
    assert {spec.block for spec in specs} == {(256, 1, 1), (32, 8, 1)}


@pytest.mark.parametrize(
    ("name", "grid"),
    [("atax.1", (16, 1, 1)), ("2dconv", (128, 512, 1)), ("gramschmidt.1", (1, 1, 1)), ("3mm.2", (16, 64, 1))],
)
def test_default_sizes_give_the_grids_of_the_suite(name, grid):
    assert tracegen.kernel(name).launch.grid == grid


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("atax.2", "tmp A x y"),
        ("bicg.2", "s r A q p"),
        ("3mm.3", "A B E C D F G"),
        ("2mm.1", "tmp A B D C"),
        ("corr.corr", "mean data std symmat"),
        ("fdtd2d.3", "fict ey hz ex"),
        ("mvt.2", "x1 a y1 x2 y2"),
    ],
)
def test_kernels_of_a_benchmark_share_their_arrays_in_order_of_first_naming(name, order):
    arrays = tracegen.kernel(name, base=512).launch.arrays
    assert [a.name for a in arrays] == order.split()
    assert arrays[0].base == 512
    for before, after in pairwise(arrays):
        assert after.base == -(-(before.base + before.bytes) // 256) * 256


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tracegen.kernel("atax1"), ConfigError, "unknown kernel 'atax1'; did you mean 'atax.1'"),
        (
            lambda: tracegen.kernel("atax.1", NZ=4),
            ConfigError,
            "unknown size of atax.1 'NZ'; did you mean 'N",
        ),
        (lambda: tracegen.kernel("atax.1", NX=0), ConfigError, "atax.1: NX=0: must be at least 1"),
        (lambda: tracegen.kernel("atax.1", NX=1.5), ConfigError, "atax.1: NX=1.5: must be a whole number"),
        (lambda: tracegen.kernel("atax.1", NX=True), ConfigError, "NX=True: must be a whole number"),
        (lambda: tracegen.kernel("3dconv", I=256), ConfigError, "3dconv: I=256: must be 0 to 255"),
        (lambda: tracegen.kernel("gramschmidt.3", K=-1), ConfigError, "K=-1: must be 0 to 2047"),
        (lambda: tracegen.kernel("fdtd2d.1", T=500), ConfigError, "T=500: must be 0 to 499"),
        (lambda: tracegen.kernel("atax.1", block=(2048,)), LaunchError, "2048 threads, at most 1024 fit"),
        (lambda: tracegen.kernel("atax.1", block=(32, 0)), LaunchError, "must be one to three numbers of at least 1"),
        (lambda: tracegen.kernel("atax.1", base=100), ConfigError, "base=100: must be a multiple of 256"),
        (lambda: tracegen.kernel("atax.1", blocks=[99]), TraceError, "below 16"),
        (lambda: tracegen.kernel("atax.1", blocks=[1]).block(0), TraceError, "it holds 1 of 16 blocks"),
        (lambda: tracegen.kernel("atax.1", NX=1 << 30, NY=1 << 40), ConfigError, "end beyond address 2^63"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(call, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_parameters_are_kept_with_the_trace():
    trace = tracegen.kernel("atax.1", NX=64)
    assert trace.params == {"NX": 64, "NY": 4096}
    assert "NX=64" in repr(trace)
    assert list(tracegen.kernel("atax.1", blocks=[2, 5]).blocks) == [2, 5]
