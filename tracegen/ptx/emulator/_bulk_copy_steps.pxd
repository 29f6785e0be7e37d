# `BulkCopySteps`: bulk copies between global and shared memory and within a cluster, on top of `BarrierSteps`. The rows
# of a tensor that a copy transfers are in `_tensor_map`.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t

from tracegen.ptx.emulator._barrier_steps cimport BarrierSteps
from tracegen.ptx.emulator._tensor_map cimport Rows
from tracegen.ptx.isa._code cimport Code, Lanes


cdef class BulkCopySteps(BarrierSteps):
    cdef readonly bint changes_copies # whether a copy of a tensor has poisoned what it moved
    cdef int64_t copying_warp      # the last warp that has a row of the bulk copy which is being recorded; -1: none

    cdef int64_t copy_bulk(self, const Code* code) noexcept nogil
    @cython.final
    cdef int64_t copy_bulk_of(self, const Code* code, int64_t lane) noexcept nogil
    @cython.final
    cdef bint record_chunks(self, const Code* code, int64_t lane, int64_t* used) noexcept nogil
    @cython.final
    cdef int64_t complete(self, const Code* code, int64_t lane, int64_t total) noexcept nogil
    cdef int64_t move_bulk(self, const Code* code, const Lanes* lanes) noexcept nogil
    @cython.final
    cdef int64_t clear_shared(self, const Code* code, int64_t lane) noexcept nogil
    @cython.final
    cdef int64_t move_within_cluster(self, const Code* code, int64_t lane) noexcept nogil
    @cython.final
    cdef int64_t move_bulk_of(self, const Code* code, int64_t lane) noexcept nogil
    @cython.final
    cdef int64_t move_rows(self, const Code* code, int64_t lane, Rows box, uint64_t at, int64_t total) noexcept nogil
    @cython.final
    cdef bint move_row(
        self, const Code* code, int64_t lane, const Rows* box, uint64_t start, int64_t size, uint8_t* host
    ) noexcept nogil
    @cython.final
    cdef int64_t open_copy(self, const Code* code, int64_t lane, Rows* box) noexcept nogil
    @cython.final
    cdef int64_t open_box_of(self, const Code* code, int64_t lane, uint64_t place, Rows* box) noexcept nogil
    @cython.final
    cdef bint reaches(self, const Code* code, int64_t lane, int64_t rank) noexcept nogil
    @cython.final
    cdef uint64_t seen_by(self, const Code* code, uint64_t place, int64_t rank) noexcept nogil
