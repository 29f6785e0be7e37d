# `Reordering`: the buffer of queues that MRPB puts between the load/store unit and the L1 (Jia et al., HPCA 2014,
# section 3): phases S3a and S3b of docs/policies.md.
cimport cython
from libc.stdint cimport int64_t

from rdmodel.simulator._sectored_loadstore cimport SectoredLoadStore
from rdmodel.simulator._machine cimport Buffer, Sm

cdef enum:
    SIGNATURE_WARP, SIGNATURE_BLOCK, SIGNATURE_INDEX

cdef enum:
    DRAIN_FIXED, DRAIN_ROUND_ROBIN, DRAIN_LONGEST


cdef class Reordering(SectoredLoadStore):
    cdef bint buffered, drain_greedy, flush
    cdef int signature, drain
    cdef int64_t entries_per_queue, buffer_latency

    cdef int64_t _queues(self) noexcept nogil
    cdef int _access_buffered(self, int64_t i, int64_t t) noexcept nogil
    @cython.final
    cdef int64_t _select_queue(self, Buffer* b, int64_t t) noexcept nogil
    @cython.final
    cdef bint _drainable(self, const Buffer* b, int64_t queue, int64_t t) noexcept nogil
    @cython.final
    cdef int _drain(self, int64_t i, int64_t queue, int64_t t) noexcept nogil
    @cython.final
    cdef int _drain_one(self, int64_t i, int64_t queue, int64_t t) noexcept nogil
    @cython.final
    cdef int _enter_buffer(self, int64_t i, int64_t t, bint tried) noexcept nogil
    @cython.final
    cdef int _enter_one(self, int64_t i, int64_t t, bint tried) noexcept nogil
    @cython.final
    cdef int64_t _queue_of(self, const Sm* sm, int64_t warp) noexcept nogil
    @cython.final
    cdef void _block_buffer(self, Buffer* b, int64_t queue) noexcept nogil
    @cython.final
    cdef int _store_past_buffer(self, int64_t i, int64_t queue, int64_t t, bint tried) noexcept nogil
    cdef int64_t _buffer_wake(self, Sm* sm, int64_t t) noexcept nogil
