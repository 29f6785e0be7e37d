"""Simulate a kernel launch on the event-driven machine of docs/machine.md, block by block and chunk by chunk."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel import presets
from rdmodel.common.checks import MAX_DRAM_BANKS, MAX_L2_SLICES, check_flag, check_int
from rdmodel.common.memory import require_room
from rdmodel.common.progress import Progress, stage
from rdmodel.errors import ConfigError, SimulationError
from rdmodel.execution.memory_need import MACHINE_SET_BYTES
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.served_loads import bypass_table, bypasses_l1
from rdmodel.policies import DWTCS, SWL, Policy, policy_of_kind
from rdmodel.policies.registry import policy_fields
from rdmodel.results.describe import describe
from rdmodel.results.simulation import Simulation
from rdmodel.simulator._engine import DONE, FAULT, PAUSE, ROW_WIDTH, STUCK, WANT_BLOCK, WANT_CHUNK, WANT_DRAIN
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
from rdmodel.simulator.options import SimulationOptions, configure, has_sector_masks, packet_bytes
from rdmodel.trace import Trace
from rdmodel.trace.check import check_trace
from rdmodel.trace.coalescing import SECTOR, Chunk, StoreRule, WarpStream, open_block

CYCLES_PER_PAUSE = 1 << 14
"""Eventful cycles between two checks for signals and reports of progress: a few milliseconds, at most a second."""

CYCLES_PER_CHECK = 64
"""Eventful cycles between two checks of the invariants, with ``check=True``."""

CHUNK_INSTRUCTIONS = 512
"""Instructions of a warp that are coalesced at a time."""

CHUNK_LINES = 4096
"""Lines that these instructions may have."""

RECORDED_ACCESSES = 1 << 14
"""Load transactions between two calls of an `Observer`."""

Observer = Callable[[NDArray[np.int64]], None]
"""A function of rows (SM, block, warp of the block, pc, line, outcome, lanes), the load transactions of the L1s.

The rows come cycle by cycle, and within a cycle SM by SM. Outcomes are 0 for a hit, 1 for a pending hit, 2 for a miss
and 3 for a load that bypassed the L1. Bit l of `lanes` is set if lane l requested the line; with ``sectors=True``, bit
s is set if the transaction touches the s-th 32 bytes of the line. The array is used again: copy it to keep it.
"""


def simulate(
    trace: Trace,
    gpu: str | GPU = presets.DEFAULT_GPU,
    *,
    seed: int = 0,
    check: bool = False,
    progress: Progress | None = None,
    observe: Observer | None = None,
    sectors: bool = False,
    **options: Any,
) -> Simulation:
    """Simulate a kernel launch: SMs with schedulers and L1s, crossbar, L2 slices and DRAM channels.

    With ``swl:best`` among the policies, the kernel runs under every limit up to the warps that a scheduler can have.
    The result is the run with the highest IPC, with fewer warps if several are as fast; its `seconds` are those of all
    runs. `observe` then sees one more run, with the best limit. With ``pcal``, the best limit becomes its `tokens`, and
    the result is one more run with these.

    Time is O(transactions + instructions), memory O(distinct lines x SMs + resident warps).

    Parameters
    ----------
    trace : Trace
        The kernel launch.
    gpu : str or GPU
        Name of a preset, path of a ``.toml`` file, or a `GPU`.
    seed : int
        Recorded in the result, and without effect: the machine draws no random numbers.
    check : bool
        Verify the invariants of the machine every 64 cycles in which something happens (slower).
    progress : callable, optional
        Called with the number of blocks begun and the number of blocks in all.
    observe : callable, optional
        Called with arrays of load transactions; see `rdmodel.simulator.simulate.Observer`.
    sectors : bool
        Give `observe` the 32-byte sectors of each transaction instead of its lanes; the lines must have 32 to 1024
        bytes.
    **options
        Fields of `SimulationOptions`. `policies` may also hold an index function, alone or in a combination; it
        replaces that of the L1.

    Returns
    -------
    Simulation
        The counters of all parts of the machine.

    Raises
    ------
    ConfigError
        If an argument, an option or the GPU is not valid.
    LaunchError
        If no block of the launch fits on an SM.
    TraceError
        If the trace cannot be read.
    SimulationError
        If the run cannot go on or breaks an invariant.
    """
    check_trace(trace)
    check_int("seed", seed, 0)
    check_flag("check", check)
    check_flag("sectors", sectors)
    gpu, resolved = configure(presets.gpu(gpu), options)
    gpu = fit_to_launch(gpu, trace.launch)
    if sectors:
        check_sectors(gpu)
    _check_sizes(gpu, resolved)
    request = _Request(
        trace=trace,
        gpu=gpu,
        options=resolved,
        seed=seed,
        check=check,
        progress=progress,
        observe=observe,
        sectors=sectors,
    )
    throttling = policy_of_kind(resolved.policies, "throttling")
    if throttling is not None and throttling.needs_best_limit:
        return _simulate_best_limit(request, throttling)
    return _simulate_once(request)


def _check_sizes(gpu: GPU, options: SimulationOptions) -> None:
    """Raise `ConfigError` for more parts than any machine has, or caches beyond the memory that is left."""
    check_int("l2.slices", gpu.l2.slices, 1, MAX_L2_SLICES)
    check_int("dram.banks", gpu.dram.banks, 1, MAX_DRAM_BANKS)
    assert options.sms is not None
    sets = options.sms * gpu.l1.sets + gpu.l2.slices * gpu.l2.sets(gpu.l1.line)
    require_room(sets * MACHINE_SET_BYTES, f"l1, l2: {sets} sets on all SMs and slices", "use smaller caches")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The checked arguments of one call of `simulate`, with resolved options."""

    trace: Trace
    gpu: GPU
    options: SimulationOptions
    seed: int
    check: bool
    progress: Progress | None
    observe: Observer | None
    sectors: bool

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
        return config


