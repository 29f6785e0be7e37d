cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t

from tracegen.ptx.emulator._places cimport Places
from tracegen.ptx.isa._code cimport Code, Lanes

@cython.final
cdef class Poison:
    cdef int64_t slots, threads, variables
    cdef uint8_t[:, ::1] rows
    cdef uint8_t[::1] local
    cdef readonly object shared_bits
    cdef uint8_t[::1] shared
    cdef const uint64_t* cells      # per array: host pointer of its bits
    cdef object owner
    cdef object cluster
    cdef const uint64_t* peers      # host addresses of the bits of the shared memories of a cluster, by rank
    cdef Places places
    cdef uint64_t[4][1024] scratch

    cdef void combine(self, const Code* code, const Lanes* lanes) noexcept nogil
    cdef void shuffle(self, const Code* code, const Lanes* lanes, const uint64_t* registers) noexcept nogil
    cdef uint8_t* bits_of(self, int64_t space, int64_t thread, uint64_t place, uint64_t* at) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef int64_t find(self, int64_t slot, const Lanes* lanes) noexcept nogil
    cdef void compute(self, const Code* code, const Lanes* lanes, const uint64_t* registers) noexcept nogil
    cdef void taint(self, const Code* code, const Lanes* lanes, int64_t slot) noexcept nogil
    cdef int64_t transfer(
        self, const Code* code, const Lanes* lanes, int64_t space, const uint64_t* place, bint strict
    ) noexcept nogil
    cdef bint copy(self, int64_t to_space, uint64_t to, int64_t space, uint64_t origin, int64_t size) noexcept nogil
    cdef void mark(self, int64_t space, uint64_t place, int64_t size, bint poisoned) noexcept nogil
