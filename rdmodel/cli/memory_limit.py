"""``--memory SIZE``: a promise about the peak of a command's memory, refused at the start or else kept."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from rdmodel.cli.text import bytes_text
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError
from rdmodel.execution import memory_need
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import residency
from rdmodel.model.cores import store_rule
from rdmodel.model.dealing import deal
from rdmodel.model.options import Options
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import StoreRule
from rdmodel.trace.mapped_pages import WINDOW
from tracegen.formats.accelsim import KERNELS_LIST_SUFFIX
from tracegen.formats.compressed import COMPRESSED_EXTENSIONS

SPARE = 24 << 20
"""Bytes for what is neither data nor known before: libraries' pages, and the last piece read of a trace."""

MARGIN = 2 << 20
"""Bytes on top of a need that a message tells: what is known may differ by less from one run to the next."""

SMALL_FILE = 16 << 20
SMALL_NEED = 48 << 20
"""What reading a file of up to `SMALL_FILE` bytes takes at most, if it is not packed."""

NATIVE_ADVICE = "rdmodel trace FILE --all -o FOLDER"
ADVICE = {
    "predict": "model fewer blocks (--blocks, --threads) or SMs (--sms, --model-sms)",
    "mrc": "look at fewer blocks (--blocks, --threads) or SMs (--sms, --model-sms)",
    "simulate": "simulate fewer blocks (--blocks) or SMs (--sms)",
    "info": "make a trace of fewer blocks",
    "report": "report on fewer blocks (--blocks, --threads) or SMs (--sms, --model-sms)",
}


@dataclass(frozen=True, slots=True)
class Budget:
    """What ``--memory`` gives a command, in bytes; None: as much as there is."""

    command: str
    given: int | None
    limit: int | None = None

    @property
    def room(self) -> int:
        """Bytes that may still be allocated."""
        assert self.limit is not None
        return max(0, self.limit - _status("VmData"))

    def admit_reading(self, source: Path, need: int) -> None:
        """Raise `ConfigError` unless there is room to read a file of another tool, which takes up to `need` bytes."""
        if self.limit is None:
            return
        need = min(need, SMALL_NEED) if _is_small(source) else need
        if need > self.room:
            given, whole = bytes_text(self.given or 0), bytes_text(self._whole(need))
            advice = f"give that much, or make a native trace of it before ({NATIVE_ADVICE})"
            raise ConfigError(f"memory={given}: reading {source} may need {whole}; {advice}")

    def admit_prediction(
        self, trace: Trace, gpu: GPU, options: Mapping[str, Any], progress: Progress, *, listed: bool = False
    ) -> None:
        """Raise `ConfigError` unless `predict` on `gpu` with these options fits; `listed`: so does its histogram."""
        if self.limit is None:
            return
        for name in ("sample_sms", "sample_blocks"):
            if options.get(name) is not None:
                raise ConfigError(f"{name}: what a sample needs is not known before, so not with --memory")
        if options.get("l2"):
            raise ConfigError("l2: what it needs is not known before, so not with --memory")
        seeds = options.get("seeds", 1)
        names = {field.name for field in dataclasses.fields(Options)}
        chosen = Options(**{name: value for name, value in options.items() if name in names}).resolve(gpu)
        per_sm = deal(trace.launch, chosen)
        warps = residency(trace.launch, gpu).blocks * trace.launch.block_warps

        def need(lines: int) -> int:
            run = memory_need.prediction_bytes(lines, sms=len(per_sm), sets=gpu.l1.sets, warps=warps, runs=seeds)
            return run + (memory_need.LISTED * lines if listed else 0)

        # Which SM a dispatcher gives a block to is known when it does.
        dispatched = chosen.model_sms == "all" and chosen.definition == "hardware"
        parts = [range(sum(map(len, per_sm)))] if dispatched else per_sm
        self._admit(trace, parts, gpu.l1.line, store_rule(chosen), need, progress)

    def admit_simulation(self, trace: Trace, gpu: GPU, options: Mapping[str, Any], progress: Progress) -> None:
        """Raise `ConfigError` unless `simulate` on `gpu` with these options fits."""
        if self.limit is None:
            return
        launch = trace.launch
        blocks = launch.blocks if options["blocks"] is None else min(options["blocks"], launch.blocks)
        sms = min(gpu.sms if options["sms"] is None else options["sms"], blocks)
        warps = residency(launch, gpu).blocks * launch.block_warps

        def need(lines: int) -> int:
            return memory_need.simulation_bytes(lines, sms=sms, warps=warps)

        rule = StoreRule.MACHINE if options["stores"] else StoreRule.MACHINE_LOADS
        self._admit(trace, [range(blocks)], gpu.l1.line, rule, need, progress)

    def admit_sample(
        self, trace: Trace, gpu: GPU, options: Options, rate: float, progress: Progress, *, listed: bool = False
    ) -> None:
        """Raise `ConfigError` unless a sample of the lines fits, with resolved `options`; `listed`: all distances."""
        if self.limit is None:
            return
        per_sm = deal(trace.launch, options)
        warps = residency(trace.launch, gpu).blocks * trace.launch.block_warps

        def need(lines: int) -> int:
            run = memory_need.sampled_bytes(lines, rate, sms=len(per_sm), warps=warps)
            return run + (memory_need.LISTED * ceil(rate * lines) if listed else 0)

        advice = f"follow fewer lines (--sample), or {ADVICE['mrc']}"
        self._admit(trace, per_sm, gpu.l1.line, StoreRule.DROP, need, progress, advice)

    def admit_summary(self, trace: Trace, line: int, progress: Progress, blocks: Sequence[int] | None = None) -> None:
        """Raise `ConfigError` unless a summary of the trace fits; `blocks`: of these only."""
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
        """Refuse the run if `need` of the lines of the part that has most, blocks of one SM, is more than there is.

        The blocks are read once to see that, unless the run fits even if no line is requested twice.
        """
        if need(0) > self.room:
            self._refuse(trace, "needs at least", need(0), "whatever its lines", advice)
        most = _largest(lambda lines: need(lines) <= self.room)
        if all(memory_need.transactions_within(trace, blocks, line, most) for blocks in parts):
            return
        lines = max(
            memory_need.count_lines(trace, blocks, line, rule, expected=most, progress=progress) for blocks in parts
        )
        if lines > most:
            each = " on each SM" if len(parts) > 1 else ""
            self._refuse(trace, "may need", need(lines), f"for up to {lines:,} distinct lines{each}", advice)

    def _whole(self, need: int) -> int:
        """Return what to give so that there is room for `need`."""
        return need + (self.given or 0) - self.room + MARGIN

    def _refuse(self, trace: Trace, needs: str, need: int, why: str, advice: str) -> None:
        raise ConfigError(
            f"memory={bytes_text(self.given or 0)}: {self.command} of {trace.launch.kernel} {needs} "
            f"{bytes_text(self._whole(need))} "
            f"{why}; give that much, or {advice or ADVICE[self.command]}"
        )


