"""What a reader is to the fuzzer: its seeds, its words, the ways in which it is asked, and what must hold of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.fuzzing.laws import sound
from validation.fuzzing.mutation import MOST_BYTES, Case, Shaper


@dataclass(frozen=True, slots=True)
class Way:
    """How a reader is asked: leniently or not, for which launch, with how much memory and which buffer."""

    lenient: bool = False
    kernel: str | None = None
    memory: int = 1 << 18
    chunk: int = 1 << 20


WAYS = (Way(), Way(lenient=True), Way(memory=0, chunk=1000), Way(lenient=True, memory=0, chunk=400))
NAMED = (*WAYS, Way(kernel="0"), Way(kernel="*", lenient=True), Way(kernel="1", memory=4000), Way(kernel="gem*"))
ONCE = (Way(),)
SMALL = (Way(), Way(memory=0))


def nothing(*_: Any) -> None:
    """Hold nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A reader; ``read(path, way)`` is given ``folder / file``.

    `check` holds what was read to the laws, and ``deeply(found, way, path)`` does what takes longer; it may change the
    files. Lines of Python count in files whose paths have one of `watched` in them. Files have at most `most` bytes.
    """

    name: str
    file: str
    read: Callable[[Path, Way], Any]
    seeds: Callable[[], list[Case]]
    watched: tuple[str, ...]
    check: Callable[[Any], None] = sound
    deeply: Callable[[Any, Way, Path], None] = nothing
    words: tuple[bytes, ...] = ()
    shapers: tuple[Shaper, ...] = ()
    ways: tuple[Way, ...] = ONCE
    most: int = MOST_BYTES
