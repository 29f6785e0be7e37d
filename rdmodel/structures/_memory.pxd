# Growing arrays: a reallocation that fails leaves the array unchanged.
from libc.stdint cimport int64_t
from libc.stdlib cimport realloc


cdef inline int grow(void** array, int64_t count, size_t size) noexcept nogil:
    # Reallocate for `count` items of `size` bytes; -1: out of memory, and the array is unchanged.
    cdef void* grown = realloc(array[0], <size_t> count * size)
    if grown == NULL:
        return -1
    array[0] = grown
    return 0
