"""CUDA and PTX files on the command line: how a kernel is named, launched and refused."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.support.commands import ARGUMENTS, SHAPE
from tests.support.presets import FERMI
from tests.support.ptx_texts import SAXPY
from tracegen.cuda import nvrtc


@pytest.fixture
def saxpy(tmp_path):
    path = tmp_path / "saxpy.ptx"
    path.write_text(SAXPY)
    return str(path)


def test_a_ptx_kernel_is_predicted_from_one_command(run, saxpy):
    status, out, err = run("predict", saxpy, *SHAPE, *ARGUMENTS, "--sms", "1", "--gpu", FERMI, "--json")
    assert (status, err) == (0, "")
    plain = json.loads(out)
    # 31 full warps and one of 8 lanes, two loads each, one line each: nothing is used twice.
    assert plain["kernel"] == "saxpy"
    assert (plain["transactions"], plain["misses"]["compulsory"]) == (64, 64)


def test_trace_and_info_take_programs_and_only_the_blocks_that_are_modelled(run, saxpy, tmp_path):
    out = str(tmp_path / "t")
    assert run("trace", saxpy, *SHAPE, *ARGUMENTS, "--sms", "2", "-o", out)[0] == 0
    plain = json.loads(run("info", out, "--json")[1])
    assert plain["blocks_held"] == 2
    assert [array["name"] for array in plain["arrays"]] == ["x", "y"]
    assert run("info", saxpy, *SHAPE, *ARGUMENTS)[0] == 0


def test_the_launches_of_a_file_follow_one_another(run, saxpy, tmp_path):
    launch = "grid = 4\nargs = { a = 2.0 }\n"
    file = tmp_path / "two.toml"
    file.write_text(
        'source = "saxpy.ptx"\nblock = 256\nargs = { n = 1000, x = "float[1000]:iota", y = "float[1000]" }\n'
        f"[[launch]]\n{launch}[[launch]]\n{launch}"
    )
    both = json.loads(run("predict", str(file), "--json")[1])
    assert [p["kernel"] for p in both] == ["saxpy", "saxpy"]
    assert json.loads(run("predict", str(file), "--launch", "2", "--json")[1])["transactions"] > 0
    status, _, err = run("info", str(file))
    assert (status, "--launch N picks one" in err) == (2, True)
    status, _, err = run("predict", str(file), "--launch", "3")
    assert (status, "launches 1 to 2" in err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ARGUMENTS, "--grid: is missing"),
        (["--grid", "4", *ARGUMENTS], "block: is missing; give one (--block X,Y,Z)"),
        ([*SHAPE, *ARGUMENTS[:-2]], "y"),
        ([*SHAPE, *ARGUMENTS, "--arg", "z=1"], "'z'"),
        ([*SHAPE, *ARGUMENTS[2:], "--arg", "n=many"], "n='many'"),
        ([*SHAPE, *ARGUMENTS[:-2], "--arg", "y=float[10]"], "y"),
        ([*SHAPE, *ARGUMENTS, "--kernel", "saxpi"], "did you mean 'saxpy'"),
        ([*SHAPE, *ARGUMENTS, "--param", "N=3"], "--param"),
        (["--grid", "4", "--block", "2048", *ARGUMENTS], "1024"),
        ([*SHAPE, *ARGUMENTS, "--max-instructions", "5"], "max_instructions=5"),
        ([*SHAPE, *ARGUMENTS, "--arg", "n=5"], "--arg n: is given twice; give it one value"),
    ],
)
def test_a_mistake_gives_status_2_and_one_clear_line(run, saxpy, options, message):
    status, out, err = run("predict", saxpy, *options)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_an_access_outside_every_array_is_named(run, saxpy):
    _, _, err = run("predict", saxpy, *SHAPE, *ARGUMENTS[:-2], "--arg", "y=float[10]")
    for part in ("saxpy", "PTX line 24", "thread (10, 0, 0)", "end of y"):
        assert part in err


def test_what_cannot_be_executed_is_named_with_its_line(run, tmp_path):
    path = tmp_path / "odd.ptx"
    path.write_text(SAXPY.replace("mul.wide.s32 %rd3, %r5, 4;", "frobnicate.s32 %rd3, %r5, 4;"))
    status, _, err = run("predict", str(path), *SHAPE, *ARGUMENTS)
    assert status == 2
    assert "frobnicate" in err
    assert "PTX line 20" in err


@pytest.mark.parametrize(("name", "what"), [("atax.1", "kernel that comes with rdmodel"), ("t", "recorded trace")])
def test_options_of_programs_are_refused_elsewhere(run, tmp_path, monkeypatch, name, what):
    monkeypatch.chdir(tmp_path)
    run("trace", "atax.1", "--param", "NX=64", "--param", "NY=4", "--block", "32", "-o", "t")
    status, _, err = run("predict", name, "--arg", "n=3")
    assert status == 2
    assert f"--arg: {name} is a {what}" in err


class TestCudaSource:
    """The same from CUDA C++; needs the compiler of the extra ``cuda``."""

    @pytest.fixture(autouse=True)
    def _needs_a_compiler(self):
        pytest.importorskip("nvidia", reason="NVRTC is not installed")

    def test_a_whole_program_with_its_host_code_is_predicted(self, run, tmp_path):
        path = tmp_path / "vec.cu"
        path.write_text(
            "#include <cuda_runtime.h>\n#include <stdio.h>\n"
            "__global__ void saxpy(int n, float a, const float *x, float *y) {\n"
            "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = a * x[i] + y[i];\n}\n"
            'int main() { saxpy<<<4, 256>>>(0, 1.f, 0, 0); printf("done\\n"); return 0; }\n'
        )
        options = ("--sms", "1", "--gpu", FERMI, "--json")
        status, out, _ = run("predict", str(path), "--kernel", "saxpy", *SHAPE, *ARGUMENTS, *options)
        assert status == 0
        assert json.loads(out)["misses"]["compulsory"] == 64

    def test_compile_errors_are_shown_as_the_compiler_wrote_them(self, run, tmp_path):
        path = tmp_path / "bad.cu"
        path.write_text("__global__ void k(int *x) { x[0] = yy; }\n")
        status, out, err = run("predict", str(path), "--grid", "1", "--block", "32", "--arg", "x=int[1]")
        assert (status, out) == (2, "")
        assert '"yy" is undefined' in err
        assert "Traceback" not in err


def test_options_of_nvcc_are_taken_as_users_write_them(run, saxpy):
    text = "-O3 -maxrregcount=32 -arch=sm_80 -std=c++17 --use_fast_math -lineinfo -Xcompiler -Wall -lcublas"
    options = text.split()
    plain = run("predict", saxpy, *SHAPE, *ARGUMENTS, "--sms", "1", "--json")[1]
    status, out, err = run("predict", saxpy, *options, *SHAPE, *ARGUMENTS, "--sms", "1", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["misses"] == json.loads(plain)["misses"]
    status, out, err = run("predict", saxpy, *SHAPE, *ARGUMENTS, "-Xptxas", "-dlcm=cg", "--sms", "1", "--json")
    assert (status, err, json.loads(out)["config"]["gpu"]["l1"]["dlcm"]) == (0, "", "cg")
    status, _, err = run("predict", saxpy, *SHAPE, *ARGUMENTS, "--griid", "4")
    assert (status, "unknown argument '--griid'" in err) == (2, True)


VERSIONS = """
__global__ void versions(volatile float *y) {
    y[threadIdx.x] = 1;
#if __CUDA_ARCH__ >= 800
    y[threadIdx.x + 32] = 1;
#endif
#if __CUDA_ARCH__ >= 900
    y[threadIdx.x + 64] = 1;
#endif
}
"""


@pytest.fixture
def versions(tmp_path):
    """Return a program with one store for a GPU before Ampere, two for later ones, and three since Hopper."""
    path = tmp_path / "versions.cu"
    path.write_text(VERSIONS)
    return path


@pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
@pytest.mark.parametrize(
    ("options", "stores"),
    [
        (("--gpu", "v100"), 1),
        (("--gpu", "rtx4090"), 2),
        (("--gpu", "h100-sxm"), 3),
        ((), 2),  # an A100
        (("--gpu", "h100-sxm", "-arch=sm_80"), 2),
        (("--gpu", "h100-sxm", "--architecture", "compute_75"), 1),
    ],
)
def test_a_program_is_compiled_for_the_gpu_unless_options_name_an_architecture(run, versions, options, stores):
    launch = ("--grid", "1", "--block", "32", "--arg", "y=float[96]")
    assert json.loads(run("predict", str(versions), *launch, *options, "--json")[1])["stores"]["requests"] == stores
    file = versions.with_name("one.toml")
    named = [option for option in options if option.startswith(("-arch", "compute"))]
    asked = "".join(f'options = ["{o}"]\n' if o.startswith("-") else f'architecture = "{o}"\n' for o in named)
    shape = 'args = { y = "float[96]" }\n[[launch]]\ngrid = 1\nblock = 32\n'
    file.write_text(f'source = "versions.cu"\n{asked}{shape}')
    gpu = [option for option in options if option in ("--gpu", "v100", "rtx4090", "h100-sxm")]
    assert json.loads(run("predict", str(file), *gpu, "--json")[1])["stores"]["requests"] == stores


@pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
def test_of_several_gpus_the_oldest_counts(run, versions):
    launch = ("--grid", "1", "--block", "32", "--arg", "y=float[96]", "--csv", "--no-cache")
    for gpus in (("--gpu", "h100-sxm,rtx4090"), ("--vary", "gpu=h100-sxm,rtx4090")):
        status, out, _ = run("sweep", str(versions), *launch, *gpus)
        assert status == 0
        rows = list(csv.DictReader(io.StringIO(out)))
        assert [row["gpu"] for row in rows] == ["h100-sxm", "rtx4090"]
        assert {row["stores_requests"] for row in rows} == {"2"}
