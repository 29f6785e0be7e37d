# What happens per access is here; what is asked of every line at the end, rdmodel.locality_analysis.classify asks with NumPy.
"""Who uses a line again: the memory of all load transactions of a run, as if no cache ever forgot a line."""

cimport cython
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from rdmodel._tree cimport (
    LineTable, Stack, stack_distance, stack_free, stack_init, stack_touch, table_free, table_init, table_intern,
)
from rdmodel.structures._memory cimport grow

import numpy as np

cdef enum:
    NONE = -1
    SMALLEST = 256
    COLUMNS = 6              # of `lines`

# What an access is to its line: a first touch, or a re-reference by who touched the line last.
cdef enum:
    FIRST = 0
    INTRA_THREAD = 1
    INTER_THREAD = 2
    INTRA_BLOCK = 3
    INTRA_CORE = 4
    INTER_CORE = 5
    CLASSES = 6

# Outcomes of an access to the L1, as rdmodel.simulator.simulate.Observer has them.
cdef enum:
    HITS = 2              # outcomes below are hits, pending ones included


cdef struct Line:
    # A line on one SM. `load` and (`block`, `warp`) brought it; `last` is who touched it last.
    int64_t number
    int64_t load
    int64_t block, warp
    int64_t last_block, last_warp
    uint32_t last_lanes
    int64_t accesses, own     # all, and by the warp that brought it
    int64_t since_miss        # accesses since it missed last, that one included
    int64_t distances         # sum
    int64_t first_count       # of its distances, NONE: there are none


cdef struct Count:
    # How often a line was used again at some distance.
    int64_t line
    int64_t bucket            # bit length of the distance
    int64_t n
    int64_t next              # of the same line


cdef struct Core:
    # An SM.
    LineTable table
    Stack stack
    Line* line
    int64_t* pos              # for the stack
    Count* count
    int64_t lines, counts     # that there is room for
    int64_t used              # counts


cdef struct Tally:
    # How often which number occurred.
    LineTable table
    int64_t* n
    int64_t room


cdef inline int64_t longer(int64_t room) noexcept nogil:
    return max(2 * room, <int64_t> SMALLEST)


cdef inline int64_t bit_length(int64_t x) noexcept nogil:
    cdef int64_t bits = 0
    while x > 0:
        x >>= 1
        bits += 1
    return bits


cdef int tally_add(Tally* t, int64_t number, int64_t n) noexcept nogil:
    cdef int64_t id = table_intern(&t.table, number), room = longer(t.room)
    if id < 0:
        return -1
    if id == t.room:
        if grow(<void**> &t.n, room, sizeof(int64_t)) < 0:
            return -1
        memset(t.n + t.room, 0, <size_t> (room - t.room) * sizeof(int64_t))
        t.room = room
    t.n[id] += n
    return 0


cdef int core_make_room(Core* c) noexcept nogil:
    # For one more line.
    cdef int64_t room = longer(c.lines)
    if c.table.count < c.lines:
        return 0
    if grow(<void**> &c.line, room, sizeof(Line)) < 0 or grow(<void**> &c.pos, room, sizeof(int64_t)) < 0:
        return -1
    memset(c.pos + c.lines, 0xFF, <size_t> (room - c.lines) * sizeof(int64_t))
    c.lines = room
    return 0


cdef int core_note_distance(Core* c, int64_t id, int64_t distance) noexcept nogil:
    cdef Line* l = &c.line[id]
    cdef int64_t bucket = bit_length(distance), at = l.first_count
    l.distances += distance
    while at != NONE and c.count[at].bucket != bucket:
        at = c.count[at].next
    if at == NONE:
        if c.used == c.counts:
            at = longer(c.counts)
            if grow(<void**> &c.count, at, sizeof(Count)) < 0:
                return -1
            c.counts = at
        at = c.used
        c.used += 1
        c.count[at] = Count(id, bucket, 0, l.first_count)
        l.first_count = at
    c.count[at].n += 1
    return 0


cdef inline int class_of(const Line* l, int64_t block, int64_t warp, uint32_t lanes) noexcept nogil:
    # The class of an access to a line that was touched on this SM before.
    if l.last_block != block:
        return INTRA_CORE
    if l.last_warp != warp:
        return INTRA_BLOCK
    return INTRA_THREAD if l.last_lanes & lanes else INTER_THREAD


