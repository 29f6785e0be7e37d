"""Execute kernels of a PTX module block by block: `LoadedModule` holds the memory, `EmulatedLaunch` runs one launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from math import prod
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.checks import check_int
from rdmodel.errors import ConfigError, LaunchError, TraceError, unknown
from rdmodel.trace import WARP, ArrayInfo, Columns, InstructionSource, Launch, RegisterUse, Work
from rdmodel.trace.local_memory import LocalMemory
from tracegen.arrays import BASE
from tracegen.limits import MAX_BLOCK_THREADS
from tracegen.ptx.emulator._emulator import Emulator, Status
from tracegen.ptx.emulator._events import Events
from tracegen.ptx.emulator._log import Log
from tracegen.ptx.emulator._places import Places
from tracegen.ptx.emulator._poison import Poison
from tracegen.ptx.emulator.access_targets import access_targets, constant_value
from tracegen.ptx.emulator.block_machine import (
    BlockMachine,
    ClusterEvents,
    FinishedBlock,
    events_of,
    join_cluster,
    run_cluster,
)
from tracegen.ptx.emulator.block_times import BlockTimes
from tracegen.ptx.emulator.device_memory import LOCAL_BASE, DeviceBuffer, DeviceMemory
from tracegen.ptx.emulator.launch_directives import ALONE, check_cluster, check_directives, find_cluster, required_block
from tracegen.ptx.emulator.launch_errors import LaunchErrors, StoppedLaunch
from tracegen.ptx.emulator.module_variables import load_variables
from tracegen.ptx.emulator.parameters import MAX_PARAMETER_BYTES, Argument, pack_parameters
from tracegen.ptx.emulator.recorded_rows import columns_of_rows
from tracegen.ptx.emulator.step_counts import COUNTS, WorkTable
from tracegen.ptx.emulator.textures import Texture, TextureTable
from tracegen.ptx.isa.special_registers import Cluster, cluster_blocks, differs_by_block, read_special_register
from tracegen.ptx.lowering.basic_blocks import find_basic_blocks
from tracegen.ptx.lowering.cache_operators import cache_ops_by_pc
from tracegen.ptx.lowering.inner_loops import find_inner_loops
from tracegen.ptx.lowering.lowering import lower_kernel
from tracegen.ptx.lowering.notes import decisive_variables, describe_unfilled
from tracegen.ptx.lowering.poisoning import PoisonFlow
from tracegen.ptx.lowering.program import NO_SLOT, LoweredKernel, encode_steps
from tracegen.ptx.lowering.skipping import ReducedSlice, reduce_slice, written_slots
from tracegen.ptx.lowering.slicing import changes_data, depends_on_data, tainted_slots
from tracegen.ptx.lowering.source_lines import source_lines
from tracegen.ptx.lowering.textures import texture_axes
from tracegen.ptx.registers.counting import count_registers
from tracegen.ptx.registers.local_arrays import keeps_arrays
from tracegen.ptx.syntax.ast import Module
from tracegen.ptx.timing.asynchronous_pieces import mark_events
from tracegen.ptx.timing.chains import Chain
from tracegen.simt.kernel_trace import shape
from tracegen.unrolling import DEFAULT_UNROLL

__all__ = ["DeviceBuffer", "EmulatedLaunch", "LoadedModule"]

_STEPS_PER_CALL = 1 << 18
"""Steps between two checks for signals, such as Ctrl-C."""

_MAX_RECORD_BYTES = 1 << 33
"""Largest record of one block in bytes; a block that exceeds it counts as endless."""

_BLOCK_NOTE = "textures of more than one dimension are assumed to lie in blocks of 64 bytes by 8 rows (docs/cuda.md)"

_MAX_STORAGE_BYTES = 1 << 30
"""Largest size in bytes of the local or shared memory of a block."""


class LoadedModule:
    """A PTX module with its variables, loaded into a device memory.

    Arrays are laid out from address `base` on, one after the other and 256-byte aligned, as in `tracegen.arrays`.
    Variables lie at the addresses in `places`, by name; None lays them out, too. Raises `TraceError` for a module with
    32-bit addresses.
    """

    def __init__(self, module: Module, *, base: int = BASE, places: Mapping[str, int] | None = None) -> None:
        if module.address_size != 64:
            raise TraceError(f".address_size {module.address_size}: must be 64; compile for 64-bit addresses")
        self.module = module
        self.memory = DeviceMemory(base)
        self.parameters = self.memory.allocate(np.zeros(MAX_PARAMETER_BYTES, np.uint8), "parameters", module=True)
        self._variables = load_variables(module, self.memory, places)
        self._programs: dict[tuple[object, ...], LoweredKernel] = {}
        self.textures = TextureTable()
        # The driver gives every other variable zeros, but programs fill constants before they launch a kernel.
        self._unfilled = {v.name for v in module.variables.values() if v.space == "const" and v.initial is None}

    def allocate(self, array: NDArray[Any] | int, name: str, *, private: bool = False) -> DeviceBuffer:
        """Place `array`, or `array` zero bytes if it is a number, in device memory; return its buffer.

        Kernels work on the array itself if it is contiguous and writeable, otherwise on the copy ``buffer.array``. A
        `private` array is scratch memory, which passes nothing from one block to another: each block has a part of its
        own, writes there before it reads, and stores no address of it.
        """
        content = array if isinstance(array, np.ndarray) else np.zeros(array, np.uint8)
        return self.memory.allocate(content, name, private=private)

    def launch(
        self,
        kernel: str,
        grid: int | Sequence[int],
        block: int | Sequence[int] | None,
        args: Sequence[Argument],
        *,
        shared: int = 0,
        cluster: int | Sequence[int] | None = None,
        max_instructions: int = 10**9,
        values: bool = True,
        unroll: int | None = DEFAULT_UNROLL,
    ) -> EmulatedLaunch:
        """Check a launch of `kernel` and return it; no block is executed yet.

        What the arrays contain now tells whether numbers that the kernel loads can be addresses.

        Parameters
        ----------
        kernel
            Name of the kernel in the PTX.
        grid, block
            Blocks of the grid and threads of a block: one to three numbers (x, y, z). If `block` is None, the kernel
            must require one (``.reqntid``).
        args
            Buffers, numbers (converted to the type of the parameter) or bytes (used unchanged), one per parameter.
        shared
            Bytes of dynamic shared memory.
        cluster
            Blocks of a cluster, as of the grid. If it is None, it is that of the kernel (``.reqnctapercluster``).
        max_instructions
            Maximum number of warp instructions that a block may execute.
        values
            Whether all values are computed. Otherwise only the values that addresses and branches depend on are
            computed, and memory changes only where they depend on it.
        unroll
            How often rolled loops are unrolled; None: no basic block waits for the loads of the one before.

        Raises
        ------
        LaunchError
            If the shape or an argument does not fit the kernel.
        ConfigError
            If the module has no such kernel, or `max_instructions` is not 1 to 2^63 - 1.
        TraceError
            If the PTX cannot be executed.
        """
        if kernel not in self.module.kernels:
            raise ConfigError(unknown("kernel", kernel, self.module.kernels))
        found = find_cluster(self.module.functions[kernel], cluster)
        program = self.program(kernel, clustered=found != ALONE)
        parameters = pack_parameters(program, args)
        return EmulatedLaunch(self, program, grid, block, parameters, shared, found, max_instructions, values, unroll)

    def program(self, kernel: str, *, clustered: bool = False, architecture: int | None = None) -> LoweredKernel:
        """Return a kernel as steps, as it is assembled for an architecture; None: that of the module.

        It is the same one for architectures whose assembler unrolls the same loops, and keeps the same arrays in
        registers. Raises `ConfigError` for an unknown kernel, and `TraceError`.
        """
        if kernel not in self.module.kernels:
            raise ConfigError(unknown("kernel", kernel, self.module.kernels))
        architecture = self.module.architecture if architecture is None else architecture
        asked = kernel, clustered, architecture
        if asked not in self._programs:
            loops = tuple(tuple(find_inner_loops(each, architecture)) for each in self.module.functions.values())
            kept = keeps_arrays(self.module, kernel, architecture)
            if (key := (kernel, clustered, loops, kept)) not in self._programs:
                self._programs[key] = lower_kernel(
                    self.module, kernel, self._addresses, self.parameters.base,
                    clustered=clustered, architecture=architecture, keeps_arrays=kept,
                )  # fmt: skip
            self._programs[asked] = self._programs[key]
        return self._programs[asked]

    def address_of(self, variable: str) -> int:
        """Return the device address of a variable of the module, by its name in the PTX."""
        return self._variables[variable].base

    def bind_texture(self, texture: Texture, buffer: DeviceBuffer, reference: str | None = None) -> None:
        """Let kernels read the texture in `buffer` through its address, or through a texture reference by its name."""
        handle = buffer.base if reference is None else self.address_of(reference)
        self.textures.add(texture.row(handle, buffer.base))

    def fill(self, variable: str, content: bytes | NDArray[np.uint8]) -> None:
        """Give a variable of the module, by its name in the PTX, as many bytes as it has."""
        array = self._variables[variable].array.view(np.uint8)
        array[...] = np.frombuffer(content, np.uint8)
        self._unfilled.discard(variable)

    def global_contents(self) -> dict[str, NDArray[np.uint8]]:
        """Return the bytes of the variables in global memory by name, which kernels change."""
        variables = self.module.variables.values()
        return {v.name: self._variables[v.name].array.view(np.uint8) for v in variables if v.space == "global"}

    @property
    def unfilled(self) -> dict[str, tuple[int, int]]:
        """Address and bytes of the variables in constant memory without initial values, which were not filled."""
        return {name: (self._variables[name].base, self._variables[name].bytes) for name in sorted(self._unfilled)}

    @property
    def _addresses(self) -> dict[str, int]:
        return {name: buffer.base for name, buffer in self._variables.items()}

    def moved(self, memory: DeviceMemory, textures: TextureTable) -> LoadedModule:
        """Return the module with textures in another memory, which has the variables at the same addresses alone."""
        other = copy(self)
        other.memory, other.textures = memory, textures
        other.parameters = memory.allocate(np.zeros(MAX_PARAMETER_BYTES, np.uint8), "parameters", module=True)
        assert other.parameters.base == self.parameters.base
        found = {name: memory.find(buffer.base) for name, buffer in self._variables.items()}
        other._variables = {name: buffer for name, buffer in found.items() if buffer is not None}
        other._unfilled = set()
        return other

    @property
    def variables(self) -> dict[str, DeviceBuffer]:
        """The variables in global and constant memory, by their names in the PTX."""
        return dict(self._variables)


class EmulatedLaunch:
    """A checked launch, which executes one block at a time on the memory of its `LoadedModule`.

    `launch` describes it (PTX does not tell the registers per thread: 0). `data_dependent` tells whether addresses or
    branches depend on the contents of global memory, `order_dependent` whether the kernel may change these contents.
    """

    def __init__(
        self,
        machine: LoadedModule,
        program: LoweredKernel,
        grid: int | Sequence[int],
        block: int | Sequence[int] | None,
        parameters: bytes,
        shared: int,
        cluster: Cluster,
        max_instructions: int,
        values: bool,
        unroll: int | None,
    ) -> None:
        check_int("max_instructions", max_instructions, 1, (1 << 63) - 1)
        if not isinstance(shared, int) or shared < 0:
            raise LaunchError(f"shared={shared!r}: must be a whole number of at least 0")
        self._machine, self._program, self._parameters = machine, program, parameters
        self.lock = RLock()  # registers, places and log belong to the block that is being executed
        self._shared = program.shared_bytes + shared
        self._limit = max_instructions
        self._local = -(-program.local_bytes // 16) * 16
        function = machine.module.functions[program.name]
        block = required_block(function) if block is None else block
        geometry = shape("grid", grid), shape("block", block, limit=MAX_BLOCK_THREADS)
        buffers = tuple(b.info for b in machine.memory.buffers if b is not machine.parameters)
        self.launch = Launch(
            kernel=program.name, grid=geometry[0], block=geometry[1], shared_memory=self._shared, arrays=buffers
        )
        self.local_memory: LocalMemory | None = None
        if self._local:
            self.local_memory = LocalMemory(LOCAL_BASE, self.launch.block_warps * WARP * self._local)
            local = ArrayInfo("local memory", LOCAL_BASE, self.local_memory.block_bytes * self.launch.blocks)
            self.launch = replace(self.launch, arrays=(*self.launch.arrays, local))
        check_directives(function, self.launch)
        check_cluster(self.launch, cluster)
        self._cluster = cluster
        self._finished: dict[int, FinishedBlock] = {}
        self._last_events: ClusterEvents | None = None  # of a block that was executed with its cluster
        self._register_uses: dict[tuple[int, int] | None, RegisterUse] = {}
        if max(self._shared, self._local * self.launch.block_threads) >= _MAX_STORAGE_BYTES:
            raise LaunchError(
                f"{program.name}: a block needs more than 1 GiB of shared or local memory: reduce shared or the block"
            )
        self._unroll = unroll
        self._mark_steps(values)

    def assembled_for(self, architecture: int) -> EmulatedLaunch:
        """Return the launch of the code that is made for an architecture such as 80; itself if it is the same."""
        program = self._machine.program(self._program.name, clustered=self._cluster != ALONE, architecture=architecture)
        if program is self._program:
            return self
        return EmulatedLaunch(
            self._machine, program, self.launch.grid, self.launch.block, self._parameters,
            self._shared - program.shared_bytes, self._cluster, self._limit, self._strict, self._unroll,
        )  # fmt: skip

    def _mark_steps(self, values: bool) -> None:
        steps = self._program.steps
        targets = access_targets(self._program, self._parameters, self._machine.memory, self._machine.parameters)
        reduced = reduce_slice(steps, values=False, targets=targets)
        decisive = reduced.members
        self.data_dependent = depends_on_data(steps, decisive, targets)
        self.order_dependent = self.data_dependent and changes_data(steps, decisive, targets)
        if values:
            reduced = reduce_slice(steps, values=True, targets=targets)
        executed = reduced.members
        self._tainted = tainted_slots(steps)
        self._strict = values
        blocks = find_basic_blocks(self._program, self._unroll)
        self._unrolled = blocks.unrolled
        optional = [(steps[at].guard, written_slots(steps, region)) for at, region in reduced.optional.items()]
        self._poisoned = PoisonFlow(steps, executed, optional)
        for index, step in enumerate(steps):
            step.flags -= {"EXECUTE", "TRACK", "POISONED", "BLOCK"}
            step.flags |= {"BLOCK"} if index in blocks.starts else set()
            step.flags |= {"POISONED"} if index in self._poisoned.steps else set()
            step.flags |= {"EXECUTE"} if index in executed else set()
            step.flags |= {"TRACK"} if self._tainted.intersection(step.dst) else set()
        mark_events(self._program)
        self._code = encode_steps(steps)
        self._regions = self._mark_branches(reduced)
        self._decisive, self._executed = decisive, executed

    def _mark_branches(self, reduced: ReducedSlice) -> NDArray[np.int64]:
        """Change the branches that skip values; return a table with the step behind each region and its slots."""
        table = [0]
        for at, region in reduced.skipped.items():
            self._code[at]["guard"], self._code[at]["target"] = NO_SLOT, region.join
        for at, region in reduced.optional.items():
            slots = written_slots(self._program.steps, region)
            self._code[at]["mode"] = len(table)
            table += [region.join, len(slots), *slots]
        return np.array(table, dtype=np.int64)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Sentences about parts of the kernel that are executed differently than on a GPU; usually none."""
        unfilled = decisive_variables(self._program, self._decisive, self._machine.unfilled)
        blocks = (_BLOCK_NOTE,) if self._machine.textures.has_blocks and texture_axes(self._program) else ()
        if not unfilled:
            return blocks
        return (describe_unfilled(unfilled), *blocks)

    @cached_property
    def cache_ops(self) -> NDArray[np.uint8] | None:
        """The cache operators of the PTX instructions by their numbers; None if no instruction has one."""
        return cache_ops_by_pc(self._program.steps)

    @cached_property
    def sources(self) -> Mapping[int, InstructionSource]:
        """The instructions that access memory by number, with their lines in the source, if known."""
        return source_lines(self._program.steps, self._machine.module)

    @property
    def memory(self) -> DeviceMemory:
        """The memory that the kernel works on, with its arrays."""
        return self._machine.memory

    @property
    def parameters(self) -> list[bytes]:
        """The bytes of each parameter of the kernel."""
        return [self._parameters[offset : offset + size] for offset, size, _ in self._program.parameters]

    # ---- execution

    @cached_property
    def _work_table(self) -> WorkTable:
        return WorkTable(self._program, self._executed)

    def last_work(self) -> Work:
        """Return the work of the block that was executed last, without the requests of its memory instructions."""
        return self._work_table.work_of(self._last_counts, self.launch.block_warps)

    def register_use(self, capability: tuple[int, int] | None) -> RegisterUse:
        """Return the registers of a thread: from an assembler for this compute capability, or else estimated."""
        if capability not in self._register_uses:
            found = count_registers(self._machine.module, self._program.name, capability)
            self._register_uses[capability] = found
        return self._register_uses[capability]

    @cached_property
    def _times(self) -> BlockTimes:
        return BlockTimes(self._machine.module, self._program, self.launch.block_warps)

    def last_spills(self, use: RegisterUse) -> tuple[float, float]:
        """Return the loads and stores of spilled registers in the block that was executed last."""
        return self._times.spills(self._last_counts[:, 0], use)

    def last_chains(self, latencies: Mapping[str, float], registers: int, together: int) -> list[Chain]:
        """Return the pieces of the block that was executed last (`BlockTimes.chains`)."""
        return self._times.chains(self._last_counts[:, 0], self._events_of_last(), latencies, registers, together)

    def last_crowding(self, latencies: Mapping[str, float], registers: int, resident: int) -> float | None:
        """Return how many times as long the block that was executed last takes if `resident` of them share an SM."""
        return self._times.crowding(self._events_of_last(), latencies, registers, resident)

    def _events_of_last(self) -> ClusterEvents:
        return self._last_events or events_of(self._machines, self.launch.block_warps)

    def _make_machine(self) -> BlockMachine:
        program, threads = self._program, self.launch.block_threads
        registers = np.zeros((max(1, program.slots), threads), dtype=np.uint64)
        for row, constant in enumerate(program.constants, start=program.variables):
            if not isinstance(constant, str):
                registers[row] = constant_value(constant, self._parameters)
            elif not differs_by_block(constant):
                registers[row] = read_special_register(constant, self.launch, 0, self._cluster)
        counts = np.zeros((len(program.steps), len(COUNTS)), np.int64)
        memory = np.zeros(max(1, self._shared), dtype=np.uint8)
        places = Places(np.zeros(max(1, self._local * threads), dtype=np.uint8), self._local, memory, self._shared)
        slots, local, shared = (program.slots, self._local, self._shared) if self._poisoned.steps else (0, 0, 0)
        poison = Poison(slots, threads, program.variables, places, local, shared)
        tainted = np.zeros(max(1, program.slots), dtype=np.uint8)
        tainted[list(self._tainted)] = 1
        loops = np.full(max(1, len(program.steps)), -1, dtype=np.int64)
        loops[list(self._unrolled)] = np.arange(len(self._unrolled))
        unrolled = np.array([*self._unrolled.values(), 1], dtype=np.int64)
        log = Log(self.launch.block_warps, tainted, unrolled, len(self._unrolled))
        events = Events()
        targets = np.array([*program.targets, 0], dtype=np.int64)
        emulator = Emulator(
            self._code, registers, program.variables, targets, places, log, events, poison, self._regions, loops,
            counts, self._strict, self._limit, _MAX_RECORD_BYTES,
        )  # fmt: skip
        return BlockMachine(registers, places, poison, log, events, counts, emulator, memory)

    @cached_property
    def _constants_by_block(self) -> list[tuple[int, str]]:
        constants = enumerate(self._program.constants, start=self._program.variables)
        return [(row, name) for row, name in constants if isinstance(name, str) and differs_by_block(name)]

    @cached_property
    def _machines(self) -> list[BlockMachine]:
        """The machines of the blocks of a cluster, by rank."""
        machines = [self._make_machine() for _ in range(prod(self._cluster))]
        if len(machines) > 1:
            join_cluster(machines)
        return machines

    @cached_property
    def _errors(self) -> LaunchErrors:
        machine = self._machine
        return LaunchErrors(
            StoppedLaunch(
                self._program, self.launch, machine.memory, machine.module.files, self._poisoned, self._shared,
                self._local, self._limit,
            )
        )  # fmt: skip

    def run(self, block: int, record: bool = True) -> Columns:
        """Execute one block and return the memory instructions of its warps (none, unless `record`).

        The blocks of a cluster are executed together, and those that were not asked for are kept until they are.
        Stores change the arrays. Raises `TraceError` for an access outside every array, an instruction that cannot be
        executed, a deadlock at barriers and a block that does not end; the message names the PTX line.
        """
        if not 0 <= block < self.launch.blocks:
            raise TraceError(f"block {block}: must be 0 to {self.launch.blocks - 1}")
        with self.lock:
            return self._run(block, record) if len(self._machines) == 1 else self._run_in_cluster(block)

    def _run(self, block: int, record: bool) -> Columns:
        machine = self._machines[0]
        self._start(machine, block, record)
        status = Status.UNFINISHED
        while status == Status.UNFINISHED:
            status = Status(machine.emulator.run(_STEPS_PER_CALL))
        if status != Status.FINISHED:
            raise self._errors.of(machine.emulator, status, block)
        self._last_counts = machine.counts
        return columns_of_rows(machine.log.columns(), self.cache_ops)

    def _run_in_cluster(self, block: int) -> Columns:
        if block not in self._finished:
            blocks = cluster_blocks(self.launch, block, self._cluster)
            for machine, member in zip(self._machines, blocks, strict=True):
                self._start(machine, member, True)
            self._finished.clear()
            run_cluster(
                self._machines,
                lambda rank, status: self._errors.of(self._machines[rank].emulator, status, blocks[rank]),
            )
            events = events_of(self._machines, self.launch.block_warps)
            for machine, member in zip(self._machines, blocks, strict=True):
                columns = columns_of_rows(machine.log.columns(), self.cache_ops)
                self._finished[member] = FinishedBlock(columns, machine.counts.copy(), events)
        found = self._finished.pop(block)
        self._last_counts, self._last_events = found.counts, found.events
        return found.columns

    def _start(self, machine: BlockMachine, block: int, record: bool) -> None:
        """Prepare a machine for a block."""
        machine.places.bind(*self._machine.memory.tables())
        machine.emulator.bind_textures(self._machine.textures.table())
        machine.poison.bind(self._machine.memory.poison_table("GLOBAL" in self._poisoned.spaces))
        self._machine.parameters.array[: len(self._parameters)] = np.frombuffer(self._parameters, np.uint8)
        for row, name in self._constants_by_block:
            machine.registers[row] = read_special_register(name, self.launch, block, self._cluster)
        local_base = LOCAL_BASE if self.local_memory is None else self.local_memory.start(block)
        machine.emulator.restart(self._program.entry, local_base, record)
