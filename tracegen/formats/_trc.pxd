# What the readers of one access per line share: the form of their accesses, and their division into warps.

from libc.stdint cimport int64_t, uint32_t

cdef extern from *:
    int lowest_bit "__builtin_ctz"(unsigned int x) noexcept nogil

cdef enum:
    LANES = 32
    KIND_BITS = 8
    GIVE_BACK_MASK = (1 << 14) - 1   # pages are given back after each 2^14 accesses

cdef struct Access:
    int64_t key
    int64_t address


cdef class AccessGrouper:
    cdef const int64_t[:, ::1] accesses
    cdef const Access* p
    cdef int64_t n, at, block_threads, block_warps, warp
    cdef object give_back
    cdef bint mapped

    cdef uint32_t open_warp(self, int64_t* begin, int64_t* end) noexcept nogil
    cdef void release(self) noexcept nogil


cdef inline void maybe_give_back(AccessGrouper grouper, int64_t at) noexcept nogil:
    if grouper.mapped and at & GIVE_BACK_MASK == GIVE_BACK_MASK:
        grouper.release()
