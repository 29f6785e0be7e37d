"""Damaged, old and foreign files: an answer is right or missing, and a foreign file stays as it is."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.answers import sqlite_file
from rdmodel.answers.store import Answers
from tests.support.examples import examples
from tests.support.stored_answers import answer, check, filled, question


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "answers.sqlite"
    filled(path)
    return path


@examples(150)
@given(data=st.data())
def test_whatever_bytes_are_changed_an_answer_is_right_or_not_there(tmp_path_factory, sound, data):
    path = tmp_path_factory.mktemp("damage") / "answers.sqlite"
    content = bytearray(sound.read_bytes())
    places = st.integers(0, 200) | st.integers(0, len(content) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=20)):
        content[place] = value
    path.write_bytes(content)
    check(path)


@examples(60)
@given(st.integers(0, 1 << 20), st.integers(0, 1 << 20), st.sampled_from([0, 255, None]))
def test_whatever_range_is_overwritten_cut_or_torn_an_answer_is_right_or_not_there(
    tmp_path_factory, sound, one, other, value
):
    path = tmp_path_factory.mktemp("damage") / "answers.sqlite"
    content = sound.read_bytes()
    low, high = sorted((one % len(content), other % len(content)))
    middle = b"" if value is None else bytes([value]) * (high - low)
    path.write_bytes(content[:low] + middle + content[high:])
    check(path)


@pytest.mark.parametrize(
    ("place", "value"), [(18, 3), (19, 0), (3988, 128), (60, 1), (0, 0), (68, 0), (16, 0), (52, 9)]
)
def test_a_damage_that_sqlite_takes_for_something_else_is_mended(path, sound, place, value):
    content = bytearray(sound.read_bytes())
    content[place] = value
    path.write_bytes(content)
    assert "left alone" not in (check(path) or "")
    assert check(path) is None


def test_a_flipped_byte_of_an_answer_is_a_miss(path):
    filled(path)
    content = path.read_bytes()
    text = json.dumps(answer(7), separators=(",", ":")).encode()
    assert content.count(text) == 1
    path.write_bytes(content.replace(text, text.replace(b'"number":7', b'"number":8')))
    with Answers(path) as cache:
        assert cache.get(question(7)) is None
        assert cache.get(question(8)) == answer(8)


def test_answers_swapped_in_the_file_are_misses(path):
    filled(path)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, mark, answer FROM rdmodel_answers").fetchall()
        moved = [(one[0], *other[1:]) for one, other in zip(rows, rows[1:] + rows[:1], strict=True)]
        connection.executemany("INSERT OR REPLACE INTO rdmodel_answers VALUES (?, ?, ?)", moved)
        connection.commit()
    with Answers(path) as cache:
        assert [cache.get(question(n)) for n in range(40)] == [None] * 40


def test_a_damaged_file_is_begun_anew_and_said_so(path):
    filled(path)
    content = bytearray(path.read_bytes())
    content[sqlite_file.PAGE_BYTES :] = b"\xaa" * (len(content) - sqlite_file.PAGE_BYTES)
    path.write_bytes(content)
    assert "is damaged" in check(path)
    assert check(path) is None


def test_a_damage_under_an_open_cache_is_mended(path):
    filled(path)
    with Answers(path) as cache:
        assert cache.get(question(1)) == answer(1)
        with path.open("r+b") as file:
            file.seek(24)
            file.write(b"\xaa" * (path.stat().st_size - 24))
            file.seek(68)
            file.write(sqlite_file.APPLICATION_ID.to_bytes(4, "big"))
        assert cache.get(question(1)) in (None, answer(1))
        cache.put(question(2), answer(2))
        assert cache.get(question(2)) in (None, answer(2))


def test_a_file_of_other_tables_is_begun_anew_if_it_is_older(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE rdmodel_answers (key TEXT PRIMARY KEY, answer TEXT)")
        connection.execute(f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 0")
    assert "other tables" in check(path)
    assert check(path) is None


def test_a_file_of_a_newer_rdmodel_is_left_alone(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE rdmodel_answers (key TEXT PRIMARY KEY, answer TEXT)")
        connection.execute(f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 2")
    before = path.read_bytes()
    assert check(path) == f"{path}: is of a newer rdmodel; left alone"
    assert path.read_bytes() == before


def foreign(path: Path, kind: str) -> None:
    if kind == "text":
        path.write_text("my notes\n" * 1000)
    elif kind == "short":
        path.write_bytes(b"x")
    elif kind == "zeros":
        path.write_bytes(bytes(8192))
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA journal_mode = {'WAL' if kind == 'wal' else 'DELETE'}")
            connection.execute("CREATE TABLE mine (x)")
            connection.execute("INSERT INTO mine VALUES (1)")
            connection.commit()


@pytest.mark.parametrize("kind", ["text", "short", "zeros", "sqlite", "wal"])
def test_a_foreign_file_is_never_written(path, kind):
    foreign(path, kind)
    before = path.read_bytes()
    assert check(path) == f"{path}: is not a cache of answers; left alone"
    with Answers(path) as cache:
        cache.clear()
        assert len(cache) == 0
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_foreign_file_in_the_place_of_the_cache_itself_is_moved_aside(tmp_path, monkeypatch):
    monkeypatch.setenv("RDMODEL_CACHE", str(tmp_path))
    (tmp_path / "answers.sqlite").write_text("garbage")
    with Answers() as cache:
        assert "moved to" in cache.trouble
        cache.put(question(1), answer(1))
        assert cache.get(question(1)) == answer(1)
    assert (tmp_path / "answers.sqlite.damaged").read_text() == "garbage"


def test_an_empty_file_is_taken(path):
    path.touch()
    assert check(path) is None
