"""Test the arguments of kernels: texts become numbers and arrays, or errors of one line."""

from __future__ import annotations

import contextlib
import re
import struct

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import ConfigError, LaunchError, RdmodelError, TraceError
from tracegen.cuda.arguments import KernelParameter, bind_arguments, fit_argument, parse_argument, parse_arguments
from tracegen.cuda.array_arguments import ELEMENT_TYPES, MAX_ARRAY_BYTES
from tracegen.cuda.launchfile import read_launch_file

POINTER = KernelParameter("x", "k_param_0", "u64")
WHOLE = KernelParameter("n", "k_param_1", "u32")
REAL = KernelParameter("a", "k_param_2", "f32")
SAXPY = [POINTER, WHOLE, REAL]


def array(text, **sizes):
    value = parse_argument(text, "x", sizes)
    assert isinstance(value, np.ndarray)
    assert value.flags.c_contiguous
    assert value.flags.writeable
    return value


# ---- values


@pytest.mark.parametrize("name", ["bf16", "bfloat16", "__nv_bfloat16"])
@pytest.mark.parametrize(("fill", "values"), [("", [0, 0, 0]), (":iota", [0, 1, 2]), (":-2.5", [-2.5, -2.5, -2.5])])
def test_arrays_of_bfloat16_have_the_upper_halves_of_floats(name, fill, values):
    bits = array(f"{name}[3]{fill}")
    assert bits.dtype == np.uint16
    assert (bits.astype(np.uint32) << 16).view(np.float32).tolist() == values


def test_pairs_in_half_precision_are_arrays_of_two_columns():
    assert array("__nv_bfloat162[5]").shape == array("__half2[5]").shape == array("half2[5]").shape == (5, 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1048576", 1048576), ("-3", -3), ("0x10", 16), ("2.0", 2.0), ("1e-3", 1e-3), ("true", 1), (" 7 ", 7)],
)
def test_numbers_are_whole_where_they_are_written_so(text, value):
    parsed = parse_argument(text, "n")
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_every_type_makes_zeros_of_its_size(name):
    dtype, components = ELEMENT_TYPES[name]
    made = array(f"{name}[6]")
    assert made.shape == ((6, components) if components > 1 else (6,))
    assert made.dtype == dtype
    assert not made.any()


def test_sizes_may_have_dimensions_products_and_names():
    assert array("float[3,4]").shape == (3, 4)
    assert array("int[3*4*2]").shape == (24,)
    assert array("int[ n * n , 2]", n=5).shape == (25, 2)


def test_fills_are_what_their_names_say():
    assert array("int[5]:iota").tolist() == [0, 1, 2, 3, 4]
    assert array("float[2,2]:iota").tolist() == [[0, 1], [2, 3]]
    assert array("float[3]:1.5").tolist() == [1.5] * 3
    assert array("int[3]:-1").tolist() == [-1] * 3
    assert array("int[3]:zeros").tolist() == [0] * 3


@given(st.integers(0, 2**32), st.sampled_from(["float", "double", "half"]))
def test_random_numbers_lie_between_0_and_1_and_follow_from_the_seed(seed, of):
    one = array(f"{of}[100]:random:{seed}")
    assert (one == array(f"{of}[100]:random:{seed}")).all()
    assert ((one >= 0) & (one <= 1)).all()
    assert len(np.unique(one)) > 30


@pytest.mark.parametrize("of", ["int", "uchar", "long", "ushort"])
def test_random_whole_numbers_lie_below_the_length_or_the_bound(of):
    assert 32 < array(f"{of}[100]:random:1").max() < 100
    assert set(array(f"{of}[100]:random:1:3").tolist()) == {0, 1, 2}
    assert set(array("bool[100]:random:1").tolist()) == {False, True}


