"""Test floating-point instructions and conversions of PTX against NumPy and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.ptx_kernels import compute

few = examples(6, least=2)
REGISTER = {np.float16: "h", np.float32: "x", np.float64: "w"}
NAME = {np.float16: "f16", np.float32: "f32", np.float64: "f64"}
BITS = {np.float16: np.uint16, np.float32: np.uint32, np.float64: np.uint64}

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def bits(values, dtype) -> np.ndarray:
    return np.asarray(values, dtype=dtype).view(BITS[dtype]).astype(np.uint64)


def numbers(column, dtype) -> np.ndarray:
    return column.astype(BITS[dtype]).view(dtype)


def run(body: str, dtype, *operands) -> np.ndarray:
    return numbers(compute(body, *(bits(o, dtype) for o in operands))[0], dtype)


def floats(dtype):
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, math.inf, -math.inf, math.nan, 3e38, 1e-40, 65504.0, 1e-7]
    width = np.dtype(dtype).itemsize * 8
    fitting = [float(dtype(v)) for v in edges]
    return st.one_of(st.sampled_from(fitting), st.floats(width=width))


def pairs(dtype):
    value = floats(dtype)
    return st.lists(st.tuples(value, value, value), min_size=1, max_size=30)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@few
@given(st.data())
def test_arithmetic_is_that_of_ieee_754(dtype, data):
    a, b, _ = (np.array(v, dtype) for v in zip(*data.draw(pairs(dtype)), strict=True))
    r, name = REGISTER[dtype], NAME[dtype]
    for op, oracle in {"add": np.add, "sub": np.subtract, "mul": np.multiply}.items():
        np.testing.assert_array_equal(run(f"{op}.rn.{name} %{r}d, %{r}a, %{r}b;", dtype, a, b), oracle(a, b))
    np.testing.assert_array_equal(run(f"div.rn.{name} %{r}d, %{r}a, %{r}b;", dtype, a, b), a / b)
    np.testing.assert_array_equal(run(f"sqrt.rn.{name} %{r}d, %{r}a;", dtype, a), np.sqrt(a))
    np.testing.assert_array_equal(run(f"rcp.rn.{name} %{r}d, %{r}a;", dtype, a), dtype(1) / a)
    for op, oracle in {"abs": np.abs, "neg": np.negative}.items():
        np.testing.assert_array_equal(run(f"{op}.{name} %{r}d, %{r}a;", dtype, a), oracle(a))
    np.testing.assert_array_equal(run(f"copysign.{name} %{r}d, %{r}a, %{r}b;", dtype, a, b), np.copysign(b, a))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@few
@given(st.data())
def test_min_and_max_prefer_numbers_to_nans_unless_told(dtype, data):
    a, b, _ = (np.array(v, dtype) for v in zip(*data.draw(pairs(dtype)), strict=True))
    r, name = REGISTER[dtype], NAME[dtype]
    for op, oracle in {"min": np.fmin, "max": np.fmax}.items():
        np.testing.assert_array_equal(run(f"{op}.{name} %{r}d, %{r}a, %{r}b;", dtype, a, b), oracle(a, b))
    keeping = np.where(np.isnan(a) | np.isnan(b), np.nan, np.fmin(a, b))
    np.testing.assert_array_equal(run(f"min.NaN.{name} %{r}d, %{r}a, %{r}b;", dtype, a, b), keeping)


def rounded_once(value: Fraction, dtype) -> float:
    """The number of `dtype` nearest to an exact value, ties to even."""
    guess = dtype(float(value))
    if not np.isfinite(guess):
        return float(guess)
    near = [np.nextafter(guess, dtype(-np.inf)), guess, np.nextafter(guess, dtype(np.inf))]
    near = [n for n in near if np.isfinite(n)]
    return float(min(near, key=lambda n: (abs(Fraction(float(n)) - value), int(n.view(BITS[dtype])) & 1)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@few
@given(st.lists(st.tuples(*[st.floats(-1e5, 1e5, width=32)] * 3), min_size=1, max_size=20))
def test_fma_rounds_once(dtype, values):
    a, b, c = zip(*values, strict=True)
    r, name = REGISTER[dtype], NAME[dtype]
    found = run(f"fma.rn.{name} %{r}d, %{r}a, %{r}b, %{r}c;", dtype, a, b, c)
    wanted = [rounded_once(Fraction(x) * Fraction(y) + Fraction(z), dtype) for x, y, z in values]
    np.testing.assert_array_equal(found, np.array(wanted, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@few
@given(st.lists(st.tuples(*[st.floats(-1e5, 1e5, width=32)] * 2), min_size=1, max_size=20))
def test_directed_rounding_encloses_the_exact_result(dtype, values):
    a, b = zip(*values, strict=True)
    r, name = REGISTER[dtype], NAME[dtype]
    for op, exact in {"add": Fraction.__add__, "mul": Fraction.__mul__}.items():
        down, up, zero = (run(f"{op}.{m}.{name} %{r}d, %{r}a, %{r}b;", dtype, a, b) for m in ("rm", "rp", "rz"))
        for x, y, low, high, cut in zip(a, b, down, up, zero, strict=True):
            value = exact(Fraction(x), Fraction(y))
            assert Fraction(float(low)) <= value <= Fraction(float(high))
            assert high in (low, np.nextafter(low, dtype(np.inf)))
            assert cut == (low if value >= 0 else high)


def test_saturation_brings_results_to_the_unit_interval():
    a = [-1, 0.25, 2, math.nan, math.inf]
    assert run("add.sat.f32 %xd, %xa, 0f00000000;", np.float32, a).tolist() == [0, 0.25, 1, 0, 1]
    assert run("cvt.sat.f32.f32 %xd, %xa;", np.float32, a).tolist() == [0, 0.25, 1, 0, 1]


def test_functions_are_those_of_the_c_library():
    a = np.array([0.25, 0.5, 1, 2, 3.75], np.float32)
    for op, oracle in {
        "ex2": np.exp2,
        "lg2": np.log2,
        "sin": np.sin,
        "cos": np.cos,
        "tanh": np.tanh,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "rcp": lambda x: 1 / x,
        "sqrt": np.sqrt,
    }.items():
        found = run(f"{op}.approx.f32 %xd, %xa;", np.float32, a)
        np.testing.assert_allclose(found, oracle(a.astype(np.float64)), rtol=1e-7, atol=1e-9)
    found = run("div.full.f32 %xd, %xa, %xb;", np.float32, a, a[::-1])
    np.testing.assert_allclose(found, a / a[::-1])


COMPARE = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@few
@given(st.data())
def test_comparisons_are_ordered_or_not(dtype, data):
    a, b, _ = (np.array(v, dtype) for v in zip(*data.draw(pairs(dtype)), strict=True))
    r, name = REGISTER[dtype], NAME[dtype]
    nan = np.isnan(a) | np.isnan(b)
    wanted = {how: oracle(a, b) & ~nan for how, oracle in COMPARE.items()}
    wanted |= {f"{how}u": value | nan for how, value in wanted.items()} | {"num": ~nan, "nan": nan}
    for how, value in wanted.items():
        found = compute(f"setp.{how}.{name} %pd, %{r}a, %{r}b;", bits(a, dtype), bits(b, dtype))[0]
        assert found.tolist() == value.tolist()


def test_properties_of_numbers():
    a = [1.0, 1e-40, 0.0, math.inf, math.nan]
    for test, wanted in {
        "finite": [1, 1, 1, 0, 0],
        "infinite": [0, 0, 0, 1, 0],
        "number": [1, 1, 1, 1, 0],
        "notanumber": [0, 0, 0, 0, 1],
        "normal": [1, 0, 0, 0, 0],
        "subnormal": [0, 1, 0, 0, 0],
    }.items():
        assert compute(f"testp.{test}.f32 %pd, %xa;", bits(a, np.float32))[0].tolist() == wanted


# ---- conversions

ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("to", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@few
@given(st.data())
def test_floats_become_integers_within_the_range_of_the_type(dtype, to, data):
    a = np.array([v[0] for v in data.draw(pairs(dtype))], dtype)
    r, limits = REGISTER[dtype], np.iinfo(to)
    target = f"{'s' if limits.min else 'u'}{limits.bits}"
    for mode, oracle in ROUND.items():
        found = compute(f"cvt.{mode}.{target}.{NAME[dtype]} %wd, %{r}a;", bits(a, dtype))[0]
        for x, y in zip(a, found, strict=True):
            if math.isnan(x):
                whole = 0
            elif math.isinf(x):
                whole = limits.max if x > 0 else limits.min
            else:
                whole = min(max(int(oracle(np.float64(x))), limits.min), limits.max)
            assert int(y) == whole % (1 << 64)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64", "s16", "u16"])
@few
@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=30))
def test_integers_become_the_nearest_float(dtype, source, values):
    width = int(source[1:])
    whole = [v % (1 << width) for v in values]
    if source[0] == "s":
        whole = [v - (1 << width) if v >> (width - 1) else v for v in whole]
    r = {16: "h", 32: "x", 64: "w"}[width]
    found = numbers(compute(f"cvt.rn.{NAME[dtype]}.{source} %{REGISTER[dtype]}d, %{r}a;", values)[0], dtype)
    np.testing.assert_array_equal(found, np.array([rounded_once(Fraction(v), dtype) for v in whole], dtype))


@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("to", [np.float16, np.float32, np.float64])
@few
@given(st.data())
def test_floats_become_each_other(source, to, data):
    a = np.array([v[0] for v in data.draw(pairs(source))], source)
    rounding = ".rn" if np.dtype(to).itemsize < np.dtype(source).itemsize else ""
    body = f"cvt{rounding}.{NAME[to]}.{NAME[source]} %{REGISTER[to]}d, %{REGISTER[source]}a;"
    np.testing.assert_array_equal(numbers(compute(body, bits(a, source))[0], to), a.astype(to))


def test_every_half_becomes_itself():
    every = np.arange(1 << 16, dtype=np.uint64).reshape(-1, 512)
    for column in every[::8]:
        values = column.astype(np.uint16).view(np.float16)
        found = compute("cvt.f32.f16 %xc, %ha; cvt.rn.f16.f32 %hd, %xc;", column)[0].astype(np.uint16)
        np.testing.assert_array_equal(found.view(np.float16), values)


def test_rounding_to_halves_may_be_directed():
    a = [65519.0, 65520.0, 1e6, -1e6, 2.0**-25, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    nearest = run("cvt.rn.f16.f32 %hb, %xa; cvt.f32.f16 %xd, %hb;", np.float32, a)
    np.testing.assert_array_equal(nearest, np.array(a, np.float32).astype(np.float16).astype(np.float32))
    zero = run("cvt.rz.f16.f32 %hb, %xa; cvt.f32.f16 %xd, %hb;", np.float32, a)
    assert zero.tolist() == [65504, 65504, 65504, -65504, 0, 1, 1 + 2.0**-10]


@pytest.mark.parametrize("mode", ROUND)
def test_floats_are_rounded_to_integral_floats(mode):
    a = np.array([0.5, 1.5, -0.5, -1.5, 2.7, -2.7, 1e30], np.float32)
    np.testing.assert_array_equal(run(f"cvt.{mode}.f32.f32 %xd, %xa;", np.float32, a), ROUND[mode](a))


@few
@given(st.data())
def test_half_precision_arithmetic_alone_and_in_pairs(data):
    a, b, _ = (np.array(v, np.float16) for v in zip(*data.draw(pairs(np.float16)), strict=True))
    for op, oracle in {"add": np.add, "sub": np.subtract, "mul": np.multiply}.items():
        wanted = oracle(a, b)
        np.testing.assert_array_equal(run(f"{op}.f16 %hd, %ha, %hb;", np.float16, a, b), wanted)
        two = [bits(v, np.float16) | bits(v[::-1], np.float16) << 16 for v in (a, b)]
        found = compute(f"{op}.f16x2 %xd, %xa, %xb;", *two)[0]
        np.testing.assert_array_equal(numbers(found & 0xFFFF, np.float16), wanted)
        np.testing.assert_array_equal(numbers(found >> 16, np.float16), wanted[::-1])


def test_literals_have_the_width_of_the_instruction():
    assert run("add.f32 %xd, %xa, 0.1;", np.float32, [0.0]).tolist() == [float(np.float32(0.1))]
    assert run("add.f64 %wd, %wa, 0f3F800000;", np.float64, [1.0]).tolist() == [2.0]
    assert run("mov.f32 %xd, 1e300;", np.float32, [0.0]).tolist() == [math.inf]
