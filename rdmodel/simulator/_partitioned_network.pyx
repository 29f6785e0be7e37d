# See _partitioned_network.pxd for the subject. An SM sends all its messages to slices of its own partition. They keep
# copies of lines from elsewhere, for which no slice ever waits: a copy reserves no way, and there is an MSHR for each.
"""Simulate an L2 with partitions: `PartitionedNetwork`, on top of `SectoredNetwork`."""

from libc.stdint cimport int64_t, uint32_t

from rdmodel._tree cimport popcount, table_slot
from rdmodel.simulator._cache cimport LOOSE, VALID, Cache, CacheLine, SectorMasks, cache_touch
from rdmodel.simulator._machine cimport (
    HIT, MISS, NO_MEMORY, PENDING_HIT, READ, SECTORS_AT, SENDER_AT, SENT_ON, WRITE, WRITTEN, Slice, who_asks,
)
from rdmodel.simulator._mshrs cimport mshr_merge, mshr_take
from rdmodel.simulator._network cimport C_GO, C_MEMORY, Network
from rdmodel.simulator._sectored_network cimport SectoredNetwork
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._ring cimport Item, ring_push


cdef class PartitionedNetwork(SectoredNetwork):
    """Slices in partitions."""

    cdef int _handle_away(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil:
        """Handle a message for a line whose home is in another partition."""
        cdef int64_t count
        if not item.what & WRITE:
            return self._read_copy(s, id, item, t)
        count = popcount(<uint32_t> (item.what >> SECTORS_AT))
        s.n.partition_sectors += count
        return NO_MEMORY if self._send_on(s, item, self.sector_flits[count], t) < 0 else SENT_ON

    cdef int _read_copy(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil:
        """Read sectors of a copy; those that it lacks come from the home of the line."""
        cdef int64_t sm = item.what >> SENDER_AT, victim
        cdef uint32_t asked = <uint32_t> (item.what >> SECTORS_AT)
        cdef CacheLine* l = &s.cache.line[id]
        cdef SectorMasks* m = &s.cache.sector[id]
        cdef bint there = l.flags & VALID != 0
        cdef uint32_t found = asked & m.valid if there else 0
        cdef uint32_t pending = asked & m.pending
        cdef uint32_t missing = asked & ~(found | pending)
        cdef int failure
        if not there:
            failure = self._find_written_way(s, id, &victim)
            if failure != WRITTEN:
                return failure
            if self._place(s, id, victim) < 0:
                return NO_MEMORY
            l.flags |= LOOSE
        if found == asked:
            if self._respond(s, sm, item.id, item.line, asked, t) < 0:
                return NO_MEMORY
        else:
            if l.mshr == NONE:
                l.mshr = mshr_take(&s.crossing, id)
            if l.mshr == NONE or mshr_merge(&s.crossing, l.mshr, who_asks(sm, asked), item.id) < 0:
                return NO_MEMORY
        if missing:
            m.pending |= missing
            item.id = id
            item.what = READ | <int64_t> missing << SECTORS_AT | (self.sms + (s - self.slice)) << SENDER_AT
            if self._send_on(s, item, self.read_flits, t) < 0:
                return NO_MEMORY
        cache_touch(&s.cache, id)
        s.n.reads += popcount(asked)
        s.n.hits += popcount(found)
        s.n.pending_hits += popcount(pending)
        s.n.partition_sectors += popcount(missing)
        return MISS if missing else PENDING_HIT if pending else HIT

    cdef int _send_on(self, Slice* s, Item item, int64_t flits, int64_t t) noexcept nogil:
        """Send a message to the home of its line."""
        cdef Slice* home = &self.slice[self._slice_of(item.line)]
        item.time = self._travel(&s.request_exit, &home.request_entry, flits, 0, t) + self.partition_latency
        self._rouse(home.number, item.time)
        return C_MEMORY if ring_push(&home.crossed, item) < 0 else C_GO

    cdef int _respond(self, Slice* s, int64_t sm, int64_t id, int64_t line, int64_t sectors, int64_t t) noexcept nogil:
        """Answer a read of an SM, or of a slice in another partition."""
        cdef Slice* reader
        cdef int64_t time
        if sm < self.sms:
            return Network._respond(self, s, sm, id, line, sectors, t)
        reader = &self.slice[sm - self.sms]
        time = self._travel(&s.answer_exit, &reader.answer_entry, self._response_flits(sectors), 0, t)
        time += self.partition_latency
        self._rouse(reader.number, time)
        return C_MEMORY if ring_push(&reader.answers, Item(time, line, id, sectors)) < 0 else C_GO

    cdef int _acknowledge(self, Slice* s, Item item, int64_t t) noexcept nogil:
        """Acknowledge a store to the SM, or to the slice that has sent it on."""
        cdef Slice* entrance = &self.slice[self._entrance(item.what >> SENDER_AT, item.line)]
        if entrance == s:
            return Network._acknowledge(self, s, item, t)
        item.time = self._travel(&s.answer_exit, &entrance.answer_entry, self.read_flits, 0, t)
        item.time += self.partition_latency
        item.id = ~item.id
        self._rouse(entrance.number, item.time)
        return C_MEMORY if ring_push(&entrance.answers, item) < 0 else C_GO

    cdef int _take_answer(self, Slice* s, int64_t t, Item item) noexcept nogil:
        """P1: take sectors of a copy from its home; a copy that has lost its way meanwhile does not keep them.

        An acknowledgement (~id is that of the write) goes on to the SM.
        """
        cdef SectorMasks* m
        if item.id < 0:
            item.id = ~item.id
            return Network._acknowledge(self, s, item, t)
        m = &s.cache.sector[item.id]
        m.pending &= ~(<uint32_t> item.what)
        if s.cache.line[item.id].flags & VALID:
            m.valid |= <uint32_t> item.what
        return self._answer_complete(s, &s.crossing, item.id, t)

    cdef void _take_from_copies(self, Slice* s, int64_t line, uint32_t sectors) noexcept nogil:
        """Take written sectors away from the copies of a line."""
        cdef int64_t home = s - self.slice, i
        cdef int64_t first = home - home % self.partitions
        cdef int64_t rank
        cdef Cache* cache
        for i in range(first, first + self.partitions):
            cache = &self.slice[i].cache
            rank = cache.table.slots[table_slot(&cache.table, line)].rank
            if i != home and rank != 0:
                cache.sector[rank - 1].valid &= ~sectors
