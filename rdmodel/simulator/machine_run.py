"""Run the compiled machine for one launch, block by block and chunk by chunk, and read its counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.progress import Progress
from rdmodel.errors import SimulationError
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.served_loads import bypass_table, bypasses_l1
from rdmodel.policies import DWTCS, policy_of_kind
from rdmodel.policies.registry import policy_fields
from rdmodel.results.describe import describe
from rdmodel.results.simulation import Simulation
from rdmodel.simulator._engine import DONE, FAULT, PAUSE, ROW_WIDTH, STUCK, WANT_BLOCK, WANT_DRAIN, Machine
from rdmodel.simulator.counters import (
    ALL_SMS,
    SM_FIELDS,
    dram_result,
    l2_result,
    latency_result,
    sm_result,
    sum_counters,
    traffic_result,
)
from rdmodel.simulator.machine import make_machine
from rdmodel.simulator.options import SimulationOptions, has_sector_masks, packet_bytes
from rdmodel.trace import Columns, Program, Trace
from rdmodel.trace.coalescing import (
    DEFAULT_CHUNK_INSTRUCTIONS,
    DEFAULT_CHUNK_LINES,
    SECTOR,
    Chunk,
    StoreRule,
    WarpStream,
    find_block,
    open_warps,
    reread_warps,
)
from rdmodel.trace.constants import ConstantReads

CYCLES_PER_PAUSE = 1 << 14
"""Eventful cycles between two checks for signals and reports of progress: a few milliseconds, at most a second."""

CYCLES_PER_CHECK = 64
"""Eventful cycles between two checks of the invariants, with ``check=True``."""

RECORDED_ACCESSES = 1 << 14
"""Load transactions between two calls of an `Observer`."""

Observer = Callable[[NDArray[np.int64]], None]
"""A function of rows (SM, block, warp of the block, pc, line, outcome, lanes), the load transactions of the L1s.

