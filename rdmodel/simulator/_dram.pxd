# One DRAM channel: banks with an open row each, and a queue served first-ready, first-come first-served.
#
# Times are cycles of the DRAM's clock. A command opens a row (precharging first where another is open) or moves one
# line over the data bus; a channel gives at most one command per cycle.
#
# Each bank has a list of its requests by their entry, and knows the oldest one for its open row. So a command looks at
# the banks that have requests, and not at every request. What it compares lies side by side, as the banks' `Choice`s.
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from rdmodel.simulator._cache cimport Spread, deal_number, number_of
from rdmodel.structures._lru cimport NONE, Link, Recency, recency_init, recency_push, recency_remove
from rdmodel.structures._memory cimport grow

cdef extern from *:
    int lowest_bit "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    FOREVER = 0x3fffffffffffffff
    LONG_AGO = -0x3fffffffffffffff
    OPENS = 0x2000000000000000    # in the `order` of a command that opens a row: it comes after all others


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


cdef struct Choice:
    # The next command of a bank with requests.
    int64_t ready         # the first cycle in which the bank allows it; bus and channel may allow it later
    int64_t order         # number of entry of its request


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
    Choice* choice
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
    c.choice = <Choice*> calloc(<size_t> banks, sizeof(Choice))
    c.busy = <uint64_t*> calloc(<size_t> (banks + 63 >> 6), sizeof(uint64_t))
    if c.bank == NULL or c.choice == NULL or c.busy == NULL:
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
    free(c.choice)
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


cdef inline void choose_again(Channel* c, int64_t bank) noexcept nogil:
    # Renew the choice of a bank with requests: its oldest one for the open row, or else the opening of a row for the
    # oldest one. A bank without an open row is precharged, too: otherwise it would never get ahead of banks that have
    # one, whose activations are booked that much earlier.
    cdef const Bank* b = &c.bank[bank]
    if b.hit != NONE:
        c.choice[bank] = Choice(b.column, c.request[b.hit].number)
    else:
        c.choice[bank] = Choice(
            max(b.precharge, b.activated + c.timing.trc - c.timing.trp), c.request[b.requests.oldest].number | OPENS
        )


cdef inline int64_t allowed_time(const Channel* c, const Choice* choice) noexcept nogil:
    # The first cycle in which the bank, and the bus or the channel, allow the next command of a bank.
    cdef int64_t column = c.bus_free - c.timing.tcl, opening = c.activated + c.timing.trrd - c.timing.trp
    return max(choice.ready, opening if choice.order & OPENS else column)


cdef inline int channel_enter(
    Channel* c, int64_t line, int64_t id, const Spread* spread, bint write, int64_t sectors
) noexcept nogil:
    # Append a request; -1: out of memory.
    cdef int64_t place, rows = deal_number(number_of(spread, line), c.lines_per_row), row = deal_number(rows, c.banks)
    cdef int64_t bank = rows - row * c.banks
    cdef Bank* b = &c.bank[bank]
    if c.unused == NONE and channel_grow(c) < 0:
        return -1
    place = c.unused
    c.unused = c.request[place].link.newer
    c.request[place] = Request(line, id, bank, row, write, sectors, c.entered, Link(NONE, NONE))
    recency_push(&b.requests, &c.request[0].link, place, sizeof(Request))
    c.busy[bank >> 6] |= <uint64_t> 1 << (bank & 63)
    c.entered += 1
    c.queued += 1
    if b.hit == NONE and b.opened and b.row == row:
        b.hit = place
    if b.hit == place or b.requests.size == 1:
        choose_again(c, bank)
        c.next = min(c.next, allowed_time(c, &c.choice[bank]))
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


cdef inline void open_row(Channel* c, int64_t bank, int64_t now) noexcept nogil:
    # Open the row of the oldest request of a bank.
    cdef Bank* b = &c.bank[bank]
    b.activated = c.activated = now + c.timing.trp
    b.opened = True
    b.hit = b.requests.oldest
    b.row = c.request[b.hit].row
    b.column = b.activated + c.timing.trcd
    b.precharge = b.activated + c.timing.tras
    choose_again(c, bank)
    c.activations += 1


cdef inline const Request* move_line(Channel* c, int64_t bank, int64_t now) noexcept nogil:
    # Take out the oldest request for the open row of a bank, and move its line; the data are over at `bus_free`. The
    # request stays in its place until another one enters.
    cdef Bank* b = &c.bank[bank]
    cdef const Request* r = &c.request[b.hit]
    cdef int64_t burst = c.timing.write_burst if r.write else c.timing.burst
    c.bus_free = now + c.timing.tcl + burst
    b.column = now + burst
    b.precharge = max(b.precharge, now + burst)
    channel_leave(c, b.hit)
    if b.requests.size > 0:
        choose_again(c, bank)
    if r.write:
        c.writes += 1
    else:
        c.reads += 1
    return r


cdef inline const Request* channel_command(Channel* c, int64_t now) noexcept nogil:
    # Send the command of cycle `now`, if one is possible; if it moves a line, return the request. `next` becomes a later
    # cycle, before which no other is possible. The oldest request for an open row is first, and then the oldest of the
    # banks that may open one. O(banks with requests).
    cdef const Request* served
    cdef int64_t word, at, time, soonest = FOREVER, first = FOREVER, bank = NONE, opening = 0
    cdef uint64_t left
    cdef const Choice* choice
    for word in range(c.banks + 63 >> 6):
        left = c.busy[word]
        while left:
            at = (word << 6) + lowest_bit(left)
            left &= left - 1
            choice = &c.choice[at]
            time = allowed_time(c, choice)
            if time > now:
                soonest = min(soonest, time)
            else:
                opening += choice.order & OPENS != 0
                if choice.order < first:
                    first = choice.order
                    bank = at
    if bank == NONE:
        c.next = soonest
        return NULL
    if first & OPENS:
        open_row(c, bank, now)
        soonest = min(soonest, allowed_time(c, &c.choice[bank]))
        if opening > 1:
            soonest = min(soonest, now + c.timing.trrd)
        c.next = max(soonest, now + 1)
        return NULL
    served = move_line(c, bank, now)
    # Unless a bank may open a row, the others that were ready, and this one, wait until the bus is free.
    c.next = now + 1 if opening > 0 else max(min(soonest, c.bus_free - c.timing.tcl), now + 1)
    return served
