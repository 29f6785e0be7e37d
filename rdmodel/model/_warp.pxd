# One warp: a buffer of its next instructions, and the arrival times of the data of its earlier ones.
# It moves through its buffer with `at` (instructions) and `id_at` (lines); passed entries are dropped when more arrive.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memmove

from rdmodel.structures._memory cimport grow

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    # Kinds of requests to the L2. Bit 0: it writes; bit 1: the write is that of an atomic, which needs the old value.
    READS = 0
    WRITES = 1
    UPDATES = 3

cdef enum:
    OP_LOAD = 0
    OP_ATOMIC = 2
    OP_BARRIER = 3
    OP_BYPASS = 4            # a load that does not look into the L1 (rdmodel.trace.coalescing.BYPASS)
    EARLY = 0                # parts of a run that are counted apart: codes of instructions
    LATE = 1
    HISTORY = 64             # number of earlier memory instructions that a `needs` mask covers; a power of two


cdef struct Arrival:
    # Arrival of data; of two that arrive at the same time, the one that was issued last is the later one.
    int64_t time
    int64_t order


cdef struct Instruction:
    uint64_t needs           # bit i: needs the data of the (i + 1)-th last instruction; all bits: of every earlier one
    int32_t gap              # other instructions since the last memory instruction
    int16_t count            # transactions; it fits, as there are at most 32 lanes of 16 bytes
    uint8_t op


cdef struct Warp:
    # The fields that every step reads come first: those of all warps share the processor's cache.
    # Position in the buffer.
    int64_t at               # current instruction
    int64_t id_at            # its next transaction
    int64_t left             # transactions of the instruction that are still to be issued; -1 = not begun
    int64_t n                # instructions in the buffer
    int64_t used             # lines in the buffer
    Instruction* program     # [n]
    int64_t* ids             # [used] ids of the lines of all transactions, one after the other
    uint64_t* masks          # [used] sectors that each asks for; in the upper half, those that a store writes in full;
                             # NULL if lines have no sectors
    int32_t* codes           # [n] numbers of the instructions, or their parts; NULL unless the core tallies
    # On the way to its next instruction: gaps that are left, needs, and stores that are passed.
    int64_t gap_left
    Arrival key              # when the last of the needs arrives
    int64_t passed_from      # index of the first line of the stores that it has passed, up to `id_at`; -1 = none
    int64_t passed_at        # index of the first of these stores
    bint more                # the stream may hold further instructions
    bint ending
    int64_t shown            # a load in the buffer, as far as is known; no more than `at`: none is known behind it
    int64_t mshrs            # MSHRs that it has allocated
    int64_t age              # number of warps that started before it; slots are used again, ages are not
    # Latest arrival of the data ...
    Arrival latest           # of the current instruction
    Arrival everything       # of all instructions
    Arrival ancient          # of instructions before those that `needs` covers
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
    # Reset a warp and empty its buffer, which stays allocated. A warp that was never used is zeroed memory.
    w.n = w.at = w.used = w.id_at = w.shown = 0
    w.left = -1
    w.more = True
    w.latest = w.everything = w.ancient = w.key = Arrival(-1, -1)
    w.instructions = 0
    w.gap_left = 0
    w.mshrs = 0
    w.ending = False
    w.passed_from = -1
    w.age = age


cdef inline void warp_free(Warp* w) noexcept nogil:
    free(w.program)
    free(w.ids)
    free(w.masks)
    free(w.codes)


cdef inline bint loads(const Instruction* i) noexcept nogil:
    return i.op == OP_LOAD or i.op == OP_BYPASS


cdef inline uint8_t writing_kind(const Instruction* i) noexcept nogil:
    # Return the kind of the requests of an instruction that stores.
    return UPDATES if i.op == OP_ATOMIC else WRITES


# ---- the buffer

cdef inline bint warp_primed(const Warp* w) noexcept nogil:
    # Tell whether the buffer shows how the warp begins: it has a load, or all of the warp's instructions.
    cdef int64_t i
    if not w.more:
        return True
    for i in range(w.at, w.n):
        if loads(&w.program[i]):
            return True
    return False


