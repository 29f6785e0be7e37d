"""Define `Work`: what blocks of a launch execute, by class of instruction, with their memory requests and conflicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError

ARITHMETIC_CLASSES = (
    "fp32",
    "packed_fp32",
    "fp16",
    "fp64",
    "int",
    "special",
    "conversion",
    "conversion_64",
    "int_to_fp32",
    "pack_fp16",
    "fp16_to_fp32",
    "matrix",
    "shuffle",
    "branch",
    "barrier",
    "other",
)
"""Classes of instructions that do not access memory."""

MEMORY_CLASSES = (
    "load_global",
    "store_global",
    "atomic_global",
    "load_local",
    "store_local",
    "load_shared",
    "store_shared",
    "atomic_shared",
    "load_constant",
    "load_constant_guarded",
    "load_constant_indexed",
    "load_texture",
)
"""Classes of instructions that access memory: operation and space."""

INSTRUCTION_CLASSES = (*ARITHMETIC_CLASSES, *MEMORY_CLASSES)
"""Keys of `Work.instructions`."""

OPERATIONS = (*(f"{p}_{o}" for p in ("fp32", "fp16", "fp64") for o in ("add", "mul", "fma", "other")), "int")
"""Keys of `Work.operations`."""

MATRIX_TYPES = (
    *("fp16", "bf16", "tf32", "fp64", "fp8", "fp6", "fp4", "int8", "int4", "binary"),
    *("fp16_fp16", "fp8_fp16"),
)
"""Keys of `Work.matrix_flops`: types of the factors of a matrix product.

