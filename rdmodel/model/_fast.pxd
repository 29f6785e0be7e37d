"""Declare `FastCore`, and its record of a warp."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rdmodel.model._agenda cimport Agenda
from rdmodel.model._core cimport Core
from rdmodel.model._ready cimport Ready
from rdmodel.model._shadow cimport FastLine, Shadow
from rdmodel.model._uniform cimport Uniform
from rdmodel.model._ways cimport Ways


cdef struct Pace:
    # Keys of the latest arrivals of a warp's data; -1 = none.
    int64_t key              # of the needs of its next instruction
    int64_t latest           # of the current instruction
    int64_t everything       # of all instructions
    int64_t ancient          # of those before the last HISTORY ones
    int64_t[64] history      # ring of the last HISTORY instructions


@cython.final
cdef class FastCore(Core):
    cdef Ready ready_list
    cdef uint8_t[64] parked_warps
    cdef int64_t parked_number
    cdef Agenda agenda
    cdef Ways in_sets
    cdef Shadow seen
    cdef FastLine* fast_line
    cdef int32_t* set_number          # of each line, if `track`
    cdef Pace* pace
    cdef int64_t[64] next_line        # of each warp that is ready; -1 = its instruction has no transactions
    cdef uint32_t[64] next_asked      # the sectors that it asks for, if it is that of a load of a sectored core
    cdef uint64_t special             # warps that end, or have passed stores, when their needs have arrived
    cdef int64_t soon                 # the warp that is ready in the next step; -1 = none
    cdef int64_t port                 # the warp whose instruction has the port; -1 = the port is free
    cdef bint advancing               # the warp at the port has issued an instruction, but has not gone on
    cdef bint in_place, through, draws_warps
    cdef int64_t tags                 # transactions that a step issues
    cdef int64_t observed             # position of the first access whose distance is not measured
    cdef int64_t check_at             # position at which accesses must be measured, or their row closed up
    cdef Uniform choices              # if `seeded`
    cdef bint seeded

    cdef int _observe_all(self) noexcept nogil
    cdef int _check(self) noexcept nogil
    cdef void _plan_check(self) noexcept nogil
