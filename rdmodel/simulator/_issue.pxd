# The warps of a simulated SM: their next instructions, what they wait for, and the schedulers' choice.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memmove

from rdmodel._tree cimport prefetch
from rdmodel.structures._memory cimport grow

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    LOAD = 0
    STORE = 1
    ATOMIC = 2
    BARRIER = 3
    LOCAL_FLAG = 1
    LEAVES_FLAG = 2
    PAST_FLAG = 4            # the load does not look into the L1
    SCHEDULER_WARPS = 64     # bits in a mask

# Schedulers, in the order of rdmodel.gpu.config.CoreSched.
cdef enum:
    LRR = 0
    GTO = 1
    TWO_LEVEL = 2
    OLD = 3
    GTY = 4

# Standing of a warp with its scheduler.
cdef enum:
    CANNOT = 0
    FREELY = 1           # its next instruction needs nothing but an issue slot
    WITH_ROOM = 2        # its next instruction needs room in the load/store unit
    AS_ACTIVE = 3        # ... and is a load, which a throttled warp may not issue


cdef struct Instruction:
    # All that its issue reads lies side by side: the buffers of an SM's warps exceed the processor's caches.
    uint64_t needs           # bit i: needs the data of the (i + 1)-th last instruction; all bits: of every earlier one
    int32_t count            # transactions
    int32_t gap              # other instructions since the last memory instruction
    int32_t pc
    uint8_t op, lanes, flags


cdef struct Warp:
    # Three lines of the processor's caches; what every issue reads lies in the first two. The buffer: instructions `at`
    # to `n` have not been issued; ids from `id_at` on are theirs.
    Instruction* program
    int64_t at, n, id_at
    int64_t* ids
    int64_t gap_left
    # In flight. Bit i of `pending`: the (i + 1)-th last memory instruction is a load that is not complete.
    uint64_t pending
    int64_t ancient          # loads further back that are not complete
    int64_t issued           # memory instructions
    # Its place, which stays: its bit among the scheduler's warps, its scheduler, and its block slot.
    uint64_t bit
    int32_t scheduler, slot
    int32_t loads            # all loads that are not complete
    int32_t in_unit          # instructions in the load/store unit
    int32_t held             # MSHRs
    uint8_t standing
    uint8_t more             # the stream may hold further instructions
    uint8_t alive, at_barrier
    uint8_t resting          # until the latency of its last non-memory instruction is over
    uint8_t masked, sized
    int64_t age
    # The rest of its identity and of the buffer.
    int64_t block, index
    int64_t used, capacity, id_capacity
    uint32_t* masks          # lanes that requested each line, if `masked`
    uint64_t* sectors        # as in `Entry`, if `sized`
    int64_t[2] unused        # up to the end of a line


cdef struct Scheduler:
    int64_t last, last_age   # the warp that issued last: its place among the scheduler's warps, and its age
    int64_t group            # the current one, if the scheduler or a policy chooses groups
    uint64_t[4] standing     # its warps of each standing, as bits by place; nothing reads those of CANNOT
    # Throttling: warps that may issue loads, and those whose loads may allocate. `stale`: both must be computed again.
    uint64_t active, allocating
    bint stale


# ---- the buffer

cdef inline void warp_free(Warp* w) noexcept nogil:
    free(w.program)
    free(w.ids)
    free(w.masks)
    free(w.sectors)


cdef inline void warp_begin(Warp* w, int64_t age, int64_t block, int64_t index) noexcept nogil:
    # Empty the buffer, which stays allocated, and forget everything.
    w.at = w.n = w.id_at = w.used = 0
    w.more = True
    w.gap_left = 0
    w.pending = 0
    w.ancient = w.loads = w.issued = w.in_unit = w.held = 0
    w.alive = True
    w.at_barrier = w.resting = False
    w.age = age
    w.block = block
    w.index = index
    w.standing = CANNOT


cdef inline void warp_drop_issued(Warp* w) noexcept nogil:
    w.n -= w.at
    w.used -= w.id_at
    if w.at > 0 and w.n > 0:
        memmove(w.program, w.program + w.at, <size_t> w.n * sizeof(Instruction))
    if w.id_at > 0 and w.used > 0:
        memmove(w.ids, w.ids + w.id_at, <size_t> w.used * sizeof(int64_t))
        if w.masked:
            memmove(w.masks, w.masks + w.id_at, <size_t> w.used * sizeof(uint32_t))
        if w.sized:
            memmove(w.sectors, w.sectors + w.id_at, <size_t> w.used * sizeof(uint64_t))
    w.at = w.id_at = 0


cdef inline int warp_make_room(Warp* w, int64_t n, int64_t used) noexcept nogil:
    # Drop issued instructions and make room for `n` more instructions with `used` lines; -1: out of memory.
    cdef int64_t capacity
    warp_drop_issued(w)
    if w.n + n > w.capacity:
        capacity = max(w.n + n, 2 * w.capacity)
        if grow(<void**> &w.program, capacity, sizeof(Instruction)) < 0:
            return -1
        w.capacity = capacity
    if w.used + used > w.id_capacity:
        capacity = max(w.used + used, 2 * w.id_capacity)
        if grow(<void**> &w.ids, capacity, sizeof(int64_t)) < 0:
            return -1
        if w.masked and grow(<void**> &w.masks, capacity, sizeof(uint32_t)) < 0:
            return -1
        if w.sized and grow(<void**> &w.sectors, capacity, sizeof(uint64_t)) < 0:
            return -1
        w.id_capacity = capacity
    return 0


