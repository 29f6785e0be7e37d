"""Files that cannot be read or written, and files and folders that are deleted while they are open."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from rdmodel.answers.store import Answers
from tests.support.stored_answers import answer, check, filled, in_process, question


def test_what_is_not_a_file_is_not_used(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    cases = {
        tmp_path: "is a folder",
        tmp_path / "pipe": "is not a regular file",
        Path("/dev/null"): "is not a regular file",
        tmp_path / "none/answers.sqlite": "cannot be used: No such file or directory",
        tmp_path / "pipe/answers.sqlite": "cannot be used: Not a directory",
        tmp_path / ("x" * 300): "cannot be used: File name too long",
        Path("/proc/answers.sqlite"): "cannot be read: unable to open database file",
    }
    for path, why in cases.items():
        with Answers(path) as cache:
            cache.put(question(1), answer(1))
            assert cache.get(question(1)) is None
            assert cache.trouble == f"{path}: {why}"


def test_a_path_with_a_null_character_is_not_used():
    with Answers("a\0b") as cache:
        assert "null" in cache.trouble
        assert cache.get(question(1)) is None


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    monkeypatch.delenv("RDMODEL_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with Answers() as cache:
        assert "has no absolute path" in cache.trouble
        assert cache.get(question(1)) is None


@contextmanager
def unprivileged() -> Iterator[None]:
    """Root may write everywhere; be somebody else."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users may enter, which those of pytest are not."""
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.parametrize("mode", [0o644, 0o666])
def test_a_file_in_a_read_only_folder_is_read_and_not_written(public, mode):
    path = public / "answers.sqlite"
    filled(path)
    path.chmod(mode)
    public.chmod(0o555)
    with unprivileged(), Answers(path) as cache:
        assert cache.get(question(1)) == answer(1)
        assert cache.trouble is None
        cache.put(question(100), answer(100))
        assert cache.trouble.startswith(f"{path}: cannot be written: ")
        assert cache.get(question(100)) is None
        assert cache.get(question(2)) == answer(2)
    public.chmod(0o755)


def test_a_file_that_may_not_be_read_is_not_used(public):
    path = public / "answers.sqlite"
    filled(path)
    path.chmod(0)
    with unprivileged(), Answers(path) as cache:
        assert cache.get(question(1)) is None
        assert cache.trouble == f"{path}: cannot be used: Permission denied"
    path.chmod(0o644)
    assert check(path) is None


def test_a_read_only_folder_without_a_file_has_no_answers(public):
    path = public / "answers.sqlite"
    with unprivileged(), Answers(path) as cache:
        cache.put(question(1), answer(1))
        assert cache.get(question(1)) is None
        assert cache.trouble == f"{path}: cannot be read: unable to open database file"


def test_a_full_disk_means_that_answers_are_not_kept(path):
    code = """
    path = sys.argv[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
    with Answers(path) as cache:
        for n in range(100):
            cache.put(question(n), answer(n, 100))
        assert "cannot be written" in cache.trouble, cache.trouble
        found = [n for n in range(100) if cache.get(question(n)) is not None]
        assert 0 < len(found) < 100
        assert all(cache.get(question(n)) == answer(n, 100) for n in found)
    """
    child = in_process(code, path)
    assert child.wait() == 0
    child.communicate()
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 60_000
    assert check(path, 0) is None


def test_a_file_that_is_deleted_while_it_is_open_is_made_again(path):
    with Answers(path) as cache:
        cache.put(question(1), answer(1))
        path.unlink()
        assert cache.get(question(1)) is None
        cache.put(question(1), answer(1))
        assert cache.get(question(1)) == answer(1)
        assert path.exists()
        assert cache.trouble is None


def test_a_file_that_is_replaced_while_it_is_open_is_the_one_that_counts(path, tmp_path):
    filled(tmp_path / "other")
    with Answers(path) as cache:
        cache.put(question(1), answer(2))
        os.replace(tmp_path / "other", path)
        assert cache.get(question(1)) == answer(1)


def test_a_folder_that_is_deleted_while_the_file_is_open_is_done_without(tmp_path, impatient):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "answers.sqlite"
    with Answers(path) as cache:
        cache.put(question(1), answer(1))
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        assert cache.get(question(1)) is None
        cache.put(question(1), answer(1))
        assert cache.trouble == f"{path}: cannot be used: No such file or directory"
        folder.mkdir()
        cache.put(question(1), answer(1))
        assert cache.get(question(1)) == answer(1)
