# See _sectored_network.pxd for the subject. A line in flight has one MSHR, where reads wait until the last of their
# sectors is there. The DRAM has an access for each group of sectors that it fetches, and for each that is written back.
"""Simulate an L2 with sectors: `SectoredNetwork`, on top of `Network`."""

from libc.stdint cimport int64_t, uint32_t

from rdmodel._tree cimport popcount
from rdmodel.simulator._cache cimport (
    GHOST, RESERVED, VALID, CacheLine, SectorMasks, cache_complete, cache_drop, cache_give, cache_touch, cache_victim,
    cache_wait,
)
from rdmodel.simulator._dram cimport channel_enter
from rdmodel.simulator._machine cimport (
    FAIL_LINE, FAIL_MERGE, FAIL_MSHR, FAIL_QUEUE, HIT, KIND_MASK, MISS, NO_MEMORY, PASSED, PENDING_HIT, SECTORS_AT,
    SENDER_AT, UPDATE, WRITE, WRITE_MISS, WRITTEN, Slice, asked_by, who_asks,
)
from rdmodel.simulator._mshrs cimport (
    Mshr, Mshrs, Waiter, mshr_available, mshr_merge, mshr_mergeable, mshr_next_waiter, mshr_release, mshr_take,
)
from rdmodel.simulator._network cimport C_GO, C_MEMORY, Network
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._ring cimport Item