def _simulate_once(request: _Request) -> Simulation:
    run = _MachineRun(request)
    run.run()
    return run.result()


def _simulate_best_limit(request: _Request, throttling: Policy) -> Simulation:
    """Simulate under every static limit on warps, then with the best one for `throttling`; return that run.

    `found` has the limit.
    """
    assert throttling.limit_option is not None
    limits = max_scheduler_warps(request.trace, request.gpu, request.options)
    repeated = request.observe is not None or not isinstance(throttling, SWL)
    runs = limits + repeated

    def run(policy: Policy, finished: int, observe: Observer | None = None) -> Simulation:
        policies = tuple(policy if member is throttling else member for member in request.options.policies)
        return _simulate_once(
            dataclasses.replace(
                request,
                options=dataclasses.replace(request.options, policies=policies),
                progress=stage(request.progress, finished, runs),
                observe=observe,
            )
        )

    by_limit = {limit: run(SWL(warps=limit), limit - 1) for limit in range(1, limits + 1)}
    best = max(by_limit, key=lambda limit: by_limit[limit].ipc)  # the first of equals
    simulations = list(by_limit.values())
    result = by_limit[best]
    if repeated:
        limited: Policy = dataclasses.replace(throttling, **{throttling.limit_option: best})  # type: ignore[type-var]
        result = run(limited, limits, request.observe)
        simulations.append(result)
    return dataclasses.replace(
        result,
        found={f"{throttling.name}.{throttling.limit_option}": best},
        config=request.config(),
        trace_seconds=sum(simulation.trace_seconds for simulation in simulations),
        seconds=sum(simulation.seconds for simulation in simulations),
    )


def check_sectors(gpu: GPU) -> None:
    """Raise `ConfigError` unless the lines of the L1 consist of 1 to 32 sectors."""
    if not SECTOR <= gpu.l1.line <= 32 * SECTOR:
        raise ConfigError(f"l1.line={gpu.l1.line}: sectors of {SECTOR} bytes need lines of 32 to 1024 bytes")


