"""Store answers to questions in a file that many processes share (`rdmodel.answers.sqlite_file`).

The file is only a cache: whatever state it is in, a lookup returns the answer that was stored, or none.
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

DEFAULT_LIMIT_BYTES = 64 << 20
"""Default limit on the size of the file."""

MIN_LIMIT_BYTES = 64 << 10
"""The smallest limit on the size of the file."""

LIMIT_PER_ANSWER = 8
"""The ratio of the limit to the largest answer that is stored."""

USES_PER_WRITE = 256
"""Answers that a process looks up before it records their uses in the file."""

RETRY_SECONDS = 2.0
"""Seconds until a failed operation is tried again: a service must not wait for a lock at each request."""

# One lock for all caches of a process. Reading a file without SQLite (`is_answers_file`) drops the locks that the
# process has on it, so no other thread may be in a transaction then; nor may one be when the process forks.
_LOCK = threading.RLock()

_OPEN: WeakSet[Answers] = WeakSet()
"""All open caches of this process."""

_INHERITED: list[sqlite3.Connection] = []
"""Connections of the parent process, which must not be closed here."""


class Answers:
    """A cache of answers to questions, on disk; safe to share between threads and processes, forked ones included.

    Problems with the file raise no errors. A damaged file is replaced by a new one. If the file is locked, cannot be
    written, is not an answers file, or the disk is full, no answers are found or stored. `trouble` describes the last
    problem. A file that is not an answers file is never written; in the default place it is renamed to
    ``answers.sqlite.damaged``.

    Parameters
    ----------
    path
        The file. None: ``answers.sqlite`` in ``$RDMODEL_CACHE``, or else in the folder ``rdmodel`` of
        ``$XDG_CACHE_HOME`` or of ``~/.cache``, which is created.
    limit
        Size limit of the file in bytes, at least 65,536; the least recently used answers are deleted first.
    timeout
        Seconds to wait for another process that has locked the file.

    Raises
    ------
    ConfigError
        If `path`, `limit` or `timeout` is invalid.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, limit: int = DEFAULT_LIMIT_BYTES, timeout: float = 1.0
    ) -> None:
        check_int("limit", limit, MIN_LIMIT_BYTES)
        check_number("timeout", timeout, 0)
        if path is not None and (not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path) or 0, str)):
            raise ConfigError(f"path={path!r}: must be the path of a file")
        self.trouble: str | None = None
        """The last problem with the file, in one line; None if there was none."""
        self._is_default = path is None
        self._path = sqlite_file.default_path() if path is None else sqlite_file.absolute_path(os.fspath(path))
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
        """Absolute path of the file."""
        return self._path

    def get(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a question, or None if none is stored.

        The answer went through JSON: tuples have become lists. Raises `ConfigError` for a question that is not JSON, or
        that contains NaN or an infinity.
        """
        key = self._key(question)
        if key is None:
            return None
        with _LOCK:
            answer = self._attempt(lambda connection: sqlite_file.read_answer(connection, key))
            if answer is not None:
                # The most recent use is last.
                self._used.pop(sqlite_file.row_id(key), None)
                self._used[sqlite_file.row_id(key)] = None
                if len(self._used) >= USES_PER_WRITE:
                    self._write()
        return answer

    def put(self, question: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Store the answer to a question, in place of an earlier one.

        Raises `ConfigError` for a question or an answer that is not JSON, or that contains NaN or an infinity. An
        answer of more than 1/8 of the limit is not stored.
        """
        text = _encode(answer)
        key = self._key(question)
        if key is not None and len(text) * LIMIT_PER_ANSWER <= self._limit:
            with _LOCK:
                self._write(lambda connection: sqlite_file.insert_answer(connection, key, text, self._limit))

    def clear(self) -> None:
        """Delete all answers, those of other versions of rdmodel included."""
        with _LOCK:
            self._used.clear()
            self._write(sqlite_file.delete_all)
            self._attempt(lambda connection: connection.execute("VACUUM"), writes=True)

    def __len__(self) -> int:
        """Return the number of answers in the file, those of other versions of rdmodel included."""
        with _LOCK:
            return self._attempt(sqlite_file.count_answers) or 0

    def __bool__(self) -> bool:
        """Return True, also for an empty cache."""
        return True

    def close(self) -> None:
        """Close the file; from then on no answers are found or stored."""
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

    # ---- Recovery from file errors; all methods are called with the lock held

    def _key(self, question: Mapping[str, Any]) -> bytes | None:
        try:
            return question_key(question)
        except OSError as error:
            self.trouble = f"{error.filename}: cannot be read: {error.strerror}"
            return None

    def _write(self, work: Callable[[sqlite3.Connection], None] | None = None) -> None:
        """Do `work` in one transaction, together with recording the pending uses."""

        def write(connection: sqlite3.Connection) -> None:
            with sqlite_file.transaction(connection):
                sqlite_file.record_uses(connection, list(self._used))
                if work is not None:
                    work(connection)

        if time.monotonic() >= self._unwritable_until:
            self._attempt(write, writes=True)
        self._used.clear()

    def _attempt(self, work: Callable[[sqlite3.Connection], T], writes: bool = False) -> T | None:
        """Return the result of `work`, or None if the file prevents it; replace a damaged file once and try again."""
        for _ in range(2):
            if not self._ready() or self._connection is None:
                return None
            try:
                return work(self._connection)
            except sqlite_file.FILE_ERRORS as error:
                if not self._recover(error, writes):
                    return None
        return None

    def _ready(self) -> bool:
        """Return whether there is a connection to the file that is now at `path`; open one if necessary."""
        if self._closed or time.monotonic() < self._paused_until:
            return False
        if self._connection is not None and sqlite_file.file_identity(self._path) != self._identity:
            self._drop()
        for _ in range(2):
            if self._connection is not None:
                return True
            try:
                self._open()
            except RefusedError as error:
                self._pause(str(error))
                return False
            except sqlite_file.FILE_ERRORS as error:
                if not self._recover(error, writes=False):
                    return False
        return self._connection is not None

    def _open(self) -> None:
        try:
            folder = os.path.dirname(self._path)
            if not os.path.isabs(folder):
                raise RefusedError("has no absolute path: is there a home folder, or a current folder?")
            if self._is_default:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            os.stat(folder)
            self._identity = sqlite_file.file_identity(self._path)
            if not sqlite_file.is_answers_file(self._path):
                self._set_aside()
        except (OSError, ValueError) as error:  # ValueError: a path with a null character
            raise RefusedError(f"cannot be used: {getattr(error, 'strerror', None) or error}") from None
        self._connection = sqlite_file.connect(self._path, self._timeout, self._limit)
        self._identity = sqlite_file.file_identity(self._path)

    def _set_aside(self) -> None:
        """Rename a foreign file in the default place; leave one in any other place alone."""
        if not self._is_default:
            raise RefusedError("is not a cache of answers; left alone")
        os.replace(self._path, f"{self._path}.damaged")
        self.trouble = f"{self._path}: is not a cache of answers; moved to {self._path}.damaged"

    def _recover(self, error: Exception, writes: bool) -> bool:
        """Handle an error; return True if it was a damaged file, which has been removed."""
        self._drop()
        if sqlite_file.is_transient(error):
            self._pause(f"cannot be {'written' if writes else 'read'}: {error}", writes)
            return False
        try:
            self._remove()
        except OSError as failure:
            self._pause(f"is damaged ({error}), and cannot be removed: {failure.strerror}")
            return False
        self.trouble = f"{self._path}: is damaged ({error}); a new one was begun"
        return True

    def _remove(self) -> None:
        # Another process may have replaced it already.
        if sqlite_file.file_identity(self._path) == self._identity:
            for path in (f"{self._path}-journal", self._path):
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def _pause(self, problem: str, writes: bool = False) -> None:
        self.trouble = f"{self._path}: {problem}"
        until = time.monotonic() + RETRY_SECONDS
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
        """Forget a connection that belongs to the parent process, whose locks closing it here would release."""
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
    for answers in _OPEN:
        answers._abandon()
    _LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_after_fork_in_child)
