"""Inputs: what a kernel runs on besides sizes. Matrices, graphs, texts: generated, or handed in."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdmodel.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Input:
    """Data that kernels run on: generated, unless whoever asks for the trace hands some in.

    `generate` is a function of sizes, which then describe the data and nothing else; `read` turns what was
    handed in into the same kind of thing, or raises `ConfigError`.
    """

    generate: Callable[..., Any]
    read: Callable[[Any], Any]

    @property
    def sizes(self) -> Sequence[str]:
        """The names of the sizes that describe generated data."""
        return list(inspect.signature(self.generate).parameters)


@dataclass(frozen=True, slots=True)
class ResolvedParameters:
    """What a kernel runs on: its `sizes`, its `data` by name, and what is `shown` of data that were handed in."""

    sizes: dict[str, int]
    data: dict[str, Any]
    shown: dict[str, str]

    @property
    def known(self) -> dict[str, Any]:
        """Sizes and data, for functions that name some of them."""
        return {**self.sizes, **self.data}


def resolve_parameters(
    kernel: str,
    inputs: Mapping[str, Input],
    resolve: Callable[[str, Mapping[str, Any]], dict[str, int]],
    params: Mapping[str, Any],
) -> ResolvedParameters:
    """Return what `params`, sizes and inputs by name, make of a kernel; `resolve` checks and completes sizes.

    Sizes that describe generated data have no meaning where data are handed in: they are left out, and raise
    `ConfigError` if they are given, as do data that cannot be read.
    """
    given = {name: params[name] for name in params if name in inputs}
    described = {size: name for name in given for size in inputs[name].sizes}
    for size in params:
        if size in described:
            raise ConfigError(f"{kernel}: {size}: describes generated data, but {described[size]} is given")
    sizes = resolve(kernel, {name: value for name, value in params.items() if name not in given})
    data, shown = {}, {}
    for name, declared in inputs.items():
        try:
            if name not in given:
                data[name] = declared.generate(**{size: sizes[size] for size in declared.sizes})
                continue
            what = given[name]
            data[name] = declared.read(what)
            shown[name] = os.path.basename(what) if isinstance(what, str | os.PathLike) else str(data[name])
        except ConfigError as error:
            raise ConfigError(f"{kernel}: {name}: {error}") from None
    return ResolvedParameters({name: value for name, value in sizes.items() if name not in described}, data, shown)
