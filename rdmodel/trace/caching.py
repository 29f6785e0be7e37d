"""Traces that are read again and again: their blocks kept, and what tells one from another."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from rdmodel.trace.columns import Columns, Program
from rdmodel.trace.trace import Trace, check_blocks, missing_block

KEPT = 64 << 20
"""Bytes of blocks that are kept of a trace. It is read from its beginning each time: the first ones are kept, and the
rest is made anew, where a cache of the last ones would never have the next one."""

Block = Columns | Program


class Repeated(Trace):
    """A trace whose blocks are kept once they are made, the first `most` bytes of them.

    Everything else is that of the `whole` trace, which makes its blocks anew each time.
    """

    def __init__(self, trace: Trace, most: int = KEPT) -> None:
        self.launch, self.blocks = trace.launch, trace.blocks
        self.whole = trace
        self._most = most
        self.forget()

    def forget(self) -> None:
        """Let go of the blocks that are kept."""
        self._kept: dict[int, Block] = {}
        self._room = self._most

    def __getattr__(self, name: str) -> Any:
        """Return what only the trace itself has: `params`, `shortened`, ..."""
        if name == "whole":  # not yet there, in a copy that is being made
            raise AttributeError(name)
        return getattr(self.whole, name)

    def __len__(self) -> int:
        """Return the number of warp instructions."""
        return len(self.whole)

    @property
    def any_order(self) -> bool:
        """Whether a block is the same whichever blocks were asked for before it."""
        return self.whole.any_order

    def block(self, block: int) -> Block:
        """Return one block; raises `TraceError` if the trace does not hold it."""
        found = self._kept.get(block)
        if found is None:
            found = self.whole.block(block)
            size = _bytes(found)
            if size <= self._room:
                self._room -= size
                self._kept[block] = found
        return found


class Held(Trace):
    """Some blocks of a trace, made once, in their order: for traces that cannot be sent, or that do it only once."""

    def __init__(self, trace: Trace, blocks: Sequence[int]) -> None:
        self.launch, self.blocks = trace.launch, check_blocks(trace.launch, blocks)
        self.params = dict(getattr(trace, "params", {}))
        self._any_order = trace.any_order
        self._made = {int(block): trace.block(int(block)) for block in blocks}

    def __len__(self) -> int:
        """Return the number of warp instructions."""
        return sum(len(made) if isinstance(made, Columns) else _instructions(made) for made in self._made.values())

    @property
    def any_order(self) -> bool:
        """Whether a block of the trace is the same whichever blocks were asked for before it."""
        return self._any_order

    def block(self, block: int) -> Block:
        """Return one block; raises `TraceError` if it was not made."""
        if block not in self._made:
            raise missing_block(self, block)
        return self._made[block]


def fingerprint(trace: Trace, blocks: Sequence[int], known: dict[int, bytes] | None = None) -> str:
    """Return 64 hexadecimal digits that are the same for the same instructions of the same blocks only.

    SHA-256 over the blocks in their order; one that is written in another form counts as another. `known` remembers
    the digests of blocks between calls for one trace.
    """
    known = {} if known is None else known
    whole = hashlib.sha256()
    for block in blocks:
        if block not in known:
            known[block] = _digest(trace.block(int(block)))
            if trace.pages is not None:
                trace.pages.give_back()
        whole.update(b"%d\0" % block + known[block])
    return whole.hexdigest()


def _digest(block: Block) -> bytes:
    digest = hashlib.sha256()
    for part in [block] if isinstance(block, Columns) else block:
        digest.update(type(part).__name__.encode())
        for field in fields(part):
            value = np.asarray(getattr(part, field.name))
            digest.update(f"\0{field.name} {value.dtype.str} {value.shape}\0".encode())
            digest.update(np.ascontiguousarray(value).data)
    return digest.digest()


def _bytes(block: Block) -> int:
    return sum(
        np.asarray(getattr(part, field.name)).nbytes
        for part in ([block] if isinstance(block, Columns) else block)
        for field in fields(part)
    )


def _instructions(program: Program) -> int:
    return sum(segment.instructions for segment in program)
