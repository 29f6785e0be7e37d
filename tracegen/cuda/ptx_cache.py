"""Cache the results of compilations on disk, by the content of everything that the compiler reads.

The folder is ``ptx`` in ``$RDMODEL_CACHE``, or else in the folder ``rdmodel`` of ``$XDG_CACHE_HOME`` or of
``~/.cache``. A folder that cannot be used, or a damaged file in it, is no error: the program is compiled.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tracegen.cuda.nvrtc import Compilation

MAX_FILES = 1000
"""Largest number of results that are kept; the ones that were not used for the longest time are deleted.

The tiles of a space have two each where NVRTC assembles them, too (`tracegen.cuda.nvrtc_assembler`).
"""

_VERSION_HEADERS = (
    "cuda.h", "cuda_runtime_api.h", "cuda_fp16.h", "cooperative_groups.h", "mma.h", "cub/version.cuh", "cuda/version",
    "crt/mma.h", "curand_kernel.h",
)  # fmt: skip
"""Headers in folders of NVIDIA whose size and time stand for all others: packages replace all of them together."""


def cache_folder() -> Path:
    """Return the folder of the cache."""
    given = os.environ.get("RDMODEL_CACHE")
    if given:
        return Path(given) / "ptx"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.expanduser("~/.cache")) / "rdmodel" / "ptx"


def compilation_key(
    compiler: Sequence[int | str], text: str, name: str, headers: Mapping[str, str], flags: Sequence[str],
    instances: Sequence[str], folders: Iterable[Path],
) -> str:  # fmt: skip
    """Return the key of a compilation: a digest of the compiler's version, all texts, options and NVIDIA's headers."""
    parts: list[object] = [list(compiler), text, name, sorted(headers.items()), list(flags), list(instances)]
    parts += [[str(folder), *version_stamps(folder)] for folder in folders]
    return hashlib.sha256(json.dumps([os.getcwd(), *parts]).encode("utf-8", "surrogatepass")).hexdigest()


def load(key: str) -> Compilation | None:
    """Return the stored result of a compilation, or None."""
    path = cache_folder() / f"{key}.json"
    try:
        content = json.loads(path.read_bytes())
        found = Compilation(*(content[name] for name in Compilation._fields))
        if content["digest"] != _digest(found):
            return None
        os.utime(path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def store(key: str, result: Compilation) -> None:
    """Store the result of a successful compilation."""
    if result.ptx is None:
        return
    content = {**result._asdict(), "digest": _digest(result)}
    folder = cache_folder()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".part", delete=False, encoding="utf-8") as file:
            try:
                json.dump(content, file)
                file.close()
                os.replace(file.name, folder / f"{key}.json")
            except OSError:
                os.unlink(file.name)
                raise
        _delete_oldest(folder)


def version_stamps(folder: Path) -> list[list[object]]:
    """Return name, size and time of the headers in a folder of NVIDIA that stand for all of its headers."""
    stamps: list[list[object]] = []
    for name in _VERSION_HEADERS:
        with suppress(OSError):
            status = (folder / name).stat()
            stamps.append([name, status.st_size, status.st_mtime_ns])
    return stamps


def _digest(result: Compilation) -> str:
    return hashlib.sha256(json.dumps(result._asdict(), sort_keys=True).encode()).hexdigest()


def _delete_oldest(folder: Path) -> None:
    files = list(folder.glob("*.json"))
    if len(files) > MAX_FILES:
        for path in sorted(files, key=lambda path: path.stat().st_mtime)[: len(files) - MAX_FILES * 9 // 10]:
            path.unlink(missing_ok=True)
