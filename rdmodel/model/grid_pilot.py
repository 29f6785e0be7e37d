"""Run a few blocks before a grid is sampled, to measure their durations, and how far their warps drift apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import fmean, pstdev

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from rdmodel.gpu.config import GPU
from rdmodel.gpu.served_loads import bypasses_l1
from rdmodel.model._core import DONE, WANT_BLOCK, WANT_CHUNK
from rdmodel.model.cores import make_core
from rdmodel.model.count_blocks import BlockCounts
from rdmodel.model.grid_schedule import Spread
from rdmodel.model.late_blocks import LateBlocks
from rdmodel.model.monitor import RunMonitor
from rdmodel.model.options import Options
from rdmodel.model.sm import Sm
from rdmodel.trace import Trace

MIN_PILOT_SMS, PILOT_SMS = 2, 8
"""Fewest and most SMs of the pilot."""

PILOT_SHARE, MAX_PILOT_SHARE = 0.15, 0.5
"""Share of the work that the pilot gets, and at most gets to run the fewest SMs."""

STEADY_ROWS = 2 * 16
"""Standard deviation of the places of a block's warps, in instructions, up to which they are in step."""

PHASES = 32
"""Times in the life of a block at which the pilot looks how far its warps are apart."""

PILOT_CHUNK = 16
"""Instructions of a warp that the pilot prepares at a time: it knows the place of a warp as exactly as that."""

MIN_ROWS_OF_LONG_WARPS = 16 * PILOT_CHUNK
"""Instructions of a warp from which on the pilot looks how far warps are apart."""


@dataclass(frozen=True, slots=True)
class Pilot:
    """The findings of a pilot: how durations of blocks differ, and how far the warps of a block are apart.

    ``offsets[i]`` has a row for each block that was seen when a share i / `PHASES` of it was done: how far each of its
    warps was ahead of this, as a share of its instructions. If not `knows_lives`, warps drift apart, but only the
    beginnings of blocks were run.
    """

    spread: Spread
    offsets: tuple[tuple[NDArray[np.float64], ...], ...]
    knows_lives: bool = True

    def warp_shares(self, share: float, rng: np.random.Generator) -> NDArray[np.float64] | None:
        """Return a random sample of the shares that the warps of a block have done, with mean `share`.

        None: all warps have done the same. If the pilot ended before, warps drift apart further as in a random walk:
        by the root of time.
        """
        phase = min(int(share * PHASES), PHASES - 1)
        last = next((earlier for earlier in range(phase, 0, -1) if self.offsets[earlier]), 0)
        if not (seen := self.offsets[last]):
            return None
        growth = (phase / last) ** 0.5 if last else 1.0
        return np.clip(share + growth * seen[int(rng.integers(len(seen)))], 0.0, 1.0)