def test_whole_numbers_given_may_stand_in_sizes_whatever_the_order():
    values = parse_arguments({"x": "float[n*W]", "n": "6", "a": "2.5"}, {"W": 2})
    assert list(values) == ["x", "n", "a"]
    assert values["x"].shape == (12,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "argument x='': must be a number, TYPE[SIZE]"),
        ("float", "argument x='float': must be a number"),
        ("float[]", "size '' must be whole numbers and names"),
        ("float[0]", "size '0' is 0, must be at least 1"),
        ("float[-1]", "size '-1' must be whole numbers and names"),
        ("float[1e3]", "size '1e3' must be whole numbers and names"),
        ("float[m]", "size 'm': unknown name 'm'"),
        ("flaot[4]", "argument x: unknown type 'flaot'; did you mean 'float'"),
        ("float[4]:rand", "fill 'rand' must be zeros, iota, random:SEED, random:SEED:BELOW or a number"),
        ("float[4]:random:x", "fill 'random:x' must be"),
        ("float[4]:nan", "fill 'nan' must be"),
        ("int[4]:1.5", "fill '1.5' does not fit int32"),
        ("uchar[4]:256", "fill '256' does not fit uint8"),
        ("int[4]:2949672970", "fill '2949672970' does not fit int32"),
        ("long[4]:9223372036854775808", "fill '9223372036854775808' does not fit int64"),
        ("float[4]:1e300", "fill '1e300' does not fit float32"),
        ("int[4]:random:" + "9" * 5000, "must be zeros, iota, random:SEED"),
        ("int[4]:random:1:" + "9" * 5000, "must be zeros, iota, random:SEED"),
        ("int[" + "9" * 5000 + "]", "must be below 2^63"),
        ("int[" + "9*" * 5000 + "9]", "must be below 2^63"),
        ("float[99999999999]", f"399999999996 bytes, must be at most {MAX_ARRAY_BYTES}"),
        ("3_2", "argument x='3_2': must be a number"),
        ("1_0.5", "argument x='1_0.5': must be a number"),
        ("\u0663", "must be a number"),
        ("float[\u0663]", "must be whole numbers and names"),
        ("float[4]:\u0663", "must be zeros, iota, random:SEED"),
        ("float[4]:1_0", "must be zeros, iota, random:SEED"),
        ("float[4]:random:\u0663", "must be zeros, iota, random:SEED"),
        ("@data.txt", "data.txt: must be a .npy file, or part of a .mtx file"),
    ],
)
def test_a_bad_argument_is_refused_in_one_line(text, message, tmp_path):
    (tmp_path / "data.txt").write_text("1 2 3")
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        parse_argument(text, "x", folder=tmp_path)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_gives_a_value_or_an_error_of_ours(text):
    with contextlib.suppress(RdmodelError):
        parse_argument(text, "x")


# ---- files


def test_saved_arrays_keep_their_type_or_get_the_one_asked_for(tmp_path):
    np.save(tmp_path / "d.npy", np.arange(6, dtype=">f8").reshape(2, 3))
    plain = parse_argument("@d.npy", "x", folder=tmp_path)
    assert plain.dtype == np.dtype("=f8")
    assert plain.tolist() == [[0, 1, 2], [3, 4, 5]]
    plain[0] = 9
    assert parse_argument(f"int@{tmp_path / 'd.npy'}", "x").dtype == np.int32


def test_a_matrix_gives_its_three_parts_in_csr_form(tmp_path):
    matrix = scipy.sparse.random_array((9, 7), density=0.4, rng=np.random.default_rng(1))
    scipy.io.mmwrite(tmp_path / "m.mtx", matrix)
    rows, columns, values = (
        parse_argument(f"{of}@m.mtx:{part}", "x", folder=tmp_path)
        for of, part in (("", "rows"), ("", "columns"), ("double", "values"))
    )
    assert (rows.dtype, columns.dtype, values.dtype) == (np.int32, np.int32, np.float64)
    again = scipy.sparse.csr_array((values, columns, rows), shape=(9, 7))
    np.testing.assert_allclose(again.toarray(), matrix.toarray())
    assert parse_argument("@m.mtx:values", "x", folder=tmp_path).dtype == np.float32


