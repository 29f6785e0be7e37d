from libc.stdint cimport int64_t, uint64_t

from tracegen.ptx.isa._code cimport Code

cdef void compute_floats(
    const Code* code, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c
) noexcept nogil
cdef double half_value(uint64_t bits) noexcept nogil
cdef uint64_t half_bits(double x, int64_t rounding) noexcept nogil
