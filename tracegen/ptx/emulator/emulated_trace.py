"""Provide the blocks of an emulated launch as a trace."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from copy import copy
from functools import cached_property

from rdmodel.trace import Columns, InstructionSource, RegisterUse, Trace, Work, check_blocks, missing_block
from rdmodel.trace.expansion import concatenate
from rdmodel.trace.local_memory import LocalMemory
from tracegen.ptx.emulator.emulated_launch import EmulatedLaunch


class EmulatedTrace(Trace):
    """The trace of an emulated launch: each block is executed on demand, and the last one is cached.

    Blocks are executed in the order of the requests, on the memory that earlier blocks have left. The trace of a kernel
    whose addresses or branches depend on its own stores is the trace of that order.
    """

    def __init__(self, launched: EmulatedLaunch, blocks: Sequence[int] | None = None) -> None:
        self.launched = launched
        self.launch = launched.launch
        self.blocks = check_blocks(self.launch, blocks)
        self._last: tuple[int, Columns] | None = None
        self.source_notes: tuple[str, ...] = ()

    @property
    def any_order(self) -> bool:
        """Whether the trace of a block is independent of the blocks requested before it."""
        return not self.launched.order_dependent

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the compilation, and about parts that are executed differently than on a GPU."""
        return (*self.source_notes, *(f"{self.launch.kernel}: {note}" for note in self.launched.notes))

    @property
    def may_have_cache_ops(self) -> bool:
        """True if an instruction of the kernel has a cache operator."""
        return self.launched.cache_ops is not None

    @property
    def local_memory(self) -> LocalMemory | None:
        """The local memory of the first block, and the bytes of each; None if the kernel has none."""
        return self.launched.local_memory

    @property
    def sources(self) -> Mapping[int, InstructionSource]:
        """The PTX instructions by `pc`, with lines of their source where the PTX names them (``-lineinfo``)."""
        return self.launched.sources

    @cached_property
    def _traced_blocks(self) -> Container[int]:
        assert self.blocks is not None
        return self.blocks if isinstance(self.blocks, range) else frozenset(int(block) for block in self.blocks)

    def block(self, block: int) -> Columns:
        """Execute one block and return its instructions; raises `TraceError`, also for a block outside the trace."""
        if block not in self._traced_blocks:
            raise missing_block(self, block)
        with self.launched.lock:
            if self._last is None or self._last[0] != block:
                self._last = int(block), self.launched.run(int(block))
            return self._last[1]

    def block_work(self, block: int) -> Work:
        """Return the work of one block, which is executed unless it was the last one."""
        with self.launched.lock:
            self.block(block)
            return self.launched.last_work()

    def assembled_for(self, capability: tuple[int, int]) -> EmulatedTrace:
        """Return the trace of the code for a compute capability: its accesses to global memory are the same."""
        launched = self.launched.assembled_for(10 * capability[0] + capability[1])
        if launched is self.launched:
            return self
        other = copy(self)
        other.launched, other._last = launched, None
        return other

    def register_use(self, capability: tuple[int, int] | None = None) -> RegisterUse:
        """Return the registers of a thread: given, from an assembler, or estimated from the live values."""
        given = super().register_use(capability)
        return self.launched.register_use(capability) if given is None else given

    def spills(self, block: int, capability: tuple[int, int] | None = None) -> tuple[float, float]:
        """Return the loads and stores of spilled registers by the warps of a block."""
        use = self._use_of_code(capability)
        if use is None:
            return 0.0, 0.0
        with self.launched.lock:
            self.block(block)
            return self.launched.last_spills(use)

    def spill_frame(self, capability: tuple[int, int] | None = None) -> int:
        """Return the bytes of local memory in which a thread has its spilled registers."""
        use = self._use_of_code(capability)
        return 0 if use is None else use.spill_frame

    def operand_stalls(self, capability: tuple[int, int] | None = None) -> float:
        """Return the cycles for which a multiply-add waits for the ports of the register file."""
        use = self._use_of_code(capability)
        return 0.0 if use is None else use.operand_stalls

    def _use_of_code(self, capability: tuple[int, int] | None) -> RegisterUse | None:
        """Return the registers of the kernel's code; None if others were given: of that code, nothing is known."""
        use = self.launched.register_use(capability)
        return use if self.launch.registers in (0, use.registers) else None

    def chains(
        self, block: int, latencies: Mapping[str, float], together: int = 1
    ) -> list[tuple[float, Mapping[str, float], float]]:
        """Return the straight pieces of the kernel, as an average warp of one block executes them."""
        with self.launched.lock:
            self.block(block)
            return self.launched.last_chains(latencies, self.launch.registers, together)

    def crowding(self, block: int, latencies: Mapping[str, float], resident: int) -> float | None:
        """Return how many times as long a block takes if `resident` of them share an SM, or None if it is not known."""
        with self.launched.lock:
            self.block(block)
            return self.launched.last_crowding(latencies, self.launch.registers, resident)

    def __len__(self) -> int:
        """Return the number of warp instructions; executes every block, once."""
        return len(self.columns)

    @cached_property
    def columns(self) -> Columns:  # type: ignore[override]
        """Every instruction of every block; executes every block, once."""
        assert self.blocks is not None
        return concatenate([self.block(int(block)) for block in self.blocks])
