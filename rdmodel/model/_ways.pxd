# The ways of all sets: LRU replacement among the lines that are not in flight.
# What a transaction reads of a way lies in rows by way. A row has a power of two of entries for each set, so that a way
# tells its set. A line is in flight while its `due` is later than now. Sets of few ways have a stamp for each, the order
# of its last use with the way in its low bits, and the victim is that of the smallest stamp: no branch depends on the
# data. The stamps of protected lines (docs/gpus.md) are larger than all others.
# Sets of many ways have a circle from the oldest to the newest; it begins and ends at an entry that is no way.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc

from rdmodel.model._shadow cimport FastLine
from rdmodel.structures._pool cimport MAX_POOLS, Pool, pool_of, pool_pass, pool_set

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    STAMPED_WAYS = 16        # sets of more ways have circles
    STAMP_BITS = 4
    KEPT_BIT = 61            # of a stamp: the line is protected


cdef struct Ways:
    int64_t ways             # of a set
    int64_t bits             # a set has 1 << `bits` entries
    int64_t sectors          # of a line
    int64_t sets
    int64_t protected        # lines of a set of few ways that leave last, if they were used again
    Pool pool                # of sets of few ways
    int64_t[MAX_POOLS] all_late  # before this time, all lines of a pool are in flight
    int32_t* line            # the line that has the way; -1 = none
    int64_t* due             # when the last request of the line arrives
    int64_t* merged          # transactions that share it
    int64_t* stamp           # of sets of few ways
    int32_t* newer           # of sets of many ways
    int32_t* older
    # Of sectored lines.
    uint32_t* there          # sectors that are there or in flight
    uint32_t* written        # in place, not fetched
    int64_t* sector_due      # `sectors` per way
    int64_t* sector_merged   # of the first sector of each request: transactions that share it
    uint8_t* request         # of each sector, the first sector of the latest request that had it


cdef inline int ways_init(
    Ways* w, int64_t sets, int64_t ways, int64_t protected, Pool pool, int64_t sectors, bint sectored
) noexcept nogil:
    # -1: out of memory.
    cdef int64_t total, i, first
    w.sets = sets
    w.ways = ways
    w.sectors = sectors
    w.protected = protected
    w.pool = pool
    # The last entry of a set of many ways is that of its circle.
    while 1 << w.bits < (ways if ways <= STAMPED_WAYS else ways + 1):
        w.bits += 1
    total = sets << w.bits
    w.line = <int32_t*> malloc(<size_t> total * sizeof(int32_t))
    w.due = <int64_t*> calloc(<size_t> total, sizeof(int64_t))
    w.merged = <int64_t*> calloc(<size_t> total, sizeof(int64_t))
    w.stamp = <int64_t*> malloc(<size_t> total * sizeof(int64_t))
    w.newer = <int32_t*> calloc(<size_t> total, sizeof(int32_t))
    w.older = <int32_t*> calloc(<size_t> total, sizeof(int32_t))
    if w.line == NULL or w.due == NULL or w.merged == NULL or w.stamp == NULL or w.newer == NULL or w.older == NULL:
        return -1
    if sectored:
        w.there = <uint32_t*> calloc(<size_t> total, sizeof(uint32_t))
        w.written = <uint32_t*> calloc(<size_t> total, sizeof(uint32_t))
        w.sector_due = <int64_t*> calloc(<size_t> (total * sectors), sizeof(int64_t))
        w.sector_merged = <int64_t*> calloc(<size_t> (total * sectors), sizeof(int64_t))
        w.request = <uint8_t*> calloc(<size_t> (total * sectors), 1)
        if (
            w.there == NULL or w.written == NULL or w.sector_due == NULL
            or w.sector_merged == NULL or w.request == NULL
        ):
            return -1
    for i in range(total):
        w.line[i] = -1
        w.stamp[i] = i & ((1 << w.bits) - 1)
    for i in range(sets):
        first = i << w.bits
        ways_link(w, ways_circle(w, i), first)
        for first in range(first, first + ways - 1):
            ways_link(w, first, first + 1)
        ways_link(w, (i << w.bits) + ways - 1, ways_circle(w, i))
    return 0


