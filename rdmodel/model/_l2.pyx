# Each set is an array of its lines, the most recently used one first. No set has more lines than ways, so memory does
# not grow with the number of requests. docs/model.md sections 12 and 14 define the rules, and rdmodel.reference.model.l2 is
# their readable form.
"""Serve requests in the L2 of the analytical model: one object for all SMs."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memmove

from rdmodel._tree cimport popcount
from rdmodel.model._warp cimport OP_ATOMIC, READS, UPDATES, WRITES
from rdmodel.structures._index cimport modulo


cdef class CountedCache:
    """Base of both caches: counters by period, where that of a request is its kind without the lowest two bits."""

    def __cinit__(self):
        self.now = &self.counted[0]

    def counts(self, int period):
        """Return the counters of the requests of a period, by name."""
        assert 0 <= period < PERIODS
        return self.counted[period]

    cdef void _begin(self, uint8_t kind) noexcept nogil:
        self.now = &self.counted[(kind >> 2) % PERIODS]


cdef class SharedCache(CountedCache):
    """A cache of `sets` sets with `ways` lines each and LRU replacement; a line is in set line mod `sets`.

    At most `dirty_ways` lines of a set are dirty: the least recently used of them is cleaned before one more is (-1: no
    limit).
    """

    def __init__(self, *, int64_t sets, int64_t ways, int64_t dirty_ways=-1):
        assert self.way == NULL, "a cache is set up once"
        self.dirty_ways = dirty_ways
        self.sets = sets
        self.ways = ways
        self.empty = sets * ways
        self.way = <Way*> calloc(<size_t> sets, <size_t> ways * sizeof(Way))
        self.lines_in = <int64_t*> calloc(<size_t> sets, sizeof(int64_t))
        if self.way == NULL or self.lines_in == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.way)
        free(self.lines_in)

    def request(self, const int64_t[::1] lines, const uint8_t[::1] kinds):
        """Serve requests in order: reads (0), writes (1) and atomics (3)."""
        cdef int64_t i
        assert lines.shape[0] == kinds.shape[0]
        with nogil:
            for i in range(lines.shape[0]):
                self._request(lines[i], kinds[i])

    def dirty(self):
        """Return the number of dirty lines in the cache."""
        cdef int64_t set, i, count = 0
        for set in range(self.sets):
            for i in range(self.lines_in[set]):
                count += self.way[set * self.ways + i].dirty
        return count

    cdef void _request(self, int64_t line, uint8_t kind) noexcept nogil:
        """Serve a request of a kind and its period."""
        cdef int64_t set = modulo(line, self.sets)
        cdef Way* way = self.way + set * self.ways
        cdef int64_t i = 0, size = self.lines_in[set]
        cdef bint write = kind & WRITES != 0, fetches = kind & UPDATES != WRITES
        cdef bint hit, dirty = write, cold = size < self.ways
        self._begin(kind)
        while i < size and way[i].line != line:
            i += 1
        hit = i < size
        if hit:
            dirty = write or way[i].dirty
            self.now.old_hits += way[i].old and not write
        elif size < self.ways:
            self.lines_in[set] += 1
            self.empty -= 1
        else:
            i = size - 1
            self.now.write_backs += way[i].dirty
        if write:
            self.now.writes += 1
            self.now.updates += fetches
            self.now.write_hits += hit
            self.now.dirtied += not (hit and way[i].dirty)
        else:
            self.now.reads += 1
            self.now.hits += hit
        self.now.dram_read_sectors += fetches and not hit
        self.now.atomic_sectors += fetches and write and not hit
        self.now.cold += fetches and cold and not hit
        memmove(way + 1, way, <size_t> i * sizeof(Way))
        way[0] = Way(line, dirty, False)
        if write and self.dirty_ways >= 0:
            self._limit_dirty_lines(set)

    cdef void _limit_dirty_lines(self, int64_t set) noexcept nogil:
        """Clean the least recently used dirty line of a set if too many of its lines are dirty."""
        cdef Way* way = self.way + set * self.ways
        cdef int64_t i, oldest = 0, count = 0
        for i in range(self.lines_in[set]):
            if way[i].dirty:
                oldest = i
                count += 1
        if count > self.dirty_ways:
            way[oldest].dirty = False
            self.now.write_backs += 1

    cdef void _add_old(self, int64_t line, bint write) noexcept nogil:
        """Add an absent line behind all others of its set, if that has an empty way; it is clean beyond the limit."""
        cdef int64_t set = modulo(line, self.sets), i = 0, size = self.lines_in[set], count = 0
        cdef Way* way = self.way + set * self.ways
        if size == self.ways:
            return
        while i < size and way[i].line != line:
            count += way[i].dirty
            i += 1
        if i == size:
            way[i] = Way(line, write and (self.dirty_ways < 0 or count < self.dirty_ways), True)
            self.lines_in[set] += 1
            self.empty -= 1


cdef class SectoredCache(CountedCache):
    """A cache whose lines have sectors: `partitions` of `units` / `partitions` sets with `ways` lines each, and LRU.

    A read that misses fetches granules of `fetch` sectors. With `hashed`, lines are spread over the units by all bits.
    `dirty_ways` is that of `SharedCache`.
    """

    def __init__(
        self, *, int64_t units, int64_t partitions, int64_t ways, int64_t fetch, bint hashed, int64_t dirty_ways=-1,
    ):
        assert self.way == NULL, "a cache is set up once"
        assert units % partitions == 0 and 1 <= fetch <= 32
        self.units, self.partitions, self.ways, self.fetch, self.hashed = units, partitions, ways, fetch, hashed
        self.dirty_ways = dirty_ways
        self.sets = units // partitions
        self.empty = units * ways
        while not (units >> self.bits) & 1:
            self.bits += 1
        self.way = <SectorWay*> calloc(<size_t> units, <size_t> ways * sizeof(SectorWay))
        self.lines_in = <int64_t*> calloc(<size_t> units, sizeof(int64_t))
        if self.way == NULL or self.lines_in == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.way)
        free(self.lines_in)

    def request(
        self, const int64_t[::1] lines, const uint32_t[::1] sectors, const uint32_t[::1] full,
        const uint8_t[::1] kinds, const int64_t[::1] sides,
    ):
        """Serve requests in order: reads (0), writes (1) and atomics (3), which write `full` sectors in every byte.

        `sides` are the partitions of the SMs that they come from.
        """
        cdef int64_t i
        assert lines.shape[0] == sectors.shape[0] == full.shape[0] == kinds.shape[0] == sides.shape[0]
        with nogil:
            for i in range(lines.shape[0]):
                self._request(lines[i], sectors[i], full[i], kinds[i], sides[i])

    def dirty(self):
        """Return the number of dirty sectors in the cache."""
        cdef int64_t set, i, count = 0
        for set in range(self.units):
            for i in range(self.lines_in[set]):
                count += popcount(self.way[set * self.ways + i].dirty)
        return count

    cdef void _request(self, int64_t line, uint32_t asked, uint32_t full, uint8_t kind, int64_t side) noexcept nogil:
        """Serve a request of a kind and its period."""
        self._begin(kind)
        if kind & WRITES:
            self._write(line, asked, full, kind & UPDATES == UPDATES, side)
        else:
            self._read(line, asked, side)

    cdef int64_t _unit_of(self, int64_t line) noexcept nogil:
        """Return the number of a line's home and set: xor of all groups of `bits` bits, and the rest modulo odd."""
        cdef uint64_t rest = <uint64_t> line, low = 0, mask = (<uint64_t> 1 << self.bits) - 1
        if not self.hashed:
            return modulo(line, self.units)
        while rest != 0 and self.bits > 0:
            low ^= rest & mask
            rest >>= self.bits
        return (modulo(line >> self.bits, self.units >> self.bits) << self.bits) + <int64_t> low

    cdef int64_t _find(self, int64_t set, int64_t line) noexcept nogil:
        """Return the place of a line among those of its set; their number if it is absent."""
        cdef const SectorWay* way = self.way + set * self.ways
        cdef int64_t i = 0, size = self.lines_in[set]
        while i < size and way[i].line != line:
            i += 1
        return i

    cdef SectorWay* _use(self, int64_t set, int64_t line) noexcept nogil:
        """Return a line of a set after making it the most recent one; an absent line takes a way."""
        cdef SectorWay* way = self.way + set * self.ways
        cdef int64_t i = self._find(set, line)
        cdef SectorWay found = SectorWay(line, 0, 0, 0, 0)
        if i < self.lines_in[set]:
            found = way[i]
        elif i < self.ways:
            self.lines_in[set] += 1
            self.empty -= 1
        else:
            i -= 1
            self.now.write_backs += popcount(way[i].dirty)
        memmove(way + 1, way, <size_t> i * sizeof(SectorWay))
        way[0] = found
        return way

    cdef void _age(self, SectorWay* way, uint32_t asked) noexcept nogil:
        """Count reads of old sectors, which are not old any more."""
        if way.old & asked:
            self.now.old_hits += popcount(way.old & way.valid & asked)
            way.old &= ~asked

    cdef void _add_old(
        self, int64_t line, uint32_t asked, uint32_t full, uint8_t kind, int64_t side
    ) noexcept nogil:
        """Add sectors that were used before all others, where their line is in the cache or its set has an empty way."""
        cdef int64_t unit = self._unit_of(line), home = unit % self.partitions, set = unit // self.partitions
        if kind & WRITES:
            self._add_sectors(
                home * self.sets + set, line, self._granules(asked) if kind == UPDATES else full, asked
            )
            return
        self._add_sectors(home * self.sets + set, line, self._granules(asked), 0)
        if side != home:
            self._add_sectors(side * self.sets + set, line, asked, 0)

    cdef void _add_sectors(self, int64_t set, int64_t line, uint32_t valid, uint32_t dirty) noexcept nogil:
        cdef SectorWay* way = self.way + set * self.ways
        cdef int64_t i = self._find(set, line)
        if i == self.lines_in[set]:
            if i == self.ways:
                return
            way[i] = SectorWay(line, 0, 0, 0, 0)
            self.lines_in[set] += 1
            self.empty -= 1
        way[i].old |= valid & ~way[i].valid
        way[i].valid |= valid
        if dirty and not way[i].dirty and 0 <= self.dirty_ways <= self._dirty_lines(set, NULL):
            way[i].cleaned |= dirty
        else:
            way[i].dirty |= dirty

    cdef int64_t _dirty_lines(self, int64_t set, int64_t* oldest) noexcept nogil:
        """Count the dirty lines of a set; `oldest`, unless NULL: the place of the least recently used one."""
        cdef const SectorWay* way = self.way + set * self.ways
        cdef int64_t i, count = 0
        for i in range(self.lines_in[set]):
            if way[i].dirty:
                count += 1
                if oldest != NULL:
                    oldest[0] = i
        return count

    cdef void _limit_dirty_lines(self, int64_t set) noexcept nogil:
        """Clean the least recently used dirty line of a set if too many of its lines are dirty."""
        cdef int64_t oldest = 0
        cdef SectorWay* way
        if self._dirty_lines(set, &oldest) > self.dirty_ways:
            way = self.way + set * self.ways + oldest
            self.now.write_backs += popcount(way.dirty)
            way.cleaned |= way.dirty
            way.dirty = 0

    cdef uint32_t _granules(self, uint32_t sectors) noexcept nogil:
        """Return all sectors that are fetched together with some."""
        cdef int64_t first = 0
        cdef uint32_t granule, found = 0
        while first < 32:
            granule = <uint32_t> (((<uint64_t> 1 << self.fetch) - 1) << first)
            if sectors & granule:
                found |= granule
            first += self.fetch
        return found

    cdef int64_t _fetch(self, SectorWay* way, uint32_t missing, bint cold) noexcept nogil:
        """Read missing sectors from the DRAM, with those that are fetched together with them; return their number."""
        cdef uint32_t granules = self._granules(missing)
        cdef int64_t count = popcount(granules)
        self.now.dram_read_sectors += count
        self.now.cold += count if cold else 0
        way.valid |= granules
        return count

    cdef void _read(self, int64_t line, uint32_t asked, int64_t side) noexcept nogil:
        """Read sectors from an SM on one side; what comes from the home of the line is kept on this side as well."""
        cdef int64_t unit = self._unit_of(line), home = unit % self.partitions, set = unit // self.partitions
        cdef uint32_t wanted = asked
        cdef bint cold
        cdef SectorWay* way
        self.now.reads += popcount(asked)
        if side != home:
            way = self._use(side * self.sets + set, line)
            wanted &= ~way.valid
            self._age(way, asked)
            way.valid |= wanted
            self.now.partition_sectors += popcount(wanted)
        if wanted:
            cold = self.lines_in[home * self.sets + set] < self.ways
            way = self._use(home * self.sets + set, line)
            self._age(way, wanted)
            if wanted & ~way.valid:
                self.now.hits -= popcount(wanted & ~way.valid)
                self._fetch(way, wanted & ~way.valid, cold)
        self.now.hits += popcount(asked)

    cdef void _write(self, int64_t line, uint32_t asked, uint32_t full, bint atomic, int64_t side) noexcept nogil:
        """Write sectors at the home of their line; other sides lose their copies of these sectors.

        An atomic fetches those that cannot be read; other writes fetch nothing.
        """
        cdef int64_t unit = self._unit_of(line), home = unit % self.partitions, set = unit // self.partitions
        cdef int64_t other, place, count = popcount(asked)
        cdef bint was_clean, cold = self.lines_in[home * self.sets + set] < self.ways
        cdef SectorWay* way
        self.now.writes += count
        self.now.updates += count if atomic else 0
        if side != home:
            self.now.partition_sectors += count
        way = self._use(home * self.sets + set, line)
        self.now.write_hits += popcount(asked & (way.valid | way.dirty | way.cleaned))
        self.now.dirtied += popcount(asked & ~way.dirty)
        if atomic and asked & ~way.valid:
            self.now.atomic_sectors += self._fetch(way, asked & ~way.valid, cold)
        was_clean = way.dirty == 0
        way.dirty |= asked
        way.valid |= full
        way.old &= ~asked
        if was_clean and self.dirty_ways >= 0:
            self._limit_dirty_lines(home * self.sets + set)
        for other in range(self.partitions):
            if other != home:
                place = self._find(other * self.sets + set, line)
                if place < self.lines_in[other * self.sets + set]:
                    self.way[(other * self.sets + set) * self.ways + place].valid &= ~asked


