"""Write files so that a name always has either its old content or the complete new one.

A file is written under a hidden name beside its target, `.NAME.*.partial`, and renamed when it is complete. The writer
holds a lock on the hidden file, which ends with the process, however it ends: so the next writer of the same name can
delete what killed runs have left.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from glob import escape
from pathlib import Path
from uuid import uuid4

PARTIAL_SUFFIX = ".partial"
"""End of the names of files that are being written."""


def resolve_target(path: str | os.PathLike[str]) -> Path:
    """Return the file that writing to `path` creates or replaces: the target of a symbolic link, not the link.

    Raises `OSError` for links in a circle, and for a target that exists and is not a regular file.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(f"{os.fspath(path)} is a symbolic link that leads back to itself")
    if target.exists() and not target.is_file():
        raise OSError("exists already and is not a file")
    return target


@contextmanager
def replaced_when_complete(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give the name of a new file beside `path`; rename it to `path` on success, delete it on any exception.

    The file has the permissions of the one that it replaces. A symbolic link stays, and its target is replaced. Files
    that killed runs have left for the same target are deleted.

    Raises `OSError` if the file cannot be made, and those of `resolve_target`.
    """
    target = resolve_target(path)
    delete_abandoned(target)
    partial = target.with_name(f".{target.name}.{uuid4().hex}{PARTIAL_SUFFIX}")
    lock = None
    try:
        # Within the block, because a signal may end the program as soon as the file exists.
        lock = _create_locked(partial)
        yield partial
        with suppress(FileNotFoundError):
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)


def delete_abandoned(target: Path) -> None:
    """Delete the unfinished files for `target` whose writers have ended."""
    for partial in target.parent.glob(f".{escape(target.name)}.*{PARTIAL_SUFFIX}"):
        # Another user's file, or one that its writer has renamed or deleted since, stays or is gone already.
        with suppress(OSError):
            file = os.open(partial, os.O_RDWR | os.O_NOFOLLOW)
            try:
                flock(file, LOCK_EX | LOCK_NB)
                partial.unlink()
            finally:
                os.close(file)


def _create_locked(path: Path) -> int:
    """Create a file and return its descriptor, which holds a lock on it until it is closed."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        # Where the file system has no locks, nobody can lock the file, and so nobody deletes it.
        with suppress(OSError):
            flock(file, LOCK_EX)
        # Another writer may have taken the file for abandoned in the moment before the lock.
        if path.exists():
            return file
        os.close(file)
