"""Generate traces of loop nests with affine bounds, guards and subscripts, as compilers represent kernels.

Each file imports only files before it: `affine_form`, `expression`, `statements`, `nest`, then `bounds`,
`uniform_ranges`, `shortening`, `recording` and `shifting`, then `binding` and `generation`, and finally `trace`,
`kernel`, `json_form` and `build_trace`.
"""

from tracegen.affine.build_trace import affine_kernel
from tracegen.affine.bundled import names
from tracegen.affine.json_form import from_json, load_affine, to_json
from tracegen.affine.kernel import AffineKernel
from tracegen.affine.statements import AffineArray, Atomic, Barrier, Compute, Gap, Guard, Load, Loop, Store, Wait
from tracegen.affine.trace import AffineTrace

__all__ = [
    "AffineArray",
    "AffineKernel",
    "AffineTrace",
    "Atomic",
    "Barrier",
    "Compute",
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
