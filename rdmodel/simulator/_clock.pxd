# Clocks in exact integers: a domain's cycle d begins when d x (SM clock / its clock) SM cycles have passed.
from libc.stdint cimport int64_t

cdef struct Clock:
    int64_t own       # MHz of the domain and of the SMs
    int64_t sm


cdef inline int64_t first_cycle(const Clock* c, int64_t t) noexcept nogil:
    # The first cycle of the domain that begins with SM cycle t or later.
    if c.own == c.sm:
        return t
    return (t * c.own + c.sm - 1) // c.sm


cdef inline int64_t sm_cycle(const Clock* c, int64_t d) noexcept nogil:
    # The first SM cycle that begins with the domain's cycle d or later.
    if c.own == c.sm:
        return d
    return (d * c.sm + c.own - 1) // c.own


cdef inline int64_t sm_cycle_of(const Clock* c, int64_t d) noexcept nogil:
    # The SM cycle during which the domain's cycle d begins.
    if c.own == c.sm:
        return d
    return d * c.sm // c.own
