"""Test that pipes, devices and contradictory descriptions are refused at once, whatever format they stand for."""

import json
import os
import threading

import pytest

from rdmodel.errors import TraceError
from rdmodel.trace import storage
from tests.support import accelsim_traces, ppt_texts
from tests.support.small_traces import small
from tracegen import formats
from tracegen.formats import ppt


def refusal(path, **options):
    """Return the message with which a trace is refused; fail if reading it does not end."""
    found = []

    def read():
        try:
            formats.read(path, **options)
        except TraceError as error:
            found.append(str(error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(30)
    assert found, "reading does not end, or ends without an error"
    return found[0]


@pytest.fixture(params=["pipe", "zero"])
def special(request):
    """Return a function that makes a pipe without a writer, or a link to a device that never ends."""

    def make(path):
        path.unlink(missing_ok=True)
        if request.param == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        return path

    return make


SAID = "must be a regular file"


@pytest.mark.parametrize("name", [None, "trc", "accelsim", "kernelslist", "nvbit", "ppt", "parquet"])
def test_a_file_without_end_is_refused_at_once(tmp_path, special, name):
    if name == "parquet":
        pytest.importorskip("pyarrow")
    options = {"block": (32, 1, 1)} if name == "ppt" else {}
    assert SAID in refusal(special(tmp_path / "a.trc"), format=name, **options)


@pytest.mark.parametrize("name", ["meta.json", "blocks.npy", "addresses.npy"])
def test_a_native_trace_with_a_file_without_end_is_refused_at_once(tmp_path, special, name):
    storage.save(small(), tmp_path / "t")
    special(tmp_path / "t" / name)
    assert SAID in refusal(tmp_path / "t")


def test_a_description_that_is_too_long_is_refused_unread(tmp_path, monkeypatch):
    storage.save(small(), tmp_path / "t")
    monkeypatch.setattr(storage, "MAX_META_BYTES", 100)
    assert "must be at most 100" in refusal(tmp_path / "t", format="native")


def test_files_without_end_that_folders_and_lists_name_are_refused_at_once(tmp_path, special):
    special(tmp_path / "kernel_1_block_0.mem")
    assert SAID in refusal(tmp_path, block=(32, 1, 1))
    (tmp_path / "kernelslist.g").write_text("kernel-1.traceg\n")
    special(tmp_path / "kernel-1.traceg")
    assert SAID in refusal(tmp_path / "kernelslist.g")


def test_links_to_files_are_followed(tmp_path):
    (tmp_path / "a.traceg").write_text(accelsim_traces.one_warp(accelsim_traces.A))
    (tmp_path / "b.traceg").symlink_to("a.traceg")
    assert len(formats.read(tmp_path / "b.traceg")) == 1


# ---- Contradictions


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [('"version": 1', '"version": 1, "version": 2', "version"), ('"grid": [', '"grid": [9, 9, 9], "grid": [', "grid")],
)
def test_a_key_of_a_native_description_may_not_have_two_values(tmp_path, old, new, key):
    storage.save(small(), tmp_path / "t")
    meta = tmp_path / "t" / "meta.json"
    text = json.dumps(json.loads(meta.read_text()))
    assert old in text
    meta.write_text(text.replace(old, new))
    assert f"'{key}' is given twice" in refusal(tmp_path / "t", format="native")
    meta.write_text(text.replace('"version": 1', '"version": 1, "version": 1'))
    assert len(formats.read(tmp_path / "t")) == len(small())


def test_a_kernel_of_ppt_gpu_may_not_be_described_twice(tmp_path):
    (tmp_path / "kernel_1_block_0.mem").write_text(ppt_texts.record() + "\n")
    one, other = (ppt_texts.config(kernel_1=("scale", 1, threads)) for threads in (32, 64))
    (tmp_path / ppt.CONFIG_NAME).write_text(one + "\n" + other)
    assert "kernel_1 is described twice" in refusal(tmp_path)
    (tmp_path / ppt.CONFIG_NAME).write_text(one.replace('"grid_size"', '"block_size" : 64, "grid_size"'))
    assert "a key is given twice" in refusal(tmp_path)
