"""CUDA programs with free tile sizes: their codes, their macros and their conditions."""

from __future__ import annotations

import pytest

import rdmodel as rd
from tracegen import cuda
from tracegen.cuda import nvrtc

needs_compiler = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
FILL = "__global__ void fill(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = V; }"


@needs_compiler
def test_each_distinct_code_is_compiled_once(tmp_path, monkeypatch):
    monkeypatch.setenv("RDMODEL_CACHE", str(tmp_path))
    program = cuda.TiledProgram(
        source=FILL,
        kernel="fill",
        grid="1024 // B",
        block="B",
        args=["float[1024]"],
    )
    tiles = [{"V": v, "B": b} for v in (1, 2) for b in (32, 64, 128)]
    seen = []
    assert program.compile(tiles, n_jobs=2, progress=lambda done, of: seen.append((done, of))) == 2, "B is no macro"
    assert (seen[0], seen[-1]) == ((0, 2), (2, 2))
    monkeypatch.setattr(nvrtc.Nvrtc, "compile_apart", lambda *_a, **_k: pytest.fail("is compiled already"))
    assert [program(tile).launch.blocks for tile in tiles] == [32, 16, 8, 32, 16, 8]


@needs_compiler
def test_macros_that_own_headers_may_use_are_all_defined(tmp_path):
    (tmp_path / "size.h").write_text("#define COUNT (2 * HIDDEN)\n")
    (tmp_path / "fill.cu").write_text(
        '#include "size.h"\n'
        "__global__ void fill(float* x) { for (int i = 0; i < COUNT; i++) x[i * 32 + threadIdx.x] = 0; }"
    )
    program = cuda.TiledProgram(
        source=tmp_path / "fill.cu", kernel=None, grid=1, block=32, args=["float[4096]"], includes=[tmp_path]
    )
    assert [len(program({"HIDDEN": hidden})) for hidden in (1, 3)] == [2, 6]


def test_conditions_know_tile_sizes_and_arguments_that_are_whole_numbers():
    program = cuda.TiledProgram(
        source=FILL,
        kernel=None,
        grid=1,
        block=32,
        args={"n": "64", "m": 8, "x": "float[64]"},
        where=["A * B <= n", "m % A == 0"],
    )
    assert [program.allows({"A": a, "B": 16}) for a in (2, 3, 4, 8)] == [True, False, True, False]
    with pytest.raises(rd.TraceError, match="unknown name 'B'"):
        program.allows({"A": 2})


@pytest.mark.parametrize("shape", [(), (1, 1, 1, 1)])
def test_a_shape_has_one_to_three_dimensions(shape):
    with pytest.raises(rd.ConfigError, match=r"grid=\(.*must be one to three expressions \(x, y, z\)"):
        cuda.TiledProgram(source=FILL, kernel=None, grid=shape, block=32, args=[])
