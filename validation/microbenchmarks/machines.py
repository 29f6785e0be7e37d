"""List the machines to recover, and the expected results from their configurations."""

from __future__ import annotations

from typing import Any

from rdmodel import presets
from rdmodel.gpu.config import GPU, replace
from rdmodel.policies import KIND_LINEAR, KIND_MODULO, BXor, Masks, PMod, Pric
from validation.microbenchmarks.gf2 import reduced
from validation.microbenchmarks.mshr import Mshrs
from validation.microbenchmarks.set_index import L1, TOP_BIT

PAPER = "gtx470-16k"
PAPER_MSHRS = f"{PAPER}, 6 MSHRs per warp"


def machines() -> dict[str, GPU]:
    """Return all machines by name: presets, and presets with a part replaced."""
    found = {name: presets.gpu(name) for name in (PAPER, "gtx470-48k", "gtx480-khairy", "wang-32k", "k40c-16k")}
    return {
        **found,
        PAPER_MSHRS: changed(PAPER, mshr_per_warp=6),
        "gtx470-16k, bxor, allocate on fill": changed(PAPER, index=BXor(), allocate="fill"),
        "wang-32k, pric, 48 MSHRs": changed("wang-32k", index=Pric(), mshrs=48, mshr_merge=None),
        "gtx470-16k, bit 20 for bit 19": changed(PAPER, index=Masks(masks=(65, 130, 260, 1032, 16 | 1 << 13))),
        "gtx470-16k, pmod": changed(PAPER, index=PMod(), mshrs=20, mshr_per_warp=1),
    }


def changed(preset: str, **l1: Any) -> GPU:
    """Return a preset with fields of its L1 changed."""
    gpu = presets.gpu(preset)
    return gpu.replace(l1=replace(gpu.l1, **l1))


def configured(gpu: GPU) -> tuple[L1, Mshrs]:
    """Return the results that the micro-benchmarks should find for a machine."""
    l1, code = gpu.l1, gpu.l1.index_code()
    visible = (1 << TOP_BIT + 1 - l1.line_bits) - 1
    linear = code.kind == KIND_LINEAR and not code.modulus
    sets = code.modulus if code.kind == KIND_MODULO else code.sets
    masks = reduced(mask & visible for mask in code.masks) if linear else None
    return (
        L1(l1.line, sets * l1.ways, l1.ways, gpu.core.hit_latency, masks),
        Mshrs(l1.mshrs, l1.mshr_per_warp, l1.mshr_merge),
    )
