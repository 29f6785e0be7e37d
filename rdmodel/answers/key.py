"""Compute the key of a question: 32 bytes under which its answer is stored.

A question is the content of the key, as JSON: a kernel, a GPU, options. The key is the SHA-256 of the question in
canonical form, the version of rdmodel and a digest of its code. Changed code may give other answers, so it has other
keys.
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
"""Packages whose code enters the key. A question may name a kernel, and tracegen defines the kernels."""

LIBRARIES = ("numpy", "scipy")
"""Libraries whose ``version.py`` enters the key: random numbers, among other things, depend on their versions."""

SOURCE_SUFFIXES = (".py", ".json", ".toml", ".cu", ".cuh")
"""Suffixes of files that enter the digest of the code as a whole."""

BINARY_SUFFIXES = (".so", ".pyd")
"""Suffixes of compiled modules, which enter it with their sizes, times and first bytes."""

BINARY_HEAD_BYTES = 4096
"""First bytes of a compiled module that are read: linkers write the identity of the build there."""


def question_key(question: Mapping[str, Any]) -> bytes:
    """Return the key of a question, 32 bytes.

    Raises `ConfigError` if `canonical` rejects the question, and `OSError` if the code of rdmodel cannot be read.
    """
    return hashlib.sha256(_code_digest() + canonical(question).encode("ascii")).digest()


def canonical(question: Mapping[str, Any]) -> str:
    """Return a question in canonical form: JSON with sorted keys, without spaces, in ASCII.

    Tuples become lists. Integers and floats are different (1 is not 1.0), and so are strings that only look alike.
    Raises a `ConfigError` that names the place for anything that is not JSON: NaN and infinities, keys that are not
    strings, other objects, endless nesting.
    """
    if not isinstance(question, Mapping):
        raise ConfigError(f"question: {question!r}: must be a mapping")
    try:
        return json.dumps(_plain(question, "question"), sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise ConfigError("question: is nested too deeply, or contains itself") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise ConfigError(f"question: {error}") from None


def _plain(value: Any, where: str) -> Any:
    """Return a value in types that JSON has; json.dumps itself would treat the keys 1 and "1" as equal."""
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
        return {key: _plain(entry, f"{where}.{key}") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, f"{where}[{at}]") for at, entry in enumerate(value)]
    raise ConfigError(f"{where}: {type(value).__name__}: must be text, a number, a flag, null, a list or a mapping")


@cache
def _code_digest() -> bytes:
    """Return a digest of all code that answers depend on; it takes some milliseconds, once per process."""
    digest = hashlib.sha256(__version__.encode())
    for name in LIBRARIES:
        for folder in _folders(name):
            with suppress(FileNotFoundError), open(os.path.join(folder, "version.py"), "rb") as file:
                digest.update(file.read())
    for path, label in _code():
        status = os.stat(path)
        digest.update(f"\0{label}\0{status.st_size}\0".encode("utf-8", "surrogateescape"))
        with open(path, "rb") as file:
            if path.endswith(SOURCE_SUFFIXES):
                digest.update(file.read())
            else:  # hashing all megabytes would take longer than computing many of the answers
                digest.update(b"%d" % status.st_mtime_ns + file.read(BINARY_HEAD_BYTES))
    return digest.digest()


def _code() -> Iterator[tuple[str, str]]:
    """Yield the path of each file of the packages and its name within them, in sorted order."""
    for package in PACKAGES:
        for root in _folders(package):
            for folder, folders, files in os.walk(root):
                folders[:] = sorted(set(folders) - {"__pycache__"})
                for name in sorted(files):
                    if name.endswith(SOURCE_SUFFIXES + BINARY_SUFFIXES):
                        path = os.path.join(folder, name)
                        yield path, f"{package}/{os.path.relpath(path, root)}"


def _folders(package: str) -> list[str]:
    """Return the folders of a package, without importing it."""
    spec = find_spec(package)
    return list(spec.submodule_search_locations or []) if spec else []
