# Every access is checked here: an address is used only after it was found inside its array.
"""Translate device addresses to host pointers: arrays, shared memory of a block, local memory of its threads."""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

from tracegen.ptx.isa._code cimport *


@cython.final
cdef class Places:
    """Memory visible to one block: `local` (`local_bytes` per thread), `shared`, and the arrays set with `bind`."""

    def __init__(self, uint8_t[::1] local, int64_t local_bytes, uint8_t[::1] shared, int64_t shared_bytes):
        self.local, self.shared = local, shared
        self.local_bytes, self.shared_bytes = local_bytes, shared_bytes

    def bind(self, const uint64_t[::1] bases, const uint64_t[::1] sizes, const uint64_t[::1] hosts):
        """Set the arrays: device address, bytes and host address of at least one, in ascending order."""
        self.arrays = (bases, sizes, hosts)
        self.bases, self.bytes, self.hosts = &bases[0], &sizes[0], &hosts[0]
        self.buffers, self.last_buffer = bases.shape[0], 0

    def join(self, const uint64_t[::1] peers):
        """Make the shared memories of a cluster visible: their host addresses by rank."""
        self.cluster, self.peers, self.ranks = peers, &peers[0], peers.shape[0]

    cdef void clear(self) noexcept nogil:
        """Zero local and shared memory before the next block."""
        memset(&self.local[0], 0, <size_t>self.local.shape[0])
        memset(&self.shared[0], 0, <size_t>self.shared.shape[0])

    cdef bint locate(
        self, const Lanes* lanes, int64_t space, const uint64_t* place, int64_t size, bint hosts
    ) noexcept nogil:
        """Check the addresses of all lanes; at the first one outside, remember it and return False.

        With `hosts`, write the host pointers to `hosted`, too.
        """
        if space == GLOBAL or space == CONST:
            return self.locate_global(lanes, place, <uint64_t>size, hosts)
        if space == SHARED and self.ranks:
            return self.locate_in_cluster(lanes, place, size)
        if space == SHARED:
            return self.locate_own(lanes, &self.shared[0], self.shared_bytes, 0, place, size)
        return self.locate_own(lanes, &self.local[0], self.local_bytes, self.local_bytes, place, size)

    cdef bint locate_own(
        self, const Lanes* lanes, uint8_t* start, int64_t bytes, int64_t stride, const uint64_t* place, int64_t size
    ) noexcept nogil:
        """Locate addresses in memory of the block, or of its threads, `stride` bytes apart."""
        cdef int64_t i
        for i in range(lanes.n):
            if bytes < size or place[i] > <uint64_t>(bytes - size):
                return self.refuse(lanes.lane[i], place[i])
            self.hosted[i] = start + lanes.lane[i] * stride + place[i]
        return True

    cdef bint locate_in_cluster(self, const Lanes* lanes, const uint64_t* place, int64_t size) noexcept nogil:
        """Locate addresses in the shared memories of a cluster."""
        cdef int64_t i
        cdef uint64_t rank, offset
        for i in range(lanes.n):
            rank, offset = place[i] >> RANK_BITS, place[i] & ((<uint64_t>1 << RANK_BITS) - 1)
            if rank >= <uint64_t>self.ranks or self.shared_bytes < size or offset > <uint64_t>(self.shared_bytes - size):
                return self.refuse(lanes.lane[i], place[i])
            self.hosted[i] = <uint8_t*>self.peers[rank] + offset
        return True

    cdef bint locate_global(
        self, const Lanes* lanes, const uint64_t* place, uint64_t size, bint hosts
    ) noexcept nogil:
        """Locate addresses in arrays; most often one array has them all."""
        cdef int64_t i
        cdef uint64_t base, last, host, outside = 0
        if lanes.n == 0:
            return True
        if not self.find(place[0], size):
            return self.refuse(lanes.lane[0], place[0])
        base = self.bases[self.last_buffer]
        last = self.bytes[self.last_buffer] - size
        host = self.hosts[self.last_buffer] - base
        # The highest bit is set if an address lies before the array or beyond its last element; without branches, the
        # compiler checks several lanes at once.
        for i in range(lanes.n):
            outside |= (place[i] - base) | (last - (place[i] - base))
        if outside >> 63:
            return self.locate_in_several(lanes, place, size)
        if hosts:
            for i in range(lanes.n):
                self.hosted[i] = <uint8_t*>(host + place[i])
        return True

    cdef bint locate_in_several(self, const Lanes* lanes, const uint64_t* place, uint64_t size) noexcept nogil:
        """Locate addresses of several arrays, lane by lane."""
        cdef int64_t i
        for i in range(lanes.n):
            if not self.find(place[i], size):
                return self.refuse(lanes.lane[i], place[i])
            self.hosted[i] = <uint8_t*>(self.hosts[self.last_buffer] + (place[i] - self.bases[self.last_buffer]))
        return True

    cdef bint find(self, uint64_t place, uint64_t size) noexcept nogil:
        """Find the array that holds `size` bytes at `place`; try the array of the last access first."""
        cdef int64_t low = self.last_buffer, high = self.buffers, middle
        if size <= self.bytes[low] and place - self.bases[low] <= self.bytes[low] - size:
            return True
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            if self.bases[middle] <= place:
                low = middle
            else:
                high = middle
        if size > self.bytes[low] or place - self.bases[low] > self.bytes[low] - size:
            return False
        self.last_buffer = low
        return True

    cdef bint refuse(self, int64_t thread, uint64_t place) noexcept nogil:
        self.thread, self.address = thread, place
        return False
