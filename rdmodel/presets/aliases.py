"""Find presets by the names that people type and that drivers report: ``A100``, ``NVIDIA GeForce RTX 3070``.

Names are compared without case, spaces and punctuation, and without words such as NVIDIA, GeForce and Tesla.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from rdmodel.errors import ConfigError, suggestion, unknown

FILLERS = ("nvidia", "geforce", "tesla", "quadro", "graphics", "gpu")
"""Words of a product name that do not distinguish it."""

ALIASES: Mapping[str, tuple[str, ...]] = {
    "gtx570-16k": ("GTX 570",),
    "k40c-16k": ("K40c", "K40"),
    "titan-x-maxwell": ("GTX TITAN X", "TITAN X Maxwell", "GM200"),
    "p100": ("P100-SXM2-16GB", "P100-PCIE-16GB", "P100-PCIE-12GB", "GP100"),
    "titan-x-pascal": ("TITAN X (Pascal)", "NVIDIA TITAN X (Pascal)", "GP102"),
    "v100": (
        "V100-PCIE-16GB",
        "V100-PCIE-32GB",
        "V100-SXM2-16GB",
        "V100-SXM2-32GB",
        "V100-SXM3-32GB",
        "V100S-PCIE-32GB",
    ),
    "gv100": ("QV100",),
    "rtx2080ti": ("2080 Ti",),
    "a100-40g": ("A100-PCIE-40GB", "A100-SXM4-40GB", "A100 40GB"),
    "a100-80g": ("A100", "A100 80GB", "A100 80GB PCIe", "A100-PCIE-80GB", "A100-SXM4-80GB", "A100-SXM-80GB", "GA100"),
    "titan-rtx": ("TITAN RTX",),
    "rtx3070": ("3070", "GA104"),
    "rtx3090": ("3090",),
    "a4000": ("RTX A4000",),
    "a6000": ("RTX A6000",),
    "rtx4090": ("4090",),
    "h100-pcie": ("H100 80GB PCIe", "H100-PCIE-80GB"),
    "h100-sxm": ("H100", "H100 80GB HBM3", "H100 SXM5", "H100-SXM5-80GB", "GH100"),
    "h200": ("H200 SXM", "H200 141GB HBM3e", "GH200", "GH200 480GB", "GH200 120GB", "GH200 144G HBM3e"),
    "b200": ("B200 SXM", "B200 180GB HBM3e"),
    "rtx5090": ("5090", "GB202"),
}
"""Further names of the presets; each preset is also found by its own."""

AMBIGUOUS = {
    "TITAN X": ("titan-x-maxwell", "titan-x-pascal"),
    "GA102": ("rtx3090", "a40", "a6000"),
    "AD102": ("rtx4090", "l40"),
}
"""Names that several presets share, none of which is more usual than the others."""


OWN_GPU_HINT = "To describe another GPU, use rdmodel gpus --like NAME --set KEY=VALUE -o mine.toml"
"""The advice after an unknown name."""


def resolve_name(name: str, presets: Sequence[str]) -> str:
    """Return the preset that a name means, among `presets`.

    ``a100`` means the one with 80 GB, and ``h100`` the SXM module. Raises `ConfigError` for a name that several presets
    share, and for an unknown one, with similar names.
    """
    if name in presets:
        return name
    wanted, found = simplify(name), _by_simple_name(presets)
    for shared, candidates in AMBIGUOUS.items():
        if wanted == simplify(shared):
            raise ConfigError(f"gpu={name!r}: is the name of several GPUs; choose {' or '.join(candidates)}")
    if wanted in found:
        return found[wanted]
    message = unknown("GPU", name, presets)
    if not suggestion(name, presets):
        near = dict.fromkeys(found[close] for close in get_close_matches(wanted, found, n=3, cutoff=0.6))
        if near:
            message = f"unknown GPU {name!r}; did you mean {' or '.join(map(repr, near))}?"
    raise ConfigError(f"{message}{'' if message.endswith('?') else '.'} {OWN_GPU_HINT}")


def simplify(name: str) -> str:
    """Return a name in small letters and digits, without the words in `FILLERS`."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "".join(word for word in words if word not in FILLERS)


def _by_simple_name(presets: Sequence[str]) -> dict[str, str]:
    found = {simplify(preset): preset for preset in presets}
    found |= {simplify(alias): preset for preset, aliases in ALIASES.items() for alias in aliases}
    return found
