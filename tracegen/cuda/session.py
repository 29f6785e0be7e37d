"""Compile a CUDA program once and trace or execute launches of its kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.nvcc_options import read_nvcc_options
from rdmodel.trace import Columns, Work, missing_block
from tracegen.arrays import BASE
from tracegen.cuda.arguments import ArgumentValue, KernelParameter, bind_arguments, parse_arguments
from tracegen.cuda.compiler import Defines, compile_program
from tracegen.cuda.launch_memory import LaunchMemory
from tracegen.cuda.names import demangle
from tracegen.cuda.source import read_source
from tracegen.cuda.structures import StructureValue
from tracegen.cuda.textures import TextureValue
from tracegen.cuda.variables import parse_variables, variable_contents
from tracegen.ptx import Function, parse
from tracegen.ptx.emulator.emulated_launch import EmulatedLaunch, LoadedModule
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace
from tracegen.unrolling import DEFAULT_UNROLL, Unroll, parse_unroll

LaunchShape = int | Sequence[int]
"""A grid or a block: one to three numbers (x, y, z)."""

Arguments = Mapping[str, Any] | Sequence[Any]
"""Arguments by name or in order."""

MAX_INSTRUCTIONS = 10**9
"""Default limit of warp instructions per block; a block that exceeds it counts as endless."""


class OrderedTrace(EmulatedTrace):
    """The trace of a kernel whose addresses or branches depend on data that the kernel itself may change.

    One that only reads such data, from arrays to which it does not store, is an `EmulatedTrace`.

    All blocks of the grid are executed once, in ascending order, even blocks outside the trace. The trace of a block
    therefore does not depend on the order of the requests. Blocks of the trace are cached.
    """

    def __init__(self, launched: EmulatedLaunch, blocks: Sequence[int] | None = None) -> None:
        super().__init__(launched, blocks)
        self._cached: dict[int, tuple[Columns, Work]] = {}
        self._next = 0

    def block(self, block: int) -> Columns:
        """Return the instructions of one block, after executing all blocks before it; raises `TraceError`."""
        if block not in self._traced_blocks:
            raise missing_block(self, block)
        with self.launched.lock:
            while self._next <= block:
                traced = self._next in self._traced_blocks
                columns = self.launched.run(self._next, record=traced)
                if traced:
                    self._cached[self._next] = columns, self.launched.last_work()
                self._next += 1
        return self._cached[int(block)][0]

    def block_work(self, block: int) -> Work:
        """Return the work of one block, after executing all blocks before it."""
        self.block(block)
        return self._cached[int(block)][1]

    @property
    def any_order(self) -> bool:
        """True: the trace of a block does not depend on the blocks requested before it."""
        return True


def trace_of_launch(launched: EmulatedLaunch, title: str, blocks: Sequence[int] | None = None) -> EmulatedTrace:
    """Return the trace of a checked launch, with `title` as the name of its kernel."""
    trace = (OrderedTrace if launched.order_dependent else EmulatedTrace)(launched, blocks)
    trace.launch = dataclasses.replace(trace.launch, kernel=title)
    return trace


@dataclasses.dataclass(frozen=True)
class PreparedLaunch:
    """A checked launch without device memory: the PTX kernel, its source name (`title`), shape and arguments."""

    kernel: str
    title: str
    grid: LaunchShape
    block: LaunchShape | None
    shared: int
    cluster: LaunchShape | None
    parameters: tuple[KernelParameter, ...]
    values: tuple[ArgumentValue, ...]
    max_instructions: int
    unroll: int | None
    contents: Mapping[str, bytes | TextureValue] = dataclasses.field(default_factory=dict)
    """Contents of the variables that the program fills before this launch, by their names in the PTX."""


class Session:
    """A compiled program, ready to launch; `kernels` are the kernels to instantiate, templates with arguments."""

    def __init__(
        self,
        source: str | Path,
        *,
        kernels: Sequence[str] = (),
        defines: Defines = (),
        includes: Sequence[str | Path] = (),
        options: Sequence[str] = (),
        architecture: str | None = None,
        capability: tuple[int, int] | None = None,
        compiler: str = "auto",
        base: int | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> None:
        text = read_source(source)
        self._program = compile_program(
            text,
            kernels=kernels,
            defines=defines,
            includes=includes,
            options=options,
            architecture=architecture,
            capability=capability,
            compiler=compiler,
        )
        self._module = dataclasses.replace(
            parse(self._program.ptx, text.name),
            relocatable=read_nvcc_options(options).relocatable,
            assembler=self._program.assembler,
        )
        self._base = BASE if base is None else base
        self._sizes = {name: value for name, value in dict(_macro_pairs(defines)).items() if isinstance(value, int)}
        self._contents: dict[str, bytes | NDArray[np.uint8] | TextureValue] = {
            **variable_contents(self._module, parse_variables(variables or {}, self._sizes))
        }

    @property
    def ptx(self) -> str:
        """The program as the compiler returned it."""
        return self._program.ptx

    def prepare(
        self,
        kernel: str | None,
        grid: LaunchShape,
        block: LaunchShape | None,
        args: Arguments,
        *,
        shared: int = 0,
        cluster: LaunchShape | None = None,
        max_instructions: int = MAX_INSTRUCTIONS,
        unroll: Unroll = DEFAULT_UNROLL,
        variables: Mapping[str, ArgumentValue] | None = None,
    ) -> PreparedLaunch:
        """Find the kernel of a launch and convert its arguments; raises `ConfigError`."""
        name = self.find_kernel(kernel)
        parameters = self.parameters(name)
        title = demangle(name)
        if isinstance(args, Mapping):
            given: Mapping[str, ArgumentValue] | list[ArgumentValue] = parse_arguments(args, self._sizes)
        else:
            given = list(parse_arguments({str(at): value for at, value in enumerate(args)}, self._sizes).values())
        values = tuple(bind_arguments(parameters, given, title))
        contents = variable_contents(self._module, variables or {})
        return PreparedLaunch(
            name,
            title,
            grid,
            block,
            shared,
            cluster,
            tuple(parameters),
            values,
            max_instructions,
            parse_unroll(unroll),
            contents,
        )

    def fill(self, contents: Mapping[str, bytes | TextureValue]) -> None:
        """Fill variables, by their names in the PTX, for the launches from now on."""
        self._contents.update(contents)

    def find_kernel(self, kernel: str | None) -> str:
        """Return the PTX name of a kernel; raises `ConfigError` with the choices."""
        return self._program.find(self._module.kernels, kernel)

    def parameters(self, kernel: str) -> list[KernelParameter]:
        """Return the parameters of a PTX kernel, with their source names where known."""
        function: Function = self._module.functions[kernel]
        names = self._program.parameters(kernel, len(function.parameters))
        types = self._program.parameter_types(kernel, len(function.parameters))
        layouts = self._program.structures
        return [
            KernelParameter(
                name,
                p.name,
                p.type,
                None if p.count is None else p.count * int(p.type[1:]) // 8,
                declared,
                layouts.get((declared or "").removeprefix("const ").rpartition("::")[2]),
            )
            for name, declared, p in zip(names, types, function.parameters, strict=True)
        ]

    def trace(self, launch: PreparedLaunch, blocks: Sequence[int] | None = None) -> EmulatedTrace:
        """Return the trace of a launch on the present contents of its arrays, which do not change."""
        launched, *_ = self._launch(launch, copies=False, values=False)
        if launched.data_dependent:
            launched, *_ = self._launch(launch, copies=True, values=False)
        trace = trace_of_launch(launched, launch.title, blocks)
        trace.source_notes = tuple(self._program.notes)
        return trace

    def depends_on_data(self, launch: PreparedLaunch) -> bool:
        """Return whether addresses or branches of a launch depend on the contents of its arrays."""
        return self._launch(launch, copies=False, values=False)[0].data_dependent

    def execute(self, launch: PreparedLaunch) -> None:
        """Execute all blocks of a launch in ascending order.

        Its arrays then hold the results, and the next launches find the program's variables as this one left them.
        """
        launched, memory, machine = self._launch(launch, copies=False, values=True)
        for block in range(launched.launch.blocks):
            launched.run(block, record=False)
        memory.copy_back()
        textures = {name for name, content in self._contents.items() if isinstance(content, TextureValue)}
        self._contents.update({n: data for n, data in machine.global_contents().items() if n not in textures})

    def _launch(
        self, launch: PreparedLaunch, *, copies: bool, values: bool
    ) -> tuple[EmulatedLaunch, LaunchMemory, LoadedModule]:
        machine = LoadedModule(self._module, base=self._base)
        program = machine.program(launch.kernel)
        memory = LaunchMemory(machine, program, copies=copies)
        for name, data in self._contents.items():
            if isinstance(data, TextureValue):
                memory.bind(name, data)
            else:
                machine.fill(name, data)
        args: list[Any] = []
        offsets = [offset for offset, _, _ in program.parameters]
        for value, parameter, at in zip(launch.values, launch.parameters, offsets, strict=True):
            if isinstance(value, np.ndarray | TextureValue):
                args.append(memory.place(value, str(parameter), at))
            elif isinstance(value, StructureValue):
                # What stands behind a pointer to whole numbers are handles; other pointers point to arrays.
                is_list = value.behind_pointer and (parameter.declared or "").endswith("long long*")
                buffers = [
                    memory.place(array, f"{parameter}+{offset}", None if is_list else at + offset)
                    for offset, array in value.arrays
                ]
                packed = value.with_addresses([buffer.base for buffer in buffers])
                pointers = np.frombuffer(packed, np.uint64) if value.behind_pointer else None
                args.append(packed if pointers is None else machine.allocate(pointers.copy(), str(parameter)))
            else:
                args.append(value)
        launched = machine.launch(
            launch.kernel,
            launch.grid,
            launch.block,
            args,
            shared=launch.shared,
            cluster=launch.cluster,
            max_instructions=launch.max_instructions,
            values=values,
            unroll=launch.unroll,
        )
        return launched, memory, machine


def _macro_pairs(defines: Defines) -> list[tuple[str, Any]]:
    """Return macros as (name, value); texts of digits become whole numbers."""
    if isinstance(defines, Mapping):
        return list(defines.items())
    split = (macro.partition("=") for macro in defines)
    return [(name, int(value) if value.isdecimal() else value) for name, _, value in split]
