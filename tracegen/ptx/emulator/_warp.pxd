from libc.stdint cimport int64_t, uint64_t

from tracegen.ptx.isa._code cimport Code, Lanes

cdef void shuffle_lanes(
    const Code* code, const Lanes* lanes, int64_t threads, uint64_t* copy, uint64_t* d, uint64_t* p,
    const uint64_t* a, const uint64_t* b, const uint64_t* c
) noexcept nogil
cdef void vote_lanes(const Code* code, const Lanes* lanes, uint64_t* d, const uint64_t* a) noexcept nogil
cdef void match_lanes(
    const Code* code, const Lanes* lanes, uint64_t* copy, uint64_t* d, uint64_t* p, const uint64_t* a
) noexcept nogil
cdef void reduce_lanes(const Code* code, const Lanes* lanes, uint64_t* d, const uint64_t* a) noexcept nogil
