# Declares the buffers of a chunk, and the streams that fill it, for the cores that read them.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rdmodel.trace._output cimport Output
from rdmodel.trace._plans cimport Planned, Reading


cdef enum:
    MAX_READINGS = 4


cdef struct WarpPlan:
    # The plan of a loop body for one warp; `entries` is NULL until it is made.
    Planned* entries
    int64_t count


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
    cdef int64_t trips, warps
    cdef int64_t readings             # number of readings for which plans are kept
    cdef Reading[MAX_READINGS] reading
    cdef WarpPlan* plans[MAX_READINGS]  # of each warp, by reading

    cdef WarpPlan* plan_of(self, int64_t warp, int64_t rule, const Output* out) except? NULL


cdef class StreamBuffers:
    cdef object columns               # None: a program
    cdef object pages
    cdef object program
    cdef list buffers
    cdef int64_t warp, rule, line_bits, request_bytes, max_lines
    cdef const uint8_t[::1] bypass
    cdef const int64_t[::1] moves     # None: the program is that of one block
    cdef const int64_t[::1] trips
    cdef int64_t segment, position, end, carry, rows_per_pass
    cdef int64_t row                  # of the first instruction of the segment in `moves`

    cdef bint refill(self, ChunkBuffers chunk) except -1
    cdef bint refill_timed(self, ChunkBuffers chunk, double* seconds) except -1
    cdef bint _refill_from_program(self, Output* out) except -1
    cdef bint _refill_from_columns(self, Output* out) except -1
