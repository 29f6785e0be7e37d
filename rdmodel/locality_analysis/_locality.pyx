# Everything that has to happen at each access is here. Statistics over the lines at the end of a run are computed with
# NumPy in rdmodel.locality_analysis.classify.
"""Record every load transaction of a run and the last access to its line, as if no cache ever evicted a line."""

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
    NONE = -1                # end of a list
    MIN_CAPACITY = 256       # elements of the first allocation of a table
    LINE_COLUMNS = 6         # columns of Accesses.lines

# Class of an access: a first touch, or a re-reference by the thread, warp, block or SM that touched the line last.
cdef enum:
    FIRST = 0
    INTRA_THREAD = 1
    INTER_THREAD = 2
    INTRA_BLOCK = 3
    INTRA_CORE = 4
    INTER_CORE = 5
    CLASSES = 6

# Outcome of an access to the L1, numbered as in rdmodel.simulator.machine_run.Observer.
cdef enum:
    MISS = 2                 # smaller numbers are hits and pending hits


cdef struct Line:
    # A line on one SM. `load` and (`block`, `warp`) brought it; `last_...` touched it last.
    int64_t number
    int64_t load
    int64_t block, warp
    int64_t last_block, last_warp
    uint32_t last_lanes
    int64_t accesses, by_bringer    # by all warps, and by the warp that brought the line
    int64_t since_miss              # accesses since the last miss, which is included
    int64_t distances               # sum of the reuse distances
    int64_t first_distance          # head of the list of distances, or NONE


cdef struct DistanceCount:
    # Number of reuses of a line at distances of one bit length.
    int64_t line
    int64_t bucket            # bit length of the distance
    int64_t n
    int64_t next              # next one of the same line, or NONE


cdef struct SmState:
    # The lines of one SM.
    LineTable table
    Stack stack               # reuse distances
    Line* line
    int64_t* stack_position   # of each line
    DistanceCount* count
    int64_t line_capacity, count_capacity
    int64_t counts            # elements of `count` in use


cdef struct Tally:
    # Occurrences of each number.
    LineTable table
    int64_t* n
    int64_t room


cdef inline int64_t next_capacity(int64_t room) noexcept nogil:
    return max(2 * room, <int64_t> MIN_CAPACITY)


cdef inline int64_t bit_length(int64_t x) noexcept nogil:
    cdef int64_t bits = 0
    while x > 0:
        x >>= 1
        bits += 1
    return bits


cdef int tally_add(Tally* t, int64_t number, int64_t n) noexcept nogil:
    cdef int64_t id = table_intern(&t.table, number), room = next_capacity(t.room)
    if id < 0:
        return -1
    if id == t.room:
        if grow(<void**> &t.n, room, sizeof(int64_t)) < 0:
            return -1
        memset(t.n + t.room, 0, <size_t> (room - t.room) * sizeof(int64_t))
        t.room = room
    t.n[id] += n
    return 0


cdef int make_room_for_line(SmState* s) noexcept nogil:
    # Make room for one more line; return -1 if there is no memory.
    cdef int64_t room = next_capacity(s.line_capacity)
    if s.table.count < s.line_capacity:
        return 0
    if grow(<void**> &s.line, room, sizeof(Line)) < 0 or grow(<void**> &s.stack_position, room, sizeof(int64_t)) < 0:
        return -1
    memset(s.stack_position + s.line_capacity, 0xFF, <size_t> (room - s.line_capacity) * sizeof(int64_t))
    s.line_capacity = room
    return 0


cdef int add_distance(SmState* s, int64_t id, int64_t distance) noexcept nogil:
    cdef Line* l = &s.line[id]
    cdef int64_t bucket = bit_length(distance), at = l.first_distance
    l.distances += distance
    while at != NONE and s.count[at].bucket != bucket:
        at = s.count[at].next
    if at == NONE:
        if s.counts == s.count_capacity:
            at = next_capacity(s.count_capacity)
            if grow(<void**> &s.count, at, sizeof(DistanceCount)) < 0:
                return -1
            s.count_capacity = at
        at = s.counts
        s.counts += 1
        s.count[at] = DistanceCount(id, bucket, 0, l.first_distance)
        l.first_distance = at
    s.count[at].n += 1
    return 0


