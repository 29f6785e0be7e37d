"""Plain traces on the command line: from files and from standard input."""

import gzip
import io
import json
import sys

import pytest

from rdmodel.errors import TraceError
from tests.support.commands import timeless
from tracegen import formats

ADDRESSES = "".join(f"{4 * n}\n" for n in range(256))


@pytest.fixture
def stdin(monkeypatch):
    """Return a function that sets the content of standard input, which cannot be rewound."""

    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *_):
            raise io.UnsupportedOperation("a pipe")

    def fill(content):
        data = content if isinstance(content, bytes) else content.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe(data))))

    return fill


@pytest.mark.parametrize("command", ["mrc", "info", "predict", "locality"])
def test_a_command_says_the_same_of_standard_input_as_of_a_file(run, stdin, tmp_path, command):
    path = tmp_path / "stdin"
    path.write_text(ADDRESSES)
    options = ["--input-format", "addresses", "--block", "64", "--grid", "2", "--json"]
    status, expected, _ = run(command, str(path), *options)
    assert status == 0
    for content in (ADDRESSES, gzip.compress(ADDRESSES.encode())):
        stdin(content)
        status, out, err = run(command, "-", *options)
        assert (status, err) == (0, "")
        assert timeless(json.loads(out)) == timeless(json.loads(expected))


def test_a_trace_from_standard_input_can_be_written_in_another_format(run, stdin, tmp_path):
    stdin(ADDRESSES)
    output = tmp_path / "a.trc"
    status, out, _ = run("trace", "-", "--input-format", "addresses", "--block", "64", "-o", str(output))
    assert (status, "wrote 1 of 1 blocks of stdin" in out) == (0, True)
    stdin(output.read_bytes())
    status, out, _ = run("info", "-", "--input-format", "trc")
    assert (status, "grid, block        1x1x1, 64x1x1 threads" in out) == (0, True)


def test_a_mistake_in_standard_input_is_told_by_its_line(run, stdin):
    stdin("1\nx\n")
    message = "rdmodel: error: stdin:2: expected one address, in decimal or after 0x in hexadecimal, found 'x'\n"
    assert run("info", "-", "--input-format", "addresses") == (2, "", message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "-"], "-: standard input needs the name of its format: --input-format trc|nvbit|addresses|csv|"),
        (["info", "-", "--input-format", "parquet"], "'parquet' cannot be read from standard input; name a file"),
        (["predict", "-", "-", "--input-format", "trc"], "-: standard input can be read only once"),
        (["info", "-", "--input-format", "trc", "--grid", "2"], "--grid: - is a recorded trace; it takes no such"),
    ],
)
def test_standard_input_is_refused_where_it_cannot_be_read(run, stdin, arguments, message):
    stdin(ADDRESSES)
    status, out, err = run(*arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_program_without_standard_input_is_told_so(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TraceError, match="stdin: is closed"):
        formats.read("-", format="addresses")


def test_columns_that_are_ignored_are_told_in_one_note(run, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,address\n1,0\n2,4\n")
    status, _, err = run("info", str(path), "--input-format", "csv")
    assert (status, err) == (0, f"rdmodel: {path}: columns that are ignored: 'time'\n")
