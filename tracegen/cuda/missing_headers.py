"""Take headers that are not found for empty, tell which of them the compiler reached, and where to get them.

Most headers that a machine without CUDA's libraries lacks serve host code, which is removed. The compiler stops at the
first missing header, so each one gets an empty text, which marks itself in the log of the compiler when it is included.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from tracegen.cuda.headers import is_host_only, is_of_pytorch, missing_text
from tracegen.cuda.source import Source, included_names
from tracegen.cuda.tokens import TokenKind, directive, tokenise

_MARK = "rdmodel found no header"
"""Beginning of the warning in the text of a missing header."""

_MARK_IN_LOG = re.compile(rf"^.*#warning directive: {_MARK} (?P<name>.*)\n(?:[ \t]+.*\n?)*\n*", re.MULTILINE)
_SUPPRESSION_REMARK = 'Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"'
_OTHER_WARNING = re.compile(r"\bwarning\b")
_NOT_OPENED = re.compile(r'(?:could not|cannot) open source file "([^"]+)"')

_WHEELS: tuple[tuple[str, str], ...] = (
    (r"curand", "nvidia-curand"),
    (r"cublas", "nvidia-cublas"),
    (r"cufft", "nvidia-cufft"),
    (r"cusparse", "nvidia-cusparse"),
    (r"cusolver", "nvidia-cusolver"),
    (r"cudnn(?!_frontend)", "nvidia-cudnn-cu13"),
    (r"nccl", "nvidia-nccl-cu13"),
    (r"nvtx", "nvidia-nvtx"),
    (r"(?:cub|thrust|cuda|nv|libcudacxx)/", "nvidia-cuda-cccl"),
    (r"crt/", "nvidia-cuda-crt"),
    (r"cuda[_.]|cuda[A-Z]|cuComplex|cooperative_groups|mma\.h|sm_\d|vector_|texture_|surface_", "nvidia-cuda-runtime"),
)
"""Beginnings of the names of NVIDIA's headers (regular expressions), and the Python packages that bring them."""

_FOLDERS: tuple[tuple[str, str], ...] = ((r"cutlass/|cute/", "the headers of CUTLASS"),)
"""Beginnings of the names of headers of other libraries, which a folder of ``-I`` brings."""

_USUAL_FOLDERS = ("include", "inc", "common", "Common", "utils", "src/include")
"""Folders beside or above a source in which projects keep their headers."""

_LEVELS = 4
"""Number of folders above that of the source whose folders of headers are searched."""


def stand_ins_for_missing(sources: Iterable[Source], known: Collection[str], folders: Sequence[Path]) -> dict[str, str]:
    """Return empty headers, by name, for those that `sources` include and that are neither known nor in `folders`."""
    missing: dict[str, str] = {}
    for source in sources:
        tested = _tested_names(source.text)
        for name, quoted in included_names(source.text):
            searched = [source.directory, *folders] if quoted and source.directory else folders
            if name in known or name in tested:
                continue
            if is_host_only(name) or not any((folder / name).is_file() for folder in searched):
                missing[name] = stand_in(name)
    return missing


def stand_in(name: str) -> str:
    """Return the text of an empty header that marks itself in the log; those of PyTorch are not empty."""
    mark = "" if is_of_pytorch(name) else f"#warning {_MARK} {name}\n"
    return f"#pragma once\n{mark}{missing_text(name)}"


def unopened_header(log: str) -> str | None:
    """Return the name of the header at which the compiler stopped, or None."""
    found = _NOT_OPENED.search(log)
    return found[1] if found else None


def missing_in_log(log: str) -> list[str]:
    """Return the names of the empty headers that the compiler reached, in order."""
    return list(dict.fromkeys(found["name"].strip() for found in _MARK_IN_LOG.finditer(log)))


def without_marks(log: str) -> str:
    """Return the log without the warnings of empty headers."""
    text = _MARK_IN_LOG.sub("", log)
    if text != log and not _OTHER_WARNING.search(text.replace(_SUPPRESSION_REMARK, "")):
        text = text.replace(_SUPPRESSION_REMARK, "")
    return text.strip()


def describe_missing(names: Sequence[str], *, failed: bool) -> str:
    """Return a sentence about empty headers; if the compilation `failed`, with the source of each."""
    listed = ", ".join(f"{name} ({origin(name)})" if failed else name for name in names)
    return f"headers that were not found are taken for empty: {listed}"


def origin(name: str) -> str:
    """Return what brings a header: a Python package or a folder."""
    for pattern, package in _WHEELS:
        if re.match(pattern, name):
            return f"pip install {package}"
    for pattern, library in _FOLDERS:
        if re.match(pattern, name):
            return f"give the folder of {library} with -I"
    return "give its folder with -I"


def nearby_folders(names: Iterable[str], source: Source) -> list[Path]:
    """Return the folders named `include`, `common` or alike, beside and above the source, that hold missing headers."""
    if source.directory is None:
        return []
    places = [source.directory, *list(source.directory.resolve().parents)[:_LEVELS]]
    folders = [place / part for place in places for part in _USUAL_FOLDERS]
    found = (next((f for f in folders if (f / name).is_file()), None) for name in names if not is_host_only(name))
    return list(dict.fromkeys(folder for folder in found if folder is not None))


def _tested_names(text: str) -> set[str]:
    """Return the headers whose presence the source tests: an empty one would change the result."""
    lines = (directive(token)[1] for token in tokenise(text) if token.kind is TokenKind.DIRECTIVE)
    return {found for line in lines for found in re.findall(r'__has_include\s*\(\s*[<"]([^>"]+)[>"]', line)}
