"""`simulate`: the event-driven machine of docs/machine.md, driven block by block and chunk by chunk."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel import presets
from rdmodel.common.checks import check_flag, check_int
from rdmodel.common.progress import Progress, stage
from rdmodel.errors import ConfigError, SimulationError, TraceError, unknown
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.policies import DWTCS, SWL, policy_of_kind
from rdmodel.results.describe import describe
from rdmodel.results.simulation import Simulation
from rdmodel.simulator._engine import DONE, PAUSE, ROW_WIDTH, STUCK, WANT_BLOCK, WANT_CHUNK, WANT_DRAIN
from rdmodel.simulator.counters import SUMMED, add_up, dram_counts, l2_counts, latencies, sm_result, traffic
from rdmodel.simulator.machine import make_machine
from rdmodel.simulator.options import SimulationOptions, policy_fields
from rdmodel.trace import Trace
from rdmodel.trace.check import check_trace
from rdmodel.trace.coalescing import SECTOR, Chunk, StoreRule, WarpStream, open_block

CYCLES_PER_RUN = 1 << 14
"""Eventful cycles between two looks at signals and progress: a few milliseconds, at most a second."""

CHECKED_CYCLES = 64
"""The same where invariants are checked each time."""

INSTRUCTIONS_PER_CHUNK = 512
LINES_PER_CHUNK = 4096
ACCESSES_PER_RECORD = 1 << 14

Observer = Callable[[NDArray[np.int64]], None]
"""Called with rows of (SM, block, warp of the block, pc, line, outcome, lanes): the load transactions of the L1s.

