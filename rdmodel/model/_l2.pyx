# The sets of the model's L2: in each the lines that it holds, the most recently used one first. No set holds more than
# its ways, so memory does not grow with what is requested. docs/model.md section 12 has the rules,
# rdmodel.reference.model.l2 is their readable form.
"""The L2 of the analytical model: one object for all SMs."""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memmove

from rdmodel.structures._index cimport modulo


cdef struct Way:
    int64_t line
    bint dirty


cdef class SharedCache:
    """Sets of `ways` lines, with the least recently used one replaced; a line is in the set line mod `sets`."""

    cdef Way* way                     # [sets x ways]
    cdef int64_t* held                # [sets] lines
    cdef int64_t sets, ways
    cdef readonly int64_t reads, hits, writes, write_hits, write_backs

    def __init__(self, *, int64_t sets, int64_t ways):
        assert self.way == NULL, "a cache is set up once"
        self.sets = sets
        self.ways = ways
        self.way = <Way*> calloc(<size_t> sets, <size_t> ways * sizeof(Way))
        self.held = <int64_t*> calloc(<size_t> sets, sizeof(int64_t))
        if self.way == NULL or self.held == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.way)
        free(self.held)

    def request(self, const int64_t[::1] lines, const uint8_t[::1] writes):
        """Serve requests, one after the other; `writes`: not 0 where a line is written."""
        cdef int64_t i
        assert lines.shape[0] == writes.shape[0]
        with nogil:
            for i in range(lines.shape[0]):
                self._request(lines[i], writes[i] != 0)

    def dirty(self):
        """Return how many of the lines that are held are dirty."""
        cdef int64_t set, i, count = 0
        for set in range(self.sets):
            for i in range(self.held[set]):
                count += self.way[set * self.ways + i].dirty
        return count

    cdef void _request(self, int64_t line, bint write) noexcept nogil:
        cdef int64_t set = modulo(line, self.sets)
        cdef Way* way = self.way + set * self.ways
        cdef int64_t i = 0, held = self.held[set]
        cdef bint found, dirty = write
        while i < held and way[i].line != line:
            i += 1
        found = i < held
        if found:
            dirty = write or way[i].dirty
        elif held < self.ways:
            self.held[set] += 1
        else:
            i = held - 1
            self.write_backs += way[i].dirty
        if write:
            self.writes += 1
            self.write_hits += found
        else:
            self.reads += 1
            self.hits += found
        memmove(way + 1, way, <size_t> i * sizeof(Way))
        way[0] = Way(line, dirty)
