"""Trace kernels of ``numba.cuda``: compile a function to PTX without a GPU, and execute the PTX."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from rdmodel.errors import ConfigError
from rdmodel.integrations.ptx_launch import PtxLaunch, Shape, target_capability
from rdmodel.trace import Trace

__all__ = ["trace"]


def trace(
    kernel: Any,
    grid: Shape,
    block: Shape,
    *args: Any,
    shared: int = 0,
    architecture: str = "sm_80",
    blocks: Sequence[int] | None = None,
) -> Trace:
    """Trace a launch ``kernel[grid, block, 0, shared](*args)`` of a ``@cuda.jit`` function; no GPU is needed.

    Parameters
    ----------
    kernel
        The function, or the Python function under its decorator.
    grid, block
        Blocks of the grid and threads of a block: one to three numbers (x, y, z).
    args
        NumPy arrays, numbers, Booleans, complex numbers, and tuples of these. The arrays do not change.
    shared
        Bytes of dynamic shared memory.
    architecture
        Target of the compiler, such as ``sm_90``.
    blocks
        Ids of the blocks in the trace (None: all).

    Raises
    ------
    ConfigError
        If numba-cuda is not installed, an argument is of another type, or the kernel does not compile.
    LaunchError
        If the launch does not fit the kernel.
    TraceError
        If the PTX cannot be executed.
    """
    function = getattr(kernel, "py_func", kernel)
    if not inspect.isfunction(function):
        raise ConfigError(f"kernel={kernel!r:.60}: must be a function with @cuda.jit")
    names = list(inspect.signature(function).parameters)
    if len(args) != len(names):
        raise ConfigError(f"{function.__name__}: {len(args)} arguments, but it has {len(names)} parameters")
    for name, value in zip(names, args, strict=True):
        _check(name, value)
    ptx = _compile(function, args, target_capability(architecture), getattr(kernel, "targetoptions", {}))
    launch = PtxLaunch(ptx, function.__name__)
    for name, value in zip(names, args, strict=True):
        launch.add(*flatten(name, value, launch))
    return launch.trace(grid, block, shared=shared, blocks=blocks)


def _check(name: str, value: Any) -> None:
    if isinstance(value, tuple):
        for at, item in enumerate(value):
            _check(f"{name}[{at}]", item)
    elif not isinstance(value, np.ndarray | bool | int | float | complex | np.number | np.bool_):
        raise ConfigError(f"{name}={value!r:.60}: must be a NumPy array, a number, a Boolean or a tuple of these")
    elif isinstance(value, np.ndarray) and (value.dtype.hasobject or value.dtype.kind not in "biufc"):
        raise ConfigError(f"{name}: elements of type {value.dtype}: must be numbers")


def flatten(name: str, value: Any, launch: PtxLaunch) -> Iterator[int | float]:
    """Yield the parameters that an argument of a kernel becomes.

    An array is a structure: two pointers to objects of the host, numbers of elements and bytes per element, the
    address, and the shape and strides.
    """
    if isinstance(value, tuple):
        for at, item in enumerate(value):
            yield from flatten(f"{name}[{at}]", item, launch)
    elif isinstance(value, np.ndarray):
        yield from (0, 0, value.size, value.itemsize, launch.address(name, value), *value.shape, *value.strides)
    elif isinstance(value, complex | np.complexfloating):
        yield from (float(value.real), float(value.imag))
    elif isinstance(value, float | np.floating):
        yield float(value)
    else:
        yield int(value)


def _compile(function: Any, args: Sequence[Any], capability: tuple[int, int], options: dict[str, Any]) -> str:
    try:
        cuda: Any = import_module("numba.cuda")  # without types, whether they are installed or not
        typeof: Any = import_module("numba").typeof
    except ImportError as error:
        raise ConfigError(f"numba: cannot be imported ({error}): install it with 'rdmodel[numba]'") from None
    signature = tuple(typeof(value) for value in args)
    try:
        ptx, _ = cuda.compile_ptx(
            function,
            signature,
            cc=capability,
            fastmath=bool(options.get("fastmath", False)),
            opt=options.get("opt", True),
        )
    except Exception as error:  # the compiler has many errors, and each is about the kernel
        text = " ".join(str(error).split())
        target = "sm_{}{}".format(*capability)
        raise ConfigError(f"{function.__name__}: numba cannot compile it for {target}: {text[-400:]}") from error
    return ptx if isinstance(ptx, str) else bytes(ptx).decode()
