# One warp: the buffer of what it will request, and the memory of what it has requested.
# It moves over its buffer by `at` (instructions) and `id_at` (lines); what it has passed is dropped when more comes.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memmove

from rdmodel.structures._memory cimport grow

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    OP_LOAD = 0
    HISTORY = 64             # earlier memory instructions that a `needs` mask can name; a power of two


cdef struct Arrival:
    # When data arrive; of those that arrive together, the one that was issued last counts.
    int64_t time
    int64_t order


cdef struct Instruction:
    uint64_t needs           # bit i: the data of the (i + 1)-th last instruction; all bits: of every earlier one
    int32_t gap              # other instructions since the one before
    int16_t count            # transactions: at most 32 lanes of 16 bytes, on lines of at least 1
    uint8_t op


cdef struct Warp:
    # What a step looks at comes first: all warps' share the processor's cache.
    # Where it is.
    int64_t at               # current instruction
    int64_t id_at            # its next transaction
    int64_t left             # transactions of it still to be tried; -1 = not begun
    int64_t n                # instructions in the buffer
    int64_t used             # lines in the buffer
    Instruction* program     # [n]
    int64_t* ids             # [used] the lines of all transactions, one after the other, by id
    # While it looks for its next instruction: what must have arrived, gaps to go, stores that act then.
    int64_t gap_left
    Arrival key
    int64_t passed_from      # first of the lines, up to `id_at`, of stores that it has passed; -1 = none
    bint more                # the stream may hold further instructions
    bint ending
    int64_t held             # MSHRs that it allocated
    int64_t age              # number of warps that began before it: slots are used again, ages are not
    # What it has asked for.
    Arrival latest           # of the current instruction
    Arrival everything       # of all instructions
    Arrival ancient          # of those that `needs` can no longer name
    int64_t instructions
    int64_t capacity, id_capacity    # of the buffer
    Arrival[64] history      # ring of the last HISTORY instructions


cdef inline bint after(Arrival a, Arrival b) noexcept nogil:
    return a.time > b.time or (a.time == b.time and a.order > b.order)


cdef inline void put_off(Arrival* a, Arrival b) noexcept nogil:
    # Make `a` the later of the two.
    if after(b, a[0]):
        a[0] = b


cdef inline void warp_begin(Warp* w, int64_t age) noexcept nogil:
    # Empty the buffer, which stays allocated, and forget everything. New warps are zeroed memory.
    w.n = w.at = w.used = w.id_at = 0
    w.left = -1
    w.more = True
    w.latest = w.everything = w.ancient = w.key = Arrival(-1, -1)
    w.instructions = 0
    w.gap_left = 0
    w.held = 0
    w.ending = False
    w.passed_from = -1
    w.age = age


cdef inline void warp_free(Warp* w) noexcept nogil:
    free(w.program)
    free(w.ids)


# ---- the buffer

cdef inline bint warp_primed(const Warp* w) noexcept nogil:
    # Whether the buffer shows how the warp begins: it holds a load, or all there is.
    cdef int64_t i
    if not w.more:
        return True
    for i in range(w.at, w.n):
        if w.program[i].op == OP_LOAD:
            return True
    return False


cdef inline void warp_drop_passed(Warp* w) noexcept nogil:
    cdef int64_t first = w.passed_from if w.passed_from >= 0 else w.id_at
    w.n -= w.at
    w.used -= first
    if w.at > 0 and w.n > 0:
        memmove(w.program, w.program + w.at, <size_t> w.n * sizeof(Instruction))
    if first > 0 and w.used > 0:
        memmove(w.ids, w.ids + first, <size_t> w.used * sizeof(int64_t))
    w.at = 0
    w.id_at -= first
    if w.passed_from >= 0:
        w.passed_from = 0


cdef inline int warp_make_room(Warp* w, int64_t n, int64_t used) noexcept nogil:
    # Drop what has been passed and make room for `n` more instructions with `used` lines; -1: out of memory.
    cdef int64_t capacity
    warp_drop_passed(w)
    if w.n + n > w.capacity:
        capacity = max(w.n + n, 2 * w.capacity)
        if grow(<void**> &w.program, capacity, sizeof(Instruction)) < 0:
            return -1
        w.capacity = capacity
    if w.used + used > w.id_capacity:
        capacity = max(w.used + used, 2 * w.id_capacity)
        if grow(<void**> &w.ids, capacity, sizeof(int64_t)) < 0:
            return -1
        w.id_capacity = capacity
    return 0


cdef inline void warp_append(
    Warp* w, const uint8_t* op, const int32_t* count, const uint64_t* needs, const int32_t* gap, int64_t n
) noexcept nogil:
    # Append instructions; there must be room. Their ids are stored by the caller, who knows the lines' numbers.
    cdef int64_t i
    for i in range(n):
        w.program[w.n + i] = Instruction(needs[i], gap[i], <int16_t> count[i], op[i])
    w.n += n


cdef inline void warp_fetch_ahead(const Warp* w) noexcept nogil:
    # Ask for what comes soon: all warps' buffers are more than the processor's caches hold, and warps take turns.
    prefetch(&w.program[min(w.at + 8, w.n)])
    prefetch(&w.ids[min(w.id_at + 16, w.used)])


# ---- the memory

cdef inline void warp_record(Warp* w, Arrival arrival) noexcept nogil:
    # Step past the current instruction and remember when its data arrive.
    cdef Arrival* place = &w.history[w.instructions & (HISTORY - 1)]
    if w.instructions >= HISTORY:
        put_off(&w.ancient, place[0])
    place[0] = arrival
    put_off(&w.everything, arrival)
    w.instructions += 1
    w.at += 1


cdef inline void warp_gather_needs(Warp* w) noexcept nogil:
    # Raise `key` to the arrival of the last of what the current instruction needs.
    cdef uint64_t needs = w.program[w.at].needs
    cdef int64_t back
    put_off(&w.key, w.ancient)
    if needs == <uint64_t> -1:
        put_off(&w.key, w.everything)
        return
    while needs != 0:
        back = lowest_bit(needs)
        if back >= w.instructions:
            return
        put_off(&w.key, w.history[(w.instructions - 1 - back) & (HISTORY - 1)])
        needs &= needs - 1