cdef inline bint warp_starved(const Warp* w) noexcept nogil:
    return w.at == w.n and w.more


cdef inline bint warp_done(const Warp* w) noexcept nogil:
    # Return whether the warp has nothing left to do or to wait for.
    return w.at == w.n and not w.more and w.in_unit == 0 and w.loads == 0 and not w.at_barrier


# ---- issue

cdef inline bint warp_satisfied(const Warp* w) noexcept nogil:
    # Return whether all loads that the next instruction needs are complete.
    return w.ancient == 0 and w.program[w.at].needs & w.pending == 0


cdef inline bint warp_awaits_data(const Warp* w) noexcept nogil:
    # Return whether the warp can do nothing before data of its loads come.
    if w.gap_left > 0:
        return False
    return not warp_satisfied(w) if w.at < w.n else w.loads > 0


cdef inline int warp_stand(const Warp* w) noexcept nogil:
    # Return what the warp needs to issue its next instruction.
    if not w.alive or w.at_barrier or w.resting or w.at == w.n:
        return CANNOT
    if w.gap_left > 0:
        return FREELY
    if not warp_satisfied(w):
        return CANNOT
    if w.program[w.at].count == 0:
        return FREELY
    return AS_ACTIVE if w.program[w.at].op == LOAD else WITH_ROOM


cdef inline void warp_fetch_ahead(const Warp* w) noexcept nogil:
    # Fetch the lines of the next instruction, and the instruction after it, which are needed when it issues.
    prefetch(w.ids + w.id_at)
    prefetch(w.program + w.at + 1)


cdef inline void warp_advance(Warp* w) noexcept nogil:
    # Step past the next instruction, which has been issued.
    w.id_at += w.program[w.at].count
    w.at += 1
    if w.at < w.n:
        w.gap_left = w.program[w.at].gap
        warp_fetch_ahead(w)


cdef inline void warp_remember(Warp* w, bint load) noexcept nogil:
    # Record the issue of a memory instruction.
    if w.pending >> 63:
        w.ancient += 1
    w.pending = w.pending << 1 | (1 if load else 0)
    w.issued += 1
    if load:
        w.loads += 1


cdef inline void warp_complete(Warp* w, int64_t number) noexcept nogil:
    # The data of load `number`, counted by `issued`, are all there.
    cdef int64_t back = w.issued - 1 - number
    if back < 64:
        w.pending &= ~(<uint64_t> 1 << back)
    else:
        w.ancient -= 1
    w.loads -= 1


# ---- choice: warps are numbered by their place in the scheduler; their bits are set if they may issue

cdef inline uint64_t bits_above(int64_t place) noexcept nogil:
    # All places after `place`, which may be -1.
    return ~(<uint64_t> 0) << (place + 1) if place < 63 else 0


cdef inline int64_t pick_next(uint64_t candidates, int64_t last) noexcept nogil:
    # The first candidate after `last`, in a circle.
    cdef uint64_t later = candidates & bits_above(last)
    return lowest_bit(later if later != 0 else candidates)


cdef inline int64_t pick_by_age(
    uint64_t candidates, const Warp* warp, int64_t first, int64_t stride, bint youngest
) noexcept nogil:
    # Return the place of the oldest candidate, or of the `youngest`.
    cdef int64_t place, best = lowest_bit(candidates)
    candidates &= candidates - 1
    while candidates != 0:
        place = lowest_bit(candidates)
        if (warp[first + place * stride].age > warp[first + best * stride].age) == youngest:
            best = place
        candidates &= candidates - 1
    return best


cdef inline uint64_t oldest_bits(
    const Warp* warp, int64_t first, int64_t stride, int64_t places, int64_t limit
) noexcept nogil:
    # The places of the `limit` oldest warps that are alive and do not wait at a barrier; -1: of all.
    cdef uint64_t left = 0, chosen = 0
    cdef int64_t place
    for place in range(places):
        if warp[first + place * stride].alive and not warp[first + place * stride].at_barrier:
            left |= <uint64_t> 1 << place
    if limit < 0:
        return left
    while left != 0 and limit > 0:
        place = pick_by_age(left, warp, first, stride, False)
        chosen |= <uint64_t> 1 << place
        left &= ~(<uint64_t> 1 << place)
        limit -= 1
    return chosen


cdef inline uint64_t group_bits(int64_t group, int64_t size) noexcept nogil:
    cdef uint64_t bits = ~(<uint64_t> 0) if size >= 64 else (<uint64_t> 1 << size) - 1
    return bits << (group * size)


cdef inline int64_t pick_grouped(Scheduler* s, uint64_t candidates, int64_t size) noexcept nogil:
    cdef int64_t group = s.group
    cdef int64_t groups = (SCHEDULER_WARPS + size - 1) // size
    while candidates & group_bits(group, size) == 0:
        group = (group + 1) % groups
    s.group = group
    return pick_next(candidates & group_bits(group, size), s.last if s.last // size == group else -1)


cdef inline int64_t scheduler_pick(
    Scheduler* s, int kind, uint64_t candidates, const Warp* warp, int64_t first, int64_t stride, int64_t group
) noexcept nogil:
    # Return the place of the warp that issues; there are candidates. Place p is warp `first` + p x `stride`.
    if kind == LRR:
        return pick_next(candidates, s.last)
    if kind == TWO_LEVEL:
        return pick_grouped(s, candidates, group)
    if kind != OLD and s.last >= 0 and candidates >> s.last & 1 and warp[first + s.last * stride].age == s.last_age:
        return s.last
    return pick_by_age(candidates, warp, first, stride, kind == GTY)
