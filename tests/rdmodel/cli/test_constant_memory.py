"""Rows and columns of constant memory that `predict` and `simulate` print."""

from __future__ import annotations

import csv
import io

import pytest

KERNEL = ("kmeans.row", "--param", "NPOINTS=1024", "--gpu", "v100")
"""A kernel with 5 x 34 words in constant memory: three lines of 256 bytes."""


@pytest.mark.parametrize(
    ("command", "row"), [(("predict", "--l2"), ["memory", "768"]), (("simulate",), ["memory", "24"])]
)
def test_it_has_a_row_below_the_bytes_of_the_dram(run, command, row):
    status, out, err = run(*command, *KERNEL)
    assert (status, err) == (0, "")
    [line] = [line for line in out.splitlines() if "constant memory" in line]
    assert line.split()[-2:] == row
    _, out, _ = run(*command, *KERNEL, "--set", "constant_line=0")
    assert "constant memory" not in out


def test_it_has_a_column_of_csv(run):
    _, out, _ = run("predict", "--l2", *KERNEL, "--csv")
    [row] = csv.DictReader(io.StringIO(out))
    assert float(row["l2_constant_sectors"]) == 24


@pytest.mark.parametrize("value", ["96", "-1", "none", "1.5"])
def test_a_line_that_no_cache_has_is_refused_by_name(run, value):
    status, out, err = run("predict", "--l2", *KERNEL, "--set", f"constant_line={value}")
    assert (status, out) == (2, "")
    assert "constant_line" in err
    assert "Traceback" not in err
