"""Kernels by name: how one is declared, looked up and turned into a trace."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from rdmodel.errors import ConfigError, LaunchError, unknown
from rdmodel.trace import Launch
from tracegen.arrays import BASE, allocate
from tracegen.generated import GeneratedTrace
from tracegen.kernel_library.data import Input, resolve_parameters
from tracegen.kernel_library.suites import TILED
from tracegen.kernel_library.tiled import TiledSpec, tiled_spec
from tracegen.simt.kernel_trace import MAX_BLOCK_THREADS, KernelFunction, KernelTrace, shape

REGISTRY: dict[str, KernelSpec] = {}
"""Every kernel that was declared, by name; those of `TILED` are none of them."""


Shape = tuple[int, ...]
"""Threads of a block in x, y and z; what is left out is 1."""

Extent = int | str | Callable[..., int]
"""A number, the name of a size, or a function of sizes."""


@dataclass(frozen=True, slots=True)
class Position:
    """A parameter with an end, mostly which of many launches this is: from `least` on, and `below` an extent."""

    default: int
    below: Extent
    least: int = 0

    def complaint(self, value: int, sizes: Mapping[str, int]) -> str:
        """Return what is wrong with a value, or nothing."""
        below = _extent(self.below, sizes)
        if self.least <= value < below:
            return ""
        return f"must be {self.least} to {below - 1}" if below > self.least else "these sizes leave no value for it"


@dataclass(frozen=True, slots=True)
class Multiple:
    """A size that tiles divide: a whole multiple `of` an extent."""

    default: int
    of: Extent

    def complaint(self, value: int, sizes: Mapping[str, int]) -> str:
        """Return what is wrong with a value, or nothing."""
        of = _extent(self.of, sizes)
        return f"must be a multiple of {of}" if value % of else ""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """What there is to know about a kernel: its name, what it does in a line, default sizes and block."""

    name: str
    description: str
    sizes: Mapping[str, int]
    block: tuple[int, int, int]
    benchmark: Benchmark = field(repr=False, compare=False)
    function: KernelFunction = field(repr=False, compare=False)
    grid: Callable[..., tuple[int, int, int]] = field(repr=False, compare=False)
    shape: Shape | Callable[..., Shape] = field(repr=False, compare=False)
    fixed: bool = field(repr=False, compare=False)
    shared_memory: Extent = field(repr=False, compare=False)
    answer: Callable[..., Mapping[str, NDArray[Any]]] | None = field(default=None, repr=False, compare=False)

    @property
    def inputs(self) -> Sequence[str]:
        """The names of the data that can be handed in; unless they are, they are generated from sizes."""
        return list(self.benchmark.inputs)

    def trace(
        self, *, block: Sequence[int] | None, blocks: Sequence[int] | None, base: int | None, **params: Any
    ) -> KernelTrace:
        """Return the kernel's trace; see `tracegen.kernel`."""
        settled = resolve_parameters(self.name, self.benchmark.inputs, self.benchmark.resolve, params)
        sizes = settled.known
        usual = shape("block", _of(self.shape, sizes), limit=MAX_BLOCK_THREADS)
        threads = usual if block is None else shape("block", block, limit=MAX_BLOCK_THREADS)
        if self.fixed and threads != usual:
            raise LaunchError(f"{self.name}: block={threads}: the kernel is written for blocks of {usual}")
        launch = Launch(
            kernel=self.name,
            grid=self.grid(threads, sizes),
            block=threads,
            shared_memory=_extent(self.shared_memory, {**sizes, "block": threads}),
        )
        declared = _call(self.benchmark.arrays, sizes)
        arrays = allocate(declared, base=BASE if base is None else base, threads=launch.threads)
        params = {**settled.sizes, **settled.shown}
        return KernelTrace(self.function, launch, arrays, params, blocks=blocks, ahead=True)

    def result(self, **params: Any) -> dict[str, NDArray[Any]]:
        """Return what the kernel leaves in arrays that it writes, by name, computed by NumPy for all threads.

        `params` as for `tracegen.kernel`. Raises `ConfigError` for a kernel that does not compute anything.
        """
        if self.answer is None:
            raise ConfigError(f"{self.name}: says what it accesses, not what it computes")
        settled = resolve_parameters(self.name, self.benchmark.inputs, self.benchmark.resolve, params)
        return dict(_call(self.answer, settled.known))


Size = int | Position | Multiple
"""How a size is declared: its default, or that and what it may be."""


