"""Measure the reuse distances of a kernel whose warps take turns, for all lines or a sample (`rdmodel mrc`)."""

from __future__ import annotations

from typing import Any

from rdmodel.common.progress import Progress
from rdmodel.errors import TraceError
from rdmodel.gpu.config import GPU, replace
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model.dealing import deal
from rdmodel.model.options import Options
from rdmodel.reuse._shards import DONE, WANT_BLOCK, WANT_CHUNK, RoundRobin, Shards
from rdmodel.reuse.sampled import SampledHistogram
from rdmodel.reuse.shards import make_shards, sampled_histogram
from rdmodel.trace import Trace
from rdmodel.trace.coalescing import Chunk, StoreRule, WarpStream, open_block

ROUND_ROBIN_OPTIONS: dict[str, Any] = {"lat_min": 0, "sigma": 0.0, "hit_latency": 0, "divergence": False}
"""Options of the `paper` definition with which warps take turns, one instruction each, and never wait."""


def round_robin_setup(gpu: GPU) -> tuple[GPU, dict[str, Any]]:
    """Return the GPU and the options with which `predict` measures the reuse distances of warps that take turns.

    The cache is fully associative and fetches whole lines, and there is neither a latency nor a limit on MSHRs. So the
    order of accesses depends on the launch alone.
    """
    whole = gpu.l1.fully_associative()
    l1 = replace(whole, sector=None, stores="free", mshrs=None, mshr_per_warp=None, mshr_merge=None)
    return gpu.replace(l1=l1), {"definition": "paper", **ROUND_ROBIN_OPTIONS}


def kernel_histogram(
    trace: Trace, gpu: GPU, options: Options, rate: float, seed: int, progress: Progress | None = None
) -> SampledHistogram:
    """Return the histogram of reuse distances of a sample of the lines that a kernel loads.

    `rate` is the sampled share of the lines, and `seed` chooses them. Warps take turns, one instruction each. SMs and
    blocks are those of resolved `options`, and distances are measured per SM, as in `predict` without latencies. Raises
    `TraceError` if the blocks hold no loads.
    """
    slots = compute_occupancy(trace.launch, gpu).blocks
    per_sm = deal(trace.launch, options)
    samples = [make_shards(rate, seed) for _ in per_sm]
    total, started = sum(map(len, per_sm)), 0
    for shards, blocks in zip(samples, per_sm, strict=True):
        sm = _RoundRobinSm(trace, gpu, shards, slots)
        for block in blocks:
            if not sm.run_to_block():
                break
            sm.give_block(block)
            started += 1
            if progress is not None:
                progress(started, total)
        sm.finish()
    if not any(shards.total for shards in samples):
        raise TraceError(f"the modelled blocks of {trace.launch.kernel} hold no loads")
    return sampled_histogram(samples, rate)


class _RoundRobinSm:
    """One SM whose warps take turns, with the blocks and instructions that it requests."""

    def __init__(self, trace: Trace, gpu: GPU, shards: Shards, slots: int) -> None:
        self._warps = RoundRobin(shards, slots, trace.launch.block_warps)
        self._trace = trace
        self._line, self._request_bytes = gpu.l1.line, gpu.l1.request_bytes
        self._streams: dict[int, WarpStream] = {}
        self._chunk = Chunk()

    def run_to_block(self) -> bool:
        """Run until a slot requests a block; return False if there is nothing left to run."""
        while (wanted := self._warps.run()) != DONE:
            if wanted == WANT_BLOCK:
                return True
            assert wanted == WANT_CHUNK
            self._feed(self._warps.subject)
        return False

    def give_block(self, block: int) -> None:
        """Serve the request for a block."""
        slot = self._warps.subject
        streams = open_block(self._trace, block, self._line, StoreRule.DROP, self._request_bytes)
        for warp, stream in enumerate(streams, slot * len(streams)):
            self._streams[warp] = stream
            self._warps.begin_warp(warp)
            while self._warps.starved(warp):
                self._feed(warp)
        self._warps.start_block(slot)

    def finish(self) -> None:
        """Run to the end without further blocks."""
        while self.run_to_block():
            self._warps.decline_block(self._warps.subject)

    def _feed(self, warp: int) -> None:
        chunk = self._chunk
        more = self._streams[warp].fill(chunk)
        self._warps.put_chunk(warp, chunk.count, chunk.lines, chunk.n, chunk.used, more)
