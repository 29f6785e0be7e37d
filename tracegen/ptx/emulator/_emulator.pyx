# Each class inherits from the next: `Emulator`, `BulkCopySteps`, `BarrierSteps`, `TextureSteps`, `MemorySteps`,
# `ArithmeticSteps`, `ControlSteps`, `Threads`, `Registers`. The compiler cannot inline a method into another module, so
# a step calls methods of other modules a few times for all of its lanes; what each lane needs is in the module of the
# step, or inline in a .pxd.
"""Interpret lowered PTX for one block of threads: `Emulator`, on top of the classes for each kind of step."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

import numpy as np

from tracegen.ptx.emulator._bulk_copy_steps cimport BulkCopySteps
from tracegen.ptx.emulator._events cimport Events
from tracegen.ptx.emulator._lanes cimport derive_warps
from tracegen.ptx.emulator._log cimport Log
from tracegen.ptx.emulator._places cimport Places
from tracegen.ptx.emulator._poison cimport Poison
from tracegen.ptx.emulator._threads cimport FINISHED, UNCOMPUTED, UNFINISHED, StepCounts
from tracegen.ptx.isa._code cimport (
    ATOM, BAR, BLOCK, BRA, BRX, CALL, COPY_BULK, EXECUTE, EXIT, LOAD, MBAR, MOVE_BULK, NOTED, PIECE, POISON, POISONED,
    RET, SULD, SUST, TEX, TRACK, WAIT, Code, Lanes,
)

# A cimported name exists only in C; callers of this module need it in Python.
from tracegen.ptx.emulator._threads import Status


@cython.final
cdef class Emulator(BulkCopySteps):
    """Interpreter of one launch, one block at a time: call `restart`, then `run` until it is no longer UNFINISHED.

    `code` is a table of steps (program.CODE_DTYPE), `registers` (slots, threads) uint64: rows below `variables` are
    cleared for every block, the others hold constants. `step`, `thread` and `address` tell where it stopped, `slot` the
    poisoned register that stopped it (-1: a value for an array). `events` has the steps with the flags PIECE and NOTED.
    `poison` is used by steps with the flag POISONED. With `strict`, no poison may reach an array.
    """

    cdef readonly int64_t executed # steps of the last call of `run`
    cdef object owners
    cdef int64_t step_count        # of the program
    cdef const int64_t* regions    # see EmulatedLaunch

    def __init__(
        self, const Code[::1] code, uint64_t[:, ::1] registers, int64_t variables, const int64_t[::1] targets,
        Places places, Log log, Events events, Poison poison, const int64_t[::1] regions, const int64_t[::1] loops,
        int64_t[:, ::1] counts, bint strict, int64_t max_instructions, int64_t max_bytes,
    ):
        assert counts.shape[0] == code.shape[0] and counts.shape[1] * 8 == sizeof(StepCounts)
        self.owners = (code, registers, targets, regions, loops, counts)
        self.counts, self.step_count = <StepCounts*>&counts[0, 0], code.shape[0]
        self.regions, self.loops = &regions[0], &loops[0]
        self.code, self.registers, self.targets = &code[0], &registers[0, 0], &targets[0]
        self.threads, self.variables = registers.shape[1], variables
        self.places, self.log, self.events, self.poison, self.strict = places, log, events, poison, strict
        self.max_instructions, self.max_bytes = max_instructions, max_bytes
        self.make_patterns(self.step_count)
        self.join(np.zeros(1, np.int64), 0)

    def restart(self, int64_t entry, int64_t local_base, bint records):
        """Prepare a new block at step `entry`; its local memory is recorded from `local_base` on."""
        self.local_base, self.records, self.changes_copies = local_base, records, False
        memset(self.counts, 0, <size_t>self.step_count * sizeof(StepCounts))
        self.clear_registers()
        self.places.clear()
        self.poison.clear()
        self.log.restart()
        self.events.restart()
        self.clear_barriers()
        self.start_threads(entry)

    def run(self, int64_t steps):
        """Execute at most `steps` steps and return the `Status`."""
        cdef int64_t status = UNFINISHED
        self.executed = 0
        with nogil:
            while steps > 0 and status == UNFINISHED:
                if self.active.n == 0 and not self.choose():
                    status = self.release()
                else:
                    status = self.execute(self.code + self.step)
                    self.executed += 1
                steps -= 1
        return status

    cdef int64_t execute(self, const Code* code) noexcept nogil:
        """Execute one step for the active threads."""
        cdef Lanes* lanes
        cdef StepCounts* counts = self.counts + self.step
        cdef int64_t status = UNFINISHED
        if code.flags & BLOCK and self.records:
            self.log.begin_block(&self.active, self.loops[self.step])
        if code.flags & POISONED:
            status = self.settle(code)
            if status != FINISHED:
                return status
            status = UNFINISHED
        if code.flags & PIECE:
            self.events.enter(&self.active, self.step)
        counts.issued += self.active.warps
        counts.active += self.active.n
        if code.op >= BRA:
            return self.control(code)
        self.count(code, &self.active)
        lanes = self.guarded(code)
        counts.warps += lanes.warps
        counts.lanes += lanes.n
        self.wait(&self.active, code.guard)
        if lanes.n:
            if code.flags & NOTED:
                self.events.note(lanes, self.step)
            if code.op >= LOAD and code.op <= ATOM:
                status = self.access(code, lanes)
            elif code.op == TEX:
                status = self.read_texture(code, lanes)
            elif code.op == SULD or code.op == SUST:
                status = self.access_surface(code, lanes)
            elif code.op == MOVE_BULK:
                status = self.move_bulk(code, lanes)
            elif code.op == WAIT:
                self.wait(lanes, code.src[0])
            else:
                if code.flags & EXECUTE and code.op != POISON:
                    self.compute(code, lanes)
                if code.flags & TRACK and self.records:
                    self.log.pass_on(code, lanes)
        if status == UNFINISHED:
            self.go(self.step + 1)
        return self.limited(status)

    cdef int64_t control(self, const Code* code) noexcept nogil:
        """Execute a step that sends its threads elsewhere, makes them wait, or does so for some of them."""
        cdef int64_t op = code.op
        self.count(code, &self.active)
        if op == BRA:
            self.branch(code)
        elif op == EXIT:
            self.leave()
        elif op == BAR:
            return self.limited(self.reach_barrier(code))
        elif op == CALL:
            self.call(code)
        elif op == RET or op == BRX:
            return self.limited(self.jump(code))
        elif op == COPY_BULK:
            return self.limited(self.copy_bulk(code))
        elif op == MBAR:
            return self.limited(self.use_mbarrier(code))
        else:
            return self.limited(self.trap(code))
        return self.limited(UNFINISHED)

    cdef int64_t settle(self, const Code* code) noexcept nogil:
        """Move poison as the step will move values. Return FINISHED if the step can be executed.

        The step stops the block if an address or a branch depends on poison. A branch about values alone is left.
        """
        cdef int64_t i, spoiled = self.poison.find(code.guard, &self.active)
        cdef bint computes = code.op < LOAD or (code.op > MOVE_BULK and code.op < BRA)
        cdef Lanes* lanes
        if spoiled >= 0 and code.op == BRA and code.mode:
            self.skip_region(code)
            return UNFINISHED
        if spoiled >= 0 and not computes:
            self.thread, self.slot = spoiled, code.guard
            return UNCOMPUTED
        lanes = self.guarded(code)
        if computes:
            if code.flags & EXECUTE:
                self.poison.compute(code, lanes, self.registers)
            if spoiled >= 0:
                self.poison.taint(code, &self.active, code.guard)
            return FINISHED
        for i in range(12 if code.op >= MOVE_BULK else (1 if code.op <= ATOM else 4)):
            spoiled = self.poison.find(code.src[i], lanes)
            if spoiled >= 0:
                self.thread, self.slot = spoiled, code.src[i]
                return UNCOMPUTED
        return FINISHED

    cdef void skip_region(self, const Code* code) noexcept nogil:
        """Send the lanes with a poisoned condition behind the region of a branch, with poison in what it writes."""
        cdef const int64_t* region = self.regions + code.mode
        cdef int64_t i, k, lane, n = 0
        for i in range(self.active.n):
            lane = self.active.lane[i]
            if not self.poison.rows[code.guard, lane]:
                self.next[lane] = <int32_t>self.step
                continue
            self.next[lane] = <int32_t>region[0]
            self.part_lanes[n] = <int32_t>lane
            n += 1
            for k in range(region[1]):
                self.poison.rows[region[2 + k], lane] = 1
        self.part.n = n
        derive_warps(&self.part)
        self.count(code, &self.part)
        self.counts[self.step].issued += self.part.warps
        self.active.n = 0