cdef inline bint warp_shows_more(Warp* w) noexcept nogil:
    # Tell whether the buffer shows how the warp goes on behind the current instruction, a barrier, and behind all
    # barriers that follow: a warp must not lack instructions at the moment when its barrier opens.
    if not w.more or w.shown > w.at:
        return True
    w.shown = w.at + 1
    while w.shown < w.n and not loads(&w.program[w.shown]):
        w.shown += 1
    if w.shown < w.n:
        return True
    w.shown = w.at
    return False


cdef inline void warp_drop_passed(Warp* w) noexcept nogil:
    cdef int64_t first = w.passed_from if w.passed_from >= 0 else w.id_at
    cdef int64_t row = w.passed_at if w.passed_from >= 0 else w.at
    w.shown -= row
    w.n -= row
    w.used -= first
    if row > 0 and w.n > 0:
        memmove(w.program, w.program + row, <size_t> w.n * sizeof(Instruction))
        if w.codes != NULL:
            memmove(w.codes, w.codes + row, <size_t> w.n * sizeof(int32_t))
    if first > 0 and w.used > 0:
        memmove(w.ids, w.ids + first, <size_t> w.used * sizeof(int64_t))
        if w.masks != NULL:
            memmove(w.masks, w.masks + first, <size_t> w.used * sizeof(uint64_t))
    w.at -= row
    w.id_at -= first
    if w.passed_from >= 0:
        w.passed_from = w.passed_at = 0


cdef inline int warp_make_room(Warp* w, int64_t n, int64_t used, bint masked, bint coded) noexcept nogil:
    # Drop passed entries and make room for `n` more instructions, with codes if `coded`, and their `used` lines, with
    # masks if `masked`; -1: out of memory.
    cdef int64_t capacity
    warp_drop_passed(w)
    if w.n + n > w.capacity:
        capacity = max(w.n + n, 2 * w.capacity)
        if grow(<void**> &w.program, capacity, sizeof(Instruction)) < 0:
            return -1
        if coded and grow(<void**> &w.codes, capacity, sizeof(int32_t)) < 0:
            return -1
        w.capacity = capacity
    if w.used + used > w.id_capacity:
        capacity = max(w.used + used, 2 * w.id_capacity)
        if grow(<void**> &w.ids, capacity, sizeof(int64_t)) < 0:
            return -1
        if masked and grow(<void**> &w.masks, capacity, sizeof(uint64_t)) < 0:
            return -1
        w.id_capacity = capacity
    return 0


cdef inline void warp_append(
    Warp* w, const uint8_t* op, const int32_t* count, const uint64_t* needs, const int32_t* gap, int64_t n
) noexcept nogil:
    # Append instructions; there must be room. The caller stores the ids of their lines.
    cdef int64_t i
    for i in range(n):
        w.program[w.n + i] = Instruction(needs[i], gap[i], <int16_t> count[i], op[i])
    w.n += n


cdef inline void warp_fetch_ahead(const Warp* w) noexcept nogil:
    # Prefetch the next entries: the buffers of all warps exceed the processor's caches, and warps take turns.
    prefetch(&w.program[min(w.at + 8, w.n)])
    prefetch(&w.ids[min(w.id_at + 16, w.used)])
    if w.masks != NULL:
        prefetch(&w.masks[min(w.id_at + 16, w.used)])


# ---- arrivals

cdef inline void warp_record(Warp* w, Arrival arrival) noexcept nogil:
    # Step past the current memory instruction and record when its data arrive.
    cdef Arrival* place = &w.history[w.instructions & (HISTORY - 1)]
    if w.instructions >= HISTORY:
        put_off(&w.ancient, place[0])
    place[0] = arrival
    put_off(&w.everything, arrival)
    w.instructions += 1
    w.at += 1


cdef inline void warp_gather_needs(Warp* w) noexcept nogil:
    # Raise `key` to the latest arrival of the data that the current instruction needs.
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
