"""Structures passed by value: their layout is read from the source, and their fields are given by name."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rdmodel.errors import ConfigError
from tracegen import cuda
from tracegen.cuda import nvrtc
from tracegen.cuda.arguments import parse_argument
from tracegen.cuda.structures import pack_structure, structures

need_nvrtc = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

PROGRAM = """
struct Inner { short a; double b; };
struct Params {
  const float *__restrict__ x;
  float *y, *z;
  int n;
  float scale = 1.0f;
  unsigned char flags[3];
  float4 color;
  Inner inner;
  __host__ __device__ int size() const { return n; }
};
__global__ void axpy(const Params p) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.size()) p.y[i] = p.scale * p.x[i] + p.color.w + p.flags[2] + (float)p.inner.b;
}
"""


def offsets(text, name):
    return {f.name: (f.offset, f.bytes) for f in structures([text])[name].fields}


def test_fields_lie_as_a_c_compiler_places_them():
    import ctypes

    class Inner(ctypes.Structure):
        _fields_ = (("a", ctypes.c_short), ("b", ctypes.c_double))

    class Plain(ctypes.Structure):
        _fields_ = (
            ("c", ctypes.c_char), ("p", ctypes.c_void_p), ("n", ctypes.c_int), ("inner", Inner),
            ("m", ctypes.c_int * 6), ("e", ctypes.c_bool),
        )  # fmt: skip

    text = "struct Inner { short a; double b; };\n"
    text += "typedef struct { char c; void *p; unsigned n; Inner inner; int m[2][3]; bool e; } Plain;"
    assert offsets(text, "Plain") == {n: (getattr(Plain, n).offset, getattr(Plain, n).size) for n, _ in Plain._fields_}
    assert structures([text])["Plain"].bytes == ctypes.sizeof(Plain)


def test_enumerations_and_other_names_stand_for_plain_types():
    text = "struct S { Kind kind; real x[2]; Small small; index at; enum_like last; Outer outer; };\n"
    later = """enum Kind { A, B }; enum class Small : unsigned char { C }; typedef double real; using index = long;
    using enum_like = Kind; struct Outer { Small s; }; enum Plain { D };"""
    found = structures([text, later])
    assert {field.name: (field.offset, field.type) for field in found["S"].fields} == {
        "kind": (0, "int"), "x": (8, "double"), "small": (24, "unsigned char"), "at": (32, "long"), "last": (40, "int"),
        "outer": (44, "Outer"),
    }  # fmt: skip
    assert pack_structure(found["S"], {"kind": 2, "small": 3}, "s").data[:25] == bytes([2, *bytes(23), 3])


def test_names_that_stand_for_themselves_end():
    assert structures(["using A = B; using B = A; struct S { A a; };"]) == {}


@need_nvrtc
def test_vectors_are_given_by_their_components():
    program = """__global__ void k(uint3 u, double2 d, float *x) { x[0] = u.x + 10 * u.y + 100 * u.z + d.y; }"""
    x = np.zeros(1, np.float32)
    cuda.trace(program, "k", 1, 1, {"u": {"x": 1, "y": 2, "z": 3}, "d": "{y=0.5}", "x": x}, check=True)
    assert x.tolist() == [321.5]


@need_nvrtc
def test_the_elements_of_an_array_in_a_structure_are_a_list_in_brackets():
    program = """struct Shape { int sizes[2]; float scale[2]; };
    __global__ void k(Shape s, float *x) { x[0] = s.sizes[0] + 10 * s.sizes[1] + s.scale[1]; }"""
    x = np.zeros(1, np.float32)
    cuda.trace(program, "k", 1, 1, {"s": "{sizes=[4, 6], scale=[1, 0.25]}", "x": x}, check=True)
    assert x.tolist() == [64.25]
    with pytest.raises(ConfigError, match=r"argument s.sizes='b': must be a number"):
        cuda.trace(program, "k", 1, 1, {"s": "{sizes=[4, b]}", "x": x})
    with pytest.raises(ConfigError, match=r"argument s.sizes: has 1 values, must have 2"):
        cuda.trace(program, "k", 1, 1, {"s": "{sizes=[4]}", "x": x})


@need_nvrtc
def test_a_structure_without_fields_is_zeros_also_if_its_layout_is_unknown():
    program = "template <class T> struct S { T *a; int n; };\n__global__ void k(S<int> s, int *x) { x[0] = s.n + 7; }"
    x = np.zeros(1, np.int32)
    cuda.trace(program, "k", 1, 1, {"s": {}, "x": x}, check=True)
    assert x.tolist() == [7]


@need_nvrtc
@pytest.mark.parametrize(("type", "header"), [("__half", "cuda_fp16.h"), ("__nv_bfloat16", "cuda_bf16.h")])
@pytest.mark.parametrize("linkage", ["", 'extern "C"'])
def test_parameters_and_fields_of_two_bytes_are_given_as_numbers(type, header, linkage):
    program = f"""#include <{header}>
    struct Pair {{ {type} a; int n; {type} b; }};
    {linkage} __global__ void k({type} alpha, Pair p, float *x) {{
      x[0] = (float)alpha;
      x[1] = (float)p.a + (float)p.b;
    }}
    """
    x = np.zeros(2, np.float32)
    cuda.trace(program, "k", 1, 1, {"alpha": "1.5", "p": "{a=0.25, b=2}", "x": x}, check=True)
    assert x.tolist() == [1.5, 2.25]


@pytest.mark.parametrize(
    "members",
    [
        "int a : 3;",
        "alignas(16) int a;",
        "Unknown a;",
        "#ifdef A\nint a;\n#endif",
        "int a[N];",
        "std::vector<int> a;",
        "int a; void (*f)(int);",
        "int a; virtual void f();",
        "enum Mode mode; int a;",
        "union { int b; float c; } u; int a;",
        "",
    ],
)
def test_layouts_that_the_text_does_not_tell_are_left_out(members):
    assert (
        structures([f"struct S {{ {members} }};", "template <class T> struct S { T a; };", "struct S : B { int a; };"])
        == {}
    )


@need_nvrtc
def test_the_fields_of_a_structure_are_given_by_name():
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    fields = {"x": x, "y": y, "n": 60, "scale": 2.0, "flags": [1, 2, 3], "color": [0, 0, 0, 0.5]}
    trace = cuda.trace(PROGRAM, "axpy", 1, 64, {"p": fields}, check=True)
    assert y.tolist() == [*(2 * x[:60] + 3.5), 0, 0, 0, 0]
    assert len(trace) == 4


@need_nvrtc
def test_texts_and_launch_files_take_structures(tmp_path):
    (tmp_path / "axpy.cu").write_text(PROGRAM)
    (tmp_path / "launch.toml").write_text(
        'source = "axpy.cu"\ngrid = 1\nblock = 64\nargs = { p = { x = "float[n]:iota", y = "float[n]", n = 64 } }\n'
    )
    (from_file,) = cuda.launches(tmp_path / "launch.toml")
    from_text = cuda.trace(PROGRAM, "axpy", 1, 64, {"p": "{x=float[64]:iota, y=float[n], n=64}"})
    assert len(from_file) == len(from_text) == 4


SUMS = """
struct Rows { const float *row; float *sum; };
__global__ void sums(Rows rows, const float *const *more, const float *shared) {
  rows.sum[threadIdx.x] = rows.row[threadIdx.x] + more[0][threadIdx.x] + more[1][threadIdx.x] + shared[threadIdx.x];
}
"""


@need_nvrtc
def test_structures_and_lists_refer_to_arrays_by_name(tmp_path):
    x, y, z = (np.arange(32, dtype=np.float32) * scale for scale in (1, 10, 0))
    given = {"x": x, "z": z, "rows": {"row": "&x", "sum": "&z"}, "more": ["&x", y], "shared": "&x"}
    cuda.trace(SUMS, "sums", 1, 32, given, check=True)
    assert z.tolist() == (13 * x).tolist()
    (tmp_path / "sums.cu").write_text(SUMS)
    (tmp_path / "launch.toml").write_text(
        'source = "sums.cu"\ngrid = 1\nblock = 32\n[args]\nx = "float[32]"\nz = "float[32]"\nshared = "&x"\n'
        'rows = { row = "&x", sum = "&z" }\nmore = ["&x", "float[32]"]\n'
    )
    (trace,) = cuda.launches(tmp_path / "launch.toml")
    assert len(trace) == 7
    assert [array.name for array in trace.launch.arrays] == ["rows+0", "rows+8", "more+8", "more"]


@need_nvrtc
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"shared": "&y"}, "argument shared=&y: must be the name of an array among the arguments"),
        ({"rows": {"row": "&y"}}, "argument rows.row=&y: must be the name of an array"),
        ({"more": ["&x", 4]}, "argument more: must be a const float*"),
        ({"shared": {"a": 1}}, "argument shared: must be a const float*, not the fields of a structure"),
        ({"unknown": "float[4]"}, "unknown argument of sums 'unknown'"),
    ],
)
def test_a_reference_that_does_not_fit_is_named(changed, message):
    given = {"x": "float[32]", "rows": {"row": "&x"}, "more": ["&x"], "shared": "&x", **changed}
    with pytest.raises(ConfigError, match=re.escape(message)):
        cuda.trace(SUMS, "sums", 1, 32, given)


@need_nvrtc
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"m": 1}, "argument p: unknown field of Params 'm'"),
        ({"x": np.zeros(4, np.float64)}, "argument p.x: is an array of float64, must be one of float32"),
        ({"x": 1.5}, "argument p.x: must be an array, or an address"),
        ({"n": 1 << 40}, "argument p.n=1099511627776: must be a whole number of 4 bytes"),
        ({"scale": 1e300}, "argument p.scale=1e+300: must be a number of 4 bytes"),
        ({"scale": 10**400}, "must be a number of 4 bytes"),
        ({"flags": [1]}, "argument p.flags: has 1 values, must have 3"),
        ({"inner": 1}, "argument p.inner: must be the 16 bytes of a Inner"),
        (b"", "must be the 80 bytes of a structure, laid out as in C++, or its fields by name"),
    ],
)
def test_a_field_that_does_not_fit_is_named(fields, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        cuda.trace(PROGRAM, "axpy", 1, 64, {"p": fields})


@need_nvrtc
def test_a_structure_of_unknown_layout_is_given_as_bytes():
    text = "struct S { int a : 3; };\n__global__ void k(S s, int *x) { x[0] = s.a; }"
    with pytest.raises(
        ConfigError, match=re.escape("argument s: the layout of S is not known from the source: declare it, such as")
    ):
        cuda.trace(text, "k", 1, 1, {"s": {"a": 1}, "x": "int[1]"})
    x = np.zeros(1, np.int32)
    cuda.trace(text, "k", 1, 1, {"s": b"\3\0\0\0", "x": x}, check=True)
    assert x[0] == 3


@pytest.mark.parametrize("text", ["{n}", "{=1}", "{n=1,n=2}", "{n=1,}"])
def test_a_text_that_is_no_structure_is_refused(text):
    with pytest.raises(ConfigError, match="must be FIELD=VALUE, each field once"):
        parse_argument(text, "p")


def test_fields_that_are_not_given_are_zeros():
    packed = pack_structure(structures(["struct S { int a; int b; };"])["S"], {"b": -1}, "argument s")
    assert packed.data == bytes(4) + b"\xff" * 4


def test_an_error_in_the_text_of_a_field_names_structure_and_field():
    with pytest.raises(ConfigError, match=re.escape("argument p.x: size 'm': unknown name 'm'")):
        parse_argument("{x=float[m], n=4}", "p")


@need_nvrtc
def test_a_launch_refers_to_the_arrays_of_the_file(tmp_path):
    (tmp_path / "sums.cu").write_text(SUMS)
    (tmp_path / "launch.toml").write_text(
        'source = "sums.cu"\ngrid = 1\nblock = 32\n[args]\nn = 32\nx = "float[32]"\n[[launch]]\n'
        'args = { rows = { row = "&x", sum = "float[n]" }, more = ["&x", "&x"], shared = "&x" }\n'
    )
    (trace,) = cuda.launches(tmp_path / "launch.toml")
    assert [array.name for array in trace.launch.arrays] == ["rows+0", "rows+8", "more"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"p": "{a=" * 60 + "1" + "}" * 60}, "argument p: has more than 50 structures inside"),
        ({"p": "{a={b=1, c={d=float[2, 3]}}, e=2"}, "argument p="),
    ],
)
def test_a_deep_or_unfinished_structure_is_refused(given, message):
    from tracegen.cuda.arguments import parse_arguments

    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_arguments(given)


def test_structures_may_hold_structures():
    value = parse_argument("{a={b=1, c={d=float[2, 3]}}, e=-2}", "p")
    assert value["a"]["c"]["d"].shape == (2, 3)
    assert (value["a"]["b"], value["e"]) == (1, -2)
    nested: dict = {}
    for _ in range(5000):
        nested = {"a": nested}
    with pytest.raises(ConfigError, match="nested too deeply"):
        cuda.parse_arguments({"p": nested})


def test_values_of_nested_structures_are_packed_in_place():
    text = "struct In { int a; float *p; };\nstruct Out { char c; In in; };"
    x = np.zeros(2, np.float32)
    packed = pack_structure(structures([text])["Out"], {"in": {"a": 7, "p": x}}, "argument s")
    assert packed.data == bytes(8) + (7).to_bytes(4, "little") + bytes(12)
    assert [(offset, array is x) for offset, array in packed.arrays] == [(16, True)]
    rows = structures(["struct Rows { int n; float *row[2]; };"])["Rows"]
    packed = pack_structure(rows, {"row": [x, x]}, "argument s")
    assert packed.with_addresses([256, 512]) == bytes(8) + (256).to_bytes(8, "little") + (512).to_bytes(8, "little")
    for wrong in ([x], {"a": x}):
        with pytest.raises(ConfigError, match=re.escape("argument s.row: does not fit float*[2]")):
            pack_structure(rows, {"row": wrong}, "argument s")


# ---- layouts that the user declares

OF_PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .align 8 .b8 p[24])
{
  .reg .b64 %rd<6>; .reg .b32 %r<4>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [p+8]; ld.param.f32 %f1, [p+12]; ld.param.u64 %rd2, [p+16];
  mov.u32 %r2, %tid.x; rem.u32 %r2, %r2, %r1; mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f2, [%rd4]; mul.f32 %f2, %f2, %f1;
  add.s64 %rd5, %rd2, %rd3; st.global.f32 [%rd5], %f2; ret;
}
"""
FIELDS_OF_C = "const float *x; int n; float scale; float *y"
DTYPE = np.dtype([("x", "<u8"), ("n", "<i4"), ("scale", "<f4"), ("y", "<u8")])


