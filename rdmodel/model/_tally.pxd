# Counters by origin: by the instruction that a transaction belongs to, and by the place of its line in memory.
# A core that tallies names the origin of each transaction before it is tried. What its counters have gained since the
# last change of the origin belongs to the old one, so that nothing else in a core knows about origins.
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from rdmodel._tree cimport LineTable, table_free, table_init, table_intern
from rdmodel.structures._memory cimport grow


cdef struct Tally:
    # In the order of TALLIED_COUNTERS (rdmodel.results.origins), which has the names.
    int64_t requests
    int64_t transactions
    int64_t hits
    int64_t latency_misses
    int64_t compulsory
    int64_t capacity
    int64_t associativity
    int64_t tag_misses
    int64_t sector_misses
    int64_t store_requests
    int64_t store_transactions
    int64_t store_sectors
    int64_t store_hits
    int64_t bypassed_requests
    int64_t bypassed_transactions
    int64_t bypassed_sectors


cdef struct Recent:
    # The last place that an instruction accessed, and its group: most instructions access one array.
    int64_t place
    int64_t group


cdef struct Origins:
    # Numbers are dense: `codes` numbers instructions by pc, `places` numbers parts of memory, `groups` pairs of both.
    LineTable codes
    LineTable places
    LineTable groups
    Recent* recent           # by code
    int64_t recent_capacity
    Tally* tally             # by group
    int64_t tally_capacity
    int64_t group            # of the latest transaction; -1 = none
    Tally before             # the core's counters when it became that
    int32_t* place           # by line
    int64_t lines            # for which it has room
    # Arrays, ascending: lines from `first` up to `end`. Other lines have their address, in units of 1 << `shift` lines,
    # as place.
    int64_t* first
    int64_t* end
    int64_t arrays
    int64_t shift
    bint lost                # out of memory


cdef inline int origins_init(Origins* o) noexcept nogil:
    # -1: out of memory.
    o.group = -1
    if table_init(&o.codes, 64) < 0 or table_init(&o.places, 64) < 0 or table_init(&o.groups, 256) < 0:
        return -1
    return 0


cdef inline void origins_free(Origins* o) noexcept nogil:
    table_free(&o.codes)
    table_free(&o.places)
    table_free(&o.groups)
    free(o.recent)
    free(o.tally)
    free(o.place)
    free(o.first)
    free(o.end)


cdef inline int origins_codes(Origins* o, const int32_t* pc, int64_t n, int32_t* codes) noexcept nogil:
    # Number `n` instructions. -1: out of memory.
    cdef int64_t i, code, capacity
    for i in range(n):
        code = table_intern(&o.codes, pc[i])
        if code < 0:
            return -1
        codes[i] = <int32_t> code
    if o.codes.count > o.recent_capacity:
        capacity = 2 * o.codes.count
        if grow(<void**> &o.recent, capacity, sizeof(Recent)) < 0:
            return -1
        memset(o.recent + o.recent_capacity, -1, <size_t> (capacity - o.recent_capacity) * sizeof(Recent))
        o.recent_capacity = capacity
    return 0


cdef inline int origins_place(Origins* o, int64_t id, int64_t line) noexcept nogil:
    # Find the place of a line that is new. -1: out of memory.
    cdef int64_t low = 0, high = o.arrays, middle, place
    if id >= o.lines:
        if grow(<void**> &o.place, 2 * id + 1024, sizeof(int32_t)) < 0:
            return -1
        o.lines = 2 * id + 1024
    while low < high:
        middle = (low + high) >> 1
        if o.first[middle] <= line:
            low = middle + 1
        else:
            high = middle
    if low > 0 and line < o.end[low - 1]:
        place = table_intern(&o.places, low - 1)
    else:
        place = table_intern(&o.places, o.arrays + (line >> o.shift))
    o.place[id] = <int32_t> place
    return -1 if place < 0 else 0


cdef inline int64_t origins_group(Origins* o, int64_t code, int64_t place) noexcept nogil:
    # Return the group of an instruction and a place; -1: out of memory.
    cdef Recent* recent = &o.recent[code]
    cdef int64_t group, capacity = o.tally_capacity
    if recent.place == place:
        return recent.group
    group = table_intern(&o.groups, place << 32 | code)
    if group >= capacity:
        if grow(<void**> &o.tally, 2 * group + 64, sizeof(Tally)) < 0:
            return -1
        o.tally_capacity = 2 * group + 64
        memset(o.tally + capacity, 0, <size_t> (o.tally_capacity - capacity) * sizeof(Tally))
    recent.place = place
    recent.group = group
    return group


cdef inline void gain(int64_t* sum, int64_t* before, int64_t now) noexcept nogil:
    # Add what a counter has gained.
    sum[0] += now - before[0]
    before[0] = now
