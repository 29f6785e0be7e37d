"""Array arguments against the signature of the kernel: types of elements, from mangled names and from sources."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import ConfigError
from tests.support.ptx_texts import SAXPY
from tracegen import cuda
from tracegen.cuda import nvrtc
from tracegen.cuda.arguments import KernelParameter, fit_argument
from tracegen.cuda.array_arguments import ELEMENT_TYPES
from tracegen.cuda.mangled_parameters import parameter_types
from tracegen.cuda.signatures import signatures

need_nvrtc = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

SPMV = """__global__ void spmv(int n, const int *indptr, const double *x, double *y) {
  int i = threadIdx.x;
  if (i < n) for (int k = indptr[i]; k < indptr[i + 1]; k++) y[i] += x[k];
}"""

DECLARED = {
    "bool*": {"b1", "i1", "u1"},
    "const char*": {"b1", "i1", "u1"},
    "unsigned char*": {"b1", "i1", "u1"},
    "short*": {"i2", "u2"},
    "const int*": {"i4", "u4"},
    "unsigned int*": {"i4", "u4"},
    "const long long*": {"i8", "u8"},
    "unsigned long*": {"i8", "u8"},
    "float*": {"f4", "c8"},
    "double*": {"f8", "c16"},
    "const float4*": {"f4", "c8"},
    "uint2*": {"i4", "u4"},
    "__half*": {"f2", "i2", "u2"},
    "float**": {"i8", "u8"},
    "const int&": {"i4", "u4"},
    "int[16]*": {"i4", "u4"},
}
DTYPES = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]


def fit(declared, dtype):
    return fit_argument(np.zeros(8, dtype), KernelParameter("x", "k_param_0", "u64", None, declared))


# ---- the check


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("declared", DECLARED)
def test_an_array_fits_a_pointer_to_elements_of_its_kind_and_size_only(declared, dtype):
    if dtype in DECLARED[declared]:
        assert fit(declared, dtype).dtype == dtype
    else:
        with pytest.raises(ConfigError, match=rf"argument x: is an array of {np.dtype(dtype)}, but"):
            fit(declared, dtype)


@pytest.mark.parametrize("declared", [None, "void*", "ns::S*", "const T*", "unsigned long", "unsigned long long"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_of_any_type_fits_a_pointer_to_something_unknown(declared, dtype):
    assert fit(declared, dtype).dtype == dtype


def test_an_array_of_structures_fits_every_pointer():
    structures = np.zeros(4, [("a", "i4"), ("b", "f4")])
    assert fit_argument(structures, KernelParameter("x", "p", "u64", None, "float*")) is structures


@pytest.mark.parametrize("declared", ["long", "long long", "double"])
def test_an_array_for_a_number_is_refused(declared):
    with pytest.raises(ConfigError, match=f"argument x: must be a single {declared}, not an array"):
        fit(declared, "i8")


@pytest.mark.parametrize("name", [name for name in ELEMENT_TYPES if not name.endswith(("16", "32", "64", "8"))])
def test_every_type_of_arguments_fits_the_type_of_that_name(name):
    dtype, _ = ELEMENT_TYPES[name]
    plain = {"uchar": "unsigned char", "ushort": "unsigned short", "ulong": "unsigned long"}.get(name, name)
    assert fit(f"const {plain}*", dtype).dtype == dtype


# ---- from the command line, launch files and Python


@need_nvrtc
@pytest.mark.parametrize(
    ("name", "value", "fault", "remedy"),
    [
        (
            *("indptr", "long[9]:iota", "is an array of int64, but the kernel takes const int*: give int32, "),
            "as in int[SIZE] or int@FILE; in Python, convert it with .astype('int32')",
        ),
        ("indptr", np.arange(9), "is an array of int64, but the kernel takes const int*", ""),
        ("indptr", "float[9]", "is an array of float32, but the kernel takes const int*", ""),
        (
            "x",
            "float[9]",
            "is an array of float32, but the kernel takes const double*: give float64, ",
            "as in double[",
        ),
        ("y", np.zeros(9, np.float32), "is an array of float32, but the kernel takes double*", ""),
        ("n", "int[9]", "must be a single u32, not an array", ""),
    ],
)
@pytest.mark.parametrize("linkage", ["", 'extern "C" '])
def test_an_array_of_other_elements_is_refused_at_the_door(name, value, fault, remedy, linkage):
    message = f"argument {name}: {fault}{remedy}"
    args = {"n": 8, "indptr": "int[9]:iota", "x": "double[9]", "y": "double[9]"}
    assert len(cuda.trace(linkage + SPMV, "spmv", 1, 32, args)) > 0
    with pytest.raises(ConfigError, match=re.escape(message)):
        cuda.trace(linkage + SPMV, "spmv", 1, 32, args | {name: value})
    in_order = [cuda.parse_argument(str(v), k) if isinstance(v, str) else v for k, v in (args | {name: value}).items()]
    with pytest.raises(ConfigError, match=re.escape(message)):
        cuda.trace(linkage + SPMV, "spmv", 1, 32, in_order)


@need_nvrtc
def test_an_array_of_other_elements_in_a_launch_file_is_refused(tmp_path):
    (tmp_path / "k.cu").write_text(SPMV)
    text = (
        'source = "k.cu"\ngrid = 1\nblock = 32\n[args]\nn = 8\nindptr = "long[9]"\nx = "double[9]"\ny = "double[9]"\n'
    )
    (tmp_path / "k.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"argument indptr: is an array of int64, but the kernel takes const int\*"):
        list(cuda.launches(tmp_path / "k.toml"))


def test_ptx_is_checked_by_its_mangled_name_and_by_nothing_else():
    args = [8, 2.0, np.zeros(32, np.int64), np.zeros(32, np.int64)]
    assert len(cuda.trace(SAXPY, "saxpy", 1, 32, args)) == 3
    mangled = SAXPY.replace("saxpy(", "_Z5saxpyifPKfPf(")
    with pytest.raises(ConfigError, match=r"argument x: is an array of int64, but the kernel takes const float\*"):
        cuda.trace(mangled, "saxpy", 1, 32, args)
    other = SAXPY.replace("saxpy(", "_Z5saxpyPKf(")  # the name has another number of parameters
    assert len(cuda.trace(other, "saxpy", 1, 32, args)) == 3


# ---- mangled names

KERNELS = """
namespace ns {
struct S { int a; };
template <class T, int N> struct Vec { T v[N]; struct In { T q; }; };
namespace deep { struct D {}; }
__global__ void k(S s, S *p, const S *q, deep::D *d, const deep::D *e) {}
__global__ void k(Vec<float, 3> *a, Vec<double, 2> *b, Vec<float, 3>::In *c, Vec<S, 1> *d, const float *e) {}
template <class T> __global__ void k(T *a, const T *b, Vec<T, 2> *c, T d, typename Vec<T, 2>::In *e) {}
template __global__ void k<int>(int *, const int *, Vec<int, 2> *, int, Vec<int, 2>::In *);
}
template <class T, class U, int N> __global__ void k(T *a, U *b, const U *__restrict__ c, T d) {}
template __global__ void k<float4, ns::S, -3>(float4 *, ns::S *, const ns::S *, float4);
__global__ void k(const int *a, int *const b, volatile float *c, const volatile double *d, bool f, size_t h) {}
__global__ void k(float **a, const float *const *b, void *c, signed char *d, int (*e)[16], float f[]) {}
__global__ void k(int2 *a, ulonglong2 *b, uchar4 c, int (*d)(int, float), const int *e) {}
__global__ void k() {}
"""

PARAMETERS = [
    ["ns::S", "ns::S*", "const ns::S*", "ns::deep::D*", "const ns::deep::D*"],
    ["ns::Vec<float,3>*", "ns::Vec<double,2>*", "ns::Vec<float,3>::In*", "ns::Vec<ns::S,1>*", "const float*"],
    ["int*", "const int*", "ns::Vec<int,2>*", "int", "ns::Vec<int,2>::In*"],
    ["float4*", "ns::S*", "const ns::S*", "float4"],
    ["const int*", "int*", "float*", "const double*", "bool", "unsigned long"],
    ["float**", "const float**", "void*", "signed char*", "int[16]*", "float*"],
    ["int2*", "ulonglong2*", "uchar4", "function*", "const int*"],
    [],
]


@need_nvrtc
def test_the_mangled_names_of_the_compiler_are_read():
    names = re.findall(r"\.entry (\w+)", cuda.compile(KERNELS, compiler="nvrtc"))
    assert sorted(map(parameter_types, names)) == sorted(PARAMETERS)


@pytest.mark.parametrize(
    "name",
    [
        *("saxpy", "_Z", "_Z1", "_Z9k", "_Z1kP", "_Z1kS_", "_Z1kT_", "_Z1kIXadL_Z1fEEEvPT_", "_Z1kz", "_ZN1k"),
        *("_Z1kPM1Ai", "_Z1kN", "_Z1k" + "P" * 100 + "i", "_Z1k" + "P1AS_" * 3 + "I" * 50),
    ],
)
def test_a_name_that_cannot_be_read_gives_nothing(name):
    assert parameter_types(name) is None


@given(st.text("_ZNIEPKVRSTLXJFAD019kifsv.", max_size=40))
def test_any_text_is_read_or_gives_nothing(text):
    found = parameter_types("_Z" + text)
    assert found is None or all(found)


# ---- sources


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        ("const int *__restrict__ a", "const int*"),
        ("unsigned long long int * const a", "unsigned long long*"),
        ("float a[]", "float*"),
        ("float a[16]", "float*"),
        ("float **a", "float**"),
        ("ns::S *a", "ns::S*"),
        ("struct S *a", "S*"),
        ("uint32_t a", "unsigned int"),
        ("const double *", "const double*"),
        ("float *a = nullptr", "float*"),
        ("int (*a)[16]", None),
        ("const float &a", None),
        ("std::pair<int, int> *a", None),
    ],
)
def test_the_type_of_a_parameter_is_read_from_the_source(declared, wanted):
    (signature,) = signatures(f'extern "C" __global__ void k({declared}, int n) {{ }}')
    assert signature.types == (wanted, "int")
