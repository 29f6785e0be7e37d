"""Questions that have been asked before: what makes two of them the same, as a key of 32 bytes.

A key is the SHA-256 of the question in one canonical form, the version of rdmodel and a digest of its code: code that
has changed in any way may answer differently, and shares no keys with what it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any

from rdmodel.errors import ConfigError
from rdmodel.version import __version__

PACKAGES = ("rdmodel", "tracegen")
"""Whose code decides an answer: a question may name a kernel, and what that is, is in tracegen."""

LIBRARIES = ("numpy", "scipy")
"""Whose versions decide it, too, among other things by how they draw random numbers; read from their ``version.py``."""

TEXTS = (".py", ".json", ".toml", ".cu", ".cuh")
COMPILED = (".so", ".pyd")
HEAD = 4096
"""Bytes from the beginning of a compiled module that are read: linkers write the identity of the build there."""


def question_key(question: Mapping[str, Any]) -> bytes:
    """Return the 32 bytes by which the answer to a question is kept.

    Raises `ConfigError` for what `canonical` refuses, and `OSError` where the code of rdmodel cannot be read.
    """
    return hashlib.sha256(_code_digest() + canonical(question).encode("ascii")).digest()


def canonical(question: Mapping[str, Any]) -> str:
    """Return a question as JSON in one form: keys in order, no spaces, ASCII only.

    Tuples count as lists. Whole numbers and others stay apart (1 is not 1.0), and so do texts that only look alike.
    Raises `ConfigError`, naming the place, for anything that is not JSON: NaN and infinities, keys that are not
    texts, other objects, nesting without end.
    """
    if not isinstance(question, Mapping):
        raise ConfigError(f"question: {question!r}: must be a mapping")
    try:
        return json.dumps(_plain(question, "question"), sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise ConfigError("question: is nested too deep, or holds itself") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise ConfigError(f"question: {error}") from None


def _plain(value: Any, where: str) -> Any:
    """Return a value as what JSON knows; json.dumps itself would take the keys 1 and "1" for the same."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ConfigError(f"{where}: {value}: must be finite")
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ConfigError(f"{where}: key {key!r}: must be text")
        return {key: _plain(one, f"{where}.{key}") for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, f"{where}[{at}]") for at, one in enumerate(value)]
    raise ConfigError(f"{where}: {type(value).__name__}: must be text, a number, a flag, null, a list or a mapping")


@cache
def _code_digest() -> bytes:
    """Return a digest of all code that answers depend on; takes some milliseconds, once per process."""
    digest = hashlib.sha256(__version__.encode())
    for name in LIBRARIES:
        for folder in _folders(name):
            with suppress(FileNotFoundError), open(os.path.join(folder, "version.py"), "rb") as file:
                digest.update(file.read())
    for path, label in _code():
        status = os.stat(path)
        digest.update(f"\0{label}\0{status.st_size}\0".encode("utf-8", "surrogateescape"))
        with open(path, "rb") as file:
            if path.endswith(TEXTS):
                digest.update(file.read())
            else:  # megabytes: hashing all of them takes longer than many an answer
                digest.update(b"%d" % status.st_mtime_ns + file.read(HEAD))
    return digest.digest()


def _code() -> Iterator[tuple[str, str]]:
    """Yield the files of the packages, each with its name within them, in order."""
    for package in PACKAGES:
        for root in _folders(package):
            for folder, folders, files in os.walk(root):
                folders[:] = sorted(set(folders) - {"__pycache__"})
                for name in sorted(files):
                    if name.endswith(TEXTS + COMPILED):
                        path = os.path.join(folder, name)
                        yield path, f"{package}/{os.path.relpath(path, root)}"


def _folders(package: str) -> list[str]:
    """Return where a package is, without importing it."""
    spec = find_spec(package)
    return list(spec.submodule_search_locations or []) if spec else []
