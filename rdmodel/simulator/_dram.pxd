# One DRAM channel: banks with an open row each, and a queue served first-ready, first-come first-served.
#
# Times are cycles of the DRAM's clock. A command opens a row (precharging first where another is open) or moves one
# line over the data bus; a channel gives at most one command per cycle.
#
# Each bank has a list of its requests by their entry, and knows the oldest one for its open row. So a command looks at
# the banks that have requests, and not at every request.
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from rdmodel.simulator._cache cimport Spread, deal_number, number_of
from rdmodel.structures._index cimport modulo
from rdmodel.structures._lru cimport NONE, Link, Recency, recency_init, recency_push, recency_remove
from rdmodel.structures._memory cimport grow

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

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
    Recency requests      # by their entry, as places in `Channel.request`
    int64_t hit           # the oldest one for the open row; NONE = there is none


cdef struct Request:
    int64_t line
    int64_t id            # the line's number in the slice
    int64_t bank
    int64_t row
    bint write
    int64_t sectors       # mask of those that are read or written
    int64_t number        # of entry
    Link link             # in the list of its bank; of an unused place, `newer` is the next unused one


cdef struct Channel:
    Timing timing
    Bank* bank
    int64_t banks
    uint64_t* busy        # one bit per bank: 1 = it has requests
    int64_t lines_per_row
    Request* request      # [capacity]
    int64_t unused        # the first place without a request
    int64_t queued, capacity
    int64_t entered       # requests so far
    int64_t limit         # requests that fit; a write-back may be one more
    int64_t activated     # by the last command that opened a row
    int64_t bus_free
    int64_t next          # the first cycle at which a command may be possible
    int64_t reads, writes, activations


cdef inline int channel_init(Channel* c, int64_t banks) noexcept nogil:
    # Everything else is zeroed memory or the caller's to set. -1: out of memory.
    cdef int64_t i
    c.bank = <Bank*> calloc(<size_t> banks, sizeof(Bank))
    c.busy = <uint64_t*> calloc(<size_t> (banks + 63 >> 6), sizeof(uint64_t))
    if c.bank == NULL or c.busy == NULL:
        return -1
    c.banks = banks
    for i in range(banks):
        c.bank[i].activated = c.bank[i].column = c.bank[i].precharge = LONG_AGO
        recency_init(&c.bank[i].requests)
        c.bank[i].hit = NONE
    c.activated = c.bus_free = LONG_AGO
    c.unused = NONE
    return 0


cdef inline void channel_free(Channel* c) noexcept nogil:
    free(c.bank)
    free(c.busy)
    free(c.request)


cdef inline int channel_grow(Channel* c) noexcept nogil:
    # Add unused places; -1: out of memory.
    cdef int64_t i, capacity = 16 if c.capacity == 0 else 2 * c.capacity
    if grow(<void**> &c.request, capacity, sizeof(Request)) < 0:
        return -1
    for i in range(c.capacity, capacity):
        c.request[i].link.newer = i + 1 if i + 1 < capacity else c.unused
    c.unused = c.capacity
    c.capacity = capacity
    return 0


cdef inline int channel_enter(
    Channel* c, int64_t line, int64_t id, const Spread* spread, bint write, int64_t sectors
) noexcept nogil:
    # Append a request; -1: out of memory.
    cdef int64_t place, row = deal_number(number_of(spread, line), c.lines_per_row), bank = modulo(row, c.banks)
    cdef Bank* b = &c.bank[bank]
    if c.unused == NONE and channel_grow(c) < 0:
        return -1
    place = c.unused
    c.unused = c.request[place].link.newer
    row = deal_number(row, c.banks)
    c.request[place] = Request(line, id, bank, row, write, sectors, c.entered, Link(NONE, NONE))
    recency_push(&b.requests, &c.request[0].link, place, sizeof(Request))
    c.busy[bank >> 6] |= <uint64_t> 1 << (bank & 63)
    if b.hit == NONE and b.opened and b.row == row:
        b.hit = place
    c.entered += 1
    c.queued += 1
    c.next = LONG_AGO
    return 0


cdef inline void channel_leave(Channel* c, int64_t place) noexcept nogil:
    # Take the oldest request for the open row of its bank out of the list of the bank.
    cdef Request* r = &c.request[place]
    cdef Bank* b = &c.bank[r.bank]
    cdef int64_t hit = r.link.newer
    while hit != NONE and c.request[hit].row != b.row:
        hit = c.request[hit].link.newer
    b.hit = hit
    recency_remove(&b.requests, &c.request[0].link, place, sizeof(Request))
    if b.requests.size == 0:
        c.busy[r.bank >> 6] &= ~(<uint64_t> 1 << (r.bank & 63))
    r.link.newer = c.unused
    c.unused = place
    c.queued -= 1


cdef inline int64_t column_time(const Channel* c, const Bank* b) noexcept nogil:
    return max(b.column, c.bus_free - c.timing.tcl)


cdef inline int64_t open_time(const Channel* c, const Bank* b) noexcept nogil:
    # A bank without an open row is precharged, too: otherwise it would never get ahead of banks that have one, whose
    # activations are booked that much earlier.
    cdef int64_t activate = max(b.activated + c.timing.trc, c.activated + c.timing.trrd)
    return max(b.precharge, activate - c.timing.trp)


cdef inline void open_row(Channel* c, Bank* b, int64_t now) noexcept nogil:
    # Open the row of the oldest request of a bank.
    b.activated = c.activated = now + c.timing.trp
    b.opened = True
    b.hit = b.requests.oldest
    b.row = c.request[b.hit].row
    b.column = b.activated + c.timing.trcd
    b.precharge = b.activated + c.timing.tras
    c.activations += 1


cdef inline Request move_line(Channel* c, int64_t place, int64_t now) noexcept nogil:
    # Take out a request for the open row of its bank, and move its line; the data are over at `bus_free`.
    cdef Request r = c.request[place]
    cdef Bank* b = &c.bank[r.bank]
    cdef int64_t burst = c.timing.write_burst if r.write else c.timing.burst
    c.bus_free = now + c.timing.tcl + burst
    b.column = now + burst
    b.precharge = max(b.precharge, now + burst)
    channel_leave(c, place)
    if r.write:
        c.writes += 1
    else:
        c.reads += 1
    return r


cdef inline bint channel_command(Channel* c, int64_t now, Request* served) noexcept nogil:
    # Send the command of cycle `now`, if one is possible; True: it moved the line of `served`. `next` becomes the
    # first later cycle at which another may be possible. The oldest request for an open row is first, and then the oldest
    # of the banks that may open one. O(banks with requests).
    cdef int64_t word, time, soonest = FOREVER, place = NONE, opening = NONE
    cdef uint64_t left
    cdef Bank* b
    for word in range(c.banks + 63 >> 6):
        left = c.busy[word]
        while left:
            b = &c.bank[(word << 6) + lowest_bit(left)]
            left &= left - 1
            time = column_time(c, b) if b.hit != NONE else open_time(c, b)
            if time > now:
                soonest = min(soonest, time)
            elif b.hit != NONE:
                if place == NONE or c.request[b.hit].number < c.request[place].number:
                    place = b.hit
            elif opening == NONE or c.request[b.requests.oldest].number < c.request[opening].number:
                opening = b.requests.oldest
    if place != NONE:
        served[0] = move_line(c, place, now)
    elif opening != NONE:
        open_row(c, &c.bank[c.request[opening].bank], now)
    c.next = soonest if place == NONE and opening == NONE else now + 1
    return place != NONE
