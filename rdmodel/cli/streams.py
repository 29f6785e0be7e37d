"""Prepare the standard streams of the process: closed ones, and names that they cannot encode."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOSSY_HANDLERS = ("backslashreplace", "namereplace", "xmlcharrefreplace", "replace", "ignore")
"""Error handlers of a stream with which it writes every text."""


@contextmanager
def standard_streams() -> Iterator[None]:
    """Provide streams to which a command can write every text.

    A closed stdin is an input that has ended, and a text for a closed stderr is dropped. A character that stdout cannot
    encode becomes an escape, such as ``\\xe9``. Raises `OSError` for a closed stdout.
    """
    if sys.stdout is None:
        _open_null("stderr")
        raise OSError(errno.EBADF, "is closed; redirect it to a file or to /dev/null", "standard output")
    for name in ("stdin", "stderr"):
        _open_null(name)
    stdout = sys.stdout
    if not isinstance(stdout, io.TextIOWrapper) or stdout.errors in LOSSY_HANDLERS:
        yield
        return
    before = stdout.errors
    stdout.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        stdout.reconfigure(errors=before)


def _open_null(name: str) -> None:
    """Open the null device in place of a closed stream."""
    if getattr(sys, name) is None:
        # It gets the number of the stream, which is the lowest free one. Otherwise the next file that is opened would
        # have that number, and would receive the messages that C code writes to stderr.
        file = os.open(os.devnull, os.O_RDWR)
        setattr(sys, name, os.fdopen(file, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))
