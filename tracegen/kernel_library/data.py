"""Resolve the parameters of a kernel: sizes, and input data that are generated or passed in."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from math import inf, prod
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.memory import require_room
from rdmodel.errors import ConfigError, TooLargeError
from tracegen.parameter_names import parameter_names

MAX_GENERATED = 1 << 31
"""Bound of the product of sizes: kernels index their data with 32-bit integers."""


@dataclass(frozen=True, slots=True)
class Input:
    """Declaration of input data: a matrix, graph or text that is generated unless the caller passes one.

    `generate` is a function of sizes that describe generated data only. `read` converts data of the caller to the same
    type, or raises `ConfigError`. `need` is a function of the same sizes, some of them left out: the memory in bytes
    that generation and its use take at most.
    """

    generate: Callable[..., Any]
    read: Callable[[Any], Any]
    need: Callable[..., int]

    @property
    def sizes(self) -> Sequence[str]:
        """Names of the sizes that describe generated data."""
        return parameter_names(self.generate)


@dataclass(frozen=True, slots=True)
class ResolvedParameters:
    """Parameters of a kernel: `sizes`, input `data` by name, and short descriptions of passed data (`labels`)."""

    sizes: dict[str, int]
    data: dict[str, Any]
    labels: dict[str, str]

    @property
    def known(self) -> dict[str, Any]:
        """Sizes and data by name."""
        return {**self.sizes, **self.data}


def require_size(need: Callable[..., int], sizes: Mapping[str, int], most: float = inf) -> None:
    """Raise `TooLargeError` if data of these sizes exceed the memory that is left, or their product reaches `most`."""
    used = {name: sizes[name] for name in parameter_names(need)}
    subject = ", ".join(f"{name}={value}" for name, value in used.items())
    if prod(used.values()) >= most:
        raise TooLargeError(f"{subject}: the product must be below {most}; use smaller sizes")
    require_room(need(**used), subject, "use smaller sizes")


def resolve_parameters(
    kernel: str,
    inputs: Mapping[str, Input],
    resolve: Callable[[str, Mapping[str, Any]], dict[str, int]],
    params: Mapping[str, Any],
) -> ResolvedParameters:
    """Split `params` into sizes and input data, and complete both; `resolve` checks sizes and adds defaults.

    Sizes that describe generated data are left out if the data are passed. Raises `ConfigError` if such a size is
    given nevertheless, or if data cannot be read.
    """
    given = {name: params[name] for name in params if name in inputs}
    described = {size: name for name in given for size in inputs[name].sizes}
    for size in params:
        if size in described:
            raise ConfigError(
                f"{kernel}: {size}: cannot be combined with {described[size]}: it describes generated data"
            )
    sizes = resolve(kernel, {name: value for name, value in params.items() if name not in given})
    data, labels = {}, {}
    for name, declared in inputs.items():
        try:
            if name not in given:
                require_size(declared.need, sizes, MAX_GENERATED)
                data[name] = declared.generate(**{size: sizes[size] for size in declared.sizes})
                continue
            value = given[name]
            data[name] = declared.read(value)
            labels[name] = os.path.basename(value) if isinstance(value, str | os.PathLike) else str(data[name])
        except ConfigError as error:
            raise type(error)(f"{kernel}: {name}: {error}") from None
    return ResolvedParameters({name: value for name, value in sizes.items() if name not in described}, data, labels)
