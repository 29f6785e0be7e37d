"""Read the text of a CUDA program and of the project headers that it includes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.regular_files import read_bounded_bytes
from rdmodel.errors import TraceError
from tracegen.cuda.headers import is_of_pytorch
from tracegen.cuda.tokens import TokenKind, directive, tokenise
from tracegen.ptx import without_final_nulls

MAX_SOURCE_BYTES = 1 << 26
"""Largest source file in bytes; PTX of the largest libraries is smaller."""


_TOOLKIT_MARKS = ("cuda_runtime.h", "cuda_fp16.h", "cub", "thrust", "nv/target")
"""Files and folders among the headers of the CUDA toolkit."""


@dataclass(frozen=True, slots=True)
class Source:
    """Text in CUDA C++ or PTX: messages contain `name`; ``#include "..."`` searches `directory` first."""

    name: str
    text: str
    directory: Path | None = None

    @property
    def is_ptx(self) -> bool:
        """Whether the text is PTX."""
        if self.name.endswith(".ptx"):
            return True
        # Possessive, since the number of ways to divide many comments is exponential.
        return re.match(r"(?>\s+|//[^\n]*\n|/\*.*?\*/)*+\.version\b", self.text, re.DOTALL) is not None


def read_source(source: str | Path) -> Source:
    """Read the program from a file; a string with a line break, ``{`` or ``;`` is the program itself.

    Raises `TraceError` for a file that is missing, not a text or larger than 64 MiB.
    """
    if isinstance(source, str) and re.search(r"[\n{;]", source):
        return Source("<source>", source)
    path = Path(source)
    return Source(str(source), read_source_text(path), path.parent)


def read_source_text(path: Path) -> str:
    """Read the text of a file; raises `TraceError` if it is missing, no regular file, not a text or too large.

    A byte order mark, which the compiler does not know, is left out. So are null characters at the end of PTX: some
    tools write the terminated string of the compiler.
    """
    is_ptx = path.suffix == ".ptx"
    try:
        text = read_bounded_bytes(path, MAX_SOURCE_BYTES).decode("utf-8", "strict" if is_ptx else "surrogateescape")
    except UnicodeDecodeError:
        raise TraceError(f"{path}: not a text file") from None
    if is_ptx:
        text = without_final_nulls(text)
    if "\0" in text:
        raise TraceError(f"{path}: not a text file")
    return text.encode("utf-8", "replace").decode().removeprefix("\ufeff") if not text.isascii() else text


def project_headers(source: Source, includes: Iterable[Path]) -> dict[str, str]:
    """Return the texts of the files that `project_sources` finds, by the same names."""
    return {name: part.text for name, part in project_sources(source, includes).items()}


def project_sources(source: Source, includes: Iterable[Path]) -> dict[str, Source]:
    """Return the files that a program includes, directly or indirectly, by their names in ``#include``.

    The search for ``#include "name"`` starts beside the including file. It continues beside the program and in
    `includes`, as that for ``#include <name>`` does, which leaves out folders of the CUDA toolkit. Missing files are
    left out. Of a file with several names, such as ``../common.h`` elsewhere, the others include the first: ``#pragma
    once`` goes by names.
    """
    parts: dict[str, Source] = {}
    names: dict[Path, str] = {}
    folders = list(includes)
    own_folders = [folder for folder in folders if not is_toolkit(folder)]
    waiting = [source]
    while waiting:
        current = waiting.pop()
        for name, quoted in included_names(current.text):
            beside = _folder_of(current) if quoted else []
            if name in parts or is_of_pytorch(name):
                continue
            candidates = [*beside, *_folder_of(source), *(folders if quoted else own_folders)]
            path = next((folder / name for folder in candidates if (folder / name).is_file()), None)
            if path is None:
                continue
            first = names.setdefault(path.resolve(), name)
            text = read_source_text(path) if first == name else f'#include "{first}"\n'
            parts[name] = Source(name, text, path.parent)
            waiting.append(parts[name])
    return parts


def is_toolkit(folder: Path) -> bool:
    """Return whether a folder holds headers of the CUDA toolkit, which need no removal of host code."""
    return any((folder / name).exists() for name in _TOOLKIT_MARKS)


def included_names(text: str) -> list[tuple[str, bool]]:
    """Return the names in the ``#include`` lines of a text, and whether each stands in quotation marks."""
    lines = (directive(token) for token in tokenise(text) if token.kind is TokenKind.DIRECTIVE)
    matches = (re.match(r'"([^"]+)"|<([^>]+)>', rest) for name, rest in lines if name == "include")
    return [(match[1] or match[2], match[1] is not None) for match in matches if match]


def _folder_of(source: Source) -> list[Path]:
    return [source.directory] if source.directory else []