def max_scheduler_warps(trace: Trace, gpu: GPU, options: SimulationOptions) -> int:
    """Return the largest number of warps of a scheduler: the highest useful limit; `options` must be resolved."""
    assert options.sms is not None
    blocks = trace.launch.blocks if options.blocks is None else min(options.blocks, trace.launch.blocks)
    slots = min(compute_occupancy(trace.launch, gpu).blocks, -(-blocks // options.sms))
    return -(-slots * trace.launch.block_warps // gpu.core.schedulers)


class _MachineRun:
    """One run of the compiled machine, which requests blocks and instructions and receives them."""

    def __init__(self, request: _Request) -> None:
        self._request = request
        launch = request.trace.launch
        # No SM can have more blocks than there are.
        slots = min(compute_occupancy(launch, request.gpu).blocks, request.blocks)
        self._block_warps = launch.block_warps
        bypasses = bypasses_l1(request.gpu.l1, request.trace)
        self._bypass = bypass_table(request.gpu.l1) if bypasses else None
        self._machine = make_machine(request.gpu, request.options, slots, self._block_warps, bypasses=bypasses)
        self._rule = StoreRule.MACHINE if request.options.stores else StoreRule.MACHINE_LOADS
        self._streams: dict[tuple[int, int], WarpStream] = {}
        self._sectored = has_sector_masks(request.gpu)
        self._sized = self._sectored or packet_bytes(request.gpu) < request.gpu.l1.line
        self._observed: Chunk | None = None
        self._observed_streams: dict[tuple[int, int], WarpStream] = {}
        observed_sector = SECTOR if request.sectors else None
        if request.observe is not None:
            self._observed = Chunk(CHUNK_INSTRUCTIONS, CHUNK_LINES, details=True, masks=True, sector=observed_sector)
        if self._sized:
            # Its masks are those of the machine; those of the observer come from a second pass.
            sector = packet_bytes(request.gpu)
            self._chunk = Chunk(CHUNK_INSTRUCTIONS, CHUNK_LINES, details=True, sector=sector, full=True)
        else:
            self._chunk = self._observed or Chunk(CHUNK_INSTRUCTIONS, CHUNK_LINES, details=True)
        self._begun = 0
        self._trace_seconds = self._seconds = 0.0
        self._record = np.empty((0, ROW_WIDTH), np.int64)
        if request.observe is not None:
            self._record = np.empty((RECORDED_ACCESSES + request.sms, ROW_WIDTH), np.int64)
            self._machine.set_record(self._record)

    def run(self) -> None:
        """Run the machine to its end."""
        started = perf_counter()
        cycles = CYCLES_PER_CHECK if self._request.check else CYCLES_PER_PAUSE
        while (wanted := self._machine.run(cycles)) != DONE:
            if wanted == WANT_CHUNK:
                self._feed(self._machine.subject_sm, self._machine.subject)
            elif wanted == WANT_BLOCK:
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
        self._seconds = perf_counter() - started - self._trace_seconds

    def _pause(self) -> None:
        if self._request.progress is not None:
            self._request.progress(self._begun, self._request.blocks)
        if self._request.check and (violations := self._machine.violations()):
            self._fail("an invariant is broken", violations)

    def _fail(self, problem: str, details: Sequence[str]) -> None:
        kernel = self._request.trace.launch.kernel
        raise SimulationError(f"{kernel}, cycle {self._machine.now}: {problem}: {'; '.join(details)}")

    def _give_block(self) -> None:
        sm, slot = self._machine.subject_sm, self._machine.subject
        if self._begun == self._request.blocks:
            self._machine.decline_block(sm, slot)
            return
        started = perf_counter()
        streams = self._open_block()
        observed = self._open_block() if self._needs_second_pass else [None] * len(streams)
        self._trace_seconds += perf_counter() - started
        self._machine.begin_block(sm, slot, self._begun)
        self._begun += 1
        for warp, (stream, second) in enumerate(zip(streams, observed, strict=True), slot * self._block_warps):
            self._streams[sm, warp] = stream
            if second is not None:
                self._observed_streams[sm, warp] = second
            while self._machine.starving(sm, warp):
                self._feed(sm, warp)
        self._machine.start_block(sm, slot)

    @property
    def _needs_second_pass(self) -> bool:
        return self._sized and self._observed is not None

    def _open_block(self) -> list[WarpStream]:
        l1 = self._request.gpu.l1
        return open_block(self._request.trace, self._begun, l1.line, self._rule, l1.request_bytes, self._bypass)

    def _feed(self, sm: int, warp: int) -> None:
        started = perf_counter()
        chunk = self._chunk
        more = self._streams[sm, warp].fill(chunk)
        if self._needs_second_pass:
            assert self._observed is not None
            self._observed_streams[sm, warp].fill(self._observed)
            assert (self._observed.n, self._observed.used) == (chunk.n, chunk.used)
        self._trace_seconds += perf_counter() - started
        self._machine.put_chunk(
            sm,
            warp,
            chunk.op,
            chunk.needs,
            chunk.gap,
            chunk.count,
            chunk.lines,
            chunk.pc,
            chunk.lanes,
            chunk.flags,
            chunk.n,
            chunk.used,
            more,
            None if self._observed is None else self._observed.masks,
            chunk.masks if self._sized else None,
            chunk.full if self._sectored else None,
        )

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
            dram=dram_result(dram, request.gpu) if dram else None,
            trace_seconds=self._trace_seconds,
            seconds=self._seconds,
            config=request.config(),
            per_sm=per_sm,
            found=self._decided_limit(),
        )

    def _decided_limit(self) -> dict[str, int]:
        """Return the limit that the machine has found by sampling; empty if it has not sampled."""
        throttling = policy_of_kind(self._request.options.policies, "throttling")
        if not isinstance(throttling, DWTCS) or throttling.limit is not None or self._machine.limit < 0:
            return {}
        return {f"{throttling.name}.limit": self._machine.limit}
