"""Large grids and arrays: limits hold before anything is made, and temporaries stay small."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import rdmodel as rd
from rdmodel.errors import LaunchError, TraceError
from tests.support.ptx_texts import SAXPY
from tracegen import cuda, simt
from tracegen.cuda import array_arguments
from tracegen.cuda.arguments import parse_argument

ARGS = [1000, 2.0, np.zeros(1000, np.float32), np.zeros(1000, np.float32)]


def peak_bytes(call):
    """Return the result of a call and the largest number of bytes that Python and NumPy held during it."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("grid", [2**31 - 1, (2**31 - 1, 2), (65535, 65535, 65535)])
def test_a_grid_takes_no_memory_for_its_blocks(grid):
    def predicted():
        trace = cuda.trace(SAXPY, None, grid, 32, ARGS)
        trace.block(1)
        return rd.predict(trace, gpu="gtx470-16k", sms=1, blocks=64)

    result, peak = peak_bytes(predicted)
    assert result.transactions > 0
    assert peak < 64 << 20


def test_the_blocks_that_a_trace_holds_may_be_chosen():
    trace = cuda.trace(SAXPY, None, 2**31 - 1, 32, ARGS, blocks=[0, 5])
    assert len(trace.block(5)) == 3
    with pytest.raises(TraceError, match=r"block 1 is not in the trace"):
        trace.block(1)


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        (2**31, 32, r"grid=2147483648: x is 2147483648, must be at most 2147483647"),
        ((1, 65536), 32, r"grid=\(1, 65536\): y is 65536, must be at most 65535"),
        ((1, 1, 65536), 32, r"grid=\(1, 1, 65536\): z is 65536, must be at most 65535"),
        (1, 1025, r"block=1025: 1025 threads, at most 1024 fit in a block"),
        (1, (1, 1, 65), r"block=\(1, 1, 65\): z is 65, must be at most 64"),
    ],
)
def test_a_shape_beyond_the_limits_of_cuda_is_refused(grid, block, message):
    with pytest.raises(LaunchError, match=message):
        cuda.trace(SAXPY, None, grid, block, ARGS)
    with pytest.raises(LaunchError, match=message):
        simt.trace(lambda k: None, grid=grid, block=block, arrays={}, name="idle")


@pytest.mark.parametrize("fill", ["iota", "random:3", "random:3:7", "1"])
@pytest.mark.parametrize("of", ["int", "float", "double"])
def test_filling_an_array_takes_little_more_memory_than_the_array(of, fill):
    array, peak = peak_bytes(lambda: parse_argument(f"{of}[12582912]:{fill}", "x"))
    assert peak < 1.35 * array.nbytes


def test_reading_an_array_takes_no_second_copy(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(1 << 23, dtype=np.int64))
    array, peak = peak_bytes(lambda: parse_argument(f"int@{tmp_path / 'a.npy'}", "x"))
    assert array.dtype == np.int32
    assert peak < 1.35 * array.nbytes


@pytest.mark.parametrize(("of", "fill"), [("int", "iota"), ("ushort2", "random:5"), ("double", "random:5:9")])
def test_an_array_is_the_same_in_any_number_of_pieces(monkeypatch, of, fill):
    whole = parse_argument(f"{of}[3,500]:{fill}", "x")
    monkeypatch.setattr(array_arguments, "_PIECE_ELEMENTS", 7)
    np.testing.assert_array_equal(whole, parse_argument(f"{of}[3,500]:{fill}", "x"))


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_value_that_does_not_fit_is_found_in_every_piece(tmp_path, monkeypatch, order):
    monkeypatch.setattr(array_arguments, "_PIECE_ELEMENTS", 7)
    array = np.zeros((10, 10), np.int64, order=order)
    array[6, 3] = 1 << 40
    np.save(tmp_path / "a.npy", array)
    assert parse_argument(f"long@{tmp_path / 'a.npy'}", "x")[6, 3] == 1 << 40
    with pytest.raises(TraceError, match=r"holds int64 values that do not fit int32"):
        parse_argument(f"int@{tmp_path / 'a.npy'}", "x")


def test_a_file_that_grows_beyond_the_limit_by_conversion_is_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.zeros(1000, np.int8))
    monkeypatch.setattr(array_arguments, "MAX_ARRAY_BYTES", 4000)
    with pytest.raises(TraceError, match=r"a\.npy: 8000 bytes as float64, must be at most 4000"):
        parse_argument(f"double@{tmp_path / 'a.npy'}", "x")


def test_random_bounds_may_use_all_64_bits():
    assert parse_argument("ulong[100]:random:1:9999999999999999999", "x").max() > 1 << 63
    assert parse_argument("long[100]:random:1:9999999999999999999", "x").min() >= 0
