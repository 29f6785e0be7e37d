"""Lines of source files that a program names."""

from __future__ import annotations

import os

import pytest

from rdmodel.common import source_texts
from rdmodel.common.source_texts import SourceTexts


def test_lines_are_counted_from_1_and_stripped(tmp_path):
    file = tmp_path / "a.cu"
    file.write_text("first\n\tsecond;  \n")
    texts = SourceTexts()
    assert [texts.line(str(file), line) for line in (-1, 0, 1, 2, 3)] == ["", "", "first", "second;", ""]
    assert texts.lines(str(file)) == ["first", "\tsecond;  "]


def test_a_file_is_read_once(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("one\n")
    texts = SourceTexts()
    assert texts.line(str(file), 1) == "one"
    file.write_text("two\n")
    assert texts.line(str(file), 1) == "one"


def test_files_that_are_no_sources_are_not_read(tmp_path):
    secret = tmp_path / "passwd"
    secret.write_text("secret\n")
    assert SourceTexts().lines(str(secret)) == []


@pytest.mark.parametrize("file", ["missing.cu", "", "a\0b.cu", "."])
def test_files_that_cannot_be_read_have_no_lines(file):
    assert SourceTexts().line(file, 1) == ""


def test_a_pipe_and_a_large_file_have_no_lines(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.cu")
    assert SourceTexts().lines(str(tmp_path / "pipe.cu")) == []
    monkeypatch.setattr(source_texts, "MAX_READ_BYTES", 3)
    (tmp_path / "large.cu").write_text("four")
    assert SourceTexts().lines(str(tmp_path / "large.cu")) == []


def test_bytes_that_are_no_text_are_replaced(tmp_path):
    (tmp_path / "a.h").write_bytes(b"\xff;\n")
    assert SourceTexts().line(str(tmp_path / "a.h"), 1) == "\ufffd;"
