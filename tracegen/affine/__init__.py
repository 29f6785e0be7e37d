"""Kernels in the form in which compilers know them: loop nests with affine bounds, guards and subscripts.

Floors within: `forms` - `expression` - `kernel` - `form` | `nest` - `bounds`, `stretches`, `recording`, `moving` -
`binding`, `generation` - `trace`.
"""

from tracegen.affine.build_trace import affine_kernel
from tracegen.affine.bundled import names
from tracegen.affine.json_form import from_json, load_affine, to_json
from tracegen.affine.kernel import AffineKernel
from tracegen.affine.statements import AffineArray, Atomic, Barrier, Gap, Guard, Load, Loop, Store, Wait
from tracegen.affine.trace import AffineTrace

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
