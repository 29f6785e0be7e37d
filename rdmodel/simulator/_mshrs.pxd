# MSHRs of a cache, L1 or L2: the lines in flight, and the waiters for each of them.
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free

from rdmodel.structures._lru cimport NONE
from rdmodel.structures._memory cimport grow


cdef struct Waiter:
    int64_t who
    int64_t id
    int64_t next


cdef struct Mshr:
    int64_t id            # the line
    int64_t since         # when it was taken
    int64_t block         # that of the warp that holds it
    int32_t owner, warp   # that warp's slot, and its number in the block
    int32_t first, last   # waiters, in the order in which they merged
    int32_t merged
    int32_t pc            # of the load that took it
    int32_t next          # next in the list of free entries
    uint32_t sectors      # of the line, that are in flight
    bint dirty            # a store has written to the line in flight


cdef struct Mshrs:
    Mshr* item
    int64_t free, size, used
    int64_t limit, merge  # -1 = unlimited
    Waiter* waiter
    int64_t free_waiter, waiters


cdef inline void mshrs_init(Mshrs* m, int64_t limit, int64_t merge) noexcept nogil:
    m.item = NULL
    m.waiter = NULL
    m.size = m.used = m.waiters = 0
    m.free = m.free_waiter = NONE
    m.limit = limit
    m.merge = merge


cdef inline void mshrs_free(Mshrs* m) noexcept nogil:
    free(m.item)
    free(m.waiter)
    m.item = NULL
    m.waiter = NULL


cdef inline bint mshr_available(const Mshrs* m) noexcept nogil:
    return m.limit < 0 or m.used < m.limit


cdef inline bint mshr_mergeable(const Mshrs* m, int64_t mshr) noexcept nogil:
    return m.merge < 0 or m.item[mshr].merged < m.merge


cdef inline int64_t mshr_take(Mshrs* m, int64_t id) noexcept nogil:
    # Allocate an entry for a line, without waiters; NONE: out of memory.
    cdef int64_t i, size
    if m.free == NONE:
        size = 16 if m.size == 0 else 2 * m.size
        if grow(<void**> &m.item, size, sizeof(Mshr)) < 0:
            return NONE
        for i in range(size - 1, m.size - 1, -1):
            m.item[i].next = m.free
            m.free = i
        m.size = size
    i = m.free
    m.free = m.item[i].next
    m.used += 1
    m.item[i] = Mshr(id, 0, NONE, NONE, NONE, NONE, NONE, 0, NONE, NONE, 0, False)
    return i


cdef inline int mshr_merge(Mshrs* m, int64_t mshr, int64_t who, int64_t id) noexcept nogil:
    # Add a waiter for the line; -1: out of memory.
    cdef int64_t i, size
    cdef Mshr* entry = &m.item[mshr]
    if m.free_waiter == NONE:
        size = 64 if m.waiters == 0 else 2 * m.waiters
        if grow(<void**> &m.waiter, size, sizeof(Waiter)) < 0:
            return -1
        for i in range(size - 1, m.waiters - 1, -1):
            m.waiter[i].next = m.free_waiter
            m.free_waiter = i
        m.waiters = size
    i = m.free_waiter
    m.free_waiter = m.waiter[i].next
    m.waiter[i] = Waiter(who, id, NONE)
    if entry.last == NONE:
        entry.first = i
    else:
        m.waiter[entry.last].next = i
    entry.last = i
    entry.merged += 1
    return 0


cdef inline int64_t mshr_next_waiter(Mshrs* m, int64_t mshr, Waiter* out) noexcept nogil:
    # Remove the first waiter; False: there is none.
    cdef int64_t i = m.item[mshr].first
    if i == NONE:
        return False
    out[0] = m.waiter[i]
    m.item[mshr].first = out[0].next
    m.waiter[i].next = m.free_waiter
    m.free_waiter = i
    return True


cdef inline void mshr_release(Mshrs* m, int64_t mshr) noexcept nogil:
    # Free an entry whose waiters have all been taken.
    m.item[mshr].next = m.free
    m.free = mshr
    m.used -= 1
