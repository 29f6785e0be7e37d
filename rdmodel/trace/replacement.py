"""Replace the folder of a trace by a new one when that is complete, and recover it if the process was killed meanwhile.

A folder is written under a hidden name beside its target, ``.NAME.*.partial``. Then both exchange their names in one
step. Where the system cannot do that, the old folder first gets the name ``.NAME.*.old``; if the process is killed
before the new one has taken its place, the next reader or writer gives it its name back (`recover`).

The writer holds a lock on its hidden folder, which ends with the process, however it ends. So others can tell what it
left behind.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from uuid import uuid4

from rdmodel.common.exchange import exchange
from rdmodel.errors import TraceError

_PARTIAL, _OLD = ".partial", ".old"


def resolve_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder that writing to `path` creates or replaces: the target of a link, which stays.

    Raises `TraceError` for links in a circle.
    """
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise TraceError(f"{os.fspath(path)}: is a symbolic link that leads back to itself")
    return target


@contextmanager
def folder_replaced_when_complete(target: Path) -> Iterator[Path]:
    """Provide a new folder beside `target` that replaces it on success and is deleted on any exception.

    The folder and its files have the permissions of those that they replace. Folders that killed processes have left
    for the same target are deleted. Raises `OSError` if a folder cannot be made or renamed.
    """
    _delete_abandoned(target)
    partial = target.with_name(f".{target.name}.{uuid4().hex}{_PARTIAL}")
    lock = None
    try:
        # Within the block, because a signal may end the program as soon as the folder exists.
        partial.mkdir()
        lock = _lock(partial)
        yield partial
        _copy_modes(target, partial)
        _swap(partial, target)
    finally:
        _delete(partial)
        if lock is not None:
            os.close(lock)


def recover(path: str | os.PathLike[str]) -> None:
    """Give the trace at `path` its name back if a process was killed between the two renames that replace it."""
    if os.path.lexists(path):
        return
    target = Path(path)
    for old in _siblings(target, _OLD):
        # While its writer lives, the new folder is about to take the name.
        if _is_abandoned(old.with_suffix(_PARTIAL)):
            try:
                old.rename(target)
            except OSError as error:
                reason = error.strerror or error
                raise TraceError(f"{target}: is {old} since a run was killed; cannot be renamed: {reason}") from None
            return


def _swap(partial: Path, target: Path) -> None:
    if not target.exists():
        partial.rename(target)
    elif not exchange(partial, target):
        old = partial.with_suffix(_OLD)
        target.rename(old)
        try:
            partial.rename(target)
        finally:
            if target.exists():
                _delete(old)
            else:
                old.rename(target)


def _copy_modes(source: Path, target: Path) -> None:
    """Give a folder and its files the permissions of another folder and its files of the same names."""
    for path in (target, *target.iterdir()):
        with suppress(FileNotFoundError):
            path.chmod(stat.S_IMODE((source / path.relative_to(target)).stat().st_mode))


def _delete(folder: Path) -> None:
    with suppress(OSError):
        folder.chmod(stat.S_IRWXU)  # of a folder that may not be changed, the files could not be deleted
    shutil.rmtree(folder, ignore_errors=True)


# ---- What killed processes leave


def _siblings(target: Path, suffix: str) -> list[Path]:
    return sorted(target.parent.glob(f".{escape(target.name)}.*{suffix}"))


def _delete_abandoned(target: Path) -> None:
    for partial in _siblings(target, _PARTIAL):
        if _is_abandoned(partial):
            _delete(partial)
    for old in _siblings(target, _OLD):
        if target.exists() and not old.with_suffix(_PARTIAL).exists():
            _delete(old)


def _lock(folder: Path) -> int | None:
    """Return a descriptor that holds a lock on a folder until it is closed; None where folders have no locks."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock

        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_abandoned(folder: Path) -> bool:
    """Return whether no process holds the lock on a folder, or the folder does not exist."""
    if not folder.is_dir():
        return not os.path.lexists(folder)
    descriptor = _lock(folder)
    if descriptor is None:
        return False
    os.close(descriptor)
    return True