def broken_files(folder):
    np.save(folder / "big.npy", np.array([2**40]))
    np.save(folder / "empty.npy", np.array([]))
    np.save(folder / "complex.npy", np.array([1j]))
    (folder / "junk.npy").write_bytes(b"\x93NUMPY\x01\x00junk")
    (folder / "junk.mtx").write_text("not a matrix\n1 2\n")
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (9000000000000,), }".ljust(117) + "\n"
    for name, text in (("open", header.replace("}", "}(")), ("deep", "(" * 9000)):
        (folder / f"{name}.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
    (folder / "claims.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode())


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("@none.npy", TraceError, "none.npy: No such file"),
        ("@junk.npy", TraceError, "junk.npy: not a .npy file of numbers"),
        ("@claims.npy", TraceError, "claims.npy: not a .npy file of numbers"),
        ("@open.npy", TraceError, "open.npy: not a .npy file of numbers"),
        ("@deep.npy", TraceError, "deep.npy: not a .npy file of numbers"),
        ("@complex.npy", TraceError, "complex.npy: holds complex128"),
        ("@empty.npy", TraceError, "empty.npy"),
        ("int@big.npy", TraceError, "big.npy: holds int64 values that do not fit int32"),
        ("float4@big.npy", TraceError, "big.npy: 1 elements cannot form an array of float4"),
        ("@junk.mtx:rows", TraceError, "junk.mtx:1: not a Matrix Market file"),
        ("@junk.mtx", ConfigError, "needs a part: @junk.mtx:rows, :columns or :values"),
        ("@junk.mtx:row", ConfigError, "needs a part"),
        ("nope@big.npy", ConfigError, "unknown type 'nope'"),
    ],
)
def test_a_bad_file_is_refused_by_its_name(text, error, message, tmp_path):
    broken_files(tmp_path)
    with pytest.raises(error, match=re.escape(message)) as caught:
        parse_argument(text, "x", folder=tmp_path)
    assert "\n" not in str(caught.value)


# ---- parameters


