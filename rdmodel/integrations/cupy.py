"""Trace kernels in source texts, as ``cupy.RawKernel`` takes them; neither CuPy nor a GPU is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.integrations.ptx_launch import Shape
from rdmodel.trace import Trace

__all__ = ["RawKernel", "trace"]


@dataclass(frozen=True, slots=True)
class RawKernel:
    """A kernel in a source text: the arguments of ``cupy.RawKernel``."""

    code: str
    name: str
    options: tuple[str, ...] = ()


def trace(
    kernel: Any,
    grid: Shape,
    block: Shape,
    args: Sequence[Any],
    *,
    shared_mem: int = 0,
    architecture: str | None = None,
    blocks: Sequence[int] | None = None,
) -> Trace:
    """Trace a launch ``kernel(grid, block, args, shared_mem=shared_mem)`` of a raw kernel.

    Parameters
    ----------
    kernel
        A ``cupy.RawKernel``, a `RawKernel`, or any object with `code`, `name` and `options`.
    grid, block
        Blocks of the grid and threads of a block: one to three numbers (x, y, z).
    args
        NumPy arrays and numbers. The arrays do not change.
    shared_mem
        Bytes of dynamic shared memory.
    architecture
        Virtual architecture; default ``compute_75``.
    blocks
        Ids of the blocks in the trace (None: all).

    Raises
    ------
    ConfigError, LaunchError, TraceError
        As `tracegen.cuda.trace` does.
    """
    from tracegen import cuda

    code, name = getattr(kernel, "code", None), getattr(kernel, "name", None)
    if not isinstance(code, str) or not isinstance(name, str):
        raise ConfigError(
            f"kernel={kernel!r:.60}: must have the source text as code, and the name of the kernel as name"
        )
    return cuda.trace(
        code,
        name,
        grid,
        block,
        list(args),
        shared=shared_mem,
        options=tuple(getattr(kernel, "options", None) or ()),
        architecture=architecture,
        blocks=blocks,
    )
