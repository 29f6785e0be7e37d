"""Recognise, open, read and write the SQLite file of `rdmodel.answers.store`; raise whatever is wrong with it.

Every row carries a SHA-256 of its key and its answer, so nothing depends on the file being sound; it is therefore
written without waiting for the disk. The journal is SQLite's rollback journal: a write-ahead log needs memory shared
between processes, which network file systems do not have, and files that a read-only folder cannot hold.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

MAGIC = b"SQLite format 3\0"
APPLICATION = 0x72644D41
SCHEMA = 1
TABLES = {
    "rdmodel_answers": "CREATE TABLE rdmodel_answers (id INTEGER PRIMARY KEY, mark BLOB, answer BLOB)",
    "rdmodel_uses": "CREATE TABLE rdmodel_uses (id INTEGER PRIMARY KEY, used INTEGER)",
    "rdmodel_order": "CREATE INDEX rdmodel_order ON rdmodel_uses (used)",
}
"""An answer has the first 63 bits of its key for an id, and the number of its last use, counted over all processes."""

PRAGMAS = (
    "PRAGMA journal_mode = TRUNCATE",
    "PRAGMA synchronous = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA trusted_schema = OFF",
)
PAGE = 4096
"""Bytes from the beginning of a file by which it is recognised: SQLite's first page."""

LONGEST = 1_000_000_000
"""The most that SQLite allows for the length of a row."""

EVICTED = 16
"""Answers that go at a time when there are too many bytes."""

PASSING = frozenset(
    (
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN),
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT),
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_NOLFS),
    )
)
"""Errors that say nothing against what is in the file; all others mean that it is damaged."""


class RefusedError(Exception):
    """The file cannot be used, or is not ours: it is left alone."""


class DamagedError(Exception):
    """The file is ours, and what is in it is not what was written."""


FAILURES = (sqlite3.Error, DamagedError, OverflowError, UnicodeError, MemoryError)
"""What using a file raises that was recognised before; SQLite's messages may quote damaged text."""


def is_passing(error: Exception) -> bool:
    """Tell whether one of `FAILURES` says nothing against what is in the file."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, MemoryError) or (code is not None and code & 0xFF in PASSING)


# ---- Files


def default_path() -> str:
    """Return the path of the cache that a user has without saying where; it begins with ~ if there is no home."""
    folder = os.environ.get("RDMODEL_CACHE")
    if folder:
        return absolute(os.path.join(folder, "answers.sqlite"))
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "rdmodel", "answers.sqlite")


def absolute(path: str) -> str:
    """Return a path that stays what it is where the current folder changes, or itself if there is no such folder."""
    try:
        return os.path.abspath(path)
    except OSError:
        return path


def identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name, or None if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def recognise(path: str) -> bool:
    """Tell whether a file may be used: none, an empty one, or one with at least two of three marks of ours.

    So a file of ours is known where one of the marks is damaged, and others are not taken for it. Raises `OSError`,
    `RefusedError` for a folder, a device and the like, or `DamagedError`.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(mode):
        raise RefusedError("is a folder" if stat.S_ISDIR(mode) else "is not a regular file")
    with open(path, "rb") as file:
        head = file.read(PAGE)
    marks = (
        head.startswith(MAGIC),
        head[68:72] == APPLICATION.to_bytes(4, "big"),
        b"CREATE TABLE rdmodel_answers" in head,
    )
    if sum(marks) < 2:
        return not head
    # Numbers that SQLite does not know here make it take the file for a newer one that can only be read.
    if not {*head[18:20]} <= {1, 2}:
        raise DamagedError("unknown version of SQLite's format")
    return True


