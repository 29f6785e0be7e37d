"""Variables of programs: filled from Python, texts and launch files, by their names in the source."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rdmodel.errors import ConfigError, RdmodelError
from tests.support.ptx_kernels import HEAD
from tracegen import cuda
from tracegen.cuda import nvrtc

PROGRAM = (
    HEAD
    + """
.const .align 4 .b8 coef[16];
.const .align 4 .u32 _ZN2ns5limitE;
.const .align 4 .f32 scale;
.const .align 8 .f64 _ZL4tiny;
.global .align 4 .b8 lookup[128];
.const .align 4 .u32 _ZN1a4sameE;
.const .align 4 .u32 _ZN1b4sameE;
.shared .align 4 .b8 tile[16];
.visible .entry k(.param .u64 x) {
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<3>; .reg .pred %p<3>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3]; ld.const.u32 %r2, [_ZN2ns5limitE]; setp.ge.u32 %p1, %r1, %r2; @%p1 ret;
  mov.u64 %rd4, lookup; add.s64 %rd4, %rd4, %rd2; ld.global.f32 %f1, [%rd4];
  ld.const.f32 %f2, [scale]; mul.f32 %f1, %f1, %f2; ld.const.f32 %f2, [coef+4]; add.f32 %f1, %f1, %f2;
  st.global.f32 [%rd3], %f1; ret; }
