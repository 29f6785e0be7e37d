# The fully associative LRU cache that tells capacity from associativity misses, as a row of the latest accesses.
# Each access has a position, and each line knows its last one. The bit of a position says that its line was not accessed
# again; the cache holds the lines of the `lines` latest such positions, those from `tail` on. So an access writes two
# bits, and moves no other line.
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil


cdef struct FastLine:
    # A line of the trace.
    int64_t last              # position of its last access; -1 = it was never accessed
    int32_t way               # its way, among those of all sets; ~s = it is absent, and s is its set
    uint32_t asked            # sectors that loads have asked for
    int64_t position          # on the time line of its set's stack, if distances are tracked; -1 = none


cdef struct Access:
    int32_t line
    uint32_t sectors          # in the shadow, after the access


cdef struct Shadow:
    int64_t at                # position of the next access
    int64_t tail              # no line of the shadow has a position before it
    int64_t size              # lines in the shadow
    int64_t lines             # and its capacity
    int64_t capacity          # of the row: a power of two
    uint64_t* latest          # one bit per position
    Access* access            # [capacity]
    Access* moved             # [lines]


cdef inline int shadow_init(Shadow* s, int64_t lines) noexcept nogil:
    # -1: out of memory.
    s.lines = lines
    s.capacity = 1024
    while s.capacity < 4 * lines:
        s.capacity *= 2
    s.latest = <uint64_t*> calloc(<size_t> s.capacity >> 6, sizeof(uint64_t))
    s.access = <Access*> malloc(<size_t> s.capacity * sizeof(Access))
    s.moved = <Access*> malloc(<size_t> lines * sizeof(Access))
    return -1 if s.latest == NULL or s.access == NULL or s.moved == NULL else 0


cdef inline void shadow_free(Shadow* s) noexcept nogil:
    free(s.latest)
    free(s.access)
    free(s.moved)


cdef inline uint32_t shadow_sectors(const Shadow* s, const FastLine* l) noexcept nogil:
    # Return the sectors of a line in the shadow.
    return s.access[l.last & (s.capacity - 1)].sectors if l.last >= s.tail else 0


cdef inline void shadow_drop_oldest(Shadow* s) noexcept nogil:
    # Drop the least recently used line; there must be one.
    cdef int64_t place = s.tail & (s.capacity - 1), word = place >> 6
    cdef uint64_t rest = s.latest[word] >> (place & 63)
    if rest:
        s.tail += lowest_bit(rest)
    else:
        s.tail -= place & 63
        while not rest:
            s.tail += 64
            word = (word + 1) & ((s.capacity >> 6) - 1)
            rest = s.latest[word]
        s.tail += lowest_bit(rest)
    s.latest[word] &= ~(<uint64_t> 1 << (s.tail & 63))
    s.tail += 1


cdef inline void shadow_add(Shadow* s, FastLine* line, int64_t id, uint32_t sectors) noexcept nogil:
    # Access a line; then it holds `sectors`. The row must not be full.
    cdef int64_t old = line[id].last & (s.capacity - 1), place = s.at & (s.capacity - 1)
    if line[id].last >= s.tail:
        s.latest[old >> 6] &= ~(<uint64_t> 1 << (old & 63))
    elif s.size == s.lines:
        shadow_drop_oldest(s)
    else:
        s.size += 1
    s.access[place] = Access(<int32_t> id, sectors)
    s.latest[place >> 6] |= <uint64_t> 1 << (place & 63)
    line[id].last = s.at
    s.at += 1


cdef inline bint shadow_full(const Shadow* s) noexcept nogil:
    return s.at - s.tail >= s.capacity


cdef inline void shadow_close_up(Shadow* s, FastLine* line) noexcept nogil:
    # Move the lines of a full row to new positions, in order.
    cdef int64_t words = s.capacity >> 6, first = (s.tail & (s.capacity - 1)) >> 6, i, place, n = 0
    cdef uint64_t before = (<uint64_t> 1 << (s.tail & 63)) - 1, bits
    # The positions of the first word that lie before the tail are the last ones of the row.
    for i in range(words + 1):
        place = (first + i) & (words - 1)
        bits = s.latest[place]
        if place == first:
            bits &= ~before if i == 0 else before
        while bits:
            s.moved[n] = s.access[(place << 6) + lowest_bit(bits)]
            bits &= bits - 1
            n += 1
    for i in range(s.capacity >> 6):
        s.latest[i] = 0
    s.tail = s.at
    for i in range(n):
        place = s.at & (s.capacity - 1)
        s.access[place] = s.moved[i]
        s.latest[place >> 6] |= <uint64_t> 1 << (place & 63)
        line[s.moved[i].line].last = s.at
        s.at += 1