cdef inline void ways_free(Ways* w) noexcept nogil:
    free(w.line)
    free(w.due)
    free(w.merged)
    free(w.stamp)
    free(w.newer)
    free(w.older)
    free(w.there)
    free(w.written)
    free(w.sector_due)
    free(w.sector_merged)
    free(w.request)


cdef inline int64_t ways_circle(const Ways* w, int64_t number) noexcept nogil:
    # Return the entry at which the circle of set `number` begins and ends.
    return (number << w.bits) + (1 << w.bits) - 1


cdef inline void ways_link(Ways* w, int64_t older, int64_t newer) noexcept nogil:
    w.newer[older] = <int32_t> newer
    w.older[newer] = <int32_t> older


cdef inline void ways_use(Ways* w, int64_t way, int64_t order) noexcept nogil:
    # Make a way the newest of its set; `order` grows with every use.
    cdef int64_t circle
    if w.protected:
        ways_protect(w, way, order)
        return
    if w.ways <= STAMPED_WAYS:
        w.stamp[way] = ((order + 1) << STAMP_BITS) | (way & ((1 << w.bits) - 1))
        return
    circle = ways_circle(w, way >> w.bits)
    ways_link(w, w.older[way], w.newer[way])
    ways_link(w, w.older[circle], way)
    ways_link(w, way, circle)


cdef inline void ways_protect(Ways* w, int64_t way, int64_t order) noexcept nogil:
    # As `ways_use`: a line that is used again is protected. If that is one too many, the oldest of these becomes the
    # newest of the others.
    cdef int64_t low = (1 << w.bits) - 1, now = (order + 1) << STAMP_BITS, first = way & ~low
    cdef int64_t kept = <int64_t> 1 << KEPT_BIT, oldest = kept << 1, count = 0, i
    if w.stamp[way] <= low:
        w.stamp[way] = now | (way & low)
        return
    if w.stamp[way] < kept:
        for i in range(first, first + w.ways):
            if w.stamp[i] >= kept:
                count += 1
                oldest = min(oldest, w.stamp[i])
        if count == w.protected:
            i = oldest & ((1 << STAMP_BITS) - 1)
            w.stamp[first + i] = now | i
    w.stamp[way] = kept | now | (way & low)


cdef inline int64_t ways_victim(const Ways* w, int64_t number, int64_t now) noexcept nogil:
    # Return the way of set `number` that a new line takes: an empty one, or that of the least recently used line that is
    # not in flight; -1 if all are in flight.
    cdef int64_t first = number << w.bits, none = <int64_t> 1 << 62, best = none, i, circle
    if w.ways <= STAMPED_WAYS:
        for i in range(first, first + w.ways):
            best = min(best, w.stamp[i] | (none if w.due[i] > now else 0))
        return first + (best & ((1 << STAMP_BITS) - 1)) if best < none else -1
    circle = ways_circle(w, number)
    i = w.newer[circle]
    while i != circle and w.due[i] > now:
        i = w.newer[i]
    return i if i != circle else -1


cdef inline bint ways_find_data(Ways* w, FastLine* line, int64_t number, int64_t now) noexcept nogil:
    # Find data for a line whose set, `number`, has an empty way, if need be those of another line; False: there are none.
    cdef int64_t none = <int64_t> 1 << 62, soonest = none, later, first, best, i
    cdef int64_t pool = pool_of(&w.pool, number)
    if w.pool.used[pool] < w.pool.lines:
        w.pool.used[pool] += 1
        return True
    if now < w.all_late[pool]:
        return False
    for later in range(w.pool.sets):
        number = pool_set(&w.pool, pool, later)
        first = number << w.bits
        best = none
        for i in range(first, first + w.ways):
            if w.line[i] >= 0:
                best = min(best, w.stamp[i] | (none if w.due[i] > now else 0))
                soonest = min(soonest, w.due[i])
        if best < none:
            i = first + (best & ((1 << STAMP_BITS) - 1))
            line[w.line[i]].way = <int32_t> ~number
            w.line[i] = -1
            w.stamp[i] = i & ((1 << w.bits) - 1)
            pool_pass(&w.pool, number)
            return True
    w.all_late[pool] = soonest
    return False


