"""Test the choice of a trace format: by content, then by extension, for reading and for writing."""

from pathlib import Path

import pytest

from rdmodel.errors import TraceError
from rdmodel.trace import storage
from tests.support.trace_files import file_writer
from tests.support.trc_traces import GOOD, assert_same_columns
from tracegen import formats
from tracegen.formats.trc import read_trc


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""
    return file_writer(tmp_path, "kernel.trc")


def test_formats_are_recognised_by_content_then_by_extension(written, tmp_path):
    trace = read_trc(written(GOOD))
    assert_same_columns(formats.read(written(GOOD, "no-extension")), trace)
    storage.save(trace, tmp_path / "native")
    assert_same_columns(formats.read(tmp_path / "native"), trace)
    with pytest.raises(TraceError, match=r"bad\.TRC:1: expected 'blocksize"):
        formats.read(written("junk\n", "bad.TRC"))


def test_what_is_no_trace_is_refused(written, tmp_path):
    with pytest.raises(TraceError, match=r"not a trace of a known format \(native, .*trc, .*nvbit, ppt.*\)"):
        formats.read(written("junk\n", "junk.txt"))
    with pytest.raises(TraceError, match=r"folder without meta\.json"):
        formats.read(tmp_path)
    with pytest.raises(TraceError, match="No such file"):
        formats.read(tmp_path / "gone")
    with pytest.raises(TraceError, match=r"unknown trace format 'trk'; did you mean 'trc'\?"):
        formats.read(written(GOOD), format="trk")


def test_write_picks_the_format_by_extension(written, tmp_path):
    trace = read_trc(written(GOOD))
    assert formats.write(trace, tmp_path / "a.trc") == ()
    assert formats.write(trace, tmp_path / "atax.1") == ()
    assert formats.write(trace, tmp_path / "b.dat", format="trc") == ()
    assert (tmp_path / "a.trc").is_file()
    assert (tmp_path / "b.dat").is_file()
    assert (tmp_path / "atax.1" / "meta.json").is_file()
    assert_same_columns(formats.read(Path(tmp_path, "atax.1")), formats.read(tmp_path / "b.dat"))
