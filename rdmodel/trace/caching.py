"""Keep the blocks of a trace that is read repeatedly, and fingerprint its content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from rdmodel.trace.columns import Columns, Program, has_cache_ops
from rdmodel.trace.derived import DerivedTrace
from rdmodel.trace.local_memory import LocalMemory
from rdmodel.trace.moved import MovedProgram, SharedProgram
from rdmodel.trace.registers import RegisterUse
from rdmodel.trace.sources import InstructionSource
from rdmodel.trace.trace import ShortenedBlocks, Trace, check_blocks, missing_block
from rdmodel.trace.work import Work

CACHED_BYTES = 64 << 20
"""Bytes of blocks that a `CachedTrace` keeps. Readers start at the first block every time, so the first blocks are
kept: a cache of the most recent ones would never hold the block that is read next."""

Block = Columns | Program
"""The instructions of one block in either form."""


class CachedTrace(DerivedTrace):
    """A view of the trace `original` that keeps the first `max_bytes` bytes of the blocks that were made.

    All other properties are those of `original`, which makes its blocks anew each time.
    """

    def __init__(self, trace: Trace, max_bytes: int = CACHED_BYTES) -> None:
        self.launch, self.blocks = trace.launch, trace.blocks
        self.original = trace
        self._max_bytes = max_bytes
        self.forget()

    def forget(self) -> None:
        """Drop the cached blocks."""
        self._cached: dict[int, Block] = {}
        self._shared: set[SharedProgram] = set()
        self._bytes_left = self._max_bytes

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that only `original` has, such as `columns`."""
        if name == "original":  # absent while a copy is being made
            raise AttributeError(name)
        return getattr(self.original, name)

    def __len__(self) -> int:
        """Return the number of warp instructions."""
        return len(self.original)

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the kernel by name."""
        return self.original.params

    def shortened(self, share: float) -> ShortenedBlocks | None:
        """Return what `original` returns; shortened blocks are not cached."""
        return self.original.shortened(share)

    def block_work(self, block: int) -> Work | None:
        """Return the work of one block."""
        return self.original.block_work(block)

    def register_use(self, capability: tuple[int, int] | None = None) -> RegisterUse | None:
        """Return the registers of a thread."""
        return self.original.register_use(capability)

    def spills(self, block: int, capability: tuple[int, int] | None = None) -> tuple[float, float]:
        """Return the loads and the stores of spilled registers."""
        return self.original.spills(block, capability)

    def spill_frame(self, capability: tuple[int, int] | None = None) -> int:
        """Return the bytes in which a thread has its spilled registers."""
        return self.original.spill_frame(capability)

    def operand_stalls(self, capability: tuple[int, int] | None = None) -> float:
        """Return the cycles for which a multiply-add waits for its operands."""
        return self.original.operand_stalls(capability)

    def block(self, block: int) -> Block:
        """Return one block; raises `TraceError` if the trace does not hold it."""
        content = self._cached.get(block)
        if content is None:
            content = self.original.block(block)
            size, shared = _bytes(content), content.shared if isinstance(content, MovedProgram) else None
            if shared is not None and shared not in self._shared:
                size += shared.nbytes
            if size <= self._bytes_left:
                self._bytes_left -= size
                self._cached[block] = content
                if shared is not None:
                    self._shared.add(shared)
        return content


class MaterialisedTrace(Trace):
    """Some blocks of a trace, made once, in their order.

    For traces that cannot be pickled, and for those that can make each block only once.
    """

    def __init__(self, trace: Trace, blocks: Sequence[int]) -> None:
        self.launch, self.blocks = trace.launch, check_blocks(trace.launch, blocks)
        self.params, self.number = dict(trace.params), trace.number
        self._any_order, self._local_memory = trace.any_order, trace.local_memory
        self._content, self._works = {}, {}
        for block in map(int, blocks):
            self._content[block] = trace.block(block)
            self._works[block] = trace.block_work(block)
        self._trace_sources = dict(trace.sources)

    @property
    def local_memory(self) -> LocalMemory | None:
        """Addresses of the local memory of blocks."""
        return self._local_memory

    @property
    def sources(self) -> Mapping[int, InstructionSource]:
        """The sources of instructions by `pc`."""
        return self._trace_sources

    def __len__(self) -> int:
        """Return the number of warp instructions."""
        return sum(map(count_instructions, self._content.values()))

    @property
    def any_order(self) -> bool:
        """True if the content of a block did not depend on the blocks that were made before it."""
        return self._any_order

    @property
    def may_have_cache_ops(self) -> bool:
        """True if an instruction has a cache operator."""
        return any(has_cache_ops(content) for content in self._content.values())

    def block_work(self, block: int) -> Work | None:
        """Return the work of one block."""
        return self._works.get(block)

    def block(self, block: int) -> Block:
        """Return one block; raises `TraceError` if it was not made."""
        if block not in self._content:
            raise missing_block(self, block)
        return self._content[block]


def fingerprint(trace: Trace, blocks: Sequence[int], digests: dict[int, bytes] | None = None) -> str:
    """Return 64 hexadecimal digits that identify the instructions of some blocks.

    The fingerprint is a SHA-256 over the blocks in their order. The same instructions in another form (columns or
    segments) have another fingerprint. `digests` caches the digests of single blocks between calls for one trace.
    """
    digests = {} if digests is None else digests
    combined = hashlib.sha256()
    for block in blocks:
        if block not in digests:
            digests[block] = _digest(trace.block(int(block)))
            if trace.pages is not None:
                trace.pages.give_back()
        combined.update(b"%d\0" % block + digests[block])
    return combined.hexdigest()


def _digest(block: Block) -> bytes:
    digest = hashlib.sha256()
    for part in [block] if isinstance(block, Columns) else block:
        digest.update(type(part).__name__.encode())
        for field in fields(part):
            if getattr(part, field.name) is None:
                continue
            value = np.asarray(getattr(part, field.name))
            digest.update(f"\0{field.name} {value.dtype.str} {value.shape}\0".encode())
            digest.update(np.ascontiguousarray(value).data)
    return digest.digest()


def _bytes(block: Block) -> int:
    if isinstance(block, MovedProgram):
        return block.nbytes
    return sum(part.nbytes for part in ([block] if isinstance(block, Columns) else block))


def count_instructions(block: Block) -> int:
    """Return the warp instructions of a block."""
    return len(block) if isinstance(block, Columns) else sum(segment.instructions for segment in block)
