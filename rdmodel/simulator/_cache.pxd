# A cache of the simulator, L1 or L2: the lines that own a way of their set, and their states; _mshrs.pxd has the MSHRs.
#
# Lines are dense numbers (ids), so that a lookup takes the same time for any number of ways. The way of a line within
# its set is not recorded: with LRU replacement it makes no difference.
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from rdmodel._tree cimport LineTable, prefetch, table_free, table_home, table_init, table_intern, table_intern_many
from rdmodel.structures._index cimport Index, modulo, set_of
from rdmodel.structures._lru cimport (
    NONE, Link, Recency, recency_enter, recency_init, recency_leave, recency_push, recency_remove, recency_reuse,
    recency_touch,
)
from rdmodel.structures._memory cimport grow, grow_aligned
from rdmodel.structures._pool cimport MAX_POOLS, Pool, pool_init, pool_of, pool_pass, pool_set

# Flags of a line.
cdef enum:
    VALID = 1         # it owns a way, and its data are there
    RESERVED = 2      # it owns a way, and its data are not there
    DIRTY = 4
    IN_SHADOW = 8     # among the most recent lines of the fully associative shadow
    MISSED = 16       # it has missed before
    GHOST = 32        # it owns a way as a tag without data, in a closed cache
    LOOSE = 64        # it does not reserve its way while sectors are in flight
    LOST = 128        # another line has replaced it before, and some policy wants to know


cdef struct CacheLine:
    # 64 bytes, of one line of the processor's caches.
    Link in_set
    Link in_shadow
    int64_t line
    int64_t set
    int64_t block         # the warp that brought it: block of the grid, and warp of the block
    int32_t mshr          # NONE: not in flight
    int16_t warp
    int16_t flags


cdef struct Note:
    # Data of policies about a line.
    int64_t used          # `accesses` of the set when the line was last touched or, if `aging`, got its way
    int64_t uses          # load transactions that brought or found it since it was brought
    int64_t mark          # abyp: the counter of the load that brought it; apcm: its protection; or NONE
    int64_t owner         # apcm: the warp slot that protects it
    int64_t pc            # of the load that brought it; NONE: a store did
    uint64_t[2] data      # of plug-ins
    int64_t heat          # g-cache: of a line with a way; 0: it is cold


cdef inline void note_store(Note* n) noexcept nogil:
    # A store brings the line.
    n.uses = 0
    n.mark = n.pc = NONE
    n.data[0] = n.data[1] = 0
    n.heat = 0


cdef struct SectorMasks:
    # Sectors of a line; the first four hold while it owns a way.
    uint32_t valid        # their data are there
    uint32_t pending      # they are in flight
    uint32_t written      # written in place; in the L2, to be written back
    uint32_t cleaned      # in the L2: written, and written back while the line stayed
    uint32_t asked        # loads have asked for them
    uint32_t held         # they are in the shadow, if the line is


cdef struct Spread:
    # The hash of rdmodel.gpu.l2_layout.
    int64_t slices, sets
    int64_t bits, odd     # 0 bits: no hash


cdef struct Cache:
    LineTable table
    CacheLine* line       # `known` of them, in `line_memory`
    void* line_memory
    Note* note            # of each line, if `noted`
    bint noted
    SectorMasks* sector   # of each line, if `sectored`
    bint sectored
    int32_t* flight       # the MSHR of each sector in flight, 2^`sector_bits` for a line, if `flying`
    bint flying
    int64_t sector_bits
    uint64_t* readers     # of each line, `reader_words` words with a victim bit for each group of SMs
    int64_t reader_words
    int64_t known, capacity
    Recency* set          # lines that own a way, most recent first
    int64_t* waiting      # those of each set that are RESERVED
    int64_t* accesses     # loads served in each set or, if `pooled`, in all; NULL unless a policy needs them
    bint pooled, aging
    int64_t sets, ways
    int64_t protected     # lines of a set that leave last, if they were used again
    Pool pool             # of data, if the ways are tags alone
    Index index
    int64_t interleave    # number of caches that lines are dealt to; a line's number in this one is line / interleave
    Spread spread         # of the hash that deals them, if there is one
    Recency shadow
    int64_t shadow_lines


# ---- the cache

