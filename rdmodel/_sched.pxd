# Which of the ready warps issues next: the schedulers, as codes. SCHED_RANDOM draws a number instead.
from libc.stdint cimport int32_t, int64_t

from rdmodel._warp cimport Warp

cdef enum:
    SCHED_RANDOM = 0
    SCHED_FIFO = 1       # the first that became ready
    SCHED_LRR = 2        # loose round-robin: the first ready slot after that of the last issuer
    SCHED_GTO = 3        # greedy, then oldest: the last issuer, else the oldest
    SCHED_OLDEST = 4

cdef enum:
    MOST_SCHEDULERS = 4

cdef struct Scheduler:
    int64_t kind
    int64_t slots        # warp slots that round-robin goes through
    int64_t last         # the slot of the last issuer, and its age: the slot may have passed to another warp
    int64_t last_age


cdef inline int64_t turn_of(const Scheduler* s, int64_t warp) noexcept nogil:
    # How many slots after the last issuer a warp comes in the cycle.
    cdef int64_t turn = warp - s.last - 1
    return turn if turn >= 0 else turn + s.slots


cdef inline int64_t sched_pick(
    const Scheduler* s, int64_t number, int64_t of, const Warp* warp, const int32_t* ready, int64_t size
) noexcept nogil:
    # Return the index in the ready list of the choice of scheduler `number` among `of`, -1 if it has no ready warp: warp
    # slot k is that of scheduler k mod `of`. O(size), but for one SCHED_FIFO.
    cdef int64_t i, best = -1
    for i in range(size):
        if of > 1 and ready[i] % of != number:
            continue
        if s.kind == SCHED_FIFO:
            return i
        if s.kind == SCHED_GTO and ready[i] == s.last and warp[s.last].age == s.last_age:
            return i
        if best < 0:
            best = i
        elif s.kind == SCHED_LRR:
            if turn_of(s, ready[i]) < turn_of(s, ready[best]):
                best = i
        elif warp[ready[i]].age < warp[ready[best]].age:
            best = i
    return best