"""
)

VALUES = {
    "limit": 20,
    "scale": 2.0,
    "coef": np.array([0, 0.5, 0, 0], np.float32),
    "lookup": "float[32]:iota",
}
NOTE = "k: addresses or branches depend on variables that hold zeros, since they were not filled: limit"


def test_variables_are_filled_by_their_names_in_the_source():
    x = np.full(32, -1, np.float32)
    trace = cuda.trace(PROGRAM, "k", 1, 32, [x], variables=VALUES, check=True)
    assert x.tolist() == [2 * i + 0.5 for i in range(20)] + [-1] * 12
    assert trace.notes == ()


@pytest.mark.parametrize("name", ["limit", "ns::limit", "_ZN2ns5limitE"])
@pytest.mark.parametrize("value", [20, "20", np.uint32(20), np.array([20], np.int32), "int[1]:20", b"\x14\0\0\0"])
def test_a_number_is_given_as_number_text_array_or_bytes(name, value):
    trace = cuda.trace(PROGRAM, "k", 1, 32, ["float[32]"], variables={name: value})
    assert trace.block(0).mask[-1] == (1 << 20) - 1


def test_a_kernel_that_depends_on_what_was_not_filled_says_so():
    (note,) = cuda.trace(PROGRAM, "k", 1, 32, ["float[32]"]).notes
    assert note.startswith(NOTE)
    assert "'variables' in Python or in a launch file" in note


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cof": 1}, "unknown variable 'cof'; did you mean 'coef'"),
        ({"tile": "float[4]"}, "unknown variable 'tile'"),
        ({"same": 1}, "variable 'same' is ambiguous; name one: a::same, b::same"),
        ({"limit": 1, "ns::limit": 2}, "variable ns::limit: is given twice"),
        ({"coef": "double[4]"}, "variable coef: the array has 32 bytes (float64), must have 16 bytes"),
        ({"coef": "float[3]"}, "variable coef: the array has 12 bytes (float32), must have 16 bytes"),
        ({"coef": 1}, "variable coef=1: must be an array of 16 bytes"),
        ({"coef": b"123"}, "variable coef: has 3 bytes, must have 16"),
        ({"limit": 1 << 32}, "variable limit=4294967296: does not fit 32 bits"),
        ({"limit": 1.5}, "variable limit=1.5: must be a whole number (u32)"),
        ({"coef": "flot[4]"}, "variable coef: unknown type 'flot'"),
        ({"coef": [1, 2]}, "variable coef=[1, 2]: must be a number, an array or a text"),
    ],
)
def test_a_variable_that_does_not_exist_or_a_value_that_does_not_fit_is_refused(given, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        cuda.trace(PROGRAM, "k", 1, 32, ["float[32]"], variables=given)


def test_floating_point_variables_have_the_width_of_their_type():
    cuda.trace(PROGRAM, "k", 1, 32, ["float[32]"], variables={"tiny": 1e-300, "scale": 1})


def test_a_program_without_variables_says_so():
    with pytest.raises(ConfigError, match=r"variable 'a': the program has no variables"):
        cuda.trace(HEAD + ".visible .entry k() { ret; }", "k", 1, 32, [], variables={"a": 1})


# ---- as arguments


def test_an_argument_named_symbol_fills_a_variable():
    x = np.full(32, -1, np.float32)
    args = {"0": x, **{f"symbol:{name}": value for name, value in VALUES.items()}}
    assert cuda.trace(PROGRAM, "k", 1, 32, args, check=True).notes == ()
    assert x.tolist() == [2 * i + 0.5 for i in range(20)] + [-1] * 12


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cof", "unknown variable 'cof'; did you mean 'coef'? the program has coef, ns::limit, scale, tiny, lookup,"),
        ("xyzzy", "unknown variable 'xyzzy'; known: coef, ns::limit, scale"),
        ("limit", "variable limit: is given twice"),
    ],
)
def test_a_symbol_that_does_not_exist_is_refused_with_those_that_do(name, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        cuda.trace(PROGRAM, "k", 1, 32, {"0": "float[32]", f"symbol:{name}": 1}, variables={"limit": 2})


def test_the_command_line_fills_symbols_from_numbers_and_files(run, tmp_path):
    (tmp_path / "k.ptx").write_text(PROGRAM)
    np.save(tmp_path / "coef.npy", np.ones(4, np.float32))
    command = ["info", str(tmp_path / "k.ptx"), "--grid", "1", "--block", "32", "--arg", "0=float[32]"]
    coef = f"symbol:coef=@{tmp_path / 'coef.npy'}"
    status, _, err = run(*command, "--arg", "symbol:limit=20", "--arg", coef)
    assert (status, err) == (0, "")
    assert "symbol:limit=" in run(*command)[2]
    status, _, err = run(*command, "--arg", "symbol:limt=20")
    assert (status, "unknown variable 'limt'" in err, "ns::limit" in err) == (2, True, True)


def test_a_symbol_of_a_launch_stays_for_the_launches_after_it(tmp_path):
    (tmp_path / "k.ptx").write_text(PROGRAM)
    launches = ["", '"symbol:limit" = 7', "", '"symbol:limit" = 20', ""]
    text = 'source = "k.ptx"\ngrid = 1\nblock = 32\n[args]\n0 = "float[32]"\n"symbol:limit" = 3\n'
    (tmp_path / "k.toml").write_text(text + "".join(f"[[launch]]\nargs = {{ {given} }}\n" for given in launches))
    masks = [trace.block(0).mask[-1] for trace in cuda.launches(tmp_path / "k.toml")]
    assert masks == [(1 << n) - 1 for n in (3, 7, 7, 20, 20)]


# ---- launch files


def launch_file(folder, variables):
    (folder / "k.ptx").write_text(PROGRAM)
    text = f'source = "k.ptx"\ngrid = 1\nblock = 32\n[args]\n0 = "float[32]"\n[variables]\n{variables}\n'
    (folder / "k.toml").write_text(text + 2 * "[[launch]]\n")
    return folder / "k.toml"


def test_a_launch_file_fills_variables_for_all_launches(tmp_path):
    np.save(tmp_path / "coef.npy", np.ones(4, np.float32))
    path = launch_file(tmp_path, 'limit = 20\ncoef = "@coef.npy"\nlookup = "float[32]:iota"')
    for trace in cuda.launches(path):
        assert trace.notes == ()
        assert trace.block(0).mask[-1] == (1 << 20) - 1


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ("cof = 1", "unknown variable 'cof'; did you mean 'coef'"),
        ('coef = "flot[4]"', "k.toml: variable coef: unknown type 'flot'"),
        ("coef = [1]", "k.toml: variable coef=[1]: must be a number, an array or a text"),
    ],
)
def test_a_bad_variable_in_a_launch_file_is_refused(tmp_path, variables, message):
    with pytest.raises(RdmodelError, match=re.escape(message)):
        list(cuda.launches(launch_file(tmp_path, variables)))
    (tmp_path / "k.toml").write_text('source = "k.ptx"\nvariables = 3\n')
    with pytest.raises(ConfigError, match=r"variables=3: must be a table"):
        list(cuda.launches(tmp_path / "k.toml"))


# ---- the command line


def test_a_command_reports_the_notes_of_a_trace_once(run, tmp_path):
    launch_file(tmp_path, "scale = 1.0")
    _, _, err = run("info", str(tmp_path / "k.ptx"), "--grid", "1", "--block", "32", "--arg", "0=float[32]")
    assert err.startswith(f"rdmodel: {NOTE}")
    _, out, err = run("predict", str(tmp_path / "k.toml"), "--sms", "1")
    assert out.count("L1 miss rate") == 2
    assert err.count(NOTE) == 1


# ---- sources


@pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
def test_variables_of_a_cuda_source_are_filled():
    source = """
    __constant__ int offset[4];
    __constant__ float weight[4] = {1.f, 2.f, 3.f, 4.f};
    namespace ns { __constant__ double table[8]; }
    static __constant__ int n;
    __device__ int lookup[32];
    __global__ void k(float *x) {
      int i = threadIdx.x;
      if (i < n) x[i + offset[i % 4]] = weight[i % 4] + (float)ns::table[i % 8] + lookup[i];
    }
    """
    (note,) = cuda.trace(source, "k", 1, 32, ["float[64]"]).notes
    assert "not filled: n, offset (" in note
    x = np.zeros(64, np.float32)
    given = {"n": 32, "offset": np.array([0, 8, 16, 24], np.int32), "table": "double[8]:0.5", "lookup": "int[32]:iota"}
    assert cuda.trace(source, "k", 1, 32, [x], variables=given, check=True).notes == ()
    i = np.arange(32)
    wanted = np.zeros(64, np.float32)
    wanted[i + i % 4 * 8] = 1 + i % 4 + 0.5 + i
    np.testing.assert_array_equal(x, wanted)


# ---- between launches

COUNTING = (
    HEAD
    + """
