"""The Parquet form: nothing is lost, others can read it, and what is broken is an error."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel.cli.arguments import WRITABLE_FORMATS
from rdmodel.errors import TraceError
from rdmodel.trace import Columns, Launch, Trace
from tests.support.examples import examples
from tests.support.paths import ROOT
from tests.support.random_traces import FIELDS, ProgramTrace, active, column_traces, program_traces, write_out
from tracegen import formats
from tracegen.formats import empty_blocks as silent_blocks
from tracegen.formats import parquet, parquet_columns
from tracegen.formats.parquet import PARQUET_FORMAT_VERSION, read_parquet, write_parquet

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def small_trace() -> Trace:
    """Two blocks of two warps with a load, a barrier and a store each; block 1 of 3 is not held."""
    columns = Columns(
        warp_start=np.array([0, 3, 3, 5, 6]),
        pc=np.arange(6),
        op=np.array([0, 3, 1, 0, 2, 0]),
        space=np.zeros(6),
        size=np.full(6, 4),
        gap=np.arange(6),
        needs=np.array([0, 1, 2**64 - 1, 4, 5, 6], np.uint64),
        loop_exit=np.array([0, 0, 0, 1, 0, 0]),
        mask=np.array([3, 7, 1, 5, 1 << 31, 1]),
        address_start=np.array([0, 2, 2, 3, 5, 6, 7]),
        addresses=np.array([128, 132, 256, 2**62, 64, 32, 0]),
    )
    return Trace(Launch(kernel="k", grid=(3, 1, 1), block=(64, 1, 1)), columns, [0, 2])


def rewritten(tmp_path: Path, change=lambda table: table, **metadata: str | None) -> Path:
    """Return a file with the small trace, its table changed and its metadata replaced (None: taken away)."""
    path = tmp_path / "changed.parquet"
    write_parquet(small_trace(), path, overwrite=True)
    table = pq.read_table(path)
    kept = {**table.schema.metadata}
    table = change(table)
    for name, value in metadata.items():
        key = f"rdmodel.{name}".encode()
        kept.pop(key)
        if value is not None:
            kept[key] = value.encode()
    pq.write_table(table.replace_schema_metadata(kept), path)
    return path


def with_column(name: str, values: list, kind: object = None) -> object:
    def change(table):
        at = table.schema.get_field_index(name)
        field = table.schema.field(name) if kind is None else pa.field(name, kind, nullable=False)
        return table.set_column(at, field, pa.array(values, field.type))

    return change


# ---- round trips


@examples(60)
@given(trace=column_traces())
def test_columns_come_back_as_they_were(tmp_path_factory, trace):
    path = tmp_path_factory.mktemp("parquet") / "t.parquet"
    write_parquet(trace, path)
    back = read_parquet(path)
    assert back.launch == trace.launch
    assert list(back.blocks) == list(trace.blocks)
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(back.columns, name), getattr(trace.columns, name), strict=True)
    back.columns.check()


@examples(40)
@given(
    trace=st.one_of(column_traces(40), program_traces()),
    lanes=st.sampled_from([1, 40, 1 << 20]),
    rows=st.sampled_from([1, 7]),
    memory=st.sampled_from([1, 4096, 1 << 20]),
)
def test_neither_row_groups_nor_memory_change_what_comes_back(tmp_path_factory, trace, lanes, rows, memory):
    path = tmp_path_factory.mktemp("parquet") / "t.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "ROW_GROUP_ADDRESSES", lanes)
        patch.setattr(parquet, "BATCH_ROWS", rows)
        write_parquet(trace, path)
        back = read_parquet(path, memory=memory)
    assert write_out(back) == write_out(trace)


def test_a_file_of_many_row_groups_is_read_with_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROW_GROUP_ADDRESSES", 64)
    trace = many_rows()
    write_parquet(trace, tmp_path / "t.parquet")
    assert pq.ParquetFile(tmp_path / "t.parquet").num_row_groups > 10
    back = read_parquet(tmp_path / "t.parquet", memory=1 << 14)
    assert write_out(back) == write_out(trace)
    base = back.columns.addresses
    while not isinstance(base, np.memmap):
        base = base.base
        assert base is not None, "the columns are not mapped"


def many_rows() -> Trace:
    n, rng = 1000, np.random.default_rng(1)
    mask = rng.integers(1, 2**32, n)
    lanes = np.bitwise_count(mask)
    columns = Columns(
        warp_start=np.arange(0, n + 1, 25),
        **{name: np.zeros(n, int) for name in ("pc", "op", "space", "gap", "needs", "loop_exit")},
        size=np.full(n, 4),
        mask=mask,
        address_start=np.concatenate([[0], np.cumsum(lanes, dtype=np.int64)]),
        addresses=rng.integers(0, 2**40, int(lanes.sum())),
    )
    return Trace(Launch(kernel="many", grid=(20, 1, 1), block=(64, 1, 1)), columns)


def test_a_temporary_folder_that_is_full_is_an_error(tmp_path, monkeypatch):
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    write_parquet(many_rows(), tmp_path / "t.parquet")
    monkeypatch.setattr(parquet_columns.tempfile, "TemporaryFile", full)
    with pytest.raises(TraceError, match=r"the temporary folder \(TMPDIR\) cannot be written: No space left"):
        read_parquet(tmp_path / "t.parquet", memory=1)


def test_other_tools_find_named_columns_and_the_launch(tmp_path):
    trace = small_trace()
    write_parquet(trace, tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert json.loads(table.schema.metadata[b"rdmodel.launch"])["kernel"] == "k"
    assert json.loads(table.schema.metadata[b"rdmodel.blocks"]) == [[0, 1], [2, 3]]
    found = {}
    for row in table.to_pylist():
        plain = tuple(row[name] for name in ("pc", "op", "space", "size", "gap", "needs", "mask", "loop_exit"))
        lanes = dict(zip(active(row["op"], row["mask"]), row["addresses"], strict=True))
        found.setdefault((row["block"], row["warp"]), []).append((*plain, row.get("cache_op", 0), lanes))
    assert found == {key: rows for key, rows in write_out(trace).items() if rows}
    assert pq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_it_is_recognised_by_its_content_and_chosen_by_its_extension(tmp_path):
    assert formats.write(small_trace(), tmp_path / "t.parquet") == ()
    (tmp_path / "t.parquet").rename(tmp_path / "t.trc")
    assert formats.recognise(tmp_path / "t.trc").name == "parquet"
    assert write_out(formats.read(tmp_path / "t.trc")) == write_out(small_trace())


def test_the_command_writes_and_reads_it(tmp_path, run):
    path = str(tmp_path / "t.parquet")
    status, out, err = run("trace", "atax.2", "--param", "NX=32", "--param", "NY=64", "-o", path)
    assert (status, out, err) == (0, f"{path}: wrote 1 of 1 blocks of atax.2\n", "")
    assert formats.recognise(path).name == "parquet"
    assert run("trace", path, "-o", str(tmp_path / "archive"), "--format", "parquet")[0] == 0
    assert write_out(read_parquet(tmp_path / "archive")) == write_out(tracegen.kernel("atax.2", NX=32, NY=64))


def test_the_formats_that_the_command_offers_can_be_written():
    assert all(formats.FORMATS[name].write is not None for name in WRITABLE_FORMATS)


# ---- writing


class Killer(ProgramTrace):
    """A trace that fails at its last block."""

    def block(self, block):
        if block == self.blocks[-1]:
            raise TraceError("the last block")
        return super().block(block)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "t.parquet"
    write_parquet(small_trace(), path)
    broken = Killer(Launch(kernel="k", grid=(2, 1, 1), block=(32, 1, 1)), {0: [], 1: []})
    with pytest.raises(TraceError, match="the last block"):
        write_parquet(broken, path, overwrite=True)
    assert os.listdir(tmp_path) == ["t.parquet"]
    assert write_out(read_parquet(path)) == write_out(small_trace())


def test_a_write_that_is_killed_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.parquet"
    write_parquet(small_trace(), path)
    program = (
        "import os, signal\nfrom rdmodel.trace import Launch, Trace\nfrom tracegen.formats.parquet import *\n"
        "class Killer(Trace):\n"
        "    def __init__(self):\n"
        "        self.launch, self.blocks = Launch(kernel='k', grid=(2, 1, 1), block=(32, 1, 1)), range(2)\n"
        "    def block(self, block):\n"
        "        if block: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return []\n"
        f"write_parquet(Killer(), {str(path)!r}, overwrite=True)\n"
    )
    root = str(ROOT)
    done = subprocess.run([sys.executable, "-c", program], cwd=root, env={**os.environ, "PYTHONPATH": root})
    assert done.returncode == -signal.SIGKILL
    assert write_out(read_parquet(path)) == write_out(small_trace())


def test_too_little_memory_is_not_taken_for_a_bad_file(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 4288 failed")

    monkeypatch.setattr(pq, "ParquetFile", refuse)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(MemoryError):
        formats.read(tmp_path / "t.parquet")


def test_a_parquet_file_in_another_compression_is_refused_as_that(tmp_path):
    path = tmp_path / "t.parquet.gz"
    path.write_bytes(gzip.compress(b"PAR1 and so on PAR1"))
    with pytest.raises(TraceError, match=r"t\.parquet\.gz: Parquet is compressed inside; decompress the file around"):
        formats.read(path)


def test_what_exists_is_replaced_only_if_that_is_wanted(tmp_path):
    path = tmp_path / "t.parquet"
    write_parquet(small_trace(), path)
    with pytest.raises(TraceError, match=r"exists already; overwrite=True \(--overwrite\) replaces it"):
        write_parquet(small_trace(), path)
    write_parquet(many_rows(), path, overwrite=True)
    assert read_parquet(path).launch.kernel == "many"
    with pytest.raises(TraceError, match="exists already and is not a file"):
        write_parquet(small_trace(), tmp_path, overwrite=True)
    with pytest.raises(TraceError, match="cannot be written: No such file"):
        write_parquet(small_trace(), tmp_path / "no" / "t.parquet")


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    write_parquet(small_trace(), tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in (lambda: read_parquet(tmp_path / "t.parquet"), lambda: write_parquet(small_trace(), tmp_path / "u")):
        with pytest.raises(TraceError, match=r"needs pyarrow: pip install 'rdmodel\[parquet\]'"):
            call()


# ---- bad input

BLOCKS = "rdmodel.blocks: must be ascending ranges of blocks below 3"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": None}, "a Parquet file, but not a trace"),
        ({"format": "another"}, "a Parquet file, but not a trace"),
        (
            {"version": str(PARQUET_FORMAT_VERSION + 1)},
            f"version {PARQUET_FORMAT_VERSION + 1} is newer than this rdmodel reads \\({PARQUET_FORMAT_VERSION}\\)",
        ),
        ({"version": "0"}, "rdmodel.version='0': must be a whole number of at least 1"),
        ({"version": "one"}, "rdmodel.version='one': must be"),
        ({"version": None}, "rdmodel.version='': must be"),
        ({"launch": None}, "rdmodel.launch is missing"),
        ({"launch": "{"}, "rdmodel.launch: is not JSON"),
        ({"launch": "[]"}, "launch: "),
        ({"launch": "{}"}, "launch: arrays is missing"),
        ({"blocks": "[" * 100_000}, "rdmodel.blocks: is not JSON"),
        ({"blocks": "7"}, BLOCKS),
        ({"blocks": "[[0, 9]]"}, BLOCKS),
        ({"blocks": "[[1, 2], [0, 1]]"}, BLOCKS),
        ({"blocks": "[[0, 0]]"}, BLOCKS),
        ({"blocks": "[[0, true]]"}, BLOCKS),
        ({"blocks": "[[0, 2]]"}, "block 2 is not among those of rdmodel.blocks"),
        ({"blocks": "[]"}, "block 0 is not among those of rdmodel.blocks"),
    ],
)
def test_metadata_that_is_wrong_is_refused(tmp_path, metadata, message):
    path = rewritten(tmp_path, **metadata)
    with pytest.raises(TraceError, match=message) as error:
        read_parquet(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "cannot be read" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop_columns("mask"), "the column mask is missing"),
        (with_column("pc", [0] * 6, pa.int64()), "the column pc is int64 not null, not int32 not null"),
        (with_column("addresses", [0] * 6, pa.int64()), "the column addresses is int64 not null, not list"),
        (with_column("block", [0, 0, 0, 2, 2, 3]), "rows from 0: block 3: must be below 3"),
        (with_column("block", [0, 0, 0, 2, 2, -1]), "rows from 0: block -1: must be below 3"),
        (with_column("warp", [0, 0, 0, 0, 0, 2]), "rows from 0: warp 2: must be below 2"),
        (lambda table: table.take([0, 1, 2, 5, 3, 4]), "block 2: rows are not in the order of blocks and warps"),
        (lambda table: table.take([3, 4, 5, 0, 1, 2]), "block 0: rows are not in the order of blocks and warps"),
        (with_column("op", [0, 3, 1, 0, 4, 0]), "rows from 0: warp 0, instruction 4: op 4 is not one of 0 to 3"),
        (with_column("mask", [7, 7, 1, 5, 1 << 31, 1]), "2 addresses disagree with its active mask"),
        (with_column("addresses", [[128, 132], [], [256], [-1, 64], [32], [0]]), "address -1 is negative"),
    ],
)
def test_columns_that_are_wrong_are_refused(tmp_path, change, message):
    path = rewritten(tmp_path, change)
    with pytest.raises(TraceError, match=message) as error:
        read_parquet(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "cannot be read" not in str(error.value)


def test_values_that_may_be_missing_are_refused(tmp_path):
    def change(table):
        return table.set_column(2, pa.field("pc", pa.int32()), pa.array([1, None, 2, 3, 4, 5], pa.int32()))

    with pytest.raises(TraceError, match="the column pc is int32, not int32 not null"):
        read_parquet(rewritten(tmp_path, change))


def test_a_file_that_claims_more_warps_than_it_has_instructions_for_is_refused(tmp_path):
    launch = {"kernel": "k", "grid": [2**31, 1, 1], "block": [1024, 1, 1], "arrays": [], "registers": 0}
    path = rewritten(tmp_path, launch=json.dumps({**launch, "shared_memory": 0}), blocks="[[0, 2147483648]]")
    with pytest.raises(TraceError, match="68719476736 warps for 6 instructions; at most"):
        read_parquet(path)


def test_nearly_silent_traces_that_could_not_be_read_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(silent_blocks, "_MIN_ALLOWED_WARPS", 2)
    silent = ProgramTrace(Launch(kernel="k", grid=(3, 1, 1), block=(32, 1, 1)), {0: [], 1: [], 2: []})
    with pytest.raises(TraceError, match="cannot be written: only 0 instructions in 3 blocks"):
        write_parquet(silent, tmp_path / "t.parquet")
    assert os.listdir(tmp_path) == []


@examples(150)
@given(data=st.data())
def test_a_damaged_file_is_an_error_or_the_same_trace(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("parquet")
    write_parquet(small_trace(), folder / "t.parquet")
    content = bytearray((folder / "t.parquet").read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for at in data.draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=3)):
        if content:
            content[at] ^= data.draw(st.integers(1, 255))
    (folder / "t.parquet").write_bytes(content)
    try:
        back = read_parquet(folder / "t.parquet")
    except TraceError:
        return
    back.columns.check()


def test_a_file_that_is_not_there_or_not_parquet(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and nothing else")
    for path in (tmp_path / "t.parquet", tmp_path / "none", tmp_path):
        with pytest.raises(TraceError, match=f"{path}: (cannot be read|No such file|is a folder)"):
            read_parquet(path)
