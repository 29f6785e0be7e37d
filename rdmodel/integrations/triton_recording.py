"""Record the launches of Triton kernels by a Python program as traces; no GPU is needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal
from unittest.mock import patch

from rdmodel import presets
from rdmodel.common.checks import check_choice
from rdmodel.errors import ConfigError, RdmodelError, TraceError
from rdmodel.gpu.config import GPU
from rdmodel.integrations.ptx_launch import target_capability
from rdmodel.integrations.torch_on_cpu import torch_on_cpu
from rdmodel.integrations.triton_tracing import OPTIONS, CompiledLaunch, compile_launch, execute_launch, trace_launch
from rdmodel.timing.launch_time import time
from rdmodel.trace import WARP, Trace

Tune = Literal["first", "time"]
"""Choices of the configuration of an autotuned function (`recorded_launches`)."""

_OUTSIDE_ADVICE = "; a GPU may not notice such an access: with lenient=True, memory near arrays holds zeros"
"""End of the errors about accesses outside all arrays."""


@contextmanager
def recorded_launches(
    gpu: str | GPU = presets.DEFAULT_GPU,
    *,
    architecture: str = "sm_80",
    values: bool = False,
    tune: Tune = "first",
    lenient: bool = False,
    then: Callable[[Trace], Any] | None = None,
) -> Iterator[list[Any]]:
    """Record the launches of ``@triton.jit`` functions within a ``with`` block, in their order.

    The program works as it is, with NumPy arrays and tensors of torch: each launch ``kernel[grid](...)`` becomes a
    trace at once, with the memory as it is. Without `values` it does not run: arrays that a kernel writes keep their
    old values, and a later launch whose addresses or branches depend on these is traced with the old ones. Where torch
    has no GPU, tensors stay on the CPU and say that they are on ``"cuda:0"``, questions about the device are answered
    for `gpu`, mixed precision works as on a GPU, and ``torch.compile`` compiles nothing.

    Parameters
    ----------
    gpu
        The GPU that programs are told about which ask Triton or torch for the device.
    architecture
        Target of the compiler, such as ``sm_90``.
    values
        Execute each kernel in the emulator after its trace is made, so that the program finds its results. Those of
        tensor cores are not computed: a kernel that writes them leaves its arrays as they are, with a warning.
    tune
        The configuration that an autotuned function takes: the ``"first"`` one that its pruning leaves, or, with
        ``"time"``, the one that is predicted to be the fastest on `gpu` (`rdmodel.time`). Each is compiled and traced
        once for all launches with the same values of its keys.
    lenient
        Let kernels access the 2 MB before and behind each array, which hold zeros. A GPU does not notice most accesses
        outside an array, such as those of a kernel that takes a gradient from ``y.sum()``, one number that all elements
        share, for a whole array.
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
    check_choice("tune", tune, Tune)
    try:
        import triton
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction
    except ImportError as error:
        raise ConfigError(f"triton: cannot be imported ({error}): install it with 'rdmodel[triton]'") from None
    device, capability = presets.gpu(gpu), target_capability(architecture)
    outside = {"lenient": True} if lenient else {"advice": _OUTSIDE_ADVICE}
    recorder = _Recorder(architecture, values, then, device if tune == "time" else None, outside)
    with ExitStack() as stack:
        redirected = stack.enter_context(torch_on_cpu(device, capability))
        stand_in = _Driver(device, capability, "cuda:0" if redirected else "cpu")
        stack.enter_context(patch.object(JITFunction, "run", lambda *args, **meta: recorder.run(*args, **meta)))
        stack.enter_context(patch.object(Autotuner, "run", lambda *args, **meta: recorder.tune(*args, **meta)))
        stack.enter_context(patch.object(triton.runtime.driver, "_active", stand_in))
        yield recorder.recorded


