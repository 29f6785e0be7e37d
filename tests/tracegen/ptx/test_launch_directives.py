"""Directives of kernels that restrict their launches: obeyed, with errors that name the shape and the directive."""

from __future__ import annotations

import json

import pytest

from rdmodel.errors import LaunchError, TraceError
from tests.support.ptx_kernels import HEAD, module_of
from tracegen import cuda
from tracegen.cuda import nvrtc
from tracegen.ptx.emulator.emulated_launch import LoadedModule


def launch(directives, grid, block):
    return LoadedModule(module_of(f".entry k() {directives} {{ ret; }}")).launch("k", grid, block, []).launch


@pytest.mark.parametrize(
    ("directives", "grid", "block"),
    [
        (".reqntid 128", 3, 128),
        (".reqntid 8, 4", 3, (8, 4)),
        (".reqntid 8, 4, 2", 3, (8, 4, 2)),
        (".maxntid 128", 3, 128),
        (".maxntid 128, 1, 1", 3, (8, 8, 2)),
        (".maxntid 16, 16", 3, 256),
        (".maxntid 256 .minnctapersm 4 .maxnreg 32", 3, 100),
        (".reqnctapercluster 2, 3", (4, 9, 7), 32),
        (".explicitcluster .maxclusterrank 8", 3, 32),
    ],
)
def test_a_launch_that_follows_its_directives_is_accepted(directives, grid, block):
    launch(directives, grid, block)


@pytest.mark.parametrize(
    ("directives", "grid", "block", "message"),
    [
        (".reqntid 128", 3, 256, "block=256x1x1: k has .reqntid 128x1x1, which requires exactly this block: change"),
        (".reqntid 128", 3, 64, "block=64x1x1: k has .reqntid 128x1x1"),
        (".reqntid 8, 4", 3, 32, "block=32x1x1: k has .reqntid 8x4x1"),
        (".maxntid 128", 3, 256, "block=256x1x1: 256 threads, but k has .maxntid 128x1x1, at most 128 threads"),
        (".maxntid 16, 4 .minnctapersm 2", 3, (16, 5), "block=16x5x1: 80 threads, but k has .maxntid 16x4x1"),
        (".reqnctapercluster 2", 3, 32, "grid=3x1x1: k has clusters of 2x1x1 blocks: must be a multiple"),
    ],
)
def test_a_launch_that_contradicts_a_directive_is_refused(directives, grid, block, message):
    with pytest.raises(LaunchError) as error:
        launch(directives, grid, block)
    assert str(error.value).startswith(message)


def test_a_launch_without_a_block_takes_the_one_that_its_kernel_requires():
    assert launch(".reqntid 8, 4", 3, None).block == (8, 4, 1)
    with pytest.raises(LaunchError, match=r"block: is missing; give one .*: k requires none"):
        launch(".maxntid 128", 3, None)


def test_commands_and_launch_files_need_no_block_that_the_kernel_requires(run, tmp_path):
    for name, directive in (("k", ".reqntid 64"), ("free", "")):
        (tmp_path / f"{name}.ptx").write_text(f"{HEAD}.visible .entry k() {directive} {{ ret; }}")
        (tmp_path / f"{name}.toml").write_text(f'source = "{name}.ptx"\ngrid = 2\n')
    for options in ([str(tmp_path / "k.ptx"), "--grid", "2"], [str(tmp_path / "k.toml")]):
        assert json.loads(run("info", *options, "--json")[1])["block"] == [64, 1, 1]
    for options in ([str(tmp_path / "free.ptx"), "--grid", "2"], [str(tmp_path / "free.toml")]):
        status, _, err = run("info", *options)
        assert (status, "block: is missing" in err) == (2, True)


@pytest.mark.parametrize("text", ["", "0", "8,", "-1", "1, 2, 3, 4", "N", "8 .reqntid 8", "99999999999999999999"])
def test_a_directive_without_sizes_is_refused_with_its_line(text):
    with pytest.raises(TraceError, match=r"k: PTX line 4: \.reqntid .*: must be one to three sizes of at least 1"):
        launch(f".reqntid {text}", 1, 32)


@pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
def test_the_launch_bounds_of_a_source_are_obeyed():
    source = "__global__ void __launch_bounds__(128, 2) k(float *x) { x[threadIdx.x] = 1; }"
    assert len(cuda.trace(source, "k", 1, 128, ["float[128]"])) == 4
    with pytest.raises(LaunchError, match=r"\.maxntid 128x1x1, at most 128 threads \(__launch_bounds__\)"):
        cuda.trace(source, "k", 1, 256, ["float[256]"])
