"""Write single files safely: replace nothing without permission, and show a file only when it is complete."""

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
        raise TraceError(f"{target}: exists already and is not a file; it is never overwritten")
    if not overwrite:
        raise TraceError(f"{target}: exists already; overwrite=True (--overwrite) replaces it")


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give the name of a temporary file beside `target`; rename it to `target` on success, delete it on an exception.

    Raises `TraceError` for an `OSError`.
    """
    partial = target.with_name(f".{target.name}.{uuid4().hex}.partial")
    try:
        yield partial
        partial.replace(target)
    except OSError as error:
        raise TraceError(f"{target}: cannot be written: {error_reason(error)}") from error
    finally:
        partial.unlink(missing_ok=True)


def error_reason(error: BaseException) -> str:
    """Return the reason that an exception gives, in one line."""
    return str(getattr(error, "strerror", None) or error).partition("\n")[0]
