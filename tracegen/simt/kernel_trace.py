"""Kernels written in Python over whole blocks: `trace` runs a function and records what it asks of memory.

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

The function runs once per block, whenever the block is asked for, so a trace takes no memory; it must do the
same every time. Stores do not change the data of arrays.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from rdmodel.errors import ConfigError, LaunchError, unknown
from rdmodel.trace import Launch, Program, check_blocks, missing_block
from tracegen.arrays import BASE, Array, Buffer, allocate, array_infos
from tracegen.generated import GeneratedTrace
from tracegen.simt.batching import Runner
from tracegen.simt.block import Block

__all__ = ["Array", "Block", "Buffer", "KernelTrace", "shape", "trace"]

MAX_BLOCK = 1024
"""Threads that a block may have."""

Kernel = Callable[..., None]


def trace(
    function: Kernel,
    *,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    arrays: Mapping[str, Any],
    name: str | None = None,
    blocks: Sequence[int] | None = None,
    base: int | None = None,
    registers: int = 0,
    shared_memory: int = 0,
    **params: Any,
) -> KernelTrace:
    """Return the trace of ``function(k, ...)``, a kernel of your own; see the module for an example.

    `function` gets a `Block` and, by the names of its parameters, arrays and `params`. `arrays` are laid out
    from address `base` on (default 2^28) in the order given, each declared by its shape (float32), a NumPy
    array (data that loads return) or a `Buffer`. `blocks` are the ids of the blocks that the trace holds
    (None: all). `registers` and `shared_memory` describe the `Launch`. Raises `LaunchError` for a shape that
    cannot be launched, `ConfigError` for a parameter that the kernel has and nobody gave, or the other way
    round, and `TraceError`, when a block runs, for an index outside its array.
    """
    title = name or str(getattr(function, "__name__", "kernel"))
    launch = Launch(
        kernel=title,
        grid=shape("grid", grid),
        block=shape("block", block, limit=MAX_BLOCK),
        registers=registers,
        shared_memory=shared_memory,
    )
    laid_out = allocate(arrays, base=BASE if base is None else base, threads=launch.threads)
    wanted = parameters(function, title)
    for given in params:
        if given not in wanted:
            raise ConfigError(unknown(f"parameter of {title}", given, wanted))
    return KernelTrace(function, launch, laid_out, params, blocks=blocks)


class KernelTrace(GeneratedTrace):
    """The trace of a kernel function: each block is executed when it is asked for, as a `Program`.

    `launch`, `blocks` as in `Trace`; `params` are the kernel's sizes. `columns` writes everything out, once,
    on first use: a trace of 10^8 instructions is better read block by block. `ahead` lets the function run for several
    blocks at once: it must look at threads one by one, as the kernels that come with rdmodel do.
    """

    def __init__(
        self,
        function: Kernel,
        launch: Launch,
        arrays: Mapping[str, Array],
        params: Mapping[str, Any],
        *,
        blocks: Sequence[int] | None = None,
        ahead: bool = False,
    ) -> None:
        named = {**params, **arrays}
        self._arguments = {}
        for name in parameters(function, launch.kernel):
            if name not in named:
                raise ConfigError(unknown(f"parameter of {launch.kernel}", name, named))
            self._arguments[name] = named[name]
        self.launch = Launch(
            kernel=launch.kernel,
            grid=launch.grid,
            block=launch.block,
            registers=launch.registers,
            shared_memory=launch.shared_memory,
            arrays=array_infos(arrays),
        )
        self.blocks = check_blocks(launch, blocks)
        self.params = dict(params)
        self._function = function
        self._ahead = ahead

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only this process runs blocks with."""
        return {name: value for name, value in self.__dict__.items() if name != "_runner"}

    def block(self, block: int) -> Program:
        """Run one block and return its `Program`; raises `TraceError` if the trace does not hold it."""
        if block not in self._held:
            raise missing_block(self, block)
        return self._runner.block(int(block))

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self._function, self._arguments, self.launch, self._held, ahead=self._ahead)


def shape(name: str, value: int | Sequence[int], *, limit: int | None = None) -> tuple[int, int, int]:
    """Return a grid or block as (x, y, z) of at most `limit` threads; raises `LaunchError`."""
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    try:
        sizes = tuple(operator.index(n) for n in given)
    except TypeError:
        raise LaunchError(f"{name}={value!r}: needs one to three whole numbers") from None
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise LaunchError(f"{name}={value!r}: needs one to three dimensions of at least 1")
    x, y, z = (*sizes, 1, 1)[:3]
    if limit is not None and x * y * z > limit:
        raise LaunchError(f"{name}={value!r}: {x * y * z} threads, at most {limit} fit in a block")
    return x, y, z


def parameters(function: Kernel, name: str) -> list[str]:
    """Return the names of a kernel function's parameters after `k`; raises `ConfigError` if it is none."""
    if not hasattr(inspect.unwrap(function), "__code__"):
        raise ConfigError(f"{name}: a kernel must be a Python function, not {type(function).__name__}")
    names = list(inspect.signature(function).parameters)
    if not names:
        raise ConfigError(f"{name}: a kernel function needs a parameter for its block")
    return names[1:]
