"""Test how the folder of a trace is replaced: in one step, with its permissions, and recoverably after a kill."""

import os
import signal
import stat
import subprocess
import sys
import textwrap

import pytest

from rdmodel.errors import TraceError
from rdmodel.trace import replacement
from rdmodel.trace.storage import load, save
from tests.support.paths import ROOT
from tests.support.small_traces import small
from tracegen import formats

WITHOUT_EXCHANGE = "from rdmodel.trace import replacement; replacement.exchange = lambda one, other: False"


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a trace of address 0, the only thing in its folder."""
    save(small(), tmp_path / "t")
    return tmp_path / "t"


def value(path):
    (address,) = set(load(path).columns.addresses.tolist())
    return address


def killed_at(step, path, *, preparation=""):
    """Save a trace of address 7 over `path` in another process, and kill it when it has called `step`."""
    script = f"""
        import os, signal, shutil
        from pathlib import Path
        from tests.support.small_traces import small
        from rdmodel.trace import storage
        {preparation}

        calls = []
        def killing(function):
            def call(*arguments, **options):
                result = function(*arguments, **options)
                calls.append(1)
                os.kill(os.getpid(), signal.SIGKILL)
                return result
            return call

        {step} = killing({step})
        storage.save(small(7), {str(path)!r}, overwrite=True)
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], env=environment, check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL


# ---- One step, or recovery


def test_a_kill_after_the_exchange_leaves_the_new_trace(folder):
    if not replacement.exchange(folder, folder):
        pytest.skip("this system cannot exchange names")
    killed_at("replacement.exchange", folder, preparation="from rdmodel.trace import replacement")
    assert value(folder) == 7
    assert len(os.listdir(folder.parent)) == 2
    save(small(9), folder, overwrite=True)
    assert value(folder) == 9
    assert os.listdir(folder.parent) == ["t"]


@pytest.mark.parametrize("read", [load, formats.read, formats.recognise])
def test_a_kill_between_two_renames_is_undone_by_the_next_reader(folder, read):
    killed_at("Path.rename", folder, preparation=WITHOUT_EXCHANGE)
    assert not folder.exists()
    read(folder)
    assert value(folder) == 0


def test_a_kill_between_two_renames_is_undone_by_the_next_writer(folder):
    killed_at("Path.rename", folder, preparation=WITHOUT_EXCHANGE)
    with pytest.raises(TraceError, match="exists already"):
        save(small(9), folder)
    assert value(folder) == 0
    save(small(9), folder, overwrite=True)
    assert value(folder) == 9
    assert os.listdir(folder.parent) == ["t"]


def test_a_reader_does_not_disturb_a_writer_between_its_two_renames(folder, monkeypatch):
    monkeypatch.setattr(replacement, "exchange", lambda one, other: False)
    rename, missing = type(folder).rename, []

    def rename_and_read(self, target):
        rename(self, target)
        if not folder.exists():
            with pytest.raises(TraceError, match="No such file"):
                load(folder)
            missing.append(self)

    monkeypatch.setattr(type(folder), "rename", rename_and_read)
    save(small(7), folder, overwrite=True)
    assert missing == [folder]
    assert value(folder) == 7
    assert os.listdir(folder.parent) == ["t"]


def test_a_trace_that_cannot_get_its_name_back_is_named(folder, monkeypatch):
    killed_at("Path.rename", folder, preparation=WITHOUT_EXCHANGE)

    def fail(self, target):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(type(folder), "rename", fail)
    with pytest.raises(TraceError, match=r"t: is .*\.old since a run was killed; cannot be renamed: Read-only"):
        load(folder)


def test_an_exchange_that_fails_leaves_the_old_trace(folder, monkeypatch):
    def fail(one, other):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(replacement, "exchange", fail)
    with pytest.raises(TraceError, match="cannot be written: Input/output error"):
        save(small(7), folder, overwrite=True)
    assert value(folder) == 0
    assert os.listdir(folder.parent) == ["t"]


# ---- What is left behind


def test_folders_of_killed_runs_are_deleted_by_the_next_writer_and_those_of_living_ones_stay(folder):
    killed_at("storage._write_columns", folder)
    (litter,) = set(os.listdir(folder.parent)) - {"t"}

    def progress(done, total):
        if done == 1:
            assert litter not in os.listdir(folder.parent)
            save(small(5), folder, overwrite=True)  # another writer of the same name
            assert value(folder) == 5

    save(small(7), folder, overwrite=True, progress=progress)
    assert value(folder) == 7
    assert os.listdir(folder.parent) == ["t"]


@pytest.mark.parametrize("other", [".tt.1.partial", "t.1.partial", ".t.1.partials"])
def test_nothing_of_another_name_is_deleted(folder, other):
    (folder.parent / other).mkdir()
    save(small(7), folder, overwrite=True)
    assert (folder.parent / other).is_dir()


# ---- Permissions and links

WRITERS = {"t": 0o750, "t.trc": 0o640, "t.traceg": 0o604, "t.parquet": 0o600}


@pytest.fixture(params=WRITERS)
def path(request, tmp_path):
    """Return the path of a trace in each format that can be written."""
    if request.param == "t.parquet":
        pytest.importorskip("pyarrow")
    formats.write(small(), tmp_path / request.param)
    return tmp_path / request.param


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_replaced_gives_its_permissions_to_what_replaces_it(path):
    path.chmod(WRITERS[path.name])
    if path.is_dir():
        (path / "pc.npy").chmod(0o604)
    formats.write(small(7), path, overwrite=True)
    assert mode(path) == WRITERS[path.name]
    if path.is_dir():
        assert mode(path / "pc.npy") == 0o604


def test_a_link_stays_and_its_target_is_replaced(path):
    link = path.with_name("link" + path.suffix)
    link.symlink_to(path.name)
    with pytest.raises(TraceError, match="exists already"):
        formats.write(small(7), link)
    formats.write(small(7), link, overwrite=True)
    assert link.is_symlink()
    assert not path.is_symlink()
    assert set(formats.read(path).columns.addresses.tolist()) == {7}


def test_a_link_to_nothing_is_filled(path):
    link = path.with_name("link" + path.suffix)
    link.symlink_to("new" + path.suffix)
    formats.write(small(7), link)
    assert link.is_symlink()
    assert set(formats.read(path.with_name("new" + path.suffix)).columns.addresses.tolist()) == {7}


def test_links_in_a_circle_are_refused(path):
    link = path.with_name("link" + path.suffix)
    link.symlink_to(link.name)
    with pytest.raises(TraceError, match="leads back to itself"):
        formats.write(small(7), link, overwrite=True)
