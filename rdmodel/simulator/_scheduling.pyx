# See _scheduling.pxd for the subject.
"""Simulate warp schedulers and throttling: `Scheduling`, on top of `Prediction`."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from rdmodel.plugins.policy cimport RDMODEL_LOAD, RDMODEL_WAIT
from rdmodel.simulator._allocation cimport allocation_search
from rdmodel.simulator._cache cimport cache_fetch
from rdmodel.simulator._congestion cimport LatencyRule, congestion_limit
from rdmodel.simulator._issue cimport (
    BARRIER, LEAVES_FLAG, LOAD, LOCAL_FLAG, PAST_FLAG, Instruction, Scheduler, Warp, oldest_bits, pick_by_age,
    scheduler_pick, warp_advance, warp_remember, warp_starved,
)
from rdmodel.simulator._loadstore cimport ADMIT_BY_PATTERN, ADMIT_UNPROTECTED
from rdmodel.simulator._machine cimport BlockSlot, Entry, Load, Sm, slot_bit
from rdmodel.simulator._network cimport C_GO, C_MEMORY, LOG_ISSUE
from rdmodel.simulator._patterns cimport patterns_number
from rdmodel.simulator._period cimport Period, thrashes
from rdmodel.simulator._plugins cimport THROTTLING
from rdmodel.simulator._prediction cimport Prediction
from rdmodel.simulator._victims cimport Victims, victims_init, victims_score
from rdmodel.simulator._wakes cimport NEVER
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._memory cimport grow
from rdmodel.structures._ring cimport Item, ring_push

cdef enum:
    WATCHING, SAMPLING, DECIDED

THROTTLE_RULES = {
    "all": THROTTLE_NONE, "oldest": THROTTLE_LIMIT, "tokens": THROTTLE_TOKENS, "sampled": THROTTLE_SAMPLED,
    "scored": THROTTLE_SCORED, "plugin": THROTTLE_BY_PLUGIN,
    "blocks": THROTTLE_BLOCKS, "latency": THROTTLE_LATENCY, "lazy": THROTTLE_LAZY,
    "adaptive": THROTTLE_ADAPTIVE, "owl": THROTTLE_OWL, "footprint": THROTTLE_FOOTPRINT,
}


cdef class Scheduling(Prediction):
    """Warps that issue, and warps that a policy holds back."""

    def _read_throttling(
        self, *, rule="all", int64_t limit=-1, int64_t tokens=0, int64_t period=-1, double mpki=0.0, int64_t confirm=0,
        int64_t sample=0, int64_t base=0, int64_t throttle=0, int64_t entries=0, int64_t ways=0, table=0,
        options=(), int64_t idle=0, int64_t low=0, int64_t high=0, double high_latency=0.0, double low_latency=0.0,
        double lost_share=0.0, int64_t step=0, bint lcs=False, int64_t group=1, bint baws=False, double gain=0.0,
        int64_t group_warps=1, bint locality=False, bint blp=False, double share=0.0,
        double reuse=0.0, int64_t converged=0, int64_t loads=0,
    ):
        """Set the throttling policy: the settings of `rdmodel.policies` and, as defaults, those of no policy."""
        self.throttle = THROTTLE_RULES[rule]
        self.limit = limit
        self.tokens = tokens
        self.gain = gain
        self.sampling_period = Period(period, period - 1)
        self.confirm = confirm
        self.sample = sample
        self.max_mpki = mpki
        self.sampling = WATCHING
        self.known_limit = -1
        if self.throttle == THROTTLE_SAMPLED:
            self.known_limit = limit
            self.limit = -1
        self.scoring = self.throttle == THROTTLE_SCORED
        self.score_base = base
        self.score_throttle = throttle
        self.victim_entries = entries
        self.victim_ways = ways
        self.limiting_by_latency = self.throttle == THROTTLE_LATENCY
        self.latency_rule = LatencyRule(high_latency, low_latency, lost_share, step)
        self._plug(THROTTLING, table, options)
        self._read_residency(
            limited=self.throttle in (THROTTLE_BLOCKS, THROTTLE_LAZY), counting=self.throttle == THROTTLE_BLOCKS,
            idle=idle, low=low, high=high, monitored=lcs, group=group,
        )
        self._read_prediction(
            predicting=self.throttle == THROTTLE_FOOTPRINT, share=share, reuse=reuse, converged=converged, loads=loads
        )
        self.ranking = self.scoring or self.predicting
        self.numbers_groups = self.throttle == THROTTLE_OWL
        self.by_blocks = self.limits_blocks or self.numbers_groups
        self.choice = CHOOSE_SAME if baws else CHOOSE_ANY
        if self.numbers_groups:
            self.choice = CHOOSE_FIRST if locality else CHOOSE_NEXT
        self.groups_differ = blp
        self.group_size = min((group_warps - 1) // self.block_warps + 1, self.slots)
        self.round_groups = (self.slots - 1) // self.group_size + 1
        self.allocating_apart = self.throttle in (THROTTLE_TOKENS, THROTTLE_BY_PLUGIN, THROTTLE_ADAPTIVE)
        self.admitting = self.admitting or self.ranking or self.allocating_apart or self.limiting_by_latency
        self.attentive = self.counts_cycles or self.limiting_by_latency
        self.finding = self.admission >= ADMIT_UNPROTECTED or self.plugged
        self.deciding = self.admitting or self.buffered

    def _allocate_scheduling(self):
        cdef int64_t i, k, warps = self.slots * self.block_warps
        cdef Sm* sm
        self.starved = <int64_t*> malloc(<size_t> (2 * self.sms * warps) * sizeof(int64_t))
        self.ranked = <int64_t*> malloc(<size_t> warps * sizeof(int64_t))
        if self.starved == NULL or self.ranked == NULL:
            raise MemoryError
        self._allocate_prediction()
        for i in range(self.sms):
            sm = &self.sm[i]
            sm.limit = self._scheduler_places() if self.limiting_by_latency else self.limit
            sm.tokens = self.tokens
            if self.throttle == THROTTLE_ADAPTIVE:
                sm.limit = sm.tokens = sm.allocation.loading = sm.allocation.cached = self._scheduler_places()
            self._begin_residency(sm)
            for k in range(warps):
                sm.warp[k].scheduler = <int32_t> (k % self.schedulers)
                sm.warp[k].slot = <int32_t> (k // self.block_warps)
                sm.warp[k].bit = <uint64_t> 1 << (k // self.schedulers)
            for k in range(self.schedulers):
                sm.scheduler[k].last = sm.scheduler[k].last_age = -1
                sm.scheduler[k].stale = True
            if self.scoring and victims_init(
                &sm.victims, warps, self.victim_entries, self.victim_ways, self.score_base
            ) < 0:
                raise MemoryError

    def __dealloc__(self):
        free(self.starved)
        free(self.ranked)

    # ---- throttling by samples

    cdef void _end_sampling_period(self) noexcept nogil:
        """End a period of dwt-cs, dyncta, latency-limit or cca."""
        cdef int64_t i
        if self.throttle == THROTTLE_SAMPLED:
            self._sample_limits()
            return
        for i in range(self.sms):
            if self.limiting_by_latency:
                self._adjust_warps(&self.sm[i])
            elif self.throttle == THROTTLE_ADAPTIVE:
                self._search(&self.sm[i])
            elif self._adjust_blocks(&self.sm[i]):
                self._regroup(&self.sm[i])
                self.any_wanted = True

    cdef inline void _adjust_warps(self, Sm* sm) noexcept nogil:
        """Let the limit on the warps of an SM follow the latency of the crossbar."""
        cdef int64_t limit = congestion_limit(&sm.congestion, &self.latency_rule, sm.limit, self._scheduler_places())
        if limit != sm.limit:
            self._set_limit(sm, limit)

    cdef inline void _sample_limits(self) noexcept nogil:
        """DWT-CS: watch for thrashing, then try another limit on each SM, then set the best one on all."""
        cdef int64_t i, misses = 0, instructions = 0, best = 0
        for i in range(self.sms):
            self._end_period(&self.sm[i])
        if self.sampling == WATCHING:
            for i in range(self.sms):
                misses += self.sm[i].period_misses
                instructions += self.sm[i].period_instructions
            if thrashes(misses, instructions, self.max_mpki):
                self.streak += 1
            else:
                self.streak = 0
            if self.streak == self.confirm and self.known_limit >= 0:
                self._decide(self.known_limit)
            elif self.streak == self.confirm:
                self.sampling = SAMPLING
                self._try_limits(0)
        elif self.sampling == SAMPLING:
            for i in range(self.sms):
                self.sm[i].sampled += self.sm[i].period_instructions
                if self.sm[i].sampled > self.sm[best].sampled:
                    best = i
            self.periods_left -= 1
            if self.periods_left == 0:
                if best == self.sms - 1 and self.round == 0 and self.sms < self._scheduler_places():
                    self._try_limits(1)
                else:
                    self._decide(self.round * self.sms + best + 1)

    cdef inline void _search(self, Sm* sm) noexcept nogil:
        """CCA: end a period of an SM, and set the numbers of warps for the next one."""
        self._end_period(sm)
        allocation_search(&sm.allocation, sm.period_instructions, self.gain, self._scheduler_places())
        sm.tokens = sm.allocation.cached
        self._set_limit(sm, sm.allocation.loading)

    cdef inline void _decide(self, int64_t limit) noexcept nogil:
        cdef int64_t i
        self.sampling = DECIDED
        self.limit = min(limit, self._scheduler_places())
        for i in range(self.sms):
            self._set_limit(&self.sm[i], self.limit)

    cdef inline void _end_period(self, Sm* sm) noexcept nogil:
        """Set the misses and instructions of the period that ends now."""
        cdef int64_t misses = sm.n.compulsory + sm.n.capacity + sm.n.associativity
        sm.period_misses = misses - sm.misses_before
        sm.period_instructions = sm.n.thread_instructions - sm.instructions_before
        sm.misses_before = misses
        sm.instructions_before = sm.n.thread_instructions

    cdef inline void _try_limits(self, int64_t round) noexcept nogil:
        cdef int64_t i
        self.round = round
        self.periods_left = self.sample
        for i in range(self.sms):
            self.sm[i].sampled = 0
            limit = round * self.sms + i + 1
            self._set_limit(&self.sm[i], limit if round == 0 else min(limit, self._scheduler_places()))

    cdef inline void _set_limit(self, Sm* sm, int64_t limit) noexcept nogil:
        sm.limit = limit
        self._regroup(sm)

    cdef inline int64_t _scheduler_places(self) noexcept nogil:
        """Return the number of warps that a scheduler can have."""
        return (self.slots * self.block_warps + self.schedulers - 1) // self.schedulers

    # ---- active warps

    cdef void _regroup(self, Sm* sm) noexcept nogil:
        """Mark the set of active warps stale: a warp started, ended, or reached or left a barrier."""
        cdef int64_t k
        if self.throttle == THROTTLE_NONE:
            return
        for k in range(self.schedulers):
            sm.scheduler[k].stale = True
        sm.victims.stale = sm.footprints.stale = True
        self._rouse(sm.number, self.now + 1)

    cdef void _open_barrier(self, Sm* sm, int64_t slot) noexcept nogil:
        cdef int64_t i
        sm.slot[slot].waiting = 0
        for i in range(slot * self.block_warps, (slot + 1) * self.block_warps):
            if sm.warp[i].alive:
                sm.warp[i].at_barrier = False
                self._stand(sm, i)

    # ---- S4: issue; `_issue` is in _scheduling.pxd

    cdef inline uint64_t _active(self, Sm* sm, int64_t k) noexcept nogil:
        """Return the warps of scheduler `k` that may issue loads, as bits by place."""
        cdef Scheduler* s = &sm.scheduler[k]
        cdef int64_t places
        if s.stale and not self.ranking:
            s.stale = False
            places = (self.slots * self.block_warps - k + self.schedulers - 1) // self.schedulers
            if self.throttle == THROTTLE_BY_PLUGIN:
                self._ask_permits(sm, k, places)
                return s.active
            if self.throttle == THROTTLE_BLOCKS:
                s.active = s.allocating = self._running(sm, k)
                return s.active
            s.active = oldest_bits(sm.warp, k, self.schedulers, places, sm.limit)
            s.allocating = s.active
            if self.allocating_apart:
                s.allocating = oldest_bits(sm.warp, k, self.schedulers, places, sm.tokens)
        return s.active

    cdef inline void _ask_permits(self, Sm* sm, int64_t k, int64_t places) noexcept nogil:
        """Let the plug-in decide about the warps of scheduler `k`, from the oldest on."""
        cdef Scheduler* s = &sm.scheduler[k]
        cdef uint64_t bit, left = oldest_bits(sm.warp, k, self.schedulers, places, -1)
        cdef int64_t place, rank = 0
        cdef int permit
        s.active = s.allocating = 0
        while left != 0:
            place = pick_by_age(left, sm.warp, k, self.schedulers, False)
            bit = <uint64_t> 1 << place
            permit = self._ask_to_permit(sm, k + place * self.schedulers, rank)
            if permit != RDMODEL_WAIT:
                s.active |= bit
            if permit == RDMODEL_LOAD:
                s.allocating |= bit
            left &= ~bit
            rank += 1

    cdef inline void _rank_if_stale(self, Sm* sm, int64_t t) noexcept nogil:
        """Choose the warps that may load in cycle `t` if they may not be those of the last choice."""
        if self.scoring and (sm.victims.stale or sm.victims.until <= t):
            self._rank(sm, t)
        if self.predicting and sm.footprints.stale:
            self._rank_by_footprint(sm)

    cdef inline void _rank(self, Sm* sm, int64_t t) noexcept nogil:
        """CCWS: rank the warps for cycle `t`, and let them load from the first on while their scores fit."""
        cdef Victims* v = &sm.victims
        cdef int64_t i, k, warp, score, n = 0, sum = 0, raised = 0, decay = NEVER
        for k in range(self.schedulers):
            sm.scheduler[k].active = 0
        v.stale = False
        v.until = NEVER
        for warp in range(self.slots * self.block_warps):
            if sm.warp[warp].alive and not sm.warp[warp].at_barrier:
                n += 1
                i = n - 1
                while i > 0 and self._goes_before(sm, warp, self.ranked[i - 1], t):
                    self.ranked[i] = self.ranked[i - 1]
                    i -= 1
                self.ranked[i] = warp
        for i in range(n):
            warp = self.ranked[i]
            score = victims_score(v, warp, t)
            sum += score
            if score > v.base:
                raised += 1
                decay = min(decay, score - v.base)
            if i > 0 and sum > n * v.base:
                # It fits once the scores have fallen enough; ranks change only where a score has reached the base.
                v.until = t + min(decay, (sum - n * v.base + raised - 1) // raised)
                return
            sm.scheduler[sm.warp[warp].scheduler].active |= sm.warp[warp].bit

    cdef inline bint _goes_before(self, const Sm* sm, int64_t a, int64_t b, int64_t t) noexcept nogil:
        cdef int64_t first = victims_score(&sm.victims, a, t), second = victims_score(&sm.victims, b, t)
        return first > second or first == second and sm.warp[a].age < sm.warp[b].age

    cdef inline int _issue_from(self, int64_t i, int64_t t, int64_t warp) noexcept nogil:
        """Issue the next instruction of a warp that can issue."""
        cdef Sm* sm = &self.sm[i]
        cdef Warp* w = &sm.warp[warp]
        cdef const Instruction* next = &w.program[w.at]
        cdef BlockSlot* b
        sm.n.warp_instructions += 1
        sm.n.thread_instructions += next.lanes
        if w.gap_left > 0:
            self._log(LOG_ISSUE, t, i, warp, 0, 0)
            w.gap_left -= 1
            if self.alu_latency > 1:
                w.resting = True
                if ring_push(&sm.resting, Item(t + self.alu_latency, 0, 0, warp)) < 0:
                    return C_MEMORY
            if w.gap_left == 0 or w.resting:
                self._stand(sm, warp)
            return C_GO
        if next.op == BARRIER:
            self._log(LOG_ISSUE, t, i, warp, 2, 0)
            w.at_barrier = True
            sm.scheduler[w.scheduler].stale = True
            sm.victims.stale = sm.footprints.stale = True
            b = &sm.slot[w.slot]
            b.waiting += 1
            if b.waiting == b.alive:
                sm.check |= slot_bit(w.slot)
        else:
            self._log(LOG_ISSUE, t, i, warp, 1, 0)
            if next.count > 0 and self._enter_unit(sm, warp) < 0:
                return C_MEMORY
            warp_remember(w, next.op == LOAD and next.count > 0)
        warp_advance(w)
        if warp_starved(w):
            self.starved[2 * self.starved_size] = i
            self.starved[2 * self.starved_size + 1] = warp
            self.starved_size += 1
        elif self.predicting:
            self._follow(sm, warp)
        self._stand(sm, warp)
        return C_GO

    cdef inline int _enter_unit(self, Sm* sm, int64_t warp) noexcept nogil:
        cdef Warp* w = &sm.warp[warp]
        cdef const Instruction* next = &w.program[w.at]
        cdef int64_t place = sm.entry_head + sm.entries
        cdef Entry* e = &sm.entry[place if place < self.ldst_queue else place - self.ldst_queue]
        e.warp = warp
        sm.first_scheduler = w.scheduler + 1
        e.op = next.op
        e.local = next.flags & LOCAL_FLAG
        e.pc = next.pc
        e.at = 0
        e.count = next.count
        e.load = NONE
        # Most instructions have one line: a call would take longer than its copy.
        e.ids[0] = w.ids[w.id_at]
        if e.count > 1:
            memcpy(e.ids + 1, w.ids + w.id_at + 1, <size_t> (e.count - 1) * sizeof(int64_t))
        if self.sized:
            memcpy(e.sectors, w.sectors + w.id_at, <size_t> e.count * sizeof(uint64_t))
        if self.recording:
            memcpy(e.masks, w.masks + w.id_at, <size_t> e.count * sizeof(uint32_t))
        cache_fetch(&sm.cache, e.ids[0])
        sm.entries += 1
        w.in_unit += 1
        if e.op == LOAD:
            e.load = self._new_load(sm)
            if e.load == NONE:
                return C_MEMORY
            sm.load[e.load] = Load(
                number=w.issued, hit=-1, warp=<int32_t> warp, waits=1, left=<int32_t> e.count, pc=next.pc, pattern=NONE,
                served=0, next=NONE, past=(next.flags & PAST_FLAG) != 0,
                reads_only=self.allocating_apart and sm.scheduler[w.scheduler].allocating & w.bit == 0,
                leaves=(next.flags & LEAVES_FLAG) != 0,
            )
            if self.admission == ADMIT_BY_PATTERN and not e.local:
                sm.load[e.load].pattern = patterns_number(&sm.patterns, e.pc)
        return C_GO

    cdef inline int64_t _new_load(self, Sm* sm) noexcept nogil:
        cdef int64_t i, size
        if sm.free_load == NONE:
            size = 64 if sm.loads == 0 else 2 * sm.loads
            if grow(<void**> &sm.load, size, sizeof(Load)) < 0:
                return NONE
            for i in range(size - 1, sm.loads - 1, -1):
                sm.load[i].next = sm.free_load
                sm.free_load = i
            sm.loads = size
        i = sm.free_load
        sm.free_load = sm.load[i].next
        return i
