# See _network.pxd for the subject. A message books the ports that it leaves and enters when it is sent, so the crossbar
# needs no events.
"""Simulate the memory behind the SMs: `Network`, the base of `rdmodel.simulator._engine.Machine`."""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc

from rdmodel._tree cimport popcount
from rdmodel.simulator._cache cimport (
    DIRTY, GHOST, RESERVED, VALID, CacheLine, Spread, cache_complete, cache_drop, cache_expect, cache_fetch, cache_give,
    cache_init, cache_open_or_close, cache_touch, cache_victim, unit_of,
)
from rdmodel.simulator._clock cimport clock_of, first_cycle, sm_cycle, wake_at
from rdmodel.simulator._dram cimport Channel, Request, Timing, channel_command, channel_enter, channel_init
from rdmodel.simulator._foresight cimport slice_foresees_stall
from rdmodel.simulator._lookahead cimport slice_number, slice_prepare
from rdmodel.simulator._machine cimport (
    FAIL_LINE, FAIL_MERGE, FAIL_MSHR, FAIL_QUEUE, FAILED, HINT, HIT, KIND_MASK, MISS, NO_MEMORY, PASSED, PENDING_HIT,
    SECTORS_AT, SENDER_AT, UPDATE, WRITE, WRITER_AT, WRITE_MISS, WRITTEN, Slice, Sm, asked_by, fill_helps, who_asks,
)
from rdmodel.simulator._mshrs cimport (
    Waiter, mshr_available, mshr_merge, mshr_mergeable, mshr_next_waiter, mshr_release, mshr_take, mshrs_init,
)
from rdmodel.simulator._wakes cimport NEVER, wakes_plan
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._memory cimport grow
from rdmodel.structures._ring cimport Item, Ring, ring_first, ring_pop, ring_push


