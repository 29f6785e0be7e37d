cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t

from tracegen.ptx.isa._code cimport Lanes

@cython.final
cdef class Places:
    cdef uint8_t* hosted[1024]      # host pointers of the lanes of the last access
    cdef int64_t thread             # the first thread outside its array, and its address
    cdef uint64_t address
    cdef int64_t local_bytes
    cdef int64_t shared_bytes
    cdef object owners
    cdef object arrays
    cdef uint8_t[::1] local
    cdef uint8_t[::1] shared
    cdef const uint64_t* bases
    cdef const uint64_t* bytes
    cdef const uint64_t* hosts
    cdef int64_t buffers
    cdef int64_t last_buffer
    cdef object cluster
    cdef const uint64_t* peers      # host addresses of the shared memories of the blocks of a cluster, by rank
    cdef int64_t ranks              # blocks of the cluster; 0: a block alone

    cdef void clear(self) noexcept nogil
    cdef bint locate(
        self, const Lanes* lanes, int64_t space, const uint64_t* place, int64_t size, bint hosts
    ) noexcept nogil
    cdef bint locate_own(
        self, const Lanes* lanes, uint8_t* start, int64_t bytes, int64_t stride, const uint64_t* place, int64_t size
    ) noexcept nogil
    cdef bint locate_in_cluster(self, const Lanes* lanes, const uint64_t* place, int64_t size) noexcept nogil
    cdef bint locate_global(
        self, const Lanes* lanes, const uint64_t* place, uint64_t size, bint hosts
    ) noexcept nogil
    cdef bint locate_in_several(self, const Lanes* lanes, const uint64_t* place, uint64_t size) noexcept nogil
    cdef bint find(self, uint64_t place, uint64_t size) noexcept nogil
    cdef bint refuse(self, int64_t thread, uint64_t place) noexcept nogil
