# `Events`: the straight pieces of code that the warps of a block enter, and what they do at barriers and for
# asynchronous copies, in the order of execution. `tracegen.ptx.timing.timeline` finds the time of the block from it.
cimport cython
from libc.stdint cimport int64_t

from tracegen.ptx.isa._code cimport Lanes

cdef enum:
    ENTRY = -1             # in place of a `place`: a warp enters a piece

cdef struct Event:
    int64_t warp
    int64_t step
    int64_t place          # address of an mbarrier in shared memory, or number of a barrier
    int64_t amount         # arrivals, or threads that a barrier expects; parity that a wait asks for
    int64_t bytes          # that are expected, or that are complete

@cython.final
cdef class Events:
    cdef Event* rows
    cdef int64_t n
    cdef int64_t room
    cdef readonly int64_t entries  # of warps into pieces, also those behind the last row

    cdef void enter(self, const Lanes* lanes, int64_t step) noexcept nogil
    cdef void note(self, const Lanes* lanes, int64_t step) noexcept nogil
    cdef void add(
        self, int64_t warp, int64_t step, int64_t place, int64_t amount, int64_t bytes
    ) noexcept nogil
    cdef void append(
        self, int64_t warp, int64_t step, int64_t place, int64_t amount, int64_t bytes
    ) noexcept nogil