They come cycle by cycle, and in one cycle SM by SM. Outcomes are 0 for a hit, 1 for a pending hit, 2 for a miss and 3
for a load that bypassed the L1; bit l of `lanes` says that lane l asked for the line (with ``sectors=True``, bit s that
the transaction touches the line's s-th 32 bytes). The array is used again: copy what you keep.
"""


def simulate(
    trace: Trace,
    gpu: str | GPU = "gtx470-16k",
    *,
    seed: int = 0,
    check: bool = False,
    progress: Progress | None = None,
    observe: Observer | None = None,
    sectors: bool = False,
    **options: Any,
) -> Simulation:
    """Simulate a kernel launch: SMs with schedulers and L1s, crossbar, L2 slices and DRAM channels.

    `gpu` is a preset's name, the path of a ``.toml`` file or a `GPU`; `options` are the fields of
    `SimulationOptions`. The machine has no chance in it: `seed` is only recorded. ``check=True`` verifies the
    machine's invariants again and again while it runs (far slower). `observe` is called with every load
    transaction of the L1s; with `sectors` it is told their 32-byte sectors instead of their lanes, which needs lines
    of 32 to 1024 bytes.

    With ``SWL(warps="best")`` the kernel is run under every limit up to the warps that a scheduler can have; the result
    is the one with the highest IPC (with fewer warps, if they are as fast), its `seconds` are those of all runs.
    `observe` sees the run with that limit only, which is then made once more.

    Raises `ConfigError`, `LaunchError` or `TraceError`, and `SimulationError` for a run that cannot go on or breaks
    an invariant. Time O(transactions + instructions), memory O(distinct lines x SMs + resident warps).
    """
    check_trace(trace)
    check_int("seed", seed, 0)
    check_flag("check", check)
    check_flag("sectors", sectors)
    machine = presets.gpu(gpu)
    if sectors:
        check_sectors(machine)
    resolved = make_options(options).resolve(machine)
    throttling = policy_of_kind(resolved.policies, "throttling")
    if isinstance(throttling, SWL) and throttling.warps == "best":
        return _best_limit(trace, machine, resolved, seed, check, progress, observe, sectors)
    return _simulate_once(trace, machine, resolved, seed, check, progress, observe, sectors)


def _simulate_once(
    trace: Trace,
    gpu: GPU,
    options: SimulationOptions,
    seed: int,
    check: bool,
    progress: Progress | None,
    observe: Observer | None,
    sectors: bool,
) -> Simulation:
    run = _Run(trace, gpu, options, check, progress, observe, sectors)
    run.run()
    return run.result(seed)


def _best_limit(
    trace: Trace,
    gpu: GPU,
    options: SimulationOptions,
    seed: int,
    check: bool,
    progress: Progress | None,
    observe: Observer | None,
    sectors: bool,
) -> Simulation:
    """Simulate under every static limit on warps; return the fastest run, and the limit as found."""
    most = most_active(trace, gpu, options)
    runs = most + (observe is not None)

    def run(limit: int, done: int, observe: Observer | None = None) -> Simulation:
        limited = [SWL(warps=limit) if isinstance(policy, SWL) else policy for policy in options.policies]
        given = dataclasses.replace(options, policies=tuple(limited))
        return _simulate_once(trace, gpu, given, seed, check, stage(progress, done, runs), observe, sectors)

    tried = {limit: run(limit, limit - 1) for limit in range(1, most + 1)}
    best = max(tried, key=lambda limit: tried[limit].ipc)  # the first of equals
    simulations = list(tried.values())
    if observe is not None:
        simulations.append(run(best, most, observe))
    return dataclasses.replace(
        tried[best],
        found={"swl.warps": best},
        config=_config(trace, gpu, options, seed),
        trace_seconds=sum(simulation.trace_seconds for simulation in simulations),
        seconds=sum(simulation.seconds for simulation in simulations),
    )


def check_sectors(gpu: GPU) -> None:
    """Raise `ConfigError` unless the lines of the L1 are made of 1 to 32 sectors."""
    if not SECTOR <= gpu.l1.line <= 32 * SECTOR:
        raise ConfigError(f"l1.line={gpu.l1.line}: sectors of {SECTOR} bytes need lines of 32 to 1024 bytes")


def most_active(trace: Trace, gpu: GPU, options: SimulationOptions) -> int:
    """Return the most warps that a scheduler ever has: limits beyond limit nothing. `options` must be resolved."""
    assert options.sms is not None
    blocks = trace.launch.blocks if options.blocks is None else min(options.blocks, trace.launch.blocks)
    slots = min(compute_occupancy(trace.launch, gpu).blocks, -(-blocks // options.sms))
    return -(-slots * trace.launch.block_warps // gpu.core.schedulers)


def _config(trace: Trace, gpu: GPU, options: SimulationOptions, seed: int) -> dict[str, Any]:
    """Return all that it takes to run it again; policies by name."""
    config = describe(trace, gpu, options, seed)
    config["options"]["policies"] = [policy_fields(policy) for policy in options.policies]
    return config


def make_options(options: Mapping[str, Any]) -> SimulationOptions:
    """Return `SimulationOptions` from keywords; raise `ConfigError` for an unknown one, with the near misses."""
    known = [f.name for f in dataclasses.fields(SimulationOptions)]
    for name in options:
        if name not in known:
            raise ConfigError(unknown("option", name, [*known, "seed", "check"]))
    return SimulationOptions(
        **{name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
    )


class _Run:
    """One run: the machine, and what feeds it."""

    def __init__(
        self,
        trace: Trace,
        gpu: GPU,
        options: SimulationOptions,
        check: bool,
        progress: Progress | None,
        observe: Observer | None,
        sectors: bool,
    ) -> None:
        launch = trace.launch
        self._trace, self._gpu, self._options = trace, gpu, options
        self._slots = compute_occupancy(launch, gpu).blocks
        self._warps = launch.block_warps
        self._blocks = launch.blocks if options.blocks is None else min(options.blocks, launch.blocks)
        # No SM can have more blocks than there are.
        self._slots = min(self._slots, self._blocks)
        self._machine = make_machine(gpu, options, self._slots, self._warps)
        self._rule = StoreRule.MACHINE if options.stores else StoreRule.MACHINE_LOADS
        self._streams: dict[tuple[int, int], WarpStream] = {}
        masks = observe is not None
        self._chunk = Chunk(
            INSTRUCTIONS_PER_CHUNK, LINES_PER_CHUNK, details=True, masks=masks, sectors=masks and sectors
        )
        self._check, self._progress, self._observe = check, progress, observe
        self._begun = 0
        self._trace_seconds = self._seconds = 0.0
        self._record = np.empty((0, ROW_WIDTH), np.int64)
        if observe is not None:
            assert options.sms is not None
            self._record = np.empty((ACCESSES_PER_RECORD + options.sms, ROW_WIDTH), np.int64)
            self._machine.set_record(self._record)

    def run(self) -> None:
        """Run the machine to its end."""
        started = perf_counter()
        while (wanted := self._machine.run(CHECKED_CYCLES if self._check else CYCLES_PER_RUN)) != DONE:
            if wanted == WANT_CHUNK:
                self._feed(self._machine.subject_sm, self._machine.subject)
            elif wanted == WANT_BLOCK:
                self._give_block()
            elif wanted == WANT_DRAIN:
                self._drain()
            elif wanted == STUCK:
                self._fail("nothing can happen any more", self._machine.waiting_for())
            else:
                assert wanted == PAUSE
                self._pause()
        self._drain()
        if left := self._machine.under_way():
            self._fail("the machine is not empty at the end", left)
        self._seconds = perf_counter() - started - self._trace_seconds

    def _pause(self) -> None:
        if self._progress is not None:
            self._progress(self._begun, self._blocks)
        if self._check and (wrong := self._machine.violations()):
            self._fail("an invariant is broken", wrong)

    def _fail(self, what: str, details: Sequence[str]) -> None:
        raise SimulationError(f"{self._trace.launch.kernel}, cycle {self._machine.now}: {what}: {'; '.join(details)}")

    def _give_block(self) -> None:
        sm, slot = self._machine.subject_sm, self._machine.subject
        if self._begun == self._blocks:
            self._machine.decline_block(sm, slot)
            return
        started = perf_counter()
        streams = open_block(self._trace, self._begun, self._gpu.l1.line, self._rule)
        self._trace_seconds += perf_counter() - started
        self._machine.begin_block(sm, slot, self._begun)
        self._begun += 1
        for warp, stream in enumerate(streams, slot * self._warps):
            self._streams[sm, warp] = stream
            while self._machine.starving(sm, warp):
                self._feed(sm, warp)
        self._machine.start_block(sm, slot)

    def _feed(self, sm: int, warp: int) -> None:
        started = perf_counter()
        chunk = self._chunk
        more = self._streams[sm, warp].fill(chunk)
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
            chunk.masks,
        )

    def _drain(self) -> None:
        if self._observe is not None:
            self._observe(self._record[: self._machine.recorded])
            self._machine.recorded = 0

    def result(self, seed: int) -> Simulation:
        """Return what the machine counted; raise `TraceError` if there was nothing to count."""
        assert self._options.sms is not None
        raw = [self._machine.sm_counters(i) for i in range(self._options.sms)]
        per_sm = tuple(sm_result(i, counts) for i, counts in enumerate(raw))
        if not any(sm.transactions for sm in per_sm):
            raise TraceError(f"the simulated blocks of {self._trace.launch.kernel} access no memory")
        slices = range(0 if self._options.memory is not None else self._gpu.l2.slices)
        l2 = add_up([self._machine.slice_counters(i) for i in slices])
        dram = add_up([self._machine.channel_counters(i) for i in slices])
        totals = sm_result(-1, add_up(raw))
        return Simulation(
            kernel=self._trace.launch.kernel,
            gpu=self._gpu.name,
            seed=seed,
            sms=self._options.sms,
            cycles=self._machine.last_end + 1,
            **{name: getattr(totals, name) for name in SUMMED},
            traffic=traffic(add_up(raw), self._gpu.l1.line),
            miss_latencies=latencies(self._machine.miss_latencies()),
            l2=l2_counts(l2) if l2 else None,
            dram=dram_counts(dram, self._gpu) if dram else None,
            trace_seconds=self._trace_seconds,
            seconds=self._seconds,
            config=_config(self._trace, self._gpu, self._options, seed),
            per_sm=per_sm,
            found=self._found(),
        )

    def _found(self) -> dict[str, int]:
        """Return the limit that the machine has decided upon, if it looked for one."""
        throttling = policy_of_kind(self._options.policies, "throttling")
        if not isinstance(throttling, DWTCS) or throttling.limit is not None or self._machine.limit < 0:
            return {}
        return {f"{throttling.name}.limit": self._machine.limit}
