# Periods of equal length, at whose ends some policies act.
from libc.stdint cimport int64_t

cdef struct Period:
    int64_t cycles    # -1: no policy uses the period
    int64_t last      # last cycle of the current period


cdef inline int64_t period_end(const Period* p) noexcept nogil:
    # Return the last cycle of the period; far away if no policy uses it.
    return p.last if p.cycles > 0 else <int64_t> 0x3fffffffffffffff


cdef inline bint period_over(Period* p, int64_t now) noexcept nogil:
    # Return whether the period ends with cycle `now`; if so, begin the next one.
    if p.cycles <= 0 or now != p.last:
        return False
    p.last += p.cycles
    return True


cdef inline bint thrashes(int64_t misses, int64_t instructions, double mpki) noexcept nogil:
    # Return whether a period had more than `mpki` misses per 1,000 thread instructions.
    return instructions > 0 and 1000.0 * <double> misses / <double> instructions > mpki
