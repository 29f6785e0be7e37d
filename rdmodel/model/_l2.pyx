# Each set is an array of its lines, the most recently used one first. No set has more lines than ways, so memory does
# not grow with the number of requests. docs/model.md section 12 defines the rules, and rdmodel.reference.model.l2 is
# their readable form.
"""Serve requests in the L2 of the analytical model: one object for all SMs."""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memmove

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
