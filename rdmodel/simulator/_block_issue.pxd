# `BlockIssue`: phase S4 of docs/machine.md under policies that look at the blocks of the warps that issue.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from rdmodel.simulator._machine cimport Sm
from rdmodel.simulator._scheduling cimport Scheduling


cdef class BlockIssue(Scheduling):
    cdef int _issue_by_blocks(self, int64_t i, int64_t t) noexcept nogil
    @cython.final
    cdef int64_t _group_number(self, int64_t i) noexcept nogil
    @cython.final
    cdef int64_t _choose_group(self, const Sm* sm, int64_t k, uint64_t candidates) noexcept nogil
    @cython.final
    cdef uint64_t _members(self, const Sm* sm, int64_t k, uint64_t candidates) noexcept nogil
    @cython.final
    cdef int64_t _group_of(self, const Sm* sm, int64_t k, int64_t place) noexcept nogil
