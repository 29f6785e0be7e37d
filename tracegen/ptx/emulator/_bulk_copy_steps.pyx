# See _bulk_copy_steps.pxd for the subject. A copy is two steps: MOVE_BULK moves the data if they matter, COPY_BULK
# records the accesses and completes the bytes at mbarriers.
"""Execute bulk copies of bytes and of parts of tensors: `BulkCopySteps`, on top of `BarrierSteps`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from tracegen.ptx.emulator._barrier_steps cimport BarrierSteps
from tracegen.ptx.emulator._lanes cimport WARP, derive_warps
from tracegen.ptx.emulator._log cimport OP_ATOMIC, OP_LOAD, OP_STORE
from tracegen.ptx.emulator._mbarrier cimport arrive
from tracegen.ptx.emulator._memory_steps cimport shared_offset
from tracegen.ptx.emulator._tensor_map cimport Rows, keeps_values, next_row, open_box, open_row, swizzle
from tracegen.ptx.emulator._threads cimport NO_MEMORY, OUTSIDE, TRAPPED, UNCOMPUTED, UNFINISHED
from tracegen.ptx.isa._code cimport (
    BULK_CLEAR, BULK_LOAD, BULK_REDUCE, BULK_SHARED, BULK_STORE, BULK_UPDATE, EXECUTE, GLOBAL, NOTED, POISONED,
    RANK_BITS, SHARED, Code, Lanes,
)

cdef enum:
    CHUNK = 16              # bytes of one lane of a bulk copy
    MOST_RANKS = 16         # blocks that one copy can bring data to
    MAP_BYTES = 128


cdef class BulkCopySteps(BarrierSteps):
    """Steps of bulk copies, which a single thread starts for many bytes."""

    # ---- Accesses and completed bytes

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
        if code.flags & NOTED and code.mode != BULK_LOAD:
            self.events.append(lane // WARP, self.step, 0, 0, total)
        return self.complete(code, lane, total) if code.mode == BULK_LOAD or code.mode >= BULK_SHARED else UNFINISHED

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
            derive_warps(&self.piece)
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
                    self.note_arrival(code, lane, bar, 0, -total)
        return UNFINISHED

    # ---- The data

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

    # ---- The extent and the targets of a copy

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
