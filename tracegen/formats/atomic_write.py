"""What every writer of a single file does: it replaces nothing unasked, and a file appears only when complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from rdmodel.errors import TraceError


def refuse_existing(target: Path, *, overwrite: bool) -> None:
    """Raise `TraceError` if `target` exists, unless it is a file and `overwrite` is set."""
    if not target.exists():
        return
    if not target.is_file():
        raise TraceError(f"{target}: exists already and is no file; it is never overwritten")
    if not overwrite:
        raise TraceError(f"{target}: exists already; overwrite=True (--overwrite) replaces it")


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give the name of a new file beside `target` that takes its place on success and vanishes on any exception.

    Raises `TraceError` for an `OSError`.
    """
    partial = target.with_name(f".{target.name}.{uuid4().hex}.partial")
    try:
        yield partial
        partial.replace(target)
    except OSError as error:
        raise TraceError(f"{target}: cannot be written: {reason(error)}") from error
    finally:
        partial.unlink(missing_ok=True)


def reason(error: BaseException) -> str:
    """Return what went wrong, in one line."""
    return str(getattr(error, "strerror", None) or error).partition("\n")[0]
