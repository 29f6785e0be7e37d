# See _block_issue.pxd for the subject.
"""Simulate the issue of warps by their blocks: `BlockIssue`, on top of `Scheduling`."""

from libc.stdint cimport int64_t, uint64_t

from rdmodel.simulator._issue cimport Scheduler, lowest_bit, pick_next, scheduler_pick
from rdmodel.simulator._machine cimport Sm
from rdmodel.simulator._network cimport C_GO, C_MEMORY
from rdmodel.simulator._scheduling cimport Scheduling


cdef class BlockIssue(Scheduling):
    """Instructions counted by block, and blocks whose warps go first."""

    cdef int _issue_by_blocks(self, int64_t i, int64_t t) noexcept nogil:
        """Issue as `_issue` does, and note what policies want to know of the cycle."""
        cdef Sm* sm = &self.sm[i]
        cdef Scheduler* s
        cdef int64_t k, turn, place, warp, first = t if self.first_by_cycle else sm.first_scheduler
        cdef int64_t issued = sm.n.warp_instructions
        cdef uint64_t candidates
        for turn in range(self.schedulers):
            k = (first + turn) % self.schedulers
            s = &sm.scheduler[k]
            candidates = self._candidates(sm, k)
            if candidates == 0:
                continue
            place = self._pick(sm, k, candidates)
            warp = k + place * self.schedulers
            s.last = place
            s.last_age = sm.warp[warp].age
            sm.slot[warp // self.block_warps].issued += 1
            if self._issue_from(i, t, warp) < 0:
                return C_MEMORY
        if self.counts_cycles:
            self._end_issue(sm, t, sm.n.warp_instructions > issued)
        return C_GO

    cdef int64_t _pick(self, Sm* sm, int64_t k, uint64_t candidates) noexcept nogil:
        """Return the place of the warp of scheduler `k` that issues; there are candidates."""
        if self.stays_with_group:
            return self._pick_in_group(sm, k, candidates)
        return scheduler_pick(
            &sm.scheduler[k], self.sched, candidates, sm.warp, k, self.schedulers, self.fetch_group
        )

    # ---- groups of consecutive blocks

    cdef int64_t _pick_in_group(self, Sm* sm, int64_t k, uint64_t candidates) noexcept nogil:
        """BAWS: stay with the group that issued last, or turn to the oldest; its warps take turns."""
        cdef Scheduler* s = &sm.scheduler[k]
        cdef uint64_t left = candidates, members = self._members(sm, k, candidates, s.group)
        cdef int64_t oldest
        if members == 0:
            oldest = sm.warp[k + lowest_bit(left) * self.schedulers].block
            while left != 0:
                oldest = min(oldest, sm.warp[k + lowest_bit(left) * self.schedulers].block)
                left &= left - 1
            s.group = oldest // self.block_group
            members = self._members(sm, k, candidates, s.group)
        return pick_next(members, s.last)

    cdef uint64_t _members(self, const Sm* sm, int64_t k, uint64_t candidates, int64_t group) noexcept nogil:
        """Return the candidates of scheduler `k` whose blocks are in a group, as bits by place."""
        cdef uint64_t members = 0
        cdef int64_t place
        while candidates != 0:
            place = lowest_bit(candidates)
            if sm.warp[k + place * self.schedulers].block // self.block_group == group:
                members |= <uint64_t> 1 << place
            candidates &= candidates - 1
        return members
