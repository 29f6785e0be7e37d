# See _control_steps.pxd for the subject.
"""Execute steps that choose the next step of a thread: `ControlSteps`, on top of `Threads`."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from tracegen.ptx.emulator._threads cimport EXITED, TRAPPED, UNFINISHED, Threads
from tracegen.ptx.isa._code cimport BRX, EXECUTE, TRACK, Code, Lanes


cdef class ControlSteps(Threads):
    """Steps that send threads elsewhere, and those that end them."""

    cdef void branch(self, const Code* code) noexcept nogil:
        cdef Lanes* taken
        cdef int64_t i
        cdef int64_t loop = self.loops[code.target] if self.records and code.target <= self.step else -1
        if code.guard < 0:
            if loop >= 0:
                self.log.turn_back(&self.active, loop)
            self.go(code.target)
            return
        self.wait(&self.active, code.guard)
        taken = self.guarded(code)
        if loop >= 0:
            self.log.turn_back(taken, loop)
        if taken == &self.active:
            self.go(code.target)
        elif taken.n == 0:
            self.go(self.step + 1)
        else:
            self.park(self.step + 1)
            for i in range(taken.n):
                self.next[taken.lane[i]] = <int32_t>code.target

    cdef void call(self, const Code* code) noexcept nogil:
        cdef int64_t i
        cdef uint64_t* back = self.row(code.dst[0])
        for i in range(self.active.n):
            back[self.active.lane[i]] = <uint64_t>(self.step + 1)
        self.go(code.target)

    cdef int64_t jump(self, const Code* code) noexcept nogil:
        """Jump to the step in a register: back to the caller, or to an entry of a branch table."""
        cdef int64_t i
        cdef uint64_t at
        cdef const uint64_t* where = self.row(code.src[0])
        for i in range(self.active.n):
            at = where[self.active.lane[i]]
            if code.op == BRX:
                if <uint32_t>at >= <uint64_t>code.count:
                    self.thread, self.address = self.active.lane[i], <uint32_t>at
                    return TRAPPED
                at = <uint64_t>self.targets[code.target + <int64_t><uint32_t>at]
            self.next[self.active.lane[i]] = <int32_t>at
        if code.op == BRX:
            self.wait(&self.active, code.src[0])
        self.active.n = 0
        return UNFINISHED

    cdef void leave(self) noexcept nogil:
        cdef int64_t i
        for i in range(self.active.n):
            self.state[self.active.lane[i]] = EXITED
        self.log.retire(&self.active)
        self.live -= self.active.n
        self.active.n = 0

    cdef int64_t trap(self, const Code* code) noexcept nogil:
        """Stop at an instruction that cannot be executed, if a lane executes it and its result matters."""
        cdef Lanes* lanes = self.guarded(code)
        if lanes.n and code.flags & EXECUTE:
            self.thread = lanes.lane[0]
            return TRAPPED
        if lanes.n and code.flags & TRACK and self.records:
            self.log.pass_on(code, lanes)
        self.go(self.step + 1)
        return UNFINISHED
