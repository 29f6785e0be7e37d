"""Run tasks in several processes, and store their results as CSV: one frozen dataclass of plain values per row."""

from __future__ import annotations

import csv
import io
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import fields
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S")

READERS: dict[str, Callable[[str], Any]] = {"str": str, "int": int, "float": float}
"""Functions that read a field from text, by the name of its type."""


def to_csv(kind: type[T], rows: Iterable[T]) -> str:
    """Return rows of a dataclass as CSV, under the names of its fields."""
    names = list(_types(kind))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([getattr(row, name) for name in names] for row in rows)
    return text.getvalue()


def from_csv(kind: type[T], text: str) -> list[T]:
    """Return the rows that `to_csv` wrote."""
    readers = {name: READERS[type_name] for name, type_name in _types(kind).items()}
    lines = csv.DictReader(io.StringIO(text))
    return [kind(**{name: read(line[name]) for name, read in readers.items()}) for line in lines]


def _types(kind: type[Any]) -> dict[str, str]:
    """Return the names of the types of a dataclass's fields, by field name."""
    return {field.name: str(field.type) for field in fields(kind)}


def run_all(work: Callable[[T], S], tasks: Sequence[T], jobs: int) -> Iterator[S]:
    """Yield ``work(task)`` of each task in order, from `jobs` processes; print progress to a terminal on stderr."""
    with ProcessPoolExecutor(jobs) if jobs > 1 else nullcontext() as pool:
        done = map(work, tasks) if pool is None else pool.map(work, tasks)
        for at, (task, result) in enumerate(zip(tasks, done, strict=True), start=1):
            if sys.stderr.isatty():
                print(f"{at}/{len(tasks)} {task}", file=sys.stderr, flush=True)
            yield result


def positive(text: str) -> int:
    """Parse a number of at least 1; a type of argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text}: must be a number of at least 1")
    return int(text)