@cython.final
cdef class Accesses:
    """All load transactions of `sms` SMs, fed in order: classes of re-references, lines, loads and distances."""

    cdef Core* core
    cdef int64_t sms
    cdef LineTable anywhere       # lines that any SM has touched
    cdef LineTable loads          # their program counters
    cdef int64_t* at_load         # transactions, and those that were hits, of each load
    cdef int64_t load_room
    cdef Tally ended              # accesses that lines had between two misses
    cdef int64_t[CLASSES] all
    cdef int64_t[CLASSES] hits

    def __cinit__(self, int64_t sms):
        cdef int64_t i
        self.sms = sms
        self.core = <Core*> calloc(<size_t> sms, sizeof(Core))
        if self.core == NULL:
            raise MemoryError
        if table_init(&self.anywhere, 0) < 0 or table_init(&self.loads, 0) < 0 or table_init(&self.ended.table, 0) < 0:
            raise MemoryError
        for i in range(sms):
            if table_init(&self.core[i].table, 0) < 0 or stack_init(&self.core[i].stack) < 0:
                raise MemoryError

    def __dealloc__(self):
        cdef int64_t i
        if self.core != NULL:
            for i in range(self.sms):
                table_free(&self.core[i].table)
                stack_free(&self.core[i].stack)
                free(self.core[i].line)
                free(self.core[i].pos)
                free(self.core[i].count)
        free(self.core)
        table_free(&self.anywhere)
        table_free(&self.loads)
        table_free(&self.ended.table)
        free(self.ended.n)
        free(self.at_load)

    # ---- accesses

    def feed(self, const int64_t[:, ::1] rows not None):
        """Take rows of (SM, block, warp, pc, line, outcome, lanes), which follow those of earlier calls."""
        cdef int64_t i
        cdef int failed = 0
        with nogil:
            for i in range(rows.shape[0]):
                failed = self._take(&rows[i, 0])
                if failed:
                    break
        if failed:
            raise MemoryError

    cdef int _take(self, const int64_t* row) noexcept nogil:
        cdef Core* c = &self.core[row[0]]
        cdef int64_t block = row[1], warp = row[2], line = row[4], load, id
        cdef uint32_t lanes = <uint32_t> row[6]
        cdef bint hit = row[5] < HITS
        cdef int kind
        cdef Line* l
        load = self._load(row[3], hit)
        if load < 0 or core_make_room(c) < 0:
            return -1
        id = table_intern(&c.table, line)
        if id < 0:
            return -1
        l = &c.line[id]
        if c.pos[id] < 0:
            kind = self._first_on_core(line)
            l[0] = Line(line, load, block, warp, block, warp, lanes, 0, 0, 0, 0, NONE)
        else:
            kind = class_of(l, block, warp, lanes)
            if core_note_distance(c, id, stack_distance(&c.stack, c.pos[id])) < 0:
                return -1
        if kind < 0 or stack_touch(&c.stack, id, c.pos) < 0:
            return -1
        self.all[kind] += 1
        self.hits[kind] += hit
        return self._touch(l, block, warp, lanes, hit)

    cdef int _touch(self, Line* l, int64_t block, int64_t warp, uint32_t lanes, bint hit) noexcept nogil:
        if not hit:
            if l.since_miss > 0 and tally_add(&self.ended, l.since_miss, 1) < 0:
                return -1
            l.since_miss = 0
        l.since_miss += 1
        l.accesses += 1
        l.own += l.block == block and l.warp == warp
        l.last_block = block
        l.last_warp = warp
        l.last_lanes = lanes
        return 0

    cdef int _first_on_core(self, int64_t line) noexcept nogil:
        cdef int64_t known = self.anywhere.count
        if table_intern(&self.anywhere, line) < 0:
            return -1
        return FIRST if self.anywhere.count > known else INTER_CORE

    cdef int64_t _load(self, int64_t pc, bint hit) noexcept nogil:
        # Count the transaction for its load, and return that one's number.
        cdef int64_t load = table_intern(&self.loads, pc), room = longer(self.load_room)
        if load < 0:
            return -1
        if load == self.load_room:
            if grow(<void**> &self.at_load, room, 2 * sizeof(int64_t)) < 0:
                return -1
            memset(self.at_load + 2 * load, 0, <size_t> (2 * (room - load)) * sizeof(int64_t))
            self.load_room = room
        self.at_load[2 * load] += 1
        self.at_load[2 * load + 1] += hit
        return load

    # ---- results

    def classes(self):
        """Return transactions (row 0) and hits among them (row 1) by class: first touches, intra-thread, ..."""
        return np.array([[self.all[i] for i in range(CLASSES)], [self.hits[i] for i in range(CLASSES)]], np.int64)

    def program_counters(self):
        """Return the loads, by number, as rows of (pc, transactions, hits)."""
        cdef int64_t i, load
        cdef int64_t[:, ::1] rows
        result = np.empty((self.loads.count, 3), np.int64)
        rows = result
        for i in range(self.loads.capacity):
            if self.loads.slots[i].rank != 0:
                load = self.loads.slots[i].rank - 1
                rows[load, 0] = self.loads.slots[i].line
                rows[load, 1] = self.at_load[2 * load]
                rows[load, 2] = self.at_load[2 * load + 1]
        return result

    def residences(self):
        """Return rows of (accesses, how often a line had so many before it missed again)."""
        cdef int64_t i
        cdef LineTable* t = &self.ended.table
        return np.array(
            [[t.slots[i].line, self.ended.n[t.slots[i].rank - 1]] for i in range(t.capacity) if t.slots[i].rank != 0],
            np.int64,
        ).reshape(-1, 2)

    def lines(self, int64_t sm):
        """Return the lines that an SM touched, by number.

        A row has: line, number of the load that brought it, accesses, those by the warp that brought it, those
        since its last miss, sum of its reuse distances.
        """
        cdef Core* c = &self.core[sm]
        cdef int64_t i
        cdef Line* l
        cdef int64_t[:, ::1] rows
        result = np.empty((c.table.count, COLUMNS), np.int64)
        rows = result
        with nogil:
            for i in range(c.table.count):
                l = &c.line[i]
                rows[i, 0], rows[i, 1], rows[i, 2] = l.number, l.load, l.accesses
                rows[i, 3], rows[i, 4], rows[i, 5] = l.own, l.since_miss, l.distances
        return result

    def distances(self, int64_t sm):
        """Return rows of (line by number, bit length of a reuse distance, how often the line was used at such)."""
        cdef Core* c = &self.core[sm]
        cdef int64_t i
        cdef int64_t[:, ::1] rows
        result = np.empty((c.used, 3), np.int64)
        rows = result
        with nogil:
            for i in range(c.used):
                rows[i, 0], rows[i, 1], rows[i, 2] = c.count[i].line, c.count[i].bucket, c.count[i].n
        return result