cdef inline int cache_init(Cache* c, int64_t sets, int64_t ways, int64_t shadow_lines) noexcept nogil:
    # Each way has data of its own, and no line is protected, unless the caller sets `pool` and `protected`. `index` and
    # `interleave` are the caller's to set. -1: out of memory.
    cdef int64_t i
    pool_init(&c.pool, 0, 1, sets)
    c.protected = 0
    c.sets = sets
    c.ways = ways
    c.shadow_lines = shadow_lines
    c.line = NULL
    c.line_memory = NULL
    c.note = NULL
    c.sector = NULL
    c.flight = NULL
    c.readers = NULL
    c.reader_words = 0
    c.known = c.capacity = 0
    recency_init(&c.shadow)
    c.set = <Recency*> malloc(<size_t> sets * sizeof(Recency))
    c.waiting = <int64_t*> calloc(<size_t> sets, sizeof(int64_t))
    if c.set == NULL or c.waiting == NULL:
        return -1
    for i in range(sets):
        recency_init(&c.set[i])
    return table_init(&c.table, 1024)


cdef inline void cache_free(Cache* c) noexcept nogil:
    free(c.line_memory)
    free(c.note)
    free(c.sector)
    free(c.flight)
    free(c.readers)
    free(c.set)
    free(c.waiting)
    free(c.accesses)
    table_free(&c.table)
    c.line = NULL
    c.line_memory = NULL
    c.note = NULL
    c.set = NULL
    c.waiting = NULL


cdef inline int cache_make_room(Cache* c) noexcept nogil:
    # Room for the records of all lines that the table knows; -1: out of memory.
    cdef int64_t capacity
    if c.table.count <= c.capacity:
        return 0
    capacity = 2 * c.table.count
    if c.noted:
        if grow(<void**> &c.note, capacity, sizeof(Note)) < 0:
            return -1
    if c.sectored and grow(<void**> &c.sector, capacity, sizeof(SectorMasks)) < 0:
        return -1
    if c.flying and grow(<void**> &c.flight, capacity << c.sector_bits, sizeof(int32_t)) < 0:
        return -1
    if c.reader_words and grow(<void**> &c.readers, capacity * c.reader_words, sizeof(uint64_t)) < 0:
        return -1
    if grow_aligned(&c.line_memory, <void**> &c.line, c.known, capacity, sizeof(CacheLine)) < 0:
        return -1
    c.capacity = capacity
    return 0


cdef inline int64_t deal_number(int64_t line, int64_t dealt) noexcept nogil:
    # Return the number of a line in the cache that it is dealt to, one of `dealt`: line / dealt, rounded down.
    cdef int64_t number
    if dealt == 1:
        return line
    number = line // dealt
    return number - 1 if number * dealt > line else number


cdef inline int64_t unit_of(const Spread* s, int64_t line) noexcept nogil:
    # Return the unit of a line, hashed: its slice is unit mod slices, its set unit / slices.
    cdef uint64_t rest = <uint64_t> line, low = (<uint64_t> 1 << s.bits) - 1, fold = 0
    while rest != 0:
        fold ^= rest & low
        rest >>= s.bits
    return (modulo(line >> s.bits, s.odd) << s.bits) + <int64_t> fold


cdef inline int64_t number_of(const Spread* s, int64_t line) noexcept nogil:
    # Return the number of a line among those of its slice.
    cdef int64_t units = s.slices * s.sets
    if s.bits == 0:
        return deal_number(line, s.slices)
    return deal_number(line, units) * s.sets + unit_of(s, line) // s.slices


cdef inline int cache_learn(Cache* c, int64_t line) noexcept nogil:
    # Set up the record of the line that has got the next number; -1: out of memory.
    cdef CacheLine* l
    if cache_make_room(c) < 0:
        return -1
    l = &c.line[c.known]
    l.line = line
    if c.spread.bits:
        l.set = unit_of(&c.spread, line) // c.spread.slices
    else:
        l.set = set_of(&c.index, deal_number(line, c.interleave))
    l.mshr = NONE
    l.block = l.warp = NONE
    l.flags = 0
    if c.noted:
        c.note[c.known] = Note(0, 0, NONE, NONE, NONE, [0, 0], 0)
    if c.sectored:
        c.sector[c.known] = SectorMasks(0, 0, 0, 0, 0, 0)
    c.known += 1
    return 0


cdef inline int cache_intern(Cache* c, const int64_t* lines, int64_t n, int64_t* ids) noexcept nogil:
    # Number lines, and set up the records of new ones; -1: out of memory.
    cdef int64_t i
    if table_intern_many(&c.table, lines, n, ids) < 0:
        return -1
    if c.table.count == c.known:
        return 0
    for i in range(n):
        if ids[i] == c.known and cache_learn(c, lines[i]) < 0:
            return -1
    return 0


