"""Trace kernels that are Python functions of a whole block: `trace` runs a function and records its accesses.

A kernel is a function of a `Block` `k`, its arrays and its sizes. All threads of a block run together::

    >>> from tracegen.simt.kernel_trace import trace
    >>> def axpy(k, x, y, n):
    ...     i = k.x                          # global thread index, one number per thread
    ...     with k.where(i < n):             # an if: only these threads
    ...         k.load(x, i)
    ...         k.load(y, i)
    ...         k.store(y, i)
    >>> t = trace(axpy, grid=4, block=256, arrays={"x": 1000, "y": 1000}, n=1000)
    >>> len(t)
    96

The function runs each time that a block is requested, so a trace takes no memory. It must do the same every time. With
``batches=True`` it runs for several blocks at once.
Stores do not change the data of arrays.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from rdmodel.common.checks import check_flag
from rdmodel.errors import ConfigError, LaunchError, unknown
from rdmodel.trace import InstructionSource, Launch, Program, Work, check_blocks, missing_block
from tracegen.arrays import BASE, Array, Buffer, allocate, array_infos, shared_bytes
from tracegen.generated import GeneratedTrace
from tracegen.limits import MAX_BLOCK_SIDES, MAX_BLOCK_THREADS, MAX_GRID_SIDES
from tracegen.parameter_names import parameter_names
from tracegen.simt.batching import BlockRunner
from tracegen.simt.block import Block
from tracegen.unrolling import DEFAULT_UNROLL, Unroll, parse_unroll

__all__ = ["Array", "Block", "Buffer", "KernelTrace", "shape", "trace"]

_MAX_SIDES = {"grid": MAX_GRID_SIDES, "block": MAX_BLOCK_SIDES}
"""Limits of CUDA along each axis."""

KernelFunction = Callable[..., None]
"""A function of a `Block`, arrays and sizes."""


def trace(
    function: KernelFunction,
    *,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arrays: Mapping[str, Any],
    name: str | None = None,
    blocks: Sequence[int] | None = None,
    base: int | None = None,
    registers: int = 0,
    shared_memory: int = 0,
    unroll: Unroll = DEFAULT_UNROLL,
    batches: bool = False,
    **params: Any,
) -> KernelTrace:
    """Trace a kernel that is a Python function, ``function(k, ...)``; the module docstring has an example.

    Parameters
    ----------
    function
        The kernel. It is called with a `Block` and, by the names of its parameters, arrays and `params`.
    grid, block
        Blocks of the grid and threads of a block: one to three numbers (x, y, z).
    arrays
        Arrays by name, in the order of their addresses. Each is a shape (of float32), a NumPy array, whose data loads
        return, or a `Buffer`.
    name
        Name of the kernel (None: the name of the function).
    blocks
        Ids of the blocks in the trace (None: all).
    base
        Address of the first array, a multiple of 256 (None: 2^28).
    registers
        Registers per thread.
    shared_memory
        Bytes of shared memory per block.
    unroll
        How often compilers unroll an innermost loop that does not say otherwise. The loads of an unrolled body issue
        together, and the next body waits for them. ``"none"``: bodies do not wait for each other.
    batches
        Whether the function may run for several blocks at once, which is many times faster for short kernels. It must
        then treat threads independently and have no effects but accesses: the numbers of threads have one row for each
        block, so that combining those of a block with NumPy (a sum, a sort) gives wrong results.
    **params
        Sizes and other arguments of the kernel.

    Returns
    -------
    KernelTrace
        A trace that runs each block on demand.

    Raises
    ------
    LaunchError
        If the shape cannot be launched.
    ConfigError
        If a parameter of the kernel is missing, or an argument is unknown or invalid.
    TraceError
        If an index is outside its array; raised when the block runs.
    """
    title = name or str(getattr(function, "__name__", "kernel"))
    launch = Launch(
        kernel=title,
        grid=shape("grid", grid),
        block=shape("block", block, limit=MAX_BLOCK_THREADS),
        registers=registers,
        shared_memory=shared_memory,
    )
    laid_out = allocate(arrays, base=BASE if base is None else base, threads=launch.threads)
    wanted = kernel_parameters(function, title)
    for given in params:
        if given not in wanted:
            raise ConfigError(unknown(f"parameter of {title}", given, wanted))
    check_flag("batches", batches)
    return KernelTrace(function, launch, laid_out, params, blocks=blocks, batches=batches, unroll=unroll)


class KernelTrace(GeneratedTrace):
    """The trace of a kernel function, which runs for each block on demand and gives its `Program`.

    `launch` and `blocks` are as in `Trace`; `params` are the sizes of the kernel. `columns` expands all blocks, once,
    on first use: a trace of 10^8 instructions is better read block by block. `batches` and `unroll` are described in
    `trace`. `cache_ops` is False if the function gives no cache operators, as the bundled kernels. `work` is a
    function that returns the work of a block; None: what the kernel function declares.
    """

    def __init__(
        self,
        function: KernelFunction,
        launch: Launch,
        arrays: Mapping[str, Array],
        params: Mapping[str, Any],
        *,
        blocks: Sequence[int] | None = None,
        batches: bool = False,
        cache_ops: bool = True,
        work: Callable[[int], Work | None] | None = None,
        unroll: Unroll = DEFAULT_UNROLL,
    ) -> None:
        named = {**params, **arrays}
        self._arguments = {}
        for name in kernel_parameters(function, launch.kernel):
            if name not in named:
                raise ConfigError(unknown(f"parameter of {launch.kernel}", name, named))
            self._arguments[name] = named[name]
        self.launch = Launch(
            kernel=launch.kernel,
            grid=launch.grid,
            block=launch.block,
            registers=launch.registers,
            shared_memory=launch.shared_memory or shared_bytes(arrays),
            arrays=array_infos(arrays),
        )
        self.blocks = check_blocks(launch, blocks)
        self.params = dict(params)
        self._function = function
        self._batches = batches
        self._cache_ops = cache_ops
        self._declares_work: bool | None = None  # not known yet
        self._counted_work = work
        self._unroll = parse_unroll(unroll)

    def __getstate__(self) -> dict[str, Any]:
        """Exclude the runner, which belongs to this process."""
        return {name: value for name, value in self.__dict__.items() if name != "_runner"}

    @property
    def may_have_cache_ops(self) -> bool:
        """True unless the kernel is a bundled one: only a run shows the operators that a function gives its loads."""
        return self._cache_ops

    @property
    def sources(self) -> Mapping[int, InstructionSource]:
        """The lines of the kernel function by `pc`, and those of its helpers in the blocks that ran here."""
        return self._runner.sites.sources()

    def announce(self, blocks: Sequence[int]) -> None:
        """Say that these blocks, ascending, will be read next."""
        self._runner.announce(blocks)

    def block(self, block: int) -> Program:
        """Run one block and return its `Program`; raises `TraceError` for a block outside the trace."""
        if block not in self._block_ids:
            raise missing_block(self, block)
        return self._runner.block(int(block))

    def block_work(self, block: int) -> Work | None:
        """Run one block again and return its work, if the kernel declares arithmetic or accesses to shared memory."""
        if block not in self._block_ids:
            raise missing_block(self, block)
        if self._counted_work is not None:
            return self._counted_work(int(block))
        if self._declares_work is False:
            return None
        work, declared = self._runner.work(int(block))
        self._declares_work = self._declares_work or declared
        return work if self._declares_work else None

    @cached_property
    def _runner(self) -> BlockRunner:
        return BlockRunner(
            self._function, self._arguments, self.launch, self._block_ids, batches=self._batches, unroll=self._unroll
        )


def shape(name: str, value: int | Sequence[int], *, limit: int | None = None) -> tuple[int, int, int]:
    """Return a grid or block (`name`) as (x, y, z).

    Raises `LaunchError` if it is invalid, exceeds `limit` threads, or exceeds the limits of CUDA along an axis.
    """
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    try:
        sizes = tuple(operator.index(n) for n in given)
    except TypeError:
        raise LaunchError(f"{name}={value!r}: must be one to three whole numbers") from None
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise LaunchError(f"{name}={value!r}: must be one to three numbers of at least 1")
    x, y, z = (*sizes, 1, 1)[:3]
    if limit is not None and x * y * z > limit:
        raise LaunchError(f"{name}={value!r}: {x * y * z} threads, at most {limit} fit in a block")
    for axis, size, most in zip("xyz", (x, y, z), _MAX_SIDES.get(name, (x, y, z)), strict=True):
        if size > most:
            raise LaunchError(f"{name}={value!r}: {axis} is {size}, must be at most {most}")
    return x, y, z


def kernel_parameters(function: KernelFunction, name: str) -> list[str]:
    """Return the names of the parameters of a kernel function after `k`; raises `ConfigError` for an unsuitable one."""
    if not hasattr(inspect.unwrap(function), "__code__"):
        raise ConfigError(f"{name}: a kernel must be a Python function, not {type(function).__name__}")
    names = parameter_names(function)
    if not names:
        raise ConfigError(f"{name}: a kernel function needs a parameter for its block")
    return names[1:]
