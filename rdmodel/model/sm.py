"""Drive the compiled core of one SM, and dispatch blocks to several SMs (docs/model.md)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rdmodel.gpu.config import GPU
from rdmodel.gpu.served_loads import bypass_table, bypasses_l1
from rdmodel.model._core import DONE, WANT_BLOCK, WANT_CHOICES, WANT_CHUNK, WANT_LATENCIES, Core
from rdmodel.model._fast import FastCore
from rdmodel.model._generators import generator_state
from rdmodel.model._hardware import HardwareCore
from rdmodel.model.averages import subtract_counts
from rdmodel.model.cores import make_chunk, obeys_barriers, store_rule
from rdmodel.model.monitor import PartTimer
from rdmodel.model.options import Options
from rdmodel.results.counts import MissCounts, SmCounts, StoreCounts
from rdmodel.reuse.histogram import Histogram
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import DEFAULT_CHUNK_INSTRUCTIONS, Chunk, WarpStream

if TYPE_CHECKING:
    from rdmodel.model.random_draws import Draws
    from rdmodel.model.sample_blocks import Stretch


MAX_DRAWS_PER_BATCH = 4096
"""Random numbers that are drawn at a time in a long run; the size of the batches does not change the numbers."""

FIRST_DRAWS_PER_BATCH = 512
"""Half the random numbers of the first batch: short runs need few. Each batch is twice as large as the last one."""

FEEDS_PER_LOOK = 32
"""Chunks of a block's warps that the core reads by itself before this module looks at progress and cancellation."""


