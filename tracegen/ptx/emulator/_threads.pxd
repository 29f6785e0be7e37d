# `Threads`: the threads of a block, the step that each of them executes next, and the choice of those that execute it
# now; on top of `Registers`. Steps of all kinds need the guards, counts and waits that it offers.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from tracegen.ptx.emulator._events cimport Events
from tracegen.ptx.emulator._lanes cimport MAX_BLOCK_THREADS
from tracegen.ptx.emulator._log cimport Log
from tracegen.ptx.emulator._registers cimport Registers
from tracegen.ptx.isa._code cimport COUNTED, Code, Lanes

# What a step returns, and a run of several: UNFINISHED lets the block go on.
cpdef enum Status:
    UNFINISHED, FINISHED, OUTSIDE, TOO_LONG, DEADLOCK, TRAPPED, NO_MEMORY, UNCOMPUTED

# State of a thread.
cdef enum:
    RUNS
    WAITS
    EXITED

cdef struct StepCounts:
    # What a block has executed of one step; tracegen.ptx.emulator.step_counts.COUNTS names the fields.
    int64_t issued         # warps with an active lane
    int64_t warps          # warps with a lane for which the guard holds
    int64_t lanes          # lanes for which the guard holds
    int64_t shared         # warps that accessed shared memory
    int64_t local          # warps that accessed local memory
    int64_t wavefronts     # of shared memory
    int64_t groups         # of lanes that shared memory serves together
    int64_t active         # active lanes


cdef class Threads(Registers):
    cdef readonly int64_t step     # of the active threads, or of those that stopped the block; `thread` is one of them
    cdef readonly int64_t thread
    cdef readonly uint64_t address
    cdef readonly int64_t instructions
    cdef int64_t max_instructions
    cdef const Code* code
    cdef StepCounts* counts        # per step
    cdef const int64_t* loops      # per step: the loop whose header it is, or -1
    cdef Log log
    cdef Events events
    cdef bint records
    # Per thread: its state, and its next step (stale while it is active).
    cdef int32_t[MAX_BLOCK_THREADS] next
    cdef uint8_t[MAX_BLOCK_THREADS] state
    cdef int64_t live              # threads that have not exited
    # The active threads execute `step`; the next step of every other running thread is at least `limit`.
    cdef int64_t limit
    cdef Lanes active, part        # `part`: those of the active threads for which a guard holds
    cdef int32_t[MAX_BLOCK_THREADS] active_lanes, part_lanes

    cdef void start_threads(self, int64_t entry) noexcept nogil
    cdef bint choose(self) noexcept nogil
    cdef void park(self, int64_t step) noexcept nogil
    cdef Lanes* select(self, const Code* code) noexcept nogil

    cdef inline Lanes* guarded(self, const Code* code) noexcept nogil:
        # Return the active lanes for which the guard holds.
        return &self.active if code.guard < 0 else self.select(code)

    cdef inline void go(self, int64_t step) noexcept nogil:
        # Continue at `step`; from `limit` on, first let other threads catch up or join.
        self.step = step
        if step >= self.limit:
            self.park(step)

    cdef inline void count(self, const Code* code, const Lanes* lanes) noexcept nogil:
        # Count the step if an instruction begins with it.
        if code.flags & COUNTED:
            self.instructions += lanes.warps
            if self.records:
                self.log.count_instruction(lanes)

    cdef inline void wait(self, const Lanes* lanes, int64_t slot) noexcept nogil:
        # Let the next recorded access wait for the loads that a register depends on.
        if self.records:
            self.log.wait(lanes, slot)

    cdef inline int64_t limited(self, int64_t status) noexcept nogil:
        # Stop a block that has executed too many instructions.
        return TOO_LONG if status == UNFINISHED and self.instructions > self.max_instructions else status
