"""Generate traces: kernels in Python, loop nests, named kernels, access patterns, CUDA, and files of other tools.

>>> import tracegen
>>> tracegen.kernel("atax.1", NX=512, NY=512).launch.grid
(2, 1, 1)
"""

from rdmodel.common.lazy_names import lazy_names

_HOMES = {
    "tracegen.affine.build_trace": ("affine_kernel",),
    "tracegen.affine.json_form": ("load_affine",),
    "tracegen.affine.kernel": ("AffineKernel",),
    "tracegen.affine.trace": ("AffineTrace",),
    "tracegen.arrays": ("Array", "Buffer"),
    "tracegen.kernel_library.registry": ("KernelSpec", "kernel", "kernels"),
    "tracegen.kernel_library.tiled": ("TiledSpec",),
    "tracegen.simt.block": ("Block",),
    "tracegen.simt.kernel_trace": ("KernelTrace", "trace"),
}
"""The public names by the modules that define them, which are imported on first use."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES, ("patterns",))