def run_pilot(
    trace: Trace,
    gpu: GPU,
    options: Options,
    resident: int,
    counts: BlockCounts,
    work: float,
    seed: int,
    least_sms: int = MIN_PILOT_SMS,
) -> Pilot:
    """Run the first blocks of some SMs, at least `least_sms`, each SM for itself and without the L2.

    `work` is the number of transactions of the whole sample. The spread of durations needs two SMs. Where only
    beginnings of blocks can be run, whole blocks are taken to vary less in duration: by the root of the share that was
    run, since deviations at different times are independent.
    """
    options, sms = replace(options, l2=False), options.sms
    assert sms is not None
    blocks = trace.launch.blocks if options.blocks is None else min(options.blocks, trace.launch.blocks)
    per_sm = [range(first, blocks, sms)[:resident] for first in range(min(PILOT_SMS, sms, blocks))]
    wave = len(per_sm[0]) * max(counts.cost, 1.0)
    per_sm = per_sm[: max(least_sms, int(PILOT_SHARE * work / wave))]
    share = min(1.0, MAX_PILOT_SHARE * work / (len(per_sm) * wave))
    ids = [block for some in per_sm for block in some]
    part = LateBlocks(trace, dict.fromkeys(ids, (0.0, share))) if share < 1 else trace
    rows = counts.rows / trace.launch.block_warps
    seen: list[list[NDArray[np.float64]]] = [[] for _ in range(PHASES)]
    ends = []
    for number, some in enumerate(per_sm):
        core = make_core(gpu, options, resident, trace.launch.block_warps, False, bypasses_l1(gpu.l1, trace))
        sm = Sm(part, core, gpu, options, seed, number, RunMonitor(1, None).new_timer(), PILOT_CHUNK)
        if times := _run_one(sm, iter(some), trace.launch.block_warps, rows, seen):
            ends.append(times)
    if not ends:
        return Pilot(Spread(), tuple(map(tuple, seen)))
    mean = fmean(time for times in ends for time in times)
    within = fmean(pstdev(times) ** 2 for times in ends) ** 0.5
    between = max(0.0, pstdev([fmean(times) for times in ends]) ** 2 - within**2 / resident) ** 0.5
    scale = share**0.5 / mean
    last = [float(np.std(each)) * rows for some in seen if some for each in some[-1:]]
    knows_lives = share == 1 or rows < MIN_ROWS_OF_LONG_WARPS or (bool(last) and max(last) <= STEADY_ROWS)
    return Pilot(Spread(between * scale, within * scale), tuple(map(tuple, seen)), knows_lives)


def _run_one(sm: Sm, ids: Iterator[int], warps: int, rows: float, seen: list[list[NDArray[np.float64]]]) -> list[int]:
    """Run an SM to its end; return the times at which blocks end, and add to `seen` how far warps are apart."""
    core, slots = sm.core, sm.core.slots
    fed, stops = np.zeros(slots + core.warps, np.int64), np.zeros(slots, np.int64)
    looks = _Looks(warps, rows)
    ends: list[int] = []
    while (wanted := sm.advance(fed, stops)) != DONE:
        if wanted == WANT_BLOCK:
            slot = core.subject
            if core.now:
                ends.append(core.now)
            fed[slot], fed[slots + slot * warps : slots + (slot + 1) * warps] = 0, 0
            stops[slot] = looks.next_chunk(0)
            sm.give_block(next(ids, None))
            continue
        if wanted == WANT_CHUNK:
            slot = core.subject // warps
            chunks = fed.item(slot)
            now, done = looks.phase(chunks), looks.done(chunks)
            places = PILOT_CHUNK * (0.5 + fed[slots + slot * warps : slots + (slot + 1) * warps])
            seen[now].append(np.asarray(places / rows - done, np.float64))
            stops[slot] = looks.next_chunk(now)
        sm.serve(wanted)
    return ends


class _Looks:
    """The times at which a pilot looks at a block: when its warps have read so many chunks that a phase begins.

    A block of `warps` warps has `rows` instructions per warp. The place of a warp in the chunk that it reads is taken
    to be the middle.
    """

    def __init__(self, warps: int, rows: float) -> None:
        self._warps, self._rows = warps, rows

    def done(self, chunks: int) -> float:
        """Return the share of a block that is done when its warps read their `chunks`-th chunk."""
        return PILOT_CHUNK * (self._warps / 2 + chunks) / self._warps / self._rows

    def phase(self, chunks: int) -> int:
        """Return the phase in which a block is then."""
        return min(int(self.done(chunks) * PHASES), PHASES - 1)

    def next_chunk(self, phase: int) -> int:
        """Return the number of chunks at which the first phase after `phase` begins; 0 if there is none."""
        if phase >= PHASES - 1 or self._rows < MIN_ROWS_OF_LONG_WARPS:
            return 0
        begin = (phase + 1) / PHASES * self._rows
        chunks = max(1, int((begin - PILOT_CHUNK / 2) * self._warps / PILOT_CHUNK) - 1)
        while self.phase(chunks) <= phase:
            chunks += 1
        return chunks
