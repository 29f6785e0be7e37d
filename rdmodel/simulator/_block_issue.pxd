# `BlockIssue`: phase S4 of docs/machine.md under policies that look at the blocks of the warps that issue.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from rdmodel.simulator._issue cimport Scheduler
from rdmodel.simulator._machine cimport Sm
from rdmodel.simulator._scheduling cimport Scheduling


cdef class BlockIssue(Scheduling):
    cdef int _issue_by_blocks(self, int64_t i, int64_t t) noexcept nogil
    @cython.final
    cdef int64_t _pick(self, Sm* sm, int64_t k, uint64_t candidates) noexcept nogil
    @cython.final
    cdef int64_t _pick_in_group(self, Sm* sm, int64_t k, uint64_t candidates) noexcept nogil
    @cython.final
    cdef uint64_t _members(self, const Sm* sm, int64_t k, uint64_t candidates, int64_t group) noexcept nogil