cdef inline int class_of(const Line* l, int64_t block, int64_t warp, uint32_t lanes) noexcept nogil:
    # Class of an access to a line that this SM has touched before.
    if l.last_block != block:
        return INTRA_CORE
    if l.last_warp != warp:
        return INTRA_BLOCK
    return INTRA_THREAD if l.last_lanes & lanes else INTER_THREAD


@cython.final
cdef class Accesses:
    """Load transactions of `sms` SMs, fed in order: counts by class, by load and by line, and reuse distances."""

    cdef SmState* state
    cdef int64_t sms
    cdef LineTable anywhere       # lines that any SM has touched
    cdef LineTable loads          # program counters of the loads
    cdef int64_t* counts_of_load  # for each load, its transactions and the hits among them
    cdef int64_t load_room        # loads that fit into `counts_of_load`
    cdef Tally stays              # accesses from one miss of a line to its next
    cdef int64_t[CLASSES] all
    cdef int64_t[CLASSES] hits

    def __cinit__(self, int64_t sms):
        cdef int64_t i
        self.sms = sms
        self.state = <SmState*> calloc(<size_t> sms, sizeof(SmState))
        if self.state == NULL:
            raise MemoryError
        if table_init(&self.anywhere, 0) < 0 or table_init(&self.loads, 0) < 0 or table_init(&self.stays.table, 0) < 0:
            raise MemoryError
        for i in range(sms):
            if table_init(&self.state[i].table, 0) < 0 or stack_init(&self.state[i].stack) < 0:
                raise MemoryError

    def __dealloc__(self):
        cdef int64_t i
        if self.state != NULL:
            for i in range(self.sms):
                table_free(&self.state[i].table)
                stack_free(&self.state[i].stack)
                free(self.state[i].line)
                free(self.state[i].stack_position)
                free(self.state[i].count)
        free(self.state)
        table_free(&self.anywhere)
        table_free(&self.loads)
        table_free(&self.stays.table)
        free(self.stays.n)
        free(self.counts_of_load)

    # ---- accesses

    def feed(self, const int64_t[:, ::1] rows not None):
        """Add accesses, after those of earlier calls: rows of (SM, block, warp, pc, line, outcome, lanes), int64."""
        cdef int64_t i
        cdef int failed = 0
        with nogil:
            for i in range(rows.shape[0]):
                failed = self._add(&rows[i, 0])
                if failed:
                    break
        if failed:
            raise MemoryError

    cdef int _add(self, const int64_t* row) noexcept nogil:
        cdef SmState* s = &self.state[row[0]]
        cdef int64_t block = row[1], warp = row[2], line = row[4], load, id
        cdef uint32_t lanes = <uint32_t> row[6]
        cdef bint hit = row[5] < MISS
        cdef int kind
        cdef Line* l
        load = self._count_load(row[3], hit)
        if load < 0 or make_room_for_line(s) < 0:
            return -1
        id = table_intern(&s.table, line)
        if id < 0:
            return -1
        l = &s.line[id]
        if s.stack_position[id] < 0:
            kind = self._first_on_sm(line)
            l[0] = Line(line, load, block, warp, block, warp, lanes, 0, 0, 0, 0, NONE)
        else:
            kind = class_of(l, block, warp, lanes)
            if add_distance(s, id, stack_distance(&s.stack, s.stack_position[id])) < 0:
                return -1
        if kind < 0 or stack_touch(&s.stack, id, s.stack_position) < 0:
            return -1
        self.all[kind] += 1
        self.hits[kind] += hit
        return self._touch(l, block, warp, lanes, hit)

    cdef int _touch(self, Line* l, int64_t block, int64_t warp, uint32_t lanes, bint hit) noexcept nogil:
        if not hit:
            if l.since_miss > 0 and tally_add(&self.stays, l.since_miss, 1) < 0:
                return -1
            l.since_miss = 0
        l.since_miss += 1
        l.accesses += 1
        l.by_bringer += l.block == block and l.warp == warp
        l.last_block = block
        l.last_warp = warp
        l.last_lanes = lanes
        return 0

    cdef int _first_on_sm(self, int64_t line) noexcept nogil:
        cdef int64_t known = self.anywhere.count
        if table_intern(&self.anywhere, line) < 0:
            return -1
        return FIRST if self.anywhere.count > known else INTER_CORE

    cdef int64_t _count_load(self, int64_t pc, bint hit) noexcept nogil:
        # Count the transaction for its load, and return the number of the load.
        cdef int64_t load = table_intern(&self.loads, pc), room = next_capacity(self.load_room)
        if load < 0:
            return -1
        if load == self.load_room:
            if grow(<void**> &self.counts_of_load, room, 2 * sizeof(int64_t)) < 0:
                return -1
            memset(self.counts_of_load + 2 * load, 0, <size_t> (2 * (room - load)) * sizeof(int64_t))
            self.load_room = room
        self.counts_of_load[2 * load] += 1
        self.counts_of_load[2 * load + 1] += hit
        return load

    # ---- results

    def class_counts(self):
        """Return an int64 array of transactions (row 0) and hits among them (row 1) by class, first touches first."""
        return np.array([[self.all[i] for i in range(CLASSES)], [self.hits[i] for i in range(CLASSES)]], np.int64)

    def load_counts(self):
        """Return the loads in the order of their numbers: int64 rows of (pc, transactions, hits)."""
        cdef int64_t i, load
        cdef int64_t[:, ::1] rows
        result = np.empty((self.loads.count, 3), np.int64)
        rows = result
        for i in range(self.loads.capacity):
            if self.loads.slots[i].rank != 0:
                load = self.loads.slots[i].rank - 1
                rows[load, 0] = self.loads.slots[i].line
                rows[load, 1] = self.counts_of_load[2 * load]
                rows[load, 2] = self.counts_of_load[2 * load + 1]
        return result

    def stay_lengths(self):
        """Return int64 rows of (accesses, number of finished stays with that many accesses).

        A stay lasts from a miss of a line to its next miss.
        """
        cdef int64_t i
        cdef LineTable* t = &self.stays.table
        return np.array(
            [[t.slots[i].line, self.stays.n[t.slots[i].rank - 1]] for i in range(t.capacity) if t.slots[i].rank != 0],
            np.int64,
        ).reshape(-1, 2)

    def lines(self, int64_t sm):
        """Return the lines that an SM touched, in the order of their numbers, as int64 rows.

        Columns: line, number of the load that brought it, accesses, accesses by the warp that brought it, accesses
        since its last miss, sum of its reuse distances.
        """
        cdef SmState* s = &self.state[sm]
        cdef int64_t i
        cdef Line* l
        cdef int64_t[:, ::1] rows
        result = np.empty((s.table.count, LINE_COLUMNS), np.int64)
        rows = result
        with nogil:
            for i in range(s.table.count):
                l = &s.line[i]
                rows[i, 0], rows[i, 1], rows[i, 2] = l.number, l.load, l.accesses
                rows[i, 3], rows[i, 4], rows[i, 5] = l.by_bringer, l.since_miss, l.distances
        return result

    def distances(self, int64_t sm):
        """Return int64 rows of (number of a line, bit length of a reuse distance, reuses at such distances)."""
        cdef SmState* s = &self.state[sm]
        cdef int64_t i
        cdef int64_t[:, ::1] rows
        result = np.empty((s.counts, 3), np.int64)
        rows = result
        with nogil:
            for i in range(s.counts):
                rows[i, 0], rows[i, 1], rows[i, 2] = s.count[i].line, s.count[i].bucket, s.count[i].n
        return result
