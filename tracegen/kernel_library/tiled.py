"""Kernels that come as loop nests only: those whose tile sizes are parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn

from rdmodel.errors import ConfigError
from tracegen.affine import AffineKernel, AffineTrace, load_affine


@dataclass(frozen=True, slots=True)
class TiledSpec:
    """What there is to know about a tiled kernel: as `KernelSpec`; tile sizes and the block's shape are among `sizes`.

    `kernel` is the loop nest itself.
    """

    name: str
    description: str
    sizes: Mapping[str, int]
    block: tuple[int, int, int]
    kernel: AffineKernel = field(repr=False, compare=False)

    @property
    def inputs(self) -> Sequence[str]:
        """Empty: there is no data to hand in."""
        return ()

    def trace(
        self, *, block: Sequence[int] | None, blocks: Sequence[int] | None, base: int | None, **params: Any
    ) -> AffineTrace:
        """Return the kernel's trace; see `tracegen.kernel`."""
        return self.kernel.trace(block=block, blocks=blocks, base=base, **params)

    def result(self, **params: Any) -> NoReturn:
        """Raise `ConfigError`: a loop nest says what is accessed, not what is computed."""
        raise ConfigError(f"{self.name}: says what it accesses, not what it computes")


@cache
def tiled_spec(name: str) -> TiledSpec:
    """Return what there is to know about the tiled kernel called `name`."""
    kernel = load_affine(name)
    block = kernel.trace().launch.block
    return TiledSpec(kernel.name, kernel.description, dict(kernel.parameters), block, kernel)