cdef class SectoredNetwork(Network):
    """Slices with sectors."""

    cdef int _handle_sectors(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil:
        if self.partitions > 1 and self._slice_of(item.line) != s - self.slice:
            return self._handle_away(s, id, item, t)
        if item.what & WRITE:
            return self._write_slice_sectors(s, id, item)
        return self._read_at_home(s, id, item, t)

    cdef int _handle_away(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil:
        return NO_MEMORY

    cdef void _take_from_copies(self, Slice* s, int64_t line, uint32_t sectors) noexcept nogil:
        pass

    cdef int _read_at_home(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil:
        """Read sectors of a line whose home is here, past the slice if it is closed and they are not its own."""
        cdef bint absent = s.cache.line[id].flags & (VALID | RESERVED) == 0
        cdef SectorMasks* m = &s.cache.sector[id]
        cdef int outcome
        if s.closed and (absent or (m.pending | m.written) == 0):
            outcome = self._pass_slice_sectors(
                s, id, item.what >> SENDER_AT, <uint32_t> (item.what >> SECTORS_AT), item.id
            )
        else:
            outcome = self._read_slice_sectors(s, id, item, t)
        if self.closing_slices and outcome < NO_MEMORY:
            s.looked += 1
            s.not_found += absent
        return outcome

    cdef int _pass_slice_sectors(self, Slice* s, int64_t id, int64_t sm, uint32_t asked, int64_t wanted) noexcept nogil:
        """Read sectors from the DRAM past a closed L2, which only updates its tags."""
        cdef CacheLine* l = &s.cache.line[id]
        cdef int64_t entry, victim, first = 0, group = (<int64_t> 1 << self.fetch_sectors) - 1
        if s.channel.queued >= s.channel.limit:
            return FAIL_QUEUE
        entry = mshr_take(&s.passing, id)
        if entry == NONE or mshr_merge(&s.passing, entry, who_asks(sm, asked), wanted) < 0:
            return NO_MEMORY
        if l.flags & VALID:
            cache_touch(&s.cache, id)
        elif cache_victim(&s.cache, l.set, &victim):
            if self._place(s, id, victim) < 0:
                return NO_MEMORY
            l.flags |= GHOST
        while first < self.sectors:
            if asked & (group << first):
                s.passing.item[entry].sectors |= <uint32_t> (group << first)
                if channel_enter(&s.channel, l.line, ~entry, &self.spread, False, group << first) < 0:
                    return NO_MEMORY
            first += self.fetch_sectors
        s.n.bypassed += popcount(asked)
        if sm < self.sms:
            s.n.reads += popcount(asked)
        return PASSED

    cdef int _take_passing(self, Slice* s, int64_t t, Item item) noexcept nogil:
        """P1: take sectors from the DRAM for a read past the L2, and answer it if they are the last ones."""
        cdef Mshr* entry = &s.passing.item[~item.id]
        cdef Waiter waiter
        entry.sectors &= ~(<uint32_t> item.what)
        if entry.sectors:
            return C_GO
        while mshr_next_waiter(&s.passing, ~item.id, &waiter):
            if self._respond(s, <uint32_t> waiter.who, waiter.id, item.line, asked_by(waiter.who), t) < 0:
                return C_MEMORY
        mshr_release(&s.passing, ~item.id)
        return C_GO

    cdef int _read_slice_sectors(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil:
        cdef int64_t sm = item.what >> SENDER_AT, victim
        cdef uint32_t asked = <uint32_t> (item.what >> SECTORS_AT)
        cdef CacheLine* l = &s.cache.line[id]
        cdef SectorMasks* m = &s.cache.sector[id]
        cdef bint there = l.flags & (VALID | RESERVED) != 0
        cdef uint32_t found = asked & m.valid if there else 0
        cdef uint32_t pending = asked & m.pending if there else 0
        cdef uint32_t missing = asked & ~(found | pending)
        if found != asked:
            if l.mshr != NONE and not mshr_mergeable(&s.mshrs, l.mshr):
                return FAIL_MERGE
            if not there and not cache_victim(&s.cache, l.set, &victim):
                return FAIL_LINE
            if l.mshr == NONE and not mshr_available(&s.mshrs):
                return FAIL_MSHR
            if missing and s.channel.queued >= s.channel.limit:
                return FAIL_QUEUE
            if not there and self._place(s, id, victim) < 0:
                return NO_MEMORY
            if l.mshr == NONE:
                l.mshr = mshr_take(&s.mshrs, id)
            if l.mshr == NONE or mshr_merge(&s.mshrs, l.mshr, who_asks(sm, asked), item.id) < 0:
                return NO_MEMORY
            if missing and self._fetch_sectors(s, id, missing) < 0:
                return NO_MEMORY
        elif self._respond(s, sm, item.id, item.line, asked, t) < 0:
            return NO_MEMORY
        cache_touch(&s.cache, id)
        if sm < self.sms:
            s.n.reads += popcount(asked)
        s.n.hits += popcount(found)
        s.n.pending_hits += popcount(pending)
        s.n.misses += popcount(missing)
        return MISS if missing else PENDING_HIT if pending else HIT

    cdef int _fetch_sectors(self, Slice* s, int64_t id, uint32_t missing) noexcept nogil:
        """Read the missing sectors from the DRAM, each with those that are fetched together; return their number."""
        cdef CacheLine* l = &s.cache.line[id]
        cdef SectorMasks* m = &s.cache.sector[id]
        cdef int count = 0
        cdef int64_t first = 0, group = (<int64_t> 1 << self.fetch_sectors) - 1
        while first < self.sectors:
            if missing & (group << first):
                m.pending |= <uint32_t> (group << first) & ~m.valid
                count += <int> self.fetch_sectors
                if channel_enter(&s.channel, l.line, id, &self.spread, False, group << first) < 0:
                    return C_MEMORY
            first += self.fetch_sectors
        cache_wait(&s.cache, id)
        return count

    cdef int _write_slice_sectors(self, Slice* s, int64_t id, Item item) noexcept nogil:
        """Write sectors, and fetch those that an atomic lacks only; those that are written in full can be read."""
        cdef uint32_t asked = <uint32_t> (item.what >> SECTORS_AT), full = <uint32_t> item.id
        cdef CacheLine* l = &s.cache.line[id]
        cdef SectorMasks* m = &s.cache.sector[id]
        cdef bint there = l.flags & (VALID | RESERVED) != 0
        cdef uint32_t missing = 0
        cdef int64_t victim = id, cleaned = NONE, fetched
        cdef int failure
        if not there:
            failure = self._find_written_way(s, id, &victim)
            if failure != WRITTEN:
                return failure
        if self.dirty_ways >= 0 and (victim == NONE or s.cache.sector[victim].written == 0):
            # A victim that is written back makes room for another dirty line, too.
            cleaned = self._dirty_line_to_clean(s, l.set)
            if cleaned != NONE and s.channel.queued >= s.channel.limit:
                return FAIL_QUEUE
        if item.what & KIND_MASK == UPDATE:
            missing = asked & ~(m.valid | m.pending if there else 0)
        if missing:
            if l.mshr == NONE and not mshr_available(&s.mshrs):
                return FAIL_MSHR
            if s.channel.queued >= s.channel.limit:
                return FAIL_QUEUE
        if there:
            s.n.write_hits += popcount(asked & (m.valid | m.pending | m.written | m.cleaned))
        elif self._place(s, id, victim) < 0:
            return NO_MEMORY
        l.flags &= ~GHOST
        if missing:
            if l.mshr == NONE:
                l.mshr = mshr_take(&s.mshrs, id)
            fetched = C_MEMORY if l.mshr == NONE else self._fetch_sectors(s, id, missing)
            if fetched < 0:
                return NO_MEMORY
            s.n.atomic_sectors += fetched
        m.written |= asked
        m.valid |= full & ~m.pending
        cache_touch(&s.cache, id)
        if self.partitions > 1:
            self._take_from_copies(s, item.line, asked)
        s.n.writes += popcount(asked)
        if cleaned != NONE and self._clean(s, cleaned) < 0:
            return NO_MEMORY
        return WRITTEN if there else WRITE_MISS

    cdef int _clean(self, Slice* s, int64_t id) noexcept nogil:
        """Write the written sectors of a line to the DRAM; the line keeps its way."""
        cdef SectorMasks* m = &s.cache.sector[id]
        cdef uint32_t written = m.written
        m.cleaned |= written
        m.written = 0
        return self._write_back(s, id, written)

    cdef int _write_back(self, Slice* s, int64_t id, uint32_t sectors) noexcept nogil:
        """Write sectors of a line to the DRAM, one access for each."""
        cdef int64_t sector
        for sector in range(self.sectors):
            if sectors >> sector & 1 and channel_enter(
                &s.channel, s.cache.line[id].line, id, &self.spread, True, <int64_t> 1 << sector
            ) < 0:
                return C_MEMORY
        return C_GO

    cdef int _find_written_way(self, Slice* s, int64_t id, int64_t* victim) noexcept nogil:
        """Find a way that an access may take without reading the DRAM; return what is missing, or WRITTEN."""
        if not cache_victim(&s.cache, s.cache.line[id].set, victim):
            return FAIL_LINE
        if victim[0] != NONE and s.cache.sector[victim[0]].written and s.channel.queued >= s.channel.limit:
            return FAIL_QUEUE
        return WRITTEN

    cdef int _place(self, Slice* s, int64_t id, int64_t victim) noexcept nogil:
        """Give an absent line the way of a victim, or an empty one; write the victim's written sectors to the DRAM."""
        if victim != NONE:
            cache_drop(&s.cache, victim)
            if self._write_back(s, victim, s.cache.sector[victim].written) < 0:
                return C_MEMORY
        s.cache.sector[id].valid = s.cache.sector[id].written = s.cache.sector[id].cleaned = 0
        cache_give(&s.cache, id, VALID)
        return C_GO

    cdef int _fill_slice_sectors(self, Slice* s, int64_t t, Item item) noexcept nogil:
        """P1: take sectors from the DRAM, and answer the reads that have all of theirs now."""
        cdef SectorMasks* m
        if item.id < 0:
            return self._take_passing(s, t, item)
        m = &s.cache.sector[item.id]
        m.valid |= <uint32_t> item.what & m.pending
        m.pending &= ~(<uint32_t> item.what)
        if m.pending == 0:
            cache_complete(&s.cache, item.id)
        return self._answer_complete(s, &s.mshrs, item.id, t)

    cdef int _answer_complete(self, Slice* s, Mshrs* mshrs, int64_t id, int64_t t) noexcept nogil:
        """Answer the reads of a line that wait for none of its sectors any more; free its MSHR after the last."""
        cdef CacheLine* l = &s.cache.line[id]
        cdef uint32_t pending = s.cache.sector[id].pending
        cdef Mshr* entry = &mshrs.item[l.mshr]
        cdef int64_t i = entry.first, previous = NONE
        cdef Waiter waiter
        while i != NONE:
            waiter = mshrs.waiter[i]
            if asked_by(waiter.who) & pending:
                previous = i
                i = waiter.next
                continue
            if previous == NONE:
                entry.first = waiter.next
            else:
                mshrs.waiter[previous].next = waiter.next
            if entry.last == i:
                entry.last = previous
            mshrs.waiter[i].next = mshrs.free_waiter
            mshrs.free_waiter = i
            entry.merged -= 1
            if self._respond(s, <uint32_t> waiter.who, waiter.id, l.line, asked_by(waiter.who), t) < 0:
                return C_MEMORY
            i = waiter.next
        if pending == 0:
            mshr_release(mshrs, l.mshr)
            l.mshr = NONE
        self._retry_after_fill(s, l.set)
        return C_GO
