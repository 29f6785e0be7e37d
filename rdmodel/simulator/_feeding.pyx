# See _feeding.pxd for the subject.
"""Read the instructions of warps from streams, without a step of Python per chunk: `Feeding`, on top of `Inspection`."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from rdmodel.simulator._cache cimport cache_intern
from rdmodel.simulator._inspection cimport Inspection
from rdmodel.simulator._issue cimport Instruction, Warp, warp_make_room, warp_starved
from rdmodel.simulator._machine cimport Sm, aligned_piece
from rdmodel.structures._index cimport INDEX_CALL
from rdmodel.trace._coalesce cimport ChunkBuffers, StreamBuffers


cdef class Feeding(Inspection):
    """Buffers of warps, filled from outside chunk by chunk, or from streams whenever a warp starves.

    `fed_seconds` is the time that reading from streams has taken since the caller last set it to 0.
    """

    def read_from(
        self, list streams not None, ChunkBuffers chunk not None, list observed_streams=None,
        ChunkBuffers observed=None,
    ):
        """Read ``streams[sm * warps + warp]`` from now on, by way of `chunk`, whenever a warp needs instructions.

        `observed` has the masks for the record of accesses: it is `chunk`, or the same instructions come a second time,
        from `observed_streams`. The caller replaces the streams of a block slot between `begin_block` and `prime`.
        """
        assert len(streams) == self.sms * self.slots * self.block_warps
        assert observed_streams is None or observed is not None and len(observed_streams) == len(streams)
        self.streams, self.chunk = streams, chunk
        self.observed_streams, self.observed = observed_streams, observed

    def prime(self, int64_t sm, int64_t slot):
        """Read the beginnings of the warps of a block slot."""
        cdef int64_t warp
        for warp in range(slot * self.block_warps, (slot + 1) * self.block_warps):
            while warp_starved(&self.sm[sm].warp[warp]):
                self._feed(sm, warp)

    def starving(self, int64_t sm, int64_t warp):
        """Return whether a warp's next instruction is unknown."""
        return warp_starved(&self.sm[sm].warp[warp])

    def put_chunk(
        self, int64_t sm, int64_t warp, ChunkBuffers chunk not None, bint more, ChunkBuffers observed=None
    ):
        """Append the instructions of a chunk to a warp's buffer; `more`: further ones may follow.

        A chunk has lanes and flags. Its masks are those of the sectors that each line is asked for, and for a machine
        with sectors it has those that are written in full, too; with coalesced packets, masks are of 32-byte pieces. A
        record needs the lanes that requested each line, which are the masks of `observed`.
        """
        self._put(sm, warp, chunk, more, observed)

    cdef int _feed(self, int64_t sm, int64_t warp) except -1:
        """Read the next chunk of a warp, and count the seconds that this takes."""
        cdef int64_t at = sm * self.slots * self.block_warps + warp
        cdef bint more = (<StreamBuffers?> self.streams[at]).refill_timed(self.chunk, &self.fed_seconds)
        if self.observed_streams is not None:
            (<StreamBuffers?> self.observed_streams[at]).refill_timed(self.observed, &self.fed_seconds)
            assert (self.observed.n, self.observed.used) == (self.chunk.n, self.chunk.used)
        return self._put(sm, warp, self.chunk, more, self.observed)

    cdef int _put(self, int64_t sm, int64_t warp, ChunkBuffers chunk, bint more, ChunkBuffers observed) except -1:
        cdef Sm* m = &self.sm[sm]
        cdef Warp* w = &m.warp[warp]
        cdef bint empty = w.at == w.n
        cdef int64_t i, n = chunk.n
        assert 0 <= sm < self.sms and 0 <= warp < self.slots * self.block_warps
        assert 0 <= n <= min(chunk._op.shape[0], chunk._flags.shape[0]) and 0 <= chunk.used <= chunk._lines.shape[0]
        if warp_make_room(w, n, chunk.used) < 0:
            raise MemoryError
        if n > 0:
            for i in range(n):
                w.program[w.n + i] = Instruction(
                    chunk._needs[i], chunk._count[i], chunk._gap[i], chunk._pc[i],
                    chunk._op[i], chunk._lanes[i], chunk._flags[i],
                )
            w.n += n
        if chunk.used > 0:
            self._put_lines(m, warp, chunk, observed)
        w.more = more
        if empty and n > 0:
            w.gap_left = w.program[w.at].gap
        return 0

    cdef int _put_lines(self, Sm* m, int64_t warp, ChunkBuffers chunk, ChunkBuffers observed) except -1:
        """Number the lines of a chunk, and append the numbers and masks to a warp's buffer."""
        cdef Warp* w = &m.warp[warp]
        cdef int64_t i, used = chunk.used
        if cache_intern(&m.cache, &chunk._lines[0], used, w.ids + w.used) < 0:
            raise MemoryError
        if m.cache.index.kind == INDEX_CALL:
            self.index_code.call.check()
        if self.recording:
            assert observed is not None and used <= observed._masks.shape[0]
            memcpy(w.masks + w.used, &observed._masks[0], <size_t> used * sizeof(uint32_t))
        if self.sectored:
            assert used <= min(chunk._masks.shape[0], chunk._full.shape[0])
            for i in range(used):
                w.sectors[w.used + i] = chunk._masks[i] | <uint64_t> chunk._full[i] << 32
        elif self.sized:
            assert used <= chunk._masks.shape[0]
            for i in range(used):
                w.sectors[w.used + i] = aligned_piece(chunk._masks[i])
        w.used += used
        return 0
