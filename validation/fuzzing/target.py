"""Describe a reader for the fuzzer: its seeds, its words, its options, and the laws for its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.fuzzing.laws import check_trace
from validation.fuzzing.mutation import MAX_FILE_BYTES, Case, Shaper


@dataclass(frozen=True, slots=True)
class Way:
    """Options of one call of a reader: leniency, launch, memory in bytes and buffer size in bytes."""

    lenient: bool = False
    kernel: str | None = None
    memory: int = 1 << 18
    chunk: int = 1 << 20


WAYS = (Way(), Way(lenient=True), Way(memory=0, chunk=1000), Way(lenient=True, memory=0, chunk=400))
NAMED = (*WAYS, Way(kernel="0"), Way(kernel="*", lenient=True), Way(kernel="1", memory=4000), Way(kernel="gem*"))
ONCE = (Way(),)
SMALL = (Way(), Way(memory=0))


def nothing(*_: Any) -> None:
    """Check no further law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A reader; ``read(path, way)`` gets the path ``folder / file``.

    `check` checks the laws for a result, and ``deeply(found, way, path)`` checks those that take longer; it may change
    the files. Lines of Python files count if their paths contain one of `watched`. Files have at most `most` bytes.
    """

    name: str
    file: str
    read: Callable[[Path, Way], Any]
    seeds: Callable[[], list[Case]]
    watched: tuple[str, ...]
    check: Callable[[Any], None] = check_trace
    deeply: Callable[[Any, Way, Path], None] = nothing
    words: tuple[bytes, ...] = ()
    shapers: tuple[Shaper, ...] = ()
    ways: tuple[Way, ...] = ONCE
    most: int = MAX_FILE_BYTES
