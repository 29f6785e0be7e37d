"""The reuse stack of Bennett and Kruskal (1975) as C structs, and the hash table that numbers lines for it.

For compiled callers (`cimport rdmodel._tree`). What runs per access is inline here; what runs rarely
(memory) is in `_tree.pyx`. Nothing needs the GIL, nothing raises; functions that allocate return -1 when
out of memory, and leave the struct as it was.

The caller numbers lines 0, 1, 2, ... with a `LineTable` and owns an int64 array `pos`, filled with -1:
where on the time line of its stack each line took effect last. Several stacks may share one `pos` if no
line is on two of them. A line that takes effect costs

    distance = stack_distance(&stack, pos[id])     # before it moves
    stack_touch(&stack, id, pos)                   # to the top

Time line: every touch takes the next position, `now`, and leaves a hole where the line was before. The
lines that took effect after a position are as many as the positions behind it that are not holes. Holes are
bits, with counts over 64, 64^2, 64^3 and 64^4 positions, so that a distance adds up at most 63 counts per
level (but all there are of the last), and none at levels coarser than the way from the position to `now`.
(Counting holes, not lines, halves the updates and spares the newest counts, which every distance reads.)
When the time line is full it is compacted: the lines move to its front, in order. It doubles when more than
half of it is lines, so that memory is O(distinct lines) and a touch O(1) amortised.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil


cdef struct Stack:
    int64_t capacity    # positions on the time line: a power of two
    int64_t now         # the next free position
    int64_t live        # lines on the stack
    int64_t* owner      # [capacity] the line that took effect at a position; start of the one allocation
    uint64_t* bits      # [capacity / 64] 1 = hole
    uint8_t* holes6     # holes per 2^6 positions; these two are padded, see `allocate`
    uint16_t* holes12   # holes per 2^12 positions
    int64_t* holes18    # holes per 2^18 positions
    int64_t* holes24    # holes per 2^24 positions


cdef struct Slot:
    int64_t line
    int64_t rank        # id + 1; 0 marks an empty slot, so that zeroed memory is an empty table


cdef struct LineTable:
    int64_t count       # lines seen; their ids are 0 .. count - 1, in order of first appearance
    int64_t capacity    # slots: a power of two, at least twice `count`
    int shift           # 64 - log2(capacity): the hash is the top bits of a product
    Slot* slots


# ---- Stack

cdef int stack_init(Stack* s) noexcept nogil             # an empty stack of the smallest capacity, 3 KB
cdef void stack_free(Stack* s) noexcept nogil            # releases it; harmless when repeated
cdef int stack_make_room(Stack* s, int64_t* pos) noexcept nogil    # compacts or doubles a full time line


cdef inline int64_t popcount(uint64_t x) noexcept nogil:
    # By hand: portable builds may not assume the instruction, and without it the builtin is a function call.
    x = x - ((x >> 1) & <uint64_t>0x5555555555555555)
    x = (x & <uint64_t>0x3333333333333333) + ((x >> 2) & <uint64_t>0x3333333333333333)
    x = (x + (x >> 4)) & <uint64_t>0x0F0F0F0F0F0F0F0F
    return <int64_t>((x * <uint64_t>0x0101010101010101) >> 56)


cdef inline int64_t sum6(const uint8_t* counts, int64_t n) noexcept nogil:
    # Sum of n < 64 counts of at most 64, 8 at a time (little-endian): what a load brings beyond the n-th is
    # shifted out. Loads start at counts[0], not at a multiple of 8, to stay clear of the count before it,
    # often written just now: a wide load that overlaps a narrow store has to wait for it.
    cdef uint64_t eight, total = 0
    while n > 0:
        memcpy(&eight, counts, 8)
        if n < 8:
            eight <<= 8 * (8 - n)
        total += (eight & <uint64_t>0x00FF00FF00FF00FF) + ((eight >> 8) & <uint64_t>0x00FF00FF00FF00FF)
        counts += 8
        n -= 8
    return <int64_t>((total * <uint64_t>0x0001000100010001) >> 48)


cdef inline int64_t sum12(const uint16_t* counts, int64_t n) noexcept nogil:
    # Sum of n < 64 counts of at most 4096, 4 at a time, likewise.
    cdef uint64_t four, total = 0
    while n > 0:
        memcpy(&four, counts, 8)
        if n < 4:
            four <<= 16 * (4 - n)
        total += (four & <uint64_t>0x0000FFFF0000FFFF) + ((four >> 16) & <uint64_t>0x0000FFFF0000FFFF)
        counts += 4
        n -= 4
    return <int64_t>((total & <uint64_t>0xFFFFFFFF) + (total >> 32))


cdef inline int64_t stack_distance(Stack* s, int64_t position) noexcept nogil:
    # Distinct lines that took effect after `position`; -1 if it is negative (the line never took effect).
    cdef int64_t first, last, holes, i
    if position < 0:
        return -1
    first = position >> 6
    last = (s.now - 1) >> 6
    holes = popcount((s.bits[first] >> (position & 63)) >> 1)
    if first != last:
        holes += sum6(s.holes6 + first + 1, min(first | 63, last) - first)
        first >>= 6
        last >>= 6
        if first != last:
            holes += sum12(s.holes12 + first + 1, min(first | 63, last) - first)
            first >>= 6
            last >>= 6
            for i in range(first + 1, min(first | 63, last) + 1):
                holes += s.holes18[i]
            for i in range((first >> 6) + 1, (last >> 6) + 1):
                holes += s.holes24[i]
    return s.now - 1 - position - holes


cdef inline int stack_touch(Stack* s, int64_t line, int64_t* pos) noexcept nogil:
    # Moves `line` to the top; sets pos[line], and on compaction pos[] of every line of this stack.
    cdef int64_t old = pos[line]
    if old >= 0 and old == s.now - 1:
        return 0
    if s.now == s.capacity:
        if stack_make_room(s, pos) < 0:
            return -1
        old = pos[line]
    if old >= 0:
        s.bits[old >> 6] |= <uint64_t>1 << (old & 63)
        s.holes6[old >> 6] += 1
        s.holes12[old >> 12] += 1
        s.holes18[old >> 18] += 1
        s.holes24[old >> 24] += 1
    else:
        s.live += 1
    s.owner[s.now] = line
    pos[line] = s.now
    s.now += 1
    return 0


# ---- LineTable

cdef int table_init(LineTable* t, int64_t expected) noexcept nogil     # grows beyond `expected` lines
cdef void table_free(LineTable* t) noexcept nogil                      # releases it; harmless when repeated
cdef int table_grow(LineTable* t) noexcept nogil                       # doubles the slots
cdef int table_intern_many(LineTable* t, const int64_t* lines, int64_t n, int64_t* ids) noexcept nogil


cdef inline int64_t table_home(LineTable* t, int64_t line) noexcept nogil:
    # Fibonacci hashing (Knuth, TAOCP 6.4): consecutive lines land far apart, never in one slot.
    return <int64_t>((<uint64_t>line * <uint64_t>0x9E3779B97F4A7C15) >> t.shift)


cdef inline int64_t table_slot(LineTable* t, int64_t line) noexcept nogil:
    # The slot that holds `line`, or the empty one where it belongs.
    cdef int64_t i = table_home(t, line)
    while t.slots[i].rank != 0 and t.slots[i].line != line:
        i = (i + 1) & (t.capacity - 1)
    return i


cdef inline int64_t table_find(LineTable* t, int64_t line) noexcept nogil:
    # The slot of `line`, given the next id if it had none. -1: out of memory.
    cdef int64_t i = table_slot(t, line)
    if t.slots[i].rank == 0:
        if 2 * (t.count + 1) > t.capacity:
            if table_grow(t) < 0:
                return -1
            i = table_slot(t, line)
        t.count += 1
        t.slots[i].line = line
        t.slots[i].rank = t.count
    return i


cdef inline int64_t table_intern(LineTable* t, int64_t line) noexcept nogil:
    # The id of `line`; a line not seen before gets id `count`, which then grows by one. -1: out of memory.
    cdef int64_t i = table_find(t, line)
    return -1 if i < 0 else t.slots[i].rank - 1
