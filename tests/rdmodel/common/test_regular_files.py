"""Reading of named files: bounds, and what is refused at once."""

from __future__ import annotations

import os
import socket
import tracemalloc

import pytest

from rdmodel.common.regular_files import open_regular_file, read_bounded_bytes, read_bounded_text
from rdmodel.errors import ConfigError, TraceError


def test_a_file_within_the_bound_is_read(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    assert read_bounded_bytes(tmp_path / "f", 5) == b"12345"
    assert read_bounded_text(str(tmp_path / "f"), 5) == "12345"
    with open_regular_file(tmp_path / "f") as file:
        assert file.read() == b"12345"


def test_a_link_to_a_regular_file_is_read(tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("f")
    assert read_bounded_text(tmp_path / "link", 10) == "12345"


def test_a_file_beyond_the_bound_is_refused(tmp_path):
    (tmp_path / "f").write_bytes(b"123456")
    with pytest.raises(TraceError, match=r"f: has 6 bytes, must be at most 5"):
        read_bounded_bytes(tmp_path / "f", 5)


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs a file whose reported size is 0")
def test_a_file_that_understates_its_size_is_bounded():
    with pytest.raises(TraceError, match=r"has more than 3 bytes, must be at most 3"):
        read_bounded_bytes("/proc/self/status", 3)


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/null"])
def test_a_link_to_a_device_is_refused(tmp_path, target):
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(TraceError, match=r"link: is a device, must be a regular file"):
        read_bounded_text(tmp_path / "link", 100)


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match=r"pipe: is a pipe, must be a regular file"):
        read_bounded_text(tmp_path / "pipe", 100)


def test_a_pipe_that_takes_the_name_after_the_check_is_refused_at_once(tmp_path, monkeypatch):
    (tmp_path / "f").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    regular = os.stat(tmp_path / "f")
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda name: regular)
        with pytest.raises(TraceError, match=r"pipe: is a pipe, must be a regular file"):
            open_regular_file(tmp_path / "pipe")


def test_a_folder_and_a_socket_are_refused(tmp_path, monkeypatch):
    with pytest.raises(TraceError, match=r"is a folder, must be a regular file"):
        read_bounded_text(tmp_path, 100)
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(TraceError, match=r"s: is a socket, must be a regular file"):
            read_bounded_text("s", 100)


def test_a_missing_file_is_refused_with_the_error_of_the_caller(tmp_path):
    with pytest.raises(ConfigError, match=r"absent: No such file or directory"):
        read_bounded_text(tmp_path / "absent", 100, ConfigError)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have_is_refused(name):
    with pytest.raises(ConfigError, match=r"file name"):
        read_bounded_text(name, 100, ConfigError)


def test_text_that_is_not_utf8_is_refused_with_its_line(tmp_path):
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfone\ntwo\xff\n")
    with pytest.raises(TraceError, match=r"f:2: is no text in UTF-8: has byte 0xff"):
        read_bounded_text(tmp_path / "f", 100)
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfone")
    assert read_bounded_text(tmp_path / "f", 100) == "one"


def test_a_short_file_with_a_large_bound_takes_little_memory(tmp_path):
    (tmp_path / "short").write_bytes(b"short")
    tracemalloc.start()
    try:
        assert read_bounded_bytes(tmp_path / "short", 1 << 30) == b"short"
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
