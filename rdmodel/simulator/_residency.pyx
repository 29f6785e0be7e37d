# See _residency.pxd for the subject.
"""Simulate limits on the blocks of an SM: `Residency`, on top of `Reordering`."""

from libc.stdint cimport int64_t, uint64_t

from rdmodel.simulator._congestion cimport congestion_answer
from rdmodel.simulator._issue cimport WITH_ROOM, Warp, warp_awaits_data
from rdmodel.simulator._machine cimport SECTORS_AT, WRITE, Sm
from rdmodel.simulator._reorder cimport Reordering
from rdmodel.structures._ring cimport Item, ring_at


cdef class Residency(Reordering):
    """Blocks that an SM may have, and blocks whose warps may issue loads."""

    def _read_residency(
        self, *, bint limited, bint counting, int64_t idle, int64_t low, int64_t high, bint monitored, int64_t group,
    ):
        """Set the policy that limits blocks: the settings of `rdmodel.policies`."""
        self.limits_blocks = limited
        self.counts_cycles = counting
        self.max_idle = idle
        self.low_waiting = low
        self.high_waiting = high
        self.monitors_blocks = monitored
        self.block_group = min(group, self.slots)

    cdef void _begin_residency(self, Sm* sm) noexcept nogil:
        """Set the first limit of an SM: all of its slots or, if the limit follows its cycles, half of them."""
        sm.block_limit = max(self.slots // 2, 1) if self.counts_cycles else self.slots
        sm.counted = -1
        sm.monitored = self.monitors_blocks

    cdef bint _takes_block(self, int64_t i) noexcept nogil:
        """Return whether a free slot of SM `i` may get the next block, which continues a group or begins one."""
        cdef int64_t slot, resident = 0
        if self.next_block % self.block_group != 0:
            return i == self.sm_of_last_block
        for slot in range(self.slots):
            resident += self.sm[i].slot[slot].occupied
        return resident + self.block_group <= self.sm[i].block_limit

    cdef void _note_block(self, int64_t i, int64_t slot, int64_t block) noexcept nogil:
        """Note that a block begins on SM `i`."""
        self.next_block = block + 1
        self.sm_of_last_block = i
        self.sm[i].slot[slot].issued = 0

    cdef void _end_monitoring(self, Sm* sm) noexcept nogil:
        """LCS: limit the blocks of an SM, the first of which ends, by the instructions that all have issued."""
        cdef int64_t slot, needed, groups, total = 0, most = 1
        for slot in range(self.slots):
            if sm.slot[slot].occupied:
                total += sm.slot[slot].issued
                most = max(most, sm.slot[slot].issued)
        needed = (total + most - 1) // most
        groups = (needed + self.block_group - 1) // self.block_group
        sm.block_limit = min(groups * self.block_group, self.slots)
        sm.monitored = False

    # ---- running blocks: the oldest ones, as many as the limit allows

    cdef inline bint _runs(self, const Sm* sm, int64_t slot) noexcept nogil:
        """Return whether the warps of a block may issue loads."""
        cdef int64_t other, older = 0
        for other in range(self.slots):
            older += sm.slot[other].occupied and sm.slot[other].block < sm.slot[slot].block
        return older < sm.block_limit

    cdef uint64_t _running(self, Sm* sm, int64_t k) noexcept nogil:
        """Return the warps of scheduler `k` that are active and whose blocks run, as bits by place."""
        cdef int64_t warp, slot
        cdef uint64_t bits = 0
        for slot in range(self.slots):
            if not sm.slot[slot].occupied or not self._runs(sm, slot):
                continue
            for warp in range(slot * self.block_warps, (slot + 1) * self.block_warps):
                if sm.warp[warp].scheduler == k and sm.warp[warp].alive and not sm.warp[warp].at_barrier:
                    bits |= sm.warp[warp].bit
        return bits

    # ---- before a cycle

    cdef void _attend(self, Sm* sm, int64_t t) noexcept nogil:
        """Let policies look at an SM before its cycle `t`."""
        if self.counts_cycles:
            self._count_cycles(sm, t - 1)
        if self.limiting_by_latency:
            self._time_answers(sm, t)

    cdef inline void _time_answers(self, Sm* sm, int64_t t) noexcept nogil:
        """Count the answers to reads that the SM takes in cycle `t`, and the cycles that each has been under way."""
        cdef int64_t i
        cdef const Item* item
        for i in range(sm.responses.size):
            item = ring_at(&sm.responses, i)
            if item.time > t:
                return
            if not item.what & WRITE:
                congestion_answer(
                    &sm.congestion, self.ideal if self.ideal >= 0 else item.time - (item.what >> SECTORS_AT)
                )

    # ---- cycles without an issue

    cdef void _count_cycles(self, Sm* sm, int64_t until) noexcept nogil:
        """Count the cycles up to `until` that have not been counted, in which the SM issued nothing."""
        cdef int64_t cycles = until - sm.counted
        if cycles <= 0:
            return
        sm.counted = until
        if self._all_await_memory(sm):
            sm.waiting_cycles += cycles
        else:
            sm.idle_cycles += cycles

    cdef void _end_issue(self, Sm* sm, int64_t t, bint issued) noexcept nogil:
        """Count cycle `t` unless an instruction issued in it, before the end of the cycle changes the warps."""
        if issued:
            sm.counted = t
        else:
            self._count_cycles(sm, t)

    cdef inline bint _all_await_memory(self, const Sm* sm) noexcept nogil:
        """Return whether there are active warps in running blocks, and all of them await data or the load/store unit."""
        cdef int64_t warp, slot
        cdef bint some = False
        cdef const Warp* w
        for slot in range(self.slots):
            if not sm.slot[slot].occupied or not self._runs(sm, slot):
                continue
            for warp in range(slot * self.block_warps, (slot + 1) * self.block_warps):
                w = &sm.warp[warp]
                if w.alive and not w.at_barrier:
                    if not warp_awaits_data(w) and w.standing < WITH_ROOM:
                        return False
                    some = True
        return some

    cdef bint _adjust_blocks(self, Sm* sm) noexcept nogil:
        """DYNCTA: end the period of an SM; return whether its limit has changed."""
        cdef int64_t limit = sm.block_limit
        self._count_cycles(sm, self.now)
        if sm.idle_cycles > self.max_idle:
            limit += 1
        elif sm.waiting_cycles > self.high_waiting:
            limit -= 1
        elif sm.waiting_cycles < self.low_waiting:
            limit += 1
        sm.idle_cycles = sm.waiting_cycles = 0
        limit = min(max(limit, 1), self.slots)
        if limit == sm.block_limit:
            return False
        sm.block_limit = limit
        return True
