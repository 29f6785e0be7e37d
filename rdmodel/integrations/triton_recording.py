"""Record the launches of Triton kernels by a Python program as traces; no GPU is needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from rdmodel import presets
from rdmodel.errors import ConfigError, TraceError
from rdmodel.gpu.config import GPU
from rdmodel.integrations.ptx_launch import target_capability
from rdmodel.integrations.torch_on_cpu import torch_on_cpu
from rdmodel.integrations.triton_tracing import OPTIONS, CompiledLaunch, compile_launch, execute_launch, trace_launch
from rdmodel.trace import WARP, Trace


@contextmanager
def recorded_launches(
    gpu: str | GPU = presets.DEFAULT_GPU,
    *,
    architecture: str = "sm_80",
    values: bool = False,
    then: Callable[[Trace], Any] | None = None,
) -> Iterator[list[Any]]:
    """Record the launches of ``@triton.jit`` functions within a ``with`` block, in their order.

    The program works as it is, with NumPy arrays and tensors of torch: each launch ``kernel[grid](...)`` becomes a
    trace at once, with the memory as it is. Without `values` it does not run: arrays that a kernel writes keep their
    old values, and a later launch whose addresses or branches depend on these is traced with the old ones. An autotuned
    function takes the first configuration that its pruning leaves. Where torch has no GPU, tensors that the program
    puts on one stay on the CPU, and questions about the device are answered for `gpu`.

    Parameters
    ----------
    gpu
        The GPU that programs are told about which ask Triton or torch for the device.
    architecture
        Target of the compiler, such as ``sm_90``.
    values
        Execute each kernel in the emulator after its trace is made, so that the program finds its results. Those of
        tensor cores are not computed: a kernel that writes them leaves its arrays as they are, with a warning.
    then
        A function of a trace, whose result is recorded instead; a program with many launches and large tensors should
        not keep all traces, because each has a copy of its memory.

    Yields
    ------
    list
        The traces, or the results of `then`, so far.

    Raises
    ------
    ConfigError, LaunchError, TraceError
        From a launch within the block, as `rdmodel.integrations.triton.trace` does.
    """
    try:
        import triton
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction
    except ImportError as error:
        raise ConfigError(f"triton: cannot be imported ({error}): install it with 'rdmodel[triton]'") from None
    recorded: list[Any] = []

    def run(function: Any, *args: Any, grid: Any, warmup: bool, **meta: Any) -> Any:
        for hook in function.pre_run_hooks:
            hook(*args, **meta)
        names = {parameter.name for parameter in function.params}
        known = {name: value for name, value in meta.items() if name in names or name in OPTIONS}
        launch = compile_launch(function, args, known, architecture)
        if not warmup:
            made = trace_launch(launch, grid)
            recorded.append(made if then is None else then(made))
            if values:
                _execute(launch, grid)
        return launch.program

    def tune(tuner: Any, *args: Any, **meta: Any) -> Any:
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        chosen = tuner.configs[0] if len(tuner.configs) == 1 else next(iter(tuner.prune_configs(meta)))
        tuner.best_config = chosen
        if chosen.pre_hook is not None:
            chosen.pre_hook({**tuner.nargs, **meta, **chosen.all_kwargs()})
        try:
            return tuner.fn.run(*args, **meta, **chosen.all_kwargs())
        finally:
            tuner.nargs = None

    device, capability = presets.gpu(gpu), target_capability(architecture)
    stand_in = _Driver(device, capability)
    with ExitStack() as stack:
        stack.enter_context(torch_on_cpu(device, capability))
        stack.enter_context(patch.object(JITFunction, "run", run))
        stack.enter_context(patch.object(Autotuner, "run", tune))
        stack.enter_context(patch.object(triton.runtime.driver, "_active", stand_in))
        yield recorded


def _execute(launch: CompiledLaunch, grid: Any) -> None:
    try:
        execute_launch(launch, grid)
    except TraceError as error:
        warnings.warn(f"the arrays keep their values: {error}", stacklevel=4)


class _Driver:
    """The answers to programs that ask Triton for its device."""

    def __init__(self, gpu: GPU, capability: tuple[int, int]) -> None:
        self._gpu = gpu
        self._capability = capability
        self.utils = self

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        major, minor = self._capability
        return GPUTarget("cuda", 10 * major + minor, WARP)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return self._capability

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        return {
            "multiprocessor_count": self._gpu.sms,
            "max_shared_mem": self._gpu.shared_memory - self._gpu.shared_memory_reserved,
            "max_num_regs": self._gpu.registers,
            "warpSize": WARP,
        }

    def __getattr__(self, name: str) -> Any:
        raise ConfigError(f"recorded_launches: the program asks the driver of Triton for {name!r}, which needs a GPU")