class Benchmark:
    """Kernels that share sizes and arrays.

    `sizes` maps the names of the source's macros to their defaults; `arrays` is a function of some of them
    that returns the arrays in the order in which they lie in memory. `inputs` are data by name, for kernels that
    depend on more than sizes: every function of sizes may name them too.
    """

    def __init__(
        self,
        name: str,
        sizes: Mapping[str, Size],
        arrays: Callable[..., Mapping[str, Any]],
        *,
        inputs: Mapping[str, Input] | None = None,
    ) -> None:
        self.name = name
        self.sizes = dict(sizes)
        self.arrays = arrays
        self.inputs = dict(inputs or {})

    def kernel(
        self,
        which: str = "",
        *,
        threads: Callable[..., tuple[int, ...]],
        grid: Callable[..., tuple[int, int, int]] | None = None,
        block: Shape | Callable[..., Shape] | None = None,
        fixed: bool = False,
        shared_memory: Extent = 0,
        result: Callable[..., Mapping[str, NDArray[Any]]] | None = None,
    ) -> Callable[[KernelFunction], KernelFunction]:
        """Declare the decorated function as kernel `which` of the benchmark.

        `threads` gives the (x, y, z) range of threads for the sizes that it names. The block is 256x1 for one
        dimension and 32x8 for more, or `block`, a shape or a function of sizes; `fixed` says that the code works
        with no other. The grid is as many blocks as cover the threads, or ``grid(block, ...)``. A block takes
        `shared_memory` bytes, which may depend on sizes and `block`. `result` computes what `KernelSpec.result`
        returns. The first line of the function's docstring describes the kernel.
        """
        defaults = {name: _default(declared) for name, declared in self.sizes.items()}
        usual = block or ((256, 1, 1) if len(_call(threads, defaults)) == 1 else (32, 8, 1))

        def covering(block: tuple[int, int, int], sizes: Mapping[str, int]) -> tuple[int, int, int]:
            if grid is not None:
                return _call(grid, {**sizes, "block": block})  # type: ignore[no-any-return]
            x, y, z = (*_call(threads, sizes), 1, 1)[:3]
            return -(-x // block[0]), -(-y // block[1]), -(-z // block[2])

        def declare(function: KernelFunction) -> KernelFunction:
            name = f"{self.name}.{which}" if which else self.name
            REGISTRY[name] = KernelSpec(
                name=name,
                description=(inspect.getdoc(function) or "").partition("\n")[0],
                sizes=defaults,
                block=shape("block", _of(usual, defaults)),
                benchmark=self,
                function=function,
                grid=covering,
                shape=usual,
                fixed=fixed,
                shared_memory=shared_memory,
                answer=result,
            )
            return function

        return declare

    def resolve(self, kernel: str, params: Mapping[str, Any]) -> dict[str, int]:
        """Return all sizes, defaults filled in; raises `ConfigError` for an unknown or impossible one."""
        for name in params:
            if name not in self.sizes:
                raise ConfigError(unknown(f"size of {kernel}", name, [*self.sizes, *self.inputs]))
        sizes = {
            name: _whole(kernel, name, params.get(name, _default(declared))) for name, declared in self.sizes.items()
        }
        for name, declared in self.sizes.items():  # first of all, since the ends of the others are made of them
            if not isinstance(declared, Position) and sizes[name] < 1:
                raise ConfigError(f"{kernel}: {name}={sizes[name]}: must be at least 1")
        for name, declared in self.sizes.items():
            complaint = "" if isinstance(declared, int) else declared.complaint(sizes[name], sizes)
            if complaint:
                raise ConfigError(f"{kernel}: {name}={sizes[name]}: {complaint}")
        return sizes


def kernel(
    name: str,
    *,
    block: Sequence[int] | None = None,
    blocks: Sequence[int] | None = None,
    base: int | None = None,
    **params: Any,
) -> GeneratedTrace:
    """Return the trace of the kernel called `name`, for sizes by the names of its CUDA source, or for inputs.

    `block` overrides the shape of a block (x, y, z), `blocks` are the ids of the blocks that the trace holds
    (None: all), `base` is the address of the first array (default 2^28; a multiple of 256). Raises
    `ConfigError` for an unknown name or a size that cannot be, `LaunchError` for a block of more than 1024
    threads; for a tiled kernel what `affine_kernel` raises.

    >>> kernel("atax.1", NX=512, NY=512)
    KernelTrace('atax.1', grid=(2, 1, 1), block=(256, 1, 1), NX=512, NY=512)
    """
    return spec_of(name).trace(block=block, blocks=blocks, base=base, **params)


def spec_of(name: str) -> KernelSpec | TiledSpec:
    """Return what there is to know about the kernel called `name`; raises `ConfigError` for an unknown name."""
    if name in REGISTRY:
        return REGISTRY[name]
    if name in TILED:
        return tiled_spec(name)
    raise ConfigError(unknown("kernel", name, [*REGISTRY, *TILED]))


def kernels() -> list[KernelSpec | TiledSpec]:
    """Return what there is to know about every kernel, by benchmark; tiled ones come last."""
    return [*sorted(REGISTRY.values(), key=lambda spec: spec.benchmark.name), *map(tiled_spec, TILED)]


def _whole(kernel: str, name: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ConfigError(f"{kernel}: {name}={value!r}: must be a whole number") from None


def _default(declared: Size) -> int:
    return declared if isinstance(declared, int) else declared.default


def _extent(extent: Extent, sizes: Mapping[str, Any]) -> int:
    return int(sizes[extent] if isinstance(extent, str) else _of(extent, sizes))


def _of(what: Any, sizes: Mapping[str, Any]) -> Any:
    """Return `what`, or its value for these sizes if it is a function of them."""
    return _call(what, sizes) if callable(what) else what


def _accepted(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `values` that `function` has parameters for."""
    return {name: values[name] for name in inspect.signature(function).parameters if name in values}


def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    return function(**_accepted(function, values))
