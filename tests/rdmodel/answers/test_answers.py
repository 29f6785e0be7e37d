"""The cache of answers: what was put is found, and whatever happens to its file, nothing else is."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rdmodel as rd
from rdmodel.answers import key as key_module
from rdmodel.answers import sqlite_file, store
from rdmodel.answers.key import canonical, question_key
from rdmodel.answers.store import Answers
from rdmodel.errors import ConfigError
from tests.support.paths import ROOT


def question(number: int) -> dict[str, object]:
    return {"kernel": "gemm", "gpu": "gtx470-16k", "params": {"NI": number, "NJ": 64}}


def answer(number: int, length: int = 20) -> dict[str, object]:
    return {"number": number, "rates": [number / (n + 1) for n in range(length)]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.sqlite"


@pytest.fixture
def impatient(monkeypatch):
    """What failed is tried again at once."""
    monkeypatch.setattr(store, "RETRY_SECONDS", 0.0)


def in_process(code: str, *argv: object) -> subprocess.Popen[str]:
    """Start a Python process that knows `question` and `answer`."""
    head = "import sys; from tests.rdmodel.answers.test_answers import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code), *map(str, argv)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


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


# ---- questions


def test_the_order_of_keys_does_not_matter():
    one = {"a": 1, "b": {"c": [1, 2], "d": None}}
    other = {"b": {"d": None, "c": (1, 2)}, "a": 1}
    assert canonical(one) == canonical(other) == '{"a":1,"b":{"c":[1,2],"d":null}}'
    assert question_key(one) == question_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, "1"),
        (1, True),
        (0, None),
        (0.0, -0.0),
        ([1, [2]], [[1], 2]),
        ("é", "e\u0301"),
        ("", None),
        (0.1 + 0.2, 0.3),
        ({"a": {}}, {"a": []}),
    ],
)
def test_values_that_are_not_the_same_are_different_questions(one, other):
    assert question_key({"x": one}) != question_key({"x": other})


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (float("nan"), r"question\.x\[1\]: nan: must be finite"),
        (float("inf"), r"question\.x\[1\]: inf"),
        ({1: 2}, r"question\.x\[1\]: key 1: must be text"),
        (b"a", r"question\.x\[1\]: bytes: must be"),
        ({1, 2}, r"question\.x\[1\]: set: must be"),
        pytest.param(10**5000, "question: ", id="digits"),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(path, value, named):
    with Answers(path) as cache:
        for ask in (cache.get, lambda question: cache.put(question, {})):
            with pytest.raises(ConfigError, match=named):
                ask({"x": [0, value]})


def test_a_question_that_holds_itself_is_refused():
    endless: dict[str, object] = {}
    endless["x"] = endless
    with pytest.raises(ConfigError, match="contains itself"):
        canonical(endless)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"a", {1, 2}, pytest.param(10**5000, id="digits")])
def test_an_answer_that_is_not_json_is_refused(path, value):
    with Answers(path) as cache, pytest.raises(ConfigError, match="answer: "):
        cache.put(question(1), {"x": value})


def test_a_question_or_an_answer_is_a_mapping(path):
    with Answers(path) as cache:
        with pytest.raises(ConfigError, match="question: 3: must be a mapping"):
            cache.get(3)
        with pytest.raises(ConfigError, match=r"answer: \[\]: must be a mapping"):
            cache.put({}, [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(), JSON), st.dictionaries(st.text(), JSON))
def test_the_canonical_form_says_the_same_as_the_question_and_differs_where_they_differ(one, other):
    assert json.loads(canonical(one)) == one
    assert (canonical(one) == canonical(other)) == (plainly(one) == plainly(other))


def plainly(value):
    """Return what two values have in common if they are the same question, written another way."""
    if isinstance(value, dict):
        return ("dict", tuple((key, plainly(value[key])) for key in sorted(value)))
    if isinstance(value, list):
        return ("list", tuple(map(plainly, value)))
    return (type(value).__name__, repr(value))


def test_other_code_shares_no_answers(path, tmp_path, monkeypatch):
    with Answers(path) as cache:
        cache.put(question(1), answer(1))
        monkeypatch.setattr(key_module, "_code_digest", lambda: b"other code")
        assert cache.get(question(1)) is None


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("model.py", lambda path: path.write_text("x = 2\n")),
        ("_core.so", lambda path: path.write_bytes(b"\x7fELF another build")),
        ("_core.so", lambda path: os.utime(path, ns=(1, 2))),
        ("presets/gpu.toml", lambda path: path.write_text("size = 2\n")),
        ("model.py", lambda path: path.rename(path.with_name("models.py"))),
        ("model.py", lambda path: path.unlink()),
    ],
)
def test_any_change_of_the_code_changes_the_digest(tmp_path, monkeypatch, file, change):
    package = tmp_path / "rdmodel"
    (package / "presets").mkdir(parents=True)
    (package / "model.py").write_text("x = 1\n")
    (package / "_core.so").write_bytes(b"\x7fELF one build")
    (package / "presets/gpu.toml").write_text("size = 1\n")
    monkeypatch.setattr(key_module, "_folders", lambda name: [str(package)] if name == "rdmodel" else [])
    before = key_module._code_digest.__wrapped__()
    (package / "__pycache__").mkdir()
    (package / "__pycache__/model.pyc").write_bytes(b"x")
    assert key_module._code_digest.__wrapped__() == before
    change(package / file)
    assert key_module._code_digest.__wrapped__() != before


def test_code_that_cannot_be_read_means_no_answers(path, monkeypatch):
    monkeypatch.setattr(key_module, "_code", lambda: iter([("/nowhere/model.py", "model.py")]))
    key_module._code_digest.cache_clear()
    try:
        with Answers(path) as cache:
            cache.put(question(1), answer(1))
            assert cache.get(question(1)) is None
            assert cache.trouble == "/nowhere/model.py: cannot be read: No such file or directory"
    finally:
        key_module._code_digest.cache_clear()


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


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 7000)), max_size=80))
def test_any_sequence_of_sizes_keeps_within_the_smallest_limit(tmp_path_factory, puts):
    path = tmp_path_factory.mktemp("sizes") / "answers.sqlite"
    with Answers(path, limit=store.MIN_LIMIT_BYTES) as cache:
        for n, length in puts:
            cache.put(question(n), {"x": "a" * length})
            assert cache.get(question(n)) == {"x": "a" * length}
        assert path.stat().st_size <= 2 * store.MIN_LIMIT_BYTES
        assert cache.trouble is None


# ---- several at a time


def test_threads_share_one_cache(path):
    wrong = []

    def work(seed: int) -> None:
        for n in range(200):
            number = (n * 7 + seed) % 50
            cache.put(question(number), answer(number))
            if cache.get(question(number)) != answer(number):
                wrong.append(number)

    with Answers(path) as cache:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert len(cache) == 50
        assert cache.trouble is None


def test_processes_share_one_file(path):
    code = """
    with Answers(sys.argv[1], timeout=60) as cache:
        for n in range(300):
            number = (n * 7 + 40 * int(sys.argv[2])) % 100
            found = cache.get(question(number))
            assert found in (None, answer(number)), found
            cache.put(question(number), answer(number))
            assert cache.get(question(number)) == answer(number)
        assert cache.trouble is None, cache.trouble
    """
    children = [in_process(code, path, seed) for seed in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    for child in children:
        child.communicate()
    with Answers(path) as cache:
        assert [cache.get(question(n)) for n in range(100)] == [answer(n) for n in range(100)]
        assert len(cache) == 100


def test_a_process_that_is_killed_while_it_writes_leaves_a_sound_file(path):
    code = """
    cache = Answers(sys.argv[1], limit=1 << 20)
    print("ready", flush=True)
    n = 0
    while True:
        cache.put(question(n % 2000), answer(n % 2000, n % 300))
        n += 1
    """
    for attempt in range(5):
        child = in_process(code, path)
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.02 + 0.03 * attempt)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        with Answers(path) as cache:
            for n in range(0, 2000, 7):
                found = cache.get(question(n))
                assert found is None or found in [answer(n, length) for length in range(300)]
            cache.put(question(5000), answer(attempt))
            assert cache.get(question(5000)) == answer(attempt)
            assert cache.trouble is None
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def forked(cache: Answers, number: int) -> None:
    assert cache.get(question(0)) == answer(0)
    for n in range(50):
        cache.put(question(number * 100 + n), answer(n))
    assert cache.get(question(number * 100)) == answer(0)
    cache.close()


def test_forked_processes_share_the_cache_of_their_parent(path):
    context = multiprocessing.get_context("fork")
    with Answers(path, timeout=60) as cache:
        cache.put(question(0), answer(0))
        children = [context.Process(target=forked, args=(cache, number)) for number in (1, 2, 3)]
        for child in children:
            child.start()
        for n in range(50):
            cache.put(question(400 + n), answer(n))
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0, 0, 0]
        assert len(cache) == 201
        assert cache.trouble is None


def test_a_fork_while_other_threads_write_leaves_both_sides_working(path):
    code = """
    import threading
    cache = Answers(sys.argv[1], timeout=60)
    stop = threading.Event()
    def write():
        n = 0
        while not stop.is_set():
            cache.put(question(n % 50), answer(n % 50))
            n += 1
    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads: thread.start()
    states = []
    for _ in range(10):
        pid = os.fork()
        if pid == 0:
            cache.put(question(99), answer(99))
            os._exit(0 if cache.get(question(99)) == answer(99) and cache.trouble is None else 1)
        states.append(os.waitpid(pid, 0)[1])
    stop.set()
    for thread in threads: thread.join()
    assert states == [0] * 10, states
    assert cache.trouble is None, cache.trouble
    """
    child = in_process("import warnings; warnings.simplefilter('ignore')\n" + textwrap.dedent(code), path)
    assert child.wait(timeout=120) == 0
    child.communicate()


# ---- files that fail


def filled(path: Path, count: int = 40) -> None:
    with Answers(path) as cache:
        for n in range(count):
            cache.put(question(n), answer(n))
        assert cache.trouble is None


def check(path: Path, count: int = 40) -> str | None:
    """Look every question up: the right answer or none; and unless the file was refused, it works again."""
    with Answers(path) as cache:
        for n in range(count):
            assert cache.get(question(n)) in (None, answer(n))
        cache.put(question(count), answer(count))
        refused = cache.trouble is not None and "left alone" in cache.trouble
        assert cache.get(question(count)) == (None if refused else answer(count))
        return cache.trouble


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "answers.sqlite"
    filled(path)
    return path


@settings(max_examples=150)
@given(data=st.data())
def test_whatever_bytes_are_changed_an_answer_is_right_or_not_there(tmp_path_factory, sound, data):
    path = tmp_path_factory.mktemp("damage") / "answers.sqlite"
    content = bytearray(sound.read_bytes())
    places = st.integers(0, 200) | st.integers(0, len(content) - 1)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=20)):
        content[place] = value
    path.write_bytes(content)
    check(path)


@settings(max_examples=60)
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


@pytest.mark.parametrize("lock", ["EXCLUSIVE", "IMMEDIATE"])
def test_a_file_that_somebody_else_holds_is_done_without_until_it_is_free(path, impatient, lock):
    filled(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"BEGIN {lock}")
        with Answers(path, timeout=0.01) as cache:
            assert cache.get(question(1)) == (None if lock == "EXCLUSIVE" else answer(1))
            cache.put(question(100), answer(100))
            assert "locked" in cache.trouble
            assert cache.get(question(100)) is None
            other.execute("ROLLBACK")
            cache.put(question(100), answer(100))
            assert cache.get(question(100)) == answer(100)


def test_a_lock_that_stays_is_not_waited_for_every_time(path):
    filled(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with Answers(path, timeout=0.05) as cache:
            opened = []
            connect = sqlite_file.connect
            sqlite_file.connect = lambda *arguments: opened.append(1) or connect(*arguments)
            try:
                for n in range(50):
                    assert cache.get(question(n)) is None
            finally:
                sqlite_file.connect = connect
            assert opened == []


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


def test_caches_of_one_process_do_not_give_up_each_others_locks(path):
    # Opening and closing a file gives up all locks that a process has on it, also those of other connections.
    with Answers(path) as cache:
        cache.put(question(1), answer(1))
        with store._LOCK, sqlite_file.transaction(cache._connection):
            reader = threading.Thread(target=lambda: Answers(path).close())
            reader.start()
            reader.join(0.1)
            assert reader.is_alive()
        reader.join()
