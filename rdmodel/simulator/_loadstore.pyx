# See _loadstore.pxd for the subject.
"""Simulate load/store units and L1s: `LoadStore`, on top of `HintingNetwork`."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memset

from rdmodel.simulator._cache cimport (
    DIRTY, GHOST, IN_SHADOW, MISSED, RESERVED, VALID, CacheLine, cache_complete, cache_drop, cache_fetch, cache_give,
    cache_replace, cache_touch, cache_victim, note_store, shadow_raise,
)
from rdmodel.simulator._hinting_network cimport HintingNetwork
from rdmodel.simulator._issue cimport ATOMIC, LOAD, STORE, Warp
from rdmodel.simulator._machine cimport (
    BYPASS, BYPASSED, FAIL_LINE, FAIL_MERGE, FAIL_MSHR, FAIL_QUEUE, FAILED, HINT, HIT, MISS,
    NO_MEMORY, PENDING_HIT, READ, SECTORS_AT, UPDATE, WRITE, WRITER_AT, WRITTEN, BlockSlot, Entry, Load, Sm,
    fill_helps, slot_bit,
)
from rdmodel.simulator._mshrs cimport (
    Mshr, Waiter, mshr_available, mshr_merge, mshr_mergeable, mshr_next_waiter, mshr_release, mshr_take,
)
from rdmodel.simulator._network cimport C_GO, C_MEMORY, LOG_ACCESS, LOG_FILL
from rdmodel.simulator._patterns cimport patterns_served
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._memory cimport grow
from rdmodel.structures._ring cimport Item, ring_push, ring_push_by_time

cdef enum:
    C_ROW_WIDTH = 7
    MAX_LATENCY = 1048576    # cycles; longer latencies are counted as this

ROW_WIDTH = C_ROW_WIDTH


cdef class LoadStore(HintingNetwork):
    """Loads and stores within an SM, from the load/store unit to the miss queue."""

    def _read_core(self, core, l1):
        self.schedulers = core["schedulers"]
        self.sched = core["sched"]
        self.fetch_group = min(core["fetch_group"], 64)
        self.ldst_queue = core["ldst_queue"]
        self.hit_latency = core["hit_latency"]
        self.alu_latency = core["alu_latency"]
        self.first_by_cycle = core["first_by_cycle"]
        self.store_acks = core["store_acks"]
        self.fill = l1["fill"]
        self.miss_queue = l1["miss_queue"]
        self.mshr_per_warp = l1["mshr_per_warp"]
        self.tags = l1["tags_per_step"]
        self.stores_allocate = l1["stores_allocate"]
        self.unusual = self.sized or l1["may_bypass"]

    cdef inline int _fill(self, int64_t i, int64_t t, Item item) noexcept nogil:
        """S1: take the data of a line, or those of one transaction that bypasses the L1 (~id is its load)."""
        cdef Sm* sm = &self.sm[i]
        cdef CacheLine* l
        cdef int64_t mshr, victim
        cdef Mshr entry
        cdef Waiter waiter
        cdef int way
        if item.id < 0:
            self._arrive(sm, ~item.id)
            return C_GO
        if item.what & WRITE:
            self._take_acknowledgement(sm, &sm.slot[(item.id >> WRITER_AT) - 1])
            return C_GO
        if self.hinting:
            sm.hinted = item.id & HINT != 0
            item.id &= ~HINT
        if self.sectored:
            return self._fill_sectors(i, t, item)
        l = &sm.cache.line[item.id]
        mshr = l.mshr
        entry = sm.mshrs.item[mshr]
        self._log(LOG_FILL, t, i, item.line, 0, 0)
        if self._count_latency(t - entry.since) < 0:
            return C_MEMORY
        if self.fill:
            way = self._find_way(sm, item.id, entry.owner, entry.pc, &victim)
            if entry.dirty and way == PROTECTED:
                # The line must enter the cache: a store has written to it while it was in flight.
                cache_victim(&sm.cache, l.set, &victim)
                way = WAY
            if way == WAY and self._take_way(
                sm, item.id, victim, VALID | (DIRTY if entry.dirty else 0), entry.block, entry.warp
            ) < 0:
                return C_MEMORY
        else:
            cache_complete(&sm.cache, item.id)
        l.mshr = NONE
        sm.warp[entry.owner].held -= 1
        while mshr_next_waiter(&sm.mshrs, mshr, &waiter):
            self._arrive(sm, waiter.who)
        mshr_release(&sm.mshrs, mshr)
        self._retry_access(sm, l.set)
        return C_GO

    cdef inline void _retry_access(self, Sm* sm, int64_t set) noexcept nogil:
        """Let a stalled transaction try again if the fill of a line of this set may help it.

        Where sets share their data, it may whatever the set.
        """
        sm.retry |= self.deciding or sm.cache.pool.lines > 0 or fill_helps(sm.reason, sm.tried, set)

    cdef inline void _take_acknowledgement(self, Sm* sm, BlockSlot* block) noexcept nogil:
        sm.n.acknowledgements += 1
        block.stores -= 1
        if block.stores == 0 and block.alive == 0:
            sm.check |= slot_bit(block - sm.slot)

    cdef inline int _count_latency(self, int64_t latency) noexcept nogil:
        cdef int64_t capacity
        latency = min(latency, <int64_t> MAX_LATENCY)
        if latency >= self.latency_capacity:
            capacity = 2 * latency + 1024
            if grow(<void**> &self.latency, capacity, sizeof(int64_t)) < 0:
                return C_MEMORY
            memset(
                self.latency + self.latency_capacity, 0,
                <size_t> (capacity - self.latency_capacity) * sizeof(int64_t),
            )
            self.latency_capacity = capacity
        self.latencies = max(self.latencies, latency + 1)
        self.latency[latency] += 1
        return C_GO

    cdef inline int _access(self, int64_t i, int64_t t) noexcept nogil:
        """Let the first transaction in the unit access the L1; if it has stalled, something may help it now."""
        cdef Sm* sm = &self.sm[i]
        cdef Entry* e = &sm.entry[sm.entry_head]
        cdef int outcome
        if sm.stalled:
            sm.n.fails[sm.reason - FAILED] += t - sm.since
            sm.stalled = False
        sm.retry = False
        if self.unusual:
            outcome = self._access_unusual(sm, e, t)
        elif e.op == LOAD:
            outcome = self._load(sm, e.load, e.ids[e.at], t)
        elif e.local and e.op == STORE:
            outcome = self._store_local(sm, e, e.ids[e.at])
        else:
            outcome = self._store(sm, e, e.ids[e.at])
        if outcome == NO_MEMORY:
            return C_MEMORY
        if outcome >= FAILED:
            sm.stalled = True
            sm.reason = outcome
            sm.tried = sm.cache.line[e.ids[e.at]].set
            sm.since = t
            return C_GO
        self._log(LOG_ACCESS, t, i, sm.cache.line[e.ids[e.at]].line, outcome, sm.missed)
        if self.recording and outcome != WRITTEN:
            self._record(i, e.load, e.ids[e.at], e.masks[e.at], outcome)
        return self._next_transaction(sm, t)

    cdef inline int _access_tags(self, int64_t i, int64_t t) noexcept nogil:
        """Let several transactions of the first instruction in the unit access the L1, until one cannot be served."""
        cdef Sm* sm = &self.sm[i]
        cdef int64_t entries = sm.entries, left = self.tags
        while left > 0:
            if self._access(i, t) < 0:
                return C_MEMORY
            if sm.stalled or sm.entries != entries:
                break
            left -= 1
        return C_GO

    cdef inline int _access_unusual(self, Sm* sm, Entry* e, int64_t t) noexcept nogil:
        """Serve a transaction where messages have masks, or where the L1 does not serve all loads."""
        cdef int64_t id = e.ids[e.at]
        cdef uint32_t asked = <uint32_t> e.sectors[e.at] if self.sized else 0
        if e.op == LOAD:
            return self._load_unusual(sm, e.load, id, asked, t)
        sm.asked = sm.missed = asked
        if self.sectored:
            return self._store_sectors(sm, e, id)
        return self._store_local(sm, e, id) if e.local and e.op == STORE else self._store(sm, e, id)

    cdef inline int _load_unusual(self, Sm* sm, int64_t load, int64_t id, uint32_t asked, int64_t t) noexcept nogil:
        sm.asked = sm.missed = asked
        if sm.load[load].past:
            return self._bypass(sm, load, id)
        if self.admitting:
            return self._admit(sm, load, id, t)
        return self._look_up_sectors(sm, load, id, t) if self.sectored else self._look_up(sm, load, id, t)

    cdef inline int _note_latency(self, int64_t latency) noexcept nogil:
        return self._count_latency(latency)

    cdef inline int _give_way(self, Sm* sm, int64_t id, int64_t victim, int64_t block, int64_t warp) noexcept nogil:
        """Give a line a way, for other modules; here, calls of `_take_way` are inlined."""
        return self._take_way(sm, id, victim, VALID, block, warp)

    cdef int _admit(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        return NO_MEMORY

    cdef int _find_way(self, Sm* sm, int64_t id, int64_t warp, int64_t pc, int64_t* victim) noexcept nogil:
        return WAY if cache_victim(&sm.cache, sm.cache.line[id].set, victim) else NO_WAY

    cdef bint _find_way_to_store(
        self, Sm* sm, int64_t id, int64_t warp, bint must, int64_t* victim
    ) noexcept nogil:
        return cache_victim(&sm.cache, sm.cache.line[id].set, victim)

    cdef bint _unwanted(self, const Sm* sm, int64_t load) noexcept nogil:
        return False

    cdef void _lose(self, Sm* sm, int64_t id) noexcept nogil:
        pass

    cdef void _open_or_close(self) noexcept nogil:
        pass

    cdef int _look_up_sectors(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        return NO_MEMORY

    cdef int _store_sectors(self, Sm* sm, Entry* e, int64_t id) noexcept nogil:
        return NO_MEMORY

    cdef int _fill_sectors(self, int64_t i, int64_t t, Item item) noexcept nogil:
        return C_MEMORY

    cdef inline int _next_transaction(self, Sm* sm, int64_t t) noexcept nogil:
        """Step to the next transaction after one of the first instruction in the unit has been served."""
        cdef Entry* e = &sm.entry[sm.entry_head]
        e.at += 1
        if e.at < e.count:
            cache_fetch(&sm.cache, e.ids[e.at])
            return C_GO
        self._leave_unit(sm, e)
        return C_GO if e.load == NONE else self._all_served(sm, e.load, t)

    cdef inline void _leave_unit(self, Sm* sm, Entry* e) noexcept nogil:
        sm.warp[e.warp].in_unit -= 1
        sm.entry_head = sm.entry_head + 1 if sm.entry_head + 1 < self.ldst_queue else 0
        sm.entries -= 1
        if e.load == NONE:
            self._stand(sm, e.warp)

    cdef inline int _all_served(self, Sm* sm, int64_t load, int64_t t) noexcept nogil:
        """Finish a load whose transactions have all been served; it may still wait for data."""
        cdef int64_t returns = sm.load[load].hit + self.hit_latency
        if self.admission == ADMIT_BY_PATTERN and sm.load[load].pattern != NONE:
            patterns_served(&sm.patterns, sm.load[load].warp, sm.load[load].pattern, sm.load[load].leaves)
        if sm.load[load].hit >= 0 and returns > t:
            # Loads leave the L1 in the order of their hits, unless a buffer has changed it.
            return C_MEMORY if ring_push_by_time(&sm.hits, Item(returns, 0, load, 0)) < 0 else C_GO
        self._arrive(sm, load)
        return C_GO

    cdef inline int _load(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        """Serve one transaction of a load under the policies; return the outcome or the missing resource."""
        return self._admit(sm, load, id, t) if self.admitting else self._look_up(sm, load, id, t)

    cdef inline int _bypass(self, Sm* sm, int64_t load, int64_t id) noexcept nogil:
        """Request the data of one transaction without allocation in the L1."""
        cdef int64_t what = BYPASS | <int64_t> sm.asked << SECTORS_AT
        if sm.misses.size >= self.miss_queue:
            return FAIL_QUEUE
        sm.n.bypassed += 1
        sm.load[load].waits += 1
        if ring_push(&sm.misses, Item(0, sm.cache.line[id].line, ~load, what)) < 0:
            return NO_MEMORY
        return BYPASSED

    cdef inline int _look_up(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        cdef CacheLine* l = &sm.cache.line[id]
        cdef bint again = l.flags & (VALID | RESERVED) != 0
        cdef int outcome
        if l.mshr != NONE:
            if not mshr_mergeable(&sm.mshrs, l.mshr):
                return FAIL_MERGE
            outcome = PENDING_HIT
            sm.n.pending_hits += 1
            sm.load[load].hit = t
        elif l.flags & VALID:
            outcome = HIT
            sm.n.hits += 1
            sm.load[load].hit = t
        elif self.admitting and self._unwanted(sm, load):
            return self._bypass(sm, load, id)
        else:
            outcome = self._miss(sm, load, id, t)
            if outcome != MISS:
                return outcome
        if outcome != HIT:
            if mshr_merge(&sm.mshrs, l.mshr, load, 0) < 0:
                return NO_MEMORY
            sm.load[load].waits += 1
        if again:
            cache_touch(&sm.cache, id)
        shadow_raise(&sm.cache, id)
        return outcome

    cdef inline int _miss(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        """Request an absent line: take way, MSHR and a place in the miss queue, or nothing."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef Warp* w = &sm.warp[sm.load[load].warp]
        cdef Mshr* entry
        cdef int64_t victim = NONE
        cdef int way = WAY
        if self.finding and not self.fill:
            way = self._find_way(sm, id, sm.load[load].warp, sm.load[load].pc, &victim)
        elif not self.fill and not cache_victim(&sm.cache, l.set, &victim):
            way = NO_WAY
        if way == PROTECTED:
            return self._bypass(sm, load, id)
        if way == NO_WAY:
            return FAIL_LINE
        if not mshr_available(&sm.mshrs) or 0 <= self.mshr_per_warp <= w.held:
            return FAIL_MSHR
        if sm.misses.size >= self.miss_queue:
            return FAIL_QUEUE
        if l.flags & MISSED == 0:
            sm.n.compulsory += 1
        elif l.flags & IN_SHADOW:
            sm.n.associativity += 1
        else:
            sm.n.capacity += 1
        l.flags |= MISSED
        l.mshr = mshr_take(&sm.mshrs, id)
        if l.mshr == NONE:
            return NO_MEMORY
        entry = &sm.mshrs.item[l.mshr]
        entry.owner = sm.load[load].warp
        entry.block = w.block
        entry.warp = w.index
        entry.since = t
        entry.pc = sm.load[load].pc
        w.held += 1
        if not self.fill and self._take_way(sm, id, victim, RESERVED, w.block, w.index) < 0:
            return NO_MEMORY
        return NO_MEMORY if ring_push(&sm.misses, Item(0, l.line, id, READ | self.line_mask)) < 0 else MISS

    cdef inline int _take_way(
        self, Sm* sm, int64_t id, int64_t victim, int64_t flags, int64_t block, int64_t warp
    ) noexcept nogil:
        """Give a line the way of a victim, or an empty one; write back a dirty victim."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef CacheLine* old
        if victim != NONE:
            old = &sm.cache.line[victim]
            if old.flags & DIRTY and ring_push(&sm.misses, Item(0, old.line, 0, WRITE | self.line_mask)) < 0:
                return C_MEMORY
            if old.flags & GHOST:
                pass
            elif old.block != block:
                sm.n.cross_block += 1
            elif old.warp != warp:
                sm.n.cross_warp += 1
            else:
                sm.n.intra_warp += 1
            if self.admitting and not old.flags & GHOST:
                self._lose(sm, victim)
            cache_replace(&sm.cache, victim, id)
        cache_give(&sm.cache, id, flags)
        l.block = block
        l.warp = warp
        return C_GO

    cdef inline int _store(self, Sm* sm, Entry* e, int64_t id) noexcept nogil:
        """Write through: drop a valid copy of the line, leave a line in flight."""
        cdef int64_t what = (UPDATE if e.op == ATOMIC else WRITE) | <int64_t> sm.asked << SECTORS_AT
        if sm.misses.size >= self.miss_queue:
            return FAIL_QUEUE
        if sm.cache.line[id].flags & VALID:
            cache_drop(&sm.cache, id)
        sm.n.writes += 1
        if ring_push(&sm.misses, Item(0, sm.cache.line[id].line, self._writer(sm, e.warp), what)) < 0:
            return NO_MEMORY
        return WRITTEN

    cdef inline int _store_local(self, Sm* sm, Entry* e, int64_t id) noexcept nogil:
        """Write back: make the line dirty; an absent line is allocated and not fetched."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef int64_t victim
        if l.mshr != NONE:
            sm.mshrs.item[l.mshr].dirty = True
        if l.flags & (VALID | RESERVED):
            if l.flags & GHOST:
                l.block = sm.warp[e.warp].block
                l.warp = sm.warp[e.warp].index
                if sm.cache.noted:
                    note_store(&sm.cache.note[id])
            l.flags = (l.flags & ~GHOST) | DIRTY
            cache_touch(&sm.cache, id)
        elif l.mshr == NONE:
            if not self._find_way_to_store(sm, id, e.warp, True, &victim):
                return FAIL_LINE
            if victim != NONE and sm.cache.line[victim].flags & DIRTY and sm.misses.size >= self.miss_queue:
                return FAIL_QUEUE
            if self._take_way(sm, id, victim, VALID | DIRTY, sm.warp[e.warp].block, sm.warp[e.warp].index) < 0:
                return NO_MEMORY
            if sm.cache.noted:
                note_store(&sm.cache.note[id])
        sm.n.writes += 1
        return WRITTEN

    cdef inline void _record(self, int64_t i, int64_t load, int64_t id, uint32_t mask, int outcome) noexcept nogil:
        cdef Warp* w = &self.sm[i].warp[self.sm[i].load[load].warp]
        cdef int64_t* row = &self.rows[self.recorded, 0]
        row[0], row[1], row[2], row[3] = i, w.block, w.index, self.sm[i].load[load].pc
        row[4], row[5], row[6] = self.sm[i].cache.line[id].line, 3 if outcome == BYPASSED else outcome, mask
        self.recorded += 1

    def miss_latencies(self):
        """Return the numbers of misses that were filled after 0, 1, 2, ... cycles, as a list."""
        return [self.latency[i] for i in range(self.latencies)]

    def set_record(self, int64_t[:, ::1] rows):
        """Record every served load transaction as (SM, block, warp, pc, line, outcome, lanes) in `rows`.

        Call it before the first block begins.
        """
        cdef int64_t i, k
        cdef Sm* sm
        assert self.now < 0 and not self.recording and rows.shape[1] == C_ROW_WIDTH
        for i in range(self.sms):
            sm = &self.sm[i]
            sm.entry_masks = <uint32_t*> malloc(<size_t> (self.ldst_queue * self.max_lines) * sizeof(uint32_t))
            if sm.entry_masks == NULL:
                raise MemoryError
            for k in range(self.ldst_queue):
                sm.entry[k].masks = sm.entry_masks + k * self.max_lines
            for k in range(self.slots * self.block_warps):
                sm.warp[k].masked = True
        self.rows = rows
        self.recording = True
        self.recorded = 0
