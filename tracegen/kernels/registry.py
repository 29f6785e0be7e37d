"""Kernels by name: how one is declared, looked up and turned into a trace."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rdmodel.errors import ConfigError, unknown
from rdmodel.trace import Launch
from tracegen.arrays import BASE, allocate
from tracegen.simt import MAX_BLOCK, Kernel, KernelTrace, shape

REGISTRY: dict[str, KernelSpec] = {}
"""Every kernel that was declared, by name."""


@dataclass(frozen=True, slots=True)
class Position:
    """A parameter that says which of many launches this is: at least 0 and `below` a number or a size."""

    default: int
    below: str | int


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """What there is to know about a kernel: its name, what it does in a line, default sizes and block."""

    name: str
    description: str
    sizes: Mapping[str, int]
    block: tuple[int, int, int]
    benchmark: Benchmark = field(repr=False, compare=False)
    function: Kernel = field(repr=False, compare=False)
    grid: Callable[..., tuple[int, int, int]] = field(repr=False, compare=False)

    def trace(
        self, *, block: Sequence[int] | None, blocks: Sequence[int] | None, base: int | None, **params: Any
    ) -> KernelTrace:
        """Return the kernel's trace; see `tracegen.kernel`."""
        sizes = self.benchmark.resolve(self.name, params)
        threads = shape("block", self.block if block is None else block, limit=MAX_BLOCK)
        launch = Launch(kernel=self.name, grid=self.grid(threads, sizes), block=threads)
        declared = _call(self.benchmark.arrays, sizes)
        arrays = allocate(declared, base=BASE if base is None else base, threads=launch.threads)
        return KernelTrace(self.function, launch, arrays, sizes, blocks=blocks)


class Benchmark:
    """Kernels that share sizes and arrays.

    `sizes` maps the names of the source's macros to their defaults; `arrays` is a function of some of them
    that returns the arrays in the order in which they lie in memory.
    """

    def __init__(
        self, name: str, sizes: Mapping[str, int | Position], arrays: Callable[..., Mapping[str, Any]]
    ) -> None:
        self.name = name
        self.sizes = dict(sizes)
        self.arrays = arrays

    def kernel(
        self,
        which: str = "",
        *,
        threads: Callable[..., tuple[int, ...]],
        grid: Callable[..., tuple[int, int, int]] | None = None,
    ) -> Callable[[Kernel], Kernel]:
        """Declare the decorated function as kernel `which` of the benchmark.

        `threads` gives the (x, y) range of threads for the sizes that it names. The block is 256x1 for one
        dimension and 32x8 for two, the grid as many blocks as cover the threads, or ``grid(block, ...)``. The
        first line of the function's docstring describes the kernel.
        """
        defaults = {n: d.default if isinstance(d, Position) else d for n, d in self.sizes.items()}

        def covering(block: tuple[int, int, int], sizes: Mapping[str, int]) -> tuple[int, int, int]:
            if grid is not None:
                return _call(grid, {**sizes, "block": block})  # type: ignore[no-any-return]
            x, y, z = (*_call(threads, sizes), 1, 1)[:3]
            return -(-x // block[0]), -(-y // block[1]), -(-z // block[2])

        def declare(function: Kernel) -> Kernel:
            name = f"{self.name}.{which}" if which else self.name
            REGISTRY[name] = KernelSpec(
                name=name,
                description=(inspect.getdoc(function) or "").partition("\n")[0],
                sizes=defaults,
                block=(256, 1, 1) if len(_call(threads, defaults)) == 1 else (32, 8, 1),
                benchmark=self,
                function=function,
                grid=covering,
            )
            return function

        return declare

    def resolve(self, kernel: str, params: Mapping[str, Any]) -> dict[str, int]:
        """Return all sizes, defaults filled in; raises `ConfigError` for an unknown or impossible one."""
        for name in params:
            if name not in self.sizes:
                raise ConfigError(unknown(f"size of {kernel}", name, self.sizes))
        sizes = {}
        for name, declared in self.sizes.items():
            default = declared.default if isinstance(declared, Position) else declared
            sizes[name] = _whole(kernel, name, params.get(name, default))
        for name, declared in self.sizes.items():
            least, below = 1, None
            if isinstance(declared, Position):
                least, below = 0, sizes[declared.below] if isinstance(declared.below, str) else declared.below
            if sizes[name] < least or (below is not None and sizes[name] >= below):
                allowed = f"at least {least}" if below is None else f"{least} to {below - 1}"
                raise ConfigError(f"{kernel}: {name}={sizes[name]}: must be {allowed}")
        return sizes


def kernel(
    name: str,
    *,
    block: Sequence[int] | None = None,
    blocks: Sequence[int] | None = None,
    base: int | None = None,
    **params: int,
) -> KernelTrace:
    """Return the trace of the kernel called `name`, for sizes by the names of its CUDA source.

    `block` overrides the shape of a block (x, y, z), `blocks` are the ids of the blocks that the trace holds
    (None: all), `base` is the address of the first array (default 2^28; a multiple of 256). Raises
    `ConfigError` for an unknown name or a size that cannot be, `LaunchError` for a block of more than 1024
    threads.

    >>> kernel("atax.1", NX=512, NY=512)
    KernelTrace('atax.1', grid=(2, 1, 1), block=(256, 1, 1), NX=512, NY=512)
    """
    if name not in REGISTRY:
        raise ConfigError(unknown("kernel", name, REGISTRY))
    return REGISTRY[name].trace(block=block, blocks=blocks, base=base, **params)


def kernels() -> list[KernelSpec]:
    """Return what there is to know about every kernel, by benchmark."""
    return sorted(REGISTRY.values(), key=lambda spec: spec.benchmark.name)


def _whole(kernel: str, name: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ConfigError(f"{kernel}: {name}={value!r}: must be a whole number") from None


def _accepted(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `values` that `function` has parameters for."""
    return {name: values[name] for name in inspect.signature(function).parameters if name in values}


def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    return function(**_accepted(function, values))