.global .align 4 .u32 begin = 2;
.visible .entry advance() {
  .reg .b32 %r<3>; .reg .pred %p<2>; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 ret;
  ld.global.u32 %r2, [begin]; add.u32 %r2, %r2, 8; st.global.u32 [begin], %r2; ret; }
.visible .entry read(.param .u64 x) {
  .reg .b32 %r<3>; .reg .b64 %rd<4>; ld.param.u64 %rd1, [x]; ld.global.u32 %r1, [begin];
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r2, [%rd3]; ret; }
"""
)


@pytest.mark.parametrize(("filled", "offset"), [("", 18), ("[variables]\nbegin = 100\n", 116)])
def test_a_launch_finds_variables_as_the_launches_before_it_have_left_them(tmp_path, filled, offset):
    (tmp_path / "k.ptx").write_text(COUNTING)
    launches = ["advance", "advance", "read"]
    text = f'source = "k.ptx"\ngrid = 1\nblock = 32\n[args]\nx = "int[200]"\n{filled}'
    (tmp_path / "k.toml").write_text(text + "".join(f'[[launch]]\nkernel = "{name}"\n' for name in launches))
    *_, last = cuda.launches(tmp_path / "k.toml")
    (array,) = [one for one in last.launch.arrays if one.name == "x"]
    assert (last.block(0).addresses[-1] - array.base) // 4 == offset
