"""Reading of CUDA, PTX, launch and data files: what is no regular file is refused at once."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

from rdmodel.errors import RdmodelError, TraceError
from tracegen import cuda
from tracegen.cuda.arguments import parse_argument
from tracegen.cuda.source import Source, project_headers, read_source

IDLE = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry idle() { ret; }\n"

READERS = {
    "k.ptx": lambda path: cuda.trace(path, "idle", 1, 32, []),
    "k.cu": lambda path: cuda.trace(path, "idle", 1, 32, []),
    "k.toml": lambda path: list(cuda.launches(path)),
    "data.npy": lambda path: parse_argument(f"@{path}", "x"),
    "data.mtx": lambda path: parse_argument(f"@{path}:rows", "x"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_link_to_an_endless_device_is_refused(tmp_path, name):
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(RdmodelError, match=rf"{re.escape(name)}: is a device, must be a regular file"):
        READERS[name](tmp_path / name)


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_without_a_writer_is_refused(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(RdmodelError, match=rf"{re.escape(name)}: is a pipe, must be a regular file"):
        READERS[name](tmp_path / name)


def test_a_pipe_is_no_header_of_the_project(tmp_path):
    os.mkfifo(tmp_path / "a.h")
    assert project_headers(Source("k.cu", '#include "a.h"\n', tmp_path), []) == {}


@pytest.mark.parametrize("end", ["\0", "\n\0\0", "\0\n"])
def test_ptx_with_a_null_character_at_its_end_is_read(tmp_path, end):
    (tmp_path / "k.ptx").write_text(IDLE + end)
    assert len(cuda.trace(tmp_path / "k.ptx", "idle", 1, 32, [])) == 0
    assert len(cuda.trace(IDLE + end, "idle", 1, 32, [])) == 0


@pytest.mark.parametrize("comment", ["/* a */", "/* a */ \n", "// a\n", "/*\n// a\n*/\n", " \t\n"])
def test_text_is_ptx_if_its_version_follows_any_number_of_comments(comment):
    # With a search that tries every division of the comments, this would not end.
    assert Source("<source>", comment * 1000 + IDLE).is_ptx
    assert not Source("<source>", comment * 1000 + "__global__ void k() {}\n" + IDLE).is_ptx
    assert not Source("<source>", comment * 1000 + "/* " + IDLE).is_ptx


def test_a_byte_order_mark_is_left_out(tmp_path):
    (tmp_path / "part.h").write_bytes(b"\xef\xbb\xbf// a header\n")
    (tmp_path / "k.cu").write_bytes(b'\xef\xbb\xbf#include "part.h"\n__global__ void k() {}\n')
    assert read_source(tmp_path / "k.cu").text.startswith("#include")
    assert project_headers(read_source(tmp_path / "k.cu"), []) == {"part.h": "// a header\n"}


def test_a_null_character_elsewhere_is_refused(tmp_path):
    (tmp_path / "k.ptx").write_text(IDLE.replace("ret", "\0ret") + "\0")
    with pytest.raises(TraceError, match=r"k\.ptx: not a text file"):
        read_source(tmp_path / "k.ptx")
    (tmp_path / "k.cu").write_text("__global__ void k() {}\n\0")
    with pytest.raises(TraceError, match=r"k\.cu: not a text file"):
        read_source(tmp_path / "k.cu")


def test_an_array_behind_a_link_is_read(tmp_path):
    np.save(tmp_path / "data.npy", np.arange(4, dtype=np.int32))
    (tmp_path / "link.npy").symlink_to("data.npy")
    assert parse_argument(f"@{tmp_path / 'link.npy'}", "x").tolist() == [0, 1, 2, 3]


def test_a_launch_file_beyond_its_bound_is_refused(tmp_path):
    (tmp_path / "k.toml").write_text("a = [" + "1, " * 2_000_000 + "]")
    with pytest.raises(TraceError, match=r"k\.toml: has 6000006 bytes, must be at most 4194304"):
        list(cuda.launches(tmp_path / "k.toml"))


def test_a_launch_file_that_is_no_text_is_refused_with_its_line(tmp_path):
    (tmp_path / "k.toml").write_bytes(b'source = "k.ptx"\ngrid = \xff')
    with pytest.raises(TraceError, match=r"k\.toml:2: is no text in UTF-8"):
        list(cuda.launches(tmp_path / "k.toml"))
