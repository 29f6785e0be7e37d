"""Test the compilation of CUDA C++ to PTX: options, host code, templates, and messages of the compiler."""

from __future__ import annotations

import re

import pytest

from rdmodel.errors import ConfigError, TraceError
from tests.support.sanitizers import not_sanitized
from tracegen.cuda import compiler, headers, nvrtc, sources
from tracegen.cuda.compiler import CompileError, compile, compile_program
from tracegen.cuda.nvcc import installed_nvcc
from tracegen.cuda.source import read_source

SCALE = """
template <typename T, int N> __global__ void scale(T *x, T a) {
  if (threadIdx.x < N) x[threadIdx.x] *= a;
}
__global__ void plain(float *data, int n) { if (threadIdx.x < n) data[threadIdx.x] = 1; }
int main() { scale<float, 8><<<1, 32>>>(nullptr, 2.0f); return 0; }
"""

need_nvrtc = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
COMPILERS = [
    pytest.param("nvrtc", marks=need_nvrtc),
    pytest.param(
        "nvcc",
        marks=[pytest.mark.skipif(installed_nvcc() is None, reason="needs nvcc"), not_sanitized],
    ),
]
each_compiler = pytest.mark.parametrize("which", COMPILERS)


def kernels(ptx):
    return re.findall(r"\.entry (\w+)", ptx)


@each_compiler
def test_a_program_with_host_code_gives_its_kernels(which):
    ptx = compile(SCALE, compiler=which)
    assert "_Z5plainPfi" in kernels(ptx)
    assert ".target sm_75" in ptx


@each_compiler
def test_a_template_is_made_for_the_arguments_asked_for(which):
    program = compile_program(read_source(SCALE), kernels=["scale<double, 4>"], compiler=which)
    found = kernels(program.ptx)
    assert program.find(found, "scale<double, 4>") == "_Z5scaleIdLi4EEvPT_S0_"
    assert program.parameters("_Z5scaleIdLi4EEvPT_S0_", 2) == ("x", "a")


@need_nvrtc
def test_a_template_without_arguments_is_an_error_that_says_what_the_program_launches():
    program = compile_program(read_source(SCALE))
    with pytest.raises(
        ConfigError, match=re.escape("'scale' is a template: name it with template arguments, such as scale<float,8>")
    ):
        program.find(kernels(program.ptx), "scale")
    with pytest.raises(ConfigError, match="did you mean 'plain'"):
        program.find(kernels(program.ptx), "plan")
    assert program.find(kernels(program.ptx), "plain") == program.find(kernels(program.ptx), None) == "_Z5plainPfi"


@each_compiler
def test_a_mistake_is_shown_in_the_compilers_own_words(which, tmp_path):
    (tmp_path / "bad.cu").write_text("int main() {\n  return 0;\n}\n__global__ void k(int *x) {\n  x[0] = y;\n}\n")
    with pytest.raises(CompileError, match=r'bad\.cu\(5\): error: identifier "y" is undefined') as caught:
        compile(tmp_path / "bad.cu", compiler=which)
    assert isinstance(caught.value, TraceError)


@each_compiler
def test_macros_folders_and_options_reach_the_compiler(which, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "two.h").write_text('const int TWO = 2; int host() { return printf(""); }\n')
    (tmp_path / "one.h").write_text('#include "two.h"\n__device__ int one() { return TWO; }\n')
    (tmp_path / "k.cu").write_text(
        '#include <cstdio>\n#include "one.h"\nextern "C" __global__ void k(int *x) { x[N] = one(); }\n'
    )
    for defines in ({"N": 77}, ["N=77"]):
        ptx = compile(
            tmp_path / "k.cu", defines=defines, includes=[tmp_path / "lib"], options=["-use_fast_math"], compiler=which
        )
        assert "+308]" in ptx
    with pytest.raises(CompileError, match=r"two\.h"):
        compile(tmp_path / "k.cu", defines={"N": 1}, compiler=which)
    with pytest.raises(CompileError, match="no-such-option"):
        compile(
            tmp_path / "k.cu",
            defines={"N": 1},
            includes=[tmp_path / "lib"],
            options=["--no-such-option"],
            compiler=which,
        )


@each_compiler
def test_the_architecture_can_be_chosen(which):
    assert ".target sm_80" in compile(SCALE, architecture="compute_80", compiler=which)
    with pytest.raises(CompileError, match=r"arch|compute_1"):
        compile(SCALE, architecture="compute_1", compiler=which)


