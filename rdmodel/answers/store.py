"""Answers that were given before, in a file that many processes share (`rdmodel.answers.sqlite_file`).

A cache only: whatever is wrong with the file, an answer is found, and then it is the one that was put there, or it is
not found.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakSet

from rdmodel.answers import sqlite_file
from rdmodel.answers.key import question_key
from rdmodel.answers.sqlite_file import RefusedError
from rdmodel.common.checks import check_int, check_number
from rdmodel.errors import ConfigError

T = TypeVar("T")

LIMIT = 64 << 20
LEAST = 64 << 10
SHARE = 8
"""An answer takes at most 1/8 of the file."""

USES = 256
"""Answers that are found again before a process writes down that they were."""

PAUSE = 2.0
"""Seconds until something that failed is tried again: a service must not wait for a lock at each request."""

# One lock for all caches of a process. Reading a file other than through SQLite gives up the locks that the process has
# on it, so no other thread may be within a transaction then (`recognise`); nor may one when the process forks.
_LOCK = threading.RLock()
_OPEN: WeakSet[Answers] = WeakSet()
_INHERITED: list[sqlite3.Connection] = []


class Answers:
    """A cache of answers to questions, on disk; safe to share between threads and processes, forked ones included.

    `path` is the file; None means ``answers.sqlite`` in ``$RDMODEL_CACHE``, or else in the ``rdmodel`` folder of
    ``$XDG_CACHE_HOME`` or of ``~/.cache``, which is made. The file takes up to `limit` bytes: the answers whose last
    use is longest ago go first. Another process that holds the file is waited for, for up to `timeout` seconds.

    Neither a file that is damaged, not ours, locked or not to be written, nor a full disk raises an error: a damaged
    file is begun anew, otherwise there are no answers, and `trouble` says why. A file that is not ours is never
    written; one with the name of None is moved aside, to ``answers.sqlite.damaged``.

    Raises `ConfigError` for a `path`, `limit` or `timeout` that means nothing.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, limit: int = LIMIT, timeout: float = 1.0) -> None:
        check_int("limit", limit, LEAST)
        check_number("timeout", timeout, 0)
        if path is not None and (not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path) or 0, str)):
            raise ConfigError(f"path={path!r}: must be the path of a file")
        self.trouble: str | None = None
        """What last went wrong, in one line; None if nothing did."""
        self._is_default = path is None
        self._path = sqlite_file.default_path() if path is None else sqlite_file.absolute(os.fspath(path))
        self._limit = limit
        self._timeout = timeout
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._used: dict[int, None] = {}
        self._closed = False
        self._paused_until = self._unwritable_until = -1.0
        with _LOCK:
            _OPEN.add(self)
            self._ready()

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    def get(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a question, or None if it is not there.

        It is what JSON makes of the mapping that was put: tuples are lists. Raises `ConfigError` for a question that is
        not JSON, or that holds NaN or an infinity.
        """
        key = self._key(question)
        if key is None:
            return None
        with _LOCK:
            found = self._attempt(lambda connection: sqlite_file.read(connection, key))
            if found is not None:
                # The one that was used last is last.
                self._used.pop(sqlite_file.id_of(key), None)
                self._used[sqlite_file.id_of(key)] = None
                if len(self._used) >= USES:
                    self._write()
        return found

    def put(self, question: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Keep the answer to a question, in place of one that is there.

        Raises `ConfigError` for a question or an answer that is not JSON, or that holds NaN or an infinity. An answer
        of more than 1/8 of the limit is not kept.
        """
        text = _encode(answer)
        key = self._key(question)
        if key is not None and len(text) * SHARE <= self._limit:
            with _LOCK:
                self._write(lambda connection: sqlite_file.insert(connection, key, text, self._limit))

    def clear(self) -> None:
        """Forget all answers, those of other versions of rdmodel included."""
        with _LOCK:
            self._used.clear()
            self._write(sqlite_file.delete_all)
            self._attempt(lambda connection: connection.execute("VACUUM"), writes=True)

    def __len__(self) -> int:
        """Return how many answers the file holds, those of other versions of rdmodel included."""
        with _LOCK:
            return self._attempt(sqlite_file.count) or 0

    def __bool__(self) -> bool:
        """Return True: an empty cache is a cache."""
        return True

    def close(self) -> None:
        """Close the file; from then on nothing is found and nothing is kept."""
        with _LOCK:
            if self._used:
                self._write()
            self._closed = True
            self._drop()

    def __enter__(self) -> Answers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        connection = self.__dict__.get("_connection")
        if connection is not None:
            connection.close()

    # ---- Files that fail; all within the lock

    def _key(self, question: Mapping[str, Any]) -> bytes | None:
        try:
            return question_key(question)
        except OSError as error:
            self.trouble = f"{error.filename}: cannot be read: {error.strerror}"
            return None

    def _write(self, work: Callable[[sqlite3.Connection], None] | None = None) -> None:
        """Do `work` in one transaction, with the uses that are to be written down."""

        def write(connection: sqlite3.Connection) -> None:
            with sqlite_file.transaction(connection):
                sqlite_file.renew(connection, list(self._used))
                if work is not None:
                    work(connection)

        if time.monotonic() >= self._unwritable_until:
            self._attempt(write, writes=True)
        self._used.clear()

    def _attempt(self, work: Callable[[sqlite3.Connection], T], writes: bool = False) -> T | None:
        """Return what `work` returns, or None where the file does not allow it; a damaged file is begun anew once."""
        for _ in range(2):
            if not self._ready() or self._connection is None:
                return None
            try:
                return work(self._connection)
            except sqlite_file.FAILURES as error:
                if not self._recover(error, writes):
                    return None
        return None

    def _ready(self) -> bool:
        """Tell whether there is a connection to the file that has the name now; open one if need be."""
        if self._closed or time.monotonic() < self._paused_until:
            return False
        if self._connection is not None and sqlite_file.identity(self._path) != self._identity:
            self._drop()
        for _ in range(2):
            if self._connection is not None:
                return True
            try:
                self._open()
            except RefusedError as error:
                self._pause(str(error))
                return False
            except sqlite_file.FAILURES as error:
                if not self._recover(error, writes=False):
                    return False
        return self._connection is not None

    def _open(self) -> None:
        try:
            folder = os.path.dirname(self._path)
            if not os.path.isabs(folder):
                raise RefusedError("has no absolute path: is there a home, or a current folder?")
            if self._is_default:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            os.stat(folder)
            self._identity = sqlite_file.identity(self._path)
            if not sqlite_file.recognise(self._path):
                self._set_aside()
        except (OSError, ValueError) as error:  # ValueError: a path with a null character
            raise RefusedError(f"cannot be used: {getattr(error, 'strerror', None) or error}") from None
        self._connection = sqlite_file.connect(self._path, self._timeout, self._limit)
        self._identity = sqlite_file.identity(self._path)

    def _set_aside(self) -> None:
        """Make room for the file of the cache itself; leave any other alone."""
        if not self._is_default:
            raise RefusedError("is not a cache of answers; left alone")
        os.replace(self._path, f"{self._path}.damaged")
        self.trouble = f"{self._path}: is not a cache of answers; moved to {self._path}.damaged"

    def _recover(self, error: Exception, writes: bool) -> bool:
        """Make the best of an error; return whether a damaged file is out of the way."""
        self._drop()
        if sqlite_file.is_passing(error):
            self._pause(f"cannot be {'written' if writes else 'read'}: {error}", writes)
            return False
        try:
            self._remove()
        except OSError as failure:
            self._pause(f"is damaged ({error}), and cannot be removed: {failure.strerror}")
            return False
        self.trouble = f"{self._path}: is damaged ({error}), and begun anew"
        return True

    def _remove(self) -> None:
        # Another process may have begun it anew by now.
        if sqlite_file.identity(self._path) == self._identity:
            for path in (f"{self._path}-journal", self._path):
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def _pause(self, why: str, writes: bool = False) -> None:
        self.trouble = f"{self._path}: {why}"
        until = time.monotonic() + PAUSE
        if writes:
            self._unwritable_until = until
        else:
            self._paused_until = until

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _abandon(self) -> None:
        """Forget a connection that belongs to the parent process: closing it here would disturb it."""
        if self._connection is not None:
            _INHERITED.append(self._connection)
            self._connection = None
        self._used.clear()


def _encode(answer: Mapping[str, Any]) -> bytes:
    if not isinstance(answer, Mapping):
        raise ConfigError(f"answer: {answer!r}: must be a mapping")
    try:
        return json.dumps(dict(answer), separators=(",", ":"), allow_nan=False, default=_plain).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"answer: cannot be written as JSON: {error}") from None


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _after_fork_in_child() -> None:
    for one in _OPEN:
        one._abandon()
    _LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_after_fork_in_child)
