"""Restrictions for Kernel Tuner, checked with Kernel Tuner where it is installed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rdmodel as rd
from rdmodel.errors import ConfigError
from rdmodel.integrations import kernel_tuner
from tests.support.rankings import SIX, SIZES, ranking
from tracegen import cuda
from tracegen.cuda import nvrtc


def test_restrictions_take_a_configuration_in_every_form():
    keep = kernel_tuner.restrictions(SIX, {"vector": [1, 2], "TJ": [32, 64], "TI": [8, 16, 32]}, top=2)
    good = {(32, 32), (16, 64), (16, 32)}
    for ti, tj, vector in itertools.product(SIZES["TI"], SIZES["TJ"], [1, 2]):
        config = {"vector": vector, "TJ": tj, "TI": ti}
        wanted = (ti, tj) in good
        assert keep(config) is keep(**config) is keep(vector, tj, ti) is wanted


def test_tiles_that_were_not_ranked_are_not_kept():
    assert kernel_tuner.restrictions(SIX, {"TI": [8, 4], "TJ": [32]})(4, 32) is False


def test_one_parameter_is_enough():
    keep = kernel_tuner.restrictions(ranking(({"T": 8}, 1.0), ({"T": 9}, 2.0)), {"T": [8, 9]}, top=1)
    assert [keep(8), keep(9), keep({"T": 8}), keep(T=9)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("tune_params", "named"),
    [
        ({"TI": [8], "Tj": [32]}, "tune_params: unknown size of a tile 'TJ'; did you mean 'Tj'"),
        ({"TI": [1], "TJ": [32]}, "cannot form any of the 6 selected tiles"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(tune_params, named):
    with pytest.raises(ConfigError, match=named):
        kernel_tuner.restrictions(SIX, tune_params)


def test_tiles_of_different_sizes_are_refused():
    with pytest.raises(ConfigError, match="tiles: one has TJ, the first TI: must be equal"):
        kernel_tuner.restrictions(ranking(({"TI": 1}, 1.0), ({"TJ": 1}, 2.0)), {"TI": [1], "TJ": [1]})


def searchspace(tune_params, restrictions, max_threads=1024, **options):
    """Return the configurations of Kernel Tuner's search space, and the space."""
    pytest.importorskip("kernel_tuner")
    from kernel_tuner.searchspace import Searchspace

    space = Searchspace(tune_params, restrictions, max_threads, **options)
    return {tuple(config) for config in space.list}, space


@pytest.mark.parametrize("framework", ["PythonConstraint", "bruteforce"])
@pytest.mark.parametrize("listed", [False, True])
def test_kernel_tuner_searches_the_tiles_that_are_kept(framework, listed):
    tune_params = {"vector": [1, 2], "TJ": [32, 64], "TI": [8, 16, 32]}
    keep = kernel_tuner.restrictions(SIX, tune_params, within=0.05)
    found, _ = searchspace(tune_params, [keep] if listed or framework == "bruteforce" else keep, framework=framework)
    assert found == {(vector, tj, ti) for vector in (1, 2) for ti, tj in ((32, 32), (16, 64), (16, 32))}


def test_kernel_tuner_takes_them_beside_other_restrictions_and_checks_configurations_by_them():
    pytest.importorskip("kernel_tuner")
    from kernel_tuner.util import check_restrictions

    tune_params = {"block_size_x": [32, 64], "block_size_y": [8, 16, 32]}
    blocks = ranking(*[({"block": [x, y]}, float(x * y)) for y in (8, 16, 32) for x in (32, 64)])
    keep = kernel_tuner.restrictions(blocks, tune_params)
    found, space = searchspace(tune_params, [keep, "block_size_y >= 16"], max_threads=1024)
    assert found == {(32, 16), (64, 16), (32, 32)}
    assert check_restrictions(space._modified_restrictions, {"block_size_x": 64, "block_size_y": 16}, False)
    assert not check_restrictions(space._modified_restrictions, {"block_size_x": 64, "block_size_y": 8}, False)
    assert check_restrictions(keep, {"block_size_x": 64, "block_size_y": 8}, False)


def test_kernel_tuner_takes_them_as_a_function_of_a_dict():
    keep = kernel_tuner.restrictions(SIX, SIZES, top=1)

    def one(config):
        return keep(config)

    found, _ = searchspace(SIZES, one)
    assert found == {(32, 32)}


needs_nvrtc = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

SCALE = """
__constant__ float factor[4];
__global__ void scale(int n, float *x) {
    for (int i = 0; i < ROWS; i++) {
        int at = (blockIdx.x * ROWS + i) * block_size_x + threadIdx.x;
        if (at < n) x[at] *= factor[i % 4] * kernel_tuner;
    }
}
"""
ARGUMENTS = [np.int32(5000), np.zeros(5000, np.float32)]


