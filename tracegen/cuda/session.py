"""A compiled program and launches of its kernels: names to PTX, arrays to device memory, blocks to a trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Columns, missing_block
from tracegen.arrays import BASE
from tracegen.cuda.arguments import Parameter, Value, bind, parse_arguments
from tracegen.cuda.compiler import Defines, compile_program
from tracegen.cuda.names import demangle
from tracegen.cuda.source import read_source
from tracegen.ptx import Function, parse
from tracegen.ptx.emulator.machine import Buffer, EmulatedTrace, Launched, Machine

Shape = int | Sequence[int]
Arguments = Mapping[str, Any] | Sequence[Any]

MAX_INSTRUCTIONS = 10**9
"""Warp instructions after which a block counts as endless."""


class OrderedTrace(EmulatedTrace):
    """The trace of a kernel whose addresses or branches depend on data that the kernel itself may change.

    Blocks are executed one after the other in ascending order, those of the grid that the trace does not hold included,
    each once: what a block asks of memory does not depend on who asked for it, or when. Those held are kept.
    """

    def __init__(self, launched: Launched, blocks: Sequence[int] | None = None) -> None:
        super().__init__(launched, blocks)
        self._kept: dict[int, Columns] = {}
        self._next = 0

    def block(self, block: int) -> Columns:
        """Return one block's instructions, executing all before it; raises `TraceError`."""
        if block not in self._held:
            raise missing_block(self, block)
        with self.launched.lock:
            while self._next <= block:
                held = self._next in self._held
                columns = self.launched.run(self._next, record=held)
                if held:
                    self._kept[self._next] = columns
                self._next += 1
        return self._kept[int(block)]

    @property
    def any_order(self) -> bool:
        """Whether a block is the same whichever blocks were asked for before it: always."""
        return True


@dataclasses.dataclass(frozen=True)
class Call:
    """A launch that is checked but has no memory yet: the PTX kernel, its name in the source, shape and arguments."""

    kernel: str
    title: str
    grid: Shape
    block: Shape
    shared: int
    parameters: tuple[Parameter, ...]
    values: tuple[Value, ...]
    max_instructions: int


class Session:
    """A program, ready to be launched; `kernels` are those that will be asked for (templates need their arguments)."""

    def __init__(
        self,
        source: str | Path,
        *,
        kernels: Sequence[str] = (),
        defines: Defines = (),
        includes: Sequence[str | Path] = (),
        options: Sequence[str] = (),
        architecture: str | None = None,
        compiler: str = "auto",
        base: int | None = None,
    ) -> None:
        read = read_source(source)
        self._program = compile_program(
            read,
            kernels=kernels,
            defines=defines,
            includes=includes,
            options=options,
            architecture=architecture,
            compiler=compiler,
        )
        self._module = parse(self._program.ptx, read.name)
        self._base = BASE if base is None else base
        self._sizes = {name: value for name, value in dict(_pairs(defines)).items() if isinstance(value, int)}

    def call(
        self,
        kernel: str | None,
        grid: Shape,
        block: Shape,
        args: Arguments,
        *,
        shared: int = 0,
        max_instructions: int = MAX_INSTRUCTIONS,
    ) -> Call:
        """Return a launch whose kernel is found and whose arguments fit; raises `ConfigError`."""
        name = self.find(kernel)
        parameters = self.parameters(name)
        title = demangle(name)
        if isinstance(args, Mapping):
            given: Mapping[str, Value] | list[Value] = parse_arguments(args, self._sizes)
        else:
            given = list(parse_arguments({str(at): value for at, value in enumerate(args)}, self._sizes).values())
        values = tuple(bind(parameters, given, title))
        return Call(name, title, grid, block, shared, tuple(parameters), values, max_instructions)

    def find(self, kernel: str | None) -> str:
        """Return the PTX name of a kernel; raises `ConfigError` that lists the choices."""
        return self._program.find(self._module.kernels, kernel)

    def parameters(self, kernel: str) -> list[Parameter]:
        """Return what a PTX kernel takes, with the names in the source where they are known."""
        function: Function = self._module.functions[kernel]
        names = self._program.parameters(kernel, len(function.parameters))
        return [
            Parameter(name, p.name, p.type, None if p.count is None else p.count * int(p.type[1:]) // 8)
            for name, p in zip(names, function.parameters, strict=True)
        ]

    def trace(self, call: Call, blocks: Sequence[int] | None = None) -> EmulatedTrace:
        """Return the trace of a launch on its arrays as they are now; the arrays do not change."""
        launched, _ = self._launch(call, copies=False, values=False)
        if launched.data_dependent:
            launched, _ = self._launch(call, copies=True, values=False)
            trace: EmulatedTrace = OrderedTrace(launched, blocks)
        else:
            trace = EmulatedTrace(launched, blocks)
        trace.launch = dataclasses.replace(trace.launch, kernel=call.title)
        return trace

    def depends_on_data(self, call: Call) -> bool:
        """Tell whether a launch's addresses or branches depend on what its arrays hold."""
        return self._launch(call, copies=False, values=False)[0].data_dependent

    def execute(self, call: Call) -> None:
        """Run all blocks of a launch, in ascending order: its arrays hold the results afterwards."""
        launched, buffers = self._launch(call, copies=False, values=True)
        for block in range(launched.launch.blocks):
            launched.run(block, record=False)
        for array, buffer in buffers:
            if array.flags.writeable and not np.shares_memory(array, buffer.array):
                array[...] = buffer.array

    def _launch(self, call: Call, *, copies: bool, values: bool) -> tuple[Launched, list[tuple[NDArray[Any], Buffer]]]:
        machine = Machine(self._module, base=self._base)
        placed: dict[int, tuple[NDArray[Any], Buffer]] = {}  # the same array twice is one array on the device
        args: list[Any] = []
        for value, parameter in zip(call.values, call.parameters, strict=True):
            if isinstance(value, np.ndarray):
                if id(value) not in placed:
                    content = value.copy() if copies else value
                    placed[id(value)] = value, machine.allocate(content, str(parameter))
                args.append(placed[id(value)][1])
            else:
                args.append(value)
        launched = machine.launch(
            call.kernel,
            call.grid,
            call.block,
            args,
            shared=call.shared,
            max_instructions=call.max_instructions,
            values=values,
        )
        return launched, list(placed.values())


def _pairs(defines: Defines) -> list[tuple[str, Any]]:
    """Return macros as (name, value), whole numbers as such."""
    if isinstance(defines, Mapping):
        return list(defines.items())
    split = (macro.partition("=") for macro in defines)
    return [(name, int(value) if value.isdecimal() else value) for name, _, value in split]
