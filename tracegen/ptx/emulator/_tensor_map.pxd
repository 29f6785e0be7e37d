from libc.stdint cimport int64_t, uint8_t, uint64_t

# The part of a tensor that a copy transfers: an iterator over its rows, which are contiguous in memory.
cdef struct Box:
    uint64_t start
    int64_t size           # bytes of a row inside the tensor
    int64_t rows           # rows that are left
    int64_t rank
    int64_t[5] corner
    int64_t[5] extent
    int64_t[5] dims
    int64_t[5] index
    uint64_t[5] stride

cdef int64_t open_box(Box* box, const uint8_t* map, int64_t rank, const int64_t* corner) noexcept nogil
cdef bint next_row(Box* box, uint64_t* start, int64_t* size) noexcept nogil
