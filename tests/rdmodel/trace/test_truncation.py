"""Test what happens if a file of a native trace is truncated while the trace is mapped: a message, never a signal."""

import mmap
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest

import rdmodel as rd
from rdmodel.errors import TraceError
from rdmodel.trace import Columns, Trace, _truncation, storage
from rdmodel.trace.mapped_pages import Pages
from tests.support.paths import ROOT
from tests.support.raw_columns import LOAD, launch, make_raw
from tests.support.sanitizers import not_sanitized

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs SIGBUS of Linux")
SAID = "was truncated while it was read"


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a trace whose columns take several pages."""
    columns = Columns(**make_raw([[LOAD] * 3000] * 4))
    storage.save(Trace(launch(blocks=4, warps=1), columns), tmp_path / "t")
    return tmp_path / "t"


def run(program, *arguments):
    """Run a program in another process, and return its result."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("name", ["addresses", "mask", "warp_start", "op"])
def test_a_reader_that_goes_on_is_told_which_file_was_truncated(folder, name):
    trace = storage.load(folder)
    os.truncate(folder / f"{name}.npy", 130)
    with pytest.raises(TraceError, match=f"{name}.npy: {SAID}"):
        trace.pages.give_back()
    read = 0
    with pytest.raises(TraceError, match=f"{name}.npy: {SAID}"):  # noqa: PT012 - one of the next reads
        while read < 100:
            read += 1
            trace.pages.read(0, 1)


def test_a_trace_that_is_not_truncated_is_read_without_complaint(folder):
    trace = storage.load(folder)
    for _ in range(100):
        trace.pages.read(0, 1)
    assert rd.predict(trace, sms=1).misses.compulsory == 1


READ_ALL = """
import os, sys
from rdmodel.trace import storage
trace = storage.load(sys.argv[1])
trace.pages.give_back()
os.truncate(os.path.join(sys.argv[1], sys.argv[2]), int(sys.argv[3]))
print("truncated", flush=True)
print(trace.columns.addresses.sum() + trace.columns.pc.sum() + trace.columns.warp_start.sum())
"""


@LINUX
@pytest.mark.parametrize("name", ["addresses.npy", "pc.npy"])
def test_a_page_that_is_gone_ends_the_process_with_a_message_and_no_signal(folder, name):
    done = run(READ_ALL, folder, name, 4096)
    assert done.stdout == "truncated\n"
    assert done.stderr == f"rdmodel: error: {folder / name}: {SAID}, or its disk fails\n"
    assert done.returncode == 2


def test_a_name_with_control_characters_is_escaped(tmp_path):
    folder = tmp_path / "a\x1b[31m"
    storage.save(Trace(launch(blocks=1, warps=1), Columns(**make_raw([[LOAD] * 3000]))), folder)
    done = run(READ_ALL, folder, "addresses.npy", 4096)
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "a\\x1b[31m" in done.stderr


@LINUX
@pytest.mark.parametrize("command", [["predict"], ["simulate"], ["info"], ["mrc", "--threads", "all"]])
def test_no_command_is_ended_by_a_signal(folder, command):
    """A hook truncates the file as soon as the trace has been loaded."""
    program = """
import os, sys
from rdmodel.cli import main
from rdmodel.trace import storage
load = storage.load

def load_and_truncate(path, **options):
    trace = load(path, **options)
    os.truncate(os.path.join(path, "addresses.npy"), 4096)
    return trace

storage.load = load_and_truncate
sys.exit(main([*sys.argv[2:], sys.argv[1], "--sms", "1"][: 20]))
"""
    if command == ["info"]:
        program = program.replace(', "--sms", "1"', "")
    done = run(program, folder, *command)
    assert done.returncode == 2
    assert done.stderr.startswith("rdmodel: error: ")
    assert f"addresses.npy: {SAID}" in done.stderr
    assert done.stderr.count("\n") == 1


OTHER_SIGNALS = """
import os, signal, sys
import numpy as np
from rdmodel.trace import storage
trace = storage.load(sys.argv[1])
if sys.argv[2] == "sent":
    os.kill(os.getpid(), signal.SIGBUS)
else:
    other = np.memmap(sys.argv[3], np.uint8, "r")
    os.truncate(sys.argv[3], 0)
    print(other[5000])
"""


@LINUX
@not_sanitized
@pytest.mark.parametrize("how", ["sent", "of another map"])
def test_other_bus_errors_keep_their_meaning(folder, tmp_path, how):
    (tmp_path / "other").write_bytes(bytes(1 << 16))
    done = run(OTHER_SIGNALS, folder, how, tmp_path / "other")
    assert done.returncode == -signal.SIGBUS


@LINUX
def test_places_of_maps_that_are_gone_are_used_again(tmp_path):
    assert _truncation.install()
    (tmp_path / "file").write_bytes(bytes(5000))
    with (tmp_path / "file").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    first = _truncation.watch(mapped, b"file")
    _truncation.forget(first)
    assert _truncation.watch(mapped, b"x" * 5000) == first
    _truncation.forget(first)
    places = [_truncation.watch(mapped, b"file") for _ in range(5000)]
    assert places[-1] == -1
    for place in places:
        _truncation.forget(place)


def test_a_copy_of_pages_has_no_files(folder):
    assert not pickle.loads(pickle.dumps(storage.load(folder).pages)).mapped


def test_pages_without_maps_need_no_names():
    Pages(()).check()
    assert np.asarray(Pages(()).mapped) == np.False_