cdef inline int cache_intern_one(Cache* c, int64_t line, int64_t* id) noexcept nogil:
    # As `cache_intern`, for one line, without a call of another module.
    id[0] = table_intern(&c.table, line)
    return -1 if id[0] < 0 or id[0] == c.known and cache_learn(c, line) < 0 else 0


# The records of a large grid exceed the processor's caches. Those that are needed soon are fetched before.

cdef inline void cache_expect(Cache* c, int64_t line) noexcept nogil:
    # Fetch the place of a line in the table.
    prefetch(c.table.slots + table_home(&c.table, line))


cdef inline void cache_fetch(const Cache* c, int64_t id) noexcept nogil:
    # Fetch the records of a line.
    prefetch(&c.line[id])
    if c.sectored:
        prefetch(&c.sector[id])


cdef inline void cache_fetch_victim(const Cache* c, int64_t id) noexcept nogil:
    # Fetch the records of the oldest line in the set of a line.
    cdef int64_t oldest = c.set[c.line[id].set].oldest
    if oldest != NONE:
        cache_fetch(c, oldest)


cdef inline int64_t* cache_accesses(const Cache* c, int64_t set) noexcept nogil:
    # The counter of the loads that were served in a set, or in all.
    return c.accesses + (0 if c.pooled else set)


cdef inline uint64_t* cache_readers(const Cache* c, int64_t id) noexcept nogil:
    # The victim bits of a line, which mean nothing until it has got a way.
    return c.readers + id * c.reader_words


cdef inline void cache_touch(Cache* c, int64_t id) noexcept nogil:
    # Make a line that owns a way the most recent of its set.
    if c.accesses != NULL and not c.aging:
        c.note[id].used = cache_accesses(c, c.line[id].set)[0]
    recency_reuse(&c.set[c.line[id].set], &c.line[0].in_set, id, sizeof(CacheLine), c.protected)


cdef inline void cache_drop(Cache* c, int64_t id) noexcept nogil:
    # Take its way from a line.
    recency_leave(&c.set[c.line[id].set], &c.line[0].in_set, id, sizeof(CacheLine))
    c.waiting[c.line[id].set] -= c.line[id].flags & RESERVED != 0
    c.line[id].flags &= ~(VALID | RESERVED | DIRTY | GHOST)
    c.pool.used[pool_of(&c.pool, c.line[id].set)] -= 1


cdef inline void cache_replace(Cache* c, int64_t victim, int64_t id) noexcept nogil:
    # Take its way from a line, or its data alone, for a line that needs them.
    if c.pool.lines and c.set[c.line[id].set].size < c.ways:
        pool_pass(&c.pool, c.line[victim].set)
    cache_drop(c, victim)


cdef inline void cache_drop_ghosts(Cache* c) noexcept nogil:
    # Drop the lines that are tags without data.
    cdef int64_t set, id, older
    for set in range(c.sets):
        id = c.set[set].newest
        while id != NONE:
            older = c.line[id].in_set.older
            if c.line[id].flags & GHOST:
                cache_drop(c, id)
            id = older


cdef inline bint cache_open_or_close(
    Cache* c, bint* closed, int64_t* looked, int64_t* not_found, double most_missing, bint stays_open
) noexcept nogil:
    # At the end of a period, close the cache if more than a share of the look-ups found nothing, unless it stays
    # open; else open it. Begin to count again, and return whether the cache was closed or opened.
    cdef bint before = closed[0]
    if looked[0] > 0:
        closed[0] = <double> not_found[0] / <double> looked[0] > most_missing and not stays_open
        if before and not closed[0]:
            cache_drop_ghosts(c)
    looked[0] = not_found[0] = 0
    return closed[0] != before


cdef inline int64_t cache_oldest(const Cache* c, int64_t set) noexcept nogil:
    # Return the line of a set that leaves first among those that do not wait for data; NONE: there is none.
    cdef int64_t id = c.set[set].oldest
    if c.waiting[set] == c.set[set].size:
        return NONE
    while id != NONE and c.line[id].flags & RESERVED:
        id = c.line[id].in_set.newer
    return id