class Sm:
    """One modelled SM: a core, and the blocks, instructions and random numbers that it requests.

    Instructions are prepared `chunk_instructions` at a time; their number does not change the result. With `origins`,
    the core gets their pcs. An SM `beside` this one, with the same options and in the same thread, lends its buffer.
    """

    def __init__(
        self,
        trace: Trace,
        core: Core,
        gpu: GPU,
        options: Options,
        seed: int,
        sm: int,
        timer: PartTimer,
        chunk_instructions: int = DEFAULT_CHUNK_INSTRUCTIONS,
        *,
        origins: bool = False,
        beside: Sm | None = None,
    ) -> None:
        assert options.sigma is not None
        self.sm = sm
        self.core = core
        self.blocks_started = 0
        self._trace = trace
        self._line, self._request_bytes = gpu.l1.line, gpu.l1.request_bytes
        self._rule = store_rule(options)
        self._bypass: NDArray[np.uint8] | None
        if beside is not None and beside._trace is trace:
            self._bypass = beside._bypass
        else:
            self._bypass = bypass_table(gpu.l1) if bypasses_l1(gpu.l1, trace) else None
        if isinstance(core, FastCore):
            core.seed(generator_state(seed, sm, 0), generator_state(seed, sm, 1), options.sigma)
        else:
            from rdmodel.model.random_draws import Draws  # loads numpy.random, which takes as long as a short run

            self._make_draws = partial(Draws, seed, sm, options.sigma)
        self._batch = FIRST_DRAWS_PER_BATCH
        self._latencies = np.empty(0, np.int64)
        self._streams: list[WarpStream | None] = [None] * core.warps
        self._fed = np.zeros(core.slots + core.warps, np.int64)
        self._stops = np.full(core.slots, FEEDS_PER_LOOK, np.int64)
        barriers = obeys_barriers(options)
        self._chunk: Chunk = (
            make_chunk(gpu, options, chunk_instructions, barriers=barriers, pcs=origins)
            if beside is None
            else beside._chunk
        )
        self._timer = timer

    def run(self, blocks: Iterator[int]) -> None:
        """Run the SM to its end, with its blocks in order."""
        while self.run_to_block():
            self.give_next(next(blocks, None))

    def run_stretches(self, blocks: Sequence[int], parts: Sequence[Stretch], resident: int) -> list[SmCounts]:
        """Run parts of the SM's blocks one after the other, without emptying the SM in between.

        Returns two counts per part: of its counted blocks, and of the wave before them.
        """
        counts: list[SmCounts] = []
        wants_block = self.run_to_block()
        for part in parts:
            before_wave = before = self.counts()
            for place in range(part.begin, part.last):
                if place == part.first - resident:
                    before_wave = self.counts()
                if place == part.first:
                    before = self.counts()
                self.give_block(blocks[place])
                wants_block = self.run_to_block()
            while wants_block and part is parts[-1]:
                self.give_block(None)
                wants_block = self.run_to_block()
            counts += [subtract_counts(self.counts(), before), subtract_counts(before, before_wave)]
        return counts

    def run_to_block(self) -> bool:
        """Run until a free slot requests a block, at the time ``core.now``; return False if the SM is done instead."""
        while (wanted := self.advance()) != DONE:
            if wanted == WANT_BLOCK:
                return True
            self.serve(wanted)
        return False

    def advance(self, fed: NDArray[np.int64] | None = None, stops: NDArray[np.int64] | None = None) -> int:
        """Run the core on until it requests something else than instructions, or until ``stops`` of a slot are reached.

        ``fed[slot]`` and ``fed[slots + warp]`` count the chunks that the core reads by itself (`Core.run_fed`).
        """
        fed, stops = self._fed if fed is None else fed, self._stops if stops is None else stops
        wanted = self.core.run_fed(self._streams, self._chunk, fed, stops)
        self._count_seconds()
        return wanted

    def serve(self, wanted: int) -> None:
        """Serve a request of the core for instructions or random numbers."""
        if wanted == WANT_CHUNK:
            self._fed[self.core.subject // self.core.block_warps] = 0
            self._feed(self.core.subject)
            return
        self._batch = min(2 * self._batch, MAX_DRAWS_PER_BATCH)
        if wanted == WANT_LATENCIES:
            unused = self._latencies[len(self._latencies) - self.core.latencies_left() :]
            self._latencies = np.concatenate([unused, self._draws.latencies(self._batch)])
            self.core.put_latencies(self._latencies)
        else:
            assert wanted == WANT_CHOICES and isinstance(self.core, HardwareCore)
            self.core.put_choices(self._draws.choices(self._batch))

    def give_next(self, block: int | None) -> None:
        """Serve the core's request for a block; None: there are no more, and the core will request none."""
        if block is None:
            self.core.decline_blocks()
        else:
            self.give_block(block)

    def give_block(self, block: int | None) -> None:
        """Serve the core's request for a block; None: there are no more, and its slot stays empty."""
        slot = self.core.subject
        if block is None:
            self.core.decline_block(slot)
            return
        self.blocks_started += 1
        self._timer.tick()
        place = self.sm * self.core.slots + slot
        streams = self._timer.open_block(
            self._trace, block, self._line, self._rule, self._request_bytes, self._bypass, place=place
        )
        self.core.begin_block(slot)
        first = slot * len(streams)
        self._streams[first : first + len(streams)] = streams
        self.core.prime(slot, self._streams, self._chunk)
        self._count_seconds()
        self.core.start_block(slot)

    def _feed(self, warp: int) -> None:
        self._timer.tick()
        stream = self._streams[warp]
        assert stream is not None
        started = perf_counter()
        more = stream.fill(self._chunk)
        self._timer.trace_seconds += perf_counter() - started
        self.core.put_chunk(warp, self._chunk, more)

    def _count_seconds(self) -> None:
        """Count the seconds in which the core has read chunks."""
        self._timer.trace_seconds += self.core.fed_seconds
        self.core.fed_seconds = 0.0

    @cached_property
    def _draws(self) -> Draws:
        # Made on demand: an SM without blocks draws nothing.
        return self._make_draws()

    def counts(self) -> SmCounts:
        """Return the SM's counters so far."""
        core = self.core
        misses = MissCounts(core.compulsory, core.capacity, core.associativity)
        sectors = core.hits + core.latency_misses + misses.total
        return SmCounts(
            sm=self.sm,
            blocks=self.blocks_started,
            requests=core.requests,
            transactions=core.transactions,
            sectors=sectors,
            hits=core.hits,
            latency_misses=core.latency_misses,
            misses=misses,
            tag_misses=core.tag_misses if core.sectored else misses.total,
            sector_misses=core.sector_misses,
            stores=StoreCounts(core.store_requests, core.store_transactions, core.store_sectors, core.store_hits),
            stalls_mshr=core.stalls_mshr,
            stalls_ways=core.stalls_ways,
            bypassed=core.bypassed,
            bypassed_requests=core.bypassed_requests,
            bypassed_transactions=core.bypassed_transactions,
            bypassed_sectors=core.bypassed_sectors,
            steps=core.now,
        )

    def histogram(self) -> Histogram:
        """Return the histogram of reuse distances so far; the core must track them."""
        return Histogram.from_dense(self.core.histogram(), self.core.infinite)


def dispatch(sms: Sequence[Sm], blocks: Iterator[int], cap: int) -> None:
    """Run all SMs with one dispatcher, which gives the next block to the SM whose slot is free first.

    At time 0 all slots are free, and the blocks go round the SMs. This holds also for a block without instructions,
    whose slot is free again at once. SMs meet nowhere else. So each runs alone until it requests a block, and the
    earliest request is served first.
    """
    served = [0] * len(sms)
    requests: list[tuple[int, int, int]] = []

    def run_on(sm: Sm) -> None:
        if sm.run_to_block():
            now = sm.core.now
            heapq.heappush(requests, (now, served[sm.sm] if now == 0 else 0, sm.sm))

    for sm in sms:
        run_on(sm)
    while requests:
        sm = sms[heapq.heappop(requests)[-1]]
        served[sm.sm] += 1
        sm.give_next(next(blocks, None) if sm.blocks_started < cap else None)
        run_on(sm)
