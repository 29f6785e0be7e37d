"""Kernels of a PTX module, executed block by block: `Machine` holds the memory, `Launched` runs one launch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError, LaunchError, TraceError, unknown
from rdmodel.trace import WARP, ArrayInfo, Columns, Launch, Trace, check_blocks, missing_block
from rdmodel.trace.expansion import concatenate
from tracegen.arrays import BASE
from tracegen.ptx.emulator._emulator import Emulator, Status
from tracegen.ptx.emulator._log import Log
from tracegen.ptx.emulator._places import Places
from tracegen.ptx.emulator.memory import LOCAL_BASE, Buffer, Memory
from tracegen.ptx.isa.special_registers import SPECIAL, block_index
from tracegen.ptx.lowering.lowering import lower, variable_bytes
from tracegen.ptx.lowering.program import TYPES, Constant, Parameter, Program, encode
from tracegen.ptx.lowering.slicing import depends_on_data, slice_steps, tainted_slots
from tracegen.ptx.syntax.ast import Module
from tracegen.simt.kernel_trace import MAX_BLOCK, shape

__all__ = ["Buffer", "EmulatedTrace", "Launched", "Machine"]

Argument = Buffer | int | float | np.generic | bytes

_PARAMETER_BYTES = 32764
"""Bytes that the parameters of a kernel may take."""

_STEPS = 1 << 18
"""Steps between two looks at signals, such as Ctrl-C."""

_MOST_BYTES = 1 << 33
"""Bytes that the record of one block may take before it counts as endless."""

_STORAGE = 1 << 30
"""Bytes of local or shared memory that a block may have, and that a variable of a module may."""


class Machine:
    """One module, its device memory and its variables.

    Arrays are laid out from `base` on, 256-byte aligned, one after the other, as `tracegen.arrays` does. Raises
    `TraceError` for a module with 32-bit addresses.
    """

    def __init__(self, module: Module, *, base: int = BASE) -> None:
        if module.address_size != 64:
            raise TraceError(f"address_size {module.address_size}: only modules with 64-bit addresses can be executed")
        self.module = module
        self.memory = Memory(base)
        self.parameters = self.memory.allocate(np.zeros(_PARAMETER_BYTES, np.uint8), "parameters", module=True)
        self._variables = self._load_variables()
        self._programs: dict[str, Program] = {}

    def allocate(self, array: NDArray[Any] | int, name: str) -> Buffer:
        """Return a buffer over `array`, or over that many zero bytes.

        Kernels work on the array itself if it is contiguous and writeable, otherwise on the copy ``buffer.array``.
        """
        return self.memory.allocate(array if isinstance(array, np.ndarray) else np.zeros(array, np.uint8), name)

    def launch(
        self,
        kernel: str,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Argument],
        *,
        shared: int = 0,
        max_instructions: int = 10**9,
        values: bool = True,
    ) -> Launched:
        """Return a launch of `kernel`, checked; nothing is executed yet.

        `args` are buffers, numbers (converted to the parameter's type) or bytes (as they are), `shared` the bytes of
        dynamic shared memory. A block that executes more than `max_instructions` warp instructions is an error. With
        `values` False, only what decides about addresses and branches is computed, and memory is left alone unless
        it is part of that. Raises `LaunchError`, `ConfigError` for an unknown kernel, `TraceError` for broken PTX.
        """
        if kernel not in self.module.kernels:
            raise ConfigError(unknown("kernel", kernel, self.module.kernels))
        if kernel not in self._programs:
            self._programs[kernel] = lower(self.module, kernel, self._addresses, self.parameters.base)
        program = self._programs[kernel]
        return Launched(self, program, grid, block, _pack(program, args), shared, max_instructions, values)

    @property
    def _addresses(self) -> dict[str, int]:
        return {name: buffer.base for name, buffer in self._variables.items()}

    def _load_variables(self) -> dict[str, Buffer]:
        """Allocate the global and constant variables of the module and write their initial values."""
        buffers = {}
        for variable in self.module.variables.values():
            if variable.space in ("global", "const"):
                if variable_bytes(variable) > _STORAGE:
                    raise TraceError(f"variable {variable.name}: {variable_bytes(variable)} bytes, at most 1 GiB")
                content = np.zeros(variable_bytes(variable), np.uint8)
                initial = np.frombuffer(variable.initial or b"", np.uint8)
                content[: len(initial)] = initial[: len(content)]
                buffers[variable.name] = self.memory.allocate(content, variable.name, module=True)
        for variable in self.module.variables.values():
            for offset, symbol in variable.addresses.items():
                if symbol in buffers and offset + 8 <= buffers[variable.name].bytes:
                    content = buffers[variable.name].array.view(np.uint8)
                    old = int.from_bytes(content[offset : offset + 8].tobytes(), "little")
                    address = (buffers[symbol].base + old) % (1 << 64)
                    content[offset : offset + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)
        return buffers


def _pack(program: Program, args: Sequence[Argument]) -> bytes:
    """Return the bytes of the parameters; raises `LaunchError` for arguments that do not fit them."""
    if len(args) != len(program.parameters):
        raise LaunchError(f"{program.name}: {len(args)} arguments, but it has {len(program.parameters)} parameters")
    packed = bytearray()
    for index, (value, (offset, size, type_name)) in enumerate(zip(args, program.parameters, strict=True)):
        packed += bytes(offset - len(packed))
        try:
            packed += _pack_argument(value, size, type_name)
        except (ValueError, OverflowError, TypeError, struct.error) as error:
            wanted = f".{type_name}" if type_name else f"{size} bytes"
            raise LaunchError(f"{program.name}: argument {index} ({value!r}) does not fit {wanted}: {error}") from None
    if len(packed) > _PARAMETER_BYTES:
        raise LaunchError(f"{program.name}: {len(packed)} bytes of parameters, at most {_PARAMETER_BYTES} fit")
    return bytes(packed)


def _pack_argument(value: Argument, size: int, type_name: str | None) -> bytes:
    if isinstance(value, bytes):
        if len(value) != size:
            raise ValueError(f"it has {len(value)} bytes")
        return value
    if isinstance(value, Buffer):
        if size != 8:
            raise ValueError("an address has 8 bytes")
        return value.base.to_bytes(8, "little")
    if type_name is None or type_name not in TYPES:
        raise ValueError("give it as bytes")
    if TYPES[type_name].kind == "FLOAT":
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], float(value))
    if float(value) != int(value):
        raise ValueError("it is no whole number")
    return _pack_integer(int(value), size)


def _pack_integer(value: int, size: int) -> bytes:
    """PTX says nothing about signs of parameters, so both ranges are taken."""
    if not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
        raise ValueError(f"it does not fit {8 * size} bits")
    return (value % (1 << (8 * size))).to_bytes(size, "little")


class Launched:
    """A checked launch: executes one block at a time, on the memory of its `Machine`.

    `launch` describes it (registers per thread are not in PTX: 0). `data_dependent` says that addresses or branches
    depend on what global memory holds.
    """

    def __init__(
        self,
        machine: Machine,
        program: Program,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        parameters: bytes,
        shared: int,
        max_instructions: int,
        values: bool,
    ) -> None:
        if not isinstance(shared, int) or shared < 0:
            raise LaunchError(f"shared={shared!r}: must be a whole number of at least 0")
        self._machine, self._program, self._parameters = machine, program, parameters
        self.lock = RLock()  # registers, places and log are those of the block that is being executed
        self._shared = program.shared_bytes + shared
        self._limit = max_instructions
        self._local = -(-program.local_bytes // 16) * 16
        geometry = shape("grid", grid), shape("block", block, limit=MAX_BLOCK)
        local = ArrayInfo("local memory", LOCAL_BASE, self._local * WARP)
        self.launch = Launch(
            kernel=program.name,
            grid=geometry[0],
            block=geometry[1],
            shared_memory=self._shared,
            arrays=tuple(b.info for b in machine.memory.buffers if b is not machine.parameters)
            + ((local,) if self._local else ()),
        )
        if max(self._shared, self._local * self.launch.block_threads) >= _STORAGE:
            raise LaunchError(f"{program.name}: a block would need more than 1 GiB of shared or local memory")
        self._mark_steps(values)

    def _mark_steps(self, values: bool) -> None:
        steps = self._program.steps
        decisive = slice_steps(steps, values=False)
        self.data_dependent = depends_on_data(steps, decisive)
        executed = slice_steps(steps, values=True) if values else decisive
        self._tainted = tainted_slots(steps)
        for index, step in enumerate(steps):
            step.flags -= {"EXECUTE", "TRACK"}
            step.flags |= {"EXECUTE"} if index in executed else set()
            step.flags |= {"TRACK"} if self._tainted.intersection(step.dst) else set()
        self._code = encode(steps)

    # ---- execution

    @cached_property
    def _registers(self) -> NDArray[np.uint64]:
        registers = np.zeros((max(1, self._program.slots), self.launch.block_threads), dtype=np.uint64)
        for row, constant in enumerate(self._program.constants, start=self._program.variables):
            if not isinstance(constant, str):
                registers[row] = self._constant(constant)
        return registers

    def _constant(self, constant: Constant) -> int:
        if isinstance(constant, Parameter):
            part = self._parameters[constant.offset : constant.offset + constant.bytes]
            return int.from_bytes(part, "little", signed=constant.signed) % (1 << 64)
        assert isinstance(constant, int)
        return constant

    @cached_property
    def _places(self) -> Places:
        local = np.zeros(max(1, self._local * self.launch.block_threads), dtype=np.uint8)
        return Places(local, self._local, np.zeros(max(1, self._shared), dtype=np.uint8), self._shared)

    @cached_property
    def _emulator(self) -> Emulator:
        tainted = np.zeros(max(1, self._program.slots), dtype=np.uint8)
        tainted[list(self._tainted)] = 1
        self._log = Log(self.launch.block_warps, tainted)
        return Emulator(
            self._code,
            self._registers,
            self._program.variables,
            np.array([*self._program.targets, 0], dtype=np.int64),
            self._places,
            self._log,
            self._limit,
            _MOST_BYTES,
        )

    def run(self, block: int, record: bool = True) -> Columns:
        """Execute one block and return what its warps asked of memory (nothing, if not to `record`).

        What it stores stays in the arrays. Raises `TraceError` for an access outside every array, an instruction
        that cannot be executed, a deadlock at barriers and a block that does not end; the message says where.
        """
        if not 0 <= block < self.launch.blocks:
            raise TraceError(f"block {block}: must be 0 to {self.launch.blocks - 1}")
        with self.lock:
            return self._run(block, record)

    def _run(self, block: int, record: bool) -> Columns:
        emulator = self._emulator
        self._places.bind(*self._machine.memory.tables())
        self._machine.parameters.array[: len(self._parameters)] = np.frombuffer(self._parameters, np.uint8)
        for row, constant in enumerate(self._program.constants, start=self._program.variables):
            if isinstance(constant, str):
                self._registers[row] = SPECIAL[constant](self.launch, block)
        emulator.restart(self._program.entry, LOCAL_BASE + block * self.launch.block_warps * WARP * self._local, record)
        status = Status.UNFINISHED
        while status == Status.UNFINISHED:
            status = Status(emulator.run(_STEPS))
        if status != Status.FINISHED:
            raise self._error(status, block)
        return _columns(*self._log.columns())

    # ---- errors

    def _error(self, status: Status, block: int) -> TraceError:
        step = self._program.steps[min(self._emulator.step, len(self._program.steps) - 1)]
        instruction = ".".join((step.origin.opcode, *step.origin.modifiers))
        thread = self._thread(block, self._emulator.thread)
        if status == Status.OUTSIDE:
            address = self._emulator.address
            what = f"{instruction} of {step.count * step.width // 8} bytes at {self._where_is(step.space, address)}"
            return self._located(step, f"{what}, {thread}")
        if status == Status.TOO_LONG:
            message = f"block {block} executed more than max_instructions={self._limit} warp instructions"
            return self._located(step, f"{message}; it is at {instruction}")
        if status == Status.NO_MEMORY:
            return self._located(step, f"the record of block {block} does not fit into memory")
        if status == Status.DEADLOCK:
            return self._deadlock(block)
        return self._located(step, f"{step.reason or instruction + ' is wrong'}, {thread}")

    def _located(self, step: Any, message: str) -> TraceError:
        origin = step.origin
        source = ""
        if origin.source is not None:
            file, line = origin.source
            source = f" ({self._machine.module.files.get(file, file)}:{line})"
        return TraceError(f"{self._program.name}: PTX line {origin.line}{source}: {message}")

    def _thread(self, block: int, thread: int) -> str:
        x, y, _ = self.launch.block
        return f"thread {(thread % x, thread // x % y, thread // (x * y))} of block {block_index(self.launch, block)}"

    def _where_is(self, space: str, address: int) -> str:
        if space in ("SHARED", "LOCAL", "FRAME"):
            size = self._shared if space == "SHARED" else self._local
            return f"offset {address} of {space.lower()} memory ({size} bytes)"
        return f"address {address:#x}, {self._machine.memory.describe(address)}"

    def _deadlock(self, block: int) -> TraceError:
        groups: dict[tuple[int, int], int] = {}
        for _, step, barrier in self._emulator.waiting():
            groups[step, barrier] = groups.get((step, barrier), 0) + 1
        parts = [
            f"{threads} threads at barrier {barrier} in PTX line {self._program.steps[step].origin.line}"
            for (step, barrier), threads in sorted(groups.items())
        ]
        first, _ = min(groups)
        return self._located(
            self._program.steps[first], f"block {block} cannot go on: {' and '.join(parts)} wait for each other"
        )


def _columns(rows: NDArray[Any], addresses: NDArray[np.int64], warp_start: NDArray[np.int64]) -> Columns:
    lanes = np.where(rows["op"] == 3, 0, np.bitwise_count(rows["mask"]))
    start = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(lanes, out=start[1:])
    names = ("pc", "op", "space", "size", "gap", "needs", "mask")
    return Columns(
        warp_start=warp_start,
        loop_exit=np.zeros(len(rows), dtype=np.bool_),
        address_start=start,
        addresses=addresses,
        **{name: rows[name] for name in names},
    )


class EmulatedTrace(Trace):
    """The trace of an emulated launch: a block is executed when it is asked for; the last one is kept.

    Blocks are executed in the order in which they are asked for, and on the memory that those before have left: a
    kernel whose addresses or branches depend on what it stores itself gives the trace of that order.
    """

    def __init__(self, launched: Launched, blocks: Sequence[int] | None = None) -> None:
        self.launched = launched
        self.launch = launched.launch
        self.blocks = check_blocks(self.launch, blocks)
        self._last: tuple[int, Columns] | None = None

    def __repr__(self) -> str:
        return f"EmulatedTrace({self.launch.kernel!r}, grid={self.launch.grid}, block={self.launch.block})"

    @property
    def any_order(self) -> bool:
        """Whether a block is the same whichever blocks were asked for before it."""
        return not self.launched.data_dependent

    @cached_property
    def _held(self) -> frozenset[int]:
        assert self.blocks is not None
        return frozenset(int(block) for block in self.blocks)

    def block(self, block: int) -> Columns:
        """Execute one block and return its instructions; raises `TraceError`, also if the trace does not hold it."""
        if block not in self._held:
            raise missing_block(self, block)
        with self.launched.lock:
            if self._last is None or self._last[0] != block:
                self._last = int(block), self.launched.run(int(block))
            return self._last[1]

    def __len__(self) -> int:
        """Return the number of warp instructions; executes every block, once."""
        return len(self.columns)

    @cached_property
    def columns(self) -> Columns:  # type: ignore[override]
        """Every instruction of every block; executes every block, once."""
        assert self.blocks is not None
        return concatenate([self.block(int(block)) for block in self.blocks])
