"""Write single files safely: replace nothing without permission, and show a file only when it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rdmodel.common.file_writing import replaced_when_complete
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
    """Give the name of a new, empty file; rename it to `target` on success, delete it on an exception.

    The rules are those of `rdmodel.common.file_writing`: permissions and links stay. Raises `TraceError` for an
    `OSError`.
    """
    try:
        with replaced_when_complete(target) as partial:
            yield partial
    except OSError as error:
        raise TraceError(f"{target}: cannot be written: {error_reason(error)}") from error


def error_reason(error: BaseException) -> str:
    """Return the reason that an exception gives, in one line."""
    return str(getattr(error, "strerror", None) or error).partition("\n")[0]
