"""Test traces of CUDA programs: arguments by name, unchanged arrays and results, launches in order, errors."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import rdmodel as rd
from rdmodel.errors import ConfigError, LaunchError, TraceError
from tracegen import cuda
from tracegen.cuda import nvrtc, sources
from tracegen.cuda.session import OrderedTrace

pytestmark = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

SAXPY = """
#include <cstdio>
#include <vector>
__global__ void saxpy(int n, float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
int main() {
  std::vector<float> x(1 << 20);
  saxpy<<<4096, 256>>>(1 << 20, 2.0f, x.data(), x.data());
  printf("done\\n");
}
"""
TEXTS = {"n": "1000", "a": "2.0", "x": "float[n]:iota", "y": "float[n]:1"}

COUNT = """
__global__ void count(int *next, int *seen) {
  int mine = atomicAdd(next, 1);
  seen[mine] = blockIdx.x;
}
"""
"""The address of a thread depends on the number of threads before it."""


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("pc", "op", "mask", "addresses", "warp_start", "needs", "gap")
    )


def test_arguments_are_given_by_name_as_texts_or_in_order_as_arrays():
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    by_name = cuda.trace(SAXPY, "saxpy", 4, 256, TEXTS)
    in_order = cuda.trace(SAXPY, "saxpy", 4, 256, [1000, 2.0, x, y], check=True)
    assert same(by_name.columns, in_order.columns)
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert by_name.launch.kernel == "saxpy"
    assert [array.name for array in by_name.launch.arrays] == ["x", "y"]
    assert len(by_name) == 96


def test_a_trace_from_cuda_can_be_predicted():
    result = rd.predict(cuda.trace(SAXPY, None, 4, 256, TEXTS), sms=1)
    assert result.transactions == 2 * 32
    assert result.kernel == "saxpy"


def test_arrays_that_are_read_only_or_strided_are_copied_and_strided_ones_written_back():
    x = np.arange(8, dtype=np.float32)
    x.flags.writeable = False
    whole = np.zeros((8, 2), np.float32)
    cuda.trace(SAXPY, None, 1, 32, [8, 3.0, x, whole[:, 0]], check=True)
    np.testing.assert_array_equal(whole[:, 0], 3 * x)
    assert not whole[:, 1].any()


def test_the_same_array_twice_is_one_array_on_the_device():
    x = np.ones(32, np.float32)
    trace = cuda.trace(SAXPY, None, 1, 32, [32, 1.0, x, x], check=True)
    assert len(trace.launch.arrays) == 1
    np.testing.assert_array_equal(x, 2)


def test_without_check_arrays_do_not_change_even_where_data_decide():
    next_, seen = np.zeros(1, np.int32), np.zeros(256, np.int32)
    trace = cuda.trace(COUNT, None, 4, 64, [next_, seen])
    assert len(trace) == 4 * 2 * 2
    assert not next_.any()
    assert not seen.any()


def test_blocks_do_not_depend_on_who_asked_first_or_how_often():
    args = [np.zeros(1, np.int32), np.zeros(256, np.int32)]
    trace = cuda.trace(COUNT, None, 4, 64, args)
    backwards = [trace.block(b) for b in (3, 2, 1, 0)]
    forwards = [cuda.trace(COUNT, None, 4, 64, args).block(b) for b in (3, 2, 1, 0)]
    only = cuda.trace(COUNT, None, 4, 64, args, blocks=[2])
    assert all(same(one, other) for one, other in zip(backwards, forwards, strict=True))
    assert same(trace.block(2), only.block(2))
    assert sorted(np.concatenate([c.addresses[c.addresses >= 2**28 + 256] for c in forwards])) == [
        2**28 + 256 + 4 * i for i in range(256)
    ]
    with pytest.raises(TraceError, match="block 1 is not in the trace"):
        only.block(1)


def test_a_structure_is_passed_by_value():
    source = "struct P { int n; float a; };\n__global__ void k(P p, float *x) { x[threadIdx.x % p.n] = p.a; }"
    x = np.zeros(4, np.float32)
    packed = np.array((4, 2.5), dtype=[("n", "<i4"), ("a", "<f4")])[()]
    cuda.trace(source, None, 1, 32, [packed, x], check=True)
    assert x.tolist() == [2.5] * 4


def test_ptx_takes_arguments_by_position_or_by_its_own_names():
    ptx = cuda.compile(SAXPY)
    (entry,) = re.findall(r"\.entry (\w+)", ptx)
    wanted = cuda.trace(SAXPY, None, 4, 256, TEXTS).columns
    for names in (list("0123"), [f"{entry}_param_{i}" for i in range(4)]):
        args = dict(zip(names, ("1000", "2.0", "float[1000]", "float[1000]"), strict=True))
        assert same(cuda.trace(ptx, "saxpy", 4, 256, args).columns, wanted)


# ---- launch files

SCAN = """
source = "scan.cu"
block = 64
shared = 256
[args]
n = 1000
in = "int[n]:random:1:10"
out = "int[n]"
sums = "int[16]"
blocks = 16
[[launch]]
kernel = "scan_blocks"
grid = 16
[[launch]]
kernel = "scan_sums"
grid = 1
[[launch]]
kernel = "scan_add"
grid = 16
"""


def test_a_launch_file_gives_a_trace_per_launch(tmp_path):
    (tmp_path / "scan.cu").write_text(sources.source_path("scan").read_text())
    (tmp_path / "scan.toml").write_text(SCAN)
    traces = list(cuda.launches(tmp_path / "scan.toml"))
    assert [trace.launch.kernel for trace in traces] == ["scan_blocks", "scan_sums", "scan_add"]
    assert [trace.launch.blocks for trace in traces] == [16, 1, 16]
    assert all(len(trace) for trace in traces)


def test_a_later_launch_finds_what_the_ones_before_have_stored(tmp_path):
    chain = scipy.sparse.coo_array((np.ones(9), (np.arange(9), np.arange(1, 10))), shape=(10, 10))
    scipy.io.mmwrite(tmp_path / "chain.mtx", chain)
    (tmp_path / "bfs.cu").write_text(sources.source_path("bfs").read_text())
    np.save(tmp_path / "levels.npy", np.array([0] + [-1] * 9, dtype=np.int32))
    launches = "".join(f"[[launch]]\nargs = {{ level = {level} }}\n" for level in range(3))
    (tmp_path / "bfs.toml").write_text(
        'source = "bfs.cu"\ngrid = 1\nblock = 32\n[args]\nvertices = 10\nrows = "@chain.mtx:rows"\n'
        'columns = "@chain.mtx:columns"\nlevels = "@levels.npy"\nchanged = "int[1]"\n' + launches
    )
    for level, trace in enumerate(cuda.launches(tmp_path / "bfs.toml")):
        c = trace.columns
        (levels,) = (array for array in trace.launch.arrays if array.name == "levels")
        stored = c.addresses[c.address_start[:-1][(c.op == 1) & (np.bitwise_count(c.mask) == 1)]]
        assert levels.base + 4 * (level + 1) in stored


def test_a_launch_file_names_an_argument_that_no_launch_takes(tmp_path):
    (tmp_path / "a.cu").write_text(SAXPY)
    (tmp_path / "a.toml").write_text('source = "a.cu"\ngrid = 1\nblock = 32\n[args]\nn = 4\nz = "int[4]"\n')
    with pytest.raises(ConfigError, match="saxpy: missing argument a, x, y"):
        cuda.launches(tmp_path / "a.toml")
    (tmp_path / "a.toml").write_text(
        'source = "a.cu"\ngrid = 1\nblock = 32\n[args]\nn = 4\na = 1.0\nx = "float[n]"\ny = "float[n]"\nz = "int[4]"\n'
    )
    with pytest.raises(ConfigError, match=r"a\.toml: args: z: must be the name of a parameter of a launch"):
        cuda.launches(tmp_path / "a.toml")


# ---- what goes wrong


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"kernel": "saxpi"}, ConfigError, "unknown kernel 'saxpi'; did you mean 'saxpy'"),
        ({"args": {"n": "4"}}, ConfigError, "saxpy: missing argument a, x, y"),
        ({"args": {**TEXTS, "z": "1"}}, ConfigError, "unknown argument of saxpy 'z'; known: n, a, x, y"),
        ({"args": [1, 2.0]}, ConfigError, "saxpy: 2 arguments for 4 parameters: n, a, x, y"),
        ({"args": {**TEXTS, "n": "1.5", "x": "float[4]", "y": "float[4]"}}, ConfigError, "must be a whole number"),
        ({"args": {**TEXTS, "a": "float[4]"}}, ConfigError, "argument a: must be a single f32, not an array"),
        ({"grid": 0}, LaunchError, "grid=0"),
        ({"block": 2048}, LaunchError, "at most 1024"),
        ({"base": 100}, ConfigError, "base=100"),
        ({"shared": -1}, LaunchError, "shared=-1"),
        ({"blocks": [9]}, TraceError, "below 4"),
    ],
)
def test_a_launch_that_cannot_be_is_refused_in_one_line(change, error, message):
    given = {"kernel": "saxpy", "grid": 4, "block": 256, "args": TEXTS, **change}
    with pytest.raises(error, match=re.escape(message)) as caught:
        cuda.trace(SAXPY, **given)
    assert "\n" not in str(caught.value)


def test_an_access_outside_every_array_names_kernel_line_thread_and_array():
    trace = cuda.trace(SAXPY, None, 4, 256, {**TEXTS, "y": "float[999]"})
    with pytest.raises(
        TraceError, match=r"\(<source>:6\).* past the end of y .*thread \(231, 0, 0\) of block \(3, 0, 0\)"
    ):
        assert trace.columns


def test_a_block_that_does_not_end_is_an_error():
    source = "__global__ void k(volatile int *x) { while (x[0] == 0) { } }"
    trace = cuda.trace(source, None, 1, 32, ["int[1]"], max_instructions=10_000)
    with pytest.raises(TraceError, match="max_instructions=10000"):
        trace.block(0)


ORDERS = {
    "gathers": ("y[i] = x[index[i]];", True, True),
    "gathers from the array that it changes": ("x[i] = x[index[i] + 1];", True, True),
    "changes its indices": ("index[i] = 0; y[i] = x[index[i + 1]];", True, False),
    "branches on what it changes": ("if (y[i + 1] > 0) y[i] = x[i];", True, False),
    "counts in an array of its own": ("atomicAdd(next, 1); y[i] = x[index[i]];", True, True),
    "takes places from a counter": ("y[atomicAdd(next, 1)] = x[i];", True, False),
    "stores through a loaded pointer": ("*pointers[i] = index[i]; y[i] = x[index[i]];", True, False),
    "depends on no data": ("y[i] = x[i];", False, True),
}
"""Bodies of kernels: whether addresses or branches depend on data, and whether blocks may be executed in any order."""


@pytest.mark.parametrize("name", ORDERS)
def test_blocks_are_executed_in_order_only_if_the_kernel_changes_what_decides(name):
    body, dependent, any_order = ORDERS[name]
    source = f"""__global__ void k(int *index, float *x, float *y, int *next, int **pointers) {{
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      {body}
    }}"""
    index = np.random.default_rng(0).integers(0, 200, 257).astype(np.int32)
    arguments = {
        "index": index, "x": np.ones(257, np.float32), "y": np.ones(257, np.float32), "next": np.zeros(1, np.int32),
        "pointers": [np.zeros(4, np.int32)] * 256,
    }  # fmt: skip

    def trace():
        return cuda.trace(source, None, 8, 32, arguments)

    made = trace()
    assert (made.launched.data_dependent, made.any_order) == (dependent, isinstance(made, OrderedTrace) or any_order)
    assert isinstance(made, OrderedTrace) != any_order
    forwards, backwards = trace(), trace()
    ascending = [forwards.block(block) for block in range(8)]
    for block in reversed(range(8)):
        assert same(backwards.block(block), ascending[block])
    if any_order:
        ordered = OrderedTrace(made.launched)
        assert all(same(ordered.block(block), ascending[block]) for block in range(8))
