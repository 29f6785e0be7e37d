"""Descriptions of programs and arguments: equal for equal ones, different for any change."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from tracegen.cuda.source import read_source
from tracegen.cuda.tile_questions import describe_code, describe_values

VALUES = [
    1, 1.0, True, "1", "float[4]", "float[4]:1", np.zeros(4, np.float32), np.zeros(4, np.int32), np.zeros((2, 2)),
    np.ones(4, np.float32), np.float32(1), np.int64(1), {"x": 1}, {"y": 1}, [1, 2], [1, [2]], b"1", {}, "{x=&y}",
]  # fmt: skip


def test_every_kind_of_argument_has_its_own_description():
    texts = [json.dumps(describe_values(value)) for value in VALUES]
    assert "null" not in texts
    assert len(set(texts)) == len(VALUES)
    assert texts == [json.dumps(describe_values(value)) for value in VALUES]


@pytest.mark.parametrize("text", ["@{}", "double@{}", "@{}:rows", "{{x=@{},n=4}}"])
def test_the_description_of_a_file_changes_with_the_file(tmp_path, text):
    path = tmp_path / "data.npy"
    assert describe_values([1, text.format(path)]) is None, "there is no file"
    np.save(path, np.zeros(4))
    before = describe_values(text.format(path))
    assert before == describe_values(text.format(path)) is not None
    os.utime(path, ns=(1, 1))
    after = describe_values(text.format(path))
    assert after != before
    np.save(path, np.zeros(5))
    os.utime(path, ns=(1, 1))
    assert describe_values(text.format(path)) not in (before, after)


def test_an_argument_that_cannot_be_told_has_no_description():
    assert describe_values({"x": 1, "y": object()}) is None
    assert describe_values(np.array([object()])) is None


def test_the_description_of_a_program_changes_with_its_headers(tmp_path):
    path, header = tmp_path / "k.cu", tmp_path / "size.h"
    path.write_text('#include "size.h"\n__global__ void k(float* x) { x[0] = SIZE; }\n')
    header.write_text("#define SIZE 1\n")
    before = describe_code(read_source(path), [], "auto")
    json.dumps(before)
    assert before == describe_code(read_source(path), [], "auto")
    header.write_text("#define SIZE 2\n")
    assert describe_code(read_source(path), [], "auto") != before
