# `LoadStore`: the load/store units and L1s of the SMs, phases S1 to S3 of docs/machine.md.
cimport cython
from libc.stdint cimport int64_t, uint32_t

from rdmodel.simulator._hinting_network cimport HintingNetwork
from rdmodel.simulator._issue cimport Scheduler, Warp, warp_complete, warp_done, warp_stand
from rdmodel.simulator._machine cimport WRITER_AT, BlockSlot, Entry, Load, Sm, slot_bit
from rdmodel.structures._ring cimport Item

# Admission rules.
cdef enum:
    ADMIT_ALL = 0
    ADMIT_NONE = 1
    ADMIT_UNLESS_CLOSED = 2
    ADMIT_UNPROTECTED = 3
    ADMIT_USED = 4
    ADMIT_BY_PATTERN = 5
    ADMIT_BY_PLUGIN = 6
    ADMIT_COLD = 7

# Whether a set can give a way.
cdef enum:
    WAY = 0
    NO_WAY = 1                # all are reserved
    PROTECTED = 2             # all others are protected


cdef class LoadStore(HintingNetwork):
    cdef int64_t slots, block_warps
    cdef bint any_check
    # Configuration: see rdmodel.gpu.config.
    cdef int64_t schedulers, fetch_group, ldst_queue, hit_latency, max_lines
    cdef int sched
    cdef int64_t alu_latency
    cdef bint first_by_cycle          # the scheduler that acts first follows from the cycle alone
    cdef int64_t tags                 # transactions that access the L1 in a cycle
    cdef bint stores_allocate
    cdef bint unusual                 # lines have sectors, or there may be loads that the L1 does not serve
    cdef bint fill                    # allocate="fill"
    cdef int64_t miss_queue, mshr_per_warp
    cdef int admission                # the rule of the admission policy
    cdef bint admitting               # some policy decides about loads
    cdef bint finding                 # some policy decides about the lines that they replace, or is told of them
    # Counters and records besides the counters of each SM.
    cdef int64_t* latency             # numbers of misses by cycles until the fill
    cdef int64_t latencies, latency_capacity
    cdef bint recording
    cdef int64_t[:, ::1] rows         # of the record
    cdef public int64_t recorded

    @cython.final
    cdef int _fill(self, int64_t i, int64_t t, Item item) noexcept nogil
    @cython.final
    cdef void _take_acknowledgement(self, Sm* sm, BlockSlot* block) noexcept nogil
    @cython.final
    cdef int _count_latency(self, int64_t latency) noexcept nogil
    @cython.final
    cdef int _access(self, int64_t i, int64_t t) noexcept nogil
    @cython.final
    cdef int _access_tags(self, int64_t i, int64_t t) noexcept nogil
    @cython.final
    cdef int _access_unusual(self, Sm* sm, Entry* e, int64_t t) noexcept nogil
    @cython.final
    cdef void _retry_access(self, Sm* sm, int64_t set) noexcept nogil
    @cython.final
    cdef int _note_latency(self, int64_t latency) noexcept nogil
    @cython.final
    cdef int _give_way(self, Sm* sm, int64_t id, int64_t victim, int64_t block, int64_t warp) noexcept nogil
    cdef int _look_up_sectors(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil
    cdef int _store_sectors(self, Sm* sm, Entry* e, int64_t id) noexcept nogil
    cdef int _fill_sectors(self, int64_t i, int64_t t, Item item) noexcept nogil
    @cython.final
    cdef int _next_transaction(self, Sm* sm, int64_t t) noexcept nogil
    @cython.final
    cdef void _leave_unit(self, Sm* sm, Entry* e) noexcept nogil
    @cython.final
    cdef int _all_served(self, Sm* sm, int64_t load, int64_t t) noexcept nogil
    @cython.final
    cdef int _load(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil
    @cython.final
    cdef int _load_unusual(self, Sm* sm, int64_t load, int64_t id, uint32_t asked, int64_t t) noexcept nogil
    # Decisions of `Admission`.
    cdef int _admit(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil
    cdef int _find_way(self, Sm* sm, int64_t id, int64_t warp, int64_t pc, int64_t* victim) noexcept nogil
    cdef bint _find_way_to_store(
        self, Sm* sm, int64_t id, int64_t warp, bint must, int64_t* victim
    ) noexcept nogil
    cdef bint _unwanted(self, const Sm* sm, int64_t load) noexcept nogil
    cdef void _lose(self, Sm* sm, int64_t id) noexcept nogil
    cdef void _open_or_close(self) noexcept nogil
    @cython.final
    cdef int _bypass(self, Sm* sm, int64_t load, int64_t id) noexcept nogil
    @cython.final
    cdef int _look_up(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil
    @cython.final
    cdef int _miss(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil
    @cython.final
    cdef int _take_way(
        self, Sm* sm, int64_t id, int64_t victim, int64_t flags, int64_t block, int64_t warp
    ) noexcept nogil
    @cython.final
    cdef int _store(self, Sm* sm, Entry* e, int64_t id) noexcept nogil
    @cython.final
    cdef int _store_local(self, Sm* sm, Entry* e, int64_t id) noexcept nogil
    @cython.final
    cdef void _record(self, int64_t i, int64_t load, int64_t id, uint32_t mask, int outcome) noexcept nogil

    cdef inline int64_t _writer(self, Sm* sm, int64_t warp) noexcept nogil:
        # Return what the id of a warp's write holds besides the sectors; its block waits for one more store.
        if not self.store_acks:
            return 0
        sm.slot[sm.warp[warp].slot].stores += 1
        return <int64_t> (sm.warp[warp].slot + 1) << WRITER_AT

    # ---- warps

    cdef inline void _stand(self, Sm* sm, int64_t warp) noexcept nogil:
        # Update the warp's standing with its scheduler, and note whether the warp may have ended.
        cdef Warp* w = &sm.warp[warp]
        cdef Scheduler* s
        cdef int standing = warp_stand(w)
        if standing != w.standing:
            s = &sm.scheduler[w.scheduler]
            s.standing[w.standing] &= ~w.bit
            s.standing[standing] |= w.bit
            w.standing = standing
        if w.at == w.n and w.alive and warp_done(w):
            sm.check |= slot_bit(w.slot)
            self.any_check = True

    cdef inline void _arrive(self, Sm* sm, int64_t load) noexcept nogil:
        # Count one arrival that a load waits for; with the last one the load is complete.
        cdef Load* l = &sm.load[load]
        l.waits -= 1
        if l.waits == 0:
            warp_complete(&sm.warp[l.warp], l.number)
            self._stand(sm, l.warp)
            l.next = sm.free_load
            sm.free_load = load
