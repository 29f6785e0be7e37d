"""The reuse stack of Bennett and Kruskal (1975) as C structs, and the hash table that numbers lines for it.

For compiled callers (`cimport rdmodel._tree`). Functions that run per access are inline here; those that run rarely
(memory) are in `_tree.pyx`. No function needs the GIL or raises. Functions that allocate return -1 when out of memory,
and leave the struct unchanged.

Time line: every line that takes effect takes the next position, `now`, and leaves a hole where it was before.
The lines that took effect after a position are as many as the positions behind it that are not holes. Holes are
bits in words of 64. Words are the leaves of a tree with 16 children per node; every child has a count, of the
holes in the children after it. So a distance adds up one count per level, and a hole raises the counts of the
children before it: 16 neighbours, which the compiler adds to a few at a time. Two measures avoid most of this work.
Up to 128 of the newest positions are `open`: their holes are bits in registers, not yet in memory or in the tree. And
neighbours tend to move together: one closed word, `held_word`, keeps its latest holes out of the tree until another
word gets one, and knows the number of holes in all words after it. Lines that take effect in the same order as before
have the same distance, and leave their holes in one operation.

When the time line is full, its user compacts it: every line moves to the position that is the number of lines
before it. The capacity grows to at least `spread` positions per line, so that memory is O(distinct lines) and an access
costs less than one such move.

A `Stack` is a time line that knows which line is where. The caller numbers lines 0, 1, 2, ... with a `LineTable`
and owns an int64 array `pos`, filled with -1: where on the time line of its stack each line took effect last.
Several stacks may share one `pos` if no line is on two of them. The positions may also be a field of the caller's
records of lines, for `stack_move_many`: `stride` is then the size of a record, and `pos` the field of line 0. For a line
that takes effect, call

    distance = stack_distance(&stack, pos[id])     # before it moves
    stack_touch(&stack, id, pos)                   # to the top

or `stack_move`, which combines both.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef extern from *:
    """
    /* The ones of two words. Counts of 4 bits, of at most 4 each, are added before they are spread to bytes. */
    static inline long long rdmodel_ones_by_hand(unsigned long long x, unsigned long long y) {
        x -= (x >> 1) & 0x5555555555555555ULL;
        y -= (y >> 1) & 0x5555555555555555ULL;
        x = (x & 0x3333333333333333ULL) + ((x >> 2) & 0x3333333333333333ULL);
        x += (y & 0x3333333333333333ULL) + ((y >> 2) & 0x3333333333333333ULL);
        x = (x & 0x0F0F0F0F0F0F0F0FULL) + ((x >> 4) & 0x0F0F0F0F0F0F0F0FULL);
        return (long long) ((x * 0x0101010101010101ULL) >> 56);
    }

    /* Portable builds may not assume the instruction, and without it the builtin is a function call. */
    static inline long long rdmodel_ones(unsigned long long x, unsigned long long y) {
    #if defined(__x86_64__) && !defined(__POPCNT__)
        if (__builtin_expect(!__builtin_cpu_supports("popcnt"), 0))
            return rdmodel_ones_by_hand(x, y);
        __asm__("popcntq %0, %0" : "+r"(x) : : "cc");
        __asm__("popcntq %0, %0" : "+r"(y) : : "cc");
        return (long long) (x + y);
    #else
        return __builtin_popcountll(x) + __builtin_popcountll(y);
    #endif
    }
    """
    int64_t popcount_by_hand "rdmodel_ones_by_hand"(uint64_t x, uint64_t y) noexcept nogil
    int64_t popcount_both "rdmodel_ones"(uint64_t x, uint64_t y) noexcept nogil
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil

cdef enum:
    FULL = -2           # out of memory


cdef struct Timeline:
    int64_t now         # the next free position
    int64_t fresh       # the first open position, a multiple of 64; fewer than 128 before `now`
    uint64_t older      # holes among the first 64 open positions
    uint64_t newer      # and among those after
    int64_t held_word   # the closed word whose last `held` holes are not in the tree; -1 = none
    int64_t held_after  # holes in all words after it
    uint32_t held
    int levels
    uint64_t* bits      # [capacity / 64 + 1] 1 = hole, of closed words; start of the one allocation
    uint32_t** count    # [levels] per word, per 16 words, ...: holes in those after it that share its parent
    int64_t capacity    # positions: a power of two
    int64_t live        # lines


cdef struct Stack:
    Timeline time
    int64_t* owner      # [capacity] the line that took effect at a position


cdef struct Slot:
    int64_t line
    int64_t rank        # id + 1; 0 marks an empty slot, so that zeroed memory is an empty table


cdef struct LineTable:
    int64_t count       # lines seen; their ids are 0 .. count - 1, in order of first appearance
    int64_t capacity    # slots: a power of two, at least twice `count`
    int shift           # 64 - log2(capacity): the hash is the top bits of a product
    Slot* slots


cdef inline int64_t popcount(uint64_t x) noexcept nogil:
    return popcount_both(x, 0)


# ---- Timeline

cdef int timeline_init(Timeline* t, int64_t capacity) noexcept nogil    # empty, with `capacity` positions
cdef void timeline_free(Timeline* t) noexcept nogil                     # releases it; harmless when repeated
cdef int64_t timeline_room(const Timeline* t, int64_t spread) noexcept nogil    # capacity for `spread` per line
cdef void timeline_settle(Timeline* t) noexcept nogil                   # writes open bits to memory
cdef void timeline_fill(Timeline* t, int64_t lines) noexcept nogil      # `lines` at its front, no hole
cdef void timeline_count(uint32_t** count, int levels, int64_t word, uint32_t holes) noexcept nogil


cdef inline void timeline_fetch(const Timeline* t, int64_t position) noexcept nogil:
    # Prefetch what `timeline_leave` reads of the word of a position; of one that is negative, nothing of use.
    prefetch(&t.bits[position >> 6])
    prefetch(&t.count[0][position >> 6])


cdef inline int64_t timeline_open(const Timeline* t, int64_t position) noexcept nogil:
    # Holes in the open words after an open position, which is not a hole itself.
    if position >= t.fresh + 64:
        return popcount(t.newer >> (position & 63))
    return popcount_both(t.older >> (position & 63), t.newer)


cdef inline int64_t timeline_beyond(const Timeline* t, int64_t word) noexcept nogil:
    # Holes in the words after a closed one.
    cdef int64_t holes = popcount_both(t.older, t.newer) + (t.held if word < t.held_word else 0)
    cdef int level
    for level in range(t.levels):
        holes += t.count[level][word]
        word >>= 4
    return holes


cdef inline int64_t timeline_after(const Timeline* t, int64_t position) noexcept nogil:
    # Distinct lines that took effect after `position`, which is not a hole.
    cdef int64_t holes
    if position >= t.fresh:
        holes = timeline_open(t, position)
    else:
        holes = popcount(t.bits[position >> 6] >> (position & 63)) + timeline_beyond(t, position >> 6)
    return t.now - 1 - position - holes


cdef inline void timeline_hold(Timeline* t, int64_t word) noexcept nogil:
    # Make `word` the held word: keep its next holes out of the tree, and put those of the last held word into it.
    if t.held != 0:
        timeline_count(t.count, t.levels, t.held_word, t.held)
    t.held_word = word
    t.held = 0
    t.held_after = timeline_beyond(t, word)


cdef inline int64_t timeline_leave(Timeline* t, int64_t position) noexcept nogil:
    # Return the same number, and leave a hole: the line at `position` is about to take effect again.
    cdef int64_t word = position >> 6, holes
    cdef uint64_t bits, bit = <uint64_t>1 << (position & 63)
    if position >= t.fresh + 64:
        holes = popcount(t.newer >> (position & 63))
        t.newer |= bit
        t.held_after += 1
    elif position >= t.fresh:
        holes = popcount_both(t.older >> (position & 63), t.newer)
        t.older |= bit
        t.held_after += 1
    else:
        if word != t.held_word:
            timeline_hold(t, word)
        bits = t.bits[word]
        holes = popcount(bits >> (position & 63)) + t.held_after
        t.bits[word] = bits | bit
        t.held += 1
    return t.now - 1 - position - holes


cdef inline void timeline_punch(Timeline* t, int64_t position, int64_t many) noexcept nogil:
    # As `timeline_leave` for the lines at `many` positions of one word, at most 63, from `position` on. The line just
    # before them was the last to leave, so a closed word is the held one.
    cdef uint64_t holes = ((<uint64_t>1 << many) - 1) << (position & 63)
    if position >= t.fresh + 64:
        t.newer |= holes
        t.held_after += many
    elif position >= t.fresh:
        t.older |= holes
        t.held_after += many
    else:
        t.bits[position >> 6] |= holes
        t.held += <uint32_t>many


cdef inline void timeline_close(Timeline* t) noexcept nogil:
    # Move the older open word to memory and to the tree; both open words must be full.
    cdef uint32_t holes = <uint32_t>popcount(t.older)
    t.bits[t.fresh >> 6] = t.older
    if holes != 0:
        timeline_count(t.count, t.levels, t.fresh >> 6, holes)
    t.older = t.newer
    t.newer = 0
    t.fresh += 64


cdef inline void timeline_advance(Timeline* t) noexcept nogil:
    # Advance `now`, at which a line has taken effect; `now` must be below the capacity.
    t.now += 1
    if t.now - t.fresh == 128:
        timeline_close(t)


# ---- Stack

cdef int stack_init(Stack* s) noexcept nogil             # an empty stack with the smallest time line
cdef void stack_free(Stack* s) noexcept nogil            # releases it; harmless when repeated
cdef int stack_make_room(Stack* s, int64_t* pos) noexcept nogil    # compacts a full time line, and grows it

# `stack_move` for `n` lines, in order; write their distances before their moves. -1: out of memory.
cdef int stack_move_many(
    Stack* s, const int64_t* lines, int64_t n, int64_t* pos, size_t stride, int64_t* distances
) noexcept nogil


cdef inline int64_t* stack_position(int64_t* pos, size_t stride, int64_t line) noexcept nogil:
    return <int64_t*>(<char*>pos + <size_t>line * stride)


cdef inline int64_t stack_distance(const Stack* s, int64_t position) noexcept nogil:
    # Distinct lines that took effect after `position`; -1 if it is negative (the line never took effect).
    return timeline_after(&s.time, position) if position >= 0 else -1


cdef inline int64_t stack_move(Stack* s, int64_t line, int64_t* pos) noexcept nogil:
    # Move `line` to the top; set pos[line], and on compaction pos[] of every line of this stack. Return the distance of
    # the line before the move, -1 if it never took effect, or FULL: out of memory.
    cdef int64_t distance = -1
    if pos[line] >= 0 and pos[line] == s.time.now - 1:
        return 0
    if s.time.now == s.time.capacity and stack_make_room(s, pos) < 0:
        return FULL
    if pos[line] >= 0:
        distance = timeline_leave(&s.time, pos[line])
    else:
        s.time.live += 1
    s.owner[s.time.now] = line
    pos[line] = s.time.now
    timeline_advance(&s.time)
    return distance


cdef inline int stack_touch(Stack* s, int64_t line, int64_t* pos) noexcept nogil:
    # As `stack_move`, without the distance; -1: out of memory.
    return -1 if stack_move(s, line, pos) == FULL else 0


# ---- LineTable

cdef int table_init(LineTable* t, int64_t expected) noexcept nogil     # grows beyond `expected` lines
cdef void table_free(LineTable* t) noexcept nogil                      # releases it; harmless when repeated
cdef int table_grow(LineTable* t) noexcept nogil                       # doubles the slots
cdef int table_intern_many(LineTable* t, const int64_t* lines, int64_t n, int64_t* ids) noexcept nogil


cdef inline int64_t table_home(LineTable* t, int64_t line) noexcept nogil:
    # Fibonacci hashing (Knuth, TAOCP 6.4): consecutive lines land far apart, never in one slot.
    return <int64_t>((<uint64_t>line * <uint64_t>0x9E3779B97F4A7C15) >> t.shift)


cdef inline int64_t table_slot(LineTable* t, int64_t line) noexcept nogil:
    # Return the slot of `line`, or the empty slot in which to put it.
    cdef int64_t i = table_home(t, line)
    while t.slots[i].rank != 0 and t.slots[i].line != line:
        i = (i + 1) & (t.capacity - 1)
    return i


cdef inline int64_t table_find(LineTable* t, int64_t line) noexcept nogil:
    # Return the slot of `line`; a new line gets the next id. -1: out of memory.
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
    # Return the id of `line`; a new line gets id `count`, which grows by one. -1: out of memory.
    cdef int64_t i = table_find(t, line)
    return -1 if i < 0 else t.slots[i].rank - 1
