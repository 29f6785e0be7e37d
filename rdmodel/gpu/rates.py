"""Describe what an SM and the paths of memory do in a cycle, as frozen values (docs/time.md)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rdmodel.common.checks import check_number
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError

MATRIX_RATES = (
    *("matrix_fp16", "matrix_bf16", "matrix_tf32", "matrix_fp64", "matrix_fp8", "matrix_int8"),
    *("matrix_fp16_fp16", "matrix_fp8_fp16"),
)
"""Rates of matrix units, 0 where there is none."""

MAY_BE_ZERO = (*MATRIX_RATES, "bulk_latency", "launch_latency", "dram_queue_latency", "dram_mixed_queue_latency")
"""Rates that are 0 on GPUs that lack the unit, and times that may be left out."""

SHARES_OF_PEAKS = ("matrix_clock", "l2_efficiency", "dram_efficiency", "dram_mixed_efficiency")
"""Rates that are a share of a peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesConfig:
    """Rates that a GPU has in place of those of its compute capability (None); all are numbers above 0.

    Per SM and cycle of its clock: `issue` warp instructions; `fp32`, `fp16`, `fp64`, `int`, `special`, `conversion`
    and `conversion_64` (from or to 64 bits) results of single threads; `matrix_fp16` and so on: floating-point (or
    integer) operations of matrix products, by the type of the factors (0: no such unit), and `matrix_fp16_fp16` and
    `matrix_fp8_fp16` of those whose sums are in half precision (0: as with other sums); `requests` memory instructions
    of warps; `l1_bytes` of data from the L1; `shared_wavefronts` passes over the banks of shared memory;
    `constant_loads` words from constant memory by instructions of their own; `l2_port_bytes` from the L2.

    A slice of the L2 moves `l2_slice_bytes` per cycle of its own clock; all of them together reach `l2_efficiency` of
    the sum. The DRAM reaches `dram_efficiency` of its peak if it is only read or only written, and
    `dram_mixed_efficiency` if as much is read as is written. Loads from a DRAM that is always busy take
    `dram_queue_latency` nanoseconds longer, or `dram_mixed_queue_latency`. The GPU starts `block_starts` blocks per
    cycle of the SMs in all, and a launch takes `launch_latency` microseconds beyond the time of its blocks. If matrix
    units are always busy, the clock falls to the share `matrix_clock` of the highest one, since the GPU bounds its
    power.

    The latencies are cycles from an instruction to another one that needs its result; `matrix_latency` is that of a
    matrix product with 2048 operations per warp. `bulk_latency` are the cycles that a bulk copy to shared memory takes
    beyond those of a load from the L2 (0: there are none).
    """

    issue: float | None = None
    fp32: float | None = None
    fp16: float | None = None
    fp64: float | None = None
    int: float | None = None
    special: float | None = None
    conversion: float | None = None
    conversion_64: float | None = None
    matrix_fp16: float | None = None
    matrix_bf16: float | None = None
    matrix_tf32: float | None = None
    matrix_fp64: float | None = None
    matrix_fp8: float | None = None
    matrix_int8: float | None = None
    matrix_fp16_fp16: float | None = None
    matrix_fp8_fp16: float | None = None
    matrix_clock: float | None = None
    requests: float | None = None
    l1_bytes: float | None = None
    shared_wavefronts: float | None = None
    constant_loads: float | None = None
    l2_port_bytes: float | None = None
    l2_slice_bytes: float | None = None
    l2_efficiency: float | None = None
    dram_efficiency: float | None = None
    dram_mixed_efficiency: float | None = None
    dram_queue_latency: float | None = None
    dram_mixed_queue_latency: float | None = None
    block_starts: float | None = None
    launch_latency: float | None = None
    fp32_latency: float | None = None
    fp16_latency: float | None = None
    fp64_latency: float | None = None
    int_latency: float | None = None
    special_latency: float | None = None
    conversion_latency: float | None = None
    matrix_latency: float | None = None
    shared_latency: float | None = None
    bulk_latency: float | None = None
    barrier_latency: float | None = None

    def __post_init__(self) -> None:
        """Reject impossible numbers."""
        for name, value in self.given().items():
            check_number(name, value, 0)
            if value == 0 and name not in MAY_BE_ZERO:
                raise ConfigError(f"{name}={value}: must be above 0")
            if value > 1 and name in SHARES_OF_PEAKS:
                raise ConfigError(f"{name}={value}: must be at most 1, the peak")

    def given(self) -> dict[str, Any]:
        """Return the rates that are not None, by name."""
        values = {name: getattr(self, name) for name in RATE_NAMES}
        return {name: value for name, value in values.items() if value is not None}


RATE_NAMES = tuple(f.name for f in fields(RatesConfig))
"""The names of all rates."""
