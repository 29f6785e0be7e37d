# See _loadstore.pxd for what belongs here.
"""Load/store units and L1s of the compiled simulator: `LoadStore`, on top of `Network`."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport malloc
from libc.string cimport memset

from rdmodel._cache cimport (
    DIRTY, GHOST, IN_SHADOW, MISSED, RESERVED, VALID, CacheLine, Mshr, Waiter, cache_drop, cache_give, cache_touch,
    cache_victim, mshr_available, mshr_merge, mshr_mergeable, mshr_next_waiter, mshr_release, mshr_take, shadow_raise,
)
from rdmodel._issue cimport (
    AS_ACTIVE, FREELY, LOAD, STORE, WITH_ROOM, Scheduler, Warp, warp_complete, warp_done, warp_stand,
)
from rdmodel._lru cimport NONE
from rdmodel._machine cimport (
    BYPASS, BYPASSED, FAIL_LINE, FAIL_MERGE, FAIL_MSHR, FAIL_QUEUE, FAILED, HIT, MISS, NO_MEMORY, PENDING_HIT, READ,
    WRITE, WRITTEN, Entry, Load, Sm,
)
from rdmodel._network cimport C_GO, C_MEMORY, LOG_ACCESS, LOG_FILL, Network
from rdmodel._ring cimport Item, ring_push, ring_push_by_time
from rdmodel._warp cimport grow

cdef enum:
    C_ROW_WIDTH = 7
    MOST_LATENCY = 1048576    # longer ones are counted as this long

ROW_WIDTH = C_ROW_WIDTH


cdef class LoadStore(Network):
    """What happens to loads and stores within an SM."""

    def _read_core(self, core, l1):
        self.schedulers = core["schedulers"]
        self.sched = core["sched"]
        self.fetch_group = min(core["fetch_group"], 64)
        self.ldst_queue = core["ldst_queue"]
        self.hit_latency = core["hit_latency"]
        self.fill = l1["fill"]
        self.miss_queue = l1["miss_queue"]
        self.mshr_per_warp = l1["mshr_per_warp"]

    cdef int _fill(self, int64_t i, int64_t t, Item item) noexcept nogil:
        """S1: the data of a line have come, or, if they bypass the L1, those of one transaction (~id is its load)."""
        cdef Sm* sm = &self.sm[i]
        cdef CacheLine* l
        cdef int64_t mshr
        cdef Mshr entry
        cdef Waiter waiter
        if item.id < 0:
            self._arrive(sm, ~item.id)
            return C_GO
        l = &sm.cache.line[item.id]
        mshr = l.mshr
        entry = sm.mshrs.item[mshr]
        self._log(LOG_FILL, t, i, item.line, 0, 0)
        if self._count_latency(t - entry.since) < 0:
            return C_MEMORY
        l.mshr = NONE
        if self.fill:
            # What a store has written meanwhile must not be lost.
            if entry.dirty or not self._all_protected(sm, l.set):
                if self._take_way(sm, item.id, VALID | (DIRTY if entry.dirty else 0), entry.block, entry.warp) < 0:
                    return C_MEMORY
        else:
            l.flags = (l.flags & ~RESERVED) | VALID
        sm.warp[entry.owner].held -= 1
        while mshr_next_waiter(&sm.mshrs, mshr, &waiter):
            self._arrive(sm, waiter.who)
        mshr_release(&sm.mshrs, mshr)
        sm.retry = True
        return C_GO

    cdef int _count_latency(self, int64_t latency) noexcept nogil:
        cdef int64_t capacity
        latency = min(latency, <int64_t> MOST_LATENCY)
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

    cdef void _arrive(self, Sm* sm, int64_t load) noexcept nogil:
        """One of the things that a load waits for has come."""
        cdef Load* l = &sm.load[load]
        l.waits -= 1
        if l.waits == 0:
            warp_complete(&sm.warp[l.warp], l.number)
            self._stand(sm, l.warp)
            l.next = sm.free_load
            sm.free_load = load

    cdef void _stand(self, Sm* sm, int64_t warp) noexcept nogil:
        """Tell the warp's scheduler how it stands, and look whether it may have ended."""
        cdef Warp* w = &sm.warp[warp]
        cdef Scheduler* s = &sm.scheduler[warp % self.schedulers]
        cdef uint64_t bit = <uint64_t> 1 << (warp // self.schedulers)
        cdef int standing = warp_stand(w)
        if standing != w.standing:
            w.standing = standing
            s.freely &= ~bit
            s.with_room &= ~bit
            s.as_active &= ~bit
            if standing == FREELY:
                s.freely |= bit
            elif standing == WITH_ROOM:
                s.with_room |= bit
            elif standing == AS_ACTIVE:
                s.as_active |= bit
        if w.alive and warp_done(w):
            sm.check = self.any_check = True

    cdef int _access(self, int64_t i, int64_t t) noexcept nogil:
        cdef Sm* sm = &self.sm[i]
        cdef Entry* e = &sm.entry[sm.entry_head]
        cdef int outcome
        if sm.stalled:
            if not sm.retry:
                return C_GO
            sm.n.fails[sm.reason - FAILED] += t - sm.since
            sm.stalled = False
        sm.retry = False
        if e.op == LOAD:
            outcome = self._load(sm, e.load, e.ids[e.at], t)
        elif e.local and e.op == STORE:
            outcome = self._store_local(sm, e, e.ids[e.at])
        else:
            outcome = self._store(sm, e.ids[e.at])
        if outcome == NO_MEMORY:
            return C_MEMORY
        if outcome >= FAILED:
            sm.stalled = True
            sm.reason = outcome
            sm.since = t
            return C_GO
        self._log(LOG_ACCESS, t, i, sm.cache.line[e.ids[e.at]].line, outcome, 0)
        if self.recording and outcome != WRITTEN:
            self._record(i, e.load, e.ids[e.at], e.masks[e.at], outcome)
        return self._next_transaction(sm, t)

    cdef int _next_transaction(self, Sm* sm, int64_t t) noexcept nogil:
        """Step past a transaction of the first instruction in the unit that has been served."""
        cdef Entry* e = &sm.entry[sm.entry_head]
        e.at += 1
        if e.at < e.count:
            return C_GO
        self._leave_unit(sm, e)
        return C_GO if e.load == NONE else self._all_served(sm, e.load, t)

    cdef void _leave_unit(self, Sm* sm, Entry* e) noexcept nogil:
        sm.warp[e.warp].in_unit -= 1
        sm.entry_head = (sm.entry_head + 1) % self.ldst_queue
        sm.entries -= 1
        if e.load == NONE:
            self._stand(sm, e.warp)

    cdef int _all_served(self, Sm* sm, int64_t load, int64_t t) noexcept nogil:
        """The transactions of a load have been served: only data can be missing."""
        cdef int64_t returns = sm.load[load].hit + self.hit_latency
        if sm.load[load].hit >= 0 and returns > t:
            # Loads are done with the L1 in the order of their hits, unless a buffer has mixed them.
            return C_MEMORY if ring_push_by_time(&sm.hits, Item(returns, 0, load, 0)) < 0 else C_GO
        self._arrive(sm, load)
        return C_GO

    cdef int _load(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        """Serve one transaction of a load, as the policies will have it, or say what is missing."""
        return self._admit(sm, load, id, t) if self.admitting else self._look_up(sm, load, id, t)

    cdef int _admit(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        cdef CacheLine* l = &sm.cache.line[id]
        cdef int outcome
        if self.admission == ADMIT_NONE or sm.closed:
            outcome = self._bypass(sm, load, id)
            if outcome == BYPASSED and sm.closed and self._keep_tag(sm, load, id) < 0:
                return NO_MEMORY
        else:
            outcome = self._look_up(sm, load, id, t)
            if outcome == FAIL_LINE and self.on_stall != STALL or outcome >= FAILED and self.on_stall == BYPASS_ANY:
                outcome = self._bypass(sm, load, id)
        if outcome >= FAILED or outcome == NO_MEMORY:
            return outcome
        if not sm.closed:
            sm.looked += 1
            sm.not_found += outcome == MISS or (
                outcome == BYPASSED and l.mshr == NONE and not l.flags & (VALID | RESERVED)
            )
        if sm.cache.accesses != NULL:
            sm.cache.accesses[l.set] += 1
        return outcome

    cdef int _bypass(self, Sm* sm, int64_t load, int64_t id) noexcept nogil:
        """Ask for the data of one transaction alone: nothing is allocated."""
        if sm.misses.size >= self.miss_queue:
            return FAIL_QUEUE
        sm.n.bypassed += 1
        sm.load[load].waits += 1
        if ring_push(&sm.misses, Item(0, sm.cache.line[id].line, ~load, BYPASS)) < 0:
            return NO_MEMORY
        return BYPASSED

    cdef int _keep_tag(self, Sm* sm, int64_t load, int64_t id) noexcept nogil:
        """Look at, and update, the tags of a closed L1."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef Warp* w = &sm.warp[sm.load[load].warp]
        cdef int64_t victim
        sm.looked += 1
        if l.flags & (VALID | RESERVED):
            cache_touch(&sm.cache, id)
        elif l.mshr == NONE:
            sm.not_found += 1
            if cache_victim(&sm.cache, l.set, &victim):
                if victim != NONE:
                    if sm.cache.line[victim].flags & DIRTY and ring_push(
                        &sm.misses, Item(0, sm.cache.line[victim].line, victim, WRITE)
                    ) < 0:
                        return C_MEMORY
                    cache_drop(&sm.cache, victim)
                cache_give(&sm.cache, id, VALID | GHOST)
                l.block = w.block
                l.warp = w.index
        return C_GO

    cdef bint _all_protected(self, const Sm* sm, int64_t set) noexcept nogil:
        """Tell whether no way of a set is empty and the line to evict is protected (and so are all others)."""
        cdef int64_t victim
        if self.admission != ADMIT_UNPROTECTED or not cache_victim(&sm.cache, set, &victim) or victim == NONE:
            return False
        return sm.cache.accesses[set] - sm.cache.line[victim].used < self.distance

    cdef int _look_up(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        cdef CacheLine* l = &sm.cache.line[id]
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
        elif sm.load[load].reads_only or not self.fill and self._all_protected(sm, l.set):
            return self._bypass(sm, load, id)
        else:
            outcome = self._miss(sm, load, id, t)
            if outcome != MISS:
                return outcome
        if outcome != HIT:
            if mshr_merge(&sm.mshrs, l.mshr, load, 0) < 0:
                return NO_MEMORY
            sm.load[load].waits += 1
        if l.flags & (VALID | RESERVED):
            cache_touch(&sm.cache, id)
        shadow_raise(&sm.cache, id)
        return outcome

    cdef int _miss(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        """Ask for an absent line: way, MSHR and room in the miss queue, or nothing at all."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef Warp* w = &sm.warp[sm.load[load].warp]
        cdef Mshr* entry
        cdef int64_t victim
        if not self.fill and not cache_victim(&sm.cache, l.set, &victim):
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
        w.held += 1
        if not self.fill and self._take_way(sm, id, RESERVED, w.block, w.index) < 0:
            return NO_MEMORY
        return NO_MEMORY if ring_push(&sm.misses, Item(0, l.line, id, READ)) < 0 else MISS

    cdef int _take_way(self, Sm* sm, int64_t id, int64_t flags, int64_t block, int64_t warp) noexcept nogil:
        """Give a line a way of its set, which can give one; what was there goes, written back if it is dirty."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef CacheLine* old
        cdef int64_t victim
        cache_victim(&sm.cache, l.set, &victim)
        if victim != NONE:
            old = &sm.cache.line[victim]
            if old.flags & DIRTY and ring_push(&sm.misses, Item(0, old.line, victim, WRITE)) < 0:
                return C_MEMORY
            if old.flags & GHOST:
                pass
            elif old.block != block:
                sm.n.cross_block += 1
            elif old.warp != warp:
                sm.n.cross_warp += 1
            else:
                sm.n.intra_warp += 1
            cache_drop(&sm.cache, victim)
        cache_give(&sm.cache, id, flags)
        l.block = block
        l.warp = warp
        return C_GO

    cdef int _store(self, Sm* sm, int64_t id) noexcept nogil:
        """Write through: a valid copy goes, one under way stays."""
        if sm.misses.size >= self.miss_queue:
            return FAIL_QUEUE
        if sm.cache.line[id].flags & VALID:
            cache_drop(&sm.cache, id)
        sm.n.writes += 1
        return NO_MEMORY if ring_push(&sm.misses, Item(0, sm.cache.line[id].line, id, WRITE)) < 0 else WRITTEN

    cdef int _store_local(self, Sm* sm, Entry* e, int64_t id) noexcept nogil:
        """Write back: the line becomes dirty, an absent one without being fetched."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef int64_t victim
        if l.mshr != NONE:
            sm.mshrs.item[l.mshr].dirty = True
        if l.flags & (VALID | RESERVED):
            if l.flags & GHOST:
                l.block = sm.warp[e.warp].block
                l.warp = sm.warp[e.warp].index
            l.flags = (l.flags & ~GHOST) | DIRTY
            cache_touch(&sm.cache, id)
        elif l.mshr == NONE:
            if not cache_victim(&sm.cache, l.set, &victim):
                return FAIL_LINE
            if victim != NONE and sm.cache.line[victim].flags & DIRTY and sm.misses.size >= self.miss_queue:
                return FAIL_QUEUE
            if self._take_way(sm, id, VALID | DIRTY, sm.warp[e.warp].block, sm.warp[e.warp].index) < 0:
                return NO_MEMORY
        sm.n.writes += 1
        return WRITTEN

    cdef void _record(self, int64_t i, int64_t load, int64_t id, uint32_t mask, int outcome) noexcept nogil:
        cdef Warp* w = &self.sm[i].warp[self.sm[i].load[load].warp]
        cdef int64_t* row = &self.rows[self.recorded, 0]
        row[0], row[1], row[2], row[3] = i, w.block, w.index, self.sm[i].load[load].pc
        row[4], row[5], row[6] = self.sm[i].cache.line[id].line, 3 if outcome == BYPASSED else outcome, mask
        self.recorded += 1

    def miss_latencies(self):
        """Return how many misses were filled after 0, 1, 2, ... cycles, as a list."""
        return [self.latency[i] for i in range(self.latencies)]

    def set_record(self, int64_t[:, ::1] rows):
        """Record every served load transaction as (SM, block, warp, pc, line, outcome, lanes) in `rows`.

        To be called before the first block begins.
        """
        cdef int64_t i, k
        cdef Sm* sm
        assert self.now < 0 and not self.recording and rows.shape[1] == C_ROW_WIDTH
        for i in range(self.sms):
            sm = &self.sm[i]
            sm.entry_masks = <uint32_t*> malloc(<size_t> (self.ldst_queue * self.most_lines) * sizeof(uint32_t))
            if sm.entry_masks == NULL:
                raise MemoryError
            for k in range(self.ldst_queue):
                sm.entry[k].masks = sm.entry_masks + k * self.most_lines
            for k in range(self.slots * self.block_warps):
                sm.warp[k].masked = True
        self.rows = rows
        self.recording = True
        self.recorded = 0

    cdef void _open_or_close(self) noexcept nogil:
        """Streaming bypass: close the L1s that did not find too much, and open the others."""
        cdef int64_t i
        cdef Sm* sm
        cdef bint closed
        for i in range(self.sms):
            sm = &self.sm[i]
            if sm.looked > 0:
                closed = <double> sm.not_found / <double> sm.looked > self.most_missed
                if sm.closed and not closed:
                    self._drop_ghosts(sm)
                if sm.closed != closed:
                    # What was stalled may find it otherwise now.
                    sm.retry = True
                    sm.wake = min(sm.wake, self.now + 1)
                sm.closed = closed
            sm.looked = sm.not_found = 0

    cdef void _drop_ghosts(self, Sm* sm) noexcept nogil:
        """Forget the lines of which only the tag is there."""
        cdef int64_t set, id, older
        for set in range(sm.cache.sets):
            id = sm.cache.set[set].newest
            while id != NONE:
                older = sm.cache.line[id].in_set.older
                if sm.cache.line[id].flags & GHOST:
                    cache_drop(&sm.cache, id)
                id = older
