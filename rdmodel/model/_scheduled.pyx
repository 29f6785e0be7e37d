# Schedulers choose warps by their slots: loose round-robin, the oldest, or the last one and then the oldest. Each has
# some of the slots. In a step, each issues one instruction of a warp of its own: any number that do not access memory,
# and one that takes the port.
"""Implement the definition `hardware` for the schedulers of a machine: `ScheduledCore`, one object per SM."""

cimport cython
from libc.stdint cimport int64_t, uint64_t

from rdmodel.model._agenda cimport agenda_add_warp, early_key
from rdmodel.model._core cimport C_BLOCK, C_CHUNK, C_DONE, C_GO, C_LOG
from rdmodel.model._fast cimport DRAWS, FastCore
from rdmodel.model._pace cimport admit_due, end_step, go_on, start_warp
from rdmodel.model._port cimport draw_latencies, issue
from rdmodel.model._sched cimport MAX_SCHEDULERS, SCHED_FIFO, SCHED_RANDOM, Scheduler, sched_pick
from rdmodel.model._warp cimport OP_BARRIER, Warp
from rdmodel.structures._lru cimport NONE


@cython.final
cdef class ScheduledCore(FastCore):
    """Definition `hardware` with schedulers that choose by slots (docs/model.md section 11)."""

    cdef Scheduler[MAX_SCHEDULERS] scheduler
    cdef uint64_t[MAX_SCHEDULERS] slots_of       # the slots of each scheduler
    cdef int64_t schedulers
    cdef int64_t turn                 # the scheduler that acts first in the next step

    def __init__(self, *, int64_t sched, int64_t schedulers, bint head, bint gaps, bint evicts, **common):
        super().__init__(**common)
        cdef int64_t i
        assert sched != SCHED_RANDOM and sched != SCHED_FIFO
        assert 1 <= schedulers <= MAX_SCHEDULERS
        self.schedulers = schedulers
        for i in range(schedulers):
            self.scheduler[i] = Scheduler(sched, NONE, 0)
        for i in range(self.warps):
            self.slots_of[i % schedulers] |= <uint64_t> 1 << i
        self.head = head
        self.gaps = gaps
        self.evicts = evicts
        self.done_at = -1

    cdef bint _start_warp(self, int64_t warp) noexcept nogil:
        return start_warp(self, warp, True)

    cdef int _run(self) noexcept nogil:
        if self.sectored:
            return run_scheduled(self, True)
        return run_scheduled(self, False)


# ---- steps

cdef inline void issue_other(ScheduledCore core, int64_t warp) noexcept nogil:
    # Issue an instruction that does not access memory: the warp is ready again in the next step.
    cdef const Warp* w = &core.warp[warp]
    core.gap_left[warp] -= 1
    if core.gap_left[warp] > 0:
        return
    core.gapping ^= <uint64_t> 1 << warp
    if w.program[w.at].op == OP_BARRIER:
        core.ready_slots ^= <uint64_t> 1 << warp
        if core.done_at < core.now:
            core.done_at = core.now
            core.done = 0
        agenda_add_warp(&core.agenda, warp, early_key(core.now, core.done))
        core.done += 1


cdef inline void issue_each(ScheduledCore core) noexcept nogil:
    # Let each scheduler issue one instruction, beginning behind the one whose instruction last took the port.
    cdef int64_t i, warp, number = core.turn
    for i in range(core.schedulers):
        warp = sched_pick(
            &core.scheduler[number], &core.ready_slots, &core.slots_of[number], 1, core.warps, core.warp
        )
        if warp >= 0 and (core.gap_left[warp] > 0 or core.port < 0):
            core.scheduler[number].last = warp
            core.scheduler[number].last_age = core.warp[warp].age
            if core.gap_left[warp] > 0:
                issue_other(core, warp)
            else:
                core.ready_slots ^= <uint64_t> 1 << warp
                core.port = warp
                core.turn = number + 1 if number + 1 < core.schedulers else 0
        if core.port >= 0 and core.gapping == 0:
            return
        number = number + 1 if number + 1 < core.schedulers else 0


cdef inline int run_scheduled(ScheduledCore core, const bint sectored) noexcept nogil:
    cdef int code
    if core.advancing:
        # The last call stopped in the middle of a step, because a buffer was too short.
        if not go_on(core, True):
            return C_CHUNK
        core.advancing = False
        end_step(core, True)
    while True:
        if core._wants_block():
            return C_BLOCK
        if core.logged >= core.log_full:
            return C_LOG
        if core.port_waits or (core.port < 0 and core.ready_slots == 0):
            if core.port < 0 and core.agenda.waiting + core.parked_number == 0:
                return C_DONE
            core.now = core.agenda.first
            admit_due(core, True)
            continue
        if core.drawn_at + core.tags > DRAWS:
            draw_latencies(core)
        if core.port < 0:
            issue_each(core)
        if core.port >= 0:
            code = issue(core, sectored, True)
            if code != C_GO:
                return code
        end_step(core, True)