@needs_nvrtc
def test_the_program_of_a_tuning_run_has_its_launches_and_macros():
    tune_params = {"block_size_x": [32, 64], "ROWS": [1, 3]}
    made = kernel_tuner.program(
        "scale", SCALE, 5000, ARGUMENTS, tune_params,
        grid_div_x=["block_size_x", "ROWS"], cmem_args={"factor": np.ones(4, np.float32)},
    )  # fmt: skip
    for x, rows in itertools.product(*tune_params.values()):
        trace = made({"block_size_x": x, "ROWS": rows})
        by_hand = cuda.trace(
            SCALE, "scale", -(-5000 // (x * rows)), x, ARGUMENTS,
            defines={"block_size_x": x, "ROWS": rows, "kernel_tuner": 1}, variables={"factor": np.ones(4, np.float32)},
        )  # fmt: skip
        assert trace.launch == by_hand.launch
        np.testing.assert_array_equal(trace.columns.addresses, by_hand.columns.addresses)
    times = rd.rank_tiles(made, tune_params, "a4000", objective="time", top=1, n_jobs=1)
    keep = kernel_tuner.restrictions(times, tune_params, top=1)
    kept = [config for config in itertools.product(*tune_params.values()) if keep(*config)]
    assert kept == [tuple(tile.tile.values()) for tile in times.tiles if tile.rank == 1]


GRIDS = [
    (4096, {}, {"block_size_x": 32}),
    ((4096, 100), {}, {"block_size_x": 32, "block_size_y": 3}),
    ((4096, 100), {"grid_div_x": ["block_size_x", "tile"], "grid_div_y": []}, {"block_size_x": 32, "tile": 3}),
    (("tile * 1000", 7, 5), {"grid_div_z": "tile"}, {"block_size_y": 4, "tile": 3}),
    (1000, {"grid_div_x": [7, "tile"]}, {"tile": 2}),
    (1000, {"block_size_names": ["bx"]}, {"bx": 96}),
]


@pytest.mark.parametrize(("size", "options", "config"), GRIDS)
def test_grids_and_blocks_are_those_of_kernel_tuner(size, options, config):
    util = pytest.importorskip("kernel_tuner.util")
    names = [*options.get("block_size_names", []), "block_size_x", "block_size_y", "block_size_z"]
    names = names[:1] + names[-2:] if "block_size_names" in options else names
    divisors = [options.get(f"grid_div_{axis}") for axis in "xyz"]
    wanted = util.get_grid_dimensions(util.get_problem_size(size, config), config, divisors, names)
    made = kernel_tuner.program(
        "k", "void f() {}", size, [], {name: [value] for name, value in config.items()}, **options
    )
    grid, block, _ = made._shape(config)
    assert tuple(grid) == wanted
    assert tuple(block) == util.get_thread_block_dimensions(config, names)


WORDS = """
extern "C" __global__ void words(float *out) {
  __shared__ float tile[32 * 4];
  for (int i = 0; i < 4; i++) tile[4 * threadIdx.x + i] = out[threadIdx.x + 32 * i];
  out[threadIdx.x] = tile[4 * threadIdx.x] + tile[4 * threadIdx.x + 1] + tile[4 * threadIdx.x + 2];
}
"""


@needs_nvrtc
@pytest.mark.parametrize(
    ("options", "merged"),
    [({}, False), ({"lang": "CUDA"}, False), ({"lang": "cupy"}, True), ({"compiler_options": ["-rdc=false"]}, True)],
)
def test_code_is_relocatable_where_kernel_tuner_makes_it_so(options, merged):
    # Four words of an array that the assembler places are one store.
    made = kernel_tuner.program("words", WORDS, 32, [np.zeros(128, np.float32)], {"block_size_x": [32]}, **options)
    work = rd.time(made({"block_size_x": 32}), "a4000").work
    assert work.instructions["store_shared"] == (1 if merged else 4)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"lang": "HIP"}, "unknown lang 'HIP'; known: CUDA, CuPy, NVCUDA"),
        ({"problem_size": ()}, "problem_size=\\(\\): must be one to three expressions"),
        ({"grid_div_y": [len]}, "grid_div_y: .*: must be a whole number or an expression"),
        ({"grid": 3}, "grid: follows from the arguments of tune_kernel; leave it out"),
    ],
)
def test_a_mistake_in_a_tuning_run_is_named(changes, named):
    given = {"kernel_source": "void f() {}", "problem_size": 100, "arguments": [], "tune_params": {"T": [1]}}
    with pytest.raises(ConfigError, match=named):
        kernel_tuner.program("k", **{**given, **changes})
