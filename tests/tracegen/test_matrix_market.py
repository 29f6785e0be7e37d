"""Test the reader of Matrix Market files against SciPy's on good files, and on files that are damaged in any way."""

from __future__ import annotations

import bz2
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from rdmodel.errors import ConfigError, TraceError
from tracegen import matrix_market
from tracegen.matrix_market import read_matrix_market

HEAD = "%%MatrixMarket matrix coordinate"


def dense(path):
    read = read_matrix_market(path)
    return scipy.sparse.coo_array((read.values, (read.rows, read.columns)), shape=read.shape).toarray()


def written(tmp_path: Path, text: str | bytes, name: str = "a.mtx") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("form", "field"),
    [*(("coordinate", field) for field in ("real", "integer", "pattern")), ("array", "real"), ("array", "integer")],
)
@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
def test_a_file_means_what_scipy_reads_in_it(tmp_path, form, field, symmetry):
    draw = np.random.default_rng(7)
    values = draw.integers(-9, 10, (12, 12)) * (draw.random((12, 12)) < 0.4)
    if symmetry == "symmetric":
        values = np.tril(values) + np.tril(values, -1).T
    if symmetry == "skew-symmetric":
        values = np.tril(values, -1) - np.tril(values, -1).T
    matrix = values.astype(np.float64) / (3 if field == "real" else 1)
    if field == "integer":
        matrix = values
    path = tmp_path / "a.mtx"
    scipy.io.mmwrite(
        path, scipy.sparse.coo_array(matrix) if form == "coordinate" else matrix, field=field, symmetry=symmetry
    )
    again = scipy.io.mmread(path)
    np.testing.assert_array_equal(dense(path), again if form == "array" else again.toarray())


def test_entries_at_one_place_come_in_the_order_of_the_file_across_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix_market, "MATRIX_PIECE_BYTES", 64)
    entries = [(1 + i % 3, 1 + i % 2, i / 7) for i in range(200)]
    path = written(tmp_path, f"{HEAD} real general\n3 2 200\n" + "".join(f"{r} {c} {v!r}\n" for r, c, v in entries))
    read = read_matrix_market(path)
    assert list(zip(read.rows + 1, read.columns + 1, read.values, strict=True)) == entries


def test_comments_blank_lines_and_other_line_breaks_change_nothing(tmp_path):
    path = written(tmp_path, f"{HEAD.upper()} Real General\r\n% no\r\n\r\n 2  2\t1\r\n\r\n \t2 1  -.5e1 \r\n\r\n")
    assert dense(path).tolist() == [[0, 0], [-5, 0]]


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
def test_a_packed_file_is_unpacked_and_a_cut_one_refused(tmp_path, ending, pack):
    packed = pack(f"{HEAD} real general\n2 2 1\n1 2 3\n".encode())
    assert dense(written(tmp_path, packed, f"a.mtx.{ending}")).tolist() == [[0, 3], [0, 0]]
    for size in range(len(packed)):
        with pytest.raises(TraceError, match=rf"^.*a\.mtx\.{ending}: "):
            read_matrix_market(written(tmp_path, packed[:size], f"a.mtx.{ending}"))


# ---- damaged files

CRASHED_SCIPY = {
    "size line without a line break": b"%%MatrixMarket matrix coordinate integer general\n4 1 2J",
    "array without rows": b"%%MatrixMarket matrix array integer general\n0 2\n",
    "two-byte line breaks, cut before the last": b"%%MatrixMarket matrix array real general\r\n1 1\r\n4\r",
}


