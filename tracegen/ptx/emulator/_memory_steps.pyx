# See _memory_steps.pxd for the subject.
"""Execute and record accesses to memory: `MemorySteps`, on top of `ArithmeticSteps`."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from rdmodel.trace._banks cimport Pattern, serve_pattern
from tracegen.ptx.emulator._access cimport load_values, store_values, update_values
from tracegen.ptx.emulator._arithmetic_steps cimport ArithmeticSteps
from tracegen.ptx.emulator._lanes cimport WARP, derive_warps
from tracegen.ptx.emulator._log cimport OP_ATOMIC, OP_LOAD, OP_STORE
from tracegen.ptx.emulator._threads cimport NO_MEMORY, OUTSIDE, UNCOMPUTED, UNFINISHED, StepCounts
from tracegen.ptx.isa._code cimport (
    ASYNC, ATOM, BITS, CONST, EXECUTE, GENERIC, GLOBAL, KEPT, LOAD, LOCAL, NARROW, POISONED, SHARED, SIGNED, STORE, SUST,
    TRACK, Code, Lanes,
)

cdef enum:
    RECORDED_CONSTANT = 2   # rdmodel.trace.Space


cdef class MemorySteps(ArithmeticSteps):
    """Steps that access memory, each space in its own way."""

    def __cinit__(self):
        self.piece.lane = self.piece_lanes

    def __dealloc__(self):
        free(self.patterns)
        free(self.pattern_of)

    cdef int make_patterns(self, int64_t steps) except -1:
        """Make room for the patterns of all steps that may access shared memory."""
        cdef int64_t i, n = 0
        self.pattern_of = <int32_t*>calloc(<size_t>steps, sizeof(int32_t))
        if self.pattern_of == NULL:
            raise MemoryError
        for i in range(steps):
            if LOAD <= self.code[i].op <= SUST and (self.code[i].space == SHARED or self.code[i].space == GENERIC):
                self.pattern_of[i] = <int32_t>n
                n += 1
        self.patterns = <Pattern*>calloc(<size_t>max(n, 1), sizeof(Pattern))
        if self.patterns == NULL:
            raise MemoryError
        return 0

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
            derive_warps(&self.piece)
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
        if recorded or space == SHARED or space == KEPT:
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
