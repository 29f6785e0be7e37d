from typing import Self

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace.columns import Columns, Program, Segment
from rdmodel.trace.mapped_pages import Pages

class ChunkBuffers:
    n: int
    used: int
    def __init__(
        self,
        op: NDArray[np.uint8],
        needs: NDArray[np.uint64],
        gap: NDArray[np.int32],
        count: NDArray[np.int32],
        lines: NDArray[np.int64],
        pc: NDArray[np.int32],
        lanes: NDArray[np.uint8],
        flags: NDArray[np.uint8],
        masks: NDArray[np.uint32],
        full: NDArray[np.uint32],
        sector_bits: int,
        barriers: bool,
    ) -> None: ...

class SegmentBuffers:
    def __init__(self, segment: Segment) -> None: ...

class StreamBuffers:
    def __init__(
        self,
        columns: Columns | None,
        position: int,
        end: int,
        program: Program,
        buffers: list[SegmentBuffers | None],
        moves: NDArray[np.int64] | None,
        trips: NDArray[np.int64] | None,
        warp: int,
        rule: int,
        line_bits: int,
        request_bytes: int,
        max_lines: int,
        pages: Pages | None,
        rows_per_pass: int,
        bypass: NDArray[np.uint8] | None,
    ) -> None: ...
    def of_warps(self, warps: int) -> list[Self]: ...
    def reread(
        self,
        streams: list[Self],
        buffers: list[SegmentBuffers | None],
        moves: NDArray[np.int64],
        trips: NDArray[np.int64],
    ) -> bool: ...
    def fill(self, chunk: ChunkBuffers) -> bool: ...
