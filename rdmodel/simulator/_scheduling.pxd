# `Scheduling`: phase S4 of docs/machine.md, the warps that issue, and the decisions of throttling policies.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from rdmodel.simulator._congestion cimport LatencyRule
from rdmodel.simulator._issue cimport AS_ACTIVE, FREELY, WITH_ROOM, Scheduler, scheduler_pick
from rdmodel.simulator._machine cimport Sm
from rdmodel.simulator._network cimport C_GO, C_MEMORY
from rdmodel.simulator._period cimport Period
from rdmodel.simulator._prediction cimport Prediction

cdef enum:
    THROTTLE_NONE = 0
    THROTTLE_LIMIT = 1        # the oldest warps of each scheduler
    THROTTLE_TOKENS = 2       # the oldest may allocate, some more may read
    THROTTLE_SAMPLED = 3      # a limit that is found by trying different ones on different SMs
    THROTTLE_SCORED = 4       # the warps that have lost most to others
    THROTTLE_BY_PLUGIN = 5    # those that a compiled library of the user permits
    THROTTLE_BLOCKS = 6       # those of the oldest blocks
    THROTTLE_LATENCY = 7      # the oldest, as many as the latency of the crossbar allows
    THROTTLE_LAZY = 8         # all, but there may be fewer blocks
    THROTTLE_ADAPTIVE = 9     # as with tokens, in numbers that each SM searches for
    THROTTLE_OWL = 10         # all, but those of some blocks go first
    THROTTLE_FOOTPRINT = 11   # the oldest whose loops fit in the L1

# Groups of blocks from which a scheduler issues; a warp of each may.
cdef enum:
    CHOOSE_ANY = 0           # groups do not matter
    CHOOSE_FIRST = 1         # the first
    CHOOSE_SAME = 2          # that of the last issue, else the first
    CHOOSE_NEXT = 3          # that of the last issue, else the next, in a circle


cdef class Scheduling(Prediction):
    cdef int throttle
    cdef int64_t tokens               # as `limit`: warps per scheduler whose loads may bring lines
    cdef bint allocating_apart        # some warps may load and not allocate
    cdef public int64_t limit         # active warps per scheduler that sampling has found; -1 = none
    cdef int64_t known_limit          # the same from an earlier launch; -1 = none
    # Sampling (dwt-cs).
    cdef Period sampling_period
    cdef int sampling
    cdef int64_t confirm, sample, streak, periods_left, round
    cdef double max_mpki
    cdef LatencyRule latency_rule     # latency-limit
    cdef double gain                  # of a change that cca keeps
    cdef bint ranking                 # the warps that may load are chosen for all schedulers together
    # Scores (ccws).
    cdef int64_t victim_entries, victim_ways
    cdef int64_t* ranked              # scratch: the warps of an SM by rank
    cdef int64_t* starved             # (SM, warp) pairs whose next instruction is unknown
    cdef int64_t starved_size
    cdef bint any_wanted              # some slot may get a block
    # Choice by blocks; `BlockIssue` makes it.
    cdef bint by_blocks
    cdef int choice                   # of a group of blocks, `CHOOSE_ANY` and so on
    # Groups of an SM's blocks (owl); neighbouring SMs may begin with different ones.
    cdef bint numbers_groups, groups_differ
    cdef int64_t group_size, round_groups

    cdef void _end_sampling_period(self) noexcept nogil
    @cython.final
    cdef void _sample_limits(self) noexcept nogil
    @cython.final
    cdef void _search(self, Sm* sm) noexcept nogil
    @cython.final
    cdef void _decide(self, int64_t limit) noexcept nogil
    @cython.final
    cdef void _adjust_warps(self, Sm* sm) noexcept nogil
    @cython.final
    cdef void _end_period(self, Sm* sm) noexcept nogil
    @cython.final
    cdef void _try_limits(self, int64_t round) noexcept nogil
    @cython.final
    cdef void _set_limit(self, Sm* sm, int64_t limit) noexcept nogil
    @cython.final
    cdef int64_t _scheduler_places(self) noexcept nogil
    cdef void _open_barrier(self, Sm* sm, int64_t slot) noexcept nogil
    cdef void _regroup(self, Sm* sm) noexcept nogil
    @cython.final
    cdef uint64_t _active(self, Sm* sm, int64_t k) noexcept nogil
    @cython.final
    cdef void _ask_permits(self, Sm* sm, int64_t k, int64_t places) noexcept nogil
    @cython.final
    cdef void _rank_if_stale(self, Sm* sm, int64_t t) noexcept nogil
    @cython.final
    cdef void _rank(self, Sm* sm, int64_t t) noexcept nogil
    @cython.final
    cdef bint _goes_before(self, const Sm* sm, int64_t a, int64_t b, int64_t t) noexcept nogil
    @cython.final
    cdef int _issue_from(self, int64_t i, int64_t t, int64_t warp) noexcept nogil
    @cython.final
    cdef int _enter_unit(self, Sm* sm, int64_t warp) noexcept nogil
    @cython.final
    cdef int64_t _new_load(self, Sm* sm) noexcept nogil

    cdef inline uint64_t _candidates(self, Sm* sm, int64_t k) noexcept nogil:
        # Return the warps of scheduler `k` that can issue, as bits by place.
        cdef Scheduler* s = &sm.scheduler[k]
        if sm.entries >= self.ldst_queue:
            return s.standing[FREELY]
        if self.throttle == THROTTLE_NONE:
            return s.standing[FREELY] | s.standing[WITH_ROOM] | s.standing[AS_ACTIVE]
        return s.standing[FREELY] | s.standing[WITH_ROOM] | (s.standing[AS_ACTIVE] & self._active(sm, k))

    cdef inline bint _can_issue(self, Sm* sm, int64_t t) noexcept nogil:
        # Return whether some warp of an SM can issue in cycle `t`.
        cdef int64_t k
        if self.ranking:
            self._rank_if_stale(sm, t)
        for k in range(self.schedulers):
            if self._candidates(sm, k) != 0:
                return True
        return False

    cdef inline int _issue(self, Sm* sm, int64_t i, int64_t t) noexcept nogil:
        # Let each scheduler issue an instruction, if it can.
        cdef Scheduler* s
        cdef int64_t k = sm.first_scheduler, turn, place, warp
        cdef uint64_t candidates
        # A policy is asked about the warps of the schedulers in their order.
        if self.throttle != THROTTLE_NONE and not self._can_issue(sm, t):
            return C_GO
        if self.first_by_cycle:
            k = t % self.schedulers
        elif k == self.schedulers:
            k = 0
        for turn in range(self.schedulers):
            candidates = self._candidates(sm, k)
            if candidates != 0:
                s = &sm.scheduler[k]
                place = scheduler_pick(s, self.sched, candidates, sm.warp, k, self.schedulers, self.fetch_group)
                warp = k + place * self.schedulers
                s.last = place
                s.last_age = sm.warp[warp].age
                if self._issue_from(i, t, warp) < 0:
                    return C_MEMORY
            k = k + 1 if k + 1 < self.schedulers else 0
        return C_GO
