"""Trace kernels of Triton, and make performance models for its autotuner.

The models are for ``prune_configs_by={"perf_model": perf_model(...), "top_k": 5}``.

Triton calls the model once for every configuration, with all arguments of the kernel and all values of the
configuration as keywords, and runs the `top_k` configurations with the lowest values.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
from collections.abc import Callable, Mapping
from typing import Any

from rdmodel import presets
from rdmodel.errors import ConfigError, LaunchError, RdmodelError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.integrations import candidates
from rdmodel.integrations.triton_recording import recorded_launches
from rdmodel.integrations.triton_tracing import Grid, PreHook, is_triton_kernel, trace, trace_keywords
from rdmodel.trace import Trace

__all__ = ["Arguments", "perf_model", "recorded_launches", "trace"]

Arguments = Mapping[str, Any]
"""The keywords of one call of a performance model."""


def perf_model(
    kernel: Any,
    gpu: str | GPU | None = None,
    *,
    names: Mapping[str, str] | None = None,
    grid: Grid | None = None,
    architecture: str = "sm_80",
    pre_hook: PreHook | None = None,
    objective: str | Callable[..., float] = "time",
    **options: Any,
) -> Callable[..., float]:
    """Return a performance model: a function of the keywords that Triton passes, whose least value is the best.

    The value is in milliseconds for the objectives ``"time"`` and ``"cycles"``, otherwise in the unit of the
    objective. It is infinite if the launch cannot run on the GPU (`LaunchError`). The model, and so Triton's tuning,
    raises all other errors: a keyword that `kernel` needs and Triton does not pass, a trace that cannot be made, an
    unknown option. They would occur for all configurations, and an arbitrary choice among these would look like a
    result.

    Parameters
    ----------
    kernel
        A function that returns a `Trace`, or an object with a method `trace` that does. It is called with the keywords
        that it has parameters for (with all, if it takes ``**keywords``). Or an affine kernel, in any form that
        `tracegen.affine_kernel` accepts; its parameters are set from the keywords of the same names. Parameters
        without a keyword keep their values. Or the ``@triton.jit`` function itself: each configuration is compiled and
        executed as by `trace`.
    gpu
        A GPU, its name, or the path of its ``.toml`` file. None means that of `rdmodel.rank_tiles`.
    names
        Names of keywords by names of an affine kernel's parameters, where they differ.
    grid, architecture
        For a ``@triton.jit`` function: as for `trace`.
    pre_hook
        For a ``@triton.jit`` function: the ``pre_hook`` of its configurations, such as one that sets the shapes of the
        blocks of tensor descriptors. Triton does not call it before it asks the model; here it gets copies.
    objective
        The objective, as for `rdmodel.rank_tiles`.
    options
        Other options of `rdmodel.rank_tiles`.

    Raises
    ------
    ConfigError
        If an argument is invalid.
    """
    target = presets.gpu_or_default(gpu, [options.get("definition")])
    jitted = is_triton_kernel(kernel)
    if jitted != (grid is not None):
        raise ConfigError(f"grid: must be {'given' if jitted else 'left out except'} for a function with @triton.jit")
    if jitted:
        make = _from_triton(kernel, grid, architecture, pre_hook)
    else:
        make = _from_function(kernel) if callable(kernel) else _from_affine(kernel, names or {})
    if not jitted and pre_hook is not None:
        raise ConfigError("pre_hook: must be left out except for a function with @triton.jit")
    if (jitted or callable(kernel)) and names is not None:
        raise ConfigError("names: cannot be combined with a function, which takes its arguments by their own names")

    def predicted(**arguments: Any) -> float:
        try:
            trace = make(arguments)
            compute_occupancy(trace.launch, target)
        except LaunchError:
            return math.inf
        tile = trace.launch.kernel
        ranking = candidates.rank(lambda _: trace, [tile], gpu=target, objective=objective, n_jobs=1, **options)
        if not ranking.tiles:
            raise RdmodelError(f"perf_model: {ranking.infeasible[0].reason}")
        value = float(ranking.tiles[0].value)
        return value / (1000 * target.clock) if objective == "cycles" else value

    return predicted


def _from_triton(kernel: Any, grid: Any, architecture: str, pre_hook: PreHook | None) -> Callable[[Arguments], Trace]:
    return lambda arguments: trace_keywords(kernel, grid, arguments, architecture, pre_hook)


def _from_function(function: Callable[..., Any]) -> Callable[[Arguments], Trace]:
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.POSITIONAL_ONLY for parameter in parameters):
        raise ConfigError(f"perf_model: {_name(function)} must take its arguments by name")
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    known = {
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    needed = [
        parameter.name for parameter in parameters if parameter.name in known and parameter.default is parameter.empty
    ]

    def make(arguments: Arguments) -> Trace:
        for name in needed:
            _require(name, arguments, f"{_name(function)} takes {name!r}")
        made = function(**{name: value for name, value in arguments.items() if takes_all or name in known})
        trace = made if isinstance(made, Trace) else getattr(made, "trace", lambda: made)()
        if not isinstance(trace, Trace):
            raise ConfigError(f"perf_model: {_name(function)} returned {made!r:.60}: must be a trace")
        return trace

    return make


def _from_affine(
    kernel: str | os.PathLike[str] | Mapping[str, Any], names: Mapping[str, str]
) -> Callable[[Arguments], Trace]:
    import tracegen

    loaded = tracegen.load_affine(kernel) if isinstance(kernel, str | os.PathLike | Mapping) else kernel
    if not isinstance(loaded, tracegen.AffineKernel):
        raise ConfigError(f"perf_model: kernel={kernel!r:.60}: must be a function, or an affine kernel")
    for name in names:
        if name not in loaded.parameters:
            raise ConfigError(f"names: {name}: {loaded.name} has the parameters {', '.join(loaded.parameters)}")

    def make(arguments: Arguments) -> Trace:
        for name, keyword in names.items():
            _require(keyword, arguments, f"names: {name} is to be {keyword!r}")
        keywords = {name: names.get(name, name) for name in loaded.parameters if names.get(name, name) in arguments}
        if not keywords:
            raise ConfigError(
                f"perf_model: none of the parameters of {loaded.name} ({', '.join(loaded.parameters)}) is among the "
                f"keywords ({', '.join(arguments)}); map them with names={{...}}"
            )
        params: dict[str, Any] = {name: _whole(keyword, arguments[keyword]) for name, keyword in keywords.items()}
        return tracegen.affine_kernel(loaded, **params)

    return make


def _require(name: str, arguments: Arguments, context: str) -> None:
    if name not in arguments:
        raise ConfigError(f"perf_model: {context}, which is not among the keywords: {', '.join(arguments)}")


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ConfigError(f"perf_model: {name}={value!r:.60}: must be a whole number") from None


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
