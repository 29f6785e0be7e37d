"""Count the work of named kernels that are loop nests, too: the nests declare the arithmetic."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rdmodel.trace import Work
from tracegen.affine.bundled import names

if TYPE_CHECKING:
    from tracegen.affine import AffineTrace


def has_nest(kernel: str) -> bool:
    """Return whether a named kernel has a loop nest."""
    return kernel in names()


def nest_work(
    kernel: str, threads: tuple[int, int, int], sizes: tuple[tuple[str, int], ...], block: int
) -> Work | None:
    """Return the work of one block of a kernel with a shape of its blocks and sizes."""
    return _nest(kernel, threads, sizes).block_work(block)


@lru_cache(maxsize=8)
def _nest(kernel: str, threads: tuple[int, int, int], sizes: tuple[tuple[str, int], ...]) -> AffineTrace:
    # The modules of loop nests are many, and most kernels are asked for their addresses only.
    from tracegen.affine import load_affine

    params: dict[str, Any] = dict(sizes)
    return load_affine(kernel).trace(block=threads, **params)
