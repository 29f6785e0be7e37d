"""Declare kernels, look them up by name, and trace them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, LaunchError, TooLargeError, unknown
from rdmodel.trace import Launch
from tracegen.arrays import BASE, allocate
from tracegen.generated import GeneratedTrace
from tracegen.kernel_library.data import Input, require_size, resolve_parameters
from tracegen.kernel_library.homes import load_all, load_home
from tracegen.kernel_library.nest_work import has_nest, nest_work
from tracegen.kernel_library.suites import NAIVE, TILED
from tracegen.kernel_library.tiled import TiledSpec, tiled_spec
from tracegen.limits import MAX_BLOCK_THREADS
from tracegen.parameter_names import parameter_names
from tracegen.simt.kernel_trace import KernelFunction, KernelTrace, shape
from tracegen.unrolling import DEFAULT_UNROLL, Unroll

REGISTRY: dict[str, KernelSpec] = {}
"""Kernels by name that modules imported so far declare, without the loop nests of `TILED`; see `kernel_names`."""

Shape = tuple[int, ...]
"""Threads of a block in x, y and z; omitted dimensions are 1."""

Extent = int | str | Callable[..., int]
"""A number, the name of a size, or a function of sizes."""


@dataclass(frozen=True, slots=True)
class Position:
    """A size with bounds, `least` to `below` - 1; most select one launch of many."""

    default: int
    below: Extent
    least: int = 0

    def complaint(self, value: int, sizes: Mapping[str, int]) -> str:
        """Return an error text for a value, empty if it is valid."""
        below = _extent(self.below, sizes)
        if self.least <= value < below:
            return ""
        return f"must be {self.least} to {below - 1}" if below > self.least else "these sizes allow no value"


@dataclass(frozen=True, slots=True)
class Multiple:
    """A size that is a multiple `of` an extent, because tiles divide it."""

    default: int
    of: Extent

    def complaint(self, value: int, sizes: Mapping[str, int]) -> str:
        """Return an error text for a value, empty if it is valid."""
        of = _extent(self.of, sizes)
        return f"must be a multiple of {of}" if value % of else ""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """Specification of a named kernel: name, description in one line, default sizes and block."""

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
        """Names of the input data that a caller may pass; otherwise they are generated from sizes."""
        return list(self.benchmark.inputs)

    def trace(
        self,
        *,
        block: Sequence[int] | None,
        blocks: Sequence[int] | None,
        base: int | None,
        unroll: Unroll = DEFAULT_UNROLL,
        **params: Any,
    ) -> KernelTrace:
        """Trace the kernel; see `tracegen.kernel`."""
        resolved = resolve_parameters(self.name, self.benchmark.inputs, self.benchmark.resolve, params)
        sizes = resolved.known
        usual = shape("block", _evaluate(self.shape, sizes), limit=MAX_BLOCK_THREADS)
        threads = usual if block is None else shape("block", block, limit=MAX_BLOCK_THREADS)
        if self.fixed and threads != usual:
            raise LaunchError(
                f"{self.name}: block={threads}: must be {usual}, the only block shape that this kernel supports"
            )
        launch = Launch(
            kernel=self.name,
            grid=shape("grid", self.grid(threads, sizes)),
            block=threads,
            shared_memory=_extent(self.shared_memory, {**sizes, "block": threads}),
        )
        declared = _call(self.benchmark.arrays, sizes)
        arrays = allocate(declared, base=BASE if base is None else base, threads=launch.threads)
        params = {**resolved.sizes, **resolved.labels}
        work = partial(nest_work, self.name, launch.block, tuple(params.items())) if has_nest(self.name) else None
        return KernelTrace(
            self.function, launch, arrays, params,
            blocks=blocks, batches=True, cache_ops=False, work=work, unroll=unroll,
        )  # fmt: skip

    def result(self, **params: Any) -> dict[str, NDArray[Any]]:
        """Compute with NumPy the arrays that the kernel writes, by name.

        `params` are as in `tracegen.kernel`. Raises `ConfigError` for a kernel without a computed result.
        """
        if self.answer is None:
            raise ConfigError(f"{self.name}: has no computed result, only a trace")
        resolved = resolve_parameters(self.name, self.benchmark.inputs, self.benchmark.resolve, params)
        return dict(_call(self.answer, resolved.known))


Size = int | Position | Multiple
"""Declaration of a size: its default, or its default and the values allowed."""


class Benchmark:
    """A benchmark: kernels that share sizes and arrays.

    `sizes` maps the names of macros in the source to their defaults. `arrays` is a function of sizes that returns the
    arrays in the order of their addresses. `inputs` declares input data by name, for kernels that depend on data: every
    function of sizes may take them as parameters too. `need` is a function of sizes: the memory in bytes that the
    arrays with data take at most while they are made, besides that of inputs.
    """

    def __init__(
        self,
        name: str,
        sizes: Mapping[str, Size],
        arrays: Callable[..., Mapping[str, Any]],
        *,
        inputs: Mapping[str, Input] | None = None,
        need: Callable[..., int] | None = None,
    ) -> None:
        self.name = name
        self.sizes = dict(sizes)
        self.arrays = arrays
        self.inputs = dict(inputs or {})
        self.need = need

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
        """Declare the decorated function as the kernel `which` of the benchmark.

        The first line of its docstring is the description of the kernel. Functions of sizes name the sizes that they
        need as parameters.

        Parameters
        ----------
        which
            Name of the kernel after the dot; empty for the only kernel of a benchmark.
        threads
            Function of sizes: the range of threads in x, y and z.
        grid
            Function of `block` and sizes: the grid (None: as many blocks as cover the threads).
        block
            Shape of a block, or a function of sizes (None: 256x1 for one dimension of threads, else 32x8).
        fixed
            Whether the kernel works with no other block.
        shared_memory
            Bytes of shared memory per block: a number, a size, or a function of sizes and `block`.
        result
            Function of sizes and inputs: the arrays that `KernelSpec.result` returns.
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
                description=(function.__doc__ or "").strip().partition("\n")[0],
                sizes=defaults,
                block=shape("block", _evaluate(usual, defaults)),
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
        """Return all sizes, with defaults; raises `ConfigError` for an unknown or invalid size."""
        for name in params:
            if name not in self.sizes:
                raise ConfigError(unknown(f"size of {kernel}", name, [*self.sizes, *self.inputs]))
        sizes = {
            name: _whole(kernel, name, params.get(name, _default(declared))) for name, declared in self.sizes.items()
        }
        for name, declared in self.sizes.items():  # checked first: the bounds of other sizes depend on them
            if not isinstance(declared, Position) and sizes[name] < 1:
                raise ConfigError(f"{kernel}: {name}={sizes[name]}: must be at least 1")
        for name, declared in self.sizes.items():
            complaint = "" if isinstance(declared, int) else declared.complaint(sizes[name], sizes)
            if complaint:
                raise ConfigError(f"{kernel}: {name}={sizes[name]}: {complaint}")
        if self.need is not None:
            try:
                require_size(self.need, sizes)
            except TooLargeError as error:
                raise TooLargeError(f"{kernel}: {error}") from None
        return sizes


