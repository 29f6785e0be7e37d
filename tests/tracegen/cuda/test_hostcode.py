"""Test the removal of host code, and the signatures and names read from source text; no compiler is needed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracegen.cuda.hostcode import device_code
from tracegen.cuda.names import demangle, find_kernel, normalise
from tracegen.cuda.signatures import find_launched_kernels, signatures
from tracegen.cuda.tokens import TokenKind, directive, tokenise


def kept(text: str, **headers: str) -> str:
    files = {name.replace("_h", ".h"): body for name, body in headers.items()}
    result = device_code({**files, "a.cu": text})
    for name, before in {**files, "a.cu": text}.items():
        assert len(result[name]) == len(before)
        for old, new in zip(before, result[name], strict=True):
            assert new == old or (new == " " and old not in "\r\n")
    return result["a.cu"]


def texts(source: str) -> list[str]:
    return [token.text for token in tokenise(source)]


# ---- tokens


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a/*b*/c // d\ne", ["a", "c", "e"]),
        ('"a\\"b" x', ['"a\\"b"', "x"]),
        ("'\"' y", ["'\"'", "y"]),
        ('R"x(a)" /* )x" b', ['R"x(a)" /* )x"', "b"]),
        ("1'000 0x1Fu 1.5e-3f .5", ["1'000", "0x1Fu", "1.5e-3f", ".5"]),
        ("f<<<1, 2>>>(x)", ["f", "<<<", "1", ",", "2", ">>>", "(", "x", ")"]),
        ("a::b->c", ["a", "::", "b", "->", "c"]),
        ("// a \\\nstill a comment\nb", ["b"]),
        ("a \\\n b", ["a", "b"]),
        ("  # define X \\\n 1\nY", ["# define X \\\n 1", "Y"]),
        ("a # b", ["a", "#", "b"]),
        ("/* a\n*/ #define X", ["#define X"]),
        ('#define X "a//b" // c\nY', ['#define X "a//b" // c', "Y"]),
        ("#define X /* a\n b */ 1\nY", ["#define X /* a\n b */ 1", "Y"]),
        ("'unfinished", ["'", "unfinished"]),
        ("/* unfinished", []),
    ],
)
def test_comments_strings_and_directives_are_told_from_code(source, expected):
    assert texts(source) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('#include "a.h" // c', ("include", '"a.h"')),
        ("#  include<b.h>", ("include", "<b.h>")),
        ("#define\tN 4", ("define", "N 4")),
        ("#define A(x) \\\n  (x + 1)", ("define", "A(x)    (x + 1)")),
        ("#endif/* x */", ("endif", "")),
    ],
)
def test_directives_have_a_name_and_a_rest(line, expected):
    (token,) = tokenise(line)
    assert token.kind is TokenKind.DIRECTIVE
    assert directive(token) == expected


@given(st.text(alphabet="ab1\"'/*\\\n #{}()<>;:R", max_size=60))
def test_tokens_cover_any_text_in_order_and_nothing_overlaps(text):
    end = 0
    for token in tokenise(text):
        assert end <= token.start < token.end <= len(text)
        assert text[token.start : token.end] == token.text
        end = token.end


# ---- host code


def test_kernels_and_device_functions_stay_and_main_goes():
    text = kept("int main() { k<<<1, 1>>>(); }\n__device__ int f() { return 1; }\n__global__ void k() { f(); }\n")
    assert "main" not in text
    assert "__device__ int f() { return 1; }\n__global__ void k() { f(); }\n" in text


def test_lines_keep_their_numbers():
    source = "void host() {\n  a();\n}\n\n__global__ void k() {}\n"
    assert kept(source).split("\n")[4] == "__global__ void k() {}"


@pytest.mark.parametrize(
    "host",
    [
        "int main(void) { return 0; }",
        "static inline float helper(const std::vector<float>& v) { return v[0]; }",
        "template <typename T> void run(T *p) { k<<<1, 2>>>(p); }",
        "__host__ void f() { std::cout << 1; }",
        "__host__ int f(int);",
        "float *h_a, *h_b;",
        "int N = 1 << 20, M;",
        "std::vector<int> v = {1, 2, 3};",
        "static std::map<int, std::vector<int>> m{{1, {2}}};",
        'const char *text = "}{ __global__";',
        "struct Graph { std::vector<int> rows; void load() { if (1) { } } };",
        "class A { public: A() : x{1} {} private: int x; };",
        "Graph::Graph(int n) : rows{n}, columns(n) { fill(); }",
        "Graph::~Graph() {}",
        "std::ostream &operator<<(std::ostream &out, const Graph &g) { return out; }",
        "bool Less::operator()(int a, int b) const { return a < b; }",
        "auto f() -> int { return 1; }",
        "auto f = [](int a) { return a; };",
        "using namespace thrust;",
        "using namespace std::chrono;",
        "using std::string;",
        "void bind(texture<float, 2> &image) { image.normalized = true; }",
        "using Rows = std::vector<int>;",
        "typedef std::vector<float> fvec;",
        "enum Mode { FAST, SLOW };",
        "typedef void (*Callback)(int);",
        'extern "C" void launch(int);',
        'extern "C" int main() { return 0; }',
        "template void run<float>(float *);",
        "static_assert(sizeof(int) == 4);",
        "void f() const noexcept { }",
        "int g() throw() { return '}'; }",
        'const char *s = R"(}{)";',
        "[[nodiscard]] int f() { return 1; }",
        "__attribute__((noinline)) int f() { return 1; }",
    ],
)
def test_host_declarations_are_blanked_out_before_and_after_a_kernel(host):
    kernel = "__global__ void k(int *x) { x[0] = 1; }"
    for source in (f"{host}\n{kernel}\n", f"{kernel}\n{host}\n"):
        assert kept(source).split() == kernel.split()


@pytest.mark.parametrize(
    "device",
    [
        "__constant__ float weights[9] = {1, 2, 3};",
        "typedef struct ALIGN(2) { int x; } pair; __device__ pair p;",
        "__device__ int counter;",
        "texture<float, 2, cudaReadModeElementType> image;",
        "static surface<void, 2> canvas;",
        "using std::min;",
        "struct Pair { float a; __device__ float sum() { return a; } };",
        "template <class T, int N = 4> __global__ void t(T (&x)[N]) { }",
        "__host__ __device__ inline int f(int a) { return a; }",
        'extern "C" __global__ void __launch_bounds__(256, 2) f() { }',
        "static __forceinline__ __device__ auto f(int a) -> float { return a; }",
        "template __global__ void t<float>(float *);",
        "extern __shared__ float buffer[];",
        "struct __align__(16) S { __device__ S() : a{1}, b(2) {} int a, b; };",
        "template <> __device__ float one<float>() { return 1; }",
        "__device__ S::S(int a) : a{a}, b(2) { }",
    ],
)
def test_device_declarations_stay(device):
    assert kept(f"{device}\nint main() {{}}\n").split() == device.split()


def test_what_device_code_mentions_stays_directly_or_not():
    text = kept(
        "typedef unsigned int word; enum Mode { FAST, SLOW }; struct Point { word x; };\n"
        "constexpr int twice(int a) { return a * 2; } const int N = twice(4); const int UNUSED = 3;\n"
        "using Real = float; struct Unused { int a; };\n"
        "__global__ void k(Point *p, Real r) { p[N].x = SLOW; }\n"
    )
    for name in ("word", "Mode", "Point", "twice", "int N", "Real"):
        assert name in text
    assert "UNUSED" not in text
    assert "Unused" not in text


def test_a_host_variable_of_a_parameters_name_does_not_stay():
    assert "float *a;" not in kept("float *a;\n__global__ void k(float *a) { a[0] = 1; }\n")


def test_namespaces_and_linkage_blocks_stay_around_what_stays():
    text = kept(
        "namespace n { namespace {\nint host() { return 1; }\n__global__ void k() {}\n} }\n"
        'extern "C" {\nvoid h() {}\n}\n'
    )
    assert " ".join(text.split()) == 'namespace n { namespace { __global__ void k() {} } } extern "C" { }'


def test_preprocessor_lines_stay_even_inside_host_functions():
    text = kept("#define N 4\nint main() {\n#ifdef X\n  a();\n#else\n  b();\n#endif\n}\n#pragma once\n")
    assert " ".join(text.split()) == "#define N 4 #ifdef X #else #endif #pragma once"


def test_branches_of_a_condition_may_each_open_the_same_brace():
    source = "#ifdef X\nint main() {\n#else\nint main(int n) {\n#endif\n}\n__global__ void k() {}\n"
    assert "__global__ void k() {}" in kept(source)


def test_text_that_is_switched_off_disturbs_nothing():
    assert "__global__ void k() {}" in kept(
        "#if 0\nit's { not code\n#endif\nint f() { return 1; }\n__global__ void k() {}\n"
    )


def test_members_that_are_marked_for_the_host_alone_go():
    text = """#define HOST_AND_DEVICE __host__ __device__
