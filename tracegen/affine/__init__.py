"""Kernels in the form in which compilers know them: loop nests with affine bounds, guards and subscripts.

Floors within: `forms` - `expression` - `kernel` - `form` | `nest` - `bounds`, `stretches`, `recording`, `moving` -
`binding`, `generation` - `trace`.
"""

from tracegen.affine.form import from_json, load_affine, to_json
from tracegen.affine.kernel import (
    AffineArray,
    AffineKernel,
    Atomic,
    Barrier,
    Gap,
    Guard,
    Load,
    Loop,
    Store,
    Wait,
)
from tracegen.affine.library import names
from tracegen.affine.trace import AffineTrace, affine_kernel

__all__ = [
    "AffineArray",
    "AffineKernel",
    "AffineTrace",
    "Atomic",
    "Barrier",
    "Gap",
    "Guard",
    "Load",
    "Loop",
    "Store",
    "Wait",
    "affine_kernel",
    "from_json",
    "load_affine",
    "names",
    "to_json",
]
