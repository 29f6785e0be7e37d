"""Compute the reuse distances of a kernel whose warps take turns, over all lines or a sample (`rdmodel mrc`)."""

from __future__ import annotations

from typing import Any

from rdmodel.common.progress import Progress
from rdmodel.errors import TraceError
from rdmodel.gpu.config import GPU, replace
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model.dealing import deal
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.reuse._shards import DONE, WANT_BLOCK, WANT_CHUNK, Shards, Turns
from rdmodel.reuse.sampled import SampledHistogram
from rdmodel.reuse.shards import sampled_histogram, shards
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import Chunk, StoreRule, WarpStream, open_block

TURNS: dict[str, Any] = {"lat_min": 0, "sigma": 0.0, "hit_latency": 0, "divergence": False}
"""Options of the `paper` definition with which warps take turns, an instruction each, and never wait."""


def in_turns(gpu: GPU) -> tuple[GPU, dict[str, Any]]:
    """Return the machine and the options with which `predict` finds the reuse distances of warps that take turns.

    The cache is fully associative, and no latency and no limit on MSHRs has a say: the order depends on the launch
    alone.
    """
    l1 = replace(gpu.l1, ways=gpu.l1.lines, index=Linear(), mshrs=None, mshr_per_warp=None, mshr_merge=None)
    return gpu.replace(l1=l1), {"definition": "paper", **TURNS}


def kernel_histogram(
    trace: Trace, gpu: GPU, options: Options, rate: float, seed: int, progress: Progress | None = None
) -> SampledHistogram:
    """Return the reuse distances of a sample of the lines that a kernel's loads ask for.

    Warps take turns, an instruction each; SMs and blocks are those of resolved `options`, and each SM's history is its
    own, as in `predict` without latencies. Raises `TraceError` for blocks that hold no loads.
    """
    slots = compute_occupancy(trace.launch, gpu).blocks
    per_sm = deal(trace.launch, options)
    found = [shards(rate, seed) for _ in per_sm]
    total, begun = sum(map(len, per_sm)), 0
    for one, blocks in zip(found, per_sm, strict=True):
        sm = _Sm(trace, gpu, one, slots)
        for block in blocks:
            if not sm.run_to_block():
                break
            sm.give(block)
            begun += 1
            if progress is not None:
                progress(begun, total)
        sm.finish()
    if not any(one.total for one in found):
        raise TraceError(f"the modelled blocks of {trace.launch.kernel} hold no loads")
    return sampled_histogram(found, rate)


class _Sm:
    """One SM whose warps take turns, and what feeds it."""

    def __init__(self, trace: Trace, gpu: GPU, found: Shards, slots: int) -> None:
        self._turns = Turns(found, slots, trace.launch.block_warps)
        self._trace = trace
        self._line = gpu.l1.line
        self._streams: dict[int, WarpStream] = {}
        self._chunk = Chunk()

    def run_to_block(self) -> bool:
        """Run until a slot asks for a block; False: there is nothing left to run."""
        while (wanted := self._turns.run()) != DONE:
            if wanted == WANT_BLOCK:
                return True
            assert wanted == WANT_CHUNK
            self._feed(self._turns.subject)
        return False

    def give(self, block: int) -> None:
        """Answer the request for a block."""
        slot = self._turns.subject
        streams = open_block(self._trace, block, self._line, StoreRule.DROP)
        for warp, stream in enumerate(streams, slot * len(streams)):
            self._streams[warp] = stream
            self._turns.begin_warp(warp)
            while self._turns.starved(warp):
                self._feed(warp)
        self._turns.start_block(slot)

    def finish(self) -> None:
        """Run to the end, without further blocks."""
        while self.run_to_block():
            self._turns.decline_block(self._turns.subject)

    def _feed(self, warp: int) -> None:
        chunk = self._chunk
        more = self._streams[warp].fill(chunk)
        self._turns.put_chunk(warp, chunk.count, chunk.lines, chunk.n, chunk.used, more)
