# Each set is an array of its lines, the most recently used one first. No set has more lines than ways, so memory does
# not grow with the number of requests. docs/model.md sections 12 and 14 define the rules, and rdmodel.reference.model.l2 is
# their readable form.
"""Serve requests in the L2 of the analytical model: one object for all SMs."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memmove

from rdmodel._tree cimport popcount
from rdmodel.structures._index cimport modulo


cdef struct Way:
    int64_t line
    bint dirty


cdef class SharedCache:
    """A cache of `sets` sets with `ways` lines each and LRU replacement; a line is in set line mod `sets`."""

    cdef Way* way                     # [sets x ways]
    cdef int64_t* lines_in            # [sets] number of lines in each set
    cdef int64_t sets, ways
    cdef readonly int64_t reads, hits, writes, write_hits, write_backs

    def __init__(self, *, int64_t sets, int64_t ways):
        assert self.way == NULL, "a cache is set up once"
        self.sets = sets
        self.ways = ways
        self.way = <Way*> calloc(<size_t> sets, <size_t> ways * sizeof(Way))
        self.lines_in = <int64_t*> calloc(<size_t> sets, sizeof(int64_t))
        if self.way == NULL or self.lines_in == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.way)
        free(self.lines_in)

    def request(self, const int64_t[::1] lines, const uint8_t[::1] writes):
        """Serve requests in order; `writes` is not 0 where a line is written."""
        cdef int64_t i
        assert lines.shape[0] == writes.shape[0]
        with nogil:
            for i in range(lines.shape[0]):
                self._request(lines[i], writes[i] != 0)

    def dirty(self):
        """Return the number of dirty lines in the cache."""
        cdef int64_t set, i, count = 0
        for set in range(self.sets):
            for i in range(self.lines_in[set]):
                count += self.way[set * self.ways + i].dirty
        return count

    cdef void _request(self, int64_t line, bint write) noexcept nogil:
        cdef int64_t set = modulo(line, self.sets)
        cdef Way* way = self.way + set * self.ways
        cdef int64_t i = 0, size = self.lines_in[set]
        cdef bint hit, dirty = write
        while i < size and way[i].line != line:
            i += 1
        hit = i < size
        if hit:
            dirty = write or way[i].dirty
        elif size < self.ways:
            self.lines_in[set] += 1
        else:
            i = size - 1
            self.write_backs += way[i].dirty
        if write:
            self.writes += 1
            self.write_hits += hit
        else:
            self.reads += 1
            self.hits += hit
        memmove(way + 1, way, <size_t> i * sizeof(Way))
        way[0] = Way(line, dirty)


cdef struct SectorWay:
    int64_t line
    uint32_t valid        # sectors that can be read
    uint32_t dirty        # sectors to be written back


cdef class SectoredCache:
    """A cache whose lines have sectors: `partitions` of `units` / `partitions` sets with `ways` lines each, and LRU.

    A read that misses fetches granules of `fetch` sectors. With `hashed`, lines are spread over the units by all bits.
    """

    cdef SectorWay* way               # [partitions x sets x ways]
    cdef int64_t* lines_in            # [partitions x sets] number of lines in each set
    cdef int64_t units, partitions, sets, ways, fetch, bits
    cdef bint hashed
    cdef readonly int64_t reads, hits, writes, write_hits, write_backs, dram_read_sectors, partition_sectors

    def __init__(self, *, int64_t units, int64_t partitions, int64_t ways, int64_t fetch, bint hashed):
        assert self.way == NULL, "a cache is set up once"
        assert units % partitions == 0 and 1 <= fetch <= 32
        self.units, self.partitions, self.ways, self.fetch, self.hashed = units, partitions, ways, fetch, hashed
        self.sets = units // partitions
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
        const uint8_t[::1] writes, const int64_t[::1] sides,
    ):
        """Serve requests in order; `writes` is not 0 where sectors are written, `full` of them in every byte.

        `sides` are the partitions of the SMs that they come from.
        """
        cdef int64_t i
        assert lines.shape[0] == sectors.shape[0] == full.shape[0] == writes.shape[0] == sides.shape[0]
        with nogil:
            for i in range(lines.shape[0]):
                if writes[i]:
                    self._write(lines[i], sectors[i], full[i], sides[i])
                else:
                    self._read(lines[i], sectors[i], sides[i])

    def dirty(self):
        """Return the number of dirty sectors in the cache."""
        cdef int64_t set, i, count = 0
        for set in range(self.units):
            for i in range(self.lines_in[set]):
                count += popcount(self.way[set * self.ways + i].dirty)
        return count

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
        cdef SectorWay found = SectorWay(line, 0, 0)
        if i < self.lines_in[set]:
            found = way[i]
        elif i < self.ways:
            self.lines_in[set] += 1
        else:
            i -= 1
            self.write_backs += popcount(way[i].dirty)
        memmove(way + 1, way, <size_t> i * sizeof(SectorWay))
        way[0] = found
        return way

    cdef void _read(self, int64_t line, uint32_t asked, int64_t side) noexcept nogil:
        """Read sectors from an SM on one side; what comes from the home of the line is kept on this side as well."""
        cdef int64_t unit = self._unit_of(line), home = unit % self.partitions, set = unit // self.partitions, first = 0
        cdef uint32_t wanted = asked, granule
        cdef SectorWay* way
        self.reads += popcount(asked)
        if side != home:
            way = self._use(side * self.sets + set, line)
            wanted &= ~way.valid
            way.valid |= wanted
            self.partition_sectors += popcount(wanted)
        if wanted:
            way = self._use(home * self.sets + set, line)
            while first < 32:
                granule = <uint32_t> (((<uint64_t> 1 << self.fetch) - 1) << first)
                if wanted & ~way.valid & granule:
                    self.hits -= popcount(wanted & ~way.valid & granule)
                    self.dram_read_sectors += self.fetch
                    way.valid |= granule
                first += self.fetch
        self.hits += popcount(asked)

    cdef void _write(self, int64_t line, uint32_t asked, uint32_t full, int64_t side) noexcept nogil:
        """Write sectors at the home of their line, without a fetch; other sides lose their copies of these sectors."""
        cdef int64_t unit = self._unit_of(line), home = unit % self.partitions, set = unit // self.partitions
        cdef int64_t other, place, count = popcount(asked)
        cdef SectorWay* way
        self.writes += count
        if side != home:
            self.partition_sectors += count
        way = self._use(home * self.sets + set, line)
        self.write_hits += popcount(asked & (way.valid | way.dirty))
        way.dirty |= asked
        way.valid |= full
        for other in range(self.partitions):
            if other != home:
                place = self._find(other * self.sets + set, line)
                if place < self.lines_in[other * self.sets + set]:
                    self.way[(other * self.sets + set) * self.ways + place].valid &= ~asked
