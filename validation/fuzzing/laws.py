"""Check the laws for everything that a reader returns or raises."""

from __future__ import annotations

import shutil
import unicodedata
from dataclasses import fields
from pathlib import Path

import numpy as np

from rdmodel.errors import MAX_MESSAGE_LENGTH, RdmodelError
from rdmodel.trace import Columns, Op, Program, Trace, storage

_COMPARED_BLOCKS = 50


class BrokenLaw(Exception):  # noqa: N818 - not an error of the program, but a finding of the fuzzer
    """A law for every input that this input breaks."""


def require(law: bool, text: str) -> None:
    """Raise `BrokenLaw` with the text unless the law holds."""
    if not law:
        raise BrokenLaw(text)


def check_message(error: RdmodelError) -> None:
    """Check that the message of an error is one line of moderate length that a terminal can show."""
    message = str(error)
    require(len(message) > 0, "an empty message")
    require(len(message) <= MAX_MESSAGE_LENGTH, "a message that is too long")
    require(plain(message), "a message with line breaks or control characters")


def plain(text: str) -> bool:
    """Return whether a text has no line breaks, control characters or lone surrogates."""
    return text.isprintable() or all(unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in text)


def check_trace(trace: Trace) -> None:
    """Check the rules of a trace: columns that agree, blocks of the grid, counts that add up."""
    columns = trace.columns
    Trace(trace.launch, columns, trace.blocks)
    lanes = np.bitwise_count(columns.mask[columns.op != Op.BARRIER])
    require(int(lanes.sum()) == len(columns.addresses), "not one address per active lane")
    require(len(columns) == int(columns.warp_start[-1]), "instructions of no warp")
    for name in (trace.launch.kernel, *(array.name for array in trace.launch.arrays)):
        require(plain(name), "a name with line breaks or control characters")


def check_equal(one: Trace, other: Trace, what: str) -> None:
    """Check that two traces are equal."""
    require(one.launch == other.launch, f"{what}: another launch")
    require(_ids(one) == _ids(other), f"{what}: other blocks")
    # Blocks come first: a packed trace unpacks them only as long as nothing has asked for its columns.
    for block in _ids(one)[:_COMPARED_BLOCKS]:
        _check_columns(one.block(block), other.block(block), f"{what}, block {block}")
    _check_columns(one.columns, other.columns, what)


def _check_columns(one: Columns | Program, other: Columns | Program, what: str) -> None:
    for column in fields(Columns):
        # A column that may be absent is None, which becomes an array of one object here.
        mine, theirs = (np.asarray(getattr(columns, column.name)) for columns in (one, other))
        require(mine.dtype == theirs.dtype and np.array_equal(mine, theirs), f"{what}: other {column.name}")


def check_round_trip(trace: Trace, folder: Path) -> None:
    """Check that a trace does not change when it is written in the native form and read back."""
    where = folder / "kept"
    shutil.rmtree(where, ignore_errors=True)
    storage.save(trace, where)
    check_equal(trace, storage.load(where), "written and read back")


def _ids(trace: Trace) -> list[int]:
    return [int(block) for block in trace.blocks or ()]
