# `Plugins`: policies in compiled libraries of users (rdmodel_policy.h), one that admits and one that throttles.
cimport cython
from libc.stdint cimport int64_t

from rdmodel.plugins.policy cimport rdmodel_access, rdmodel_counters, rdmodel_line, rdmodel_policy, rdmodel_warp
from rdmodel.simulator._loadstore cimport LoadStore
from rdmodel.simulator._machine cimport Sm
from rdmodel.simulator._period cimport Period

cdef enum:
    ADMITTING = 0
    THROTTLING = 1
    C_PLUGINS = 2

# Answers that are not allowed.
cdef enum:
    NO_FAULT = 0
    FAULT_ADMIT = 1
    FAULT_REPLACE = 2
    FAULT_PERMIT = 3


cdef struct Plugin:
    const rdmodel_policy* table      # NULL: there is none
    double* option
    void** state                     # of each SM
    Period period


cdef class Plugins(LoadStore):
    cdef Plugin[2] plugin
    cdef bint plugged                 # there is one
    cdef bint choosing                # one chooses the lines to be replaced
    cdef rdmodel_access asking        # the transaction that looks for a way
    cdef rdmodel_line* candidate      # scratch: the valid lines of a set, and their ids
    cdef int64_t* candidate_id
    cdef rdmodel_counters* sums       # scratch: of each SM
    cdef int fault
    cdef int64_t answer, answers      # that is at fault, and the number of those allowed

    cdef inline int64_t _number_of(self, const Sm* sm) noexcept nogil:
        return sm - self.sm

    @cython.final
    cdef int _presence(self, const Sm* sm, int64_t id) noexcept nogil
    @cython.final
    cdef void _describe(
        self, const Sm* sm, int64_t id, int64_t warp, int64_t pc, int present, bint store, rdmodel_access* out
    ) noexcept nogil
    @cython.final
    cdef void _complain(self, int fault, int64_t answer, int64_t answers) noexcept nogil
    @cython.final
    cdef int _ask_to_admit(self, const Sm* sm, int64_t load, int64_t id, int present) noexcept nogil
    @cython.final
    cdef int64_t _list_candidates(self, const Sm* sm, int64_t set, int number) noexcept nogil
    @cython.final
    cdef int _choose_way(self, const Sm* sm, int64_t set, int64_t* victim) noexcept nogil
    @cython.final
    cdef int _ask_to_permit(self, const Sm* sm, int64_t warp, int64_t rank) noexcept nogil
    @cython.final
    cdef void _tell_loaded(self, Sm* sm, int64_t load, int64_t id, int outcome, int present) noexcept nogil
    @cython.final
    cdef void _tell_replaced(self, Sm* sm, int64_t id) noexcept nogil
    @cython.final
    cdef void _tell_warp(self, Sm* sm, int64_t warp, bint began) noexcept nogil
    @cython.final
    cdef bint _end_plugin_periods(self) noexcept nogil
    @cython.final
    cdef void _make_stale(self, Sm* sm) noexcept nogil