@pytest.mark.parametrize("name", CRASHED_SCIPY)
def test_a_short_file_does_not_crash_the_process(tmp_path, name):
    path = written(tmp_path, CRASHED_SCIPY[name])
    code = "from rdmodel.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    for command in (("predict", "spmv", "--param", f"matrix={path}"), ("predict", "bfs.1", "--param", f"graph={path}")):
        done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert re.fullmatch(r"rdmodel: error: .*: not a Matrix Market file \(.*\)\n", done.stderr)


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "lines",
    [
        [f"{HEAD} real general", "% c", "30 40 2", "11 12 1.25", "13 14 2.5"],
        [f"{HEAD} pattern symmetric", "30 30 2", "12 11", "13 12"],
        ["%%MatrixMarket matrix array integer general", "2 2", "11", "12", "13", "14"],
    ],
)
def test_a_file_cut_at_any_byte_is_refused(tmp_path, lines, line_break):
    whole = "".join(line + line_break for line in lines).encode()
    read_matrix_market(written(tmp_path, whole))
    for size in range(len(whole)):
        with pytest.raises(TraceError):
            read_matrix_market(written(tmp_path, whole[:size]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.mtx: not a Matrix Market file (Truncated: ends before the line with its size)"),
        ("1 2 3\n", "a.mtx:1: not a Matrix Market file (Not a Matrix Market file: the first line must be %%Mat"),
        (f"{HEAD} real\n1 1 1\n1 1 1\n", "a.mtx:1: not a Matrix Market file (Invalid first line"),
        (f"{HEAD} real odd\n1 1 1\n1 1 1\n", "Invalid word 'odd': must be general, symmetric, skew-symmetric, her"),
        (f"{HEAD} complex general\n1 1 1\n1 1 1 0\n", "Holds complex numbers: must hold real numbers"),
        ("%%MatrixMarket vector coordinate real general\n1 1\n", "Invalid first line"),
        ("%%MatrixMarket matrix array pattern general\n1 1\n1\n", "only a coordinate file has this field"),
        (f"{HEAD} real general\n2 2\n1 1 1\n", "a.mtx:2: not a Matrix Market file (Invalid size line '2 2': must be"),
        (f"{HEAD} real general\n2 -2 1\n1 1 1\n", "Invalid size line '2 -2 1'"),
        (f"{HEAD} real general\n0 2 1\n1 1 1\n", "Invalid size 0x2 with 1 entries: each must be at least 1"),
        (f"{HEAD} real symmetric\n2 3 1\n1 1 1\n", "a symmetric matrix must be square, not 2x3"),
        (f"{HEAD} real general\n2 2 1\n3 1 1\n", "a.mtx:3: not a Matrix Market file (Invalid row 3: must be 1 to 2)"),
        (f"{HEAD} real general\n2 2 1\n\n1 0 1\n", "a.mtx:4: not a Matrix Market file (Invalid column 0: must be"),
        (f"{HEAD} real general\n2 2 1\n1 {'9' * 5000} 1\n", "a.mtx:3: not a Matrix Market file (Invalid column '999"),
        (f"{HEAD} real general\n2 2 1\n1 1 1_0\n", "Invalid value '1_0': must be a number"),
        (f"{HEAD} real general\n2 2 1\n1 1 1.0D5\n", "Invalid value '1.0D5': must be a number"),
        (f"{HEAD} integer general\n2 2 1\n1 1 1.5\n", "Invalid value '1.5': must be a whole number of 64 bits"),
        (f"{HEAD} integer general\n2 2 1\n1 1 {1 << 63}\n", "must be a whole number of 64 bits"),
        (f"{HEAD} unsigned-integer general\n2 2 1\n1 1 -1\n", "must be a whole number of 64 bits"),
        (f"{HEAD} real general\n2 2 1\n1 1 1 1\n", "a.mtx:3: not a Matrix Market file (Invalid line '1 1 1 1': has 4"),
        (f"{HEAD} pattern general\n2 2 1\n1 1 1\n", "a.mtx:3: not a Matrix Market file (Invalid line '1 1 1': has 3"),
        (f"{HEAD} real general\n2 2 2\n1 1 1\n", "Truncated: declares 2 entries, holds 1"),
        (f"{HEAD} real general\n2 2 1\n1 1 1\n2 2 2\n", "a.mtx:4: not a Matrix Market file (Too many lines: declares"),
        (f"{HEAD} real general\n2 2 1\n1 1 1", "a.mtx:3: not a Matrix Market file (Truncated: the last line does not"),
        (f"{HEAD} real general\n%{'c' * (1 << 21)}\n2 2 1\n1 1 1\n", "Line too long: at most 1048576 bytes"),
        (f"{HEAD} real general\n2 2 1\n1 1 {'1' * (1 << 22)}\n", "a.mtx:3: not a Matrix Market file (Line too long"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path, text, message):
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        read_matrix_market(path, ConfigError)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("size", ["1000000000 1 1", "1 1000000000 1", "5000000 5000000 70000", f"3 3 {10**15}"])
def test_a_size_beyond_what_the_entries_justify_is_refused_before_anything_is_made(tmp_path, size):
    path = written(tmp_path, f"{HEAD} real general\n{size}\n1 1 1\n")
    with pytest.raises(TraceError, match=r"a\.mtx: a matrix of the declared size, .* is not supported: "):
        read_matrix_market(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")
def test_a_pipe_and_a_device_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.mtx")
    (tmp_path / "zero.mtx").symlink_to("/dev/zero")
    with pytest.raises(TraceError, match=r"pipe\.mtx: is a pipe, must be a regular file"):
        read_matrix_market(tmp_path / "pipe.mtx")
    with pytest.raises(TraceError, match=r"zero\.mtx: is a device, must be a regular file"):
        read_matrix_market(tmp_path / "zero.mtx")
