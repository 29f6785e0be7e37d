"""Record the launches of Triton kernels by a Python program as traces; no GPU is needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal
from unittest.mock import patch

from rdmodel import presets
from rdmodel.common.checks import check_choice
from rdmodel.errors import ConfigError, RdmodelError, TraceError
from rdmodel.gpu.config import GPU
from rdmodel.integrations.host_memory import HandedOut
from rdmodel.integrations.ptx_launch import target_capability
from rdmodel.integrations.torch_on_cpu import torch_on_cpu
from rdmodel.integrations.triton_driver import Driver, loaded_kernel
from rdmodel.integrations.triton_tracing import (
    CompiledLaunch,
    compile_launch,
    evaluate_grid,
    execute_launch,
    trace_launch,
)
from rdmodel.timing.launch_time import time
from rdmodel.trace import Trace

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
    old values, and a later launch whose addresses or branches depend on these is traced with the old ones. A program
    may also launch a compiled kernel again, as ``kernel[grid](...)`` returns it. Its measurements
    (``triton.testing.do_bench`` and the benchmarks of autotuners) are the times that are predicted for `gpu`; measured
    launches are not recorded. Arguments may have addresses of tensors, as ``x.data_ptr()`` tells them. Where torch has
    no GPU, tensors stay on the CPU and say that they are on ``"cuda:0"``, questions about the device are answered
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
        import triton.testing
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction
    except ImportError as error:
        raise ConfigError(f"triton: cannot be imported ({error}): install it with 'rdmodel[triton]'") from None
    device, capability = presets.gpu(gpu), target_capability(architecture)
    outside = {"lenient": True} if lenient else {"advice": _OUTSIDE_ADVICE}
    handed_out = HandedOut()
    recorder = _Recorder(architecture, values, then, device, tune, {"handed_out": handed_out, **outside})
    with ExitStack() as stack:
        redirected = stack.enter_context(torch_on_cpu(device, capability, handed_out.add))
        stand_in = Driver(device, capability, "cuda:0" if redirected else "cpu", recorder.benchmark)
        for owner, name, replacement in (
            (JITFunction, "run", lambda *args, **meta: recorder.run(*args, **meta)),
            (Autotuner, "run", lambda *args, **meta: recorder.tune(*args, **meta)),
            (Autotuner, "_bench", lambda *args, **meta: recorder.benchmark_config(*args, **meta)),
            (triton.testing, "do_bench", recorder.benchmark),
            (triton.testing, "do_bench_cudagraph", recorder.benchmark),
            (triton.runtime.driver, "_active", stand_in),
        ):
            stack.enter_context(patch.object(owner, name, replacement))
        _active.append(recorder)
        stack.callback(_active.pop)
        yield recorder.recorded


class _Recorder:
    """Stands for Triton's launches; times are those of `gpu`."""

    def __init__(
        self,
        architecture: str,
        values: bool,
        then: Callable[[Trace], Any] | None,
        gpu: GPU,
        tune: Tune,
        memory: Mapping[str, Any],
    ) -> None:
        self.recorded: list[Any] = []
        self._architecture, self._values, self._then, self._gpu = architecture, values, then, gpu
        self._by_time = tune == "time"
        self._memory = memory
        self._trying: list[Trace] | None = None
        self._tried = 0
        self._best: dict[tuple[Any, ...], Any] = {}

    def run(self, function: Any, *args: Any, grid: Any, warmup: bool, **meta: Any) -> Any:
        """Compile and trace a launch of a function, in place of ``JITFunction.run``."""
        for hook in function.pre_run_hooks:
            hook(*args, **meta)
        launch = compile_launch(function, args, meta, self._architecture)
        # A program may keep the compiled kernel for long, and should not keep the arrays of this launch with it.
        constants = {each.name: launch.values[each.name] for each in launch.function.params if each.is_constexpr}
        options = {name: value for name, value in meta.items() if name not in launch.values}
        again = partial(_launch_again, launch.function, {**constants, **options})
        program = loaded_kernel(launch.program, again, target_capability(self._architecture))
        if not warmup:
            self._record(launch, grid)
        return program

    def run_again(self, function: Any, meta: Mapping[str, Any], grid: Any) -> None:
        """Trace a launch of a compiled kernel, which may have been compiled for another recording."""
        self._record(compile_launch(function, (), meta, self._architecture), grid)

    def _record(self, launch: CompiledLaunch, grid: Any) -> None:
        shape = evaluate_grid(launch, grid)
        made = trace_launch(launch, shape, **self._memory)
        if self._trying is not None:
            self._trying.append(made)
            return
        self.recorded.append(made if self._then is None else self._then(made))
        if self._values:
            self._execute(launch, shape)

    def benchmark(
        self,
        function: Callable[[], Any],
        *args: Any,
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
        **options: Any,
    ) -> Any:
        """Return the predicted milliseconds of the launches of a function, in place of ``triton.testing.do_bench``."""
        found = self._milliseconds(function)
        if quantiles is not None:
            return [found] * len(quantiles)
        return [found] if return_mode == "all" else found

    def benchmark_config(self, tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        """Return the milliseconds of a configuration thrice, in place of ``Autotuner._bench``.

        Without predicted times, these are greater from one configuration to the next, so that the first one is taken.
        """
        if not self._by_time:
            self._tried += 1
            return [float(self._tried)] * 3
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        try:
            return [self._milliseconds(partial(_launch, tuner, config, args, meta))] * 3
        except RdmodelError:  # too large for an SM, or a static assertion of the kernel fails
            return [float("inf")] * 3

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
        if not self._by_time:
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
                times.append((self._milliseconds(partial(_launch, tuner, config, args, meta)), config))
            except RdmodelError as error:  # too large for an SM, or a static assertion of the kernel fails
                failure = failure or error
        if not times:
            raise failure or ConfigError(f"{tuner.base_fn.__name__}: its pruning leaves no configuration")
        return min(times, key=lambda entry: entry[0])[1]

    def _milliseconds(self, function: Callable[[], Any]) -> float:
        """Return the predicted time of the launches of a function, which are not recorded."""
        outer, self._trying = self._trying, []
        try:
            function()
            return sum(time(made, self._gpu).milliseconds for made in self._trying)
        finally:
            self._trying = outer

    def _execute(self, launch: CompiledLaunch, grid: Any) -> None:
        try:
            execute_launch(launch, grid, **self._memory)
        except TraceError as error:
            warnings.warn(f"the arrays keep their values: {error}", stacklevel=5)


_active: list[_Recorder] = []
"""The recorders of the ``with`` blocks that the program is in; the last one records."""


def _launch_again(function: Any, known: Mapping[str, Any], grid: Any, args: Sequence[Any]) -> None:
    """Record a launch of a compiled kernel; its arguments may lack the constants of the compiler, which are `known`."""
    if not _active:
        raise ConfigError(f"{function.__name__}: was compiled within recorded_launches: launch it there")
    names = [parameter.name for parameter in function.params]
    passed = [parameter.name for parameter in function.params if not parameter.is_constexpr]
    given = names if len(args) == len(names) else passed
    if len(args) != len(given):
        raise ConfigError(f"{function.__name__}: {len(args)} arguments, but it has {len(names)} parameters")
    _active[-1].run_again(function, {**known, **dict(zip(given, args, strict=True))}, grid)


def _launch(tuner: Any, config: Any, args: tuple[Any, ...], meta: Mapping[str, Any]) -> Any:
    if config.pre_hook is not None:
        config.pre_hook({**tuner.nargs, **meta, **config.all_kwargs()})
    return tuner.fn.run(*args, **meta, **config.all_kwargs())