#define HOST __host__
struct config {
  int n;
  HOST_AND_DEVICE config(int n) : n(n) {}
  constexpr __device__ int twice() const { return 2 * n; }
public:
  __host__ constexpr int ask() const { if (host_only(n)) { return 1; } return 0; }
  HOST config operator+(const config &other) const;
  int plain() { return n; }
};
__global__ void k(int *x) { *x = config(1).twice(); }"""
    found = device_code({"k.cu": text})["k.cu"]
    lines = [line.split("(")[0].strip() for line in found.splitlines()]
    assert lines[6:10] == ["public:", "", "", "int plain"]
    assert "twice" in lines[5] and "config" in lines[4] and "host_only" not in found
    assert [len(line) for line in found.splitlines()] == [len(line) for line in text.splitlines()]


def test_members_without_a_mark_go_if_the_program_is_nvccs():
    text = """struct Point {
  float x;
  Point(float x) : x(check(x)) {}
  constexpr float twice() const { return 2 * x; }
  __device__ float half() const { return x / 2; }
  friend struct Line;
};
__global__ void k(Point *p) { p->x = p->half() + p->twice(); }"""
    found = device_code({"k.cu": text}, unmarked_members=False)["k.cu"].splitlines()
    assert found[2].strip() == ""
    assert [line for at, line in enumerate(found) if at != 2] == [
        line for at, line in enumerate(text.splitlines()) if at != 2
    ]


def test_member_functions_with_streams_or_strings_go():
    text = """struct Body {
  float mass;
  std::string name() const { return std::to_string(mass); }
  friend ostream &operator<<(ostream &out, const Body &body) { return out << body.mass; }
  friend std::istream &operator>>(std::istream &, Body &);
  __device__ float twice() { return 2 * mass; }
  float half() { return mass / 2; }
};
__global__ void k(Body *x) { x->mass = x->twice(); }"""
    found = [line.strip() for line in device_code({"k.cu": text})["k.cu"].splitlines()]
    assert found[2:5] == ["", "", ""]
    assert found[5].startswith("__device__ float twice")
    assert found[6].startswith("float half")


def test_macros_that_declare_types_stay():
    text = kept(
        "#define VECTORS(T, t) using t##2 = vec<T, 2>;\n#define HOST(T) void h_##T(T *x) {}\n"
        "template <class T, int n> struct vec { T x[n]; };\nVECTORS(float, f);\n"
        "__global__ void k(f2 *x) { x[0] = x[1]; }\nHOST(float)\n"
    )
    assert "VECTORS(float, f);" in text
    assert "\nHOST(float)" not in text


def test_the_end_of_a_namespace_ends_a_macro_without_a_semicolon():
    text = """#define DEFINE(n) void launch_##n() {}
