# One DRAM channel: banks with an open row each, and a queue served first-ready, first-come first-served.
#
# Times are cycles of the DRAM's clock. A command opens a row (precharging first where another is open) or moves one
# line over the data bus; a channel gives at most one command per cycle.
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memmove

from rdmodel.simulator._cache cimport Spread, deal_number, number_of
from rdmodel.structures._index cimport modulo
from rdmodel.structures._memory cimport grow

cdef enum:
    FOREVER = 0x3fffffffffffffff
    LONG_AGO = -0x3fffffffffffffff


cdef struct Timing:
    int64_t tcl, trp, trc, tras, trcd, trrd
    int64_t burst         # cycles that a read occupies the data bus
    int64_t write_burst


cdef struct Bank:
    int64_t row           # the open one, if `opened`
    bint opened
    int64_t activated
    int64_t column        # earliest next column command
    int64_t precharge     # earliest next precharge
    int64_t seen, hit     # stamps of `channel_command`: a request of the bank, one for its open row was met


cdef struct Request:
    int64_t line
    int64_t id            # the line's number in the slice
    int64_t bank
    int64_t row
    bint write
    int64_t sectors       # mask of those that are read or written


cdef struct Channel:
    Timing timing
    Bank* bank
    int64_t banks
    int64_t lines_per_row
    Request* queue        # in order of entry
    int64_t queued, capacity
    int64_t limit         # requests that fit; a write-back may be one more
    int64_t activated     # by the last command that opened a row
    int64_t bus_free
    int64_t next          # the first cycle at which a command may be possible
    int64_t stamp
    int64_t reads, writes, activations


cdef inline int channel_init(Channel* c, int64_t banks) noexcept nogil:
    # Everything else is zeroed memory or the caller's to set. -1: out of memory.
    cdef int64_t i
    c.bank = <Bank*> calloc(<size_t> banks, sizeof(Bank))
    if c.bank == NULL:
        return -1
    c.banks = banks
    for i in range(banks):
        c.bank[i].activated = c.bank[i].column = c.bank[i].precharge = LONG_AGO
    c.activated = c.bus_free = LONG_AGO
    return 0


cdef inline void channel_free(Channel* c) noexcept nogil:
    free(c.bank)
    free(c.queue)


cdef inline int channel_enter(
    Channel* c, int64_t line, int64_t id, const Spread* spread, bint write, int64_t sectors
) noexcept nogil:
    # Append a request; -1: out of memory.
    cdef int64_t capacity, row
    if c.queued == c.capacity:
        capacity = 16 if c.capacity == 0 else 2 * c.capacity
        if grow(<void**> &c.queue, capacity, sizeof(Request)) < 0:
            return -1
        c.capacity = capacity
    row = deal_number(number_of(spread, line), c.lines_per_row)
    c.queue[c.queued] = Request(line, id, modulo(row, c.banks), deal_number(row, c.banks), write, sectors)
    c.queued += 1
    c.next = LONG_AGO
    return 0


cdef inline int64_t column_time(const Channel* c, const Bank* b) noexcept nogil:
    return max(b.column, c.bus_free - c.timing.tcl)


cdef inline int64_t open_time(const Channel* c, const Bank* b) noexcept nogil:
    # A bank without an open row is precharged, too: otherwise it would never get ahead of banks that have one, whose
    # activations are booked that much earlier.
    cdef int64_t activate = max(b.activated + c.timing.trc, c.activated + c.timing.trrd)
    return max(b.precharge, activate - c.timing.trp)


cdef inline void open_row(Channel* c, Bank* b, int64_t row, int64_t now) noexcept nogil:
    b.activated = c.activated = now + c.timing.trp
    b.opened = True
    b.row = row
    b.column = b.activated + c.timing.trcd
    b.precharge = b.activated + c.timing.tras
    c.activations += 1


cdef inline Request move_line(Channel* c, int64_t index, int64_t now) noexcept nogil:
    # Take a request out of the queue and move its line; the data are over at `bus_free`.
    cdef Request r = c.queue[index]
    cdef Bank* b = &c.bank[r.bank]
    cdef int64_t burst = c.timing.write_burst if r.write else c.timing.burst
    c.bus_free = now + c.timing.tcl + burst
    b.column = now + burst
    b.precharge = max(b.precharge, now + burst)
    c.queued -= 1
    memmove(c.queue + index, c.queue + index + 1, <size_t> (c.queued - index) * sizeof(Request))
    if r.write:
        c.writes += 1
    else:
        c.reads += 1
    return r


cdef inline bint channel_command(Channel* c, int64_t now, Request* served) noexcept nogil:
    # Send the command of cycle `now`, if one is possible; True: it moved the line of `served`. `next` becomes the
    # first later cycle at which another may be possible. O(queue).
    cdef int64_t i, time, soonest = FOREVER
    cdef Bank* b
    c.stamp += 1
    for i in range(c.queued):
        b = &c.bank[c.queue[i].bank]
        if not b.opened or b.row != c.queue[i].row:
            continue
        time = column_time(c, b)
        if time <= now:
            served[0] = move_line(c, i, now)
            c.next = now + 1
            return True
        b.hit = c.stamp
        soonest = min(soonest, time)
    for i in range(c.queued):
        b = &c.bank[c.queue[i].bank]
        if b.seen == c.stamp:
            continue
        b.seen = c.stamp
        if b.hit == c.stamp:
            continue
        time = open_time(c, b)
        if time <= now:
            open_row(c, b, c.queue[i].row, now)
            c.next = now + 1
            return False
        soonest = min(soonest, time)
    c.next = soonest
    return False
