# All threads of one block run together: the threads whose next step has the smallest index execute it, whichever warps
# they are in. Callees lie before their callers and loops go back, so diverged threads meet again at the first step that
# all of them reach, without a stack.
"""Choose the threads of a block that execute the next step: `Threads`, on top of `Registers`."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from tracegen.ptx.emulator._lanes cimport WARP, derive_warps
from tracegen.ptx.emulator._registers cimport Registers
from tracegen.ptx.isa._code cimport NEGATED, Code, Lanes

cdef enum:
    NO_STEP = 0x7FFFFFFF


cdef class Threads(Registers):
    """Threads that run, wait or have exited, and those among them that execute a step now."""

    def __cinit__(self):
        self.active.lane, self.part.lane = self.active_lanes, self.part_lanes

    cdef void start_threads(self, int64_t entry) noexcept nogil:
        """Let all threads run from step `entry` on, for a new block."""
        cdef int64_t t
        cdef uint32_t* live = self.log.live
        self.step, self.instructions, self.live = entry, 0, self.threads
        for t in range(self.log.warps):
            live[t] = 0
        for t in range(self.threads):
            self.next[t] = <int32_t>entry
            self.state[t] = RUNS
            live[t // WARP] |= <uint32_t>1 << (t % WARP)
        self.active.n = 0

    cdef bint choose(self) noexcept nogil:
        """Activate the running threads whose next step is the smallest; return whether there are any."""
        cdef int64_t t, n = 0
        cdef int32_t least = NO_STEP, second = NO_STEP, at
        for t in range(self.threads):
            if self.state[t] != RUNS:
                continue
            at = self.next[t]
            if at < least:
                second = least
                least = at
                n = 0
            if at == least:
                self.active_lanes[n] = <int32_t>t
                n += 1
            elif at < second:
                second = at
        self.active.n = n
        self.step, self.limit = least, second
        derive_warps(&self.active)
        return n > 0

    cdef void park(self, int64_t step) noexcept nogil:
        """Send the active threads to `step` and deactivate them."""
        cdef int64_t i
        for i in range(self.active.n):
            self.next[self.active.lane[i]] = <int32_t>step
        self.active.n = 0

    cdef Lanes* select(self, const Code* code) noexcept nogil:
        """Return the active lanes for which a guard holds."""
        cdef int64_t i, n = 0
        cdef const uint64_t* guard = self.row(code.guard)
        cdef uint64_t wanted = 0 if code.flags & NEGATED else 1
        for i in range(self.active.n):
            self.part_lanes[n] = self.active_lanes[i]
            n += (guard[self.active_lanes[i]] & 1) == wanted
        if n == self.active.n:
            return &self.active
        self.part.n = n
        derive_warps(&self.part)
        return &self.part
