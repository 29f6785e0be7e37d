"""Declare `Core`, the base of the compiled classes of both definitions of the model.

A `Core` is one SM: its lines and sets, the fully associative shadow cache, exact distances, block and warp slots,
lists of warps, random draws and counters. A definition adds `start_block` and `_run`, which goes through the phases of
a step.

Lines and warps are dense numbers. The number of a warp is its slot: slots are used again, ages are not. Methods that
run for every step or transaction are inline here; those that run rarely are in `_core.pyx`. No method below needs the
GIL or raises; functions that allocate return -1, or NO_MEMORY, when out of memory.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove

from rdmodel._tree cimport FULL, LineTable, Stack, popcount, prefetch, stack_distance, stack_move, stack_touch
from rdmodel.model._tally cimport Origins, Tally, gain, origins_group, origins_place
from rdmodel.model._warp cimport READS, WRITES, Arrival, Warp, put_off, writing_kind
from rdmodel.structures._calendar cimport NEVER, Calendar
from rdmodel.structures._index cimport Index
from rdmodel.structures._lru cimport (
    NONE, Link, Recency, recency_enter, recency_leave, recency_push, recency_remove, recency_reuse, recency_touch,
)
from rdmodel.structures._memory cimport grow
from rdmodel.structures._pool cimport Pool, pool_of, pool_pass, pool_set
from rdmodel.trace._coalesce cimport ChunkBuffers, StreamBuffers

# Results of `_run`: the reason why it stopped.
cdef enum:
    C_DONE = 0
    C_CHUNK = 1           # the buffer of the warp `subject` is empty
    C_LATENCIES = 2
    C_CHOICES = 3
    C_BLOCK = 4           # the block slot `subject` is free
    C_LOG = 5             # the log is full
    C_MEMORY = -1
    C_GO = -3             # result of parts of a step: run on

# Line flags.
cdef enum:
    SEEN = 1              # a miss was issued for it on this SM
    IN_SHADOW = 2         # it is in the fully associative shadow cache
    IN_SET = 4            # paper: d < ways; hardware: it has a way
    IN_FLIGHT = 8

# Outcomes of one transaction.
cdef enum:
    SERVED = 0
    STALL_MSHR = 1
    STALL_WAYS = 2
    NO_MEMORY = 3

# States of a block slot.
cdef enum:
    OCCUPIED = 0
    ASKING = 1            # it is free and requests a block
    CLOSED = 2            # it stays empty: there are no more blocks


cdef struct LineFlight:
    # The request in flight for a whole line.
    int64_t due           # when it arrives
    int64_t merged        # transactions that share its MSHR


cdef struct SectorMasks:
    # The sectors of a line, one bit each (_sectors.pxd).
    uint32_t valid        # data there
    uint32_t written      # in place, not fetched
    uint32_t asked        # loads have asked for them
    int32_t flying        # the latest MSHR of the line, an index of `Core.flying`; of a line that is IN_FLIGHT


cdef union LineState:
    LineFlight flight
    SectorMasks sectors   # of a sectored core


cdef struct Line:
    # Its size is that of a line of the processor's cache.
    Link in_set
    Link in_shadow
    int64_t set
    LineState state
    int32_t flags
    uint32_t shadowed     # sectors in the shadow


cdef struct Flight:
    # The request in flight for a line; used where effects move lines.
    int64_t pending       # transactions whose effect is outstanding
    int64_t owner         # warp that allocated the MSHR; its age tells whether the slot has a new warp
    int64_t owner_age


cdef struct SectorFlight:
    # An MSHR of a sectored core: the sectors that one transaction missed.
    int64_t line
    int64_t due           # when they arrive
    int64_t merged        # transactions that share it
    uint32_t sectors
    int32_t next          # the MSHR of the line before it, or the next unused one; NONE = there is none


cdef struct Request:
    # A request that leaves the SM.
    int64_t time
    int64_t line
    uint32_t sectors
    uint32_t full         # of a write: those of which it changes every byte
    uint8_t kind          # READS, WRITES or UPDATES, of rdmodel.model._warp
    int32_t part          # of the run that it belongs to, if parts are counted apart


cdef inline void raise_line(Recency* r, int64_t size, Line* line, Link* link, int32_t flag, int64_t id) noexcept nogil:
    # Move a line to the top of a list of the `size` most recent lines. `link` is the list's Link of line 0; `flag`
    # marks the lines in the list.
    cdef int64_t old
    if line[id].flags & flag:
        recency_touch(r, link, id, sizeof(Line))
        return
    if r.size == size:
        old = r.oldest
        recency_remove(r, link, old, sizeof(Line))
        line[old].flags &= ~flag
    recency_push(r, link, id, sizeof(Line))
    line[id].flags |= flag


cdef inline void leave_way(Recency* r, Line* line, int64_t id) noexcept nogil:
    recency_leave(r, &line[0].in_set, id, sizeof(Line))
    line[id].flags &= ~IN_SET


cdef inline bint leave_oldest(Recency* r, Line* line) noexcept nogil:
    # Take the way of the least recently used line of a set that is not in flight; False: there is none.
    cdef int64_t victim = r.oldest
    while victim != NONE and line[victim].flags & IN_FLIGHT:
        victim = line[victim].in_set.newer
    if victim == NONE:
        return False
    leave_way(r, line, victim)
    return True


cdef class Core:
    # Time, and the warp or slot for which `_run` stopped.
    cdef public int64_t now
    cdef public int64_t subject
    cdef int64_t order                # of the next transaction
    # Warps and blocks.
    cdef Warp* warp                   # [slots x block_warps]
    cdef readonly int64_t slots, block_warps, warps
    cdef int64_t* alive               # warps of the slot's block that are still running
    cdef int64_t* standing            # of those, the ones that stand at a barrier
    cdef uint8_t* state               # of block slots
    cdef int64_t resident, started, asking
    cdef bint waves, filling, closed  # `closed`: there are no more blocks
    cdef bint divergence
    # Lists of warps: ready, in order; parked after a stall; waiting for an arrival. `events` are effects or fills.
    cdef int32_t* ready               # the first ready warp; the list moves through a buffer of 2 x `warps`
    cdef int32_t* ready_room
    cdef uint64_t* ready_bits         # the same warps as a set, one bit per slot
    cdef int64_t* parked
    cdef int64_t ready_size, parked_size
    cdef bint listed                  # the order of the ready warps matters; otherwise they are kept as a set only
    cdef Calendar waiting
    cdef Calendar events
    # Lines; the first `known` of them have a record and a `position` in their set's stack.
    cdef Line* line
    cdef Flight* flight               # one per line, if `flights`
    cdef bint flights
    cdef int64_t* position
    # Lines that are fetched by sector, if `sectored`.
    cdef readonly bint sectored
    cdef SectorFlight* flying         # MSHRs: those in use, and a list of those that are not
    cdef int64_t flying_capacity
    cdef int32_t unused
    cdef int64_t known, line_capacity
    cdef LineTable table
    cdef Index index
    cdef object index_code
    # Sets, the shadow cache, and exact distances if `track`.
    cdef Recency* recency             # [sets]
    cdef Recency shadow
    cdef int64_t sets, ways, shadow_lines
    cdef int64_t protected            # lines of a set that leave last, if they were used again
    cdef Pool pool
    cdef int64_t all_late             # bits of the pools of which no line can leave before a fill
    cdef bint track
    cdef Stack* stack                 # [sets]
    cdef int64_t* distance_count
    cdef int64_t distance_capacity, distance_end
    # MSHRs; -1 = unlimited.
    cdef int64_t mshrs, mshr_merge, mshr_per_warp, mshrs_used
    # Latencies.
    cdef int64_t lat_min, hit_latency
    cdef int64_t[::1] latency
    cdef int64_t latency_at
    # Counters.
    cdef public int64_t transactions, hits, latency_misses, compulsory, capacity, associativity
    cdef public int64_t stalls_mshr, stalls_ways, bypassed
    cdef public int64_t infinite
    cdef public int64_t requests      # of loads: instructions with transactions
    # Counters that only a sectored core keeps; `hits` and misses then count sectors.
    cdef public int64_t tag_misses, sector_misses, store_requests, store_transactions, store_sectors, store_hits
    # Requests that leave the SM, in order, if `logs`. `number` has the line of each id. A step does not begin while
    # the log has `log_full` requests or more.
    cdef bint logs
    cdef Request* log
    cdef int64_t* number
    cdef readonly int64_t logged
    cdef int64_t log_capacity, log_full
    cdef bint log_lost                # a request was lost: out of memory
    # Counters of loads that do not look into the L1.
    cdef public int64_t bypassed_requests, bypassed_transactions, bypassed_sectors
    # Seconds that reading chunks took.
    cdef public double fed_seconds
    # Counters by origin, if `tallies`. If parts of the run are counted apart, these are the origins.
    cdef bint tallies, parts
    cdef Origins origins
    cdef int32_t part                 # of the latest transaction, if parts are counted apart

    cpdef int run(self) except -1
    cdef int _feed(self, int64_t warp, StreamBuffers stream, ChunkBuffers chunk) except -1
    cdef int _put_chunk(self, int64_t warp, ChunkBuffers chunk, bint more) except -1
    cdef int _run(self) noexcept nogil            # runs until a request; a definition overrides it
    cdef int _add_lines(self, const int64_t* lines, int64_t used, const int64_t* ids) noexcept nogil
    cdef int _add_flights(self) noexcept nogil
    cdef int _count_far(self, int64_t distance) noexcept nogil
    cdef void _end_block(self, int64_t slot) noexcept nogil
    cdef bint _find_asking(self) noexcept nogil

    # ---- ways of the definition `hardware`

    cdef inline bint _take_way(self, int64_t id) noexcept nogil:
        # Give an absent line an empty way of its set, with data of its own or from the pool, or the way of the least
        # recently used line that is not in flight; False: there is none.
        cdef Recency* r = &self.recency[self.line[id].set]
        if r.size == self.ways:
            if not leave_oldest(r, self.line):
                return False
        elif self.pool.lines and not self._find_data(pool_of(&self.pool, self.line[id].set)):
            return False
        recency_enter(r, &self.line[0].in_set, id, sizeof(Line))
        self.line[id].flags |= IN_SET
        return True

    cdef inline bint _find_data(self, int64_t pool) noexcept nogil:
        # Find data in a pool, if need be those of a line that has to leave; False: there are none.
        cdef int64_t later, number
        if self.pool.used[pool] < self.pool.lines:
            self.pool.used[pool] += 1
            return True
        if self.all_late >> pool & 1:
            return False
        for later in range(self.pool.sets):
            number = pool_set(&self.pool, pool, later)
            if leave_oldest(&self.recency[number], self.line):
                pool_pass(&self.pool, number)
                return True
        self.all_late |= <int64_t> 1 << pool
        return False

    cdef inline void _use_again(self, int64_t id) noexcept nogil:
        # A line that has a way is used again.
        recency_reuse(&self.recency[self.line[id].set], &self.line[0].in_set, id, sizeof(Line), self.protected)

    cdef inline int _count_served(self, int64_t id, bint again, Warp* w, int64_t arrival) noexcept nogil:
        # Count a transaction whose data arrive then, for definitions in which lines move when they are requested.
        # `again`: its line had a way before.
        if self._observe_and_remember(id) < 0:
            return NO_MEMORY
        if again:
            self._use_again(id)
        put_off(&w.latest, Arrival(arrival, self.order))
        self.order += 1
        self.transactions += 1
        return SERVED

    # ---- lines

    cdef inline int _observe(self, int64_t id) noexcept nogil:
        # Count the distance of a line in its set's stack.
        cdef int64_t d
        if self.position[id] < 0:
            self.infinite += 1
            return 0
        d = stack_distance(&self.stack[self.line[id].set], self.position[id])
        if d >= self.distance_end:
            return self._count_far(d)
        self.distance_count[d] += 1
        return 0

    cdef inline int _remember(self, int64_t id) noexcept nogil:
        # Move a line to the top of the shadow and, if distances are tracked, of its set's stack.
        raise_line(&self.shadow, self.shadow_lines, self.line, &self.line[0].in_shadow, IN_SHADOW, id)
        if self.track:
            return stack_touch(&self.stack[self.line[id].set], id, self.position)
        return 0

    cdef inline int _observe_and_remember(self, int64_t id) noexcept nogil:
        # Both at once, for definitions in which lines move when they are requested.
        cdef int64_t d
        raise_line(&self.shadow, self.shadow_lines, self.line, &self.line[0].in_shadow, IN_SHADOW, id)
        if not self.track:
            return 0
        d = stack_move(&self.stack[self.line[id].set], id, self.position)
        if d < 0:
            self.infinite += 1
            return -1 if d == FULL else 0
        if d >= self.distance_end:
            return self._count_far(d)
        self.distance_count[d] += 1
        return 0

    cdef inline void _fetch(self, int64_t id) noexcept nogil:
        # Prefetch the data that the next transaction reads.
        prefetch(&self.line[id])
        if self.track:
            prefetch(&self.position[id])

    cdef inline void _count_miss(self, Line* l) noexcept nogil:
        if not l.flags & SEEN:
            self.compulsory += 1
        elif l.flags & IN_SHADOW:
            self.associativity += 1
        else:
            self.capacity += 1
        l.flags |= SEEN

    cdef inline bint _mshr_free(self, const Warp* w) noexcept nogil:
        if self.mshrs >= 0 and self.mshrs_used >= self.mshrs:
            return False
        return self.mshr_per_warp < 0 or w.mshrs < self.mshr_per_warp

    # ---- origins

    cdef inline void _find_place(self, int64_t id, int64_t line) noexcept nogil:
        if self.tallies and origins_place(&self.origins, id, line) < 0:
            self.origins.lost = True

    cdef inline void _end_group(self) noexcept nogil:
        # Add what the counters have gained since the last call to the group of the latest transaction. Of loads,
        # stores and loads past the L1, most steps have the first kind only.
        cdef Tally* before = &self.origins.before
        cdef Tally* to
        if self.origins.group < 0:
            return
        to = &self.origins.tally[self.origins.group]
        gain(&to.requests, &before.requests, self.requests)
        gain(&to.transactions, &before.transactions, self.transactions)
        gain(&to.hits, &before.hits, self.hits)
        gain(&to.latency_misses, &before.latency_misses, self.latency_misses)
        gain(&to.compulsory, &before.compulsory, self.compulsory)
        gain(&to.capacity, &before.capacity, self.capacity)
        gain(&to.associativity, &before.associativity, self.associativity)
        gain(&to.tag_misses, &before.tag_misses, self.tag_misses)
        gain(&to.sector_misses, &before.sector_misses, self.sector_misses)
        if self.store_transactions > before.store_transactions:
            gain(&to.store_requests, &before.store_requests, self.store_requests)
            gain(&to.store_transactions, &before.store_transactions, self.store_transactions)
            gain(&to.store_sectors, &before.store_sectors, self.store_sectors)
            gain(&to.store_hits, &before.store_hits, self.store_hits)
        if self.bypassed_transactions > before.bypassed_transactions:
            gain(&to.bypassed_requests, &before.bypassed_requests, self.bypassed_requests)
            gain(&to.bypassed_transactions, &before.bypassed_transactions, self.bypassed_transactions)
            gain(&to.bypassed_sectors, &before.bypassed_sectors, self.bypassed_sectors)

    cdef inline void _count_for(self, const Warp* w, int64_t id) noexcept nogil:
        # Count what follows for the current instruction of a warp and the place of a line.
        cdef int64_t group
        cdef int32_t part = self.part
        if not self.tallies or self.origins.lost:
            return
        if self.parts:
            self.part = w.codes[w.at]
            if self.part == part and self.origins.group >= 0:
                return
        group = origins_group(&self.origins, w.codes[w.at], self.origins.place[id])
        if group == self.origins.group:
            return
        if group < 0:
            self.origins.lost = True
            return
        self._end_group()
        self.origins.group = group

    # ---- the log

    cdef inline void _log(self, int64_t id, uint32_t sectors, uint32_t full, uint8_t kind) noexcept nogil:
        if self.logged == self.log_capacity:
            if grow(<void**> &self.log, 2 * self.log_capacity + 64, sizeof(Request)) < 0:
                self.log_lost = True
                return
            self.log_capacity = 2 * self.log_capacity + 64
        self.log[self.logged] = Request(self.now, self.number[id], sectors, full, kind, self.part)
        self.logged += 1

    cdef inline void _log_stores(self, const Warp* w, int64_t row, int64_t first, int64_t end) noexcept nogil:
        # Log the lines of stores, from index `first` to `end` of a warp's lines; `row` is the first of its stores.
        cdef int64_t i, left = 0
        cdef int32_t part = self.part
        cdef uint8_t kind = WRITES
        for i in range(first, end):
            while left == 0:
                left = w.program[row].count
                kind = writing_kind(&w.program[row])
                if self.parts:
                    self.part = w.codes[row]
                row += 1
            left -= 1
            if w.masks == NULL:
                self._log(w.ids[i], 1, 0, kind)
            else:
                self._log(w.ids[i], <uint32_t> w.masks[i], <uint32_t> (w.masks[i] >> 32), kind)
        self.part = part

    # ---- loads that do not look into the L1

    cdef inline void _pass_by(self, Warp* w, int64_t most) noexcept nogil:
        # Send the next transactions of a load to the L2, at most so many.
        cdef uint32_t sectors
        while w.left > 0 and most > 0:
            sectors = 1 if w.masks == NULL else <uint32_t> w.masks[w.id_at]
            self._count_for(w, w.ids[w.id_at])
            if self.logs:
                self._log(w.ids[w.id_at], sectors, 0, READS)
            put_off(&w.latest, Arrival(self.now + self.lat_min + self._draw(), self.order))
            self.order += 1
            self.bypassed_transactions += 1
            self.bypassed_sectors += popcount(sectors)
            w.id_at += 1
            w.left -= 1
            most -= 1

    # ---- draws

    cdef inline bint _draws_suffice(self, int64_t wanted) noexcept nogil:
        return self.latency_at + wanted <= self.latency.shape[0]

    cdef inline int64_t _draw(self) noexcept nogil:
        self.latency_at += 1
        return self.latency[self.latency_at - 1]

    # ---- warps and blocks

    cdef inline void _make_ready(self, int64_t warp) noexcept nogil:
        if self.listed:
            if self.ready + self.ready_size == self.ready_room + 2 * self.warps:
                memmove(self.ready_room, self.ready, <size_t> self.ready_size * sizeof(int32_t))
                self.ready = self.ready_room
            self.ready[self.ready_size] = <int32_t> warp
        self.ready_size += 1
        self.ready_bits[warp >> 6] |= <uint64_t> 1 << (warp & 63)

    cdef inline void _take_ready_slot(self, int64_t warp) noexcept nogil:
        # Remove a warp from the ready ones, of which no list is kept.
        self.ready_size -= 1
        self.ready_bits[warp >> 6] &= ~(<uint64_t> 1 << (warp & 63))

    cdef inline int64_t _take_ready(self, int64_t index) noexcept nogil:
        # Remove the warp at an index of the ready list; the others keep their order.
        cdef int32_t* place = self.ready + index
        cdef int64_t warp = place[0]
        self.ready_size -= 1
        self.ready_bits[warp >> 6] &= ~(<uint64_t> 1 << (warp & 63))
        if index == 0:
            self.ready += 1
        else:
            memmove(place, place + 1, <size_t> (self.ready_size - index) * sizeof(int32_t))
        return warp

    cdef inline void _park(self, int64_t warp) noexcept nogil:
        self.parked[self.parked_size] = warp
        self.parked_size += 1

    cdef inline void _unpark(self) noexcept nogil:
        cdef int64_t i
        for i in range(self.parked_size):
            self._make_ready(self.parked[i])
        self.parked_size = 0

    cdef inline void _end_warp(self, int64_t warp) noexcept nogil:
        cdef int64_t slot = warp // self.block_warps
        self.alive[slot] -= 1
        if self.alive[slot] == 0:
            self._end_block(slot)

    cdef inline bint _wants_block(self) noexcept nogil:
        # Set `subject` to the next slot that requests a block; in waves, all blocks must have ended first.
        if self.asking == 0:
            self.filling = False
            return False
        return self._find_asking()

    cdef inline int64_t _next_event(self) noexcept nogil:
        # Return the time of the next effect, fill or arrival; -1 if there is none.
        cdef int64_t time = min(self.events.first, self.waiting.first)
        return -1 if time == NEVER else time
