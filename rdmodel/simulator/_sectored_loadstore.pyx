# See _sectored_loadstore.pxd for the subject. An MSHR holds the sectors that one transaction missed; a line has one or
# several. With allocate="miss" a line in flight always has a way, with "fill" it may have none.
"""Simulate an L1 with sectors: `SectoredLoadStore`, on top of `Admission`."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from rdmodel._tree cimport popcount
from rdmodel.simulator._admission cimport Admission
from rdmodel.simulator._cache cimport (
    GHOST, IN_SHADOW, LOOSE, RESERVED, VALID, CacheLine, SectorMasks, cache_complete, cache_touch, cache_victim, cache_wait,
    note_store, shadow_raise,
)
from rdmodel.simulator._issue cimport ATOMIC, Warp
from rdmodel.simulator._loadstore cimport NO_WAY, PROTECTED, WAY
from rdmodel.simulator._machine cimport (
    FAIL_LINE, FAIL_MERGE, FAIL_MSHR, FAIL_QUEUE, HIT, MISS, NO_MEMORY, PENDING_HIT, READ, SECTORS_AT, UPDATE, WRITE,
    WRITTEN, Entry, Sm,
)
from rdmodel.simulator._mshrs cimport (
    Mshr, Waiter, mshr_available, mshr_merge, mshr_mergeable, mshr_next_waiter, mshr_release, mshr_take,
)
from rdmodel.simulator._network cimport C_GO, C_MEMORY, LOG_FILL
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._ring cimport Item, ring_push

cdef extern from *:
    int lowest_sector "__builtin_ctz"(unsigned int x) noexcept nogil


cdef class SectoredLoadStore(Admission):
    """Loads that find, wait for and miss sectors, and stores that write in place and through."""

    cdef int _look_up_sectors(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        cdef CacheLine* l = &sm.cache.line[id]
        cdef SectorMasks* m = &sm.cache.sector[id]
        cdef bint placed = l.flags & (VALID | RESERVED) != 0
        cdef bint absent = not placed and m.pending == 0
        cdef uint32_t found = sm.asked & m.valid if placed else 0
        cdef uint32_t pending = sm.asked & m.pending
        cdef uint32_t missing = sm.asked & ~(found | pending)
        cdef uint32_t left = pending
        cdef int64_t mshr, victim = NONE
        cdef Warp* w = &sm.warp[sm.load[load].warp]
        cdef int outcome
        while left:
            mshr = sm.cache.flight[(id << sm.cache.sector_bits) + lowest_sector(left)]
            if not mshr_mergeable(&sm.mshrs, mshr):
                return FAIL_MERGE
            left &= ~sm.mshrs.item[mshr].sectors
        if missing:
            outcome = self._find_room(sm, load, id, absent, &victim)
            if outcome != MISS:
                return outcome
        self._count_sectors(sm, id, absent, found, pending, missing)
        if pending and self._merge_sectors(sm, load, id, pending) < 0:
            return NO_MEMORY
        if absent and not self.fill:
            if self._place_line(sm, id, victim, w.block, w.index) < 0:
                return NO_MEMORY
        if missing and self._request_sectors(sm, load, id, missing, t) < 0:
            return NO_MEMORY
        if placed:
            cache_touch(&sm.cache, id)
        if found | pending:
            sm.load[load].hit = t
        m.asked |= sm.asked
        m.held = (m.held if l.flags & IN_SHADOW else 0) | sm.asked
        shadow_raise(&sm.cache, id)
        sm.missed = missing
        return MISS if missing else PENDING_HIT if pending else HIT

    cdef int _find_room(self, Sm* sm, int64_t load, int64_t id, bint absent, int64_t* victim) noexcept nogil:
        """Return the first resource that a miss lacks, or MISS; a load that finds only protected lines bypasses."""
        cdef int way = WAY
        if absent and not self.fill:
            if self.finding:
                way = self._find_way(sm, id, sm.load[load].warp, sm.load[load].pc, victim)
            elif not cache_victim(&sm.cache, sm.cache.line[id].set, victim):
                way = NO_WAY
        if way == PROTECTED:
            return self._bypass(sm, load, id)
        if way == NO_WAY:
            return FAIL_LINE
        if not mshr_available(&sm.mshrs) or 0 <= self.mshr_per_warp <= sm.warp[sm.load[load].warp].held:
            return FAIL_MSHR
        return FAIL_QUEUE if sm.misses.size >= self.miss_queue else MISS

    cdef int _place_line(self, Sm* sm, int64_t id, int64_t victim, int64_t block, int64_t warp) noexcept nogil:
        """Give a line a way for a warp, without any sector."""
        if self._give_way(sm, id, victim, block, warp) < 0:
            return C_MEMORY
        sm.cache.sector[id].valid = sm.cache.sector[id].written = 0
        return C_GO

    cdef int _request_sectors(self, Sm* sm, int64_t load, int64_t id, uint32_t missing, int64_t t) noexcept nogil:
        """Take an MSHR for the sectors that a transaction misses, and send for them."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef Warp* w = &sm.warp[sm.load[load].warp]
        cdef Mshr* entry
        cdef int64_t mshr = mshr_take(&sm.mshrs, id)
        cdef uint32_t left = missing
        if mshr == NONE or mshr_merge(&sm.mshrs, mshr, load, 0) < 0:
            return C_MEMORY
        entry = &sm.mshrs.item[mshr]
        entry.owner = sm.load[load].warp
        entry.block = w.block
        entry.warp = w.index
        entry.since = t
        entry.pc = sm.load[load].pc
        entry.sectors = missing
        w.held += 1
        sm.load[load].waits += 1
        while left:
            sm.cache.flight[(id << sm.cache.sector_bits) + lowest_sector(left)] = <int32_t> mshr
            left &= left - 1
        sm.cache.sector[id].pending |= missing
        if self.fill:
            l.flags |= LOOSE
        else:
            cache_wait(&sm.cache, id)
        return ring_push(&sm.misses, Item(0, l.line, mshr, READ | <int64_t> missing << SECTORS_AT))

    cdef int _merge_sectors(self, Sm* sm, int64_t load, int64_t id, uint32_t pending) noexcept nogil:
        """Let a load wait for every MSHR that holds some of its sectors."""
        cdef int64_t mshr
        while pending:
            mshr = sm.cache.flight[(id << sm.cache.sector_bits) + lowest_sector(pending)]
            if mshr_merge(&sm.mshrs, mshr, load, 0) < 0:
                return C_MEMORY
            sm.load[load].waits += 1
            pending &= ~sm.mshrs.item[mshr].sectors
        return C_GO

    cdef void _count_sectors(
        self, Sm* sm, int64_t id, bint absent, uint32_t found, uint32_t pending, uint32_t missing
    ) noexcept nogil:
        cdef SectorMasks* m = &sm.cache.sector[id]
        cdef uint32_t held = m.held if sm.cache.line[id].flags & IN_SHADOW else 0
        sm.n.lookups += 1
        sm.n.sectors += popcount(sm.asked)
        sm.n.hits += popcount(found)
        sm.n.pending_hits += popcount(pending)
        sm.n.compulsory += popcount(missing & ~m.asked)
        sm.n.associativity += popcount(missing & m.asked & held)
        sm.n.capacity += popcount(missing & m.asked & ~held)
        sm.n.tag_misses += absent
        sm.n.sector_misses += not absent and missing != 0

    cdef int _store_sectors(self, Sm* sm, Entry* e, int64_t id) noexcept nogil:
        """Write through, and in place where the line has a way or may take one; the L1 loses the sectors of an atomic."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef SectorMasks* m = &sm.cache.sector[id]
        cdef bint placed = l.flags & (VALID | RESERVED) != 0
        cdef uint32_t full = <uint32_t> (e.sectors[e.at] >> 32)
        cdef uint32_t present = m.pending
        cdef int64_t what
        if sm.misses.size >= self.miss_queue:
            return FAIL_QUEUE
        sm.n.writes += 1
        sm.n.store_sectors += popcount(sm.asked)
        if placed:
            present |= m.valid | m.written
        sm.n.store_hits += popcount(sm.asked & present)
        if e.op == ATOMIC:
            if placed:
                m.valid &= ~sm.asked
                m.written &= ~sm.asked
        elif self._write_in_place(sm, e.warp, id, placed, full) < 0:
            return NO_MEMORY
        sm.missed = sm.asked
        what = (UPDATE if e.op == ATOMIC else WRITE) | <int64_t> sm.asked << SECTORS_AT
        if ring_push(&sm.misses, Item(0, l.line, full | self._writer(sm, e.warp), what)) < 0:
            return NO_MEMORY
        return WRITTEN

    cdef int _write_in_place(self, Sm* sm, int64_t warp, int64_t id, bint placed, uint32_t full) noexcept nogil:
        """Write sectors of a line that has a way, or takes one if it may."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef SectorMasks* m = &sm.cache.sector[id]
        cdef const Warp* w = &sm.warp[warp]
        cdef int64_t victim
        if l.flags & GHOST:
            l.flags &= ~GHOST
            l.block = w.block
            l.warp = w.index
            if sm.cache.noted:
                note_store(&sm.cache.note[id])
        if placed:
            cache_touch(&sm.cache, id)
        elif self.stores_allocate and self._find_way_to_store(sm, id, warp, False, &victim):
            if self._place_line(sm, id, victim, w.block, w.index) < 0:
                return C_MEMORY
            if sm.cache.noted and m.pending == 0:
                note_store(&sm.cache.note[id])
            placed = True
        if placed:
            m.written |= sm.asked
            m.valid |= full & ~m.pending
        return C_GO

    cdef int _fill_sectors(self, int64_t i, int64_t t, Item item) noexcept nogil:
        """S1: take the sectors of an MSHR."""
        cdef Sm* sm = &self.sm[i]
        cdef Mshr entry = sm.mshrs.item[item.id]
        cdef SectorMasks* m = &sm.cache.sector[entry.id]
        cdef CacheLine* l = &sm.cache.line[entry.id]
        cdef Waiter waiter
        cdef int64_t victim
        self._log(LOG_FILL, t, i, item.line, 0, entry.sectors)
        if self._note_latency(t - entry.since) < 0:
            return C_MEMORY
        if not l.flags & (VALID | RESERVED) and (
            self._find_way(sm, entry.id, entry.owner, entry.pc, &victim) == WAY
        ):
            if self._place_line(sm, entry.id, victim, entry.block, entry.warp) < 0:
                return C_MEMORY
        m.pending &= ~entry.sectors
        if l.flags & (VALID | RESERVED):
            m.valid |= entry.sectors
            if m.pending == 0:
                cache_complete(&sm.cache, entry.id)
        sm.warp[entry.owner].held -= 1
        while mshr_next_waiter(&sm.mshrs, item.id, &waiter):
            self._arrive(sm, waiter.who)
        mshr_release(&sm.mshrs, item.id)
        self._retry_access(sm, l.set)
        return C_GO
