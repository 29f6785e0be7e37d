# Choose the ready warp that issues next, by the code of a scheduler; SCHED_RANDOM draws a number instead.
from libc.stdint cimport int64_t, uint64_t

from rdmodel.model._warp cimport Warp

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    SCHED_RANDOM = 0
    SCHED_FIFO = 1       # the warp that became ready first
    SCHED_LRR = 2        # loose round-robin: the first ready slot behind that of the last issuer
    SCHED_GTO = 3        # greedy, then oldest: the last issuer if it is ready, else the oldest warp
    SCHED_OLDEST = 4
    SCHED_GTY = 5        # greedy, then youngest

cdef enum:
    MAX_SCHEDULERS = 4

cdef struct Scheduler:
    int64_t kind
    int64_t last         # slot of the last issuer; another warp may use the slot now, so its age is stored too
    int64_t last_age


# Sets of slots have one bit per slot, 64 in a word: the ready slots, and the slots of each scheduler.
cdef inline bint has_bit(const uint64_t* bits, int64_t at) noexcept nogil:
    return (bits[at >> 6] >> (at & 63)) & 1


cdef inline int64_t next_in_circle(
    const uint64_t* ready, const uint64_t* slots_of, int64_t words, int64_t first
) noexcept nogil:
    # Return the first slot from `first` on, and then from 0 on, that is in both sets; -1 if there is none.
    cdef int64_t i, word = first >> 6
    cdef uint64_t both = ready[word] & slots_of[word], behind = both & (~<uint64_t> 0 << (first & 63))
    if words == 1:
        return lowest_bit(behind if behind else both) if both else -1
    both = behind
    for i in range(words + 1):
        if both:
            return (word << 6) + lowest_bit(both)
        word = word + 1 if word + 1 < words else 0
        both = ready[word] & slots_of[word]
    return -1


cdef inline int64_t first_by_age(
    const uint64_t* ready, const uint64_t* slots_of, int64_t words, const Warp* warp, bint youngest
) noexcept nogil:
    # Return the slot in both sets whose warp is the oldest, or the `youngest`; -1 if there is none.
    cdef int64_t word, slot, best = -1
    cdef uint64_t left
    for word in range(words):
        left = ready[word] & slots_of[word]
        while left:
            slot = (word << 6) + lowest_bit(left)
            left &= left - 1
            if best < 0 or (warp[slot].age > warp[best].age) == youngest:
                best = slot
    return best


cdef inline int64_t sched_pick(
    const Scheduler* s, const uint64_t* ready, const uint64_t* slots_of, int64_t words, int64_t slots, const Warp* warp
) noexcept nogil:
    # Return the ready slot that a scheduler chooses among its slots, -1 if there is none. SCHED_FIFO and SCHED_RANDOM
    # choose by the order of the ready list instead.
    if s.kind == SCHED_LRR:
        return next_in_circle(ready, slots_of, words, s.last + 1 if s.last + 1 < slots else 0)
    if s.kind != SCHED_OLDEST and s.last >= 0 and has_bit(ready, s.last) and warp[s.last].age == s.last_age:
        return s.last
    return first_by_age(ready, slots_of, words, warp, s.kind == SCHED_GTY)