class _Recorder:
    """Stands for Triton's launches; `timed_for` is the GPU whose times choose among configurations, if any."""

    def __init__(
        self,
        architecture: str,
        values: bool,
        then: Callable[[Trace], Any] | None,
        timed_for: GPU | None,
        outside: Mapping[str, Any],
    ) -> None:
        self.recorded: list[Any] = []
        self._architecture, self._values, self._then, self._timed_for = architecture, values, then, timed_for
        self._outside = outside
        self._trying: list[Trace] | None = None
        self._best: dict[tuple[Any, ...], Any] = {}

    def run(self, function: Any, *args: Any, grid: Any, warmup: bool, **meta: Any) -> Any:
        """Compile and trace a launch of a function, in place of ``JITFunction.run``."""
        for hook in function.pre_run_hooks:
            hook(*args, **meta)
        names = {parameter.name for parameter in function.params}
        known = {name: value for name, value in meta.items() if name in names or name in OPTIONS}
        launch = compile_launch(function, args, known, self._architecture)
        if warmup:
            return launch.program
        made = trace_launch(launch, grid, **self._outside)
        if self._trying is not None:
            self._trying.append(made)
            return launch.program
        self.recorded.append(made if self._then is None else self._then(made))
        if self._values:
            self._execute(launch, grid)
        return launch.program

    def tune(self, tuner: Any, *args: Any, **meta: Any) -> Any:
        """Launch an autotuned function with one of its configurations, in place of ``Autotuner.run``."""
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        try:
            tuner.best_config = self._choose(tuner, args, meta)
            return _launch(tuner, tuner.best_config, args, meta)
        finally:
            tuner.nargs = None

    def _choose(self, tuner: Any, args: tuple[Any, ...], meta: Mapping[str, Any]) -> Any:
        if len(tuner.configs) == 1:
            return tuner.configs[0]
        if self._timed_for is None:
            return next(iter(tuner.prune_configs(meta)))
        given = {**tuner.nargs, **meta}
        values = (given.get(name) for name in tuner.keys)
        # Triton tunes a function again for other values of its keys, and for other types of its arguments.
        key = tuner, *values, *(str(value.dtype) for value in given.values() if hasattr(value, "dtype"))
        if key not in self._best:
            self._best[key] = self._fastest(tuner, args, meta)
        return self._best[key]

    def _fastest(self, tuner: Any, args: tuple[Any, ...], meta: Mapping[str, Any]) -> Any:
        """Return the configuration that is predicted to take the least time; raise an error if none can run."""
        times: list[tuple[float, Any]] = []
        failure: RdmodelError | None = None
        for config in tuner.prune_configs(meta):
            try:
                times.append((self._milliseconds(tuner, config, args, meta), config))
            except RdmodelError as error:  # too large for an SM, or a static assertion of the kernel fails
                failure = failure or error
        if not times:
            raise failure or ConfigError(f"{tuner.base_fn.__name__}: its pruning leaves no configuration")
        return min(times, key=lambda entry: entry[0])[1]

    def _milliseconds(self, tuner: Any, config: Any, args: tuple[Any, ...], meta: Mapping[str, Any]) -> float:
        assert self._timed_for is not None
        self._trying = []
        try:
            _launch(tuner, config, args, meta)
            return sum(time(made, self._timed_for).milliseconds for made in self._trying)
        finally:
            self._trying = None

    def _execute(self, launch: CompiledLaunch, grid: Any) -> None:
        try:
            execute_launch(launch, grid, **self._outside)
        except TraceError as error:
            warnings.warn(f"the arrays keep their values: {error}", stacklevel=4)


def _launch(tuner: Any, config: Any, args: tuple[Any, ...], meta: Mapping[str, Any]) -> Any:
    if config.pre_hook is not None:
        config.pre_hook({**tuner.nargs, **meta, **config.all_kwargs()})
    return tuner.fn.run(*args, **meta, **config.all_kwargs())


class _Driver:
    """The answers to programs that ask Triton for its device; tensors say that they are on `torch_device`."""

    def __init__(self, gpu: GPU, capability: tuple[int, int], torch_device: str) -> None:
        self._gpu = gpu
        self._capability = capability
        self._torch_device = torch_device
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

        return torch.device(self._torch_device)

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        return {
            "multiprocessor_count": self._gpu.sms,
            "max_shared_mem": self._gpu.shared_memory - self._gpu.shared_memory_reserved,
            "max_num_regs": self._gpu.registers,
            "warpSize": WARP,
        }

    def __getattr__(self, name: str) -> Any:
        raise ConfigError(f"recorded_launches: the program asks the driver of Triton for {name!r}, which needs a GPU")
