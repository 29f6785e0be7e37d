"""Provide the kernels with tile sizes as parameters, which are loop nests in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from tracegen.unrolling import DEFAULT_UNROLL, Unroll

if TYPE_CHECKING:
    from tracegen.affine import AffineKernel, AffineTrace


@dataclass(frozen=True, slots=True)
class TiledSpec:
    """Specification of a tiled kernel, as `KernelSpec`; `sizes` include tile sizes and the shape of a block.

    `kernel` is the loop nest.
    """

    name: str
    description: str
    sizes: Mapping[str, int]
    block: tuple[int, int, int]
    kernel: AffineKernel = field(repr=False, compare=False)

    @property
    def inputs(self) -> Sequence[str]:
        """Empty: the kernel has no input data."""
        return ()

    def trace(
        self,
        *,
        block: Sequence[int] | None,
        blocks: Sequence[int] | None,
        base: int | None,
        unroll: Unroll = DEFAULT_UNROLL,
        **params: Any,
    ) -> AffineTrace:
        """Trace the kernel; see `tracegen.kernel`."""
        return self.kernel.trace(block=block, blocks=blocks, base=base, unroll=unroll, **params)

    def result(self, **params: Any) -> NoReturn:
        """Raise `ConfigError`: a loop nest has no computed result."""
        raise ConfigError(f"{self.name}: has no computed result, only a trace")


@cache
def tiled_spec(name: str) -> TiledSpec:
    """Return the specification of the tiled kernel `name`."""
    from tracegen.affine import load_affine

    kernel = load_affine(name)
    block = kernel.trace().launch.block
    return TiledSpec(kernel.name, kernel.description, dict(kernel.parameters), block, kernel)
