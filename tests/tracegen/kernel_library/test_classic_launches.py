"""Test the launches of the kernels of the CUDA SDK, Rodinia and Parboil: defaults, blocks, sizes, shared memory."""

from __future__ import annotations

import re
from math import ceil

import pytest

import tracegen
from rdmodel.errors import ConfigError, LaunchError
from tests.support.scalar_classic_kernels import BARRIER, CASES, KERNELS, L, threads
from tracegen.kernel_library.suites import CLASSIC

DEFAULTS = {
    "blackscholes": ((480, 1), (128, 1), 0, 80_000_000, "StockPrice", 0, 4),
    "scalarprod": ((128, 1), (256, 1), 4096, 2 * 4 * 256 * 4096 + 4 * 256, "A", 0, 4),
    "vectoradd": ((196, 1), (256, 1), 0, 600_000, "A", 0, 4),
    "fwt.1": ((4096, 1), (512, 1), 8192, 4 << 23, "data", 0, 4),
    "fwt.2": ((8192, 1), (256, 1), 0, 4 << 23, "data", 0, 4),
    "convsep.rows": ((24, 768), (16, 4), 2560, 3 * 4 * 3072**2, "Input", 0, 4),
    "convsep.columns": ((192, 48), (16, 8), 5184, 3 * 4 * 3072**2, "Buffer", 0, 4),
    "mcpi": ((195, 1), (128, 1), 512, 800_780, "points", 0, 4),
    "nw.1": ((128, 1), (16, 1), 2180, 2 * 4 * 2049**2, "matrix", 16_654_272, None),
    "nw.2": ((127, 1), (16, 1), 2180, 2 * 4 * 2049**2, "matrix", 16_654_336, None),
    "hotspot": ((43, 43), (16, 16), 3072, 3 << 20, "temp_src", 0, 4),
    "srad.1": ((64, 64), (16, 16), 6144, 24 << 20, "J", 0, 4),
    "srad.2": ((64, 64), (16, 16), 5120, 24 << 20, "J", 0, 4),
    "streamcluster": ((128, 1), (512, 1), 0, 72_417_324, "coord", 0, 4),
    "backprop.1": ((1, 4096), (16, 16), 1088, 9_437_460, "input", 4, 4),
    "backprop.2": ((1, 4096), (16, 16), 0, 9_437_460, "hidden_delta", 4, 4),
    "kmeans.invert": ((800, 1), (256, 1), 0, 56_525_480, "feature_flipped", 0, 136),
    "kmeans.row": ((800, 1), (256, 1), 0, 56_525_480, "feature_flipped", 0, 136),
    "kmeans.col": ((800, 1), (256, 1), 0, 56_525_480, "feature", 0, 4),
    "stencil3d": ((510, 62), (511, 1), 0, 128 << 20, "A0", 2_099_204, 4),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_default_launch_footprint_and_first_addresses(name):
    grid, block, shared_memory, footprint, array, first, step = DEFAULTS[name]
    trace = tracegen.kernel(name, blocks=[0])
    launch = trace.launch
    assert (launch.grid, launch.block) == ((*grid, 1), (*block, 1))
    assert launch.shared_memory == shared_memory
    assert sum(a.bytes for a in launch.arrays) == footprint
    base = next(a.base for a in launch.arrays if a.name == array)
    c = trace.columns
    row = c.op.tolist().index(L)
    addresses = c.addresses[c.address_start[row] : c.address_start[row + 1]].tolist()
    assert addresses[0] - base == first
    assert (addresses[1] - addresses[0] if len(addresses) > 1 else None) == step


def test_the_kernels_are_listed_and_described_in_a_line_each():
    specs = {spec.name: spec for spec in tracegen.kernels()}
    assert set(DEFAULTS) == set(KERNELS) == set(CLASSIC) <= set(specs)
    for name, (_, block, *_) in DEFAULTS.items():
        assert "->" in specs[name].description
        assert specs[name].block == (*block, 1)


@pytest.mark.parametrize("name", CLASSIC)
def test_the_sizes_of_the_suite_are_possible_and_give_every_sm_of_a_gpu_blocks(name):
    assert tracegen.kernel(name, **CLASSIC[name]).launch.blocks >= 32


def test_kernels_that_hand_values_over_in_shared_memory_say_how_much_they_take():
    for name, scalar, sizes in CASES:
        launch = tracegen.kernel(name, **sizes).launch
        passes_barriers = BARRIER in scalar(next(t for _, t in threads(launch)), **sizes)
        assert (launch.shared_memory > 0) == (passes_barriers and name != "backprop.2")


def test_tile_sizes_give_the_block():
    assert tracegen.kernel("nw.1", BLOCK_SIZE=32).launch.block == (32, 1, 1)
    assert tracegen.kernel("srad.1", BLOCK_SIZE=8).launch.block == (8, 8, 1)
    assert tracegen.kernel("convsep.columns", BLOCKDIM_X=32).launch.block == (32, 8, 1)
    assert tracegen.kernel("fwt.1", LOG2N=22).launch.block == (256, 1, 1)
    assert tracegen.kernel("stencil3d", NX=128).launch.block == (127, 1, 1)
    assert tracegen.kernel("hotspot", block=(16, 16)).launch.block == (16, 16, 1)
    assert tracegen.kernel("mcpi", block=(256,)).launch.shared_memory == 1024


def test_195_blocks_are_what_the_estimate_of_pi_halves_its_grid_to_on_15_sms():
    blocks = ceil(100_000 / 128)
    while blocks > 2 * 10 * 15:
        blocks //= 2
    assert tracegen.kernel("mcpi").launch.grid == (blocks, 1, 1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tracegen.kernel("nw.1", N=100), ConfigError, "nw.1: N=100: must be a multiple of 16"),
        (lambda: tracegen.kernel("nw.1", N=64, DIAGONAL=4), ConfigError, "DIAGONAL=4: must be 0 to 3"),
        (lambda: tracegen.kernel("nw.2", N=64, DIAGONAL=3), ConfigError, "DIAGONAL=3: must be 0 to 2"),
        (lambda: tracegen.kernel("nw.2", N=16), ConfigError, "nw.2: DIAGONAL=0: these sizes allow no value"),
        (lambda: tracegen.kernel("nw.1", BLOCK_SIZE=0), ConfigError, "nw.1: BLOCK_SIZE=0: must be at least 1"),
        (
            lambda: tracegen.kernel("nw.1", block=(32,)),
            LaunchError,
            "nw.1: block=(32, 1, 1): must be (16, 1, 1)",
        ),
        (lambda: tracegen.kernel("srad.1", ROWS=24), ConfigError, "srad.1: ROWS=24: must be a multiple of 16"),
        (lambda: tracegen.kernel("srad.1", BLOCK_SIZE=64), LaunchError, "4096 threads, at most 1024 fit"),
        (lambda: tracegen.kernel("hotspot", PYRAMID_HEIGHT=8), ConfigError, "PYRAMID_HEIGHT=8: must be 1 to 7"),
        (lambda: tracegen.kernel("hotspot", PYRAMID_HEIGHT=0), ConfigError, "PYRAMID_HEIGHT=0: must be 1 to 7"),
        (lambda: tracegen.kernel("convsep.rows", W=64), ConfigError, "W=64: must be a multiple of 128"),
        (lambda: tracegen.kernel("convsep.columns", H=32), ConfigError, "H=32: must be a multiple of 64"),
        (lambda: tracegen.kernel("fwt.1", STAGE=0), ConfigError, "unknown size of fwt.1 'STAGE'"),
        (lambda: tracegen.kernel("fwt.2", STAGE=6), ConfigError, "fwt.2: STAGE=6: must be 0 to 5"),
        (lambda: tracegen.kernel("fwt.2", LOG2N=11), ConfigError, "STAGE=0: these sizes allow no value"),
        (lambda: tracegen.kernel("streamcluster", X=65536), ConfigError, "X=65536: must be 0 to 65535"),
        (lambda: tracegen.kernel("backprop.1", IN=8), ConfigError, "IN=8: must be a multiple of 16"),
        (lambda: tracegen.kernel("stencil3d", NX=2048), LaunchError, "2047 threads, at most 1024 fit"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(call, error, message):
    with pytest.raises(error, match=re.escape(message)) as caught:
        call()
    assert "\n" not in str(caught.value)
