# Periods of equal length, which some policies look back on.
from libc.stdint cimport int64_t

cdef struct Period:
    int64_t cycles    # -1: nobody looks
    int64_t last      # the last cycle of the current one


cdef inline int64_t period_end(const Period* p) noexcept nogil:
    # The cycle after which somebody looks; far away if nobody does.
    return p.last if p.cycles > 0 else <int64_t> 0x3fffffffffffffff


cdef inline bint period_over(Period* p, int64_t now) noexcept nogil:
    # Whether the period ends with cycle `now`; the next one begins then.
    if p.cycles <= 0 or now != p.last:
        return False
    p.last += p.cycles
    return True
