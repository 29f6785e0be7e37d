"""Allocate and compact the reuse stack and its hash table; offer them to Python as `Distances` and `unique_pass`.

`_tree.pxd` describes the algorithm and its C interface. Callers validate all arguments.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from rdmodel.structures._memory cimport CACHE_LINE, use_large_pages

cdef extern from *:
    """
    /* Four counts, which every supported compiler adds at once; aligned as a single count. */
    typedef unsigned int rdmodel_four __attribute__((vector_size(16), aligned(4), may_alias));
    #define ONES ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u
    static const unsigned int rdmodel_before[32] = {ONES, ONES};

    static inline void rdmodel_add_before(unsigned int* node, long long child, unsigned int holes) {
        const rdmodel_four* mask = (const rdmodel_four*) (rdmodel_before + 16 - child);
        rdmodel_four* counts = (rdmodel_four*) node;
        for (int i = 0; i < 4; i++)
            counts[i] += mask[i] & holes;
    }
    """
    # Add to the first `child` of the 16 counts of a node.
    void add_before "rdmodel_add_before"(uint32_t* node, int64_t child, uint32_t holes) noexcept nogil
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef int64_t MIN_POSITIONS = 256                    # of a new time line
cdef int64_t MAX_POSITIONS = <int64_t>1 << 32       # of a time line: the largest number of holes in a 32-bit count
cdef int64_t MAX_SLOTS = <int64_t>1 << 56           # of a table: beyond any memory, and far from overflow
cdef enum:
    SPREAD = 16         # positions per line, at least, after a time line has grown: a position takes 0.2 bytes
    STACK_SPREAD = 4    # the same on a stack, where a position takes 8 bytes more, for its owner
    FAR_AHEAD = 40      # lines between a prefetch and its use
    PIECE = 1024        # accesses that are looked up before they are measured: they fit the processor's L1
    NEAR = 1 << 15      # slots of a table that needs no prefetch: it fits the processor's caches


# ---- Timeline

cdef int64_t counts_on(int64_t capacity, int level) noexcept nogil:
    # Number of counts on a level: one per child, rounded up to whole nodes.
    return max((capacity >> 6 >> 4 * level) + 15, <int64_t>16) & ~<int64_t>15


cdef int levels_of(int64_t capacity) noexcept nogil:
    # Number of levels of a time line; the last one has a single node.
    cdef int levels = 1
    while capacity >> 6 >> 4 * levels > 1:
        levels += 1
    return levels


cdef int64_t timeline_bytes(int64_t capacity) noexcept nogil:
    # Bytes of the bits, with room for both open words at the end, of the pointers to the counts, and of the counts. Each
    # node has a line of the processor's cache to itself.
    cdef int level, levels = levels_of(capacity)
    cdef int64_t size = 8 * ((capacity >> 6) + 1 + levels) + CACHE_LINE - 1
    for level in range(levels):
        size += 4 * counts_on(capacity, level)
    return size


cdef int timeline_init(Timeline* t, int64_t capacity) noexcept nogil:
    cdef char* memory = <char*>calloc(1, timeline_bytes(capacity))
    cdef int level
    if memory == NULL:
        return -1
    memset(t, 0, sizeof(Timeline))
    t.held_word = -1
    t.capacity = capacity
    t.levels = levels_of(capacity)
    t.bits = <uint64_t*>memory
    t.count = <uint32_t**>(memory + 8 * ((capacity >> 6) + 1))
    memory = <char*>((<uintptr_t>(t.count + t.levels) + CACHE_LINE - 1) & ~<uintptr_t>(CACHE_LINE - 1))
    for level in range(t.levels):
        t.count[level] = <uint32_t*>memory
        memory += 4 * counts_on(capacity, level)
    return 0


cdef void timeline_free(Timeline* t) noexcept nogil:
    free(t.bits)
    t.bits = NULL


cdef int64_t timeline_room(const Timeline* t, int64_t spread) noexcept nogil:
    cdef int64_t capacity = t.capacity
    while capacity < spread * t.live and capacity < MAX_POSITIONS:
        capacity *= 2
    return capacity


cdef void timeline_settle(Timeline* t) noexcept nogil:
    t.bits[t.fresh >> 6] = t.older
    t.bits[(t.fresh >> 6) + 1] = t.newer


cdef void timeline_fill(Timeline* t, int64_t lines) noexcept nogil:
    cdef char* counts = <char*>t.count[0]
    memset(t.bits, 0, 8 * ((t.capacity >> 6) + 1))
    memset(counts, 0, <char*>t.bits + timeline_bytes(t.capacity) - counts)
    t.now = t.live = lines
    t.fresh = max((lines >> 6) - 1, <int64_t>0) << 6
    t.older = t.newer = 0
    t.held = 0
    t.held_word = -1


cdef void timeline_count(uint32_t** count, int levels, int64_t word, uint32_t holes) noexcept nogil:
    cdef int level
    for level in range(levels):
        add_before(count[level] + (word & ~<int64_t>15), word & 15, holes)
        word >>= 4


# ---- Stack

cdef int stack_init(Stack* s) noexcept nogil:
    s.time.bits = NULL
    s.owner = <int64_t*>malloc(8 * MIN_POSITIONS)
    return -1 if s.owner == NULL else timeline_init(&s.time, MIN_POSITIONS)


cdef void stack_free(Stack* s) noexcept nogil:
    timeline_free(&s.time)
    free(s.owner)
    s.owner = NULL


cdef void move_lines(
    const Timeline* old, const int64_t* from_, int64_t* owner, int64_t* pos, size_t stride
) noexcept nogil:
    # Move the lines of a full time line, in order, to the first places of `owner`, which may be the same array.
    cdef int64_t word, line, to = 0
    cdef uint64_t rest
    for word in range(old.capacity >> 6):
        rest = ~old.bits[word]
        while rest != 0:
            line = from_[(word << 6) + lowest_bit(rest)]
            rest &= rest - 1
            owner[to] = line
            stack_position(pos, stride, line)[0] = to
            to += 1


cdef int stack_make_room(Stack* s, int64_t* pos) noexcept nogil:
    return make_room(s, pos, sizeof(int64_t))


cdef int make_room(Stack* s, int64_t* pos, size_t stride) noexcept nogil:
    timeline_settle(&s.time)
    cdef Timeline old = s.time
    cdef int64_t* owner = s.owner
    cdef int64_t capacity = timeline_room(&old, STACK_SPREAD)
    if capacity == old.live:
        return -1
    if capacity > old.capacity:
        owner = <int64_t*>malloc(8 * capacity)
        if owner == NULL:
            return -1
        if timeline_init(&s.time, capacity) < 0:
            free(owner)
            s.time = old
            return -1
    move_lines(&old, s.owner, owner, pos, stride)
    if capacity > old.capacity:
        timeline_free(&old)
        free(s.owner)
        s.owner = owner
    timeline_fill(&s.time, old.live)
    return 0


cdef int stack_move_many(
    Stack* s, const int64_t* lines, int64_t n, int64_t* pos, size_t stride, int64_t* distances
) noexcept nogil:
    # What the loop reads is fetched first: many words at a time. The time line is a local copy, so that the loop keeps
    # its fields in registers.
    cdef Timeline t = s.time
    cdef int64_t* owner = s.owner
    cdef int64_t* at
    cdef int64_t i
    for i in range(n):
        timeline_fetch(&t, stack_position(pos, stride, lines[i])[0])
    for i in range(n):
        at = stack_position(pos, stride, lines[i])
        if at[0] >= 0 and at[0] == t.now - 1:
            distances[i] = 0
            continue
        if t.now == t.capacity:
            s.time = t
            if make_room(s, pos, stride) < 0:
                return -1
            t = s.time
            owner = s.owner
        if at[0] >= 0:
            distances[i] = timeline_leave(&t, at[0])
        else:
            distances[i] = -1
            t.live += 1
        owner[t.now] = lines[i]
        at[0] = t.now
        timeline_advance(&t)
    s.time = t
    return 0


# ---- LineTable

cdef int table_allocate(LineTable* t, int64_t capacity) noexcept nogil:
    cdef Slot* slots = NULL
    if capacity <= MAX_SLOTS:
        slots = <Slot*>calloc(capacity, sizeof(Slot))
    if slots == NULL:
        return -1
    use_large_pages(slots, <size_t>capacity * sizeof(Slot), 0)
    t.slots = slots
    t.capacity = capacity
    t.shift = 64 - lowest_bit(capacity)
    return 0


cdef int table_init(LineTable* t, int64_t expected) noexcept nogil:
    cdef int64_t capacity = 64
    while capacity < MAX_SLOTS and capacity >> 1 < expected:
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
    # The slot of a later line is fetched while this one is looked up; after growth the fetch is useless, but harmless.
    cdef int64_t i
    for i in range(n):
        if i + FAR_AHEAD < n:
            prefetch(t.slots + table_home(t, lines[i + FAR_AHEAD]))
        ids[i] = table_intern(t, lines[i])
        if ids[i] < 0:
            return -1
    return 0


# ---- Python

cdef int require(bint holds, str what) except -1:
    if not holds:
        raise AssertionError(f"broken: {what}")
    return 0


cdef int check_timeline(const Timeline* t) except -1:
    cdef int64_t word, closed = 0, words = t.capacity >> 6
    cdef int64_t fresh = popcount_by_hand(t.older, t.newer)
    cdef int64_t[::1] left = np.zeros(words + 1, dtype=np.int64)    # left[w]: holes in the closed words before w
    cdef int64_t span, child, first, last, counted
    cdef int level
    for word in range(words):
        require(popcount(t.bits[word]) == popcount_by_hand(t.bits[word], 0), "both ways to count ones agree")
        closed += popcount(t.bits[word]) if word < t.fresh >> 6 else 0
        left[word + 1] = closed
    require(closed + fresh == t.now - t.live, "every position without a line is a hole")
    require(t.now - t.fresh >= 64 or t.newer == 0, "no hole in the future")
    require(t.fresh == max((t.now >> 6) - 1, 0) << 6, "two words are open")
    require(t.held_word < t.fresh >> 6 and (t.held_word >= 0 or t.held == 0), "the held word is closed")
    if t.held_word >= 0:
        counted = closed + fresh - left[t.held_word + 1]
        require(t.held_after == counted, "`held_after` counts the holes after the held word")
    for level in range(t.levels):
        span = <int64_t>1 << 4 * level
        for child in range(-(-words // span)):
            first = min((child + 1) * span, words)
            last = min(((child | 15) + 1) * span, words)
            counted = left[last] - left[first]
            if first <= t.held_word < last:
                counted -= t.held
            require(t.count[level][child] == counted, "counts are of holes in what follows")
    require(t.capacity <= max(MIN_POSITIONS, 2 * SPREAD * t.live), "capacity in proportion to the lines")
    return 0


cdef class Distances:
    """Reuse distances of one stream of lines that arrives in chunks, in O(distinct lines) memory.

    A distance costs at most one addition per factor of 16 between 64 and the length of the time line. Not safe for
    several threads at a time.
    """

    cdef Timeline time
    cdef LineTable table      # `rank` is a line's position + 1

    def __cinit__(self):
        self.time.bits = NULL
        self.table.slots = NULL
        if timeline_init(&self.time, MIN_POSITIONS) < 0 or table_init(&self.table, 0) < 0:
            raise MemoryError("reuse stack")

    def __dealloc__(self):
        timeline_free(&self.time)
        table_free(&self.table)

    @property
    def distinct(self):
        """Distinct lines so far."""
        return self.table.count

    @property
    def capacity(self):
        """Positions on the time line: at most 32 × `distinct`, or the smallest time line."""
        return self.time.capacity

    def feed(self, const int64_t[::1] lines not None, int64_t[::1] distances not None):
        """Append `lines` to the stream; write their reuse distances (-1 = infinite) to `distances`."""
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
        cdef int64_t i, at
        places = set()
        check_timeline(&self.time)
        timeline_settle(&self.time)
        for i in range(self.table.capacity):
            if self.table.slots[i].rank != 0:
                at = self.table.slots[i].rank - 1
                require(0 <= at < self.time.now, "a line is in the past")
                require(not (self.time.bits[at >> 6] >> (at & 63)) & 1, "no line is in a hole")
                places.add(at)
        require(len(places) == self.time.live == self.table.count, "each line once on the time line")
        require(self.table.capacity >= 2 * self.table.count, "table at most half full")

    cdef int _feed(self, const int64_t* lines, int64_t n, int64_t* distances) noexcept nogil:
        # All look-ups of a piece come first: they do not depend on a distance, so many are under way at a time.
        cdef int64_t i = 0, piece, placed
        while i < n:
            if self.time.now == self.time.capacity and self._compact() < 0:
                return -1
            piece = min(n - i, <int64_t>PIECE, self.time.capacity - self.time.now)
            placed = self._place(lines + i, piece, n - i, distances + i)
            self._measure(distances + i, placed)
            if placed < piece:
                return -1
            i += piece
        return 0

    cdef int64_t _place(self, const int64_t* lines, int64_t n, int64_t known, int64_t* positions) noexcept nogil:
        # Let `n` lines take the next positions, and write the position of each before, -1 if it had none. Return the
        # number of lines that were placed: fewer if out of memory. `known` lines can be read, because slots of lines
        # behind the `n` are prefetched too. The table is a local copy: stores through pointers cannot change it.
        cdef LineTable table = self.table
        cdef int64_t i, at, rank = self.time.now, last = known - FAR_AHEAD if table.capacity > NEAR else 0
        for i in range(n):
            if i < last:
                prefetch(table.slots + table_home(&table, lines[i + FAR_AHEAD]))
            at = table_slot(&table, lines[i])
            if table.slots[at].rank == 0:
                at = self._admit(lines[i], at)
                if at < 0:
                    return i
                table = self.table
                last = known - FAR_AHEAD if table.capacity > NEAR else 0
            positions[i] = table.slots[at].rank - 1
            rank += 1
            table.slots[at].rank = rank
        return n

    cdef int64_t _admit(self, int64_t line, int64_t at) noexcept nogil:
        # Put a new `line` in its slot, which is `at` unless the table has to grow; return the slot; -1: out of memory.
        if 2 * (self.table.count + 1) > self.table.capacity:
            if table_grow(&self.table) < 0:
                return -1
            at = table_slot(&self.table, line)
        self.table.count += 1
        self.table.slots[at].line = line
        return at

    cdef void _measure(self, int64_t* positions, int64_t n) noexcept nogil:
        # Replace the positions that `_place` wrote by distances, and let the lines take effect, up to the end of the
        # newest word at a time. The time line is a local copy, so that the loop keeps its fields in registers.
        cdef Timeline t = self.time
        cdef int64_t i = 0, end
        while i < n:
            end = min(n, i + t.fresh + 128 - t.now)
            while i < end:
                i += measure_run(&t, positions + i, end - i)
            if t.now - t.fresh == 128:
                timeline_close(&t)
        self.time = t

    cdef int _compact(self) noexcept nogil:
        timeline_settle(&self.time)
        cdef Timeline old = self.time
        cdef int64_t i, at, rank, capacity = timeline_room(&old, SPREAD)
        cdef uint32_t* before = old.count[0]
        if capacity == old.live or capacity > old.capacity and timeline_init(&self.time, capacity) < 0:
            self.time = old
            return -1
        count_lines(&old, before)
        for i in range(self.table.capacity):
            rank = self.table.slots[i].rank
            at = rank - (rank != 0)
            at = before[at >> 6] + (at & 63) - popcount(old.bits[at >> 6] & ((<uint64_t>1 << (at & 63)) - 1))
            self.table.slots[i].rank = at + 1 if rank != 0 else 0
        if capacity > old.capacity:
            timeline_free(&old)
        timeline_fill(&self.time, old.live)
        return 0


cdef void count_lines(const Timeline* t, uint32_t* before) noexcept nogil:
    # Write the number of lines before each word of a settled time line.
    cdef int64_t word, lines = 0
    for word in range(t.capacity >> 6):
        before[word] = <uint32_t>lines
        lines += 64 - popcount(t.bits[word])


cdef inline int64_t measure_run(Timeline* t, int64_t* positions, int64_t most) noexcept nogil:
    # Replace a position, and the positions that continue it within its word, by their distances; return their number,
    # at most `most`, so that they fit the newest word. Such a run has one distance: from access to access, the range of
    # counted lines loses its first line and gains the line that has just taken effect.
    cdef int64_t first = positions[0], run = 1, distance
    if first < 0:   # a line that never took effect: -1 is also its distance
        t.live += 1
        t.now += 1
        return 1
    distance = positions[0] = timeline_leave(t, first)
    t.now += 1
    if most > 1 and positions[1] == first + 1:
        most = min(most, 64 - (first & 63))
        while run < most and positions[run] == first + run:
            positions[run] = distance
            run += 1
        if run > 1:
            timeline_punch(t, first + 1, run - 1)
            t.now += run - 1
    return run


def unique_pass(const int64_t[::1] lines not None):
    """Return the number of distinct `lines`, noting the last place of each: a lower bound on the cost of distances.

    It makes one plain pass over an open-addressing table, without prefetches. Benchmarks report times relative to it.
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