The rows come cycle by cycle, and within a cycle SM by SM. Outcomes are 0 for a hit, 1 for a pending hit, 2 for a miss
and 3 for a load that bypassed the L1. Bit l of `lanes` is set if lane l requested the line; with ``sectors=True``, bit
s is set if the transaction touches the s-th 32 bytes of the line. The array is used again: copy it to keep it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One launch to simulate: checked arguments of `simulate`, with resolved options.

    `earlier` is the number of launches before it on the same L2.
    """

    trace: Trace
    gpu: GPU
    options: SimulationOptions
    seed: int = 0
    check: bool = False
    progress: Progress | None = None
    observe: Observer | None = None
    sectors: bool = False
    earlier: int = 0

    @property
    def sms(self) -> int:
        """Number of SMs."""
        assert self.options.sms is not None
        return self.options.sms

    @property
    def blocks(self) -> int:
        """Number of blocks to run."""
        blocks = self.trace.launch.blocks
        return blocks if self.options.blocks is None else min(self.options.blocks, blocks)

    def config(self) -> dict[str, Any]:
        """Return everything that is needed to repeat the run; policies with their names."""
        config = describe(self.trace, self.gpu, self.options, self.seed)
        config["options"]["policies"] = [policy_fields(policy) for policy in self.options.policies]
        return {**config, "earlier_launches": self.earlier} if self.earlier else config


class MachineRun:
    """One run of the compiled machine, which requests blocks and instructions and receives them.

    The L2 begins empty or, with the machine of a launch before, with the lines that it left; both have the same L2 and
    the same policies. `constants` are the `constant_lines` that launches before have fetched.
    """

    def __init__(
        self, request: Request, previous: Machine | None = None, constants: frozenset[int] = frozenset()
    ) -> None:
        self._request = request
        launch = request.trace.launch
        # No SM can have more blocks than there are.
        self._blocks = request.blocks
        slots = min(compute_occupancy(launch, request.gpu).blocks, self._blocks)
        self._block_warps = launch.block_warps
        bypasses = bypasses_l1(request.gpu.l1, request.trace)
        self._bypass = bypass_table(request.gpu.l1) if bypasses else None
        self._machine = make_machine(request.gpu, request.options, slots, self._block_warps, bypasses=bypasses)
        # With an ideal memory there is no DRAM.
        self._constants = ConstantReads(
            launch, request.gpu.constant_fetch_bytes if request.options.memory is None else 0
        )
        self._constants_before = constants
        if previous is not None:
            self._machine.take_lines(previous)
        self._rule = StoreRule.MACHINE if request.options.stores else StoreRule.MACHINE_LOADS
        self._slots = slots
        self._streams: list[WarpStream | None] = [None] * (request.sms * slots * self._block_warps)
        self._observed_streams: list[WarpStream | None] | None = None
        self._sectored = has_sector_masks(request.gpu)
        self._sized = self._sectored or packet_bytes(request.gpu) < request.gpu.l1.line
        self._record = np.empty((0, ROW_WIDTH), np.int64)
        self._read_streams()
        self._begun = 0
        self._trace_seconds = self._seconds = 0.0

    def _read_streams(self) -> None:
        """Set up the chunks by way of which the machine reads its streams, and the record of accesses."""
        request, room = self._request, (DEFAULT_CHUNK_INSTRUCTIONS, DEFAULT_CHUNK_LINES)
        observed: Chunk | None = None
        if request.observe is not None:
            observed = Chunk(*room, details=True, masks=True, sector=SECTOR if request.sectors else None)
            self._record = np.empty((RECORDED_ACCESSES + request.sms, ROW_WIDTH), np.int64)
            self._machine.set_record(self._record)
        if self._sized:
            # Its masks are those of the machine; those of the observer come from a second pass.
            chunk = Chunk(*room, details=True, sector=packet_bytes(request.gpu), full=True)
            self._observed_streams = None if observed is None else [None] * len(self._streams)
        else:
            chunk = observed or Chunk(*room, details=True)
        self._machine.read_from(self._streams, chunk, self._observed_streams, observed)

    def run(self) -> Machine:
        """Run the machine to its end, and return it for the next launch."""
        started = perf_counter()
        self._request.trace.announce(range(self._request.blocks))
        cycles = CYCLES_PER_CHECK if self._request.check else CYCLES_PER_PAUSE
        while (wanted := self._machine.run(cycles)) != DONE:
            if wanted == WANT_BLOCK:
                self._give_block()
            elif wanted == WANT_DRAIN:
                self._report_accesses()
            elif wanted == FAULT:
                self._fail("a plug-in is at fault", [self._machine.fault_text()])
            elif wanted == STUCK:
                self._fail("nothing can happen any more", self._machine.waiting_for())
            else:
                assert wanted == PAUSE
                self._pause()
        self._report_accesses()
        if leftovers := self._machine.under_way():
            self._fail("the machine is not empty at the end", leftovers)
        self._trace_seconds += self._machine.fed_seconds
        self._seconds = perf_counter() - started - self._trace_seconds
        return self._machine

    def _pause(self) -> None:
        if self._request.progress is not None:
            self._request.progress(self._begun, self._request.blocks)
        if self._request.check and (violations := self._machine.violations()):
            self._fail("an invariant is broken", violations)

    def _fail(self, problem: str, details: Sequence[str]) -> None:
        kernel = self._request.trace.launch.kernel
        if self._request.earlier:
            kernel = f"launch {self._request.earlier + 1} ({kernel})"
        raise SimulationError(f"{kernel}, cycle {self._machine.now}: {problem}: {'; '.join(details)}")

    def _give_block(self) -> None:
        sm, slot = self._machine.subject_sm, self._machine.subject
        if self._begun == self._blocks:
            self._machine.decline_block(sm, slot)
            return
        place = sm * self._slots + slot
        started = perf_counter()
        source, first = find_block(self._request.trace, self._begun, self._constants, place)
        self._open_block(self._streams, source, first, place)
        if self._observed_streams is not None:
            self._open_block(self._observed_streams, source, first, place)
        self._trace_seconds += perf_counter() - started
        self._machine.begin_block(sm, slot, self._begun)
        self._begun += 1
        self._machine.prime(sm, slot)
        self._machine.start_block(sm, slot)

    def _open_block(self, streams: list[WarpStream | None], source: Columns | Program, first: int, place: int) -> None:
        """Let the streams of a place read a block that `find_block` has found."""
        warps = slice(place * self._block_warps, (place + 1) * self._block_warps)
        before = streams[warps]
        if before[0] is None or not reread_warps(cast(list[WarpStream], before), source):
            trace, l1 = self._request.trace, self._request.gpu.l1
            streams[warps] = open_warps(trace, source, first, l1.line, self._rule, l1.request_bytes, self._bypass)

    def _report_accesses(self) -> None:
        """Call the observer with the accesses that were recorded since the last call."""
        if self._request.observe is not None:
            self._request.observe(self._record[: self._machine.recorded])
            self._machine.recorded = 0

    def result(self) -> Simulation:
        """Return the counters of the machine."""
        request = self._request
        raw = [self._machine.sm_counters(i) for i in range(request.sms)]
        per_sm = tuple(sm_result(i, counters, sectored=self._sectored) for i, counters in enumerate(raw))
        slices = range(0 if request.options.memory is not None else request.gpu.l2.slices)
        l2 = sum_counters([self._machine.slice_counters(i) for i in slices])
        dram = sum_counters([self._machine.channel_counters(i) for i in slices])
        sums = sum_counters(raw)
        totals = sm_result(ALL_SMS, sums, sectored=self._sectored)
        return Simulation(
            kernel=request.trace.launch.kernel,
            gpu=request.gpu.name,
            seed=request.seed,
            sms=request.sms,
            cycles=self._machine.last_end + 1,
            **{name: getattr(totals, name) for name in SM_FIELDS},
            traffic=traffic_result(sums, packet_bytes(request.gpu), sized=self._sized),
            miss_latencies=latency_result(self._machine.miss_latencies()),
            l2=l2_result(l2) if l2 else None,
            dram=dram_result(dram, request.gpu, self._constant_sectors) if dram else None,
            trace_seconds=self._trace_seconds,
            seconds=self._seconds,
            config=request.config(),
            per_sm=per_sm,
            found=self._decided_limit(),
        )

    @property
    def constant_lines(self) -> frozenset[int]:
        """Numbers of the lines of constant memory that this launch and those before have fetched."""
        return self._constants_before | self._constants.numbers

    @property
    def _constant_sectors(self) -> int:
        """Sectors of constant memory that this launch reads first; launches before leave theirs in the L2."""
        lines = len(self.constant_lines) - len(self._constants_before)
        return lines * self._request.gpu.constant_fetch_sectors

    def _decided_limit(self) -> dict[str, int]:
        """Return the limit that the machine has found by sampling; empty if it has not sampled."""
        throttling = policy_of_kind(self._request.options.policies, "throttling")
        if not isinstance(throttling, DWTCS) or throttling.limit is not None or self._machine.limit < 0:
            return {}
        return {f"{throttling.name}.limit": self._machine.limit}