def test_arguments_come_in_the_order_of_the_parameters_by_any_of_their_names():
    data = np.zeros(4, np.float32)
    for given_ in (
        {"n": 4, "x": data, "a": 2},
        {"k_param_1": 4, "0": data, "2": 2},
        [data, 4, 2],
    ):
        bound = bind_arguments(SAXPY, given_, "saxpy")
        assert bound[0] is data
        assert bound[1:] == [4, 2.0]
        assert isinstance(bound[2], float)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"x": 0, "n": 1}, "saxpy: missing argument a"),
        ({}, "saxpy: missing argument x, n, a"),
        ({"x": 0, "n": 1, "a": 1, "alpha": 2}, "unknown argument of saxpy 'alpha'; known: x, n, a"),
        ({"x": 0, "n": 1, "1": 1, "a": 2}, "argument 1: n of saxpy is given twice"),
        ([1, 2], "saxpy: 2 arguments for 3 parameters: x, n, a"),
        ([0, 2.5, 1], "argument n=2.5: must be a whole number (u32)"),
        ([0, 1 << 32, 1], "argument n=4294967296: does not fit 32 bits"),
        ([0, -(1 << 31) - 1, 1], "does not fit 32 bits"),
        ([0, np.zeros(3), 1], "argument n: must be a single u32, not an array"),
        ([0, 1, np.zeros(3)], "argument a: must be a single f32, not an array"),
        ([0, 1, "two"], "argument a='two': must be a number (f32)"),
        ([0, 1, b"12"], "must be a number (f32)"),
    ],
)
def test_wrong_arguments_are_named(given_, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        bind_arguments(SAXPY, given_, "saxpy")


def test_a_scalar_takes_its_width_from_the_parameter():
    assert fit_argument(0.1, REAL) == float(np.float32(0.1))
    assert fit_argument(0.1, KernelParameter("d", "p", "f64")) == 0.1
    assert fit_argument(np.int64(-1), WHOLE) == -1
    assert fit_argument(np.float32(2), KernelParameter("b", "p", "b32")) == np.float32(2).tobytes()
    assert fit_argument(True, KernelParameter("b", "p", "u8")) == 1


def test_a_structure_is_given_as_its_bytes():
    parameter = KernelParameter("p", "k_param_0", "b8", bytes=8)
    packed = struct.pack("<if", 3, 1.5)
    assert fit_argument(packed, parameter) == packed
    record = np.zeros((), dtype=[("n", "<i4"), ("a", "<f4")])[()]
    assert fit_argument(record, parameter) == bytes(8)
    with pytest.raises(ConfigError, match="argument p: must be the 8 bytes of a structure"):
        fit_argument(b"123", parameter)


HALF, BFLOAT, UNDECLARED = (
    KernelParameter("alpha", "k_param_0", "b8", bytes=2, declared=declared)
    for declared in ("__half", "__nv_bfloat16", None)
)


@given(st.floats(-60000, 60000) | st.sampled_from([0, 1, -2, True, np.float64(0.1), np.int32(3)]))
def test_a_number_for_a_parameter_in_half_precision_is_the_nearest_one(number):
    assert fit_argument(number, HALF) == np.float16(number).tobytes()


def bfloats():
    """Return all finite bfloat16 as floats of 8 bytes, by their bits."""
    bits = np.arange(1 << 16, dtype=np.uint32)
    bits = bits[bits & 0x7F80 != 0x7F80]
    return bits, (bits << 16).view(np.float32).astype(np.float64)


@given(st.floats(-3e38, 3e38) | st.sampled_from([0, 1, 3, 1.00390625, 1.01171875, -1e-40]))
def test_a_number_for_a_parameter_in_bfloat16_is_the_nearest_one(number):
    bits, numbers = bfloats()
    found = int.from_bytes(fit_argument(number, BFLOAT), "little")
    distances = np.abs(numbers - float(np.float32(number)))
    nearest = bits[distances == distances.min()]
    assert found in nearest
    assert len(set(numbers[distances == distances.min()])) == 1 or found % 2 == 0


def test_numbers_that_are_not_finite_keep_their_kind_in_bfloat16():
    for number in (float("inf"), float("-inf"), float("nan")):
        upper = np.frombuffer(b"\0\0" + fit_argument(number, BFLOAT), np.float32)[0]
        assert np.array_equal(upper, np.float32(number), equal_nan=True)


def test_a_number_whose_type_ptx_does_not_tell_is_taken_if_it_is_safe():
    assert fit_argument(0.0, UNDECLARED) == fit_argument(0, UNDECLARED) == bytes(2)
    assert fit_argument(np.float16(1.5), UNDECLARED) == np.float16(1.5).tobytes()
    declared = parse_argument("{struct=half x, x=1.5}", "alpha")
    assert fit_argument(declared, UNDECLARED).data == np.float16(1.5).tobytes()
    declared = parse_argument("{struct=__nv_bfloat16 x, x=1.5}", "alpha")
    assert fit_argument(declared, UNDECLARED).data == bytes([0xC0, 0x3F])


@pytest.mark.parametrize(
    ("number", "parameter", "message"),
    [
        (1e6, HALF, "argument alpha=1000000.0: must be a number of 2 bytes"),
        (10**400, BFLOAT, "must be a number of 2 bytes"),
        (3.4e38, BFLOAT, "must be a number of 2 bytes"),
        (
            1.0,
            UNDECLARED,
            "argument alpha=1.0: the type of the 2 bytes is not known: declare it, as in {struct=half x, ",
        ),
        (-0.0, UNDECLARED, "or {struct=__nv_bfloat16 x, x=-0.0}"),
        ("1", HALF, "argument alpha: must be the 2 bytes of a structure"),
        ([1.0], HALF, "argument alpha: must be the 2 bytes of a structure"),
        (np.complex64(0), UNDECLARED, "argument alpha: must be the 2 bytes of a structure"),
        (
            1,
            KernelParameter("p", "k", "b8", bytes=2, declared="Pair"),
            "argument p: must be the 2 bytes of a structure",
        ),
        (
            1,
            KernelParameter("p", "k", "b8", bytes=2, declared="char2"),
            "argument p: must be the 2 bytes of a structure",
        ),
    ],
)
def test_a_number_that_does_not_fit_two_bytes_is_refused(number, parameter, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        fit_argument(number, parameter)


@pytest.mark.parametrize("text", ["{}", "{ }", " {} "])
def test_braces_without_fields_are_zeros(text):
    assert parse_argument(text, "p") == {}
    assert fit_argument(parse_argument(text, "p"), KernelParameter("p", "k", "b8", bytes=8)).data == bytes(8)
    assert parse_argument("{inner={}, n=1}", "p") == {"inner": {}, "n": 1}


# ---- launch files

SCAN = """
source = "scan.cu"
defines = { TILE = 32, FAST = true }
block = 256

[args]
n = 1000
in = "int[n]:random:1:10"
out = "int[n*TILE]"

[[launch]]
kernel = "one"
grid = [4, 2]
shared = 1024

[[launch]]
kernel = "two"
grid = 1
block = 64
args = { n = 10, data = "out" }
"""


def launch_file(tmp_path, text):
    (tmp_path / "launch.toml").write_text(text)
    return read_launch_file(tmp_path / "launch.toml")


def test_a_launch_file_holds_several_launches_on_the_same_arrays(tmp_path):
    read = launch_file(tmp_path, SCAN)
    one, two = read.launches
    assert read.source == tmp_path / "scan.cu"
    assert read.defines == {"TILE": 32, "FAST": 1}
    assert (one.kernel, one.grid, one.block, one.shared) == ("one", (4, 2, 1), (256, 1, 1), 1024)
    assert (two.kernel, two.grid, two.block, two.shared) == ("two", (1, 1, 1), (64, 1, 1), 0)
    parameters = [
        KernelParameter(name, f"p_{name}", kind) for name, kind in (("in", "u64"), ("out", "u64"), ("n", "u32"))
    ]
    first, taken = read.arguments(one, parameters)
    assert taken == {"in", "out", "n"}
    assert first["n"] == 1000
    assert first["out"].shape == (32000,)
    second, _ = read.arguments(two, [KernelParameter("data", "p_0", "u64"), KernelParameter("n", "p_1", "u32")])
    assert second["n"] == 10
    assert second["data"] is first["out"]


def test_a_file_without_launches_is_one(tmp_path):
    read = launch_file(tmp_path, 'source = "a.ptx"\ngrid = 1\nblock = [8, 8]\n')
    (only,) = read.launches
    assert (only.kernel, only.block, only.args) == (None, (8, 8, 1), {})


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("grid = 1", ConfigError, "launch.toml: source: is missing"),
        ('source = "a.cu"', ConfigError, "grid: is missing"),
        ('source = "a.cu"\ngrid = 0\nblock = 1', LaunchError, "launch.toml: grid=0"),
        ('source = "a.cu"\ngrid = 1\nblock = 2048', LaunchError, "at most 1024"),
        ('source = "a.cu"\ngird = 1', ConfigError, "unknown field 'gird'; did you mean 'grid'"),
        ('source = "a.cu"\n[[launch]]\ngrids = 1', ConfigError, "unknown field of a launch 'grids'"),
        ('source = "a.cu"\nlaunch = 3', ConfigError, "launch=3: must be tables [[launch]]"),
        ('source = "a.cu"\nlaunch = [1]', ConfigError, "launch: must be tables"),
        ('source = "a.cu"\ngrid = 1\nblock = 1\nshared = "1"', ConfigError, "shared='1': must be a number of bytes"),
        ('source = "a.cu"\nincludes = [1]', ConfigError, "includes: must be a list of folders"),
        ('source = "a.cu"\n[args]\nx = [1]', ConfigError, "argument x=[1]: must be a number, an array or a text"),
        ('source = "a.cu"\n[args]\nx = "flot[1]"', ConfigError, "unknown type 'flot'"),
        ("source = ", ConfigError, "launch.toml: "),
        ("grid = " + "9" * 5000, ConfigError, "launch.toml: Exceeds the limit"),
        ("a = " + "[" * 5000, ConfigError, "launch.toml: maximum recursion depth"),
    ],
)
def test_a_bad_launch_file_is_refused_by_name_and_field(text, error, message, tmp_path):
    with pytest.raises(error, match=re.escape(message)) as caught:
        launch_file(tmp_path, text)
    assert "launch.toml" in str(caught.value)
