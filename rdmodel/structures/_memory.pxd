# Growing arrays: a reallocation that fails leaves the array unchanged.
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport realloc
from libc.string cimport memmove, memset
from posix.stdlib cimport posix_memalign

cdef enum:
    CACHE_LINE = 64         # bytes that a processor fetches together

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #ifndef MADV_COLLAPSE
    #define MADV_COLLAPSE 25 /* Linux 6.1; older systems refuse it */
    #endif
    #endif

    #define RDMODEL_LARGE_PAGE ((uintptr_t) 1 << 21)
    #define RDMODEL_LARGE_ARRAY ((size_t) 1 << 26)

    static inline void rdmodel_use_large_pages(void* array, size_t bytes, size_t used) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        uintptr_t low = RDMODEL_LARGE_PAGE - 1;
        uintptr_t first = ((uintptr_t) array + low) & ~low;
        if (bytes < RDMODEL_LARGE_ARRAY)
            return;
        (void) madvise((void*) first, (((uintptr_t) array + bytes) & ~low) - first, MADV_HUGEPAGE);
        if (((uintptr_t) array + used) > first + low)
            (void) madvise((void*) first, (((uintptr_t) array + used) & ~low) - first, MADV_COLLAPSE);
    #else
        (void) array;
        (void) bytes;
        (void) used;
    #endif
    }
    """
    # Ask the system for pages of 2 MB for a new array of 64 MB or more that is read in no order: most reads of one with
    # small pages also have to look for the page. The first `used` bytes have their pages already. Nothing depends on it
    # but time.
    void use_large_pages "rdmodel_use_large_pages"(void* array, size_t bytes, size_t used) noexcept nogil


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
