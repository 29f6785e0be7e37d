"""Programs as people publish them compile: missing headers, texture references, older C++, NVIDIA's headers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rdmodel as rd
from tracegen import cuda
from tracegen.cuda import nvrtc, ptx_cache
from tracegen.cuda.compiler import CompileError, compile_program
from tracegen.cuda.missing_headers import origin, without_marks
from tracegen.cuda.source import Source, included_names, project_sources, read_source

need_nvrtc = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
need_headers = pytest.mark.skipif(
    nvrtc.load_nvrtc() is None or not any((f / "cuda_fp16.h").is_file() for f in nvrtc.header_folders()),
    reason="needs the headers of CUDA: pip install 'rdmodel[cuda]'",
)
KERNEL = "__global__ void k(float *x) { x[threadIdx.x] = 1; }\n"


def compile_notes(text, folder=None, name="k.cu"):
    if folder is not None:
        (folder / name).write_text(text)
        return list(compile_program(read_source(folder / name)).notes)
    return list(compile_program(read_source(text)).notes)


# ---- headers that are missing


@need_nvrtc
def test_missing_headers_that_no_kernel_needs_are_taken_for_empty_with_one_note():
    text = '#include <sys/nowhere.h>\n#include "ui/window.h"\n#ifdef _WIN32\n#include <elsewhere.h>\n#endif\n'
    (note,) = compile_notes(text + "Window *shown;\nint main() { shown->close(); }\n" + KERNEL)
    assert note == "<source>: headers that were not found are taken for empty: sys/nowhere.h, ui/window.h"


@need_nvrtc
def test_a_missing_header_that_a_kernel_needs_is_named_with_its_origin():
    text = (
        "#include <curand_kernel_of_tomorrow.h>\n#include <my/types.h>\n__global__ void k(my_type *x) { x[0] = 1; }\n"
    )
    with pytest.raises(CompileError) as caught:
        compile_program(read_source(text))
    message = str(caught.value)
    assert 'identifier "my_type" is undefined' in message
    wheel = "curand_kernel_of_tomorrow.h (pip install nvidia-curand)"
    assert f"taken for empty: {wheel}, my/types.h (give its folder with -I)" in message
    assert "#warning" not in message


@need_nvrtc
def test_a_header_whose_presence_the_source_tests_stays_missing():
    text = "#if __has_include(<fast.h>)\n#include <fast.h>\n#error found\n#endif\n"
    assert compile_notes(text + KERNEL) == []


@need_nvrtc
def test_a_header_that_a_header_of_a_library_misses_is_found_to_be_missing(tmp_path):
    library = tmp_path / "library"
    library.mkdir()
    (library / "cuda_runtime.h").write_text("")  # a folder of the toolkit, whose files the compiler reads itself
    (library / "part.h").write_text("#include <deeper/part.h>\n#define TWO 2\n")
    program = compile_program(Source("k.cu", "#include <part.h>\n" + KERNEL), includes=[library])
    assert program.notes == ["k.cu: headers that were not found are taken for empty: deeper/part.h"]


@need_nvrtc
def test_a_needed_header_is_found_in_a_usual_folder_above_the_source(tmp_path):
    (tmp_path / "Common").mkdir()
    (tmp_path / "Common" / "shapes.h").write_text("struct Shape { int sides; };\nint draw() { return paint(); }\n")
    source = tmp_path / "samples" / "one"
    source.mkdir(parents=True)
    text = "#include <shapes.h>\n__global__ void k(Shape *x) { x[0].sides = 3; }\n"
    (note,) = compile_notes(text, source)
    assert re.search(r"k\.cu: headers were found in .*Common, as if given with -I$", note)


@need_nvrtc
def test_host_code_is_removed_from_headers_in_angle_brackets_beside_the_source(tmp_path):
    (tmp_path / "parts.h").write_text("__device__ int one() { return 1; }\nvoid host() { std::sort(1); }\n")
    text = "#include <parts.h>\n__global__ void k(int *x) { x[0] = one(); }\n"
    assert compile_notes(text, tmp_path) == []


def test_included_files_are_told_apart_by_their_marks():
    assert included_names('#include "a.h"\n#  include <b/c.h> // d\n#define E <e.h>\n') == [
        ("a.h", True),
        ("b/c.h", False),
    ]


def test_headers_of_the_toolkit_are_left_to_the_compiler(tmp_path):
    (tmp_path / "cuda_fp16.h").write_text("")
    assert project_sources(Source("k.cu", "#include <cuda_fp16.h>\n"), [tmp_path]) == {}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cublas_v2.h", "pip install nvidia-cublas"),
        ("cub/cub.cuh", "pip install nvidia-cuda-cccl"),
        ("cuda_fp16.h", "pip install nvidia-cuda-runtime"),
        ("cutlass/cutlass.h", "give the folder of the headers of CUTLASS with -I"),
        ("mine.h", "give its folder with -I"),
    ],
)
def test_the_origin_of_a_header_follows_from_its_name(name, expected):
    assert origin(name) == expected


def test_other_warnings_stay_in_the_log():
    mark = (
        "a.h(2): warning #1105-D: #warning directive: rdmodel found no header a.h\n  #warning rdmodel found\n   ^\n\n"
    )
    other = 'k.cu(3): warning #177-D: variable "x" was declared but never referenced\n'
    remark = '\nRemark: The warnings can be suppressed with "-diag-suppress <warning-number>"\n'
    assert without_marks(mark + other + remark) == (other + remark).strip()
    assert without_marks(mark + remark) == ""


@need_nvrtc
def test_traces_tell_the_notes_of_the_compilation():
    trace = cuda.trace("#include <nowhere.h>\n" + KERNEL, "k", 1, 32, ["float[32]"])
    assert trace.notes == ("<source>: headers that were not found are taken for empty: nowhere.h",)
    assert rd.predict(trace, gpu="gtx470-16k", sms=1).transactions == 0  # the kernel only stores


# ---- constructs of older and of larger programs


PROGRAMS = {
    "using": "using std::string;\nusing std::vector;\nusing namespace std::chrono;\n" + KERNEL,
    "linux": "#ifndef __linux__\n#error Unsupported system\n#endif\n" + KERNEL,
    "register": "__global__ void k(float *x) { register float a = x[0], b; b = a; x[1] = b; }",
    "pair": "#include <vector>\n__global__ void k(int *x, std::pair<int, int> p) { x[0] = p.first; }",
    "traits": "#include <iostream>\ntemplate <class T> __device__ std::common_type_t<T, double> f(T a) { return a; }\n"
    "__global__ void k(int *x) { x[0] = f(x[1]) + std::is_unsigned_v<unsigned> + std::bool_constant<true>{}; }",
    "cufft": "#include <cufft.h>\n__global__ void k(cufftComplex *x) { x[0].x = x[1].y; }",
    "nvcc": "#ifdef __NVCC__\n__device__ int f() { return 1; }\n#endif\n__global__ void k(int *x) { x[0] = f(); }",
    "const": "__device__ __const__ int c[] = {1, 2};\n__global__ void k(int *x) { x[0] = c[x[1]]; }",
    "types": "#include <sys/types.h>\n__global__ void k(u_int8_t *x, u_int64_t i) { x[i] = 1; }",
    "limits": "#include <chrono>\n__global__ void k(float *x) { x[0] = std::numeric_limits<float>::max(); }",
    "byte": "#include <cstddef>\n__global__ void k(std::byte *x) { x[std::to_integer<int>(x[0])] = x[1]; }",
    "designators": "struct P { int a, b; };\n__global__ void k(P *x) { x[0] = {.a = 1, .b = 2}; }",
    "sequence": "#include <utility>\n"
    "template <size_t... i> __device__ int sum(std::index_sequence<i...>) { return (int(i) + ...); }\n"
    "static_assert(std::is_same_v<std::make_integer_sequence<short, 3>, std::integer_sequence<short, 0, 1, 2>>);\n"
    "__global__ void k(int *x) { x[0] = sum(std::make_index_sequence<500>()) + std::exchange(x[1], 2); }",
    "clamp": "#include <algorithm>\n__global__ void k(int *x) { x[0] = std::clamp(x[1], 0, 9); }",
    "constants": "#include <stdint.h>\n__global__ void k(uint64_t *x) { x[0] = UINT64_C(1) << INT32_C(40); }",
    "tag": "typedef union bits { float f; int i; } other;\n__device__ int f(float a) { bits b; b.f = a; return b.i; }\n"
    "__global__ void k(int *x) { x[0] = f(1.5f); }",
    "statements": "#define LARGER(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); \\\n _a > _b ? _a : _b; })\n"
    "__global__ void k(int *x, int n) { for (int i = 0; i <= LARGER(n, 3 * x[1]); i++) x[i] = LARGER(x[i], 7); }",
    "long": "__device__ void f(unsigned long *x) { *x = 1; }\n__global__ void k(uint64_t *x) { f(x); }",
    "containers": "#include <vector>\n"
    "struct D { std::vector<int> v; std::string s; void f(int i) { v.push_back(i); } int m; };\n"
    "static_assert(sizeof(D) == 64);\n__global__ void k(D *d) { d->m = 1; }",
    "unmarked": "int check(int a) { return a; }\nstruct P { int x; P(int a) : x(check(a)) {} };\n"
    "__global__ void k(P *p) { p->x = 1; }",
}
"""Programs with constructs that NVRTC alone does not compile."""


@need_nvrtc
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_programs_with_it_compile(text):
    assert compile_notes(text) == []


@need_nvrtc
def test_statements_with_a_value_access_what_an_expression_does():
    text = "__global__ void k(int *x, int n) { x[LARGER(n, 3)] = x[LARGER(2, n + 1)]; }"
    macros = ("({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })", "((a) > (b) ? (a) : (b))")
    first, second = (
        cuda.trace(f"#define LARGER(a, b) {macro}\n{text}", "k", 1, 32, ["int[64]", "5"]).columns for macro in macros
    )
    assert first.addresses.tolist() == second.addresses.tolist()
    assert first.op.tolist() == second.op.tolist() == [0, 1]


CONSTANT_EXPRESSIONS = {
    "array": "#include <array>\n__global__ void k(int *x, std::array<int, 2> a) { auto [b, c] = a; x[b] = a[1] + c; }",
    "functional": "#include <functional>\n"
    "__global__ void k(int *x) { x[0] = std::plus<>()(x[1], std::less<int>()(x[2], 3)); }",
    "complex": "#include <complex>\n__global__ void k(std::complex<float> *x) { x[0] = x[1] * x[2] + x[3].real(); }",
    "numeric": "#include <numeric>\n"
    "__global__ void k(int *x) { x[0] = std::gcd(x[1], 12) + std::accumulate(x, x + 4, 0); }",
    "thrust": "#include <cstdio>\n__global__ void k(thrust::complex<float> *x) { x[0] = thrust::conj(x[1]); }",
}
"""Programs with constant expressions of the C++ library, and with names of Thrust."""


@need_nvrtc
@pytest.mark.parametrize("text", CONSTANT_EXPRESSIONS.values(), ids=CONSTANT_EXPRESSIONS)
def test_constant_expressions_of_the_standard_library_compile_where_nvidias_library_has_them(text):
    if not any((folder / "cuda" / "std" / "array").is_file() for folder in nvrtc.header_folders()):
        pytest.skip("needs pip install nvidia-cuda-cccl")
    assert compile_notes(text) == []


@need_nvrtc
def test_texture_and_surface_references_compile_and_stop_when_they_are_read():
    text = """
