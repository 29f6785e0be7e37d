"""Base of traces whose blocks are those of another trace, changed or kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from rdmodel.trace.local_memory import LocalMemory
from rdmodel.trace.sources import InstructionSource
from rdmodel.trace.trace import Trace


class DerivedTrace(Trace):
    """A trace that is made from the trace `original`."""

    original: Trace

    @property
    def any_order(self) -> bool:
        """True if the content of a block does not depend on the blocks that were read before it."""
        return self.original.any_order

    @property
    def may_have_cache_ops(self) -> bool:
        """False if no instruction has a cache operator."""
        return self.original.may_have_cache_ops

    @cached_property
    def number(self) -> int | None:
        """Number of the launch in the recording of a program."""
        return self.original.number

    @property
    def local_memory(self) -> LocalMemory | None:
        """Addresses of the local memory of blocks."""
        return self.original.local_memory

    @property
    def sources(self) -> Mapping[int, InstructionSource]:
        """The sources of instructions by `pc`."""
        return self.original.sources

    def announce(self, blocks: Sequence[int]) -> None:
        """Say that these blocks, ascending, will be read next."""
        self.original.announce(blocks)
