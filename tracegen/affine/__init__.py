"""Generate traces of loop nests with affine bounds, guards and subscripts, as compilers represent kernels.

Each file imports only files before it: `affine_form`, `expression`, `statements`, `nest`, then `bounds`,
`uniform_ranges`, `shortening`, `recording` and `shifting`, then `binding` and `generation`, and finally `trace`,
`kernel`, `json_form` and `build_trace`.
"""

from rdmodel.common.lazy_names import lazy_names

_HOMES = {
    "tracegen.affine.build_trace": ("affine_kernel",),
    "tracegen.affine.bundled": ("names",),
    "tracegen.affine.json_form": (
        "from_json",
        "load_affine",
        "to_json",
    ),
    "tracegen.affine.kernel": ("AffineKernel",),
    "tracegen.affine.statements": (
        "AffineArray",
        "Atomic",
        "Barrier",
        "Compute",
        "Gap",
        "Guard",
        "Load",
        "Loop",
        "Store",
        "Wait",
    ),
    "tracegen.affine.trace": ("AffineTrace",),
}
"""The names of this package by the modules that define them, which are imported on first use."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