cdef inline bint cache_victim(const Cache* c, int64_t set, int64_t* victim) noexcept nogil:
    # Whether a line of the set can get a way; `victim`: the line that would lose its own, NONE if one is empty.
    cdef int64_t pool = pool_of(&c.pool, set), later = 0
    victim[0] = NONE
    if c.set[set].size < c.ways:
        if c.pool.lines == 0 or c.pool.used[pool] < c.pool.lines:
            return True
        while victim[0] == NONE and later < c.pool.sets:
            victim[0] = cache_oldest(c, pool_set(&c.pool, pool, later))
            later += 1
        return victim[0] != NONE
    victim[0] = cache_oldest(c, set)
    return victim[0] != NONE


cdef inline void cache_give(Cache* c, int64_t id, int64_t flags) noexcept nogil:
    # Give an empty way to a line, which becomes the most recent of its set, or of those that are not protected.
    recency_enter(&c.set[c.line[id].set], &c.line[0].in_set, id, sizeof(CacheLine))
    c.line[id].flags |= flags
    c.waiting[c.line[id].set] += flags & RESERVED != 0
    c.pool.used[pool_of(&c.pool, c.line[id].set)] += 1
    if c.accesses != NULL:
        c.note[id].used = cache_accesses(c, c.line[id].set)[0]


cdef inline void cache_wait(Cache* c, int64_t id) noexcept nogil:
    # Let a line with a way wait for data.
    cdef CacheLine* l = &c.line[id]
    c.waiting[l.set] += l.flags & RESERVED == 0
    l.flags = (l.flags & ~VALID) | RESERVED


cdef inline void cache_complete(Cache* c, int64_t id) noexcept nogil:
    # Let a line have all data that it waited for.
    cdef CacheLine* l = &c.line[id]
    c.waiting[l.set] -= l.flags & RESERVED != 0
    l.flags = (l.flags & ~RESERVED) | VALID


cdef inline void shadow_raise(Cache* c, int64_t id) noexcept nogil:
    # Move a line to the top of the fully associative shadow.
    cdef int64_t old
    if c.line[id].flags & IN_SHADOW:
        recency_touch(&c.shadow, &c.line[0].in_shadow, id, sizeof(CacheLine))
        return
    if c.shadow.size == c.shadow_lines:
        old = c.shadow.oldest
        recency_remove(&c.shadow, &c.line[0].in_shadow, old, sizeof(CacheLine))
        c.line[old].flags &= ~IN_SHADOW
    recency_push(&c.shadow, &c.line[0].in_shadow, id, sizeof(CacheLine))
    c.line[id].flags |= IN_SHADOW


cdef inline list cache_violations(const Cache* c, int64_t* reserved):
    """Walk through all sets; count the reserved lines on the way."""
    cdef int64_t set, id, owned, waiting, pool, pools = c.sets // c.pool.sets
    cdef int64_t[MAX_POOLS] all
    cdef const CacheLine* l
    cdef bint in_flight
    wrong = []
    for pool in range(pools):
        all[pool] = 0
    for set in range(c.sets):
        owned = waiting = 0
        id = c.set[set].newest
        while id != NONE:
            l = &c.line[id]
            owned += 1
            waiting += l.flags & RESERVED != 0
            if l.set != set or (l.flags & VALID != 0) == (l.flags & RESERVED != 0):
                wrong.append(f"line {l.line} is in set {set} and should not be")
            in_flight = c.sector[id].pending != 0 if c.sectored else l.mshr != NONE
            if c.sectored and c.sector[id].pending & c.sector[id].valid:
                wrong.append(f"line {l.line} has sectors that are valid and in flight")
            if not l.flags & LOOSE and (l.flags & RESERVED != 0) != in_flight:
                wrong.append(f"line {l.line} is reserved without an MSHR, or has one and is not")
            id = l.in_set.older
        if owned != c.set[set].size or owned > c.ways:
            wrong.append(f"set {set} owns {owned} ways, counts {c.set[set].size} and has {c.ways}")
        reserved[0] += waiting
        if waiting != c.waiting[set]:
            wrong.append(f"{waiting} lines of set {set} wait for data, {c.waiting[set]} are counted")
        if c.set[set].kept > c.protected or c.set[set].kept > owned:
            wrong.append(f"set {set} protects {c.set[set].kept} of {owned} lines, and may protect {c.protected}")
        all[pool_of(&c.pool, set)] += owned
    for pool in range(pools):
        if all[pool] != c.pool.used[pool] or 0 < c.pool.lines < all[pool]:
            wrong.append(f"{all[pool]} lines own ways, {c.pool.used[pool]} are counted, {c.pool.lines} have data")
    return wrong
