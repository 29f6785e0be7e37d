from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef void start(uint8_t* host, int64_t count) noexcept nogil
cdef bint arrive(uint8_t* host, int64_t count, int64_t expected) noexcept nogil
cdef void drop(uint8_t* host, int64_t count) noexcept nogil
cdef uint64_t state_of(const uint8_t* host) noexcept nogil
cdef uint64_t parity_of(uint64_t state) noexcept nogil
cdef bint has_completed(const uint8_t* host, uint64_t parity) noexcept nogil
