"""The native form: round trips, mapping instead of reading, writing all or nothing, and damaged folders."""

import json
import mmap
import os
import subprocess
import sys
import textwrap
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import Launch, Trace, replacement, storage
from rdmodel.trace.storage import DTYPES, load, read_source, save
from tests.support.builders import make_trace
from tests.support.examples import examples
from tests.support.random_traces import FIELDS, ProgramTrace, column_traces, program_traces, segment, write_out
from tests.support.small_traces import small

relaxed = examples(50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def folder(tmp_path):
    """Return a folder that holds a small trace."""
    path = tmp_path / "trace"
    save(small(), path)
    return path


def edit_meta(folder, **changes):
    where = folder / "meta.json"
    where.write_text(json.dumps({**json.loads(where.read_text()), **changes}))


# ---- Round trips


@relaxed
@given(trace=column_traces())
def test_a_trace_comes_back_exactly(tmp_path, trace):
    path = tmp_path / "t"
    save(trace, path, overwrite=True)
    back = load(path)
    for name in FIELDS:
        wanted, found = getattr(trace.columns, name), getattr(back.columns, name)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted, name)
    assert list(back.blocks) == list(trace.blocks)
    assert back.launch == trace.launch


@relaxed
@given(trace=program_traces(), limit=st.sampled_from([1, 100, 10**6]))
def test_programs_are_written_out(tmp_path, trace, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "split_block", lambda *at: pieces_of(*at, limit))
        save(trace, tmp_path / "t", overwrite=True)
    assert write_out(load(tmp_path / "t")) == write_out(trace)


pieces_of = storage.split_block


def test_columns_are_plain_npy_files_mapped_and_not_read(folder):
    back = load(folder)
    for name in FIELDS:
        column = getattr(back.columns, name)
        assert not column.flags.writeable
        assert is_mapped(column), name
        assert np.load(folder / f"{name}.npy").dtype.str == DTYPES[name]


def is_mapped(array):
    while array is not None:
        if isinstance(array, mmap.mmap):
            return True
        array = getattr(array, "base", None)
    return False


def test_the_source_is_kept(tmp_path):
    save(small(), tmp_path / "t", source={"kernel": "gemm", "parameters": {"NX": 512}})
    assert read_source(tmp_path / "t") == {"kernel": "gemm", "parameters": {"NX": 512}}


def test_a_source_that_is_not_json_is_refused_before_anything_is_written(tmp_path):
    for source in ({"array": np.zeros(2)}, {"number": float("nan")}):
        with pytest.raises(TraceError, match="source: cannot be written as JSON"):
            save(small(), tmp_path / "t", source=source)
    assert os.listdir(tmp_path) == []


def test_progress_counts_blocks(tmp_path):
    seen = []
    save(small(blocks=4), tmp_path / "t", progress=lambda *at: seen.append(at))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_saving_a_long_loop_needs_memory_for_pieces_only(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "split_block", lambda *at: pieces_of(*at, 1 << 12))
    launch = Launch(kernel="loop", grid=(1, 1, 1), block=(64, 1, 1))

    def peak(trips):
        loop = segment(np.random.default_rng(0), 2, trips, 2)
        loop.mask[:] = 2**32 - 1
        loop.base[:] += 1 << 40
        tracemalloc.start()
        save(ProgramTrace(launch, {0: [loop]}), tmp_path / "t", overwrite=True)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(100)
    assert peak(10_000) < 2 * peak(1_000)


# ---- All or nothing


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_in_the_middle_leaves_nothing(tmp_path, error):
    with pytest.raises(error):
        save(small(), tmp_path / "t", progress=raise_after(2, error))
    assert os.listdir(tmp_path) == []


def test_an_interrupted_overwrite_leaves_the_old_trace(folder):
    with pytest.raises(KeyboardInterrupt):
        save(small(7), folder, overwrite=True, progress=raise_after(2, KeyboardInterrupt))
    assert load(folder).columns.addresses.tolist() == [0, 0, 0]
    assert os.listdir(folder.parent) == ["trace"]


