"""Test the refusal of bad .trc files with the line at fault, and lenient reading of the rest."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import LAST_ADDRESS, Columns
from tests.support.trace_files import file_writer, relaxed
from tests.support.trc_traces import GOOD, files
from tracegen.formats import compressed
from tracegen.formats.trc import read_trc


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""
    return file_writer(tmp_path, "kernel.trc")


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("", "", "empty"),
        ("\n", ":1", "blocksize: X Y Z"),
        ("0 0 0 4\n", ":1", "blocksize: X Y Z"),
        ("blocksize: 32 1\n0 0 0 4\n", ":1", "blocksize: X Y Z"),
        ("blocksize: 32 1 1 1\n0 0 0 4\n", ":1", "blocksize: X Y Z"),
        ("blocksize: 32 -1 1\n0 0 0 4\n", ":1", "blocksize: X Y Z"),
        ("blocksize: 0 1 1\n0 0 0 4\n", ":1", "1 to 1024 threads"),
        ("blocksize: 1025 1 1\n0 0 0 4\n", ":1", "1 to 1024 threads"),
        ("blocksize: " + "9" * 300 + " 1 1\n", ":1", "blocksize: X Y Z"),
        ("blocksize: 32 1 1\n", "", "no accesses"),
        ("blocksize: 32 1 1\n0 1 0 4\n", "", "without loads"),
        (GOOD + "x 0 0 4\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 0x80 4\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 1.5 4\n", ":3", "four decimal numbers"),
        (GOOD + "-1 0 0 4\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 -128 4\n", ":3", "four decimal numbers"),
        (GOOD + "+1 0 0 4\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 0\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 0 4 5\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 0 4 # why\n", ":3", "four decimal numbers"),
        (GOOD + "# a comment\n", ":3", "four decimal numbers"),
        (GOOD + "0 0 12", ":3", "the last line is incomplete"),
        (GOOD + "\n\n0 0\n", ":5", "four decimal numbers"),
        (GOOD + "0 2 0 4\n", ":3", "direction"),
        (GOOD + "0 0 0 0\n", ":3", "bytes must be 1 to 16"),
        (GOOD + "0 0 0 17\n", ":3", "bytes must be 1 to 16"),
        (GOOD + f"0 0 0 {2**64 + 4}\n", ":3", "bytes must be 1 to 16"),
        (GOOD + f"0 0 {LAST_ADDRESS + 1} 4\n", ":3", "address must be at most"),
        (GOOD + f"0 0 {2**64} 4\n", ":3", "address must be at most"),
        (GOOD + f"0 0 {10**40} 4\n", ":3", "address must be at most"),
        (GOOD + f"{(2**31 - 1) * 32} 0 0 4\n", ":3", "largest grid"),
        (GOOD + f"{2**64} 0 0 4\n", ":3", "largest grid"),
        (GOOD + "0 0 0 " + "0" * 300 + "4\n", ":3", "longer than"),
        (GOOD.encode() + bytes(range(256)), ":3", "four decimal numbers"),
        (b"\x7fELF" + bytes(5000), ":1", "blocksize: X Y Z"),
    ],
)
def test_a_bad_file_is_refused_with_one_line_that_says_where(written, text, where, problem):
    path = written(text)
    with pytest.raises(TraceError) as error:
        read_trc(path)
    message = str(error.value)
    assert message.startswith(f"{path}{where}: ")
    assert problem in message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 200


def test_an_endless_line_neither_fills_memory_nor_shifts_the_line_numbers(written, monkeypatch):
    monkeypatch.setattr(compressed, "CHUNK_BYTES", 64)
    text = GOOD + "0 0 1 " + "0" * 5000 + "4\n0 0 4 4\n0 9 0 4\n"
    with pytest.raises(TraceError, match=":3: longer than"):
        read_trc(written(text))
    trace = read_trc(written(text), lenient=True)
    assert trace.columns.addresses.tolist() == [0, 4]
    assert [message.split(": ")[0][-2:] for message in trace.skipped.examples] == [":3", ":5"]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TraceError, match=r"gone\.trc: No such file"):
        read_trc(tmp_path / "gone.trc")


@relaxed
@given(junk=st.binary(max_size=300))
def test_junk_never_does_more_than_raise_a_trace_error(written, junk):
    for text in (junk, GOOD.encode() + junk):
        for lenient in (False, True):
            with contextlib.suppress(TraceError):
                read_trc(written(text), lenient=lenient).columns.check()


@relaxed
@given(text=files(), data=st.data())
def test_lenient_reading_counts_bad_lines_and_keeps_the_rest(written, text, data):
    first, *lines = text.splitlines()
    bad = data.draw(st.lists(st.sampled_from(["junk", "1 2 3 4", "0 0 0 99", "0 0 0", "-1 0 0 4"]), max_size=9))
    mixed = list(lines)
    for line in bad:
        mixed.insert(data.draw(st.integers(0, len(mixed))), line)
    trace = read_trc(written("\n".join([first, *mixed, ""])), lenient=True)
    assert trace.skipped.lines == len(bad)
    assert len(trace.skipped.examples) == min(len(bad), 5)
    clean = read_trc(written(text))
    for name in set(Columns.__dataclass_fields__) - {"warp_start"}:
        np.testing.assert_array_equal(getattr(trace.columns, name), getattr(clean.columns, name), name)
    assert list(trace.blocks) == list(range(trace.launch.blocks))
    assert trace.skipped.blocks == trace.launch.blocks - len(clean.blocks)
    for block in clean.blocks:
        np.testing.assert_array_equal(trace.block(block).warp_start, clean.block(block).warp_start)


def test_lenient_reading_still_needs_a_header_and_an_access(written):
    with pytest.raises(TraceError, match="blocksize: X Y Z"):
        read_trc(written("block size 32\n0 0 0 4\n"), lenient=True)
    with pytest.raises(TraceError, match="no accesses"):
        read_trc(written("blocksize: 32 1 1\nx\n"), lenient=True)