@pytest.mark.parametrize("declared", [FIELDS_OF_C, FIELDS_OF_C + ";", DTYPE], ids=["C", "C;", "dtype"])
def test_the_fields_of_a_structure_of_ptx_lie_as_declared(declared):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    fields = {"struct": declared, "x": x, "n": 32, "scale": 3.0, "y": y}
    cuda.trace(OF_PTX, "k", 1, 32, {"p": fields}, check=True)
    assert y.tolist() == (3 * x).tolist()


def test_texts_and_launch_files_declare_layouts(tmp_path):
    (tmp_path / "k.ptx").write_text(OF_PTX)
    (tmp_path / "launch.toml").write_text(
        'source = "k.ptx"\ngrid = 1\nblock = 32\n[args]\nx = "float[32]:iota"\n'
        f'p = {{ struct = "{FIELDS_OF_C}", x = "&x", y = "float[32]", n = 8 }}\n'
    )
    (from_file,) = cuda.launches(tmp_path / "launch.toml")
    text = f"{{struct={FIELDS_OF_C}, x=float[32], y=float[32], n=8}}"
    from_text = cuda.trace(OF_PTX, "k", 1, 32, {"p": text})
    for trace in (from_file, from_text):
        block = trace.block(0)
        addresses = block.addresses if hasattr(block, "addresses") else block.columns.addresses
        assert addresses[32] - addresses[31] > 28  # the stores are behind the loads, in another array
        assert len(set(addresses.tolist())) == 2 * 8


