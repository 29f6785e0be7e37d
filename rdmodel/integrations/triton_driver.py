"""Stand for the driver of Triton, and for kernels that it has loaded, where no GPU is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.trace import WARP

Benchmark = Callable[..., Any]
"""A function that returns the milliseconds of a function without arguments, as ``triton.testing.do_bench`` does."""


class Driver:
    """The answers to programs that ask Triton for its device; tensors say that they are on `torch_device`.

    `benchmark` stands for measurements.
    """

    def __init__(self, gpu: GPU, capability: tuple[int, int], torch_device: str, benchmark: Benchmark) -> None:
        self._gpu = gpu
        self._capability = capability
        self._torch_device = torch_device
        self._benchmark = benchmark
        self.utils = self

    def get_current_target(self) -> Any:
        """Return the target of the compiler."""
        from triton.backends.compiler import GPUTarget

        major, minor = self._capability
        return GPUTarget("cuda", 10 * major + minor, WARP)

    def get_current_device(self) -> int:
        """Return the number of the device."""
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        """Return the number of the stream."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """Return the compute capability."""
        return self._capability

    def get_active_torch_device(self) -> Any:
        """Return the device that tensors say they are on."""
        import torch

        return torch.device(self._torch_device)

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Return what programs choose their grids by."""
        return {
            "multiprocessor_count": self._gpu.sms,
            "max_shared_mem": self._gpu.shared_memory - self._gpu.shared_memory_reserved,
            "max_num_regs": self._gpu.registers,
            "warpSize": WARP,
        }

    def get_benchmarker(self) -> Benchmark:
        """Return a function that predicts times in place of measuring them."""
        return self._benchmark

    def __getattr__(self, name: str) -> Any:
        """Raise `ConfigError` for every other question."""
        raise ConfigError(f"recorded_launches: the program asks the driver of Triton for {name!r}, which needs a GPU")


def loaded_kernel(program: Any, launch: Callable[..., None], capability: tuple[int, int]) -> Any:
    """Return a compiled kernel of Triton as a loaded one, as which programs launch it again and ask for its registers.

    `launch` gets the grid and the arguments.
    """
    if not hasattr(program, "rdmodel_launch"):
        program.__class__ = _loaded_class(type(program))  # type: ignore[arg-type]  # a class can be hashed
    program.function, program.rdmodel_launch, program.rdmodel_capability = program.hash, launch, capability
    return program


@cache
def _loaded_class(base: type) -> type:
    """Return a class of loaded kernels, which are on no device, so that there is nothing to load or unload."""

    class Loaded(base):  # type: ignore[misc]  # a class of Triton
        n_max_threads = 1024

        def __del__(self) -> None:
            pass

        def _init_handles(self) -> None:
            pass

        def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> None:
            pass

        def __getitem__(self, grid: Any) -> Callable[..., None]:
            return lambda *args, stream=None: self.rdmodel_launch(grid, args)

        @property
        def run(self) -> Callable[..., None]:
            return self._run_as_triton_does

        def _run_as_triton_does(
            self, x: int, y: int, z: int, stream: Any, function: Any, packed: Any, metadata: Any, *more: Any
        ) -> None:
            _enter, _leave, *args = more
            self.rdmodel_launch((x, y, z), args)

        @cached_property
        def _assembled(self) -> tuple[int, int]:
            from tracegen.ptx import parse
            from tracegen.ptx.registers.counting import count_registers

            use = count_registers(parse(self.asm["ptx"], self.name), self.name, self.rdmodel_capability)
            return use.registers, use.spill_stores + use.spill_loads

        @property
        def n_regs(self) -> int:
            return self._assembled[0]

        @property
        def n_spills(self) -> int:
            return self._assembled[1]

    return Loaded
