"""Exchange two files or folders in one step that no other process sees half done, where the system can."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS."""

_AT_WORKING_DIRECTORY = -100

_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)
"""Errors of systems and file systems that cannot exchange names."""


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two existing files or folders; return False if the system cannot do it.

    Raises `OSError` if it can, but fails.
    """
    library = _library()
    names = os.fsencode(one), os.fsencode(other)
    if hasattr(library, "renameat2"):
        failed = library.renameat2(_AT_WORKING_DIRECTORY, names[0], _AT_WORKING_DIRECTORY, names[1], _EXCHANGE)
    elif hasattr(library, "renamex_np"):
        failed = library.renamex_np(*names, _EXCHANGE)
    else:
        return False
    if failed and (number := ctypes.get_errno()) not in _CANNOT:
        raise OSError(number, os.strerror(number), str(one))
    return not failed


@cache
def _library() -> Any:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):
        return None
