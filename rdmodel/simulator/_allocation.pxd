# CCA: the search of an SM for the warps that may load, and for those whose loads may bring lines (docs/policies.md, cca).
from libc.stdint cimport int64_t

cdef struct Allocation:
    int64_t cached, loading               # warps of each scheduler
    int64_t kept_cached, kept_loading     # the same before the change on trial
    bint on_trial
    bint loading_next         # changes concern `loading`, and otherwise `cached`
    bint cached_rises, loading_rises
    int64_t best              # thread instructions in the last period of the numbers that were kept


cdef inline int64_t allocation_next(int64_t size, int64_t least, int64_t most, bint* rises) noexcept nogil:
    # Return twice or half a size; turn around at the ends of its range.
    if size == (most if rises[0] else least):
        rises[0] = not rises[0]
    return min(max(2 * size, 1), most) if rises[0] else max(size // 2, least)


cdef inline void allocation_search(Allocation* a, int64_t executed, double gain, int64_t most) noexcept nogil:
    # End a period with so many thread instructions: judge the change on trial, and try the next one.
    if a.on_trial and not <double> executed > <double> a.best * (1.0 + gain):
        a.on_trial = False
        a.cached = a.kept_cached
        a.loading = a.kept_loading
        if a.loading_next:
            a.loading_rises = not a.loading_rises
        else:
            a.cached_rises = not a.cached_rises
        a.loading_next = not a.loading_next
        return
    a.on_trial = True
    a.best = executed
    a.kept_cached = a.cached
    a.kept_loading = a.loading
    if a.loading_next:
        a.loading = allocation_next(a.loading, 1, most, &a.loading_rises)
        a.cached = min(a.cached, a.loading)
    else:
        a.cached = allocation_next(a.cached, 0, a.loading, &a.cached_rises)