def connect(path: str, timeout: float, longest: int) -> sqlite3.Connection:
    """Open a file that was recognised, or make it; rows have up to `longest` bytes.

    Raises what `FAILURES` has, and `RefusedError` for the file of a newer rdmodel.
    """
    uri = f"{Path(path).as_uri()}?mode=rwc"
    connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        connection.text_factory = bytes
        # A damaged length must not become an allocation.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(longest, LONGEST))
        for pragma in PRAGMAS:
            connection.execute(pragma)
        if not _has_tables(connection):
            with transaction(connection):
                if not _has_tables(connection):
                    _make_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _has_tables(connection: sqlite3.Connection) -> bool:
    rows = connection.execute("SELECT name, sql FROM sqlite_schema").fetchall()
    if dict(rows) == {name.encode(): statement.encode() for name, statement in TABLES.items()}:
        return True
    if not rows:
        return False
    if _number(connection, "PRAGMA user_version") > SCHEMA:
        raise RefusedError("is of a newer rdmodel; left alone")
    raise DamagedError("other tables than this rdmodel makes")


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES.values():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all of what is done within, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


# ---- Rows; what writes is called within a transaction


def id_of(key: bytes) -> int:
    """Return the number of a row: keys with the same are told apart by the mark."""
    return int.from_bytes(key[:8], "big") >> 1


def read(connection: sqlite3.Connection, key: bytes) -> dict[str, Any] | None:
    """Return the answer that was inserted under a key, or None if it is not there, or not as it was."""
    row = connection.execute("SELECT mark, answer FROM rdmodel_answers WHERE id = ?", (id_of(key),)).fetchone()
    if row is None or not isinstance(row[1], bytes) or row[0] != _mark(key, row[1]):
        return None
    answer: dict[str, Any] = json.loads(row[1])
    return answer


def insert(connection: sqlite3.Connection, key: bytes, answer: bytes, limit: int) -> None:
    """Put an answer, as JSON, in; those not used for longest go until the file takes no more than `limit` bytes."""
    row = (id_of(key), _mark(key, answer), answer)
    connection.execute("INSERT OR REPLACE INTO rdmodel_answers VALUES (?, ?, ?)", row)
    connection.execute("INSERT OR REPLACE INTO rdmodel_uses VALUES (?, ?)", (row[0], _last(connection) + 1))
    oldest = f"(SELECT id FROM rdmodel_uses ORDER BY used LIMIT {EVICTED})"
    while _bytes(connection) > limit:
        gone = connection.execute(f"DELETE FROM rdmodel_answers WHERE id IN {oldest}").rowcount
        listed = connection.execute(f"DELETE FROM rdmodel_uses WHERE id IN {oldest}").rowcount
        if not gone + listed:
            raise DamagedError("answers without a number of their last use")


def renew(connection: sqlite3.Connection, ids: list[int]) -> None:
    """Write down that these rows were used, the last of them last."""
    if ids:
        last = _last(connection)
        numbers = ((last + at, one) for at, one in enumerate(ids, start=1))
        connection.executemany("UPDATE rdmodel_uses SET used = ? WHERE id = ?", numbers)


def delete_all(connection: sqlite3.Connection) -> None:
    """Take all rows out."""
    for table in ("rdmodel_answers", "rdmodel_uses"):
        connection.execute(f"DELETE FROM {table}")


def count(connection: sqlite3.Connection) -> int:
    """Return how many answers there are."""
    return _number(connection, "SELECT count(*) FROM rdmodel_answers")


def _mark(key: bytes, answer: bytes) -> bytes:
    return hashlib.sha256(key + answer).digest()


def _last(connection: sqlite3.Connection) -> int:
    return _number(connection, "SELECT coalesce(max(used), 0) FROM rdmodel_uses")


def _bytes(connection: sqlite3.Connection) -> int:
    pages = _number(connection, "PRAGMA page_count") - _number(connection, "PRAGMA freelist_count")
    return pages * _number(connection, "PRAGMA page_size")


def _number(connection: sqlite3.Connection, query: str) -> int:
    (value,) = connection.execute(query).fetchone() or (None,)
    if not isinstance(value, int):
        raise DamagedError("something else where a number was")
    return value
