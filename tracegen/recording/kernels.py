"""Load the modules of a recorded program, and check and execute its launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import LaunchError, TraceError, unknown
from tracegen.cuda.names import demangle
from tracegen.cuda.session import MAX_INSTRUCTIONS
from tracegen.ptx import Module, parse
from tracegen.ptx.emulator.device_memory import DeviceMemory
from tracegen.ptx.emulator.emulated_launch import EmulatedLaunch, LoadedModule
from tracegen.ptx.emulator.textures import TextureTable
from tracegen.ptx.lowering.lowering import lay_out, variable_bytes
from tracegen.recording.memory import Allocation
from tracegen.unrolling import DEFAULT_UNROLL


@dataclass(frozen=True, slots=True)
class RecordedLaunch:
    """A launch as the program made it: a kernel of a module, its shape and the bytes of its parameters.

    `cluster` is None if the launch does not say it.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    parameters: bytes
    cluster: tuple[int, int, int] | None = None

    @property
    def title(self) -> str:
        """Name of the kernel in the source."""
        return demangle(self.kernel)


class RecordedModule:
    """A module with its variables at the addresses that the program saw."""

    def __init__(self, module: Module, places: Mapping[str, int]) -> None:
        self.module = module
        self._loaded = LoadedModule(module, places=places)

    def variables(self) -> Iterator[Allocation]:
        """Yield the variables, with their initial values."""
        for name, buffer in self._loaded.variables.items():
            yield Allocation(demangle(name), buffer.base, buffer.array.view(np.uint8), "variable")

    def launch(
        self,
        launch: RecordedLaunch,
        memory: DeviceMemory,
        textures: TextureTable,
        *,
        values: bool,
        max_instructions: int = MAX_INSTRUCTIONS,
        unroll: int | None = DEFAULT_UNROLL,
    ) -> EmulatedLaunch:
        """Return a checked launch on a memory of its own; raises `LaunchError` and `TraceError`."""
        if launch.kernel not in self.module.kernels:
            raise TraceError(unknown("kernel", launch.kernel, self.module.kernels))
        places = parameter_places(self.module, launch.kernel)
        if len(launch.parameters) < (places[-1][0] + places[-1][1] if places else 0):
            raise LaunchError(f"{launch.kernel}: {len(launch.parameters)} bytes of parameters are too few")
        return self._loaded.moved(memory, textures).launch(
            launch.kernel,
            launch.grid,
            launch.block,
            [launch.parameters[at : at + size] for at, size in places],
            shared=launch.shared,
            cluster=launch.cluster,
            max_instructions=max_instructions,
            values=values,
            unroll=unroll,
        )


def load_text(ptx: str, name: str) -> Module:
    """Parse a module; raises `TraceError`, also for one that needs other modules."""
    module = parse(ptx, name)
    if module.address_size != 64:
        raise TraceError(f"{name}: .address_size {module.address_size}: must be 64")
    return module


def parameter_places(module: Module, kernel: str) -> list[tuple[int, int]]:
    """Return the offset and the bytes of every parameter of a kernel."""
    parameters = module.functions[kernel].parameters
    offsets, _ = lay_out(parameters)
    return [(offset, variable_bytes(parameter)) for offset, parameter in zip(offsets, parameters, strict=True)]


class Executor:
    """Execute launches in order, each block in ascending order; the memory then holds their results.

    A launch that repeats the one before it is executed until it changes nothing: programs repeat launches to measure
    their time.
    """

    def __init__(self) -> None:
        self._last: tuple[RecordedModule, RecordedLaunch] | None = None
        self._settled = False
        self.executed = 0

    def forget(self) -> None:
        """Note that the memory has changed since the last launch."""
        self._last, self._settled = None, False

    def run(
        self,
        module: RecordedModule,
        launch: RecordedLaunch,
        memory: DeviceMemory,
        textures: TextureTable,
        most: int = MAX_INSTRUCTIONS,
    ) -> None:
        """Execute a launch of at most `most` warp instructions per block; raises `LaunchError` and `TraceError`."""
        repeated = self._last == (module, launch)
        if repeated and self._settled:
            return
        buffers = list(memory.buffers)
        before = [buffer.array.copy() for buffer in buffers] if repeated else []
        self.forget()
        launched = module.launch(launch, memory, textures, values=True, max_instructions=most)
        for block in range(launched.launch.blocks):
            launched.run(block, record=False)
        self.executed += 1
        self._last = module, launch
        self._settled = repeated and all(map(np.array_equal, before, (buffer.array for buffer in buffers)))
