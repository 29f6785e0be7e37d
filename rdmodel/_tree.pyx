"""Memory of the reuse stack and its hash table, and their Python face: `Distances` and `unique_pass`.

The algorithm and its C interface are described in `_tree.pxd`. Everything is checked before it comes here.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef int64_t SMALLEST = 256        # positions of a new stack
cdef int64_t LARGEST = <int64_t>1 << 56    # positions or slots: beyond any memory, and far from overflow
cdef enum:
    BATCH = 512         # lines numbered at a time: enough to prefetch, small enough for the stack frame
    AHEAD = 16          # accesses between a prefetch and its use


# ---- Stack

cdef int64_t levels_bytes(int64_t capacity) noexcept nogil:
    # All but the owners. The two levels that are read 8 bytes at a time may be read 8 bytes too far.
    return (8 * (capacity >> 6) + 8 * ((capacity >> 18) + 1) + 8 * ((capacity >> 24) + 1)
            + 2 * ((capacity >> 12) + 4) + (capacity >> 6) + 8)


cdef int allocate(Stack* s, int64_t capacity) noexcept nogil:
    # An empty time line without holes, in one allocation: the owners, then level after level.
    cdef char* memory = NULL
    if capacity <= LARGEST:
        memory = <char*>calloc(1, 8 * capacity + levels_bytes(capacity))
    if memory == NULL:
        return -1
    s.capacity = capacity
    s.now = 0
    s.live = 0
    s.owner = <int64_t*>memory
    s.bits = <uint64_t*>(s.owner + capacity)
    s.holes18 = <int64_t*>(s.bits + (capacity >> 6))
    s.holes24 = s.holes18 + (capacity >> 18) + 1
    s.holes12 = <uint16_t*>(s.holes24 + (capacity >> 24) + 1)
    s.holes6 = <uint8_t*>(s.holes12 + (capacity >> 12) + 4)
    return 0


cdef int stack_init(Stack* s) noexcept nogil:
    s.owner = NULL
    return allocate(s, SMALLEST)


cdef void stack_free(Stack* s) noexcept nogil:
    free(s.owner)
    s.owner = NULL


cdef int64_t move_lines(Stack* old, int64_t* owner, int64_t* pos) noexcept nogil:
    # Give the lines of the full time line `old`, in order, the first places of `owner`, maybe its own.
    cdef int64_t word, line, to = 0
    cdef uint64_t rest
    for word in range(old.capacity >> 6):
        rest = ~old.bits[word]
        while rest != 0:
            line = old.owner[(word << 6) + lowest_bit(rest)]
            rest &= rest - 1
            owner[to] = line
            pos[line] = to
            to += 1
    return to


cdef int stack_make_room(Stack* s, int64_t* pos) noexcept nogil:
    cdef Stack old = s[0]
    if 2 * old.live > old.capacity:
        if allocate(s, 2 * old.capacity) < 0:
            return -1
        s.now = s.live = move_lines(&old, s.owner, pos)
        stack_free(&old)
    else:
        s.now = move_lines(&old, s.owner, pos)
        memset(s.bits, 0, levels_bytes(s.capacity))
    assert s.now == s.live
    return 0


# ---- LineTable

cdef int table_allocate(LineTable* t, int64_t capacity) noexcept nogil:
    cdef Slot* slots = NULL
    if capacity <= LARGEST:
        slots = <Slot*>calloc(capacity, sizeof(Slot))
    if slots == NULL:
        return -1
    t.slots = slots
    t.capacity = capacity
    t.shift = 64 - lowest_bit(capacity)
    return 0


cdef int table_init(LineTable* t, int64_t expected) noexcept nogil:
    cdef int64_t capacity = 64
    while capacity < LARGEST and capacity >> 1 < expected:
        capacity *= 2
    t.count = 0
    t.slots = NULL
    return table_allocate(t, capacity)


cdef void table_free(LineTable* t) noexcept nogil:
    free(t.slots)
    t.slots = NULL


cdef int table_grow(LineTable* t) noexcept nogil:
    cdef Slot* old = t.slots
    cdef int64_t i, to, n = t.capacity
    if table_allocate(t, 2 * n) < 0:
        return -1
    for i in range(n):
        if old[i].rank != 0:
            to = table_home(t, old[i].line)
            while t.slots[to].rank != 0:
                to = (to + 1) & (t.capacity - 1)
            t.slots[to] = old[i]
    free(old)
    return 0


cdef int table_intern_many(LineTable* t, const int64_t* lines, int64_t n, int64_t* ids) noexcept nogil:
    # The slot of a later line is fetched while this one is looked up; growth makes that useless, not wrong.
    cdef int64_t i
    for i in range(n):
        if i + AHEAD < n:
            prefetch(t.slots + table_home(t, lines[i + AHEAD]))
        ids[i] = table_intern(t, lines[i])
        if ids[i] < 0:
            return -1
    return 0


# ---- Python

cdef int require(bint holds, str what) except -1:
    if not holds:
        raise AssertionError(f"broken: {what}")
    return 0


cdef class Distances:
    """Reuse distances of one stream of lines that arrives in chunks: O(distinct lines) memory.

    A distance costs a few additions per factor of 64 between it and 1. One thread at a time.
    """

    cdef Stack stack
    cdef LineTable table
    cdef int64_t* pos
    cdef int64_t room      # allocated length of `pos`

    def __cinit__(self):
        self.pos = NULL
        self.room = 0
        self.table.slots = NULL
        if stack_init(&self.stack) < 0 or table_init(&self.table, 0) < 0:
            raise MemoryError("reuse stack")

    def __dealloc__(self):
        stack_free(&self.stack)
        table_free(&self.table)
        free(self.pos)

    @property
    def distinct(self):
        """Distinct lines so far."""
        return self.table.count

    @property
    def capacity(self):
        """Positions on the time line: at most 4 × `distinct`, or the smallest time line."""
        return self.stack.capacity

    def feed(self, const int64_t[::1] lines not None, int64_t[::1] distances not None):
        """Take `lines` after all lines before; write their reuse distances (-1 = infinite) to `distances`."""
        cdef int64_t n = lines.shape[0]
        cdef int failed = 0
        if distances.shape[0] != n:
            raise ValueError(f"{distances.shape[0]} distances for {n} lines")
        if n:
            with nogil:
                failed = self._feed(&lines[0], n, &distances[0])
        if failed:
            raise MemoryError("reuse stack")

    def check(self):
        """Raise `AssertionError` unless every invariant of stack and table holds; O(capacity), for tests."""
        cdef int64_t p, lines = 0, hole
        cdef int64_t[:, ::1] holes = np.zeros((4, (self.stack.capacity >> 6) + 1), dtype=np.int64)
        cdef int level
        for p in range(self.stack.capacity):
            hole = (self.stack.bits[p >> 6] >> (p & 63)) & 1
            for level in range(4):
                holes[level, p >> 6 * (level + 1)] += hole
            if p < self.stack.now and not hole:
                lines += 1
                require(self.pos[self.stack.owner[p]] == p, "a line is where `pos` says")
            require(p < self.stack.now or not hole, "no hole in the future")
        for p in range(self.stack.capacity >> 6):
            require(self.stack.holes6[p] == holes[0, p], "holes6 counts holes")
        for p in range((self.stack.capacity >> 12) + 1):
            require(self.stack.holes12[p] == holes[1, p], "holes12 counts holes")
        for p in range((self.stack.capacity >> 18) + 1):
            require(self.stack.holes18[p] == holes[2, p], "holes18 counts holes")
        for p in range((self.stack.capacity >> 24) + 1):
            require(self.stack.holes24[p] == holes[3, p], "holes24 counts holes")
        require(lines == self.stack.live == self.table.count, "each line once on the stack")
        require(self.stack.capacity <= max(SMALLEST, 4 * lines), "capacity in proportion to the lines")
        require(self.table.capacity >= 2 * self.table.count, "table at most half full")

    cdef int _feed(self, const int64_t* lines, int64_t n, int64_t* distances) noexcept nogil:
        cdef int64_t ids[BATCH]
        cdef int64_t start = 0, batch
        while start < n:
            batch = min(n - start, <int64_t>BATCH)
            if table_intern_many(&self.table, lines + start, batch, ids) < 0 or self._reserve() < 0:
                return -1
            if self._move(ids, batch, distances + start) < 0:
                return -1
            start += batch
        return 0

    cdef int _reserve(self) noexcept nogil:
        # Make `pos` as long as there are lines.
        cdef int64_t room = self.room
        cdef int64_t* longer
        if self.table.count <= room:
            return 0
        while room < self.table.count:
            room = max(2 * room, <int64_t>BATCH)
        longer = <int64_t*>realloc(self.pos, 8 * room)
        if longer == NULL:
            return -1
        memset(longer + self.room, 0xFF, 8 * (room - self.room))
        self.pos = longer
        self.room = room
        return 0

    cdef int _move(self, const int64_t* ids, int64_t n, int64_t* distances) noexcept nogil:
        # As in the table, memory is fetched ahead: first a line's position, then the word it points to.
        cdef int64_t i, position
        for i in range(min(n, <int64_t>AHEAD)):
            prefetch(self.pos + ids[i])
        for i in range(n):
            if i + 2 * AHEAD < n:
                prefetch(self.pos + ids[i + 2 * AHEAD])
            if i + AHEAD < n:
                position = self.pos[ids[i + AHEAD]]
                if position >= 0:
                    prefetch(self.stack.bits + (position >> 6))
            distances[i] = stack_distance(&self.stack, self.pos[ids[i]])
            if stack_touch(&self.stack, ids[i], self.pos) < 0:
                return -1
        return 0


def unique_pass(const int64_t[::1] lines not None):
    """Return the number of distinct `lines`, noting where each occurred last: the least that distances cost.

    One plain pass over an open-addressing table, nothing fetched ahead: the floor that benchmarks divide by.
    """
    cdef LineTable table
    cdef int64_t distinct
    if table_init(&table, 0) < 0:
        raise MemoryError("line table")
    with nogil:
        distinct = note_last(&table, lines)
    table_free(&table)
    if distinct < 0:
        raise MemoryError("line table")
    return distinct


cdef int64_t note_last(LineTable* t, const int64_t[::1] lines) noexcept nogil:
    # `rank` holds the access's index + 1 here, not an id.
    cdef int64_t i, at
    for i in range(lines.shape[0]):
        at = table_find(t, lines[i])
        if at < 0:
            return -1
        t.slots[at].rank = i + 1
    return t.count
