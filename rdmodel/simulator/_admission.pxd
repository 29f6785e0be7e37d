# `Admission`: policies that decide for each load whether it uses the L1, and which lines it may replace
# (docs/policies.md).
cimport cython
from libc.stdint cimport int64_t

from rdmodel.simulator._footprints cimport FootprintRule
from rdmodel.simulator._machine cimport Sm
from rdmodel.simulator._period cimport Period
from rdmodel.simulator._plugins cimport Plugins

cdef enum:
    STALL = 0                 # a load that lacks a resource waits
    BYPASS_LINE = 1           # it bypasses for want of a way
    BYPASS_ANY = 2            # it bypasses for want of any resource


cdef class Admission(Plugins):
    cdef int on_stall
    cdef Period closing_period        # streaming-bypass
    cdef double max_missing_share, thrashing_mpki
    cdef int64_t distance             # pd; pdp: at the start
    cdef int64_t max_distance, sampled_every                # pdp
    cdef bint by_cache, since_allocation
    cdef int64_t counters, max_unused, unused_threshold     # abyp
    cdef int64_t pattern_loads, pattern_tags, max_accesses  # apcm
    cdef bint pattern_bypassing, pattern_protecting
    cdef int64_t max_heat             # g-cache
    cdef bint scoring                 # lost lines raise the scores of warps (ccws)
    cdef int64_t score_base, score_throttle
    cdef bint predicting              # loads show what warps use again in loops (daws)
    cdef FootprintRule footprint_rule
    cdef bint limiting_by_latency     # lost lines, and the latency of the crossbar, limit the warps (latency-limit)

    cdef void _end_patterns(self, Sm* sm, int64_t warp) noexcept nogil
    @cython.final
    cdef bint _in_flight(self, const Sm* sm, int64_t id) noexcept nogil
    @cython.final
    cdef bint _streams(self, const Sm* sm, int64_t load) noexcept nogil
    @cython.final
    cdef int _keep_tag(self, Sm* sm, int64_t load, int64_t id) noexcept nogil
    @cython.final
    cdef int _find_unguarded(self, const Sm* sm, int64_t set, int64_t* victim) noexcept nogil
    @cython.final
    cdef int _find_cold(self, Sm* sm, int64_t id, int64_t* victim) noexcept nogil
    @cython.final
    cdef bint _guarded(self, const Sm* sm, int64_t id) noexcept nogil
    @cython.final
    cdef void _note(self, Sm* sm, int64_t load, int64_t id, int outcome, bint absent) noexcept nogil
    @cython.final
    cdef void _adjust_distance(self, Sm* sm) noexcept nogil
    @cython.final
    cdef void _open_or_close_l1(self, Sm* sm) noexcept nogil
    @cython.final
    cdef void _score(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil
