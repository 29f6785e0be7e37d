from libc.stdint cimport int64_t, uint8_t, uint64_t

# The part of a tensor that a copy transfers: an iterator over its rows, which are contiguous in memory.
cdef struct Rows:
    uint64_t start
    int64_t size           # bytes of a row inside the tensor
    int64_t rows           # rows that are left
    int64_t rank
    int64_t[5] corner
    int64_t[5] extent
    int64_t[5] dims
    int64_t[5] index
    int64_t[5] step        # distance of the elements of a box
    int64_t[5] low         # of pixels: the first and the last one of the box of pixels, and the offset of an access
    int64_t[5] high
    int64_t[5] offset
    int64_t kind           # Box
    int64_t row            # bytes of a whole row, without the end of the tensor
    int64_t skip           # bytes of a row before the start of the tensor, or bytes that a copy ignores
    int64_t swizzle        # how pieces of 16 bytes change places in shared memory
    bint plain             # whether elements are the same in both memories
    bint fill              # whether what lies outside of the tensor is no zero, or is unknown
    uint64_t target        # place of the row in shared memory
    uint64_t[5] stride

cdef int64_t open_box(
    Rows* box, const uint8_t* map, int64_t kind, int64_t rank, const int64_t* corner, const int64_t* offset
) noexcept nogil
cdef void open_row(Rows* box, uint64_t start, int64_t bytes, int64_t left, int64_t right) noexcept nogil
cdef bint keeps_values(const Rows* box, uint64_t place) noexcept nogil
cdef uint64_t swizzle(const Rows* box, uint64_t place) noexcept nogil
cdef bint next_row(Rows* box, uint64_t* start, int64_t* size) noexcept nogil
