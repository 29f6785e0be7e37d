"""One SM of the model, a core and what feeds it, and a dispatcher that hands blocks to several (docs/model.md)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from time import perf_counter

import numpy as np

from rdmodel.gpu.config import GPU
from rdmodel.model._model import DONE, WANT_BLOCK, WANT_CHOICES, WANT_CHUNK, WANT_LATENCIES, Core, HardwareCore
from rdmodel.model.cores import store_rule
from rdmodel.model.monitor import Clock
from rdmodel.model.options import Options
from rdmodel.model.random_draws import Draws
from rdmodel.model.sample_blocks import Stretch, minus
from rdmodel.results.prediction import MissCounts, SmCounts
from rdmodel.reuse.histogram import Histogram
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import Chunk, WarpStream

DRAWS_PER_BATCH = 4096
FIRST_BATCH = 512
"""Random numbers that are drawn at a time, and at first: short runs need few. They are the same for any batches."""


class Sm:
    """One SM: a core, and what feeds it."""

    def __init__(
        self,
        trace: Trace,
        core: Core,
        gpu: GPU,
        options: Options,
        seed: int,
        sm: int,
        clock: Clock,
    ) -> None:
        assert options.sigma is not None
        self.sm = sm
        self.core = core
        self.begun = 0
        self._trace = trace
        self._line = gpu.l1.line
        self._rule = store_rule(options)
        self._make_draws = partial(Draws, seed, sm, options.sigma)
        self._batch = FIRST_BATCH
        self._left = np.empty(0, np.int64)
        self._streams: dict[int, WarpStream] = {}
        self._chunk = Chunk()
        self._clock = clock

    def run(self, blocks: Iterator[int]) -> None:
        """Run the SM to its end, with its blocks in order."""
        while self.run_to_block():
            self.give(next(blocks, None))

    def run_stretches(self, blocks: Sequence[int], parts: Sequence[Stretch], resident: int) -> list[SmCounts]:
        """Run the SM through parts of its blocks, in order, without emptying it in between.

        Returns for each part two counts: of the blocks that are counted, and of the wave before them.
        """
        found: list[SmCounts] = []
        asks = self.run_to_block()
        for part in parts:
            earlier = before = self.counts()
            for at in range(part.begin, part.last):
                if at == part.first - resident:
                    earlier = self.counts()
                if at == part.first:
                    before = self.counts()
                self.give(blocks[at])
                asks = self.run_to_block()
            while asks and part is parts[-1]:
                self.give(None)
                asks = self.run_to_block()
            found += [minus(self.counts(), before), minus(before, earlier)]
        return found

    def run_to_block(self) -> bool:
        """Run until a slot is free and asks for a block (``core.now`` says when); False: the SM is done."""
        while (wanted := self.core.run()) != DONE:
            if wanted == WANT_BLOCK:
                return True
            self.serve(wanted)
        return False

    def serve(self, wanted: int) -> None:
        """Give the core what it wants, other than a block."""
        if wanted == WANT_CHUNK:
            self._feed(self.core.subject)
            return
        self._batch = min(2 * self._batch, DRAWS_PER_BATCH)
        if wanted == WANT_LATENCIES:
            left = self._left[len(self._left) - self.core.latencies_left() :]
            self._left = np.concatenate([left, self._draws.latencies(self._batch)])
            self.core.put_latencies(self._left)
        else:
            assert wanted == WANT_CHOICES and isinstance(self.core, HardwareCore)
            self.core.put_choices(self._draws.choices(self._batch))

    def give(self, block: int | None) -> None:
        """Answer the request for a block."""
        slot = self.core.subject
        if block is None:
            self.core.decline_block(slot)
            return
        self.begun += 1
        streams = self._clock.open(self._trace, block, self._line, self._rule)
        self.core.begin_block(slot)
        for warp, stream in enumerate(streams, slot * len(streams)):
            self._streams[warp] = stream
            self._feed(warp)
            while not self.core.primed(warp):
                self._feed(warp)
        self.core.start_block(slot)

    def _feed(self, warp: int) -> None:
        self._clock.tick()
        started = perf_counter()
        chunk = self._chunk
        more = self._streams[warp].fill(chunk)
        self._clock.trace_seconds += perf_counter() - started
        self.core.put_chunk(warp, chunk.op, chunk.needs, chunk.gap, chunk.count, chunk.lines, chunk.n, chunk.used, more)

    @cached_property
    def _draws(self) -> Draws:
        # Made when they are needed: an SM without blocks draws nothing.
        return self._make_draws()

    def counts(self) -> SmCounts:
        """Return what the SM has counted so far."""
        core = self.core
        return SmCounts(
            sm=self.sm,
            blocks=self.begun,
            transactions=core.transactions,
            hits=core.hits,
            latency_misses=core.latency_misses,
            misses=MissCounts(core.compulsory, core.capacity, core.associativity),
            stalls_mshr=core.stalls_mshr,
            stalls_ways=core.stalls_ways,
            bypassed=core.bypassed,
            steps=core.now,
        )

    def histogram(self) -> Histogram:
        """Return the histogram of reuse distances so far, if the core counts them."""
        return Histogram.from_dense(self.core.histogram(), self.core.infinite)


def dispatch(sms: Sequence[Sm], blocks: Iterator[int], cap: int) -> None:
    """Run all SMs with one dispatcher: the SM whose slot is free first gets the next block.

    At time 0 all slots are free, and the blocks go round the SMs, also where a block is empty and its slot is free
    again at once. SMs meet nowhere else, so each runs on alone until it asks, and the earliest request is served first.
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
        sm.give(next(blocks, None) if sm.begun < cap else None)
        run_on(sm)
