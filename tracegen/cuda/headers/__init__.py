"""Small headers for device code, where a compiler at run time has none and a program includes the host's.

Each is our own and holds what device code needs of the header it stands for; many need nothing. A header that is not
here and not found by ``-I`` is the compiler's to complain about.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

_SAME: dict[str, str] = {
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
"""Headers that are others by another name."""


@cache
def _empty() -> frozenset[str]:
    """Return the headers of which device code needs nothing that the compiler does not have."""
    return frozenset((resources.files(__name__) / "empty.txt").read_text(encoding="utf-8").split())


def names() -> frozenset[str]:
    """Return every header that is built in."""
    return _empty() | frozenset(_SAME) | frozenset(_files())


def text(name: str) -> str:
    """Return a built-in header's text; raises KeyError for one that is not built in."""
    if name in _empty():
        return ""
    return f"#include <{_SAME[name]}>\n" if name in _SAME else _files()[name]


@cache
def _files() -> dict[str, str]:
    found = {}
    for entry in resources.files(__name__).iterdir():
        if entry.name.endswith(".cuh"):
            found[entry.name.removesuffix(".cuh")] = entry.read_text(encoding="utf-8")
    return found