cdef class Network:
    """Crossbar, L2 slices and DRAM channels; subclasses fill the SMs."""

    def _read_memory(self, crossbar, l2, dram, clock, line):
        self.x_clock = clock_of(crossbar["clock"], clock)
        self.l_clock = clock_of(l2["clock"], clock)
        self.d_clock = clock_of(dram["clock"], clock)
        self.x_latency = crossbar["latency"]
        self.read_flits = -(-REQUEST_BYTES // crossbar["width"])
        self.data_flits = -(-(REQUEST_BYTES + line) // crossbar["width"])
        self.l_queue = l2["queue"]
        self.l_latency = l2["latency"]
        self.partitions = l2["partitions"]
        self.partition_latency = l2["partition_latency"]
        self.dirty_ways = l2["dirty_ways"]
        self.d_latency = dram["latency"]
        self._read_sectors(l2, line)
        self._read_packets(crossbar["width"], crossbar["packet_bytes"], line)

    def _read_sectors(self, l2, line):
        self.sectored = l2["sectored"]
        self.sectors = line // l2["sector_bytes"]
        self.fetch_sectors = l2["fetch_bytes"] // l2["sector_bytes"]
        self.spread = Spread(l2["slices"], l2["sets"], l2["hash_bits"], l2["hash_odd"])

    def _read_packets(self, width, packet_bytes, line):
        cdef int64_t count
        self.sized = self.sectored or packet_bytes < line
        self.line_mask = ((<int64_t> 1 << (line // packet_bytes)) - 1) << SECTORS_AT if self.sized else 0
        for count in range(line // packet_bytes + 1):
            self.sector_flits[count] = -(-(REQUEST_BYTES + count * packet_bytes) // width)

    def _allocate_slices(self, line, l2, dram):
        cdef int64_t i
        cdef Slice* s
        if self.slices == 0:
            return
        self.slice = <Slice*> calloc(<size_t> self.slices, sizeof(Slice))
        if self.slice == NULL:
            raise MemoryError
        for i in range(self.slices):
            s = &self.slice[i]
            mshrs_init(&s.mshrs, l2["mshrs"], l2["mshr_merge"])
            mshrs_init(&s.passing, -1, -1)
            mshrs_init(&s.crossing, -1, -1)
            if cache_init(&s.cache, l2["sets"], l2["ways"], 0) < 0:
                raise MemoryError
            s.cache.index.kind = 1
            s.cache.index.modulus = l2["sets"]
            s.cache.spread = self.spread
            s.cache.interleave = self.slices
            s.cache.sectored = self.sectored
            s.cache.reader_words = self.reader_words
            s.number = self.sms + i
            s.next_line[0] = s.next_line[1] = -1
            if channel_init(&s.channel, dram["banks"]) < 0:
                raise MemoryError
            s.channel.lines_per_row = dram["row"] // line
            s.channel.limit = dram["queue"]
            s.channel.timing = Timing(
                dram["tcl"], dram["trp"], dram["trc"], dram["tras"], dram["trcd"], dram["trrd"],
                -(-l2["fetch_bytes"] // dram["width"]), -(-l2["sector_bytes"] // dram["width"]),
            )

    cdef int64_t _hashed_slice(self, int64_t line) noexcept nogil:
        """Return the slice of a line: see `rdmodel.gpu.l2_layout`."""
        return unit_of(&self.spread, line) % self.slices

    cdef int _respond(self, Slice* s, int64_t sm, int64_t id, int64_t line, int64_t sectors, int64_t t) noexcept nogil:
        """Answer a read, for other modules; here, calls of `_answer` are inlined."""
        return self._answer(s, sm, id, line, sectors, t)

    cdef int _handle_sectors(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil:
        return NO_MEMORY

    cdef int _handle_hinting(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil:
        return NO_MEMORY

    cdef int _fill_slice_sectors(self, Slice* s, int64_t t, Item item) noexcept nogil:
        return C_MEMORY

    cdef int _take_answer(self, Slice* s, int64_t t, Item item) noexcept nogil:
        return C_MEMORY

    cdef int _send(self, int64_t i, int64_t t) noexcept nogil:
        cdef Sm* sm = &self.sm[i]
        cdef int64_t flits
        cdef Slice* s
        cdef Item item
        if self.ideal >= 0:
            return self._send_ideal(sm, t)
        while not sm.waiting and sm.misses.size > 0 and sm.request_port < self.x_clock.next:
            s = &self.slice[self._entrance(i, ring_first(&sm.misses).line)]
            if s.occupancy >= self.l_queue:
                sm.waiting = True
                return C_MEMORY if ring_push(&s.waiting, Item(t, 0, 0, i)) < 0 else C_GO
            item = self._take_miss(sm)
            if item.what & WRITE:
                sm.n.write_messages += 1
                flits = self.data_flits
            else:
                sm.n.read_messages += 1
                flits = self.read_flits
            if self.sized:
                flits = self._count_sectors_sent(sm, item)
            item.time = self._travel(&sm.request_port, &s.request_port, flits, self.x_latency, t) + self.l_latency
            item.what |= i << SENDER_AT
            s.occupancy += 1
            self._rouse(s.number, item.time)
            cache_expect(&s.cache, item.line)
            if ring_push(&s.input, item) < 0:
                return C_MEMORY
        return C_GO

    cdef inline Item _take_miss(self, Sm* sm) noexcept nogil:
        """Take the first message from the miss queue, which may have lacked a place for another one."""
        sm.retry |= self.deciding or sm.reason == FAIL_QUEUE
        return ring_pop(&sm.misses)

    cdef int64_t _count_sectors_sent(self, Sm* sm, Item item) noexcept nogil:
        """Count the sectors of a message that leaves an SM; return its flits."""
        cdef int64_t sectors = popcount(<uint32_t> (item.what >> SECTORS_AT))
        if not item.what & WRITE:
            sm.n.read_sectors += sectors
            return self.read_flits
        sm.n.write_sectors += sectors
        return self.sector_flits[sectors]

    cdef int64_t _response_flits(self, int64_t sectors) noexcept nogil:
        return self.sector_flits[popcount(<uint32_t> sectors)]

    cdef inline int _send_ideal(self, Sm* sm, int64_t t) noexcept nogil:
        """Respond to every miss after the ideal memory's latency."""
        cdef Item item
        while sm.misses.size > 0:
            item = self._take_miss(sm)
            if self.sized:
                self._count_sectors_sent(sm, item)
            if item.what & WRITE:
                sm.n.write_messages += 1
                if item.id >> WRITER_AT == 0:
                    continue
            else:
                sm.n.read_messages += 1
            item.time = t + self.ideal
            if ring_push(&sm.responses, item) < 0:
                return C_MEMORY
        return C_GO

    cdef inline int64_t _travel(
        self, int64_t* leaves, int64_t* enters, int64_t flits, int64_t latency, int64_t t
    ) noexcept nogil:
        """Book both ports for a message that is sent at `t`; return the SM cycle in which it has arrived."""
        cdef int64_t out = max(leaves[0], self.x_clock.first)
        cdef int64_t into = max(out + latency, enters[0])
        leaves[0] = out + flits
        enters[0] = into + flits
        return max(sm_cycle(&self.x_clock, into + flits), t + 1)

    cdef int _slice_cycle(self, int64_t p, int64_t t) noexcept nogil:
        cdef Slice* s = &self.slice[p]
        while s.returns.size > 0 and ring_first(&s.returns).time <= t:
            if self._fill_slice(s, t, ring_pop(&s.returns)) < 0:
                return C_MEMORY
        while s.answers.size > 0 and ring_first(&s.answers).time <= t:
            if self._take_answer(s, t, ring_pop(&s.answers)) < 0:
                return C_MEMORY
        if (
            s.input.size + s.crossed.size > 0 and (not s.stalled or s.retry)
            and ring_first(self._first_input(s)).time <= t and self._serve(p, t) < 0
        ):
            return C_MEMORY
        if s.channel.queued > 0 and self._command(p, self._first_open_cycle(s, t)) < 0:
            return C_MEMORY
        if self.foreseeing_slices and s.input.size > 0 and not s.stalled and ring_first(&s.input).time <= t:
            slice_foresees_stall(s, self.l_clock.next)
        wakes_plan(&self.wakes, s.number, self._slice_wake(s, t), t)
        return C_GO

    cdef inline int64_t _slice_wake(self, Slice* s, int64_t t) noexcept nogil:
        cdef int64_t wake = NEVER
        if s.returns.size > 0:
            wake = ring_first(&s.returns).time
        if s.channel.queued > 0:
            wake = min(wake, wake_at(&self.d_clock, s.channel.next))
        if s.answers.size > 0:
            wake = min(wake, ring_first(&s.answers).time)
        if s.input.size + s.crossed.size > 0 and (not s.stalled or s.retry):
            wake = min(wake, max(ring_first(self._first_input(s)).time, t + 1))
        return max(wake, t + 1)

    cdef inline int _fill_slice(self, Slice* s, int64_t t, Item item) noexcept nogil:
        """P1: take data from the DRAM, of a line or of a read that bypasses the L2 (~id is its entry)."""
        cdef CacheLine* l
        cdef int64_t mshr
        cdef Waiter waiter
        if self.sectored:
            return self._fill_slice_sectors(s, t, item)
        if item.id < 0:
            while mshr_next_waiter(&s.passing, ~item.id, &waiter):
                if self._answer(s, <uint32_t> waiter.who, waiter.id, item.line, asked_by(waiter.who), t) < 0:
                    return C_MEMORY
            mshr_release(&s.passing, ~item.id)
            return C_GO
        l = &s.cache.line[item.id]
        mshr = l.mshr
        l.mshr = NONE
        cache_complete(&s.cache, item.id)
        self._retry_after_fill(s, l.set)
        while mshr_next_waiter(&s.mshrs, mshr, &waiter):
            if self._answer(s, <uint32_t> waiter.who, waiter.id, item.line, asked_by(waiter.who), t) < 0:
                return C_MEMORY
        mshr_release(&s.mshrs, mshr)
        return C_GO

    cdef inline void _retry_after_fill(self, Slice* s, int64_t set) noexcept nogil:
        """Let a stalled request try again if the fill of a line of this set may help it.

        Where there are partitions, another request may have come before the stalled one.
        """
        s.retry |= self.partitions > 1 or fill_helps(s.reason, s.tried, set)

    cdef inline int _answer(self, Slice* s, int64_t sm, int64_t id, int64_t line, int64_t sectors, int64_t t) noexcept nogil:
        cdef Sm* m = &self.sm[sm]
        cdef int64_t flits = self._response_flits(sectors) if self.sized else self.data_flits
        cdef int64_t time = self._travel(&s.response_port, &m.response_port, flits, self.x_latency, t)
        self._rouse(m.number, time)
        if id >= 0:
            cache_fetch(&m.cache, id & ~HINT)
        return C_MEMORY if ring_push(&m.responses, Item(time, line, id, t << SECTORS_AT)) < 0 else C_GO

    cdef int _acknowledge(self, Slice* s, Item item, int64_t t) noexcept nogil:
        """Tell the SM that a store of one of its blocks has been served."""
        cdef Sm* m = &self.sm[item.what >> SENDER_AT]
        cdef int64_t time = self._travel(&s.response_port, &m.response_port, self.read_flits, self.x_latency, t)
        self._rouse(m.number, time)
        return C_MEMORY if ring_push(&m.responses, Item(time, item.line, item.id, WRITE)) < 0 else C_GO

    cdef inline int _serve(self, int64_t p, int64_t t) noexcept nogil:
        """P2: handle one request per L2 cycle; if the first one has stalled, something may help it now."""
        cdef Slice* s = &self.slice[p]
        cdef int64_t cycle = self.l_clock.first, end = self.l_clock.next
        cdef Ring* queue = self._first_input(s)
        cdef Item item
        cdef int outcome
        while cycle < end and queue.size > 0 and ring_first(queue).time <= t:
            if s.stalled:
                s.n.fails[s.reason - FAILED] += cycle - s.since
                s.stalled = False
            s.retry = False
            outcome = self._handle(s, ring_first(queue), t)
            if outcome == NO_MEMORY:
                return C_MEMORY
            if outcome >= FAILED:
                s.stalled = True
                s.reason = outcome
                s.since = cycle
                break
            item = ring_pop(queue)
            if slice_prepare(s, queue) < 0:
                return C_MEMORY
            self._log(LOG_SLICE, t, p, item.line, outcome, <uint32_t> (item.what >> SECTORS_AT))
            if self.store_acks and (outcome == WRITTEN or outcome == WRITE_MISS) and item.id >> WRITER_AT != 0:
                if self._acknowledge(s, item, t) < 0:
                    return C_MEMORY
            if queue == &s.input:
                s.occupancy -= 1
                if s.waiting.size > 0 and self._grant(s, t) < 0:
                    return C_MEMORY
            queue = self._first_input(s)
            cycle += 1
        return C_GO

    cdef int _grant(self, Slice* s, int64_t t) noexcept nogil:
        """Let the SM that has waited longest send."""
        cdef int64_t i = ring_pop(&s.waiting).what
        self.sm[i].waiting = False
        self._rouse(i, t + 1)
        return self._send(i, t)

    cdef inline int _handle(self, Slice* s, const Item* item, int64_t t) noexcept nogil:
        cdef int64_t id
        if slice_number(s, item.line, &id) < 0:
            return NO_MEMORY
        s.tried = s.cache.line[id].set
        if self.elaborate:
            return self._handle_hinting(s, id, item[0], t) if self.hinting else self._handle_sectors(s, id, item[0], t)
        return self._handle_lines(s, id, item, t)

    cdef inline int _handle_lines(self, Slice* s, int64_t id, const Item* item, int64_t t) noexcept nogil:
        cdef int outcome
        if item.what & WRITE:
            return self._handle_write(s, id, item.what & KIND_MASK == UPDATE)
        outcome = self._read_slice(s, id, item, t)
        if self.closing_slices and outcome < FAILED:
            s.looked += 1
            s.not_found += outcome == MISS
        return outcome

    cdef inline int _read_slice(self, Slice* s, int64_t id, const Item* item, int64_t t) noexcept nogil:
        cdef int64_t sm = item.what >> SENDER_AT
        cdef uint32_t asked = <uint32_t> (item.what >> SECTORS_AT)
        cdef CacheLine* l = &s.cache.line[id]
        if l.mshr != NONE:
            if not mshr_mergeable(&s.mshrs, l.mshr):
                return FAIL_MERGE
            s.n.pending_hits += 1
            s.n.reads += 1
            cache_touch(&s.cache, id)
            return NO_MEMORY if mshr_merge(&s.mshrs, l.mshr, who_asks(sm, asked), item.id) < 0 else PENDING_HIT
        if s.closed and not l.flags & DIRTY:
            return self._pass_slice(s, id, who_asks(sm, asked), item.id)
        if l.flags & VALID:
            s.n.hits += 1
            s.n.reads += 1
            cache_touch(&s.cache, id)
            return NO_MEMORY if self._answer(s, sm, item.id, item.line, asked, t) < 0 else HIT
        return self._fetch(s, id, who_asks(sm, asked), item.id)

    cdef inline int _pass_slice(self, Slice* s, int64_t id, int64_t who, int64_t wanted) noexcept nogil:
        """Read a line from the DRAM past a closed L2, which only updates its tags."""
        cdef CacheLine* l = &s.cache.line[id]
        cdef int64_t entry, victim
        if s.channel.queued >= s.channel.limit:
            return FAIL_QUEUE
        entry = mshr_take(&s.passing, id)
        if entry == NONE or mshr_merge(&s.passing, entry, who, wanted) < 0:
            return NO_MEMORY
        if l.flags & VALID:
            cache_touch(&s.cache, id)
        else:
            s.not_found += 1
            if cache_victim(&s.cache, l.set, &victim):
                if self._evict(s, victim) < 0:
                    return NO_MEMORY
                cache_give(&s.cache, id, VALID | GHOST)
        s.n.bypassed += 1
        s.n.reads += 1
        return NO_MEMORY if channel_enter(&s.channel, l.line, ~entry, &self.spread, False, 1) < 0 else PASSED

    cdef void _open_or_close_slice(self, Slice* s, double max_missing_share) noexcept nogil:
        """At the end of a period, close the slice if too many reads missed, else open it."""
        if cache_open_or_close(&s.cache, &s.closed, &s.looked, &s.not_found, max_missing_share, False):
            # A stalled request may succeed now.
            s.retry = True
            self._rouse(s.number, self.now + 1)

    cdef inline int _fetch(self, Slice* s, int64_t id, int64_t who, int64_t wanted) noexcept nogil:
        """Read an absent line from the DRAM: take way, MSHR and a place in the DRAM's queue, or nothing."""
        cdef CacheLine* l = &s.cache.line[id]
        cdef int64_t victim
        if not cache_victim(&s.cache, l.set, &victim):
            return FAIL_LINE
        if not mshr_available(&s.mshrs):
            return FAIL_MSHR
        if s.channel.queued >= s.channel.limit:
            return FAIL_QUEUE
        l.mshr = mshr_take(&s.mshrs, id)
        if l.mshr == NONE or mshr_merge(&s.mshrs, l.mshr, who, wanted) < 0 or self._evict(s, victim) < 0:
            return NO_MEMORY
        cache_give(&s.cache, id, RESERVED)
        s.n.misses += 1
        s.n.reads += 1
        return NO_MEMORY if channel_enter(&s.channel, l.line, id, &self.spread, False, 1) < 0 else MISS

    cdef inline int _handle_write(self, Slice* s, int64_t id, bint atomic) noexcept nogil:
        """Allocate a line for a write, and fetch it for an atomic only: the L2 knows the bytes that it has."""
        cdef CacheLine* l = &s.cache.line[id]
        cdef int64_t taken = id, cleaned = NONE
        cdef bint there = l.flags & (VALID | RESERVED) != 0, fetches = atomic and not there, was_dirty
        if not there and not cache_victim(&s.cache, l.set, &taken):
            return FAIL_LINE
        was_dirty = taken != NONE and s.cache.line[taken].flags & DIRTY != 0
        if not was_dirty:
            cleaned = self._dirty_line_to_clean(s, l.set)
        if fetches and not mshr_available(&s.mshrs):
            return FAIL_MSHR
        if (fetches or cleaned != NONE or (was_dirty and not there)) and s.channel.queued >= s.channel.limit:
            return FAIL_QUEUE
        if there:
            l.flags = (l.flags & ~GHOST) | DIRTY
            cache_touch(&s.cache, id)
        elif self._evict(s, taken) < 0:
            return NO_MEMORY
        else:
            cache_give(&s.cache, id, (RESERVED if fetches else VALID) | DIRTY)
        if fetches:
            l.mshr = mshr_take(&s.mshrs, id)
            if l.mshr == NONE or channel_enter(&s.channel, l.line, id, &self.spread, False, 1) < 0:
                return NO_MEMORY
        s.n.writes += 1
        s.n.write_hits += there
        s.n.atomic_sectors += fetches
        if cleaned != NONE:
            s.cache.line[cleaned].flags &= ~DIRTY
            if channel_enter(&s.channel, s.cache.line[cleaned].line, cleaned, &self.spread, True, 1) < 0:
                return NO_MEMORY
        return WRITTEN if there else WRITE_MISS

    cdef inline int64_t _dirty_line_to_clean(self, const Slice* s, int64_t set) noexcept nogil:
        """Return the least recently used dirty line of a set if no further one may be dirty, else NONE."""
        cdef int64_t count = 0, oldest = NONE, id = s.cache.set[set].newest
        if self.dirty_ways < 0:
            return NONE
        while id != NONE:
            if s.cache.sector[id].written != 0 if self.sectored else s.cache.line[id].flags & DIRTY != 0:
                oldest = id
                count += 1
            id = s.cache.line[id].in_set.older
        return oldest if count >= self.dirty_ways else NONE

    cdef inline int _evict(self, Slice* s, int64_t victim) noexcept nogil:
        """Take the way of a line, NONE for an empty way; a dirty line is written to the DRAM."""
        cdef bint dirty
        if victim == NONE:
            return C_GO
        dirty = s.cache.line[victim].flags & DIRTY != 0
        cache_drop(&s.cache, victim)
        if dirty and channel_enter(&s.channel, s.cache.line[victim].line, victim, &self.spread, True, 1) < 0:
            return C_MEMORY
        return C_GO

    cdef inline int64_t _first_open_cycle(self, const Slice* s, int64_t t) noexcept nogil:
        """Return the first DRAM cycle for which requests may still come: after those of `t`, or before the next message.

        A message is on its way for longer than the L2 takes. Before it, nothing but the channel's own requests matters.
        """
        cdef int64_t until = t + 1
        if self.commands_ahead and not s.stalled:
            until = ring_first(&s.input).time if s.input.size > 0 else t + 1 + self.l_latency
        return first_cycle(&self.d_clock, until) if until > t + 1 else self.d_clock.next

    cdef inline int _command(self, int64_t p, int64_t end) noexcept nogil:
        """P3: at most one command per DRAM cycle, up to cycle `end`."""
        cdef Slice* s = &self.slice[p]
        cdef Channel* c = &s.channel
        cdef int64_t cycle = max(self.d_clock.first, c.next)
        cdef const Request* moved
        if cycle >= end:
            return C_GO
        while cycle < end and c.queued > 0:
            moved = channel_command(c, cycle)
            if moved != NULL:
                self._log(LOG_DRAM, cycle, p, moved.line, moved.write, moved.sectors)
                s.retry |= self.partitions > 1 or s.reason == FAIL_QUEUE
                if moved.id >= 0:
                    cache_fetch(&s.cache, moved.id)
                if not moved.write and ring_push(
                    &s.returns,
                    Item(sm_cycle(&self.d_clock, c.bus_free) + self.d_latency, moved.line, moved.id, moved.sectors),
                ) < 0:
                    return C_MEMORY
            cycle = c.next
        c.next = cycle
        return C_GO

    cdef void _append_log(
        self, int64_t kind, int64_t time, int64_t where, int64_t a, int64_t b, int64_t c
    ) noexcept nogil:
        cdef int64_t capacity
        cdef int64_t* row
        if self.log_size == self.log_capacity:
            capacity = max(<int64_t> 4096, 2 * self.log_capacity)
            if grow(<void**> &self.log, capacity * LOG_WIDTH, sizeof(int64_t)) < 0:
                self.log_lost = True
                return
            self.log_capacity = capacity
        row = self.log + self.log_size * LOG_WIDTH
        row[0], row[1], row[2], row[3], row[4], row[5] = kind, time, where, a, b, c
        self.log_size += 1