texture<float, 1, cudaReadModeElementType> row;
static texture<uchar4, 2, cudaReadModeNormalizedFloat> image;
surface<void, 2> canvas;
void bind(float *x) { cudaBindTexture(0, row, x, 4); }
__global__ void k(float *x, int i) {
  float4 pixel = tex2D(image, 1.5f, x[i]);
  surf2Dwrite(pixel.x, canvas, 4 * i, 0);
  x[i] = tex1Dfetch(row, i) + pixel.y;
}
"""
    ptx = compile_program(read_source(text)).ptx
    for instruction in ("tex.1d.v4.f32.s32", "tex.2d.v4.f32.f32", "sust.b.2d.b32"):
        assert instruction in ptx


@need_nvrtc
def test_a_variable_called_texture_is_no_reference():
    assert compile_notes("__global__ void k(float *texture, int n) { texture[n < 3] = 1; }") == []


@need_nvrtc
def test_a_template_kernel_in_a_namespace_is_found_by_its_name_alone():
    text = "namespace outer { namespace {\ntemplate <class T> __global__ void set(T *x) { x[threadIdx.x] = 1; }\n} }\n"
    assert len(cuda.trace(text, "set<int>", 1, 32, ["int[32]"])) == 1


# ---- NVIDIA's headers


@need_headers
@pytest.mark.parametrize(
    "text",
    [
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cstdint>\n"
        "__global__ void k(half *x, __nv_bfloat16 *y) { x[0] = __hadd(x[1], x[2]); y[0] = __float2bfloat16(1.0f); }",
        "#include <mma.h>\nusing namespace nvcuda;\n__global__ void k(half *x) {\n"
        "wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a; wmma::load_matrix_sync(a, x, 16); }",
        "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
        "__global__ void k(int *x) { cg::grid_group g = cg::this_grid(); x[g.thread_rank()] = 1; g.sync(); }",
        "#include <cublas_v2.h>\n"
        "__global__ void k(__nv_bfloat16 *x, half *y) { x[0] = __float2bfloat16(__half2float(*y)); }",
        "#include <cuda_pipeline.h>\n__global__ void k(int4 *x) { __shared__ int4 s;\n"
        "__pipeline_memcpy_async(&s, x, 16); __pipeline_commit(); __pipeline_wait_prior(0); x[1] = s; }",
    ],
    ids=["narrow", "mma", "grid", "cublas", "pipeline"],
)
def test_headers_of_nvidia_are_found_by_themselves(text):
    architecture = "compute_80" if "pipeline" in text else None
    assert ".entry" in compile_program(read_source(text), architecture=architecture).ptx


@pytest.mark.slow
@need_headers
def test_cub_sums_a_block_as_a_loop_does():
    text = """
