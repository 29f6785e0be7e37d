"""``--input-format``: what a file is read as where its content or its ending says something else, or nothing."""

import errno
import os
from pathlib import Path

import pytest

from rdmodel.cli.option_groups import READABLE_FORMATS
from tracegen import formats

TRC = "blocksize: 32 1 1\n0 0 4096 4\n"
LAUNCH = (
    "MEMTRACE: CTX 0x1 - LAUNCH - Kernel pc 0x2 - Kernel name copy - grid launch id 0 - grid size 1,1,1 - "
    "block size 32,1,1 - nregs 16 - shmem 0 - cuda stream id 0\n"
)
RECORD = f"MEMTRACE: CTX 0x1 - grid_launch_id 0 - CTA 0,0,0 - warp 0 - LDG.E - 0x80{' 0x0' * 31} \n"


def test_the_names_are_those_of_all_formats():
    assert set(READABLE_FORMATS) == set(formats.FORMATS)


def test_a_log_whose_first_record_comes_late_is_read_as_what_one_says_it_is(tmp_path, run):
    path = tmp_path / "app.log"
    path.write_text("the program says a lot\n" * 100_000 + LAUNCH + RECORD)
    status, _, err = run("info", str(path))
    assert (status, "not a trace of a known format" in err) == (2, True)
    status, out, err = run("info", str(path), "--input-format", "nvbit")
    assert (status, err) == (0, "")
    assert out.startswith("copy, a trace of warp instructions\n")


def test_a_file_that_two_formats_would_take_is_read_as_the_one_that_is_meant(tmp_path, run):
    """A program that prints a line of a .trc before its trace begins."""
    path = tmp_path / "two"
    path.write_text("blocksize: 32 1 1\n" + LAUNCH + RECORD)
    assert formats.recognise(path).name == "trc"
    assert run("info", str(path))[0] == 2
    assert run("info", str(path), "--input-format", "nvbit")[0] == 0


def test_an_ending_that_stands_for_something_else_does_not_matter(tmp_path, run):
    path = tmp_path / "kernel.json"
    path.write_text(TRC)
    assert run("info", str(path))[0] == 2
    assert run("info", str(path), "--input-format", "trc")[0] == 0


@pytest.mark.parametrize("name", READABLE_FORMATS)
def test_a_wrong_format_is_one_line_about_the_file(tmp_path, run, name):
    path = tmp_path / "junk"
    path.write_text("junk\n")
    status, out, err = run("info", str(path), "--input-format", name)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"rdmodel: error: {path}")


def test_what_is_no_file_takes_no_format(run):
    status, _, err = run("info", "atax.1", "--input-format", "trc")
    assert status != 0
    assert "--input-format: atax.1 is a kernel that comes with rdmodel" in err
    status, _, err = run("compare", "--suite", "polybench", "--input-format", "trc")
    assert status != 0
    assert "--input-format" in err


def test_a_mistyped_format_is_told_from_the_real_ones(tmp_path, run):
    status, _, err = run("info", str(tmp_path), "--input-format", "nvbti")
    assert status == 2
    assert "unknown input format 'nvbti'; did you mean 'nvbit'" in err


# ---- what people mistype, or have


@pytest.mark.parametrize("source", ["app.log", "my-app"])
@pytest.mark.parametrize("more", [(), ("--kernel", "1")])
def test_a_file_that_is_not_there_is_said_not_to_be_there(run, source, more):
    status, _, err = run("info", source, *more)
    assert (status, err.count("\n")) == (2, 1)
    assert f"{source}: is neither a file nor a kernel of rdmodel" in err


def test_a_mistyped_kernel_is_told_from_the_real_ones_whatever_its_options(run):
    assert "unknown kernel 'atax.3'; did you mean 'atax." in run("info", "atax.3", "--kernel", "1")[2]


def test_an_empty_file_is_said_to_be_empty(tmp_path, run):
    for path in (tmp_path / "log", tmp_path / "a.g", tmp_path / "a.parquet"):
        path.write_text("")
        assert run("info", str(path)) == (2, "", f"rdmodel: error: {path}: is empty\n")


@pytest.mark.parametrize("name", ["a.trc.gz", "a.traceg.xz", "a.zst"])
def test_compressed_files_are_not_written(tmp_path, run, name):
    status, out, err = run("trace", "vectoradd", "--param", "N=256", "-o", str(tmp_path / name))
    assert (status, out) == (2, "")
    assert "compressed files cannot be written" in err
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_file_is_never_replaced(tmp_path, run):
    (tmp_path / "a.trc").mkdir()
    status, _, err = run("trace", "vectoradd", "--param", "N=256", "-o", str(tmp_path / "a.trc"), "--overwrite")
    assert (status, "exists already and is not a file; it is never overwritten" in err) == (2, True)


@pytest.mark.parametrize("name", ["folder", "a.trc", "a.traceg", "a.g", "a.parquet"])
def test_a_full_disk_is_a_run_that_failed(tmp_path, run, monkeypatch, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "open", full)
    status, out, err = run("trace", "vectoradd", "--param", "N=256", "-o", str(tmp_path / name))
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "cannot be written: No space left on device" in err
    assert list(tmp_path.iterdir()) == []
