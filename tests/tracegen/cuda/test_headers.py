"""Headers: those that the user gives replace the built-in ones, and NVIDIA's go together with the built-in ones."""

from __future__ import annotations

import pytest

from tracegen import cuda
from tracegen.cuda import nvrtc
from tracegen.cuda.compiler import compile

pytestmark = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

KERNEL = '#include <{name}>\nextern "C" __global__ void k(int *x) {{ x[0] = FROM_THE_USER; }}\n'

LIBRARY = """
#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef signed int int32_t;
typedef unsigned int uint32_t;
typedef signed long long int64_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
#define INT8_MIN SCHAR_MIN
#define INT64_MAX LLONG_MAX
#define UINT32_MAX UINT_MAX
"""
"""Types as the C++ library of NVIDIA declares them for NVRTC."""


@pytest.mark.parametrize(
    "name", ["stdint.h", "limits.h", "cooperative_groups.h", "cooperative_groups/reduce.h", "cuda_runtime.h", "cstdio"]
)
@pytest.mark.parametrize("part", [".", "cccl"])
def test_a_header_that_the_user_gives_replaces_the_built_in_one(tmp_path, name, part):
    header = tmp_path / part / name
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text("#pragma once\n#define FROM_THE_USER 4711\n")
    ptx = compile(KERNEL.format(name=name), includes=[tmp_path], compiler="nvrtc")
    assert "4711;" in ptx


@pytest.mark.parametrize("library_first", [False, True])
def test_the_built_in_integer_types_are_those_of_nvidias_library(tmp_path, library_first):
    (tmp_path / "library.h").write_text(LIBRARY)
    includes = ["#include <library.h>\n", "#include <stdint.h>\n#include <climits>\n#include <cstdint>\n"]
    text = "".join(includes if library_first else reversed(includes))
    text += 'extern "C" __global__ void k(int64_t *x, uint32_t n) { x[n] = INT64_MAX - UINT32_MAX + INT8_MIN; }\n'
    assert f"{2**63 - 1 - (2**32 - 1) - 128};" in compile(text, includes=[tmp_path], compiler="nvrtc")


def test_a_template_over_an_integer_of_the_built_in_header_is_found_by_its_name():
    text = "#include <cstdint>\ntemplate <class T> __global__ void fill(T *x) { x[threadIdx.x] = 1; }\n"
    text += "template __global__ void fill<uint64_t>(uint64_t *x);\n"
    assert len(cuda.trace(text, "fill<uint64_t>", 1, 32, ["uint64[32]"])) == 1
    assert len(cuda.trace(text, "fill<unsigned long long>", 1, 32, ["uint64[32]"])) == 1


def test_a_header_that_is_included_by_two_names_is_read_once(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "common.h").write_text("#pragma once\nstatic __device__ int one() { return 1; }\n")
    (tmp_path / "inner" / "part.h").write_text('#pragma once\n#include "../common.h"\n')
    program = tmp_path / "k.cu"
    program.write_text('#include "common.h"\n#include "inner/part.h"\n__global__ void k(int *x) { *x = one(); }\n')
    assert ".entry" in compile(program)


def test_headers_in_folders_include_others_from_the_folder_of_the_program(tmp_path):
    (tmp_path / "math").mkdir()
    (tmp_path / "common.h").write_text(
        "#include <string>\ninline std::string name() { return {}; }\ntypedef int number;\n"
    )
    (tmp_path / "math" / "part.h").write_text('#include "common.h"\nstatic __device__ number one() { return 1; }\n')
    program = tmp_path / "k.cu"
    program.write_text('#include "math/part.h"\n__global__ void k(int *x) { *x = one(); }\n')
    assert ".entry" in compile(program)


def test_host_functions_in_headers_may_name_files(tmp_path):
    (tmp_path / "host.h").write_text("#include <cstdio>\nextern const int rows;\nint load(FILE *from, int size);\n")
    program = tmp_path / "k.cu"
    program.write_text('#include "host.h"\n__global__ void k(int *x) { __extension__ int y = 1; *x = y; }\n')
    assert ".entry" in compile(program, includes=[tmp_path])


TRAITS = """
#include <type_traits>
struct Empty {};
struct Pinned { Pinned(const Pinned &) = delete; Pinned(int); int x; };
enum class Small : unsigned char { A };
static_assert(std::is_same<std::add_pointer_t<int&>, int*>::value);
static_assert(std::is_same<std::remove_extent_t<int[3]>, int>::value);
static_assert(std::is_same<std::underlying_type_t<Small>, unsigned char>::value);
static_assert(std::is_same<std::make_unsigned_t<int>, unsigned>::value);
static_assert(std::is_same<std::make_signed_t<unsigned long>, long>::value);
static_assert(std::is_same<std::make_unsigned_t<long long>, unsigned long long>::value);
static_assert(std::conjunction_v<std::true_type, std::is_class<Empty>>);
static_assert(!std::disjunction_v<std::false_type>);
static_assert(std::negation_v<std::false_type>);
static_assert(std::alignment_of_v<double> == 8);
static_assert(std::is_empty_v<Empty>);
static_assert(!std::is_empty_v<Pinned>);
static_assert(std::is_class_v<Pinned>);
static_assert(!std::is_class_v<int>);
static_assert(!std::is_copy_constructible_v<Pinned>);
static_assert(std::is_copy_constructible_v<Empty>);
static_assert(!std::is_default_constructible_v<Pinned>);
static_assert(std::is_constructible_v<Pinned, int>);
static_assert(std::is_convertible_v<int, float>);
static_assert(!std::is_convertible_v<Empty, int>);
static_assert(std::is_base_of_v<Empty, Empty>);
static_assert(std::is_reference_v<int&>);
static_assert(std::is_rvalue_reference_v<int&&>);
static_assert(std::is_array_v<int[2]>);
static_assert(std::is_scalar_v<int*>);
static_assert(!std::is_scalar_v<Empty>);
static_assert(std::is_trivial_v<int>);
static_assert(std::is_standard_layout_v<Empty>);
static_assert(std::is_trivially_default_constructible_v<Empty>);
static_assert(std::is_null_pointer_v<decltype(nullptr)>);
static_assert(std::is_copy_assignable_v<Empty>);
static_assert(std::is_trivially_copy_constructible_v<Empty>);
static_assert(std::is_trivially_constructible_v<Empty>);
__global__ void k(int *x) { x[0] = std::is_volatile_v<volatile int>; }
"""


def test_the_traits_of_types_are_those_of_the_standard():
    assert ".entry" in compile(TRAITS)


def test_a_namespace_may_be_used_whose_headers_are_left_out():
    text = "#include <cub/device/device_scan.cuh>\nusing namespace cub;\n__global__ void k(int *x) { x[0] = 1; }"
    assert ".entry" in compile(text)
