# One DRAM channel: banks with an open row each, and a queue served first-ready, first-come first-served.
#
# Times are cycles of the DRAM's clock. A command opens a row (precharging first where another is open) or moves one
# line over the data bus; a channel gives at most one command per cycle.
#
# Each bank has a list of its requests in order of entry, and knows the first one for its open row. So a command looks at
# the banks that have requests, and not at every request.
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from rdmodel.simulator._cache cimport Spread, deal_number, number_of
from rdmodel.structures._index cimport modulo
from rdmodel.structures._memory cimport grow

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    NO_REQUEST = -1
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
    int64_t first, last   # of its requests, as places in `Channel.request`; NO_REQUEST = none
    int64_t hit           # the first one for the open row


cdef struct Request:
    int64_t line
    int64_t id            # the line's number in the slice
    int64_t bank
    int64_t row
    bint write
    int64_t sectors       # mask of those that are read or written
    int64_t number        # of entry
    int64_t before, after # in the list of its bank; of an unused place, `after` is the next unused one


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
        c.bank[i].first = c.bank[i].last = c.bank[i].hit = NO_REQUEST
    c.activated = c.bus_free = LONG_AGO
    c.unused = NO_REQUEST
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
        c.request[i].after = i + 1 if i + 1 < capacity else c.unused
    c.unused = c.capacity
    c.capacity = capacity
    return 0


cdef inline int channel_enter(
    Channel* c, int64_t line, int64_t id, const Spread* spread, bint write, int64_t sectors
) noexcept nogil:
    # Append a request; -1: out of memory.
    cdef int64_t place, row = deal_number(number_of(spread, line), c.lines_per_row), bank = modulo(row, c.banks)
    cdef Bank* b = &c.bank[bank]
    if c.unused == NO_REQUEST and channel_grow(c) < 0:
        return -1
    place = c.unused
    c.unused = c.request[place].after
    row = deal_number(row, c.banks)
    c.request[place] = Request(line, id, bank, row, write, sectors, c.entered, b.last, NO_REQUEST)
    if b.last == NO_REQUEST:
        b.first = place
        c.busy[bank >> 6] |= <uint64_t> 1 << (bank & 63)
    else:
        c.request[b.last].after = place
    b.last = place
    if b.hit == NO_REQUEST and b.opened and b.row == row:
        b.hit = place
    c.entered += 1
    c.queued += 1
    c.next = LONG_AGO
    return 0


cdef inline void channel_leave(Channel* c, int64_t place) noexcept nogil:
    # Take a request for the open row of its bank, the first of these, out of the list of the bank.
    cdef Request* r = &c.request[place]
    cdef Bank* b = &c.bank[r.bank]
    cdef int64_t before = r.before, after = r.after
    if before == NO_REQUEST:
        b.first = after
    else:
        c.request[before].after = after
    if after == NO_REQUEST:
        b.last = before
    else:
        c.request[after].before = before
    if b.first == NO_REQUEST:
        c.busy[r.bank >> 6] &= ~(<uint64_t> 1 << (r.bank & 63))
    while after != NO_REQUEST and c.request[after].row != b.row:
        after = c.request[after].after
    b.hit = after
    r.after = c.unused
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
    # Open the row of the first request of a bank.
    b.activated = c.activated = now + c.timing.trp
    b.opened = True
    b.hit = b.first
    b.row = c.request[b.first].row
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
    # first later cycle at which another may be possible. Of the requests for open rows, and else of the banks that may
    # open one, those are first that entered first. O(banks with requests).
    cdef int64_t word, time, soonest = FOREVER, place = NO_REQUEST, opening = NO_REQUEST
    cdef uint64_t left
    cdef Bank* b
    for word in range(c.banks + 63 >> 6):
        left = c.busy[word]
        while left:
            b = &c.bank[(word << 6) + lowest_bit(left)]
            left &= left - 1
            time = column_time(c, b) if b.hit != NO_REQUEST else open_time(c, b)
            if time > now:
                soonest = min(soonest, time)
            elif b.hit != NO_REQUEST:
                if place == NO_REQUEST or c.request[b.hit].number < c.request[place].number:
                    place = b.hit
            elif opening == NO_REQUEST or c.request[b.first].number < c.request[opening].number:
                opening = b.first
    if place != NO_REQUEST:
        served[0] = move_line(c, place, now)
    elif opening != NO_REQUEST:
        open_row(c, &c.bank[c.request[opening].bank], now)
    c.next = soonest if place == NO_REQUEST and opening == NO_REQUEST else now + 1
    return place != NO_REQUEST