def test_arrays_in_declared_structures_have_their_extent():
    text = OF_PTX.replace("p[24]", "p[32]")
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    for declared in (
        "float *x; int n[2]; float *y; double end",
        np.dtype([("x", "u8"), ("n", "i4", 2), ("y", "u8"), ("end", "f8")]),
    ):
        fields = {"struct": declared, "x": x, "n": [32, 0x3F800000], "y": y, "end": 0.5}
        cuda.trace(text, "k", 1, 32, {"p": fields}, check=True)
        assert y.tolist() == [1.0] * 32
        y[:] = 0


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("float *x; int n", "argument p.struct: has 16 bytes, must have the 24 of the kernel"),
        ("float *x; std::vector<int> n", "must be the fields in C, such as 'float *x; int n'"),
        ("float *x; } struct", "must be the fields in C"),
        ("", "must be the fields in C"),
        (7, "argument p.struct='int': must be the fields in C"),
        (np.dtype("f4"), "must be the fields in C"),
        (np.dtype([("x", "S24")]), "argument p.struct: x: is a |S24, must be a native integer"),
        (np.dtype([("x", ">u8", 3)]), "must be a native integer"),
        (FIELDS_OF_C.replace("scale", "factor"), "unknown field of struct"),
    ],
)
def test_a_declared_layout_that_does_not_fit_is_refused(declared, message):
    fields = {"struct": declared, "x": np.zeros(4, np.float32), "scale": 1.0}
    with pytest.raises(ConfigError, match=re.escape(message)):
        cuda.trace(OF_PTX, "k", 1, 32, {"p": fields})