UNBOUNDED = Budget("", None)
"""As much memory as there is."""


@contextmanager
def budget_of(arguments: argparse.Namespace) -> Iterator[Budget]:
    """Hold the process to ``--memory`` while a command runs; `MemoryError` is what exceeding it becomes.

    Raises `ConfigError` for a budget that does not even hold what the process has by now.
    """
    given: int | None = arguments.memory
    if given is None:
        yield Budget(arguments.command, None)
        return
    least = _status("VmHWM") + WINDOW + SPARE
    if given <= least:
        raise ConfigError(f"memory={bytes_text(given)}: rdmodel itself takes {bytes_text(least)}; give more")
    limit = _status("VmData") + given - least
    with _limited(limit):
        yield Budget(arguments.command, given, limit)


@contextmanager
def _limited(limit: int) -> Iterator[None]:
    """Let the process allocate no more than `limit` bytes of data, mapped files apart: what Linux can watch over."""
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = [n for n in (limit, soft, hard) if n != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(allowed), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _is_small(source: Path) -> bool:
    """Tell whether all that is read of a file is small: it neither names other files nor has to be unpacked."""
    listed = source.suffix.lower() in (*COMPRESSED_EXTENSIONS, KERNELS_LIST_SUFFIX)
    return not listed and source.is_file() and source.stat().st_size <= SMALL_FILE


def _largest(fits: Callable[[int], bool]) -> int:
    """Return the largest number that fits, where 0 does, and what is smaller than one that does."""
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _status(name: str) -> int:
    """Return a number of bytes that Linux knows about the process; elsewhere a guess from the peak so far."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 64 << 20
    return next(int(row.split()[1]) << 10 for row in text.splitlines() if row.startswith(f"{name}:"))
