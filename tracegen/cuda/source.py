"""A CUDA program as text: the file or string it comes from, and the headers of its own that it includes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rdmodel.errors import TraceError
from tracegen.cuda.tokens import Kind, directive, tokenise

LARGEST = 1 << 26
"""Bytes that a source file may have: PTX of the largest libraries is smaller."""


@dataclass(frozen=True, slots=True)
class Source:
    """CUDA C++ or PTX: `name` stands in messages, `directory` is where ``#include "..."`` looks first."""

    name: str
    text: str
    directory: Path | None = None

    @property
    def is_ptx(self) -> bool:
        """Whether the text is PTX already."""
        if self.name.endswith(".ptx"):
            return True
        return re.match(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*\.version\b", self.text, re.DOTALL) is not None


def read_source(source: str | Path) -> Source:
    """Return the program in a file, or in a string that holds code (anything with a line break, ``{`` or ``;``).

    Raises `TraceError` for a file that is missing, no text or larger than 64 MiB.
    """
    if isinstance(source, str) and re.search(r"[\n{;]", source):
        return Source("<source>", source)
    path = Path(source)
    return Source(str(source), read_text(path), path.parent)


def read_text(path: Path) -> str:
    """Return a file's text; raises `TraceError` where there is none."""
    try:
        if path.is_dir():
            raise TraceError(f"{path}: is a folder, a file with CUDA or PTX is needed")
        if path.stat().st_size > LARGEST:
            raise TraceError(f"{path}: {path.stat().st_size} bytes, a source may have {LARGEST}")
        text = path.read_bytes().decode("utf-8", "surrogateescape" if path.suffix != ".ptx" else "strict")
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TraceError(f"{path}: is no text") from None
    if "\0" in text:
        raise TraceError(f"{path}: is no text")
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def own_headers(source: Source, includes: Iterable[Path]) -> dict[str, str]:
    """Return the texts of files included as ``#include "name"``, by that name, directly or through one another.

    They are looked for beside the including file, then in `includes`. One that is found nowhere is left out.
    """
    found: dict[str, str] = {}
    searched = list(includes)
    waiting = [source]
    while waiting:
        current = waiting.pop()
        for name in _included(current.text):
            if name in found:
                continue
            places = [*([current.directory] if current.directory else []), *searched]
            path = next((place / name for place in places if (place / name).is_file()), None)
            if path is not None:
                found[name] = read_text(path)
                waiting.append(Source(name, found[name], path.parent))
    return found


def _included(text: str) -> list[str]:
    lines = (directive(token) for token in tokenise(text) if token.kind is Kind.DIRECTIVE)
    matches = (re.match(r'"([^"]+)"', rest) for name, rest in lines if name == "include")
    return [match[1] for match in matches if match]
