"""What must hold of everything that a reader returns or raises."""

from __future__ import annotations

import shutil
import unicodedata
from dataclasses import fields
from pathlib import Path

import numpy as np

from rdmodel.errors import MAX_MESSAGE_LENGTH, RdmodelError
from rdmodel.trace import Columns, Op, Trace, storage


class BrokenLaw(Exception):  # noqa: N818 - it is not an error of the program but what is looked for
    """Something that must hold of every input does not hold of this one."""


def hold(law: bool, text: str) -> None:
    """Raise `BrokenLaw` unless it holds."""
    if not law:
        raise BrokenLaw(text)


def told_well(error: RdmodelError) -> None:
    """Hold an error's message to one line of moderate length that a terminal can show."""
    message = str(error)
    hold(len(message) > 0, "an empty message")
    hold(len(message) <= MAX_MESSAGE_LENGTH, "a message that is too long")
    hold(plain(message), "a message with line breaks or control characters")


def plain(text: str) -> bool:
    """Tell whether a text has no line breaks, control characters or lone surrogates."""
    return text.isprintable() or all(unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in text)


def sound(trace: Trace) -> None:
    """Hold a trace to its own rules: columns that agree, blocks of the grid, counts that add up."""
    columns = trace.columns
    Trace(trace.launch, columns, trace.blocks)
    lanes = np.bitwise_count(columns.mask[columns.op != Op.BARRIER])
    hold(int(lanes.sum()) == len(columns.addresses), "not one address per active lane")
    hold(len(columns) == int(columns.warp_start[-1]), "instructions of no warp")
    for name in (trace.launch.kernel, *(array.name for array in trace.launch.arrays)):
        hold(plain(name), "a name with line breaks or control characters")


def same(one: Trace, other: Trace, what: str) -> None:
    """Hold two traces to be equal."""
    hold(one.launch == other.launch, f"{what}: another launch")
    hold(_ids(one) == _ids(other), f"{what}: other blocks")
    for column in fields(Columns):
        mine, theirs = getattr(one.columns, column.name), getattr(other.columns, column.name)
        hold(mine.dtype == theirs.dtype and np.array_equal(mine, theirs), f"{what}: other {column.name}")


def kept(trace: Trace, folder: Path) -> None:
    """Hold a trace to come back from the native form as it was."""
    where = folder / "kept"
    shutil.rmtree(where, ignore_errors=True)
    storage.save(trace, where)
    same(trace, storage.load(where), "written and read back")


def _ids(trace: Trace) -> list[int]:
    return [int(block) for block in trace.blocks or ()]
