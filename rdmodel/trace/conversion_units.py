"""Tell which units of an SM execute conversions between numbers.

Most conversions are instructions of the units for special functions. Three kinds are not, on later GPUs: ``ptxas``
makes other instructions of them, and these have the rate of the units for integers or for half precision
(docs/time.md, "Conversions"). Conversions from and to 64 bits (``conversion_64``) have a rate of their own. The units
for special functions execute them, or on GPUs with few units for double precision those.
"""

from __future__ import annotations

from collections.abc import Mapping

UNITS: Mapping[str, tuple[str, tuple[int, int]]] = {
    "int_to_fp32": ("int", (8, 6)),
    "pack_fp16": ("int", (8, 0)),
    "fp16_to_fp32": ("fp16", (7, 0)),
}
"""For classes of conversions, the class of instructions whose units execute them since a compute capability."""


PACKED = "packed_fp32"
"""Class of the instructions on two numbers of single precision (``fma.rn.f32x2``)."""


def unit_of(name: str, capability: tuple[int, int]) -> str:
    """Return the class whose units execute a class of conversions, on GPUs of a compute capability."""
    unit, since = UNITS[name]
    return unit if capability >= since else "conversion"


def unit_of_wide_conversions(rates: Mapping[str, float]) -> str:
    """Return the class whose units execute conversions from and to 64 bits, on a GPU with these rates.

    Where they are slower than other conversions and as slow as arithmetic in double precision, they take the units of
    the latter: a kernel with six of them for seven such operations takes the time of all thirteen (docs/time.md,
    "Conversions").
    """
    return "fp64" if rates["conversion_64"] == rates["fp64"] < rates["conversion"] else "conversion"


def by_unit(classes: Mapping[str, float], capability: tuple[int, int]) -> dict[str, float]:
    """Return instructions by class, with the conversions among those that the same units execute.

    An instruction on two packed numbers of single precision occupies its units as two others do.
    """
    found = {name: count for name, count in classes.items() if name not in UNITS and name != PACKED}
    if classes.get(PACKED):
        found["fp32"] = found.get("fp32", 0) + 2 * classes[PACKED]
    for name in UNITS:
        if classes.get(name):
            unit = unit_of(name, capability)
            found[unit] = found.get(unit, 0) + classes[name]
    return found