Products with sums in half precision are apart (``fp16_fp16``), since some GPUs compute them at another rate.
"""

L1_ACCESSES = ("load_global", "store_global", "atomic_global", "load_local", "store_local", "load_texture")
"""Keys of `Work.requests`, `Work.tag_lookups` and `Work.sectors`: classes of instructions that go through the L1."""

CONSTANT_ACCESSES = ("load_constant", "load_constant_guarded", "load_constant_indexed")
"""Classes of loads from constant memory."""

SHARED_ACCESSES = ("load_shared", "store_shared", "atomic_shared")
"""Keys of `Work.shared_wavefronts` and `Work.shared_groups`."""

_KEYS = {
    "instructions": INSTRUCTION_CLASSES,
    "operations": OPERATIONS,
    "matrix_flops": MATRIX_TYPES,
    "requests": L1_ACCESSES,
    "tag_lookups": L1_ACCESSES,
    "sectors": L1_ACCESSES,
    "shared_wavefronts": SHARED_ACCESSES,
    "shared_groups": SHARED_ACCESSES,
}

Counts = Mapping[str, float]
"""Numbers by name: whole numbers (`int`) as counted, real ones after scaling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of some blocks: totals over `blocks` blocks with `warps` warps.

    Works of different blocks add up: ``a + b``. `scaled` extrapolates to another number of blocks. Every mapping has
    all of its keys, in a fixed order; a missing one is filled with 0, an unknown one raises `TraceError`.

    Attributes
    ----------
    blocks, warps
        Number of blocks that were counted, and of their warps.
    instructions
        Instructions of warps that were issued, by class (`INSTRUCTION_CLASSES`). A warp whose lanes are all switched
        off by a predicate issues the instruction, too. Without `has_arithmetic`, all instructions that do not access
        memory are in the class ``other``. Loads from constant memory whose address depends on the thread
        (``indexed``), and those in short branches (``guarded``), are apart: GPUs differ in which of them are operands.
    operations
        Arithmetic of single threads (`OPERATIONS`), active lanes only: additions and subtractions, multiplications,
        fused multiply-adds, and others (divisions and square roots) per precision, and integer instructions. A packed
        instruction of half precision counts once per element.
    matrix_flops
        Floating-point (or integer) operations of matrix products, two per multiply-add of the shape, by the type of
        the factors (`MATRIX_TYPES`); apart are those whose sums are in half precision (``fp16_fp16``).
    matrix_bytes
        Bytes of factors that matrix products read from shared memory, without a load.
    requests
        Instructions of warps with at least one active lane that send a request to the L1 (`L1_ACCESSES`).
    tag_lookups
        Lines that these requests look up: transactions.
    sectors
        Sectors that these requests access.
    shared_wavefronts
        Passes over the 32 banks of shared memory (`SHARED_ACCESSES`), by `rdmodel.trace.banks`.
    shared_groups
        Passes that the same accesses need without conflicts: one per warp for up to 4 bytes per lane, one per half
        warp for 8 bytes, one per quarter warp for 16 bytes.
    constant_replays
        Additional passes of loads from constant memory: the distinct words of a warp, minus one.
    has_arithmetic
        Whether the trace tells the classes of instructions that do not access memory. If not, `operations` and
        `matrix_flops` are 0.
    has_shared
        Whether the trace tells the accesses to shared memory.
    """

    blocks: float
    warps: float
    instructions: Counts = field(default_factory=dict)
    operations: Counts = field(default_factory=dict)
    matrix_flops: Counts = field(default_factory=dict)
    requests: Counts = field(default_factory=dict)
    tag_lookups: Counts = field(default_factory=dict)
    sectors: Counts = field(default_factory=dict)
    shared_wavefronts: Counts = field(default_factory=dict)
    shared_groups: Counts = field(default_factory=dict)
    constant_replays: float = 0
    matrix_bytes: float = 0
    has_arithmetic: bool = True
    has_shared: bool = True

    def __post_init__(self) -> None:
        """Give every mapping all of its keys."""
        for name, keys in _KEYS.items():
            given = getattr(self, name)
            if not given.keys() <= set(keys):
                raise TraceError(f"{name}: {sorted(given.keys() - set(keys))}: must be among {', '.join(keys)}")
            object.__setattr__(self, name, {key: given.get(key, 0) for key in keys})

    def __add__(self, other: Work) -> Work:
        """Return the work of both groups of blocks; a property holds if it holds for both."""
        changes: dict[str, Any] = {
            name: {key: getattr(self, name)[key] + getattr(other, name)[key] for key in keys}
            for name, keys in _KEYS.items()
        }
        return Work(
            blocks=self.blocks + other.blocks,
            warps=self.warps + other.warps,
            constant_replays=self.constant_replays + other.constant_replays,
            matrix_bytes=self.matrix_bytes + other.matrix_bytes,
            has_arithmetic=self.has_arithmetic and other.has_arithmetic,
            has_shared=self.has_shared and other.has_shared,
            **changes,
        )

    def scaled(self, blocks: float) -> Work:
        """Return the work of `blocks` blocks that are like these on average."""
        if blocks == self.blocks:
            return self
        factor = blocks / self.blocks if self.blocks else 0.0
        changes: dict[str, Any] = {
            name: {key: _product(value, factor) for key, value in getattr(self, name).items()} for name in _KEYS
        }
        return replace(
            self,
            blocks=blocks,
            warps=_product(self.warps, factor),
            constant_replays=_product(self.constant_replays, factor),
            matrix_bytes=_product(self.matrix_bytes, factor),
            **changes,
        )

    @property
    def issued(self) -> float:
        """Instructions of warps, of all classes."""
        return sum(self.instructions.values())

    @property
    def flops(self) -> dict[str, float]:
        """Floating-point operations of single threads by precision, without matrix products; an fma counts as two."""
        o = self.operations
        return {
            p: o[f"{p}_add"] + o[f"{p}_mul"] + 2 * o[f"{p}_fma"] + o[f"{p}_other"] for p in ("fp32", "fp16", "fp64")
        }

    @property
    def shared_conflicts(self) -> dict[str, float]:
        """Wavefronts of shared memory beyond those that the accesses need without conflicts."""
        return {key: self.shared_wavefronts[key] - self.shared_groups[key] for key in SHARED_ACCESSES}

    def to_dict(self) -> dict[str, Any]:
        """Return all fields and derived values as plain numbers and dicts."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {"flops": self.flops, "shared_conflicts": self.shared_conflicts}


def _product(value: float, factor: float) -> float:
    """Return a product, as a whole number where it is one."""
    product = value * factor
    return int(product) if float(product).is_integer() else product


def work_rows(work: Work) -> list[tuple[str, float]]:
    """Return the names and the numbers of the parts of a work that are not 0, for tables; parts are indented."""
    rows = [("executed instructions", work.issued)]
    rows += [(f"  {name.replace('_', ' ')}", n) for name, n in work.instructions.items() if n]
    rows += [(f"flops, {name}", n) for name, n in work.flops.items() if n]
    for name, n in work.matrix_flops.items():
        if n:
            factors, _, sums = name.partition("_")
            rows.append((f"flops of matrix products, {factors}" + (f" with sums in {sums}" if sums else ""), n))
    if work.matrix_bytes:
        rows.append(("  bytes from shared memory", work.matrix_bytes))
    for name, n in work.shared_wavefronts.items():
        if n:
            verb = name.partition("_")[0]
            rows += [(f"wavefronts of shared {verb}s", n), ("  conflicts", work.shared_conflicts[name])]
    if work.constant_replays:
        rows.append(("replays of constant loads", work.constant_replays))
    return rows


def no_work() -> Work:
    """Return the work of no block, which adds nothing to another one."""
    return Work(blocks=0, warps=0)
