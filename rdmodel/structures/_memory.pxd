# Growing arrays: a reallocation that fails leaves the array unchanged.
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport realloc
from libc.string cimport memmove, memset
from posix.stdlib cimport posix_memalign

cdef enum:
    CACHE_LINE = 64         # bytes that a processor fetches together


cdef inline int grow(void** array, int64_t count, size_t size) noexcept nogil:
    # Reallocate for `count` items of `size` bytes; -1: out of memory, and the array is unchanged.
    cdef void* grown = realloc(array[0], <size_t> count * size)
    if grown == NULL:
        return -1
    array[0] = grown
    return 0


cdef inline int grow_aligned(void** memory, void** array, int64_t kept, int64_t count, size_t size) noexcept nogil:
    # As `grow`, for an array of which the first `kept` items are in use, and which begins with a line of the processor's
    # caches in `memory`: records of 64 bytes lie in one line each. Release `memory`.
    cdef size_t before = <size_t> (<char*> array[0] - <char*> memory[0]) if array[0] != NULL else 0, now
    cdef void* grown = realloc(memory[0], <size_t> count * size + CACHE_LINE - 1)
    if grown == NULL:
        return -1
    now = <size_t> (-<uintptr_t> grown & (CACHE_LINE - 1))
    if kept > 0 and now != before:
        memmove(<char*> grown + now, <char*> grown + before, <size_t> kept * size)
    memory[0] = grown
    array[0] = <char*> grown + now
    return 0


cdef inline void* aligned_zeros(int64_t count, size_t size) noexcept nogil:
    # Allocate `count` zeroed items of `size` bytes that begin with a line of the processor's caches; NULL: out of memory.
    cdef void* array = NULL
    if posix_memalign(&array, CACHE_LINE, max(<size_t> count * size, <size_t> 1)) != 0:
        return NULL
    return memset(array, 0, <size_t> count * size)