def kernel(
    name: str,
    *,
    block: Sequence[int] | None = None,
    blocks: Sequence[int] | None = None,
    base: int | None = None,
    unroll: Unroll = DEFAULT_UNROLL,
    **params: Any,
) -> GeneratedTrace:
    """Trace a named kernel; `kernels` lists the names and their sizes.

    Parameters
    ----------
    name
        Name of the kernel, such as ``atax.1``.
    block
        Shape of a block (x, y, z) in place of the usual one.
    blocks
        Ids of the blocks in the trace (None: all).
    base
        Address of the first array, a multiple of 256 (None: 2^28).
    unroll
        How often compilers unroll loops, or ``"none"``; see `tracegen.trace`.
    **params
        Sizes, by the names in the CUDA source of the kernel, and input data by name.

    Returns
    -------
    GeneratedTrace
        A trace that creates each block on demand.

    Raises
    ------
    ConfigError
        If the name is unknown, or a size or `unroll` is invalid.
    LaunchError
        If the kernel does not work with the block, or it has more than 1024 threads.

    Notes
    -----
    A tiled kernel raises the errors of `affine_kernel`.

    Examples
    --------
    >>> kernel("atax.1", NX=512, NY=512)
    KernelTrace('atax.1', grid=(2, 1, 1), block=(256, 1, 1), NX=512, NY=512)
    """
    return spec_of(name).trace(block=block, blocks=blocks, base=base, unroll=unroll, **params)


def spec_of(name: str) -> KernelSpec | TiledSpec:
    """Return the specification of the kernel `name`; raises `ConfigError` for an unknown name."""
    if name in TILED and name not in REGISTRY:
        return tiled_spec(name)
    return declared_spec(name)


def declared_spec(name: str) -> KernelSpec:
    """Return the specification of a kernel that is no tiled one; raises `ConfigError` for an unknown name."""
    if name not in REGISTRY:
        load_home(name)
    if name not in REGISTRY:
        raise ConfigError(unknown("kernel", name, kernel_names()))
    return REGISTRY[name]


def kernel_names() -> list[str]:
    """Return the names of all kernels, those that users have declared included; tiled kernels come last."""
    return list(dict.fromkeys([*NAIVE, *REGISTRY, *TILED]))


def kernels() -> list[KernelSpec | TiledSpec]:
    """Return the specifications of all kernels, sorted by benchmark; tiled kernels come last."""
    load_all()
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
    return int(sizes[extent] if isinstance(extent, str) else _evaluate(extent, sizes))


def _evaluate(value: Any, sizes: Mapping[str, Any]) -> Any:
    """Return `value`, or its result for `sizes` if it is a function."""
    return _call(value, sizes) if callable(value) else value


def _accepted(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Select the `values` that `function` has parameters for."""
    return {name: values[name] for name in parameter_names(function) if name in values}


def _call(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    return function(**_accepted(function, values))
