"""Recognise, open, read and write the SQLite file of `rdmodel.answers.store`; raise its errors.

Every row carries a SHA-256 of its key and its answer, so that no answer depends on the file being sound. The file is
therefore written without waiting for the disk. The journal is SQLite's rollback journal: a write-ahead log needs memory
that processes share, which network file systems do not offer, and additional files, which a read-only folder cannot
hold.
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

SQLITE_MAGIC = b"SQLite format 3\0"
"""The first bytes of every SQLite file."""

APPLICATION_ID = 0x72644D41
"""The SQLite application id of an answers file."""

SCHEMA_VERSION = 1
"""The newest version of the tables that this rdmodel reads."""

TABLES = {
    "rdmodel_answers": "CREATE TABLE rdmodel_answers (id INTEGER PRIMARY KEY, mark BLOB, answer BLOB)",
    "rdmodel_uses": "CREATE TABLE rdmodel_uses (id INTEGER PRIMARY KEY, used INTEGER)",
    "rdmodel_order": "CREATE INDEX rdmodel_order ON rdmodel_uses (used)",
}
"""The tables. The id of a row is made of the first 63 bits of its key; `used` numbers the uses over all processes."""

PRAGMAS = (
    "PRAGMA journal_mode = TRUNCATE",
    "PRAGMA synchronous = OFF",
    "PRAGMA cell_size_check = ON",
    "PRAGMA trusted_schema = OFF",
)
"""Settings of every connection."""

PAGE_BYTES = 4096
"""Bytes of SQLite's first page, by which a file is recognised."""

MAX_ROW_BYTES = 1_000_000_000
"""The maximum length of a row in SQLite."""

ANSWERS_PER_EVICTION = 16
"""Answers that are deleted at a time when the file is too large."""

TRANSIENT_ERROR_CODES = frozenset(
    (
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN),
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT),
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_NOLFS),
    )
)
"""Errors that do not indicate damage to the content of the file; all others do."""


class RefusedError(Exception):
    """Raised if the file cannot be used or is not an answers file; the file does not change."""


class DamagedError(Exception):
    """Raised if the content of an answers file differs from what was written."""


FILE_ERRORS = (sqlite3.Error, DamagedError, OverflowError, UnicodeError, MemoryError)
"""Exceptions that a recognised file may raise; UnicodeError because SQLite's messages may quote damaged text."""


def is_transient(error: Exception) -> bool:
    """Return whether one of `FILE_ERRORS` does not indicate damage to the content of the file."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, MemoryError) or (code is not None and code & 0xFF in TRANSIENT_ERROR_CODES)


# ---- Files


def default_path() -> str:
    """Return the default path of the cache; it begins with ~ if there is no home folder."""
    folder = os.environ.get("RDMODEL_CACHE")
    if folder:
        return absolute_path(os.path.join(folder, "answers.sqlite"))
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "rdmodel", "answers.sqlite")


def absolute_path(path: str) -> str:
    """Return an absolute path, or the path itself if there is no current folder."""
    try:
        return os.path.abspath(path)
    except OSError:
        return path


def file_identity(path: str) -> tuple[int, int] | None:
    """Return the device and inode of a file, which identify it under any name; None if there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def is_answers_file(path: str) -> bool:
    """Return whether a path may be used: there is no file, an empty one, or one with two of three marks.

    Two of three, so that an answers file is recognised although one mark is damaged, and no other file is mistaken
    for one. Raises `OSError`, `RefusedError` for a folder, a device and the like, or `DamagedError`.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(mode):
        raise RefusedError("is a folder" if stat.S_ISDIR(mode) else "is not a regular file")
    with open(path, "rb") as file:
        head = file.read(PAGE_BYTES)
    marks = (
        head.startswith(SQLITE_MAGIC),
        head[68:72] == APPLICATION_ID.to_bytes(4, "big"),
        b"CREATE TABLE rdmodel_answers" in head,
    )
    if sum(marks) < 2:
        return not head
    # With unknown numbers here, SQLite treats the file as one of a newer version, which can only be read.
    if not {*head[18:20]} <= {1, 2}:
        raise DamagedError("unknown version of SQLite's format")
    return True


def connect(path: str, timeout: float, max_row_bytes: int) -> sqlite3.Connection:
    """Open a recognised file, or create it; rows have up to `max_row_bytes` bytes.

    Raises one of `FILE_ERRORS`, and `RefusedError` for the file of a newer rdmodel.
    """
    uri = f"{Path(path).as_uri()}?mode=rwc"
    connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        connection.text_factory = bytes
        # A damaged length must not cause a large allocation.
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max_row_bytes, MAX_ROW_BYTES))
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
    if _number(connection, "PRAGMA user_version") > SCHEMA_VERSION:
        raise RefusedError("is of a newer rdmodel; left alone")
    raise DamagedError("other tables than this rdmodel makes")


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in TABLES.values():
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all changes of the with block, or none of them."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


# ---- Rows; functions that write are called within a transaction


def row_id(key: bytes) -> int:
    """Return the id of a key's row; the mark distinguishes keys with the same id."""
    return int.from_bytes(key[:8], "big") >> 1


def read_answer(connection: sqlite3.Connection, key: bytes) -> dict[str, Any] | None:
    """Return the answer that was inserted under a key, or None if it is missing or damaged."""
    row = connection.execute("SELECT mark, answer FROM rdmodel_answers WHERE id = ?", (row_id(key),)).fetchone()
    if row is None or not isinstance(row[1], bytes) or row[0] != _mark(key, row[1]):
        return None
    answer: dict[str, Any] = json.loads(row[1])
    return answer


def insert_answer(connection: sqlite3.Connection, key: bytes, answer: bytes, limit: int) -> None:
    """Insert an answer, as JSON; delete the least recently used ones until the file has at most `limit` bytes."""
    row = (row_id(key), _mark(key, answer), answer)
    connection.execute("INSERT OR REPLACE INTO rdmodel_answers VALUES (?, ?, ?)", row)
    connection.execute("INSERT OR REPLACE INTO rdmodel_uses VALUES (?, ?)", (row[0], _last(connection) + 1))
    oldest = f"(SELECT id FROM rdmodel_uses ORDER BY used LIMIT {ANSWERS_PER_EVICTION})"
    while _bytes(connection) > limit:
        deleted = connection.execute(f"DELETE FROM rdmodel_answers WHERE id IN {oldest}").rowcount
        listed = connection.execute(f"DELETE FROM rdmodel_uses WHERE id IN {oldest}").rowcount
        if not deleted + listed:
            raise DamagedError("answers without the number of their last use")


def record_uses(connection: sqlite3.Connection, ids: list[int]) -> None:
    """Record that these rows were used, in this order."""
    if ids:
        last = _last(connection)
        numbers = ((last + at, row) for at, row in enumerate(ids, start=1))
        connection.executemany("UPDATE rdmodel_uses SET used = ? WHERE id = ?", numbers)


def delete_all(connection: sqlite3.Connection) -> None:
    """Delete all rows."""
    for table in ("rdmodel_answers", "rdmodel_uses"):
        connection.execute(f"DELETE FROM {table}")


def count_answers(connection: sqlite3.Connection) -> int:
    """Return the number of answers."""
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
        raise DamagedError("no number where one is expected")
    return value