@need_nvrtc
def test_every_built_in_header_can_be_included_with_all_others():
    lines = [f"#include <{name}>" for name in sorted(headers.header_names())]
    body = (
        "namespace cg = cooperative_groups;\n__global__ void k(int *x, float *y) {\n"
        "auto tile = cg::tiled_partition<32>(cg::this_thread_block());\n"
        "x[0] = std::numeric_limits<int>::max() - std::min(x[1], 2) + std::is_same<int, float>::value + INT_MIN;\n"
        "y[0] = std::sqrt(y[1]) + M_PI + std::numeric_limits<float>::infinity() + FLT_MAX + NAN;\n"
        "uint64_t big = SIZE_MAX; x[big & 1] = cg::reduce(tile, x[1], cg::plus<int>());\n"
        'assert(x[0]); printf("%d", 1); }\n'
    )
    assert ".entry" in compile("\n".join(lines) + "\n" + body)


@need_nvrtc
def test_what_nvcc_declares_unasked_is_there():
    assert compile("__global__ void k(float *x, uint n) { x[n] = sqrtf(INFINITY) + fmaxf(x[0], M_PI) + INT_MAX; }")


@need_nvrtc
@pytest.mark.parametrize("name", sources.source_names())
def test_every_source_that_comes_with_rdmodel_compiles(name):
    assert kernels(compile(sources.source_path(name)))


def test_ptx_is_taken_as_it_is(tmp_path):
    text = "// by hand\n.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
    assert compile(text) == text
    (tmp_path / "k.ptx").write_text(text)
    assert compile(tmp_path / "k.ptx") == text


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("nothing.cu", TraceError, "nothing.cu: No such file"),
        ("folder.cu", TraceError, "folder.cu: is a folder, must be a regular file"),
        ("binary.cu", TraceError, "binary.cu: not a text file"),
        ("latin.ptx", TraceError, "latin.ptx: not a text file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(source, error, message, tmp_path):
    (tmp_path / "folder.cu").mkdir()
    (tmp_path / "binary.cu").write_bytes(b"\0\1\2")
    (tmp_path / "latin.ptx").write_bytes(b"\xe9\xff")
    with pytest.raises(error, match=re.escape(message)):
        compile(tmp_path / source)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compiler": "gcc"}, "unknown compiler 'gcc'; did you mean 'nvcc'"),
        ({"defines": ["1X"]}, "define '1X': must be NAME or NAME=VALUE"),
        ({"includes": ["no/such"]}, "include 'no/such': must be an existing folder"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        compile(SCALE, **options)


@need_nvrtc
class Library:
    """Stands for an NVRTC that has some architectures."""

    def __init__(self, *architectures):
        self.architectures = lambda: list(architectures)


@pytest.mark.parametrize(
    ("capability", "expected"),
    [((7, 5), 75), ((8, 0), 80), ((8, 6), 86), ((8, 7), 86), ((9, 0), 90), ((12, 0), 90), ((7, 0), 75), ((2, 0), 75)],
)
def test_the_newest_architecture_up_to_that_of_the_gpu_is_taken_or_else_the_oldest(capability, expected):
    number = compiler._number_of(capability)
    assert compiler._newest_up_to(number, Library(75, 80, 86, 90)) == f"compute_{expected}"


@need_nvrtc
def test_options_choose_the_architecture_before_the_gpu_does():
    source = read_source(SCALE)
    assert ".target sm_80" in compile_program(source, capability=(8, 0)).ptx
    assert ".target sm_90" in compile_program(source, capability=(8, 0), options=["-arch=sm_90"]).ptx
    assert ".target sm_90" in compile_program(source, capability=(8, 0), architecture="compute_90").ptx
    assert ".target sm_75" in compile_program(source, capability=None).ptx


@pytest.mark.skipif(installed_nvcc() is None, reason="needs nvcc")
@not_sanitized
def test_nvcc_compiles_for_no_gpu():
    assert ".target sm_75" in compile_program(read_source(SCALE), capability=(8, 0), compiler="nvcc").ptx


def test_a_source_in_ptx_loads_no_compiler(monkeypatch):
    def load():
        raise AssertionError("NVRTC is loaded, which takes a fifth of a second")

    monkeypatch.setattr(nvrtc, "load_nvrtc", load)
    text = ".version 8.0 .target sm_80 .address_size 64\n.visible .entry k() { ret; }"
    assert compile_program(read_source(text), capability=(8, 0)).ptx == text


def test_the_default_architecture_is_that_of_turing_or_the_oldest():
    assert compiler._newest_up_to(compiler.DEFAULT_ARCHITECTURE, Library(80, 90)) == "compute_80"
    assert compiler._newest_up_to(compiler.DEFAULT_ARCHITECTURE, Library(52, 75, 80)) == "compute_75"


@need_nvrtc
def test_code_that_needs_a_newer_gpu_is_refused_with_the_architecture_that_was_taken():
    text = SCALE + "__device__ int sum(int x) { return __reduce_add_sync(~0u, x); }"
    with pytest.raises(CompileError, match="compiled for compute_75; -arch=sm_90, for example, compiles for a newer"):
        compile(text)
    with pytest.raises(CompileError) as error:
        compile(text, architecture="compute_75")
    assert "compiled for" not in str(error.value)
    assert ".target sm_80" in compile(text, options=["-arch=sm_80"])
