# See _barrier_steps.pxd for the subject. No barrier opens while a thread of the block can still run.
"""Execute arrivals and waits at barriers: `BarrierSteps`, on top of `TextureSteps`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from tracegen.ptx.emulator._lanes cimport WARP, begins_warp
from tracegen.ptx.emulator._log cimport OP_BARRIER
from tracegen.ptx.emulator._mbarrier cimport arrive, drop, has_completed, parity_of, start, state_of
from tracegen.ptx.emulator._memory_steps cimport shared_offset
from tracegen.ptx.emulator._texture_steps cimport TextureSteps
from tracegen.ptx.emulator._threads cimport (
    DEADLOCK, EXITED, FINISHED, NO_MEMORY, OUTSIDE, RUNS, TRAPPED, UNFINISHED, WAITS,
)
from tracegen.ptx.isa._code cimport (
    BAR_AND, BAR_ARRIVE, BAR_POPC, MBAR_COMPLETE, MBAR_DROP, MBAR_EXPECT, MBAR_INIT, MBAR_INVAL, MBAR_TEST,
    MBAR_TEST_PARITY, NOTED, SHARED, Code, Lanes,
)

# In place of the number of a barrier of the block.
cdef enum:
    CLUSTER_BARRIER = 16
    AT_MBARRIER = 255


cdef class BarrierSteps(TextureSteps):
    """Steps at which threads wait for other threads of the block or cluster."""

    def join(self, int64_t[::1] signals, int64_t rank):
        """Make the block the one of this rank in a cluster, whose blocks share `signals`, one number for each."""
        assert 0 <= rank < signals.shape[0]
        self.cluster, self.signals, self.rank, self.alone = signals, &signals[0], rank, signals.shape[0] == 1

    def missing(self):
        """Return the running threads that have not arrived at the barrier of the cluster, and those that wait there."""
        cdef int64_t t, left = 0, waiting = 0
        for t in range(self.threads):
            left += self.state[t] != EXITED and self.arrived_phase[t] != self.phase
            waiting += self.state[t] == WAITS and self.barrier[t] == CLUSTER_BARRIER
        return left, waiting

    def open_cluster_barrier(self):
        """End the phase of the barrier of the cluster."""
        self.end_phase()

    def waiting(self):
        """Return (thread, step, barrier) of every thread that waits at a barrier."""
        return [(t, self.next[t], self.barrier[t]) for t in range(self.threads) if self.state[t] == WAITS]

    cdef void clear_barriers(self) noexcept nogil:
        """Forget all arrivals, for a new block."""
        cdef int64_t t
        self.signals[self.rank] = 0
        self.phase = 0
        memset(self.arrived, 0, sizeof(self.arrived))
        for t in range(self.threads):
            self.arrived_phase[t] = -1

    # ---- Arrivals

    cdef int64_t reach_barrier(self, const Code* code) noexcept nogil:
        cdef int64_t i, lane, number
        cdef bint arrives = code.mode == BAR_ARRIVE
        if code.src[2] >= 0:
            self.wait(&self.active, code.src[2])
        if self.records and not (arrives and code.count == CLUSTER_BARRIER):
            self.log.uncount_instruction(&self.active)
            if not self.log.append(code, &self.active, OP_BARRIER, 0, 0, NULL):
                return NO_MEMORY
        if code.count == CLUSTER_BARRIER:
            if code.flags & NOTED:
                self.events.note(&self.active, self.step)
            self.reach_cluster_barrier(arrives)
            return UNFINISHED
        for i in range(self.active.n):
            lane = self.active.lane[i]
            number = <int64_t>self.row(code.src[0])[lane]
            if number >= MAX_BARRIERS:
                self.thread = lane
                return TRAPPED
            if code.flags & NOTED and begins_warp(&self.active, i):
                self.note_barrier(code, lane, number)
            if arrives:
                self.arrived[number] += 1
                continue
            self.barrier[lane] = <uint8_t>number
            self.expected[lane] = <int32_t>self.row(code.src[1])[lane] if code.src[1] >= 0 else 0
            self.state[lane] = WAITS
        if arrives:
            self.go(self.step + 1)
        else:
            self.park(self.step)
        return UNFINISHED

    cdef void note_barrier(self, const Code* code, int64_t lane, int64_t number) noexcept nogil:
        """Note that the warp of a lane arrives at a barrier, and the threads that the barrier expects."""
        cdef int64_t expected = <int64_t>self.row(code.src[1])[lane] if code.src[1] >= 0 else 0
        self.events.append(lane // WARP, self.step, number, expected, 0)

    cdef void reach_cluster_barrier(self, bint arrives) noexcept nogil:
        """Arrive at the barrier of the cluster, or wait for the end of the phase in which the threads arrived."""
        cdef int64_t i, lane
        for i in range(self.active.n):
            lane = self.active.lane[i]
            self.next[lane] = <int32_t>(self.step + 1)
            if arrives:
                self.arrived_phase[lane] = self.phase
            elif self.arrived_phase[lane] == self.phase:
                self.state[lane], self.barrier[lane] = WAITS, CLUSTER_BARRIER
                self.next[lane] = <int32_t>self.step
        self.active.n = 0

    cdef int64_t use_mbarrier(self, const Code* code) noexcept nogil:
        """Execute an operation on mbarriers lane by lane; lanes that test an incomplete phase wait for it."""
        cdef int64_t i, lane, amount
        cdef uint64_t place, parity
        cdef uint8_t* host
        cdef Lanes* lanes = self.guarded(code)
        self.wait(&self.active, code.guard)
        if self.records:
            self.log.wait_for_published(lanes)
        if code.mode >= MBAR_TEST:
            self.wait(lanes, code.src[3])
        for i in range(self.active.n):
            self.next[self.active.lane[i]] = <int32_t>(self.step + 1)
        for i in range(lanes.n):
            lane = lanes.lane[i]
            place = shared_offset(self.row(code.src[0])[lane] + <uint64_t>code.offset)
            if not self.locate_one(lane, SHARED, place, 8):
                return OUTSIDE
            host = self.places.hosted[0]
            amount = <int64_t><uint32_t>self.row(code.src[1])[lane] if code.src[1] >= 0 else 1
            if code.mode == MBAR_TEST or code.mode == MBAR_TEST_PARITY:
                parity = self.row(code.src[1])[lane]
                if code.mode == MBAR_TEST:
                    parity = parity_of(parity)
                if has_completed(host, parity & 1):
                    self.row(code.dst[0])[lane] = 1
                    if code.flags & NOTED and begins_warp(lanes, i):
                        self.events.append(lane // WARP, self.step, <int64_t>place, <int64_t>(parity & 1), 0)
                else:
                    self.state[lane], self.barrier[lane] = WAITS, AT_MBARRIER
                    self.next[lane] = <int32_t>self.step
            elif code.mode == MBAR_INIT:
                start(host, amount)
                self.note_arrival(code, lane, place, amount, 0)
            elif code.mode == MBAR_EXPECT:
                self.signal(place, arrive(host, 0, amount))
                self.note_arrival(code, lane, place, 0, amount)
            elif code.mode == MBAR_COMPLETE:
                self.signal(place, arrive(host, 0, -amount))
                self.note_arrival(code, lane, place, 0, -amount)
            elif code.mode != MBAR_INVAL:
                if code.dst[0] >= 0:
                    self.row(code.dst[0])[lane] = state_of(host)
                if code.mode == MBAR_DROP:
                    drop(host, amount)
                parity = self.row(code.src[2])[lane] if code.src[2] >= 0 else 0
                self.signal(place, arrive(host, amount, <int64_t><uint32_t>parity))
                self.note_arrival(code, lane, place, amount, <int64_t><uint32_t>parity)
        self.active.n = 0
        return UNFINISHED

    # ---- Openings

    cdef int64_t release(self) noexcept nogil:
        """Open the barriers that are complete, once no thread can run."""
        cdef int64_t number
        cdef bint opened = False
        if self.live == 0:
            return FINISHED
        for number in range(MAX_BARRIERS):
            opened |= self.open_barrier(number)
        if self.alone and not opened:
            opened = self.open_own_cluster_barrier()
        if not opened and self.signals[self.rank]:
            self.signals[self.rank] = 0
            for number in range(self.threads):
                if self.state[number] == WAITS and self.barrier[number] == AT_MBARRIER:
                    self.state[number] = RUNS
                    opened = True
        return UNFINISHED if opened else DEADLOCK

    cdef bint open_barrier(self, int64_t number) noexcept nogil:
        cdef int64_t t, waiting = 0, hold = 0, expected = 0
        cdef const Code* code
        for t in range(self.threads):
            if self.state[t] == WAITS and self.barrier[t] == number:
                code = self.code + self.next[t]
                waiting += 1
                expected = max(expected, self.expected[t] if self.expected[t] else self.live)
                if code.mode >= BAR_POPC:
                    hold += <int64_t>(self.row(code.src[2])[t] & 1)
        if waiting == 0 or waiting + self.arrived[number] < expected:
            return False
        for t in range(self.threads):
            if self.state[t] == WAITS and self.barrier[t] == number:
                code = self.code + self.next[t]
                if code.mode == BAR_POPC:
                    self.row(code.dst[0])[t] = <uint64_t>hold
                elif code.mode >= BAR_AND:
                    self.row(code.dst[0])[t] = hold == waiting if code.mode == BAR_AND else hold > 0
                self.state[t] = RUNS
                self.next[t] += 1
        self.arrived[number] = 0
        return True

    cdef bint open_own_cluster_barrier(self) noexcept nogil:
        """Open the barrier of a cluster of one block if all its threads have arrived and some wait."""
        cdef int64_t t, waiting = 0
        for t in range(self.threads):
            if self.state[t] != EXITED and self.arrived_phase[t] != self.phase:
                return False
            waiting += self.state[t] == WAITS and self.barrier[t] == CLUSTER_BARRIER
        if waiting:
            self.end_phase()
        return waiting > 0

    cdef void end_phase(self) noexcept nogil:
        """End the phase of the barrier of the cluster, and let the threads that wait for it run."""
        cdef int64_t t
        self.phase += 1
        for t in range(self.threads):
            if self.state[t] == WAITS and self.barrier[t] == CLUSTER_BARRIER:
                self.state[t] = RUNS
                self.next[t] += 1