def raise_after(calls, error):
    def progress(done, total):
        if done == calls:
            raise error

    return progress


@pytest.mark.parametrize("failing", [1, 2])
def test_a_failed_rename_leaves_the_old_trace(folder, monkeypatch, failing):
    rename, calls = type(folder).rename, []

    def fail(self, target):
        calls.append(target)
        if len(calls) == failing:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(replacement, "exchange", lambda one, other: False)
    monkeypatch.setattr(type(folder), "rename", fail)
    with pytest.raises(TraceError, match="cannot be written: Input/output error"):
        save(small(7), folder, overwrite=True)
    assert load(folder).columns.addresses.tolist() == [0, 0, 0]
    assert os.listdir(folder.parent) == ["trace"]


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("column", ["pc", "addresses"])
def test_a_killed_process_leaves_the_old_trace_or_none(tmp_path, existing, column):
    path = tmp_path / "t"
    if existing:
        save(small(), path)
    script = f"""
        import os
        import sys
        from tests.support.small_traces import small
        from rdmodel.trace import storage

        write = storage._ColumnFile.append

        def append(self, values):
            write(self, values)
            if self._file.name.endswith("/{column}.npy"):
                os._exit(9)

        storage._ColumnFile.append = append
        storage.save(small(7), {str(path)!r}, overwrite=True)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=environment, check=False)
    assert done.returncode == 9
    if existing:
        assert load(path).columns.addresses.tolist() == [0, 0, 0]
    else:
        assert not path.exists()


def test_a_trace_can_be_saved_over_the_folder_it_is_mapped_from(folder):
    save(load(folder), folder, overwrite=True)
    assert load(folder).columns.addresses.tolist() == [0, 0, 0]


def test_an_existing_trace_is_replaced_only_on_request(folder):
    with pytest.raises(TraceError, match=r"exists already; overwrite=True \(--overwrite\) replaces it"):
        save(small(7), folder)
    save(small(7), folder, overwrite=True)
    assert load(folder).columns.addresses.tolist() == [7, 7, 7]
    assert os.listdir(folder.parent) == ["trace"]


def test_nothing_is_overwritten_that_save_did_not_write(folder):
    foreign = folder.parent / "thesis"
    foreign.mkdir()
    (foreign / "chapter.tex").write_text("all of it")
    note = folder.parent / "note.txt"
    note.write_text("a note")
    (folder / "notes.txt").write_text("mine")
    for path in (foreign, note, folder):
        with pytest.raises(TraceError, match="never overwritten"):
            save(small(), path, overwrite=True)
    assert (foreign / "chapter.tex").read_text() == "all of it"
    assert note.read_text() == "a note"
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_missing_parent_folder_is_said(tmp_path):
    with pytest.raises(TraceError, match="cannot be written: No such file or directory"):
        save(small(), tmp_path / "no" / "t")


# ---- Damaged folders


def refusal(folder):
    """Return the one-line message with which `load` refuses a folder, with the folder taken out."""
    with pytest.raises(TraceError) as error:
        load(folder)
    message = str(error.value)
    assert message.startswith(str(folder))
    assert "\n" not in message
    return message.removeprefix(str(folder))


def test_a_newer_version_is_refused_by_name(folder):
    edit_meta(folder, version=3)
    assert refusal(folder) == "/meta.json: version 3 is newer than this rdmodel reads (2)"


@pytest.mark.parametrize("version", [0, -1, "1", 1.5, None, True])
def test_a_version_that_is_no_version_is_refused(folder, version):
    edit_meta(folder, version=version)
    assert "/meta.json: version=" in refusal(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "other"}', "\udcff", "[" * 100_000, "5"])
def test_a_meta_file_that_is_none_is_refused(folder, text):
    (folder / "meta.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert refusal(folder).startswith("/meta.json: is not")


@pytest.mark.parametrize("name", ["meta.json", *(f"{name}.npy" for name in DTYPES)])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert refusal(folder) == f"/{name}: No such file or directory"


@pytest.mark.parametrize("name", DTYPES)
def test_a_truncated_column_is_named(folder, name):
    where = folder / f"{name}.npy"
    whole = where.read_bytes()
    for length in (0, 5, 64, len(whole) - 1):
        where.write_bytes(whole[:length])
        assert refusal(folder).startswith(f"/{name}.npy: ")
    where.write_bytes(whole + b"x")
    assert refusal(folder) == f"/{name}.npy: 1 bytes follow the last value"


@pytest.mark.parametrize(
    "other",
    [
        np.zeros(3, ">i8"),
        np.zeros(3, np.float64),
        np.zeros((1, 3), np.int64),
        np.zeros(4, np.int64),
        np.array([None, 1, {}]),
    ],
)
def test_a_column_of_another_type_or_shape_is_refused(folder, other):
    np.save(folder / "addresses.npy", other, allow_pickle=True)
    assert refusal(folder).startswith("/addresses.npy: ")


def test_names_that_cannot_be_shown_are_read_with_escapes(folder):
    launch = json.loads((folder / "meta.json").read_text())["launch"]
    array = {"name": "A\ud800", "base": 0, "bytes": 8}
    edit_meta(folder, launch={**launch, "kernel": "two\nlines \x1b[2J", "arrays": [array]})
    trace = load(folder)
    assert trace.launch.kernel == r"two\nlines \x1b[2J"
    assert trace.launch.arrays[0].name == r"A\ud800"
    save(trace, folder, overwrite=True)
    assert load(folder).launch == trace.launch


DESCRIBED = "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }"


@pytest.mark.parametrize(
    "header",
    [
        DESCRIBED + "(",
        DESCRIBED.replace("shape", "shape" + "-" * 3000),
        DESCRIBED.replace("(3,)", "(3L,)"),
        DESCRIBED.replace("(3,)", f"({1 << 62},)"),
        DESCRIBED.replace("(3,)", f"({1 << 64},)"),
        DESCRIBED.replace("(3,)", "(-3,)"),
        DESCRIBED.replace("(3,)", "()"),
        DESCRIBED.replace("<i8", "\\d"),
        DESCRIBED.replace("'<i8'", "[('a', '<i8')]"),
        "(" * 3000,
        "\0" * 60,
        "",
    ],
)
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_header_that_only_python_could_read_is_refused_in_one_short_line(folder, header, version):
    raw = header.encode() + b"\n"
    length = len(raw).to_bytes(2 if version == 1 else 4, "little")
    (folder / "pc.npy").write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + raw + bytes(24))
    message = refusal(folder)
    assert message.startswith("/pc.npy: ")
    assert len(message.splitlines()) == 1
    assert len(message) < 400


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_columns_that_numpy_wrote_in_any_version_are_read(folder, version):
    with (folder / "addresses.npy").open("wb") as file:
        np.lib.format.write_array(file, np.array([1, 2, 3]), version)
    assert load(folder).columns.addresses.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr':'<i8','fortran_order':False,'shape':(3,)}\n",
        b"{'descr': '<i8', 'fortran_order': True, 'shape': (3,), }       \n",
        b"{ 'descr': '<i8', 'fortran_order': False, 'shape': (3, ), }",
    ],
)
def test_columns_of_other_writers_are_read(folder, header):
    values = np.array([1, 2, 3], "<i8").tobytes()
    (folder / "addresses.npy").write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + values)
    assert load(folder).columns.addresses.tolist() == [1, 2, 3]


def test_columns_of_different_lengths_are_refused(folder):
    counts = json.loads((folder / "meta.json").read_text())["columns"]
    np.save(folder / "gap.npy", np.zeros(2, np.int32))
    edit_meta(folder, columns={**counts, "gap": 2})
    assert refusal(folder) == "/gap.npy: 2 values, but pc.npy has 3"


@pytest.mark.parametrize("columns", [None, [], {}, {"blocks": -1}, {"blocks": "3"}])
def test_lengths_that_are_missing_are_said(folder, columns):
    edit_meta(folder, columns=columns)
    assert refusal(folder) == "/meta.json: columns: the length of blocks is missing"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"grid": [0, 1, 1]}, "grid=(0, 1, 1)"),
        ({"grid": [1, 1]}, "grid=(0, 0, 0)"),
        ({"grid": "111"}, "grid=(0, 0, 0)"),
        ({"block": ["a", 1, 1]}, "'a' is not a whole number"),
        ({"block": [2**70, 1, 1]}, "is not a whole number from 0 to 2^63 - 1"),
        ({"registers": -1}, "-1 is not a whole number"),
        ({"shared_memory": 1.5}, "1.5 is not a whole number"),
        ({"arrays": [{"name": "A", "base": 0}]}, "bytes is missing"),
        ({"arrays": 5}, "not iterable"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(folder, changes, problem):
    launch = json.loads((folder / "meta.json").read_text())["launch"]
    edit_meta(folder, launch={**launch, **changes})
    message = refusal(folder)
    assert message.startswith("/meta.json: launch: ")
    assert problem in message


@pytest.mark.parametrize("launch", [None, 5, [], {}])
def test_a_launch_that_is_none_is_refused(folder, launch):
    edit_meta(folder, launch=launch)
    assert refusal(folder).startswith("/meta.json: launch: ")


def test_columns_that_disagree_are_refused_unless_trusted(folder):
    np.save(folder / "mask.npy", np.array([1, 3, 1], np.uint32))
    assert refusal(folder) == ": warp 1, instruction 0: 1 addresses disagree with its active mask"
    assert len(load(folder, trusted=True)) == 3


def test_blocks_outside_the_grid_are_refused(folder):
    np.save(folder / "blocks.npy", np.array([0, 1, 3]))
    assert refusal(folder) == ": blocks: must be ascending block ids below 3"


def test_a_folder_that_is_no_trace_is_refused(tmp_path):
    assert refusal(tmp_path) == "/meta.json: No such file or directory"


# ---- cache operators


def with_cache_ops(values):
    columns = replace(loads(3).columns, cache_op=values)
    return Trace(loads(3).launch, columns)


def loads(rows):
    return make_trace([[[(0, 0, 0, (line,)) for line in range(rows)]]], warps=1)


def test_cache_operators_are_a_column_of_version_2(tmp_path):
    save(with_cache_ops([0, 2, 16]), tmp_path / "t")
    assert json.loads((tmp_path / "t" / "meta.json").read_text())["version"] == 2
    back = load(tmp_path / "t")
    assert back.columns.cache_op.tolist() == [0, 2, 16]
    assert back.may_have_cache_ops


@pytest.mark.parametrize("values", [None, [0, 0, 0]])
def test_a_trace_without_cache_operators_is_written_as_before(tmp_path, values):
    save(loads(3), tmp_path / "plain")
    save(with_cache_ops(values), tmp_path / "t")
    names = sorted(path.name for path in (tmp_path / "plain").iterdir())
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == names
    assert all((tmp_path / "t" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes() for name in names)
    assert json.loads((tmp_path / "t" / "meta.json").read_text())["version"] == 1


def test_a_number_that_is_no_cache_operator_is_refused_with_its_place(tmp_path):
    save(with_cache_ops([0, 2, 2]), tmp_path / "t")
    np.save(tmp_path / "t" / "cache_op.npy", np.array([0, 2, 15], np.uint8))
    with pytest.raises(TraceError, match=r"warp 0, instruction 2: cache_op 15 is no operator$"):
        load(tmp_path / "t")


def test_cache_operators_after_many_instructions_without_are_in_their_places(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_ZEROS_AT_ONCE", 2)
    blocks = [[[(0, 0, 0, (1,))] * 5], [[(0, 0, 0, (1,))] * 2]]
    trace = make_trace(blocks, warps=1)
    marked = Trace(trace.launch, replace(trace.columns, cache_op=[0] * 6 + [5]))
    save(ProgramTrace(trace.launch, {0: marked.block(0), 1: marked.block(1)}), tmp_path / "t")
    assert load(tmp_path / "t").columns.cache_op.tolist() == [0] * 6 + [5]
