# `Residency`: policies that decide how many blocks an SM has: the slots that may get a block (E3 of docs/machine.md), the
# blocks whose warps may issue loads, the cycles in which an SM issues nothing, and the instructions of its first blocks.
# And what policies see before a cycle.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from rdmodel.simulator._machine cimport Sm
from rdmodel.simulator._reorder cimport Reordering


cdef class Residency(Reordering):
    cdef bint limits_blocks           # some policy limits the blocks of an SM
    # Limits that follow idle and waiting cycles (dyncta).
    cdef bint counts_cycles
    cdef int64_t max_idle, low_waiting, high_waiting
    # Groups of blocks (lazy-cta). The next block continues that of the last block unless `block_group` divides it.
    cdef bint monitors_blocks         # the first blocks of an SM set its limit
    cdef int64_t block_group, next_block, sm_of_last_block

    cdef bint attentive               # some policy looks at an SM before each cycle of it

    cdef void _attend(self, Sm* sm, int64_t t) noexcept nogil
    @cython.final
    cdef void _time_answers(self, Sm* sm, int64_t t) noexcept nogil
    cdef bint _takes_block(self, int64_t i) noexcept nogil
    cdef void _note_block(self, int64_t i, int64_t slot, int64_t block) noexcept nogil
    cdef void _end_monitoring(self, Sm* sm) noexcept nogil
    cdef void _begin_residency(self, Sm* sm) noexcept nogil
    cdef void _count_cycles(self, Sm* sm, int64_t until) noexcept nogil
    cdef void _end_issue(self, Sm* sm, int64_t t, bint issued) noexcept nogil
    cdef bint _adjust_blocks(self, Sm* sm) noexcept nogil
    cdef uint64_t _running(self, Sm* sm, int64_t k) noexcept nogil
    @cython.final
    cdef bint _runs(self, const Sm* sm, int64_t slot) noexcept nogil
    @cython.final
    cdef bint _all_await_memory(self, const Sm* sm) noexcept nogil
