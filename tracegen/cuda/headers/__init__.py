"""Provide small headers for device code in place of host headers that NVRTC does not have.

Each header contains the declarations that device code needs; many are empty. The compiler reports a header that is
neither here nor in a folder of ``-I``.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_ALIASES: dict[str, str] = {
    "math.h": "cmath",
    "math_constants.h": "cmath",
    "cstdio": "stdio.h",
    "cstdint": "stdint.h",
    "inttypes.h": "stdint.h",
    "cinttypes": "stdint.h",
    "sys/types.h": "stdint.h",
    "climits": "limits.h",
    "ctime": "time.h",
    "cfloat": "float.h",
    "cuda_runtime.h": "cuda.h",
    "cuda_runtime_api.h": "cuda.h",
    "cooperative_groups/reduce.h": "cooperative_groups.h",
    "cub/cub.cuh": "rdmodel_cub.h",
    "cufftXt.h": "cufft.h",
    "cufftw.h": "cufft.h",
}
"""Headers with the same contents as another one."""


_HOST_ONLY = re.compile(
    r"thrust/.*|cub/cub\.cuh|cub/device/.*|cuda_(?:gl|egl|vdpau)_\w+\.h|cuda_profiler_api\.h|cuda(?:EGL|GL|VDPAU)\w*\.h"
)
"""Headers of NVIDIA that NVRTC cannot compile: host code alone needs them, or the built-in one has the other part."""

_THRUST_TYPES = ("thrust/tuple.h", "thrust/pair.h", "thrust/complex.h")
"""Headers of Thrust with types that device code uses."""

_WITH_NARROW_TYPES = re.compile(r"(?:cublas|cusparse|cudnn|cufft|nccl)")
"""Beginnings of the names of library headers that declare the narrow and complex types to their users."""

_NARROW_TYPES = "".join(
    f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n"
    for name in ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuComplex.h")
)


_OF_PYTORCH = re.compile(r"(?:torch|ATen|c10)/")


def is_of_pytorch(name: str) -> bool:
    """Return whether a header is one of PyTorch, most of which is host code; ``rdmodel_torch.h`` has the other part."""
    return _OF_PYTORCH.match(name) is not None


def is_host_only(name: str) -> bool:
    """Return whether the header of this name is left aside, although NVIDIA or PyTorch has it."""
    return _HOST_ONLY.fullmatch(name) is not None or is_of_pytorch(name)


def missing_text(name: str) -> str:
    """Return the declarations in place of a header that is missing: those of the narrow types, usually none."""
    if is_of_pytorch(name):
        return "#include <rdmodel_torch.h>\n"
    if name in _THRUST_TYPES:
        return "#include <rdmodel_thrust.h>\n"
    return _NARROW_TYPES if _WITH_NARROW_TYPES.match(name) else ""


@cache
def _empty_headers() -> frozenset[str]:
    """Return the headers without a declaration that device code needs."""
    return frozenset((resources.files(__name__) / "empty.txt").read_text(encoding="utf-8").split())


def header_names() -> frozenset[str]:
    """Return the names of all built-in headers."""
    return _empty_headers() | frozenset(_ALIASES) | frozenset(_header_files())


def header_text(name: str) -> str:
    """Return the text of a built-in header; raises KeyError for an unknown name."""
    if name in _empty_headers():
        return ""
    return f"#include <{_ALIASES[name]}>\n" if name in _ALIASES else _header_files()[name]


@cache
def _header_files() -> dict[str, str]:
    texts = {}
    for entry in resources.files(__name__).iterdir():
        if entry.name.endswith(".cuh"):
            texts[entry.name.removesuffix(".cuh")] = entry.read_text(encoding="utf-8")
    return texts
