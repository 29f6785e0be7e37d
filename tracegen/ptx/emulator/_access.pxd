from libc.stdint cimport int64_t, uint8_t, uint64_t

from tracegen.ptx.isa._code cimport Code

cdef void load_values(int64_t n, uint64_t* d, uint8_t** place, int64_t offset, int64_t width, bint signed) noexcept nogil
cdef void store_values(int64_t n, const uint64_t* a, uint8_t** place, int64_t offset, int64_t width) noexcept nogil
cdef void update_values(
    const Code* code, int64_t n, uint64_t* d, uint8_t** place, const uint64_t* b, const uint64_t* c
) noexcept nogil
