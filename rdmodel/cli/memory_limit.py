"""Enforce ``--memory SIZE``: refuse runs that may exceed the limit, and enforce it on all others.

The limit is on the peak memory of the process. A run is refused before it starts if a bound on its need exceeds the
memory that remains; on Linux, the system then refuses allocations beyond the limit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.memory import data_limit, limited_data, memory_text, own_bytes, process_bytes
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError
from rdmodel.execution import memory_need
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.served_loads import bypasses_l1
from rdmodel.model.cores import is_sectored, runs_fast, store_rule
from rdmodel.model.dealing import deal
from rdmodel.model.options import Options
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import StoreRule
from tracegen.formats.names import COMPRESSED_EXTENSIONS, KERNELS_LIST_SUFFIX

MARGIN_BYTES = 2 << 20
"""Added to the need in a message, because the memory of the process itself varies from run to run."""

SMALL_FILE_BYTES = 16 << 20
"""Largest size of a file for which `SMALL_FILE_NEED` holds, if it is not packed."""

SMALL_FILE_NEED = 48 << 20
"""Upper bound of the memory, in bytes, that reading a small file takes."""

NATIVE_ADVICE = "rdmodel trace FILE --all -o FOLDER"
"""Command that makes a native trace, which takes little memory to read."""

ADVICE = {
    "predict": "model fewer blocks (--blocks, --threads) or SMs (--sms, --model-sms)",
    "mrc": "look at fewer blocks (--blocks, --threads) or SMs (--sms, --model-sms)",
    "simulate": "simulate fewer blocks (--blocks) or SMs (--sms)",
    "info": "make a trace of fewer blocks",
    "report": "report on fewer blocks (--blocks, --threads) or SMs (--sms, --model-sms)",
}
"""Advice in the refusal of each command."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The memory that a command may use, in bytes.

    `given` is the size given with ``--memory`` and `limit` the resulting bound on the data of the process; None means
    unlimited.
    """

    command: str
    given: int | None
    limit: int | None = None

    @property
    def room(self) -> int:
        """Number of bytes that the process may still allocate."""
        assert self.limit is not None
        return max(0, self.limit - process_bytes("VmData"))

    def admit_reading(self, source: Path, need: int) -> None:
        """Raise `ConfigError` unless a trace file can be read, which takes up to `need` bytes."""
        if self.limit is None:
            return
        need = min(need, SMALL_FILE_NEED) if _is_small(source) else need
        if need > self.room:
            given, required = memory_text(self.given or 0), memory_text(self._required(need))
            advice = f"give that much, or convert it to a native trace first ({NATIVE_ADVICE})"
            raise ConfigError(f"memory={given}: reading {source} may need {required}; {advice}")

    def admit_prediction(
        self, trace: Trace, gpu: GPU, options: Mapping[str, Any], progress: Progress, *, listed: bool = False
    ) -> None:
        """Raise `ConfigError` unless a run of `predict` with these options fits.

        With `listed`, the histogram must fit as well, with every distance as text.
        """
        if self.limit is None:
            return
        for name in ("sample_sms", "sample_blocks"):
            if options.get(name) is not None:
                raise ConfigError(
                    f"{name} cannot be combined with --memory: the memory of a sample is not known in advance"
                )
        if options.get("l2"):
            raise ConfigError("l2 cannot be combined with --memory: it needs an unknown amount of memory")
        seeds = options.get("seeds", 1)
        names = {field.name for field in dataclasses.fields(Options)}
        chosen = Options(**{name: value for name, value in options.items() if name in names}).resolve(gpu)
        per_sm = deal(trace.launch, chosen)
        warps = compute_occupancy(trace.launch, gpu).blocks * trace.launch.block_warps

        sectors = gpu.l1.sectors if is_sectored(gpu, chosen) else 0
        fast = runs_fast(gpu, chosen, warps, bypasses_l1(gpu.l1, trace))
        fast_ways = gpu.l1.sets * gpu.l1.ways if fast else 0

        def need(lines: int) -> int:
            run = memory_need.prediction_bytes(
                lines,
                sms=len(per_sm),
                sets=gpu.l1.sets,
                warps=warps,
                runs=seeds,
                sectors=sectors,
                fast_ways=fast_ways,
            )
            return run + (memory_need.JSON_BYTES_PER_DISTANCE * lines if listed else 0)

        # The dispatcher decides during the run which SM gets a block: any SM may get all of them.
        dispatched = chosen.model_sms == "all" and chosen.definition == "hardware"
        parts = [range(sum(map(len, per_sm)))] if dispatched else per_sm
        self._admit(trace, parts, gpu.l1.line, store_rule(chosen), need, progress)

    def admit_simulation(self, trace: Trace, gpu: GPU, options: Mapping[str, Any], progress: Progress) -> None:
        """Raise `ConfigError` unless a run of `simulate` with these options fits."""
        if self.limit is None:
            return
        launch = trace.launch
        blocks = launch.blocks if options["blocks"] is None else min(options["blocks"], launch.blocks)
        sms = min(gpu.sms if options["sms"] is None else options["sms"], blocks)
        warps = compute_occupancy(launch, gpu).blocks * launch.block_warps

        def need(lines: int) -> int:
            return memory_need.simulation_bytes(lines, sms=sms, warps=warps)

        rule = StoreRule.MACHINE if options["stores"] else StoreRule.MACHINE_LOADS
        self._admit(trace, [range(blocks)], gpu.l1.line, rule, need, progress)

    def admit_sample(
        self, trace: Trace, gpu: GPU, options: Options, rate: float, progress: Progress, *, listed: bool = False
    ) -> None:
        """Raise `ConfigError` unless following a share `rate` of the lines fits, with resolved `options`.

        With `listed`, the histogram must fit as well, with every distance as text.
        """
        if self.limit is None:
            return
        per_sm = deal(trace.launch, options)
        warps = compute_occupancy(trace.launch, gpu).blocks * trace.launch.block_warps

        def need(lines: int) -> int:
            run = memory_need.sampled_bytes(lines, rate, sms=len(per_sm), warps=warps)
            return run + (memory_need.JSON_BYTES_PER_DISTANCE * ceil(rate * lines) if listed else 0)

        advice = f"follow fewer lines (--sample), or {ADVICE['mrc']}"
        self._admit(trace, per_sm, gpu.l1.line, StoreRule.DROP, need, progress, advice)

    def admit_summary(self, trace: Trace, line: int, progress: Progress, blocks: Sequence[int] | None = None) -> None:
        """Raise `ConfigError` unless a summary of the trace fits, or of the given `blocks` of it."""
        if self.limit is None:
            return
        chosen = trace.blocks if blocks is None else blocks
        assert chosen is not None
        self._admit(trace, [chosen], line, StoreRule.LINES, memory_need.summary_bytes, progress)

    def _admit(
        self,
        trace: Trace,
        parts: Sequence[Sequence[int]],
        line: int,
        rule: StoreRule,
        need: Callable[[int], int],
        progress: Progress,
        advice: str = "",
    ) -> None:
        """Refuse the run if it does not fit: `need` maps the distinct lines of the largest part to bytes.

        Each of `parts` holds the blocks of one SM. The blocks are read once to count their lines, unless the run fits
        even if every line between the lowest and the highest address is requested, or no line is requested twice.
        """
        if need(0) > self.room:
            self._refuse(trace, "needs at least", need(0), "whatever its lines", advice)
        most = _largest_fitting(lambda lines: need(lines) <= self.room)
        if memory_need.addresses_within(trace, line, most):
            return
        if all(memory_need.transactions_within(trace, blocks, line, most) for blocks in parts):
            return
        lines = max(
            memory_need.count_lines(trace, blocks, line, rule, expected=most, progress=progress) for blocks in parts
        )
        if lines > most:
            each = " on each SM" if len(parts) > 1 else ""
            self._refuse(trace, "may need", need(lines), f"for up to {lines:,} distinct lines{each}", advice)

    def _required(self, need: int) -> int:
        """Return the size for ``--memory`` that leaves room for `need` bytes."""
        return need + (self.given or 0) - self.room + MARGIN_BYTES

    def _refuse(self, trace: Trace, needs: str, need: int, why: str, advice: str) -> None:
        raise ConfigError(
            f"memory={memory_text(self.given or 0)}: {self.command} of {trace.launch.kernel} {needs} "
            f"{memory_text(self._required(need))} {why}; give that much, or {advice or ADVICE[self.command]}"
        )


UNBOUNDED = Budget("", None)
"""The budget of a command without a memory limit."""


@contextmanager
def limit_memory(command: str, size: int | None) -> Iterator[Budget]:
    """Hold the process to `size` bytes of memory while a command runs; an allocation beyond raises `MemoryError`.

    Raises `ConfigError` for a size that is less than the process takes already.
    """
    if size is None:
        yield Budget(command, None)
        return
    least = own_bytes()
    if size <= least:
        raise ConfigError(f"memory={memory_text(size)}: rdmodel itself takes {memory_text(least)}; give more")
    limit = data_limit(size)
    with limited_data(limit):
        yield Budget(command, size, limit)


def _is_small(source: Path) -> bool:
    """Tell whether reading a file takes little memory: it is short, not packed and not a list of other files."""
    packed_or_list = source.suffix.lower() in (*COMPRESSED_EXTENSIONS, KERNELS_LIST_SUFFIX)
    return not packed_or_list and source.is_file() and source.stat().st_size <= SMALL_FILE_BYTES


def _largest_fitting(fits: Callable[[int], bool]) -> int:
    """Return the largest number that fits; 0 does, and so does any number below one that fits."""
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
