"""Provide small headers for device code in place of host headers that NVRTC does not have.

Each header contains the declarations that device code needs; many are empty. The compiler reports a header that is
neither here nor in a folder of ``-I``.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

_ALIASES: dict[str, str] = {
    "math.h": "cmath",
    "math_constants.h": "cmath",
    "cstdint": "stdint.h",
    "inttypes.h": "stdint.h",
    "cinttypes": "stdint.h",
    "sys/types.h": "stdint.h",
    "climits": "limits.h",
    "cfloat": "float.h",
    "cuda_runtime.h": "cuda.h",
    "cuda_runtime_api.h": "cuda.h",
    "cooperative_groups/reduce.h": "cooperative_groups.h",
}
"""Headers with the same contents as another one."""


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