#include <cub/cub.cuh>
#include <cuda/std/type_traits>
__global__ void sum(const int *x, int *y) {
  __shared__ cub::BlockReduce<int, 64>::TempStorage shared;
  int total = cub::BlockReduce<int, 64>(shared).Sum(x[64 * blockIdx.x + threadIdx.x]);
  if (threadIdx.x == 0) y[blockIdx.x] = total;
}
"""
    x, y = np.arange(256, dtype=np.int32), np.zeros(4, np.int32)
    cuda.trace(text, "sum", 4, 64, [x, y], check=True)
    assert y.tolist() == x.reshape(4, 64).sum(1).tolist()


# ---- the cache of compilations


@need_nvrtc
def test_a_program_is_compiled_once_for_the_same_content(tmp_path, monkeypatch):
    monkeypatch.setenv("RDMODEL_CACHE", str(tmp_path))
    first = compile_program(read_source(KERNEL + "template <class T> __global__ void t(T *) {}"), kernels=["t<int>"])
    monkeypatch.setattr(nvrtc.Nvrtc, "compile_apart", None)
    again = compile_program(read_source(KERNEL + "template <class T> __global__ void t(T *) {}"), kernels=["t<int>"])
    assert (again.ptx, again.lowered) == (first.ptx, first.lowered)
    for changed in ({"defines": ["N=2"]}, {"architecture": "compute_80"}, {"options": ["-use_fast_math"]}):
        with pytest.raises(TypeError):  # it would be compiled
            compile_program(read_source(KERNEL), **changed)


@need_nvrtc
@pytest.mark.parametrize("damage", [b"", b"{}", b'{"ptx": 1, "log": "", "lowered": {}, "digest": ""}', b"\xff"])
def test_a_damaged_file_of_the_cache_is_compiled_again(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("RDMODEL_CACHE", str(tmp_path))
    first = compile_program(read_source(KERNEL))
    (file,) = (tmp_path / "ptx").iterdir()
    file.write_bytes(damage)
    assert compile_program(read_source(KERNEL)).ptx == first.ptx
    (tmp_path / "ptx" / file.name).unlink()
    (tmp_path / "ptx").rmdir()
    (tmp_path / "ptx").write_text("no folder")
    assert compile_program(read_source(KERNEL)).ptx == first.ptx


def test_other_headers_of_nvidia_give_another_key(tmp_path):
    def key():
        return ptx_cache.compilation_key((13, 0), "text", "k.cu", {"a.h": ""}, ["-G"], [], [tmp_path])

    (tmp_path / "cuda_fp16.h").write_text("// 13.0\n")
    before = key()
    assert before == key()
    (tmp_path / "cuda_fp16.h").write_text("// 13.0.1\n")
    assert before != key()


def test_the_cache_keeps_the_results_that_were_used_last(tmp_path, monkeypatch):
    monkeypatch.setenv("RDMODEL_CACHE", str(tmp_path))
    monkeypatch.setattr(ptx_cache, "MAX_FILES", 10)
    for at in range(12):
        ptx_cache.store(f"{at}", nvrtc.Compilation(f"ptx {at}", "", {}))
    assert len(list((tmp_path / "ptx").iterdir())) <= 10
    assert ptx_cache.load("11") == nvrtc.Compilation("ptx 11", "", {})
    ptx_cache.store("failed", nvrtc.Compilation(None, "error", {}))
    assert ptx_cache.load("failed") is None


@need_nvrtc
def test_a_crash_of_the_compiler_is_an_error_of_one_line(monkeypatch, tmp_path):
    crashing = tmp_path / "crashing.py"
    crashing.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(nvrtc, "__file__", str(crashing))
    with pytest.raises(CompileError, match=r"^<source>: error: the CUDA compiler itself crashed \(SIGSEGV\)$"):
        compile_program(read_source("__global__ void crash() {}"))
