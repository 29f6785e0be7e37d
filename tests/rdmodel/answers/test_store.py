"""Answers on disk: put and get, the place of the file, and its size."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
from rdmodel.answers import store
from rdmodel.answers.store import Answers
from rdmodel.errors import ConfigError
from tests.support.examples import examples
from tests.support.stored_answers import answer, in_process, question

# ---- what a cache does


def test_what_was_put_is_found_by_the_same_question_and_by_no_other(path):
    with Answers(path) as cache:
        assert cache.get(question(1)) is None
        cache.put(question(1), answer(1))
        cache.put(question(2), answer(2))
        assert cache.get(question(1)) == answer(1)
        assert cache.get(question(2)) == answer(2)
        assert cache.get(question(3)) is None
        assert len(cache) == 2
        assert cache.trouble is None


def test_answers_outlive_the_process(path):
    child = in_process("with Answers(sys.argv[1]) as cache: cache.put(question(1), answer(1))", path)
    assert child.wait() == 0
    child.communicate()
    with Answers(path) as cache:
        assert cache.get(question(1)) == answer(1)


def test_a_second_answer_takes_the_place_of_the_first(path):
    with Answers(path) as cache:
        cache.put(question(1), answer(1))
        cache.put(question(1), answer(2))
        assert cache.get(question(1)) == answer(2)
        assert len(cache) == 1


def test_clear_forgets_everything_and_gives_the_disk_back(path):
    with Answers(path) as cache:
        for n in range(100):
            cache.put(question(n), answer(n, 200))
        full = path.stat().st_size
        cache.clear()
        assert len(cache) == 0
        assert cache.get(question(1)) is None
        assert path.stat().st_size < full / 10
        cache.put(question(1), answer(1))
        assert cache.get(question(1)) == answer(1)


def test_an_empty_cache_is_true(path):
    with Answers(path) as cache:
        assert len(cache) == 0
        assert cache


def test_after_closing_nothing_is_found_and_nothing_is_kept(path):
    cache = Answers(path)
    cache.put(question(1), answer(1))
    cache.close()
    cache.close()
    cache.put(question(2), answer(2))
    assert cache.get(question(1)) is None
    assert len(cache) == 0
    with Answers(path) as again:
        assert len(again) == 1


def test_what_is_given_back_is_what_json_makes_of_it(path):
    with Answers(path) as cache:
        cache.put(question(1), {"a": (1, 2), "b": None, "c": "\ud800é", "d": -0.0, "e": 10**30, "f": 0.1})
        assert cache.get(question(1)) == {"a": [1, 2], "b": None, "c": "\ud800é", "d": 0.0, "e": 10**30, "f": 0.1}


def test_the_public_name_is_the_class():
    assert rd.Answers is Answers


# ---- where it is


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"RDMODEL_CACHE": "mine", "XDG_CACHE_HOME": "xdg"}, "mine"),
        ({"XDG_CACHE_HOME": "xdg"}, "xdg/rdmodel"),
        ({"HOME": "home"}, "home/.cache/rdmodel"),
    ],
)
def test_the_folder_of_the_cache_is_the_one_of_the_environment(tmp_path, monkeypatch, environment, folder):
    for name in ("RDMODEL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    with Answers() as cache:
        cache.put(question(1), answer(1))
        assert Path(cache.path) == tmp_path / folder / "answers.sqlite"
        assert cache.get(question(1)) == answer(1)


def test_a_relative_cache_home_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RDMODEL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with Answers() as cache:
        assert Path(cache.path) == tmp_path / "home/.cache/rdmodel/answers.sqlite"


def test_a_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Answers("answers.sqlite") as cache:
        (tmp_path / "below").mkdir()
        monkeypatch.chdir(tmp_path / "below")
        cache.put(question(1), answer(1))
        assert cache.get(question(1)) == answer(1)
    assert not (tmp_path / "below/answers.sqlite").exists()


@pytest.mark.parametrize("name", ["a b?mode=memory#x%20", ":memory:", "é\N{SNOWMAN}"])
def test_names_that_mean_something_to_sqlite_are_names(tmp_path, name):
    with Answers(tmp_path / name) as cache:
        cache.put(question(1), answer(1))
        assert cache.trouble is None
    assert (tmp_path / name).is_file()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"path": 3}, "path=3"),
        ({"path": ""}, "path=''"),
        ({"path": b"x"}, "path=b'x'"),
        ({"limit": 10}, "limit=10: must be at least"),
        ({"limit": 1e6}, "limit=1000000.0"),
        ({"timeout": -1}, "timeout=-1"),
        ({"timeout": float("nan")}, "timeout=nan"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(arguments, named):
    with pytest.raises(ConfigError, match=named):
        Answers(**arguments)


# ---- size


def test_the_file_stays_within_its_limit_and_the_last_answers_are_there(path):
    limit = 1 << 20
    with Answers(path, limit=limit) as cache:
        for n in range(1500):
            cache.put(question(n), answer(n, 150))
        assert path.stat().st_size <= limit + (64 << 10)
        found = [n for n in range(1500) if cache.get(question(n)) is not None]
        assert found == list(range(found[0], 1500))
        assert len(found) > 100


def test_answers_that_are_used_stay(path):
    with Answers(path, limit=1 << 20) as cache:
        cache.put(question(0), answer(0, 150))
        for n in range(1, 1500):
            cache.put(question(n), answer(n, 150))
            assert cache.get(question(0)) == answer(0, 150)


def test_uses_are_known_to_other_processes_after_closing(path):
    with Answers(path, limit=1 << 20) as cache:
        for n in range(200):
            cache.put(question(n), answer(n, 100))
    with Answers(path) as reader:
        assert reader.get(question(0)) is not None
    with Answers(path, limit=1 << 20) as cache:
        n = 200
        while cache.get(question(1)) is not None:
            cache._used.clear()
            cache.put(question(n), answer(n, 100))
            n += 1
        assert cache.get(question(0)) is not None


def test_reading_writes_nothing_until_many_answers_were_read(path):
    with Answers(path) as cache:
        for n in range(store.USES_PER_WRITE):
            cache.put(question(n), answer(n))
        before = path.stat().st_mtime_ns
        for _ in range(5):
            for n in range(store.USES_PER_WRITE - 1):
                assert cache.get(question(n)) is not None
        assert path.stat().st_mtime_ns == before
        assert cache.get(question(store.USES_PER_WRITE - 1)) is not None
        assert path.stat().st_mtime_ns > before


def test_an_answer_of_more_than_an_eighth_of_the_limit_is_not_kept(path):
    with Answers(path, limit=store.MIN_LIMIT_BYTES) as cache:
        cache.put(question(1), {"x": "a" * store.MIN_LIMIT_BYTES})
        assert len(cache) == 0
        cache.put(question(2), {"x": "a" * (store.MIN_LIMIT_BYTES // 8 - 20)})
        assert len(cache) == 1
        assert cache.trouble is None


@examples(30)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 7000)), max_size=80))
def test_any_sequence_of_sizes_keeps_within_the_smallest_limit(tmp_path_factory, puts):
    path = tmp_path_factory.mktemp("sizes") / "answers.sqlite"
    with Answers(path, limit=store.MIN_LIMIT_BYTES) as cache:
        for n, length in puts:
            cache.put(question(n), {"x": "a" * length})
            assert cache.get(question(n)) == {"x": "a" * length}
        assert path.stat().st_size <= 2 * store.MIN_LIMIT_BYTES
        assert cache.trouble is None
