"""Trace kernels of Warp: compile a ``@wp.kernel`` function to PTX without a GPU, and execute the PTX."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rdmodel.errors import ConfigError
from rdmodel.integrations.ptx_launch import PtxLaunch, target_capability
from rdmodel.trace import Trace

__all__ = ["trace"]

LAUNCH_DIMENSIONS = 4
"""Largest number of dimensions of a launch and of an array."""


def trace(
    kernel: Any,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    block_dim: int = 256,
    architecture: str = "sm_80",
    blocks: Sequence[int] | None = None,
) -> Trace:
    """Trace ``wp.launch(kernel, dim, inputs, outputs, block_dim=block_dim)``; no GPU is needed.

    Parameters
    ----------
    kernel
        A function with ``@wp.kernel``.
    dim
        Threads of the launch along one to four dimensions.
    inputs, outputs
        NumPy arrays, Warp arrays on the CPU, numbers and vectors. Arrays of vectors have the components as last
        dimensions. The arrays do not change.
    block_dim
        Threads of a block.
    architecture
        Target of the compiler, such as ``sm_90``.
    blocks
        Ids of the blocks in the trace (None: all).

    Raises
    ------
    ConfigError
        If Warp is not installed, an argument does not fit its parameter, or the kernel does not compile.
    LaunchError
        If the launch does not fit the kernel.
    TraceError
        If the PTX cannot be executed.
    """
    shape = tuple(int(size) for size in (dim if isinstance(dim, Sequence) else (dim,)))
    if not 1 <= len(shape) <= LAUNCH_DIMENSIONS or min(shape) < 1:
        raise ConfigError(f"dim={dim!r}: must be one to four whole numbers of at least 1")
    declared = getattr(getattr(kernel, "adj", None), "args", None)
    if declared is None:
        raise ConfigError(f"kernel={kernel!r:.60}: must be a function with @wp.kernel")
    args = [*inputs, *outputs]
    if len(args) != len(declared):
        raise ConfigError(f"{kernel.key}: {len(args)} arguments, but it has {len(declared)} parameters")
    ptx = _compile(kernel, target_capability(architecture))
    launch = PtxLaunch(ptx, kernel.key, _entry(kernel, ptx))
    launch.add(pack_bounds(shape))
    for declaration, value in zip(declared, args, strict=True):
        launch.add(_argument(declaration.label, declaration.type, value, launch))
    return launch.trace(-(-prod(shape) // block_dim), block_dim, blocks=blocks)


def pack_bounds(shape: tuple[int, ...]) -> bytes:
    """Return the structure with the shape of a launch: the sizes, the number of threads, and 1 thread per element."""
    sizes = struct.pack(f"<{len(shape)}I", *shape)
    return sizes + bytes(-len(sizes) % 8) + struct.pack("<QQ", prod(shape), 1)


def pack_array(address: int, shape: Sequence[int], strides: Sequence[int]) -> bytes:
    """Return the structure of an array: addresses of data and gradient, shape, strides in bytes, dimensions, flags."""
    missing = (0,) * (LAUNCH_DIMENSIONS - len(shape))
    return struct.pack("<QQ4i4iHH4x", address, 0, *shape, *missing, *strides, *missing, len(shape), 0)


def _argument(name: str, declared: Any, value: Any, launch: PtxLaunch) -> int | float | bytes:
    dimensions = getattr(declared, "ndim", None) if hasattr(declared, "dtype") else None
    if dimensions is not None:
        if (
            hasattr(value, "numpy")
            and str(getattr(value, "device", "cpu")) == "cpu"
            and not isinstance(value, np.ndarray)
        ):
            value = value.numpy()
        if not isinstance(value, np.ndarray):
            raise ConfigError(f"{name}={value!r:.60}: must be a NumPy array, or a Warp array on the CPU")
        components = tuple(getattr(declared.dtype, "_shape_", ()))
        if value.ndim != dimensions + len(components) or value.shape[dimensions:] != components:
            wanted = f"{dimensions} dimensions" + (f" and components {components}" if components else "")
            raise ConfigError(f"{name}: has the shape {value.shape}, must have {wanted}")
        return pack_array(launch.address(name, value), value.shape[:dimensions], value.strides[:dimensions])
    if hasattr(declared, "_shape_"):
        try:
            return bytes(declared(*np.ravel(value).tolist()))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{name}={value!r:.60}: must be a {declared.__name__}: {error}") from None
    if not isinstance(value, bool | int | float | np.number | np.bool_):
        raise ConfigError(f"{name}={value!r:.60}: must be a number")
    return float(value) if isinstance(value, float | np.floating) else int(value)


def _compile(kernel: Any, capability: tuple[int, int]) -> str:
    try:
        import warp
    except ImportError as error:
        raise ConfigError(f"warp: cannot be imported ({error}): install it with 'rdmodel[warp]'") from None
    with tempfile.TemporaryDirectory() as folder:
        try:
            warp.compile_aot_module(
                kernel.module, arch=10 * capability[0] + capability[1], module_dir=folder, use_ptx=True
            )
            (path,) = Path(folder).glob("*.ptx")
        except Exception as error:  # the compiler has many errors, and each is about the module of the kernel
            text = " ".join(str(error).split())
            target = "sm_{}{}".format(*capability)
            raise ConfigError(f"{kernel.key}: Warp cannot compile it for {target}: {text[-400:]}") from error
        return path.read_text(encoding="utf-8", errors="replace")


def _entry(kernel: Any, ptx: str) -> str:
    """Return the name of the forward kernel in the PTX of its module."""
    import re

    found = re.findall(rf"\.entry\s+({re.escape(kernel.key)}_\w+_cuda_kernel_forward)\b", ptx)
    return str(found[0]) if found else f"{kernel.key}_cuda_kernel_forward"