namespace outer { namespace inner {
DEFINE(64)
} DEFINE(32) }
__global__ void k() {}"""
    found = [line.rstrip() for line in device_code({"k.cu": text})["k.cu"].splitlines()]
    assert found[1:] == ["namespace outer { namespace inner {", "", "}            }", "__global__ void k() {}"]


def test_a_using_declaration_stays_if_its_last_word_is_mentioned():
    text = """namespace math { struct Number { int x; }; struct Other { int y; }; }
using math::Number;
using math::Other;
__global__ void k(Number *n) {}"""
    found = device_code({"k.cu": text})["k.cu"].splitlines()
    assert [line.rstrip() for line in found[1:3]] == ["using math::Number;", ""]


def test_macros_may_stand_for_attributes_and_whole_kernels():
    text = kept(
        '#define KERNEL extern "C" __global__ void\n#define MAKE(T) __global__ void k_##T(T *x) {}\n'
        "#define HOST(T) void h_##T(T *x) {}\n"
        "KERNEL a() {}\nMAKE(float)\nMAKE(int)\nint main() { return 0; }\nHOST(float)\n"
    )
    for line in ("KERNEL a() {}", "MAKE(float)", "MAKE(int)"):
        assert line in text
    assert "main" not in text


def test_constants_used_through_a_macro_stay():
    assert "const int W = 8;" in kept(
        "const int W = 8;\n#define AT(i) ((i) * W)\n__global__ void k(int *x) { x[AT(1)] = 0; }\n"
    )


def test_a_kernel_keeps_what_it_needs_in_another_file():
    files = device_code(
        {
            "a.cu": '#include "b.h"\n__global__ void k(P *p) { p->x = f(N); }\n',
            "b.h": "struct P { int x; };\nconst int N = 4;\nint host() { return N; }\n__device__ int f(int a);\n",
        }
    )
    assert files["b.h"].split("\n")[2].strip() == ""
    assert "struct P { int x; };\nconst int N = 4;\n" in files["b.h"]


@given(st.text(alphabet="a(){}<>[]\"'/*#\n;=,: ", max_size=80))
def test_any_text_keeps_its_lines_and_columns(text):
    kept(text)


# ---- signatures


def test_parameters_are_named_as_in_the_source():
    found = signatures(
        "template <typename T, int N = 3> __global__ void __launch_bounds__(256) "
        "f(const T *__restrict__ x, T (*op)(T), int a[4], unsigned n = 2, float *, const P p) { }\n"
        'extern "C" __global__ void g(void) {}\n__global__ void h(float *data);\n'
        "#define KERNEL __global__ void\nKERNEL m(int first,\n  int second) {}\nvoid host(int a) {}"
    )
    assert [(s.name, s.parameters, s.template) for s in found] == [
        ("f", ("x", "op", "a", "n", None, "p"), True),
        ("g", (), False),
        ("h", ("data",), False),
        ("m", ("first", "second"), False),
    ]
    assert found[-1].line == 5


def test_a_macro_before_the_name_of_a_kernel_is_not_its_name():
    (found,) = signatures("__global__ void LAUNCH_BOUNDS(256, 2) fill(float *x, int n) noexcept(true) {}")
    assert (found.name, found.parameters, found.defined) == ("fill", ("x", "n"), True)


@pytest.mark.parametrize(
    ("head", "example"),
    [
        ("template <class T, int N = 4>", "k<float>"),
        ("template <typename T, unsigned n, bool b, typename... Rest>", "k<float,16,true>"),
        ("template <template <class> class A>", None),
        ("template <>", None),
        ("", None),
    ],
)
def test_an_example_of_a_template_has_an_argument_for_each_parameter_without_a_default(head, example):
    (found,) = signatures(f"{head} __global__ void k(int *x) {{}}")
    assert found.example == example


def test_a_definition_wins_over_a_declaration():
    (found,) = signatures("__global__ void k(float *);\n__global__ void k(float *x) {}\n")
    assert found.parameters == ("x",)


def test_what_host_code_launches_is_found_with_its_template_arguments():
    source = "int main() { a<<<1, 2>>>(x); n::b<float, 4><<<g, t>>>(x); a<<<1, 1>>>(); (*p)<<<1, 1>>>(); }"
    assert find_launched_kernels(source) == ["a", "n::b<float,4>"]


# ---- names


@pytest.mark.parametrize(
    ("mangled", "expected"),
    [
        ("_Z5saxpyifPfS_", "saxpy"),
        ("_Z5scaleIfLi64EEvPT_S0_j", "scale<float,64>"),
        ("_ZN2ns2kkEPKfPf", "ns::kk"),
        ("_ZN2ns1tIN2ns1PELb1EEEvv", "ns::t<ns::P,true>"),
        ("_Z1tIPKjEvT_", "t<const unsigned int*>"),
        ("_Z1tILin3EEvv", "t<-3>"),
        ("_Z1tI6float4Ev", "t<float4>"),
        ("_ZN12_GLOBAL__N_11kEv", "k"),
        ("_Z1tIJifEEvDpT_", "t<int,float>"),
        ("_ZL1kPf", "k"),
        ("_Z1tI1AIfEEvT_", "t<A<float>>"),
        ("_Z1tIFvvEEv", "t"),
        ("plain_name", "plain_name"),
        ("_Zwhat", "_Zwhat"),
    ],
)
def test_mangled_names_are_read(mangled, expected):
    assert demangle(mangled) == expected


@given(st.text(alphabet="_ZNIKPELJ0123456789abfijv", max_size=20))
def test_nothing_that_looks_mangled_breaks_the_reader(text):
    assert demangle("_Z" + text)


@pytest.mark.parametrize(
    ("written", "same"),
    [("f<unsigned>", "f<unsigned int>"), ("f< int , 8u >", "f<int,8>"), ("f<long long int>", "f<long long>")],
)
def test_spellings_of_template_arguments_do_not_matter(written, same):
    assert normalise(written) == normalise(same)


KERNELS = ["_Z5scaleIfEvPT_i", "_Z5scaleIdEvPT_i", "_ZN2ns4copyEPf", "plain", "_Z3addPf", "_Z3addPd"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("scale<double>", 1),
        ("scale< float >", 0),
        ("copy", 2),
        ("ns::copy", 2),
        ("plain", 3),
        ("_Z3addPd", 5),
    ],
)
def test_kernels_are_found_by_the_name_in_the_source(wanted, expected):
    assert find_kernel(KERNELS, wanted) == KERNELS[expected]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("scale", "is ambiguous; name one: scale<float>, scale<double>"),
        ("add", "name one: _Z3addPf, _Z3addPd"),
        ("plane", "unknown kernel 'plane'; did you mean 'plain'?"),
        (None, "there are several kernels; name one: "),
    ],
)
def test_an_unclear_kernel_is_an_error_that_lists_the_choices(wanted, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        find_kernel(KERNELS, wanted)


def test_the_only_kernel_needs_no_name_and_no_kernel_is_an_error():
    assert find_kernel(["_Z1kv"], None) == "_Z1kv"
    with pytest.raises(ValueError, match="no kernel"):
        find_kernel([], None)


CONCEPTS = """
template <typename T> concept Small = sizeof(T) <= 8;
template <typename T> concept Sum = requires(T a, T b) { a + b; };
template <typename T> concept Both = Small<T> && Sum<T>;
template <typename T> concept Printed = requires(T t) { std::printf("%d", t); };
template <Both T> __global__ void k(T *x) { x[0] = 1; }
"""


def test_concepts_stay_that_device_code_needs():
    result = kept(CONCEPTS)
    for name in ("Small", "Sum", "Both"):
        assert f"concept {name} =" in result
    assert "Printed" not in result
    assert "std::printf" not in result
