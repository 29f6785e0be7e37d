# Reuse distances of a sample of lines (Waldspurger et al., FAST 2015), and the order of accesses of warps that take
# turns. rdmodel.reuse.distance and rdmodel.model.round_robin validate all arguments and drive these classes.
"""Sample lines by their hash: `Shards`, and `RoundRobin`, which feeds it with the accesses of warps."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from rdmodel._tree cimport LineTable, Stack, stack_distance, stack_free, stack_init, stack_touch
from rdmodel._tree cimport table_find, table_free, table_init
from rdmodel.structures._memory cimport grow

cdef enum:
    HASH_BITS = 53      # those of a double's mantissa, so that a rate is converted to a limit with one rounding

cdef enum:
    HASH_PARTS = 16     # parts of the range of sampled hashes; their differences give the error

DONE, WANT_CHUNK, WANT_BLOCK = range(3)
cdef enum:
    E_DONE = 0
    E_CHUNK = 1
    E_BLOCK = 2
    E_MEMORY = -1


cdef inline uint64_t hash_of(int64_t line, uint64_t salt) noexcept nogil:
    # The finaliser of SplitMix64 (Steele et al., OOPSLA 2014): every bit of the line moves every bit of the hash.
    cdef uint64_t x = <uint64_t> line + salt
    x = (x ^ (x >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t> 0x94D049BB133111EB
    return (x ^ (x >> 31)) >> (64 - HASH_BITS)


cdef int reserve(void** memory, int64_t* room, int64_t wanted, size_t size) noexcept nogil:
    # Make room for at least `wanted` elements, and set the new ones to zero. -1: out of memory.
    cdef int64_t larger = 2 * wanted + 64
    if wanted <= room[0]:
        return 0
    if grow(memory, larger, size) < 0:
        return -1
    memset(<char*> memory[0] + room[0] * size, 0, <size_t> (larger - room[0]) * size)
    room[0] = larger
    return 0


cdef class Shards:
    """Reuse distances among the lines whose hash is below `limit`, counted by distance and part of the hash range.

    A distance is the number of distinct *sampled* lines in between. Memory is O(sampled lines). Not safe for several
    threads at a time.
    """

    cdef uint64_t limit, salt
    cdef Stack stack
    cdef LineTable table
    cdef int64_t* pos           # [pos_room] by the line's id: its position on the stack, -1 = none yet
    cdef int64_t pos_room
    cdef int64_t* count         # [count_room][HASH_PARTS] accesses by distance
    cdef int64_t count_room
    cdef int64_t infinite[HASH_PARTS]
    cdef readonly int64_t total         # accesses of the stream
    cdef readonly int64_t followed      # accesses to sampled lines

    def __cinit__(self, uint64_t limit, uint64_t salt):
        self.limit = limit
        self.salt = salt
        memset(self.infinite, 0, sizeof(self.infinite))
        if stack_init(&self.stack) < 0 or table_init(&self.table, 0) < 0:
            raise MemoryError("reuse stack")

    def __dealloc__(self):
        stack_free(&self.stack)
        table_free(&self.table)
        free(self.pos)
        free(self.count)

    @property
    def distinct(self):
        """Distinct sampled lines so far."""
        return self.table.count

    def feed(self, const int64_t[::1] lines not None):
        """Count the accesses to `lines`, which continue the stream."""
        cdef int64_t i
        cdef bint failed = False
        with nogil:
            for i in range(lines.shape[0]):
                if hash_of(lines[i], self.salt) < self.limit and self._take(&lines[i], 1) < 0:
                    failed = True
                    break
            self.total += lines.shape[0]
        if failed:
            raise MemoryError("reuse stack")

    def counts(self):
        """Return the finite distances by distance and part (int64), and the infinite ones by part."""
        cdef int64_t d, g
        found = np.zeros((self.table.count, HASH_PARTS), np.int64)
        first = np.zeros(HASH_PARTS, np.int64)
        cdef int64_t[:, ::1] cells = found
        cdef int64_t[::1] firsts = first
        for g in range(HASH_PARTS):
            firsts[g] = self.infinite[g]
        for d in range(min(self.table.count, self.count_room)):
            for g in range(HASH_PARTS):
                cells[d, g] = self.count[d * HASH_PARTS + g]
        return found, first

    cdef int _take(self, const int64_t* lines, int64_t n) noexcept nogil:
        """Count the distances of one instruction's sampled lines, then move the lines to the top, in order."""
        cdef int64_t i, id, part, d
        for i in range(n):
            if self._number(lines[i]) < 0:
                return -1
        for i in range(n):
            id = table_find(&self.table, lines[i])
            id = self.table.slots[id].rank - 1
            part = <int64_t> (hash_of(lines[i], self.salt) * HASH_PARTS // self.limit)
            d = stack_distance(&self.stack, self.pos[id])
            if d < 0:
                self.infinite[part] += 1
            else:
                self.count[d * HASH_PARTS + part] += 1
        for i in range(n):
            id = self.table.slots[table_find(&self.table, lines[i])].rank - 1
            if stack_touch(&self.stack, id, self.pos) < 0:
                return -1
        self.followed += n
        return 0

    cdef inline int _number(self, int64_t line) noexcept nogil:
        """Give a new line the next id, and make room for it."""
        cdef int64_t known = self.table.count, old = self.pos_room
        if table_find(&self.table, line) < 0:
            return -1
        if self.table.count == known:
            return 0
        if reserve(<void**> &self.pos, &self.pos_room, self.table.count, sizeof(int64_t)) < 0:
            return -1
        if self.pos_room > old:
            memset(self.pos + old, 0xFF, <size_t> (self.pos_room - old) * sizeof(int64_t))
        if self.table.count > self.count_room:
            return reserve(<void**> &self.count, &self.count_room, self.table.count, HASH_PARTS * sizeof(int64_t))
        return 0


cdef struct Warp:
    int32_t* count      # [room] sampled lines of each instruction
    int64_t room
    int64_t* lines      # [lines_room] sampled lines of all instructions
    int64_t lines_room
    int64_t n           # instructions in the buffer
    int64_t at          # index of the next instruction
    int64_t line_at     # index of its first line
    bint more           # more instructions may follow


cdef class RoundRobin:
    """Warps of one SM that take turns, one instruction each, and send their accesses to a `Shards`.

    `run` stops when it needs a block or the instructions of a warp, and `subject` tells which slot or warp; the caller
    supplies them and calls `run` again. The order is that of the model without latencies: a block that ends is replaced
    at once, and the warps of the new block join the end of the ring.
    """

    cdef Shards shards
    cdef Warp* warp             # [slots x block_warps]
    cdef int64_t slots, block_warps, warps
    cdef int64_t* ring          # [warps] warps in the order of their turns, from `first` on
    cdef int64_t first, size
    cdef int64_t* alive         # [slots] running warps of the slot's block; -1: requests a block, -2: stays empty
    cdef int64_t asking
    cdef int64_t current        # the warp that has just had its turn, until it is known whether it goes on; -1 = none
    cdef readonly int64_t subject

    def __cinit__(self, Shards shards not None, int64_t slots, int64_t block_warps):
        cdef int64_t i
        self.shards = shards
        self.slots = self.asking = slots
        self.block_warps = block_warps
        self.warps = slots * block_warps
        self.current = -1
        self.warp = <Warp*> calloc(<size_t> self.warps, sizeof(Warp))
        self.ring = <int64_t*> calloc(<size_t> self.warps, sizeof(int64_t))
        self.alive = <int64_t*> calloc(<size_t> slots, sizeof(int64_t))
        if not (self.warp and self.ring and self.alive):
            raise MemoryError
        for i in range(slots):
            self.alive[i] = -1

    def __dealloc__(self):
        cdef int64_t i
        if self.warp != NULL:
            for i in range(self.warps):
                free(self.warp[i].count)
                free(self.warp[i].lines)
        free(self.warp)
        free(self.ring)
        free(self.alive)

    def decline_block(self, int64_t slot):
        """Leave a block slot empty for good: there are no more blocks."""
        self.alive[slot] = -2
        self.asking -= 1

    def start_block(self, int64_t slot):
        """Add the warps of a block, which have their first chunks, to the end of the ring; empty warps end at once."""
        cdef int64_t i
        self.alive[slot] = 0
        self.asking -= 1
        for i in range(slot * self.block_warps, (slot + 1) * self.block_warps):
            if self.warp[i].n > 0:
                self.alive[slot] += 1
                self._join(i)
        if self.alive[slot] == 0:
            self._ask(slot)

    def put_chunk(
        self, int64_t warp, const int32_t[::1] count, const int64_t[::1] lines, int64_t n, int64_t used, bint more
    ):
        """Give a warp its next `n` instructions, which have `used` lines; it must have finished those before."""
        cdef Warp* w = &self.warp[warp]
        cdef bint failed
        assert 0 <= n <= count.shape[0] and 0 <= used <= lines.shape[0] and w.at >= w.n
        with nogil:
            failed = self._fill(w, count, lines, n, used) < 0
        if failed:
            raise MemoryError
        w.more = more

    def begin_warp(self, int64_t warp):
        """Empty a warp slot."""
        self.warp[warp].n = self.warp[warp].at = self.warp[warp].line_at = 0
        self.warp[warp].more = True

    def starved(self, int64_t warp):
        """Tell whether a warp has no instructions left but more may follow."""
        return self.warp[warp].at >= self.warp[warp].n and self.warp[warp].more

    def run(self):
        """Run on; return DONE, WANT_CHUNK (`subject` is the warp) or WANT_BLOCK (`subject` is the slot)."""
        cdef int code
        with nogil:
            code = self._run()
        if code == E_MEMORY:
            raise MemoryError
        return code

    cdef int _fill(
        self, Warp* w, const int32_t[::1] count, const int64_t[::1] lines, int64_t n, int64_t used
    ) noexcept nogil:
        """Replace a warp's instructions, with their sampled lines only."""
        cdef int64_t i, j, line, to = 0, at = 0, before
        if reserve(<void**> &w.count, &w.room, n, sizeof(int32_t)) < 0:
            return -1
        if reserve(<void**> &w.lines, &w.lines_room, used, sizeof(int64_t)) < 0:
            return -1
        for i in range(n):
            before = to
            for j in range(at, at + count[i]):
                line = lines[j]
                w.lines[to] = line
                to += hash_of(line, self.shards.salt) < self.shards.limit
            at += count[i]
            w.count[i] = <int32_t> (to - before)
        w.n = n
        w.at = w.line_at = 0
        self.shards.total += used
        return 0

    cdef int _run(self) noexcept nogil:
        cdef int64_t slot, warp
        cdef Warp* w
        while True:
            if self.current >= 0:
                warp = self.current
                w = &self.warp[warp]
                if w.at >= w.n and w.more:
                    self.subject = warp
                    return E_CHUNK
                self.current = -1
                if w.at < w.n:
                    self._join(warp)
                else:
                    self._leave(warp // self.block_warps)
            if self.asking > 0:
                for slot in range(self.slots):
                    if self.alive[slot] == -1:
                        self.subject = slot
                        return E_BLOCK
            if self.size == 0:
                return E_DONE
            warp = self.ring[self.first]
            self.first = self.first + 1 if self.first + 1 < self.warps else 0
            self.size -= 1
            w = &self.warp[warp]
            if w.count[w.at] > 0:
                if self.shards._take(w.lines + w.line_at, w.count[w.at]) < 0:
                    return E_MEMORY
                w.line_at += w.count[w.at]
            w.at += 1
            self.current = warp

    cdef inline void _join(self, int64_t warp) noexcept nogil:
        cdef int64_t end = self.first + self.size
        self.ring[end if end < self.warps else end - self.warps] = warp
        self.size += 1

    cdef inline void _leave(self, int64_t slot) noexcept nogil:
        self.alive[slot] -= 1
        if self.alive[slot] == 0:
            self._ask(slot)

    cdef inline void _ask(self, int64_t slot) noexcept nogil:
        self.alive[slot] = -1
        self.asking += 1