cdef struct Recent:
    int64_t line
    uint32_t read         # sectors that were read or written in full
    uint32_t written


cdef class Supply:
    """Buffers of instructions that are filled again and again; those with an `op` other than 0 write.

    Without `sectors` and `full` (both empty), lines are requested as a whole.
    """

    cdef const uint8_t[::1] op
    cdef const int32_t[::1] count
    cdef const int64_t[::1] lines
    cdef const uint32_t[::1] sectors, full

    def __init__(
        self, const uint8_t[::1] op, const int32_t[::1] count, const int64_t[::1] lines, const uint32_t[::1] sectors,
        const uint32_t[::1] full,
    ):
        self.op, self.count, self.lines, self.sectors, self.full = op, count, lines, sectors, full


cdef class Warmer:
    """Send the requests of SMs to an L2 without a model of time, to fill it.

    In place of an L1, each SM has a table of `entries` (a power of two) lines, one place per line. A request whose
    sectors the table has is not sent. `old` requests are from before all others: they only add what still has room.
    """

    cdef Recent* recent               # [sms x entries]
    cdef int64_t sms, entries
    cdef SharedCache plain
    cdef SectoredCache sectored
    cdef bint old

    def __init__(self, cache, *, int64_t sms, int64_t entries, bint old=False):
        cdef int64_t i
        assert self.recent == NULL and entries > 0 and entries & (entries - 1) == 0
        self.sms, self.entries, self.old = sms, entries, old
        self.plain = cache if isinstance(cache, SharedCache) else None
        self.sectored = None if isinstance(cache, SharedCache) else cache
        self.recent = <Recent*> calloc(<size_t> sms, <size_t> entries * sizeof(Recent))
        if self.recent == NULL:
            raise MemoryError
        for i in range(sms * entries):
            self.recent[i].line = -1

    def __dealloc__(self):
        free(self.recent)

    def empty_share(self):
        """Return the share of the L2's ways that have no line."""
        if self.plain is not None:
            return self.plain.empty / <double> (self.plain.sets * self.plain.ways)
        return self.sectored.empty / <double> (self.sectored.units * self.sectored.ways)

    def send(self, int64_t sm, int64_t side, Supply supply, int64_t n):
        """Send the transactions of the first `n` instructions in the buffers of a chunk."""
        cdef int64_t i, j, at = 0
        cdef const uint8_t[::1] op = supply.op
        cdef const int32_t[::1] count = supply.count
        cdef const int64_t[::1] lines = supply.lines
        cdef const uint32_t[::1] sectors = supply.sectors
        cdef const uint32_t[::1] full = supply.full
        cdef bint masked = sectors.shape[0] > 0
        assert 0 <= sm < self.sms and n <= op.shape[0] and n <= count.shape[0]
        with nogil:
            for i in range(n):
                for j in range(at, at + count[i]):
                    self._send(
                        sm, side, lines[j], sectors[j] if masked else 1, full[j] if masked else 1,
                        UPDATES if op[i] == OP_ATOMIC else WRITES if op[i] != 0 else READS,
                    )
                at += count[i]

    cdef void _send(
        self, int64_t sm, int64_t side, int64_t line, uint32_t asked, uint32_t full, uint8_t kind
    ) noexcept nogil:
        cdef bint write = kind & WRITES != 0
        cdef uint64_t place = (<uint64_t> line * <uint64_t> 0x9E3779B97F4A7C15) >> 32
        cdef Recent* r = &self.recent[sm * self.entries + <int64_t> (place & <uint64_t> (self.entries - 1))]
        if r.line != line:
            r[0] = Recent(line, 0, 0)
        if kind != UPDATES and not asked & ~(r.written if write else r.read):
            return
        if self.old:
            if self.plain is not None:
                self.plain._add_old(line, write)
            else:
                self.sectored._add_old(line, asked, full, kind, side)
        elif self.plain is not None:
            self.plain._request(line, kind)
        else:
            self.sectored._request(line, asked if write else asked & ~r.read, full, kind, side)
        if write:
            r.written |= asked
            r.read |= full
        else:
            r.read |= asked
