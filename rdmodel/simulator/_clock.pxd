# Clocks in exact integers: a domain's cycle d begins when d x (SM clock / its clock) SM cycles have passed.
# All parts of the machine are in the same SM cycle, so a clock knows the cycles of its domain that begin in this one and in
# the next: few times need a division.
from libc.stdint cimport int64_t

cdef struct Clock:
    int64_t own       # MHz of the domain and of the SMs
    int64_t sm
    int64_t steps     # cycles of the domain per SM cycle, rounded down,
    int64_t part      # and what is left, in parts of 1 / sm
    int64_t now       # the SM cycle
    int64_t first     # the first cycle of the domain that begins with SM cycle `now` or later,
    int64_t next      # with the one after it,
    int64_t later     # and with the one after that,
    int64_t over      # which begins so many parts of a cycle of the domain after that SM cycle


cdef inline int64_t first_cycle(const Clock* c, int64_t t) noexcept nogil:
    # The first cycle of the domain that begins with SM cycle t or later.
    return (t * c.own + c.sm - 1) // c.sm


cdef inline void clock_turn(Clock* c, int64_t t) noexcept nogil:
    # Let it be SM cycle t.
    if t == c.now + 1:
        c.first = c.next
        c.next = c.later
        c.later += c.steps
        c.over -= c.part
        if c.over < 0:
            c.later += 1
            c.over += c.sm
    else:
        c.first = first_cycle(c, t)
        c.next = first_cycle(c, t + 1)
        c.later = first_cycle(c, t + 2)
        c.over = c.later * c.sm - (t + 2) * c.own
    c.now = t


cdef inline Clock clock_of(int64_t own, int64_t sm) noexcept nogil:
    # A clock before the first SM cycle.
    cdef Clock c = Clock(own, sm, own // sm, own % sm, 0, 0, 0, 0, 0)
    clock_turn(&c, -1)
    return c


cdef inline int64_t sm_cycle(const Clock* c, int64_t d) noexcept nogil:
    # The first SM cycle that begins with the domain's cycle d or later.
    if c.own == c.sm:
        return d
    return (d * c.sm + c.own - 1) // c.own


cdef inline int64_t wake_at(const Clock* c, int64_t d) noexcept nogil:
    # The SM cycle during which the domain's cycle d begins, if that is after `now`, or else the next one.
    if d < c.later:
        return c.now + 1
    return d if c.own == c.sm else d * c.sm // c.own
