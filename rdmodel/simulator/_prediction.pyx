# See _prediction.pxd for the subject.
"""Simulate the choice of warps by predicted footprints: `Prediction`, on top of `Residency`."""

from libc.stdint cimport int64_t, uint64_t

from rdmodel.simulator._footprints cimport (
    MOST_LOADS, FootprintRule, Footprints, footprints_count, footprints_init, footprints_leave, footprints_loop,
    footprints_move, footprints_sample,
)
from rdmodel.simulator._issue cimport LOAD, PAST_FLAG, Instruction, Warp
from rdmodel.simulator._machine cimport Sm
from rdmodel.simulator._residency cimport Residency
from rdmodel.structures._lru cimport NONE


cdef class Prediction(Residency):
    """Loops that warps are in, and warps that may load because the loops fit in the L1."""

    def _read_prediction(self, *, bint predicting, double share, double reuse, int64_t converged, int64_t loads):
        """Set the policy that predicts footprints: the settings of `rdmodel.policies`."""
        self.predicting = predicting
        self.footprint_share = share
        self.footprint_rule = FootprintRule(reuse, 0.0, converged, loads, 0)

    def _allocate_prediction(self):
        cdef int64_t i, lines = self.sm[0].cache.shadow_lines
        if not self.predicting:
            return
        self.footprint_rule.lines = lines
        self.footprint_rule.capacity = self.footprint_share * <double> lines
        for i in range(self.sms):
            if footprints_init(&self.sm[i].footprints, self.slots * self.block_warps, lines) < 0:
                raise MemoryError

    cdef inline void _begin_prediction(self, Sm* sm, int64_t warp) noexcept nogil:
        """Add a warp that begins, after all that have begun before."""
        if sm.footprints.sampled == NONE:
            footprints_sample(&sm.footprints, warp)
        sm.footprints.position[warp].known = False
        self._follow(sm, warp)

    cdef inline void _end_prediction(self, Sm* sm, int64_t warp) noexcept nogil:
        """Remove a warp that has ended; if it was sampled, sample the oldest of the others."""
        cdef int64_t i, oldest = NONE
        footprints_leave(&sm.footprints, warp)
        if sm.footprints.sampled != warp:
            return
        for i in range(self.slots * self.block_warps):
            if sm.warp[i].alive and (oldest == NONE or sm.warp[i].age < sm.warp[oldest].age):
                oldest = i
        footprints_sample(&sm.footprints, oldest)

    cdef inline void _follow(self, Sm* sm, int64_t warp) noexcept nogil:
        """Move a warp on, whose next instruction is known, unless that is not one that loads through the L1."""
        cdef const Warp* w = &sm.warp[warp]
        cdef const Instruction* i
        if w.at == w.n:
            footprints_leave(&sm.footprints, warp)
            return
        i = &w.program[w.at]
        if i.op == LOAD and i.count > 0 and not i.flags & PAST_FLAG:
            footprints_move(&sm.footprints, warp, i.pc, i.lanes)

    cdef inline void _rank_by_footprint(self, Sm* sm) noexcept nogil:
        """Let warps load, from the oldest on, while their footprints fit in the L1."""
        cdef Footprints* f = &sm.footprints
        cdef int64_t[MOST_LOADS] each_lane
        cdef int64_t[MOST_LOADS] once
        cdef int64_t i, k, warp, loop, lines, n = 0, total = 0
        f.stale = False
        footprints_count(f, self.footprint_rule.reuse, each_lane, once)
        for k in range(self.schedulers):
            sm.scheduler[k].active = 0
        for warp in range(self.slots * self.block_warps):
            if sm.warp[warp].alive and not sm.warp[warp].at_barrier:
                i = n
                n += 1
                while i > 0 and sm.warp[warp].age < sm.warp[f.order[i - 1]].age:
                    f.order[i] = f.order[i - 1]
                    i -= 1
                f.order[i] = warp
        for i in range(n):
            warp = f.order[i]
            loop = footprints_loop(f, f.position[warp].pc) if f.position[warp].known else NONE
            lines = 0 if loop == NONE else each_lane[loop] * f.position[warp].lanes + once[loop]
            if lines == 0 or total == 0 or <double> (total + lines) <= self.footprint_rule.capacity:
                sm.scheduler[sm.warp[warp].scheduler].active |= sm.warp[warp].bit
            total += lines
