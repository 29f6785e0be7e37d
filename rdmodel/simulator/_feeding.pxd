# `Feeding`: the instructions of warps on their way from coalesced streams into the machine's buffers.
from libc.stdint cimport int64_t

from rdmodel.simulator._inspection cimport Inspection
from rdmodel.simulator._machine cimport Sm
from rdmodel.trace._coalesce cimport ChunkBuffers


cdef class Feeding(Inspection):
    cdef object index_code
    cdef list streams                 # of SM i's warps, from i * slots * block_warps on; None: `put_chunk` feeds warps
    cdef list observed_streams        # the same warps for the record, with masks of its own; None: without
    cdef ChunkBuffers chunk
    cdef ChunkBuffers observed
    cdef public double fed_seconds

    cdef int _feed(self, int64_t sm, int64_t warp) except -1
    cdef int _put(self, int64_t sm, int64_t warp, ChunkBuffers chunk, bint more, ChunkBuffers observed) except -1
    cdef int _put_lines(self, Sm* m, int64_t warp, ChunkBuffers chunk, ChunkBuffers observed) except -1
