# See _admission.pxd for the subject.
"""Simulate admission policies: `Admission`, on top of `Plugins`."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from rdmodel.plugins.policy cimport RDMODEL_ABSENT, RDMODEL_BYPASS, RDMODEL_USE, RDMODEL_USE_PRESENT
from rdmodel.simulator._cache cimport (
    DIRTY, GHOST, LOST, RESERVED, VALID, CacheLine, Note, cache_accesses, cache_give, cache_open_or_close, cache_replace,
    cache_touch, cache_victim,
)
from rdmodel.simulator._distances cimport distances_best, distances_see
from rdmodel.simulator._footprints cimport footprints_see
from rdmodel.simulator._issue cimport Warp
from rdmodel.simulator._loadstore cimport (
    ADMIT_ALL, ADMIT_BY_PATTERN, ADMIT_BY_PLUGIN, ADMIT_COLD, ADMIT_NONE, ADMIT_UNLESS_CLOSED, ADMIT_UNPROTECTED,
    ADMIT_USED, NO_WAY, PROTECTED, WAY,
)
from rdmodel.simulator._machine cimport BYPASSED, FAIL_LINE, FAILED, MISS, NO_MEMORY, WRITE, Sm
from rdmodel.simulator._network cimport C_GO, C_MEMORY
from rdmodel.simulator._patterns cimport STREAMING, patterns_end, patterns_protect, patterns_see
from rdmodel.simulator._period cimport Period, thrashes
from rdmodel.simulator._plugins cimport ADMITTING, Plugins
from rdmodel.simulator._victims cimport victims_put, victims_raise, victims_take
from rdmodel.structures._index cimport modulo
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._ring cimport Item, ring_push

ADMISSION_RULES = {
    "all": ADMIT_ALL, "no-load": ADMIT_NONE, "unless-closed": ADMIT_UNLESS_CLOSED, "unprotected": ADMIT_UNPROTECTED,
    "used": ADMIT_USED, "by-pattern": ADMIT_BY_PATTERN, "plugin": ADMIT_BY_PLUGIN, "cold": ADMIT_COLD,
}
STALL_RULES = {"none": STALL, "associativity": BYPASS_LINE, "all": BYPASS_ANY}


cdef class Admission(Plugins):
    """Policies that let some loads bypass the L1, and protect some of its lines."""

    def _read_admission(
        self, *, rule="all", bypass="none", bint closing_slices=False, int64_t period=-1, double missing_share=0.0,
        double thrashing_mpki=INFINITY, int64_t distance=0, int64_t counters=0, int64_t max_unused=0,
        int64_t unused_threshold=0, int64_t loads=0, int64_t tags=0, int64_t max_accesses=0, bint bypassing=False,
        bint protecting=False, bint by_cache=False, bint since_allocation=False, table=0, options=(),
        int64_t max_distance=0, int64_t sampled_every=0, int64_t sharers=0, int64_t heat=0,
    ):
        """Set the admission policy: the settings of `rdmodel.policies` and, as defaults, those of no policy."""
        self.admission = ADMISSION_RULES[rule]
        self.on_stall = STALL_RULES[bypass]
        self.admitting = self.admission != ADMIT_ALL or self.on_stall != STALL
        self.closing_slices = closing_slices
        self.closing_period = Period(period, period - 1)
        self.max_missing_share = missing_share
        self.thrashing_mpki = thrashing_mpki
        self.distance = distance
        self.max_distance = max_distance
        self.sampled_every = sampled_every
        self.by_cache = by_cache
        self.since_allocation = since_allocation
        self.counters = counters
        self.max_unused = max_unused
        self.unused_threshold = unused_threshold
        self.pattern_loads = loads
        self.pattern_tags = tags
        self.max_accesses = max_accesses
        self.max_heat = heat
        self._read_hints(sharers)
        # Only its answer tells whether a line will stay.
        self.fill = self.fill or self.hinting
        self.elaborate = self.sectored or self.hinting
        self.pattern_bypassing = bypassing
        self.pattern_protecting = protecting
        self._plug(ADMITTING, table, options)

    cdef int _admit(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        cdef CacheLine* l = &sm.cache.line[id]
        cdef bint absent = not l.flags & (VALID | RESERVED) and not self._in_flight(sm, id)
        cdef bint closed = sm.closed
        cdef int outcome, present = RDMODEL_ABSENT, verdict = RDMODEL_USE
        if self.plugged:
            present = self._presence(sm, id)
            verdict = self._ask_to_admit(sm, load, id, present)
        if (
            self.admission == ADMIT_NONE or closed or self._streams(sm, load) or verdict == RDMODEL_BYPASS
            or absent and verdict == RDMODEL_USE_PRESENT
        ):
            outcome = self._bypass(sm, load, id)
            if outcome == BYPASSED and closed and self._keep_tag(sm, load, id) < 0:
                return NO_MEMORY
        else:
            if not self.sectored:
                outcome = self._look_up(sm, load, id, t)
            elif absent and self._unwanted(sm, load):
                outcome = self._bypass(sm, load, id)
            else:
                outcome = self._look_up_sectors(sm, load, id, t)
            if outcome == FAIL_LINE and self.on_stall != STALL or outcome >= FAILED and self.on_stall == BYPASS_ANY:
                outcome = self._bypass(sm, load, id)
        if outcome >= FAILED or outcome == NO_MEMORY:
            return outcome
        sm.looked += 1
        sm.not_found += absent
        if sm.cache.accesses != NULL:
            cache_accesses(&sm.cache, l.set)[0] += 1
        if sm.distances.line != NULL:
            distances_see(&sm.distances, l.set, l.line)
        if sm.cache.noted:
            self._note(sm, load, id, outcome, absent)
        if self.plugged:
            self._tell_loaded(sm, load, id, outcome, present)
        if self.scoring and absent:
            self._score(sm, load, id, t)
        if self.predicting and sm.load[load].warp == sm.footprints.sampled:
            footprints_see(
                &sm.footprints, &self.footprint_rule, sm.load[load].pc, l.line, sm.load[load].number, sm.load[load].served
            )
        if self.limiting_by_latency:
            sm.congestion.loads += 1
            sm.congestion.lost += absent and l.flags & LOST != 0
        sm.load[load].served += 1
        return outcome

    cdef inline bint _in_flight(self, const Sm* sm, int64_t id) noexcept nogil:
        return sm.cache.sector[id].pending != 0 if self.sectored else sm.cache.line[id].mshr != NONE

    cdef inline bint _streams(self, const Sm* sm, int64_t load) noexcept nogil:
        """Return whether APCM makes the load bypass."""
        return (
            self.admission == ADMIT_BY_PATTERN and sm.patterns.bypassing and sm.load[load].pattern != NONE
            and sm.patterns.known[sm.load[load].pattern].kind == STREAMING
        )

    cdef inline void _note(self, Sm* sm, int64_t load, int64_t id, int outcome, bint absent) noexcept nogil:
        """Update the note of a line, which was `absent` or not, after a load transaction has been served."""
        cdef Note* n = &sm.cache.note[id]
        cdef int64_t pattern = sm.load[load].pattern, warp = sm.load[load].warp
        if absent and outcome == MISS:
            n.uses = 1
            n.mark = NONE
            n.pc = sm.load[load].pc
            n.data[0] = n.data[1] = 0
            if self.admission == ADMIT_USED:
                n.mark = modulo(sm.load[load].pc, self.counters)
            elif self.admission == ADMIT_BY_PATTERN:
                n.mark = patterns_protect(&sm.patterns, warp, pattern)
                n.owner = warp
        elif outcome != BYPASSED:
            n.uses += 1
            if self.admission == ADMIT_USED and n.mark != NONE and sm.unused[n.mark] > 0:
                sm.unused[n.mark] -= 1
            if self.admission == ADMIT_COLD and sm.cache.line[id].flags & (VALID | RESERVED):
                n.heat = self.max_heat
        if self.admission == ADMIT_BY_PATTERN and pattern != NONE and not sm.patterns.over:
            patterns_see(
                &sm.patterns, sm.cache.line[id].line, pattern, warp == sm.patterns.monitored, sm.load[load].served < 2,
                1 if outcome == BYPASSED else n.uses,
            )

    cdef void _lose(self, Sm* sm, int64_t id) noexcept nogil:
        """Inform the policies that a valid line is replaced."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef Note* n
        cdef int64_t k
        if self.plugged:
            self._tell_replaced(sm, id)
        if self.admission == ADMIT_COLD:
            sm.cache.note[id].heat = 0
        if self.admission == ADMIT_USED:
            n = &sm.cache.note[id]
            if n.mark != NONE and n.uses == 1:
                sm.unused[n.mark] = min(sm.unused[n.mark] + 1, self.max_unused)
        if self.limiting_by_latency:
            l.flags |= LOST
        if self.scoring:
            for k in range(self.slots):
                if sm.slot[k].occupied and sm.slot[k].block == l.block:
                    k = k * self.block_warps + l.warp
                    if sm.warp[k].alive:
                        victims_put(&sm.victims, k, l.line)
                    break

    cdef inline void _score(self, Sm* sm, int64_t load, int64_t id, int64_t t) noexcept nogil:
        """CCWS: raise the score of a warp that loads a line it has lost."""
        cdef int64_t warp = sm.load[load].warp
        cdef int64_t i, warps = 0
        cdef double score
        if not victims_take(&sm.victims, warp, sm.cache.line[id].line):
            return
        sm.victims.hits += 1
        for i in range(self.slots * self.block_warps):
            warps += sm.warp[i].alive != 0 and sm.warp[i].at_barrier == 0
        score = <double> (self.score_throttle * self.score_base * warps)
        score = score * <double> sm.victims.hits / <double> sm.n.warp_instructions
        victims_raise(&sm.victims, warp, <int64_t> score, t)

    cdef inline int _keep_tag(self, Sm* sm, int64_t load, int64_t id) noexcept nogil:
        """Look up and update the tags of a closed L1."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef Warp* w = &sm.warp[sm.load[load].warp]
        cdef int64_t victim
        if l.flags & (VALID | RESERVED):
            cache_touch(&sm.cache, id)
        elif not self._in_flight(sm, id):
            if cache_victim(&sm.cache, l.set, &victim):
                if victim != NONE:
                    if sm.cache.line[victim].flags & DIRTY and ring_push(
                        &sm.misses, Item(0, sm.cache.line[victim].line, 0, WRITE | self.line_mask)
                    ) < 0:
                        return C_MEMORY
                    cache_replace(&sm.cache, victim, id)
                if self.sectored:
                    sm.cache.sector[id].valid = sm.cache.sector[id].written = 0
                cache_give(&sm.cache, id, VALID | GHOST)
                l.block = w.block
                l.warp = w.index
        return C_GO

    cdef int _find_way(self, Sm* sm, int64_t id, int64_t warp, int64_t pc, int64_t* victim) noexcept nogil:
        """Find the line that a load of line `id` may replace; NONE: a way is empty."""
        cdef int64_t set = sm.cache.line[id].set
        if self.plugged:
            self._describe(sm, id, warp, pc, self._presence(sm, id), False, &self.asking)
            if self.choosing:
                return self._choose_way(sm, set, victim)
        if self.admission == ADMIT_BY_PATTERN or self.admission == ADMIT_UNPROTECTED:
            return self._find_unguarded(sm, set, victim)
        if self.admission == ADMIT_COLD:
            return self._find_cold(sm, id, victim)
        return WAY if cache_victim(&sm.cache, set, victim) else NO_WAY

    cdef inline int _find_unguarded(self, const Sm* sm, int64_t set, int64_t* victim) noexcept nogil:
        """Find the least recently used line that is neither in flight nor protected, by APCM, PD or G-Cache."""
        cdef int64_t id = sm.cache.set[set].oldest
        cdef bint protected = False
        victim[0] = NONE
        if sm.cache.set[set].size < sm.cache.ways:
            return WAY if cache_victim(&sm.cache, set, victim) else NO_WAY
        while id != NONE:
            if self._guarded(sm, id):
                protected = True
            elif not sm.cache.line[id].flags & RESERVED:
                victim[0] = id
                return WAY
            id = sm.cache.line[id].in_set.newer
        return PROTECTED if protected else NO_WAY

    cdef inline int _find_cold(self, Sm* sm, int64_t id, int64_t* victim) noexcept nogil:
        """G-Cache: find the cold line that line `id` replaces at its fill; where all are hot, they cool down."""
        cdef int64_t set = sm.cache.line[id].set, other = sm.cache.set[set].oldest
        cdef int way
        if sm.hinted:
            sm.contended = True
            sm.hints += 1
        way = self._find_unguarded(sm, set, victim)
        sm.cache.note[id].heat = self.max_heat if sm.hinted and way == WAY else 0
        if way == PROTECTED:
            while other != NONE:
                sm.cache.note[other].heat -= 1
                other = sm.cache.line[other].in_set.newer
        return way

    cdef inline bint _guarded(self, const Sm* sm, int64_t id) noexcept nogil:
        cdef const Note* n = &sm.cache.note[id]
        if self.admission == ADMIT_COLD:
            return sm.contended and n.heat > 0
        if self.admission == ADMIT_UNPROTECTED:
            if sm.cache.line[id].flags & RESERVED:
                return False
            return cache_accesses(&sm.cache, sm.cache.line[id].set)[0] - n.used < sm.distance
        return n.mark != NONE and sm.patterns.guard[n.owner].number == n.mark

    cdef bint _unwanted(self, const Sm* sm, int64_t load) noexcept nogil:
        """Return whether a load must not bring a line."""
        if sm.load[load].reads_only:
            return True
        return self.admission == ADMIT_USED and (
            sm.unused[modulo(sm.load[load].pc, self.counters)] >= self.unused_threshold
        )

    cdef void _open_or_close(self) noexcept nogil:
        """End a period of streaming bypass, of PDP or of G-Cache."""
        cdef int64_t i
        if self.closing_slices:
            for i in range(self.slices):
                self._open_or_close_slice(&self.slice[i], self.max_missing_share)
        for i in range(self.sms):
            if self.admission == ADMIT_UNLESS_CLOSED:
                self._open_or_close_l1(&self.sm[i])
            elif self.admission == ADMIT_UNPROTECTED:
                self._adjust_distance(&self.sm[i])
            elif self.admission == ADMIT_COLD:
                self.sm[i].contended = self.sm[i].hints > 0
                self.sm[i].hints = 0

    cdef inline void _open_or_close_l1(self, Sm* sm) noexcept nogil:
        """Streaming bypass: close an L1 that missed too often in the period; open another."""
        cdef int64_t executed = sm.n.thread_instructions - sm.instructions_at_closing
        cdef bint stays_open = thrashes(sm.not_found, executed, self.thrashing_mpki)
        sm.instructions_at_closing = sm.n.thread_instructions
        if cache_open_or_close(&sm.cache, &sm.closed, &sm.looked, &sm.not_found, self.max_missing_share, stays_open):
            # A stalled access may succeed now.
            sm.retry = True
            self._rouse(sm.number, self.now + 1)

    cdef inline void _adjust_distance(self, Sm* sm) noexcept nogil:
        """PDP: choose the distance for which the reuses of the period were best protected."""
        if sm.distances.sampled == 0:
            return
        sm.distance = distances_best(&sm.distances, sm.cache.ways)
        # A stalled access may succeed now, or bypass.
        sm.retry = True
        self._rouse(sm.number, self.now + 1)

    cdef void _end_patterns(self, Sm* sm, int64_t warp) noexcept nogil:
        """APCM: end the protection and the monitoring of a warp that has ended."""
        if warp == sm.patterns.monitored:
            patterns_end(&sm.patterns)
        elif sm.patterns.guard[warp].number == NONE:
            return
        sm.patterns.guard[warp].number = NONE
        # A stalled access may succeed now.
        sm.retry = True
        self._rouse(sm.number, self.now + 1)
