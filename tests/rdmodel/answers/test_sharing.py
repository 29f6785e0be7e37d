"""Threads and processes that share an answers file, and the locks of the file."""

from __future__ import annotations

import multiprocessing
import signal
import sqlite3
import textwrap
import threading
import time
from contextlib import closing

import pytest

from rdmodel.answers import sqlite_file, store
from rdmodel.answers.store import Answers
from tests.support.stored_answers import answer, filled, in_process, question


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
