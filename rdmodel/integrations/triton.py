"""A performance model for Triton's autotuner: ``prune_configs_by={"perf_model": perf_model(...), "top_k": 5}``.

Triton calls it once for every configuration, with all arguments of the kernel and all values of the configuration as
keywords, and runs the `top_k` configurations of the lowest values.
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
from rdmodel.gpu.occupancy import residency
from rdmodel.integrations import candidates
from rdmodel.trace import Trace

Arguments = Mapping[str, Any]


def perf_model(
    kernel: Any,
    gpu: str | GPU = "gtx470-16k",
    *,
    names: Mapping[str, str] | None = None,
    objective: str | Callable[..., float] = "time",
    **options: Any,
) -> Callable[..., float]:
    """Return a function of the keywords that Triton gives to a ``perf_model``: less is better.

    `kernel` is a function that returns a `Trace` (or what has a method `trace`), and is called with those of the
    keywords that it has parameters for (with all of them if it takes ``**keywords``); or an affine kernel, in any form
    that `tracegen.affine_kernel` takes, whose parameters are taken from the keywords of their names, or of those that
    `names` has for them. Parameters that are not among the keywords keep their values. `objective` and `options` are
    those of `rdmodel.rank_tiles`.

    The value is in milliseconds for the objective ``"time"``, otherwise the objective's own. It is infinite where the
    launch cannot run on the GPU (`LaunchError`). Every other mistake raises, from the function and so from Triton's
    tuning: a keyword that `kernel` needs and Triton does not give, a trace that cannot be made, an unknown option. It
    would be the same for all configurations, and choosing among them by chance would look like an answer.
    """
    machine = presets.gpu(gpu)
    make = _from_function(kernel) if callable(kernel) else _from_affine(kernel, names or {})
    if callable(kernel) and names is not None:
        raise ConfigError("names: only an affine kernel has parameters that need names")

    def predicted(**arguments: Any) -> float:
        try:
            trace = make(arguments)
            residency(trace.launch, machine)
        except LaunchError:
            return math.inf
        tile = trace.launch.kernel
        ranking = candidates.rank(lambda _: trace, [tile], gpu=machine, objective=objective, n_jobs=1, **options)
        if not ranking.tiles:
            raise RdmodelError(f"perf_model: {ranking.infeasible[0].reason}")
        value = float(ranking.tiles[0].value)
        return value / (1000 * machine.clock) if objective == "time" else value

    return predicted


def _from_function(function: Callable[..., Any]) -> Callable[[Arguments], Trace]:
    takes = inspect.signature(function).parameters.values()
    if any(one.kind is one.POSITIONAL_ONLY for one in takes):
        raise ConfigError(f"perf_model: {_name(function)} must take its arguments by name")
    takes_all = any(one.kind is one.VAR_KEYWORD for one in takes)
    known = {one.name for one in takes if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    needed = [one.name for one in takes if one.name in known and one.default is one.empty]

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
        for name, theirs in names.items():
            _require(theirs, arguments, f"names: {name} is to be {theirs!r}")
        found = {name: names.get(name, name) for name in loaded.parameters if names.get(name, name) in arguments}
        if not found:
            raise ConfigError(
                f"perf_model: none of the parameters of {loaded.name} ({', '.join(loaded.parameters)}) is among the "
                f"keywords ({', '.join(arguments)}): names={{...}} says which are which"
            )
        params: dict[str, Any] = {name: _whole(theirs, arguments[theirs]) for name, theirs in found.items()}
        return tracegen.affine_kernel(loaded, **params)

    return make


def _require(name: str, arguments: Arguments, why: str) -> None:
    if name not in arguments:
        raise ConfigError(f"perf_model: {why}, which is not among the keywords: {', '.join(arguments)}")


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ConfigError(f"perf_model: {name}={value!r:.60}: must be a whole number") from None


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
