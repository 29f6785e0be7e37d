"""Files are replaced whole: permissions and links stay, litter of killed writers goes."""

from __future__ import annotations

import os
import re

import pytest

from rdmodel.common.file_writing import delete_abandoned, replaced_when_complete


def write(path, text: str) -> None:
    with replaced_when_complete(path) as partial:
        partial.write_text(text)


def test_a_new_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    write(tmp_path / "a", "new")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_nothing_of_the_new_file_shows_before_it_is_complete(tmp_path):
    target = tmp_path / "a"
    target.write_text("old")
    with replaced_when_complete(target) as partial:
        partial.write_text("ne")
        assert target.read_text() == "old"
        assert re.fullmatch(r"\.a\.\w+\.partial", partial.name)
    assert target.read_text() == "ne"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file(tmp_path, error):
    target = tmp_path / "a"
    target.write_text("old")

    def write_half() -> None:
        with replaced_when_complete(target) as partial:
            partial.write_text("new")
            raise error

    with pytest.raises(error):
        write_half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_to_a_file_that_is_yet_to_be_made_stays(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "new"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_only_files_are_replaced(tmp_path, make):
    make(tmp_path / "a")
    with pytest.raises(OSError, match="is not a file"):
        write(tmp_path / "a", "new")


def test_only_unfinished_files_of_the_same_name_are_deleted(tmp_path):
    names = [".a.12.partial", ".[a].12.partial", ".ab.12.partial", "a.12.partial", ".a.12"]
    for name in names:
        (tmp_path / name).touch()
    delete_abandoned(tmp_path / "a")
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])
    delete_abandoned(tmp_path / "[a]")
    assert {path.name for path in tmp_path.iterdir()} == set(names[2:])


def test_two_writers_of_one_name_do_not_disturb_each_other(tmp_path):
    with replaced_when_complete(tmp_path / "a") as first, replaced_when_complete(tmp_path / "a") as second:
        first.write_text("first")
        second.write_text("second")
    assert (tmp_path / "a").read_text() == "first"
