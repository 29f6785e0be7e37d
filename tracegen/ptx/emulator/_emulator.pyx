# All threads of one block run together: the threads whose next step has the smallest index execute it, whichever warps
# they are in. Callees lie before their callers and loops go back, so diverged threads meet again at the first step that
# all of them reach, without a stack. A step works on packed rows of operands: the registers themselves where the active
# lanes are contiguous, gathered copies where they are not. The interpreter is one final class in one file of
# more than 500 lines, so that the C compiler can inline the methods of its inner loop into each other.
"""Interpret lowered PTX for one block of threads: registers, memory accesses and barriers."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove, memset

import numpy as np

from rdmodel.trace._banks cimport Pattern, serve_pattern
from tracegen.ptx.emulator._access cimport load_values, store_values, update_values
from tracegen.ptx.emulator._floats cimport compute_floats
from tracegen.ptx.emulator._integers cimport compute_integers, insert_bits
from tracegen.ptx.emulator._log cimport Log
from tracegen.ptx.emulator._mbarrier cimport arrive, drop, has_completed, parity_of, start, state_of
from tracegen.ptx.emulator._places cimport Places
from tracegen.ptx.emulator._poison cimport Poison
from tracegen.ptx.emulator._tensor_map cimport Rows, keeps_values, next_row, open_box, open_row, swizzle
from tracegen.ptx.emulator._texture cimport MOST_TEXELS, Footprint, Texture, find_surface, find_texels, sample
from tracegen.ptx.emulator._warp cimport match_lanes, reduce_lanes, shuffle_lanes, vote_lanes
from tracegen.ptx.isa._code cimport *

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    WARP = 32
    MAX_BLOCK_THREADS = 1024
    MAX_BARRIERS = 16
    CLUSTER_BARRIER = 16     # the number of the barrier of a cluster
    NO_STEP = 0x7FFFFFFF
    OP_LOAD = 0
    OP_STORE = 1
    OP_ATOMIC = 2
    OP_BARRIER = 3
    RECORDED_CONSTANT = 2   # rdmodel.trace.Space
    AT_MBARRIER = 255       # in place of the number of a barrier
    CHUNK = 16              # bytes of one lane of a bulk copy
    MOST_RANKS = 16         # blocks that one copy can bring data to
    MAP_BYTES = 128

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

cdef inline uint64_t shared_offset(uint64_t place) noexcept nogil:
    """Return the offset of a shared or generic address in shared memory."""
    return place - (<uint64_t>SHARED << BITS) if place >> BITS == SHARED else place


# State of a thread.
cdef enum:
    RUNS
    WAITS
    EXITED

cpdef enum Status:
    UNFINISHED, FINISHED, OUTSIDE, TOO_LONG, DEADLOCK, TRAPPED, NO_MEMORY, UNCOMPUTED


@cython.final
cdef class Emulator:
    """Interpreter of one launch, one block at a time: call `restart`, then `run` until it is no longer UNFINISHED.

    `code` is a table of steps (program.CODE_DTYPE), `registers` (slots, threads) uint64: rows below `variables` are
    cleared for every block, the others hold constants. `step`, `thread` and `address` tell where it stopped, `slot` the
    poisoned register that stopped it (-1: a value for an array). `poison` is used by steps with the flag POISONED. With
    `strict`, no poison may reach an array.
    """

    cdef readonly int64_t step
    cdef readonly int64_t thread
    cdef readonly uint64_t address
    cdef readonly int64_t slot
    cdef readonly int64_t instructions
    cdef object owners
    cdef StepCounts* counts        # per step
    cdef int64_t step_count
    cdef Pattern* patterns         # the last access of each step to shared memory
    cdef int32_t* pattern_of       # per step: its place in `patterns`
    cdef const Code* code
    cdef uint64_t* registers
    cdef const int64_t* targets
    cdef const int64_t* regions     # see EmulatedLaunch
    cdef const int64_t* loops       # per step: the loop whose header it is, or -1
    cdef Places places
    cdef int64_t threads, slots, variables
    cdef int64_t max_instructions, max_bytes, local_base
    cdef bint records, strict
    cdef Poison poison
    cdef object cluster
    cdef int64_t* signals          # by rank: phases of mbarriers that ended since their waiting threads were last woken
    cdef int64_t rank              # of the block in its cluster
    cdef bint alone                # no other block takes part in the barrier of the cluster
    cdef int64_t phase             # of the barrier of the cluster, and the last one at which each thread arrived
    cdef int64_t[MAX_BLOCK_THREADS] arrived_phase
    cdef readonly int64_t executed # steps of the last call of `run`
    cdef readonly bint changes_copies # whether a copy of a tensor has poisoned what it moved
    cdef int64_t copying_warp      # the last warp that has a row of the bulk copy which is being recorded; -1: none
    cdef Log log
    # Per thread: its state, its next step (stale while it is active), and the barrier that it waits at.
    cdef int32_t[MAX_BLOCK_THREADS] next
    cdef uint8_t[MAX_BLOCK_THREADS] state
    cdef uint8_t[MAX_BLOCK_THREADS] barrier
    cdef int32_t[MAX_BLOCK_THREADS] expected
    cdef int64_t[MAX_BARRIERS] arrived
    cdef int64_t live
    # The active threads execute `step`; the next step of every other running thread is at least `limit`.
    cdef int64_t limit
    cdef Lanes active, part, piece
    cdef int32_t[MAX_BLOCK_THREADS] active_lanes, part_lanes, piece_lanes
    cdef uint64_t[6][MAX_BLOCK_THREADS] scratch
    cdef uint64_t[MAX_BLOCK_THREADS] place_of
    cdef uint64_t[MAX_BLOCK_THREADS] piece_places
    cdef uint64_t[MAX_BLOCK_THREADS] recorded
    cdef object textures_owner
    cdef const Texture* textures
    cdef int64_t texture_count, last_texture
    cdef Footprint[MAX_BLOCK_THREADS] footprints
    cdef uint8_t* texels[MAX_BLOCK_THREADS][MOST_TEXELS]

    def __init__(
        self, const Code[::1] code, uint64_t[:, ::1] registers, int64_t variables, const int64_t[::1] targets,
        Places places, Log log, Poison poison, const int64_t[::1] regions, const int64_t[::1] loops,
        int64_t[:, ::1] counts, bint strict, int64_t max_instructions, int64_t max_bytes,
    ):
        assert counts.shape[0] == code.shape[0] and counts.shape[1] * 8 == sizeof(StepCounts)
        self.owners = (code, registers, targets, regions, loops, counts)
        self.counts, self.step_count = <StepCounts*>&counts[0, 0], code.shape[0]
        self.regions, self.loops = &regions[0], &loops[0]
        self.code, self.registers, self.targets = &code[0], &registers[0, 0], &targets[0]
        self.slots, self.threads, self.variables = registers.shape[0], registers.shape[1], variables
        self.places, self.log, self.poison, self.strict = places, log, poison, strict
        self.max_instructions, self.max_bytes = max_instructions, max_bytes
        self.active.lane, self.part.lane, self.piece.lane = self.active_lanes, self.part_lanes, self.piece_lanes
        self.make_patterns()
        self.join(np.zeros(1, np.int64), 0)

    def join(self, int64_t[::1] signals, int64_t rank):
        """Make the block the one of this rank in a cluster, whose blocks share `signals`, one number for each."""
        assert 0 <= rank < signals.shape[0]
        self.cluster, self.signals, self.rank, self.alone = signals, &signals[0], rank, signals.shape[0] == 1

    cdef int make_patterns(self) except -1:
        """Make room for the patterns of all steps that may access shared memory."""
        cdef int64_t i, n = 0
        self.pattern_of = <int32_t*>calloc(<size_t>self.step_count, sizeof(int32_t))
        if self.pattern_of == NULL:
            raise MemoryError
        for i in range(self.step_count):
            if LOAD <= self.code[i].op <= SUST and (self.code[i].space == SHARED or self.code[i].space == GENERIC):
                self.pattern_of[i] = <int32_t>n
                n += 1
        self.patterns = <Pattern*>calloc(<size_t>max(n, 1), sizeof(Pattern))
        if self.patterns == NULL:
            raise MemoryError
        return 0

    def __dealloc__(self):
        free(self.patterns)
        free(self.pattern_of)

    def bind_textures(self, const int64_t[:, ::1] table):
        """Set the textures: at least one row of `tracegen.ptx.emulator.textures.TEXTURE_FIELDS`."""
        assert table.shape[1] * 8 == sizeof(Texture)
        self.textures_owner = table
        self.textures, self.texture_count, self.last_texture = <const Texture*>&table[0, 0], table.shape[0], 0

    def restart(self, int64_t entry, int64_t local_base, bint records):
        """Prepare a new block at step `entry`; its local memory is recorded from `local_base` on."""
        cdef int64_t t
        self.step, self.instructions, self.local_base, self.records = entry, 0, local_base, records
        self.live = self.threads
        memset(self.registers, 0, <size_t>(self.variables * self.threads) * sizeof(uint64_t))
        self.places.clear()
        self.poison.clear()
        self.changes_copies = False
        self.signals[self.rank] = 0
        self.phase = 0
        memset(self.arrived, 0, sizeof(self.arrived))
        memset(self.counts, 0, <size_t>self.step_count * sizeof(StepCounts))
        self.log.restart()
        for t in range(self.log.warps):
            self.log.live[t] = 0
        for t in range(self.threads):
            self.next[t] = <int32_t>entry
            self.state[t] = RUNS
            self.arrived_phase[t] = -1
            self.log.live[t // WARP] |= <uint32_t>1 << (t % WARP)
        self.active.n = 0

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

    # ---- Sets of lanes

    cdef void finish(self, Lanes* lanes) noexcept nogil:
        """Complete a set of lanes: derive its warps, their masks, and whether it is contiguous."""
        cdef int64_t i, k = -1
        cdef int32_t lane, warp
        lanes.contiguous = lanes.n > 0 and lanes.lane[lanes.n - 1] - lanes.lane[0] == lanes.n - 1
        for i in range(lanes.n):
            lane = lanes.lane[i]
            warp = lane // WARP
            if k < 0 or lanes.warp[k] != warp:
                k += 1
                lanes.warp[k] = warp
                lanes.start[k] = <int32_t>i
                lanes.mask[k] = 0
            lanes.mask[k] |= <uint32_t>1 << (lane % WARP)
        lanes.warps = k + 1
        lanes.start[k + 1] = <int32_t>lanes.n

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
        self.finish(&self.active)
        return n > 0

    cdef void park(self, int64_t step) noexcept nogil:
        """Send the active threads to `step` and deactivate them."""
        cdef int64_t i
        for i in range(self.active.n):
            self.next[self.active.lane[i]] = <int32_t>step
        self.active.n = 0

    cdef inline void go(self, int64_t step) noexcept nogil:
        """Continue at `step`; from `limit` on, first let other threads catch up or join."""
        self.step = step
        if step >= self.limit:
            self.park(step)

    cdef Lanes* guarded(self, const Code* code) noexcept nogil:
        """Return the active lanes for which the guard holds."""
        cdef int64_t i, n = 0
        cdef const uint64_t* guard
        cdef uint64_t wanted
        if code.guard < 0:
            return &self.active
        guard = self.registers + code.guard * self.threads
        wanted = 0 if code.flags & NEGATED else 1
        for i in range(self.active.n):
            self.part_lanes[n] = self.active_lanes[i]
            n += (guard[self.active_lanes[i]] & 1) == wanted
        if n == self.active.n:
            return &self.active
        self.part.n = n
        self.finish(&self.part)
        return &self.part

    cdef inline uint64_t* row(self, int64_t slot) noexcept nogil:
        return self.registers + slot * self.threads

    cdef uint64_t* operand(self, int64_t slot, const Lanes* lanes, int64_t which) noexcept nogil:
        """Return a register of `lanes`, packed; a copy in scratch row `which` unless they are contiguous."""
        cdef int64_t i
        cdef uint64_t* row
        if slot < 0:
            return self.scratch[which]
        row = self.registers + slot * self.threads
        if lanes.contiguous:
            return row + lanes.lane[0]
        for i in range(lanes.n):
            self.scratch[which][i] = row[lanes.lane[i]]
        return self.scratch[which]

    cdef inline uint64_t* result(self, int64_t slot, const Lanes* lanes) noexcept nogil:
        """Return the buffer of a packed result, which `commit` copies to its register where needed."""
        return self.registers + slot * self.threads + lanes.lane[0] if lanes.contiguous else self.scratch[5]

    cdef inline void commit(self, int64_t slot, const Lanes* lanes) noexcept nogil:
        cdef int64_t i
        cdef uint64_t* row = self.registers + slot * self.threads
        if not lanes.contiguous:
            for i in range(lanes.n):
                row[lanes.lane[i]] = self.scratch[5][i]

    # ---- Steps

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
        self.finish(&self.part)
        self.count(code, &self.part)
        self.counts[self.step].issued += self.part.warps
        self.active.n = 0

    cdef inline int64_t limited(self, int64_t status) noexcept nogil:
        return TOO_LONG if status == UNFINISHED and self.instructions > self.max_instructions else status

    cdef inline void count(self, const Code* code, const Lanes* lanes) noexcept nogil:
        if code.flags & COUNTED:
            self.instructions += lanes.warps
            if self.records:
                self.log.count_instruction(lanes)

    cdef inline void wait(self, const Lanes* lanes, int64_t slot) noexcept nogil:
        if self.records:
            self.log.wait(lanes, slot)

    cdef void compute(self, const Code* code, const Lanes* lanes) noexcept nogil:
        cdef uint64_t* d
        cdef uint64_t* a
        cdef uint64_t* b
        cdef uint64_t* c
        if code.op >= SHFL:
            self.exchange(code, lanes)
            return
        a = self.operand(code.src[0], lanes, 0)
        b = self.operand(code.src[1], lanes, 1)
        c = self.operand(code.src[2], lanes, 2)
        d = self.result(code.dst[0], lanes)
        if code.op == BFI:
            insert_bits(code, lanes.n, d, a, b, c, self.operand(code.src[3], lanes, 3))
        elif code.op < FADD:
            compute_integers(code, lanes.n, d, a, b, c)
        else:
            compute_floats(code, lanes.n, d, a, b, c)
        self.commit(code.dst[0], lanes)

    cdef void exchange(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Execute an exchange between the lanes of a warp on whole registers; unused destinations go to scratch."""
        cdef uint64_t* d = self.row(code.dst[0]) if code.dst[0] >= 0 else self.scratch[4]
        cdef uint64_t* p = self.row(code.dst[1]) if code.dst[1] >= 0 else self.scratch[5]
        cdef int64_t i
        if code.op == SHFL:
            shuffle_lanes(code, lanes, self.threads, self.scratch[3], d, p,
                          self.row(code.src[0]), self.row(code.src[1]), self.row(code.src[2]))
        elif code.op == VOTE:
            vote_lanes(code, lanes, d, self.row(code.src[0]))
        elif code.op == MATCH:
            match_lanes(code, lanes, self.scratch[3], d, p, self.row(code.src[0]))
        elif code.op == REDUX:
            reduce_lanes(code, lanes, d, self.row(code.src[0]))
        else:
            for i in range(lanes.n):
                d[lanes.lane[i]] = 0
            for i in range(lanes.warps):
                self.fill_mask(lanes, i, d)

    cdef void fill_mask(self, const Lanes* lanes, int64_t k, uint64_t* d) noexcept nogil:
        cdef int64_t i
        for i in range(lanes.start[k], lanes.start[k + 1]):
            d[lanes.lane[i]] = lanes.mask[k]

    # ---- Control

    cdef int64_t control(self, const Code* code) noexcept nogil:
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

    # ---- Barriers: none opens while a thread can still run

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
            self.reach_cluster_barrier(arrives)
            return UNFINISHED
        for i in range(self.active.n):
            lane = self.active.lane[i]
            number = <int64_t>self.row(code.src[0])[lane]
            if number >= MAX_BARRIERS:
                self.thread = lane
                return TRAPPED
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

    # ---- Memory

    cdef int64_t access(self, const Code* code, Lanes* lanes) noexcept nogil:
        """Execute a load, store or atomic; generic addresses are handled space by space."""
        cdef int64_t i, space = code.space
        cdef uint64_t* base = self.operand(code.src[0], lanes, 0)
        cdef uint64_t* place = self.place_of
        if code.flags & NARROW:
            for i in range(lanes.n):
                place[i] = <uint32_t>(base[i] + <uint64_t>code.offset)
        else:
            for i in range(lanes.n):
                place[i] = base[i] + <uint64_t>code.offset
        if space != GENERIC:
            return self.access_space(code, lanes, space, place)
        space = <int64_t>(place[0] >> BITS)
        for i in range(lanes.n):
            if <int64_t>(place[i] >> BITS) != space:
                return self.access_mixed(code, lanes)
        return self.access_window(code, lanes, space, place)

    cdef int64_t access_window(self, const Code* code, Lanes* lanes, int64_t space, uint64_t* place) noexcept nogil:
        cdef int64_t i
        if space != LOCAL and space != SHARED:
            return self.access_space(code, lanes, GLOBAL, place)
        for i in range(lanes.n):
            place[i] -= <uint64_t>space << BITS
        return self.access_space(code, lanes, space, place)

    cdef int64_t access_mixed(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Execute an access whose lanes address several spaces, one space after the other."""
        cdef int64_t i, n, space, status
        for space in range(3):
            n = 0
            for i in range(lanes.n):
                self.piece_lanes[n] = lanes.lane[i]
                self.piece_places[n] = self.place_of[i]
                # An address outside all windows counts as global, where it is reported as an error.
                n += <int64_t>(self.place_of[i] >> BITS) == space or (space == 0 and self.place_of[i] >> BITS > 2)
            self.piece.n = n
            self.finish(&self.piece)
            if n:
                status = self.access_window(code, &self.piece, space, self.piece_places)
                if status != UNFINISHED:
                    return status
        return UNFINISHED

    cdef int64_t access_space(
        self, const Code* code, const Lanes* lanes, int64_t space, const uint64_t* place
    ) noexcept nogil:
        cdef int64_t i, size = code.count * code.width // 8
        cdef bint recorded = space == GLOBAL or space == LOCAL or space == CONST
        if not self.places.locate(lanes, space, place, size, code.flags & EXECUTE):
            self.thread, self.address = self.places.thread, self.places.address
            return OUTSIDE
        if space == LOCAL:
            self.counts[self.step].local += lanes.warps
        elif space == SHARED:
            self.count_banks(code, lanes, place, size)
        if recorded or space == SHARED:
            self.wait(lanes, code.src[0])
            if code.op != LOAD and not code.flags & ASYNC:
                for i in range(1, 5):
                    if recorded or code.op != STORE:
                        self.wait(lanes, code.src[i])
                    elif self.records:
                        self.log.publish(lanes, code.src[i])
            if self.records and not recorded and code.op != STORE:
                self.log.wait_for_published(lanes)
        if recorded and self.records:
            if not self.record(code, lanes, space, place, size):
                return NO_MEMORY
        elif code.flags & TRACK and self.records:
            self.log.clear(code, lanes)
        if code.flags & EXECUTE:
            if code.flags & POISONED:
                i = self.poison.transfer(code, lanes, space, place, self.strict)
                if i >= 0:
                    self.thread, self.slot = i, -1
                    return UNCOMPUTED
            self.transfer(code, lanes)
        return UNFINISHED

    cdef void count_banks(self, const Code* code, const Lanes* lanes, const uint64_t* place, int64_t size) noexcept nogil:
        """Count the wavefronts of an access to shared memory."""
        cdef StepCounts* counts = self.counts + self.step
        cdef Pattern* pattern
        cdef int64_t k, at
        counts.shared += lanes.warps
        if not self.records:
            return
        pattern = self.patterns + self.pattern_of[self.step]
        for k in range(lanes.warps):
            at = lanes.start[k]
            serve_pattern(
                pattern, place + at, lanes.lane + at, lanes.start[k + 1] - at, lanes.mask[k], size, code.op == ATOM
            )
            counts.wavefronts += pattern.wavefronts
            counts.groups += pattern.groups

    cdef void transfer(self, const Code* code, const Lanes* lanes) noexcept nogil:
        cdef int64_t i
        cdef uint64_t* d
        if code.op == ATOM:
            d = self.result(code.dst[0], lanes) if code.dst[0] >= 0 else NULL
            update_values(
                code, lanes.n, d, self.places.hosted, self.operand(code.src[1], lanes, 1), self.operand(code.src[2], lanes, 2)
            )
            if d != NULL:
                self.commit(code.dst[0], lanes)
            return
        for i in range(code.count):
            if code.op == STORE:
                store_values(
                    lanes.n, self.operand(code.src[1 + i], lanes, 1), self.places.hosted, i * code.width // 8, code.width
                )
            elif code.dst[i] >= 0:
                d = self.result(code.dst[i], lanes)
                load_values(lanes.n, d, self.places.hosted, i * code.width // 8, code.width, code.kind == SIGNED)
                self.commit(code.dst[i], lanes)

    cdef bint record(
        self, const Code* code, const Lanes* lanes, int64_t space, const uint64_t* place, int64_t size
    ) noexcept nogil:
        """Add the rows of an access; return False if memory runs out."""
        cdef int64_t i, unit = max(size, <int64_t>4), lane, offset
        cdef int64_t op = OP_LOAD if code.op == LOAD else (OP_STORE if code.op == STORE else OP_ATOMIC)
        self.log.uncount_instruction(lanes)
        if space == LOCAL:
            # Words of the lanes of a warp are interleaved, whatever their width: 32 times a thread's bytes per warp.
            for i in range(lanes.n):
                lane = lanes.lane[i]
                offset = <int64_t>place[i]
                self.recorded[i] = <uint64_t>(
                    self.local_base + lane // WARP * WARP * self.places.local_bytes
                    + offset // unit * unit * WARP + lane % WARP * unit + offset % unit
                )
            place = self.recorded
        return self.log.append(code, lanes, op, RECORDED_CONSTANT if space == CONST else space, size, place) and self.log.bytes <= self.max_bytes

    # ---- Textures and surfaces

    cdef const Texture* texture_of(self, const Code* code, int64_t lane) noexcept nogil:
        """Return the texture that a lane names; NULL, and the lane as the thread of the error, if there is none."""
        cdef uint64_t handle = self.row(code.src[0])[lane]
        cdef int64_t i
        if self.textures[self.last_texture].handle != handle:
            for i in range(self.texture_count):
                if self.textures[i].handle == handle:
                    self.last_texture = i
                    return self.textures + i
            self.thread = lane
            return NULL
        return self.textures + self.last_texture

    cdef inline uint64_t value_of(self, int64_t slot, int64_t lane) noexcept nogil:
        return self.row(slot)[lane] if slot >= 0 else 0

    cdef int64_t read_texture(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Record and compute a sample: a load of the texels of each lane, each 32 bytes once per lane."""
        cdef const Texture* t = NULL
        cdef int64_t i, k, lane, most = 0, rows = 0, status
        for k in range(4):
            self.wait(lanes, code.src[k])
        for i in range(lanes.n):
            lane = lanes.lane[i]
            t = self.texture_of(code, lane)
            if t == NULL:
                return TRAPPED
            find_texels(
                t, code, self.value_of(code.src[1], lane), self.value_of(code.src[2], lane),
                self.value_of(code.src[3], lane), &self.footprints[i],
            )
            most = max(most, self.footprints[i].n)
        for k in range(most):
            status = self.read_texels(code, lanes, k, t.components * t.bytes, &rows)
            if status != UNFINISHED:
                return status
        if rows == 0 and code.flags & TRACK and self.records:
            self.log.clear(code, lanes)
        if code.flags & EXECUTE:
            self.sample_lanes(code, lanes)
        return UNFINISHED

    cdef int64_t read_texels(
        self, const Code* code, const Lanes* lanes, int64_t k, int64_t size, int64_t* rows
    ) noexcept nogil:
        """Locate the k-th texel of each lane, and record those in 32 bytes that the lane has not read yet."""
        cdef Footprint* f
        cdef int64_t i, j, n = 0
        cdef bint repeated
        for i in range(lanes.n):
            f = &self.footprints[i]
            if k < f.n and f.inside[k]:
                if not self.locate_one(lanes.lane[i], GLOBAL, f.place[k], size):
                    return OUTSIDE
                self.texels[i][k] = self.places.hosted[0]
        for i in range(lanes.n):
            f = &self.footprints[i]
            repeated = k >= f.n or not f.inside[k]
            for j in range(k):
                repeated = repeated or (f.inside[j] and f.place[j] // 32 == f.place[k] // 32)
            if not repeated:
                self.piece_lanes[n] = lanes.lane[i]
                self.piece_places[n] = f.place[k]
                n += 1
        self.piece.n = n
        self.finish(&self.piece)
        if n == 0 or not self.records:
            return UNFINISHED
        return UNFINISHED if self.record_texels(code, size, rows) else NO_MEMORY

    cdef bint record_texels(self, const Code* code, int64_t size, int64_t* rows) noexcept nogil:
        """Add a load of the lanes in `piece`; results depend on all loads of their instruction."""
        cdef Code plain = code[0]
        cdef int64_t i, w
        plain.op = LOAD
        if rows[0]:
            for i in range(4):
                plain.dst[i] = -1
        if not self.record(&plain, &self.piece, GLOBAL, self.piece_places, size):
            return False
        if rows[0]:
            for w in range(self.piece.warps):
                for i in range(4):
                    self.log.set_dependence(code.dst[i], self.piece.warp[w], 0, 1)
        rows[0] += 1
        return True

    cdef void sample_lanes(self, const Code* code, const Lanes* lanes) noexcept nogil:
        cdef uint64_t[4] values
        cdef int64_t i, c, lane
        for i in range(lanes.n):
            lane = lanes.lane[i]
            sample(self.texture_of(code, lane), code, &self.footprints[i], self.texels[i], values)
            for c in range(4):
                if code.dst[c] >= 0:
                    self.row(code.dst[c])[lane] = values[c]
                    if code.flags & POISONED:
                        self.poison.rows[code.dst[c], lane] = 0

    cdef int64_t access_surface(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Execute a load or store of a surface as one of global memory; lanes outside of it read zeros."""
        cdef const Texture* t
        cdef Code plain = code[0]
        cdef Footprint f
        cdef int64_t i, k, lane, n = 0
        for k in range(4):
            self.wait(lanes, code.src[k])
        for i in range(lanes.n):
            lane = lanes.lane[i]
            t = self.texture_of(code, lane)
            if t == NULL:
                return TRAPPED
            find_surface(
                t, code, self.value_of(code.src[1], lane), self.value_of(code.src[2], lane),
                self.value_of(code.src[3], lane), &f,
            )
            if f.inside[0]:
                self.piece_lanes[n] = <int32_t>lane
                self.piece_places[n] = f.place[0]
                n += 1
            elif code.mode == SURFACE_TRAP:
                self.thread, self.address = lane, t.base + <uint64_t>(t.depth * t.slice - 1)
                return OUTSIDE
            elif code.op == SULD:
                for k in range(4):
                    if code.dst[k] >= 0:
                        self.row(code.dst[k])[lane] = 0
        self.piece.n = n
        self.finish(&self.piece)
        plain.op = LOAD if code.op == SULD else STORE
        for k in range(4):
            plain.src[1 + k] = code.src[4 + k] if code.op == SUST else -1
        return self.access_space(&plain, &self.piece, GLOBAL, self.piece_places) if n else UNFINISHED

    # ---- Bulk copies and their barriers

    cdef bint locate_one(self, int64_t lane, int64_t space, uint64_t place, int64_t size) noexcept nogil:
        """Locate the memory of one lane, with its host pointer in `places.hosted[0]`."""
        self.piece_lanes[0] = <int32_t>lane
        self.piece.n = 1
        self.finish(&self.piece)
        self.piece_places[0] = place
        if self.places.locate(&self.piece, space, self.piece_places, size, True):
            return True
        self.thread, self.address = self.places.thread, self.places.address
        return False

    cdef int64_t copy_bulk(self, const Code* code) noexcept nogil:
        """Record bulk copies lane by lane, and complete their bytes at once; MOVE_BULK has moved the data."""
        cdef int64_t k, status = UNFINISHED
        cdef Lanes* lanes = self.guarded(code)
        self.wait(&self.active, code.guard)
        for k in range(12):
            self.wait(lanes, code.src[k])
        self.copying_warp = -1
        for k in range(lanes.n):
            if status == UNFINISHED:
                status = self.copy_bulk_of(code, lanes.lane[k])
        if status == UNFINISHED:
            self.go(self.step + 1)
        return status

    cdef int64_t copy_bulk_of(self, const Code* code, int64_t lane) noexcept nogil:
        """Record a copy as accesses of whole warps, 16 bytes per lane, and complete its bytes."""
        cdef Rows box
        cdef uint64_t start, at
        cdef int64_t used = 0, size, total = self.open_copy(code, lane, &box)
        if total < 0:
            return -total
        while next_row(&box, &start, &size):
            if size > 0 and not self.locate_one(lane, GLOBAL, start, size):
                return OUTSIDE
            at = start if code.count else start - <uint64_t>box.skip
            while at < start + <uint64_t>size:
                self.recorded[used] = at
                used += 1
                at += CHUNK
                if used == WARP and not self.record_chunks(code, lane, &used):
                    return NO_MEMORY
        if used and not self.record_chunks(code, lane, &used):
            return NO_MEMORY
        return self.complete(code, lane, total) if code.mode == BULK_LOAD or code.mode >= BULK_SHARED else UNFINISHED

    cdef int64_t open_copy(self, const Code* code, int64_t lane, Rows* box) noexcept nogil:
        """Open the part of global memory that a copy transfers, if any; return its bytes in shared memory.

        A negative number is the status that stops the copy.
        """
        cdef uint64_t place = self.row(code.src[0])[lane] + <uint64_t>code.offset
        cdef int64_t total
        cdef uint64_t left = 0, right = 0
        memset(box, 0, sizeof(Rows))
        if code.count:
            total = self.open_box_of(code, lane, place, box)
            if total < 0:
                self.thread = lane
                return -TRAPPED if total == -1 else -OUTSIDE
        else:
            total = <int64_t><uint32_t>self.row(code.src[3])[lane]
            if code.mode < BULK_SHARED:
                left, right = <uint32_t>self.value_of(code.src[4], lane), <uint32_t>self.value_of(code.src[5], lane)
                open_row(box, place, total, <int64_t>left, <int64_t>right)
            if left >= CHUNK or right >= CHUNK:
                self.thread = lane
                return -TRAPPED
        if not self.locate_one(lane, SHARED, shared_offset(self.row(code.src[1])[lane]), total):
            return -OUTSIDE
        return total

    cdef int64_t open_box_of(self, const Code* code, int64_t lane, uint64_t place, Rows* box) noexcept nogil:
        """Open the part of a tensor that a copy transfers; -1: it cannot be copied here, -2: there is no tensor map."""
        cdef int64_t[5] corner
        cdef int64_t[3] offset
        cdef int64_t k
        if not self.locate_one(lane, GLOBAL, place, MAP_BYTES):
            return -2
        for k in range(5):
            corner[k] = <int64_t><int32_t>self.value_of(code.src[3 + k], lane)
        for k in range(3):
            offset[k] = <int64_t>(self.value_of(code.src[8 + k], lane) & 0xFFFF)
        return open_box(box, self.places.hosted[0], code.from_width, code.count, corner, offset)

    cdef inline bint reaches(self, const Code* code, int64_t lane, int64_t rank) noexcept nogil:
        """Return whether a copy to shared memory has the block of a rank as a target; rank 0 stands for no mask."""
        if code.mode != BULK_LOAD or code.src[11] < 0:
            return rank == 0
        return self.row(code.src[11])[lane] >> rank & 1

    cdef inline uint64_t seen_by(self, const Code* code, uint64_t place, int64_t rank) noexcept nogil:
        """Return an address in shared memory as that of the same place in a target of a copy."""
        if code.mode != BULK_LOAD or code.src[11] < 0:
            return place
        return place & ((<uint64_t>1 << RANK_BITS) - 1) | <uint64_t>rank << RANK_BITS

    cdef int64_t complete(self, const Code* code, int64_t lane, int64_t total) noexcept nogil:
        """Complete the bytes of a copy at the mbarriers of its targets."""
        cdef uint64_t target = self.row(code.src[1])[lane], bar
        cdef int64_t rank
        if code.mode != BULK_LOAD:
            target = self.row(code.src[0])[lane] + <uint64_t>code.offset
        for rank in range(MOST_RANKS):
            if self.reaches(code, lane, rank):
                if not self.locate_one(lane, SHARED, self.seen_by(code, shared_offset(target), rank), total):
                    return OUTSIDE
                if code.src[2] >= 0:
                    bar = self.seen_by(code, shared_offset(self.row(code.src[2])[lane]), rank)
                    if not self.locate_one(lane, SHARED, bar, 8):
                        return OUTSIDE
                    self.signal(bar, arrive(self.places.hosted[0], 0, -total))
        return UNFINISHED

    # ---- The data of bulk copies

    cdef int64_t move_bulk(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Move the data of bulk copies lane by lane, if they matter."""
        cdef int64_t k, status = UNFINISHED
        for k in range(lanes.n):
            if status != UNFINISHED:
                return status
            if code.mode == BULK_CLEAR:
                status = self.clear_shared(code, lanes.lane[k])
            elif code.flags & EXECUTE and code.mode >= BULK_SHARED:
                status = self.move_within_cluster(code, lanes.lane[k])
            elif code.flags & EXECUTE:
                status = self.move_bulk_of(code, lanes.lane[k])
        return status

    cdef int64_t clear_shared(self, const Code* code, int64_t lane) noexcept nogil:
        """Fill shared memory of the block with zeros."""
        cdef uint64_t place = shared_offset(self.row(code.src[0])[lane])
        cdef uint64_t size = self.row(code.src[3])[lane]
        cdef int64_t total = <int64_t>min(size, <uint64_t>1 << 62)
        if not self.locate_one(lane, SHARED, place, total):
            return OUTSIDE
        if code.flags & EXECUTE:
            memset(self.places.hosted[0], 0, <size_t>total)
            if code.flags & POISONED:
                self.poison.mark(SHARED, place, total, False)
        return UNFINISHED

    cdef int64_t move_within_cluster(self, const Code* code, int64_t lane) noexcept nogil:
        """Copy bytes from the shared memory of the block to that of a block of its cluster, or poison those to update."""
        cdef uint64_t to = shared_offset(self.row(code.src[0])[lane] + <uint64_t>code.offset)
        cdef uint64_t origin = shared_offset(self.row(code.src[1])[lane])
        cdef int64_t total = <int64_t><uint32_t>self.row(code.src[3])[lane]
        cdef uint8_t* source
        if not self.locate_one(lane, SHARED, origin, total):
            return OUTSIDE
        source = self.places.hosted[0]
        if not self.locate_one(lane, SHARED, to, total):
            return OUTSIDE
        if code.mode == BULK_UPDATE:
            if code.flags & POISONED:
                self.poison.mark(SHARED, to, total, True)
            return UNFINISHED
        memmove(self.places.hosted[0], source, <size_t>total)
        if code.flags & POISONED:
            self.poison.copy(SHARED, to, SHARED, origin, total)
        return UNFINISHED

    cdef int64_t move_bulk_of(self, const Code* code, int64_t lane) noexcept nogil:
        """Move the data of one copy, to all blocks of a mask if there is one."""
        cdef Rows box
        cdef int64_t rank, status = UNFINISHED, total = self.open_copy(code, lane, &box)
        cdef uint64_t shared = shared_offset(self.row(code.src[1])[lane]), at
        if total < 0:
            return -total
        for rank in range(MOST_RANKS):
            if status == UNFINISHED and self.reaches(code, lane, rank):
                at = self.seen_by(code, shared, rank)
                if not self.locate_one(lane, SHARED, at, total):
                    return OUTSIDE
                status = self.move_rows(code, lane, box, at, total)
        return status

    cdef int64_t move_rows(self, const Code* code, int64_t lane, Rows box, uint64_t at, int64_t total) noexcept nogil:
        """Move the rows of a box between global memory and the place `at` in shared memory, which was located last."""
        cdef uint8_t* host = self.places.hosted[0]
        cdef uint64_t start
        cdef int64_t size
        cdef bint loads = code.mode == BULK_LOAD, known = code.mode != BULK_REDUCE and keeps_values(&box, at), spoils
        if loads:
            memset(host, 0, <size_t>total)
            if code.flags & POISONED:
                self.poison.mark(SHARED, at, total, not known or box.fill)
        self.changes_copies |= not known or box.fill
        box.target = at
        while next_row(&box, &start, &size) and (known or not loads):
            if size > 0:
                if not self.locate_one(lane, GLOBAL, start, size):
                    return OUTSIDE
                spoils = not known
                if known:
                    spoils = self.move_row(code, lane, &box, start, size, host + (box.target - at))
                elif code.flags & POISONED:
                    self.poison.mark(GLOBAL, start, size, True)
                if spoils and not loads and self.strict:
                    self.thread, self.slot = lane, -1
                    return UNCOMPUTED
            box.target += <uint64_t>box.row
        return UNFINISHED

    cdef bint move_row(
        self, const Code* code, int64_t lane, const Rows* box, uint64_t start, int64_t size, uint8_t* host
    ) noexcept nogil:
        """Move a row of global memory that was located last, in pieces that shared memory has in one; True: poison.

        `host` is the place of the whole row in shared memory.
        """
        cdef uint8_t* array = self.places.hosted[0]
        cdef uint64_t place, bytes = self.row(code.src[11])[lane] if code.src[11] >= 0 else 0
        cdef int64_t x = 0, n, i
        cdef bint loads = code.mode == BULK_LOAD, masked = code.src[11] >= 0 and not loads, found = False
        cdef uint8_t* shared
        while x < size:
            place = box.target + <uint64_t>(box.skip + x)
            n = 1 if masked else size - x
            if box.swizzle:
                n = min(n, CHUNK - <int64_t>(place & (CHUNK - 1)))
            place = swizzle(box, place)
            shared = host + <int64_t>(place - box.target)
            if loads:
                memcpy(shared, array + x, <size_t>n)
                if code.flags & POISONED:
                    self.poison.copy(SHARED, place, GLOBAL, start + <uint64_t>x, n)
            elif not masked or bytes >> (x % CHUNK) & 1:
                memcpy(array + x, shared, <size_t>n)
                if code.flags & POISONED:
                    found |= self.poison.copy(GLOBAL, start + <uint64_t>x, SHARED, place, n)
            x += n
        return found

    cdef bint record_chunks(self, const Code* code, int64_t lane, int64_t* used) noexcept nogil:
        """Add one row for the chunks of a bulk copy; a warp has no more lanes than threads."""
        cdef int64_t i, first = lane // WARP * WARP, width = min(<int64_t>WARP, self.threads - first), done = 0
        cdef int64_t op = OP_LOAD if code.mode == BULK_LOAD else (OP_STORE if code.mode == BULK_STORE else OP_ATOMIC)
        cdef Code plain = code[0]
        cdef bint fits = True
        for i in range(4):
            plain.dst[i] = -1
        while self.records and fits and done < used[0]:
            self.piece.n = min(width, used[0] - done)
            for i in range(self.piece.n):
                self.piece_lanes[i] = <int32_t>(first + i)
            self.finish(&self.piece)
            if self.copying_warp != lane // WARP:
                self.log.uncount_instruction(&self.piece)
                self.copying_warp = lane // WARP
            fits = self.log.append(&plain, &self.piece, op, GLOBAL, CHUNK, self.recorded + done)
            fits = fits and self.log.bytes <= self.max_bytes
            if op == OP_LOAD:
                self.log.set_dependence(code.dst[0], lane // WARP, 0, 1)
            done += self.piece.n
        used[0] = 0
        return fits

    cdef inline void signal(self, uint64_t place, bint ended) noexcept nogil:
        """Note that a phase of the mbarrier at `place` has ended, for the block that has it."""
        self.signals[self.rank if self.alone else <int64_t>(place >> RANK_BITS)] += ended

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
                else:
                    self.state[lane], self.barrier[lane] = WAITS, AT_MBARRIER
                    self.next[lane] = <int32_t>self.step
            elif code.mode == MBAR_INIT:
                start(host, amount)
            elif code.mode == MBAR_EXPECT:
                self.signal(place, arrive(host, 0, amount))
            elif code.mode == MBAR_COMPLETE:
                self.signal(place, arrive(host, 0, -amount))
            elif code.mode != MBAR_INVAL:
                if code.dst[0] >= 0:
                    self.row(code.dst[0])[lane] = state_of(host)
                if code.mode == MBAR_DROP:
                    drop(host, amount)
                parity = self.row(code.src[2])[lane] if code.src[2] >= 0 else 0
                self.signal(place, arrive(host, amount, <int64_t><uint32_t>parity))
        self.active.n = 0
        return UNFINISHED