cdef inline int64_t ways_take(Ways* w, FastLine* line, int64_t id, int64_t now) noexcept nogil:
    # Give an absent line a way of its set; -1: there is none.
    cdef int64_t number = ~line[id].way
    cdef int64_t way = ways_victim(w, number, now)
    if way < 0:
        return -1
    if w.pool.lines and w.line[way] < 0 and not ways_find_data(w, line, number, now):
        return -1
    if w.line[way] >= 0:
        line[w.line[way]].way = <int32_t> ~number
    w.stamp[way] = way & ((1 << w.bits) - 1)  # not used yet
    w.line[way] = <int32_t> id
    line[id].way = <int32_t> way
    return way


cdef inline void ways_leave(Ways* w, FastLine* line, int64_t id, int64_t now) noexcept nogil:
    # Evict a line, unless it is absent or in flight.
    cdef int64_t way = line[id].way, circle
    if way < 0 or w.due[way] > now:
        return
    line[id].way = <int32_t> ~(way >> w.bits)
    w.line[way] = -1
    if w.pool.lines:
        w.pool.used[pool_of(&w.pool, way >> w.bits)] -= 1
    if w.ways <= STAMPED_WAYS:
        w.stamp[way] = way & ((1 << w.bits) - 1)
        return
    circle = ways_circle(w, way >> w.bits)
    ways_link(w, w.older[way], w.newer[way])
    ways_link(w, way, w.newer[circle])
    ways_link(w, circle, way)


# ---- sectors

cdef inline uint32_t sectors_late(const Ways* w, int64_t way, uint32_t sectors, int64_t now) noexcept nogil:
    # Return which of some sectors of a way are in flight.
    cdef const int64_t* due = w.sector_due + way * w.sectors
    cdef uint32_t late = 0
    cdef int i
    if w.due[way] <= now:
        return 0
    while sectors:
        i = lowest_bit(sectors)
        late |= <uint32_t> (due[i] > now) << i
        sectors &= sectors - 1
    return late


cdef inline int64_t sectors_due(const Ways* w, int64_t way, uint32_t sectors) noexcept nogil:
    # Return when the last of some sectors arrives.
    cdef int64_t due = -1
    while sectors:
        due = max(due, w.sector_due[way * w.sectors + lowest_bit(sectors)])
        sectors &= sectors - 1
    return due


cdef inline uint32_t sectors_requests(const Ways* w, int64_t way, uint32_t sectors) noexcept nogil:
    # Return the requests of some sectors, each as its first sector.
    cdef uint32_t requests = 0
    while sectors:
        requests |= <uint32_t> 1 << w.request[way * w.sectors + lowest_bit(sectors)]
        sectors &= sectors - 1
    return requests


cdef inline bint sectors_can_merge(const Ways* w, int64_t way, uint32_t sectors, int64_t most) noexcept nogil:
    # Tell whether fewer than `most` transactions share each request of some sectors.
    cdef uint32_t requests = sectors_requests(w, way, sectors)
    while requests:
        if w.sector_merged[way * w.sectors + lowest_bit(requests)] >= most:
            return False
        requests &= requests - 1
    return True


cdef inline void sectors_merge(Ways* w, int64_t way, uint32_t sectors) noexcept nogil:
    cdef uint32_t requests = sectors_requests(w, way, sectors)
    while requests:
        w.sector_merged[way * w.sectors + lowest_bit(requests)] += 1
        requests &= requests - 1


cdef inline void sectors_request(Ways* w, int64_t way, uint32_t sectors, int64_t due) noexcept nogil:
    # Request some sectors of a way, which arrive at `due`.
    cdef int64_t first = lowest_bit(sectors), place
    w.there[way] |= sectors
    w.due[way] = max(w.due[way], due)
    w.sector_merged[way * w.sectors + first] = 1
    while sectors:
        place = way * w.sectors + lowest_bit(sectors)
        w.sector_due[place] = due
        w.request[place] = <uint8_t> first
        sectors &= sectors - 1
