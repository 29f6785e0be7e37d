from collections.abc import Sequence

from rdmodel.simulator._inspection import Inspection
from rdmodel.trace._coalesce import ChunkBuffers, StreamBuffers

class Feeding(Inspection):
    fed_seconds: float

    def read_from(
        self,
        streams: Sequence[StreamBuffers | None],
        chunk: ChunkBuffers,
        observed_streams: Sequence[StreamBuffers | None] | None = None,
        observed: ChunkBuffers | None = None,
    ) -> None: ...
    def prime(self, sm: int, slot: int) -> None: ...
    def starving(self, sm: int, warp: int) -> bool: ...
    def put_chunk(
        self, sm: int, warp: int, chunk: ChunkBuffers, more: bool, observed: ChunkBuffers | None = None
    ) -> None: ...
