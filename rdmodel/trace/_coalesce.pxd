# Declares the buffers of a chunk, and the streams that fill it, for the cores that read them.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef class ChunkBuffers:
    cdef uint8_t[::1] _op
    cdef uint64_t[::1] _needs
    cdef int32_t[::1] _gap
    cdef int32_t[::1] _count
    cdef int64_t[::1] _lines
    cdef int32_t[::1] _pc
    cdef uint8_t[::1] _lanes
    cdef uint8_t[::1] _flags
    cdef uint32_t[::1] _masks
    cdef uint32_t[::1] _full
    cdef int64_t _sector_bits
    cdef bint _barriers
    cdef public int64_t n
    cdef public int64_t used


cdef class SegmentBuffers:
    cdef const int32_t[:] pc
    cdef const uint8_t[:] op
    cdef const uint8_t[:] space
    cdef const uint8_t[:] size
    cdef const int32_t[:] gap
    cdef const uint8_t[:] loop_exit
    cdef const int64_t[:] step
    cdef const uint64_t[:, :] needs
    cdef const uint32_t[:, :] mask
    cdef const int64_t[:, :, :] base
    cdef const uint8_t[:] cache_op
    cdef readonly int64_t end         # instructions of a warp that executes all of them


cdef class StreamBuffers:
    cdef object columns               # None: a program
    cdef object pages
    cdef object program
    cdef list buffers
    cdef int64_t warp, rule, line_bits, request_bytes, max_lines
    cdef const uint8_t[::1] bypass
    cdef int64_t segment, position, end, carry, rows_per_pass

    cdef bint refill(self, ChunkBuffers chunk) except -1
    cdef bint _refill_from_columns(self, ChunkBuffers chunk) except -1
