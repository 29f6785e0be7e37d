from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace._coalesce import ChunkBuffers

DONE: int
WANT_CHUNK: int
WANT_LATENCIES: int
WANT_CHOICES: int
WANT_BLOCK: int
WANT_LOG: int

class Core:
    now: int
    subject: int
    requests: int
    transactions: int
    hits: int
    latency_misses: int
    compulsory: int
    capacity: int
    associativity: int
    stalls_mshr: int
    stalls_ways: int
    bypassed_requests: int
    bypassed_transactions: int
    bypassed_sectors: int
    bypassed: int
    infinite: int
    logged: int
    sectored: bool
    slots: int
    block_warps: int
    warps: int
    fed_seconds: float
    tag_misses: int
    sector_misses: int
    store_requests: int
    store_transactions: int
    store_sectors: int
    store_hits: int

    def __init__(
        self,
        *,
        sets: int,
        ways: int,
        index: Any,
        mshrs: int,
        mshr_merge: int,
        mshr_per_warp: int,
        slots: int,
        block_warps: int,
        waves: bool,
        lat_min: int,
        hit_latency: int,
        divergence: bool,
        track: bool,
        log_full: int,
        sectored: bool,
        pool: int = 0,
        **definition: Any,
    ) -> None: ...
    def put_latencies(self, draws: NDArray[np.int64] | array[int]) -> None: ...
    def latencies_left(self) -> int: ...
    def begin_block(self, slot: int) -> None: ...
    def put_chunk(self, warp: int, chunk: ChunkBuffers, more: bool) -> None: ...
    def run_fed(
        self, streams: list[Any], chunk: ChunkBuffers, fed: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> int: ...
    def prime(self, slot: int, streams: list[Any], chunk: ChunkBuffers) -> None: ...
    def start_block(self, slot: int) -> None: ...
    def decline_block(self, slot: int) -> None: ...
    def decline_blocks(self) -> None: ...
    def tally_by(self, first: NDArray[np.int64], end: NDArray[np.int64], shift: int) -> None: ...
    def tally_parts(self) -> None: ...
    def part_counts(self, part: int) -> dict[str, int]: ...
    def tallied(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
    def histogram(self) -> NDArray[np.int64]: ...
    def run(self) -> int: ...
