# See _block_issue.pxd for the subject.
"""Simulate the issue of warps by their blocks: `BlockIssue`, on top of `Scheduling`."""

from libc.stdint cimport int64_t, uint64_t

from rdmodel.simulator._issue cimport Scheduler, lowest_bit, pick_next, scheduler_pick
from rdmodel.simulator._machine cimport BlockSlot, Sm
from rdmodel.simulator._network cimport C_GO, C_MEMORY
from rdmodel.simulator._scheduling cimport CHOOSE_ANY, CHOOSE_FIRST, CHOOSE_SAME, Scheduling
from rdmodel.simulator._wakes cimport NEVER


cdef class BlockIssue(Scheduling):
    """Instructions counted by block, and groups of blocks that go first."""

    cdef void _note_block(self, int64_t i, int64_t slot, int64_t block) noexcept nogil:
        """Note that a block begins on SM `i`, and put it into a group."""
        cdef BlockSlot* b = &self.sm[i].slot[slot]
        Scheduling._note_block(self, i, slot, block)
        b.group = self._group_number(i) if self.numbers_groups else block // self.block_group

    cdef inline int64_t _group_number(self, int64_t i) noexcept nogil:
        """OWL: return the place of the next block's group in the order of those of SM `i`."""
        cdef int64_t begun = self.sm[i].n.blocks // self.group_size
        cdef int64_t group = begun % self.round_groups, first = i % self.round_groups if self.groups_differ else 0
        return begun - group + (group - first + self.round_groups) % self.round_groups

    cdef int _issue_by_blocks(self, int64_t i, int64_t t) noexcept nogil:
        """Issue as `_issue` does, and note what policies want to know of the cycle.

        It is a loop of its own, since its branches in `_issue` would slow machines without such policies.
        """
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
            if self.choice == CHOOSE_ANY:
                place = scheduler_pick(s, self.sched, candidates, sm.warp, k, self.schedulers, self.fetch_group)
            else:
                s.group = self._choose_group(sm, k, candidates)
                place = pick_next(self._members(sm, k, candidates), s.last)
            warp = k + place * self.schedulers
            s.last = place
            s.last_age = sm.warp[warp].age
            sm.slot[sm.warp[warp].slot].issued += 1
            if self._issue_from(i, t, warp) < 0:
                return C_MEMORY
        if self.counts_cycles:
            self._end_issue(sm, t, sm.n.warp_instructions > issued)
        return C_GO

    cdef inline int64_t _choose_group(self, const Sm* sm, int64_t k, uint64_t candidates) noexcept nogil:
        """Return the group from which scheduler `k` issues; there are candidates."""
        cdef int64_t group, current = sm.scheduler[k].group, first = NEVER, next = NEVER
        while candidates != 0:
            group = self._group_of(sm, k, lowest_bit(candidates))
            first = min(first, group)
            if group >= current:
                next = min(next, group)
            candidates &= candidates - 1
        if self.choice == CHOOSE_FIRST or next == NEVER or self.choice == CHOOSE_SAME and next > current:
            return first
        return next

    cdef inline uint64_t _members(self, const Sm* sm, int64_t k, uint64_t candidates) noexcept nogil:
        """Return the candidates of scheduler `k` that belong to its current group, as bits by place."""
        cdef uint64_t members = 0
        cdef int64_t place
        while candidates != 0:
            place = lowest_bit(candidates)
            if self._group_of(sm, k, place) == sm.scheduler[k].group:
                members |= <uint64_t> 1 << place
            candidates &= candidates - 1
        return members

    cdef inline int64_t _group_of(self, const Sm* sm, int64_t k, int64_t place) noexcept nogil:
        """Return the group of the block of a warp of scheduler `k`."""
        return sm.slot[sm.warp[k + place * self.schedulers].slot].group
