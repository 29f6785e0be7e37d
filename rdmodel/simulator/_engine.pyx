# The machine's cycle is defined in docs/machine.md, phase by phase (S1 to S5 of an SM, P1 to P3 of a partition, the end
# of the cycle); rdmodel.reference.machine walks through every cycle of it. Here time jumps: every SM and partition
# knows when it can next do something (`wake`), and a part whose state cannot change is not looked at.
#
# What is missing (instructions of a warp, a block) is asked for between two cycles only, so no phase is interrupted.
"""The compiled event-driven simulator: `Machine`."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from rdmodel.simulator._cache cimport cache_free, cache_init, cache_intern, cache_violations, mshrs_free, mshrs_init
from rdmodel.simulator._clock cimport sm_cycle_of
from rdmodel.simulator._dram cimport channel_free
from rdmodel.simulator._issue cimport (
    BARRIER, LEAVES_FLAG, LOAD, LOCAL_FLAG, Scheduler, Warp, oldest_bits, scheduler_pick, warp_advance, warp_begin,
    warp_free, warp_done, warp_make_room, warp_remember, warp_starved,
)
from rdmodel.simulator._loadstore cimport ADMIT_ALL, ADMIT_BY_PATTERN, ADMIT_UNPROTECTED, ADMIT_USED, STALL
from rdmodel.simulator._machine cimport FAILED, BlockSlot, Buffer, Entry, Load, Slice, Sm
from rdmodel.simulator._network cimport C_GO, C_MEMORY, LOG_BEGIN, LOG_END, LOG_ISSUE, NEVER
from rdmodel.simulator._network cimport REQUEST_BYTES as C_REQUEST_BYTES
from rdmodel.simulator._patterns cimport patterns_end, patterns_free, patterns_init, patterns_number
from rdmodel.simulator._period cimport Period, period_end, period_over
from rdmodel.simulator._reorder cimport SIGNATURE_BLOCK, SIGNATURE_INDEX, Reordering as Shared
from rdmodel.simulator._victims cimport Victims, victims_begin, victims_free, victims_init, victims_score
from rdmodel.structures._index cimport index_read, modulo
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._memory cimport grow
from rdmodel.structures._ring cimport Ring, ring_first, ring_free, ring_pop

# A name that is cimported is the compiler's alone: callers of this module need one in Python.
from rdmodel.simulator._loadstore import ROW_WIDTH

# What `_run` returns beside C_GO and C_MEMORY: why it stopped.
cdef enum:
    C_DONE = 0
    C_CHUNK = 1           # warp `subject` of SM `subject_sm` needs instructions
    C_BLOCK = 2           # slot `subject` of SM `subject_sm` is free
    C_PAUSE = 3           # nothing is wanted: the caller may look at signals
    C_DRAIN = 4           # the record of accesses is full
    C_STUCK = 5           # nothing can happen any more, and blocks are resident

# Policies of throttling, as rdmodel.simulator.machine numbers them.
cdef enum:
    THROTTLE_NONE = 0
    THROTTLE_LIMIT = 1        # the oldest warps of each scheduler
    THROTTLE_TOKENS = 2       # the oldest may allocate, some more may read
    THROTTLE_SAMPLED = 3      # a limit that is found by trying different ones on different SMs
    THROTTLE_SCORED = 4       # those that have lost most to others

cdef enum:
    WATCHING, SAMPLING, DECIDED

DONE = C_DONE
WANT_CHUNK = C_CHUNK
WANT_BLOCK = C_BLOCK
PAUSE = C_PAUSE
WANT_DRAIN = C_DRAIN
STUCK = C_STUCK
REQUEST_BYTES = C_REQUEST_BYTES
FAIL_NAMES = ("line_alloc", "mshr_entry", "mshr_merge", "miss_queue")
SLICE_FAIL_NAMES = ("line_alloc", "mshr_entry", "mshr_merge", "dram_queue")


@cython.final
cdef class Machine(Shared):
    """SMs, crossbar, L2 slices and DRAM channels; `run` until it wants something, give it, and `run` on."""

    cdef public int64_t last_end
    cdef public int64_t subject_sm, subject
    cdef int64_t resident             # blocks
    cdef bint filling, any_wanted
    cdef int64_t* starved             # (SM, warp) pairs
    cdef int64_t starved_size
    # Throttling, and the periods that policies look back on.
    cdef int throttle
    cdef int64_t tokens
    cdef Period sampling_period, closing_period
    cdef bint periodic                # some policy looks back on periods
    cdef int sampling
    cdef int64_t confirm, sample, streak, periods_left, round
    cdef public int64_t limit         # that sampling has found; -1 = none
    cdef int64_t known_limit          # that an earlier launch has found; -1 = none
    cdef int64_t* ranked              # warps of an SM, while they are put in order
    cdef double most_mpki

    def __init__(
        self, *, int64_t sms, int64_t slots, int64_t block_warps, int64_t most_lines, core, l1, index, crossbar, l2,
        dram, clock, ideal, bint log, policies,
    ):
        """`core`, `l1`, `crossbar`, `l2` and `dram` are dicts of numbers under the fields' names, None as -1."""
        assert self.sm == NULL, "a machine is set up once"
        self.sms = sms
        self.slices = 0 if ideal >= 0 else l2["slices"]
        self.slots = slots
        self.block_warps = block_warps
        self.most_lines = most_lines
        self.now = -1
        self.last_end = -1
        self.filling = self.any_wanted = True
        self.ideal = ideal
        self.logging = log
        self._read_core(core, l1)
        self._read_memory(crossbar, l2, dram, clock, l1["line"])
        self._read_policies(policies)
        self._allocate_sms(l1, index, policies)
        self._allocate_slices(l1["line"], l2, dram)

    def _read_policies(self, policies):
        self.throttle = policies["throttle"]
        self.limit = policies["limit"]
        self.tokens = policies["tokens"]
        self.sampling_period = Period(policies["sampling_period"], policies["sampling_period"] - 1)
        self.closing_period = Period(policies["closing_period"], policies["closing_period"] - 1)
        self.periodic = self.sampling_period.cycles > 0 or self.closing_period.cycles > 0
        self.confirm = policies["confirm"]
        self.sample = policies["sample"]
        self.most_mpki = policies["mpki"]
        self.sampling = WATCHING
        self.known_limit = -1
        if self.throttle == THROTTLE_SAMPLED:
            self.known_limit = self.limit
            self.limit = -1
        self.admission = policies["admission"]
        self.on_stall = policies["on_stall"]
        self.scoring = self.throttle == THROTTLE_SCORED
        self.admitting = self.admission != ADMIT_ALL or self.on_stall != STALL or self.throttle == THROTTLE_TOKENS
        self.admitting = self.admitting or self.scoring
        self.closing_slices = policies["closing_slices"]
        self.score_base = policies["score_base"]
        self.score_throttle = policies["score_throttle"]
        self.counters = policies["counters"]
        self.most_unused = policies["most_unused"]
        self.unused_threshold = policies["unused_threshold"]
        self.most_missed = policies["threshold"]
        self.distance = policies["distance"]
        self.buffered = policies["buffered"]
        self.signature = policies["signature"]
        self.drain = policies["drain"]
        self.drain_greedy = policies["greedy"]
        self.flush = policies["flush"]
        self.entries_per_queue = policies["entries"]
        self.buffer_latency = policies["latency"]

    def _allocate_sms(self, l1, index, policies):
        cdef int64_t i, k, warps = self.slots * self.block_warps
        cdef Sm* sm
        self.sm = <Sm*> calloc(<size_t> self.sms, sizeof(Sm))
        self.starved = <int64_t*> malloc(<size_t> (2 * self.sms * warps) * sizeof(int64_t))
        self.ranked = <int64_t*> malloc(<size_t> warps * sizeof(int64_t))
        self.wakes = <int64_t*> malloc(<size_t> (self.sms + self.slices) * sizeof(int64_t))
        if self.sm == NULL or self.starved == NULL or self.ranked == NULL or self.wakes == NULL:
            raise MemoryError
        for i in range(self.sms):
            sm = &self.sm[i]
            sm.warp = <Warp*> calloc(<size_t> warps, sizeof(Warp))
            sm.slot = <BlockSlot*> calloc(<size_t> self.slots, sizeof(BlockSlot))
            sm.entry = <Entry*> calloc(<size_t> self.ldst_queue, sizeof(Entry))
            sm.entry_ids = <int64_t*> malloc(<size_t> (self.ldst_queue * self.most_lines) * sizeof(int64_t))
            mshrs_init(&sm.mshrs, l1["mshrs"], l1["mshr_merge"])
            if not (sm.warp and sm.slot and sm.entry and sm.entry_ids):
                raise MemoryError
            if cache_init(&sm.cache, l1["sets"], l1["ways"], l1["sets"] * l1["ways"]) < 0:
                raise MemoryError
            index_read(&sm.cache.index, index)
            sm.cache.interleave = 1
            sm.free_load = NONE
            sm.wake = self.wakes + i
            sm.wake[0] = NEVER
            sm.limit = self.limit
            self._allocate_policies(sm, l1["sets"], policies)
            for k in range(self.ldst_queue):
                sm.entry[k].ids = sm.entry_ids + k * self.most_lines
            for k in range(self.schedulers):
                sm.scheduler[k].last = sm.scheduler[k].last_age = -1

    cdef _allocate_policies(self, Sm* sm, int64_t sets, policies):
        cdef int64_t k, warps = self.slots * self.block_warps
        cdef Buffer* b = &sm.buffer
        for k in range(self.schedulers):
            sm.scheduler[k].stale = True
        if self.admission == ADMIT_UNPROTECTED:
            sm.cache.accesses = <int64_t*> calloc(<size_t> sets, sizeof(int64_t))
            if sm.cache.accesses == NULL:
                raise MemoryError
        sm.cache.noted = self.admission in (ADMIT_UNPROTECTED, ADMIT_USED, ADMIT_BY_PATTERN)
        if self.admission == ADMIT_USED:
            sm.unused = <int64_t*> calloc(<size_t> self.counters, sizeof(int64_t))
            if sm.unused == NULL:
                raise MemoryError
        if self.admission == ADMIT_BY_PATTERN:
            if patterns_init(&sm.patterns, warps, policies["loads"], policies["tags"], policies["most_accesses"]) < 0:
                raise MemoryError
            sm.patterns.bypassing = policies["bypassing"]
            sm.patterns.protecting = policies["protecting"]
        if self.scoring and victims_init(
            &sm.victims, warps, policies["victims"], policies["victim_ways"], self.score_base
        ) < 0:
            raise MemoryError
        b.last = b.flushed = b.stuck = NONE
        if self.buffered:
            b.queues = self.slots * self.block_warps
            if self.signature == SIGNATURE_BLOCK:
                b.queues = self.slots
            elif self.signature == SIGNATURE_INDEX:
                b.queues = self.block_warps
            b.queue = <Ring*> calloc(<size_t> b.queues, sizeof(Ring))
            if b.queue == NULL:
                raise MemoryError

    def __dealloc__(self):
        cdef int64_t i, k
        cdef Sm* sm
        cdef Slice* s
        if self.sm != NULL:
            for i in range(self.sms):
                sm = &self.sm[i]
                if sm.warp != NULL:
                    for k in range(self.slots * self.block_warps):
                        warp_free(&sm.warp[k])
                free(sm.warp)
                free(sm.slot)
                free(sm.entry)
                free(sm.entry_ids)
                free(sm.entry_masks)
                free(sm.load)
                cache_free(&sm.cache)
                mshrs_free(&sm.mshrs)
                ring_free(&sm.hits)
                ring_free(&sm.misses)
                ring_free(&sm.responses)
                if sm.buffer.queue != NULL:
                    for k in range(sm.buffer.queues):
                        ring_free(&sm.buffer.queue[k])
                free(sm.buffer.queue)
                free(sm.unused)
                victims_free(&sm.victims)
                patterns_free(&sm.patterns)
        if self.slice != NULL:
            for i in range(self.slices):
                s = &self.slice[i]
                cache_free(&s.cache)
                mshrs_free(&s.mshrs)
                mshrs_free(&s.passing)
                ring_free(&s.input)
                ring_free(&s.waiting)
                ring_free(&s.returns)
                channel_free(&s.channel)
        free(self.sm)
        free(self.slice)
        free(self.starved)
        free(self.ranked)
        free(self.wakes)
        free(self.log)
        free(self.latency)

    # ---- what comes from outside

    def begin_block(self, int64_t sm, int64_t slot, int64_t block):
        """Reset the warps of a block slot; `put_chunk` each warp until it is not `starved`, then `start_block`."""
        cdef Sm* m = &self.sm[sm]
        cdef int64_t i
        for i in range(self.block_warps):
            warp_begin(&m.warp[slot * self.block_warps + i], m.begun, block, i)
            if self.scoring:
                victims_begin(&m.victims, slot * self.block_warps + i)
            m.begun += 1
        m.slot[slot].block = block
        m.n.blocks += 1

    def start_block(self, int64_t sm, int64_t slot):
        """Let the warps of a block go; one without any instruction leaves the slot free."""
        cdef Sm* m = &self.sm[sm]
        cdef BlockSlot* b = &m.slot[slot]
        cdef int64_t i, first = slot * self.block_warps
        b.alive = b.waiting = 0
        self._log(LOG_BEGIN, self.now, sm, slot, b.block, 0)
        for i in range(first, first + self.block_warps):
            m.warp[i].alive = m.warp[i].n > 0
            b.alive += m.warp[i].alive
            if m.warp[i].alive and m.patterns.monitored == NONE and not m.patterns.over:
                m.patterns.monitored = i
            self._stand(m, i)
        b.occupied = b.alive > 0
        self.resident += b.occupied
        self._regroup(m)
        if b.alive == 0:
            self._log(LOG_END, self.now, sm, slot, b.block, 0)
            self.last_end = max(self.last_end, self.now)
        m.wake[0] = min(m.wake[0], self.now + 1)

    cdef void _regroup(self, Sm* sm) noexcept nogil:
        """Have it found out again who is active: some warp began, ended, came to a barrier or left one."""
        cdef int64_t k
        if self.throttle == THROTTLE_NONE:
            return
        for k in range(self.schedulers):
            sm.scheduler[k].stale = True
        sm.victims.stale = True
        sm.wake[0] = min(sm.wake[0], self.now + 1)

    def decline_block(self, int64_t sm, int64_t slot):
        """Leave a block slot empty for good: there are no more blocks."""
        self.sm[sm].slot[slot].closed = True

    def starving(self, int64_t sm, int64_t warp):
        """Tell whether a warp's next instruction is unknown."""
        return warp_starved(&self.sm[sm].warp[warp])

    def put_chunk(
        self, int64_t sm, int64_t warp, const uint8_t[::1] op, const uint64_t[::1] needs, const int32_t[::1] gap,
        const int32_t[::1] count, const int64_t[::1] lines, const int32_t[::1] pc, const uint8_t[::1] lanes,
        const uint8_t[::1] flags, int64_t n, int64_t used, bint more, const uint32_t[::1] masks=None,
    ):
        """Append `n` instructions with `used` lines in all to a warp's buffer; `more`: further ones may follow.

        `masks` has the lanes that asked for each line; only a record needs them.
        """
        cdef Sm* m = &self.sm[sm]
        cdef Warp* w = &m.warp[warp]
        cdef bint empty = w.at == w.n
        assert 0 <= n <= op.shape[0] and 0 <= used <= lines.shape[0]
        if warp_make_room(w, n, used) < 0:
            raise MemoryError
        if n > 0:
            memcpy(w.op + w.n, &op[0], <size_t> n * sizeof(uint8_t))
            memcpy(w.lanes + w.n, &lanes[0], <size_t> n * sizeof(uint8_t))
            memcpy(w.flags + w.n, &flags[0], <size_t> n * sizeof(uint8_t))
            memcpy(w.count + w.n, &count[0], <size_t> n * sizeof(int32_t))
            memcpy(w.gap + w.n, &gap[0], <size_t> n * sizeof(int32_t))
            memcpy(w.pc + w.n, &pc[0], <size_t> n * sizeof(int32_t))
            memcpy(w.needs + w.n, &needs[0], <size_t> n * sizeof(uint64_t))
            w.n += n
        if used > 0:
            if cache_intern(&m.cache, &lines[0], used, w.ids + w.used) < 0:
                raise MemoryError
            if self.recording:
                assert masks is not None and used <= masks.shape[0]
                memcpy(w.masks + w.used, &masks[0], <size_t> used * sizeof(uint32_t))
            w.used += used
        w.more = more
        if empty and n > 0:
            w.gap_left = w.gap[0]

    # ---- running

    def run(self, int64_t cycles):
        """Run on, for at most about `cycles` cycles in which something happens; return why it stopped."""
        cdef int code
        with nogil:
            code = self._run(cycles)
        if code == C_MEMORY:
            raise MemoryError
        return code

    cdef int _run(self, int64_t cycles) noexcept nogil:
        cdef int code
        cdef int64_t wake
        while True:
            code = self._end_cycle()
            if code != C_GO:
                return code
            if cycles <= 0:
                return C_PAUSE
            cycles -= 1
            wake = self._next_wake()
            if wake == NEVER:
                return C_STUCK if self.resident > 0 else C_DONE
            if self.periodic and self.resident > 0:
                wake = min(wake, min(period_end(&self.sampling_period), period_end(&self.closing_period)))
            self.now = wake
            code = self._cycle(self.now)
            if code != C_GO:
                return code

    cdef int64_t _next_wake(self) noexcept nogil:
        cdef int64_t i, wake = NEVER
        for i in range(self.sms + self.slices):
            wake = min(wake, self.wakes[i])
        return wake

    cdef int _cycle(self, int64_t t) noexcept nogil:
        cdef int64_t i
        for i in range(self.sms):
            if self.wakes[i] <= t and self._sm_cycle(i, t) < 0:
                return C_MEMORY
        for i in range(self.slices):
            if self.wakes[self.sms + i] <= t and self._partition_cycle(i, t) < 0:
                return C_MEMORY
        return C_GO

    # ---- the end of a cycle

    cdef int _end_cycle(self) noexcept nogil:
        """E0 to E3, and before them the wishes for instructions."""
        cdef int64_t i
        if self.periodic:
            if period_over(&self.sampling_period, self.now) and self.resident > 0:
                self._sample_limits()
            if period_over(&self.closing_period, self.now) and self.resident > 0:
                self._open_or_close()
        while self.starved_size > 0:
            self.subject_sm = self.starved[2 * self.starved_size - 2]
            self.subject = self.starved[2 * self.starved_size - 1]
            if warp_starved(&self.sm[self.subject_sm].warp[self.subject]):
                return C_CHUNK
            self.starved_size -= 1
            self._stand(&self.sm[self.subject_sm], self.subject)
            self.sm[self.subject_sm].wake[0] = min(self.sm[self.subject_sm].wake[0], self.now + 1)
        if self.any_check:
            self.any_check = False
            for i in range(self.sms):
                if self.sm[i].check:
                    self._settle(i)
        if self.any_wanted:
            if self._find_wanted():
                return C_BLOCK
            self.any_wanted = self.filling = False
        if self.recording and self.rows.shape[0] - self.recorded < self.sms:
            return C_DRAIN
        return C_GO

    cdef void _sample_limits(self) noexcept nogil:
        """DWT-CS: watch for thrashing, then try a limit on each SM, then keep the best."""
        cdef int64_t i, misses = 0, instructions = 0, best = 0
        for i in range(self.sms):
            self._end_period(&self.sm[i])
        if self.sampling == WATCHING:
            for i in range(self.sms):
                misses += self.sm[i].period_misses
                instructions += self.sm[i].period_instructions
            if instructions > 0 and 1000.0 * <double> misses / <double> instructions > self.most_mpki:
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
                if best == self.sms - 1 and self.round == 0 and self.sms < self._most_places():
                    self._try_limits(1)
                else:
                    self._decide(self.round * self.sms + best + 1)

    cdef void _decide(self, int64_t limit) noexcept nogil:
        cdef int64_t i
        self.sampling = DECIDED
        self.limit = min(limit, self._most_places())
        for i in range(self.sms):
            self._set_limit(&self.sm[i], self.limit)

    cdef void _end_period(self, Sm* sm) noexcept nogil:
        """Find out how many misses and instructions were counted since the last period ended."""
        cdef int64_t misses = sm.n.compulsory + sm.n.capacity + sm.n.associativity
        sm.period_misses = misses - sm.misses_before
        sm.period_instructions = sm.n.thread_instructions - sm.instructions_before
        sm.misses_before = misses
        sm.instructions_before = sm.n.thread_instructions

    cdef void _try_limits(self, int64_t round) noexcept nogil:
        cdef int64_t i
        self.round = round
        self.periods_left = self.sample
        for i in range(self.sms):
            self.sm[i].sampled = 0
            limit = round * self.sms + i + 1
            self._set_limit(&self.sm[i], limit if round == 0 else min(limit, self._most_places()))

    cdef void _set_limit(self, Sm* sm, int64_t limit) noexcept nogil:
        sm.limit = limit
        self._regroup(sm)

    cdef int64_t _most_places(self) noexcept nogil:
        """Return how many warps a scheduler can have."""
        return (self.slots * self.block_warps + self.schedulers - 1) // self.schedulers

    cdef bint _find_wanted(self) noexcept nogil:
        """Point the subject at the free slot that is served next: at the start in rounds, later by SM and slot."""
        cdef int64_t k, total = self.sms * self.slots
        cdef BlockSlot* b
        for k in range(total):
            self.subject_sm = k % self.sms if self.filling else k // self.slots
            self.subject = k // self.sms if self.filling else k % self.slots
            b = &self.sm[self.subject_sm].slot[self.subject]
            if not b.occupied and not b.closed:
                return True
        return False

    cdef void _settle(self, int64_t i) noexcept nogil:
        """Open barriers and end warps and blocks, until nothing more follows."""
        cdef Sm* sm = &self.sm[i]
        cdef BlockSlot* b
        cdef int64_t slot
        sm.check = False
        self._regroup(sm)
        for slot in range(self.slots):
            b = &sm.slot[slot]
            if not b.occupied:
                continue
            self._end_warps(sm, slot)
            while 0 < b.alive == b.waiting:
                self._open_barrier(sm, slot)
                sm.wake[0] = min(sm.wake[0], self.now + 1)
                self._end_warps(sm, slot)
            if b.alive == 0:
                b.occupied = False
                self.resident -= 1
                self.any_wanted = True
                self.last_end = self.now
                self._log(LOG_END, self.now, i, slot, b.block, 0)

    cdef void _end_warps(self, Sm* sm, int64_t slot) noexcept nogil:
        cdef int64_t i
        for i in range(slot * self.block_warps, (slot + 1) * self.block_warps):
            if sm.warp[i].alive and warp_done(&sm.warp[i]):
                sm.warp[i].alive = False
                sm.slot[slot].alive -= 1
                if self.admission == ADMIT_BY_PATTERN:
                    self._end_patterns(sm, i)

    cdef void _end_patterns(self, Sm* sm, int64_t warp) noexcept nogil:
        """APCM: a warp that has ended protects nothing, and can no longer be watched."""
        if warp == sm.patterns.monitored:
            patterns_end(&sm.patterns)
        elif sm.patterns.guard[warp].number == NONE:
            return
        sm.patterns.guard[warp].number = NONE
        # What was stalled may find it otherwise now.
        sm.retry = True
        sm.wake[0] = min(sm.wake[0], self.now + 1)

    cdef void _open_barrier(self, Sm* sm, int64_t slot) noexcept nogil:
        cdef int64_t i
        sm.slot[slot].waiting = 0
        for i in range(slot * self.block_warps, (slot + 1) * self.block_warps):
            if sm.warp[i].alive:
                sm.warp[i].at_barrier = False
                self._stand(sm, i)

    # ---- an SM's cycle

    cdef int _sm_cycle(self, int64_t i, int64_t t) noexcept nogil:
        cdef Sm* sm = &self.sm[i]
        while sm.responses.size > 0 and ring_first(&sm.responses).time <= t:
            if self._fill(i, t, ring_pop(&sm.responses)) < 0:
                return C_MEMORY
        while sm.hits.size > 0 and ring_first(&sm.hits).time <= t:
            self._arrive(sm, ring_pop(&sm.hits).id)
        if self.buffered:
            if self._access_buffered(i, t) < 0:
                return C_MEMORY
        elif sm.entries > 0 and self._access(i, t) < 0:
            return C_MEMORY
        if self._issue(i, t) < 0 or self._send(i, t) < 0:
            return C_MEMORY
        sm.wake[0] = self._sm_wake(sm, t)
        if sm.check:
            self.any_check = True
        return C_GO

    cdef int64_t _sm_wake(self, Sm* sm, int64_t t) noexcept nogil:
        """Return when the SM can next do something if nothing comes from outside."""
        cdef int64_t k, wake = NEVER
        if self.buffered:
            wake = self._buffer_wake(sm, t)
        elif sm.entries > 0 and (not sm.stalled or sm.retry):
            return t + 1
        if self.scoring and (sm.victims.stale or sm.victims.until <= t + 1):
            self._rank(sm, t + 1)
        for k in range(self.schedulers):
            if self._candidates(sm, k) != 0:
                return t + 1
        if self.scoring:
            wake = min(wake, sm.victims.until)
        if sm.responses.size > 0:
            wake = min(wake, ring_first(&sm.responses).time)
        if sm.hits.size > 0:
            wake = min(wake, ring_first(&sm.hits).time)
        if sm.misses.size > 0 and not sm.waiting:
            wake = min(wake, sm_cycle_of(&self.x_clock, sm.request_port))
        return max(wake, t + 1)

    # ---- S4: issue

    cdef int _issue(self, int64_t i, int64_t t) noexcept nogil:
        cdef Sm* sm = &self.sm[i]
        cdef Scheduler* s
        cdef int64_t k, turn, place, first = sm.first_scheduler
        cdef uint64_t candidates
        if self.scoring and (sm.victims.stale or sm.victims.until <= t):
            self._rank(sm, t)
        for turn in range(self.schedulers):
            k = (first + turn) % self.schedulers
            s = &sm.scheduler[k]
            candidates = self._candidates(sm, k)
            if candidates == 0:
                continue
            place = scheduler_pick(s, self.sched, candidates, sm.warp, k, self.schedulers, self.fetch_group)
            s.last = place
            s.last_age = sm.warp[k + place * self.schedulers].age
            if self._issue_from(i, t, k + place * self.schedulers) < 0:
                return C_MEMORY
        return C_GO

    cdef inline uint64_t _candidates(self, Sm* sm, int64_t k) noexcept nogil:
        """Return who can issue, as places of scheduler `k`."""
        cdef Scheduler* s = &sm.scheduler[k]
        if sm.entries >= self.ldst_queue:
            return s.freely
        if self.throttle == THROTTLE_NONE:
            return s.freely | s.with_room | s.as_active
        return s.freely | s.with_room | (s.as_active & self._active(sm, k))

    cdef uint64_t _active(self, Sm* sm, int64_t k) noexcept nogil:
        """Return which warps of scheduler `k` may issue loads."""
        cdef Scheduler* s = &sm.scheduler[k]
        cdef int64_t places
        if s.stale and not self.scoring:
            s.stale = False
            places = (self.slots * self.block_warps - k + self.schedulers - 1) // self.schedulers
            s.active = oldest_bits(sm.warp, k, self.schedulers, places, sm.limit)
            s.allocating = s.active
            if self.throttle == THROTTLE_TOKENS:
                s.allocating = oldest_bits(sm.warp, k, self.schedulers, places, self.tokens)
        return s.active

    cdef void _rank(self, Sm* sm, int64_t t) noexcept nogil:
        """CCWS: put the warps in order for cycle `t`, and let those load whose scores fit."""
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
                # It fits when scores have fallen enough; the order changes only where one has reached the base.
                v.until = t + min(decay, (sum - n * v.base + raised - 1) // raised)
                return
            sm.scheduler[warp % self.schedulers].active |= <uint64_t> 1 << (warp // self.schedulers)

    cdef bint _goes_before(self, const Sm* sm, int64_t a, int64_t b, int64_t t) noexcept nogil:
        cdef int64_t first = victims_score(&sm.victims, a, t), second = victims_score(&sm.victims, b, t)
        return first > second or first == second and sm.warp[a].age < sm.warp[b].age

    cdef int _issue_from(self, int64_t i, int64_t t, int64_t warp) noexcept nogil:
        """Issue the next instruction of a warp that can."""
        cdef Sm* sm = &self.sm[i]
        cdef Warp* w = &sm.warp[warp]
        cdef BlockSlot* b
        sm.n.warp_instructions += 1
        sm.n.thread_instructions += w.lanes[w.at]
        if w.gap_left > 0:
            self._log(LOG_ISSUE, t, i, warp, 0, 0)
            w.gap_left -= 1
            if w.gap_left == 0:
                self._stand(sm, warp)
            return C_GO
        if w.op[w.at] == BARRIER:
            self._log(LOG_ISSUE, t, i, warp, 2, 0)
            w.at_barrier = True
            sm.scheduler[warp % self.schedulers].stale = True
            sm.victims.stale = True
            b = &sm.slot[warp // self.block_warps]
            b.waiting += 1
            if b.waiting == b.alive:
                sm.check = True
        else:
            self._log(LOG_ISSUE, t, i, warp, 1, 0)
            if w.count[w.at] > 0 and self._enter_unit(sm, warp) < 0:
                return C_MEMORY
            warp_remember(w, w.op[w.at] == LOAD and w.count[w.at] > 0)
        warp_advance(w)
        if warp_starved(w):
            self.starved[2 * self.starved_size] = i
            self.starved[2 * self.starved_size + 1] = warp
            self.starved_size += 1
        self._stand(sm, warp)
        return C_GO

    cdef int _enter_unit(self, Sm* sm, int64_t warp) noexcept nogil:
        cdef Warp* w = &sm.warp[warp]
        cdef Entry* e = &sm.entry[(sm.entry_head + sm.entries) % self.ldst_queue]
        e.warp = warp
        sm.first_scheduler = warp % self.schedulers + 1
        e.op = w.op[w.at]
        e.local = w.flags[w.at] & LOCAL_FLAG
        e.pc = w.pc[w.at]
        e.at = 0
        e.count = w.count[w.at]
        e.load = NONE
        memcpy(e.ids, w.ids + w.id_at, <size_t> e.count * sizeof(int64_t))
        if self.recording:
            memcpy(e.masks, w.masks + w.id_at, <size_t> e.count * sizeof(uint32_t))
        sm.entries += 1
        w.in_unit += 1
        if e.op == LOAD:
            e.load = self._new_load(sm)
            if e.load == NONE:
                return C_MEMORY
            sm.load[e.load] = Load(
                warp, w.issued, 1, -1, e.count, e.pc,
                self.throttle == THROTTLE_TOKENS
                and not sm.scheduler[warp % self.schedulers].allocating >> (warp // self.schedulers) & 1,
                NONE, w.flags[w.at] & LEAVES_FLAG != 0, 0, NONE,
            )
            if self.admission == ADMIT_BY_PATTERN and not e.local:
                sm.load[e.load].pattern = patterns_number(&sm.patterns, e.pc)
        return C_GO

    cdef int64_t _new_load(self, Sm* sm) noexcept nogil:
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

    # ---- results

    def sm_counters(self, int64_t i):
        """Return what an SM has counted, as a dict; `fails` in the order of FAIL_NAMES."""
        return self.sm[i].n

    # ---- invariants

    def violations(self):
        """Return what is wrong with the machine's state, as sentences; O(lines in the caches)."""
        cdef int64_t i
        wrong = []
        for i in range(self.sms):
            wrong += [f"SM {i}: {what}" for what in self._sm_violations(&self.sm[i])]
        for i in range(self.slices):
            wrong += [f"slice {i}: {what}" for what in self._slice_violations(&self.slice[i])]
        return wrong

    cdef list _sm_violations(self, Sm* sm):
        cdef int64_t i, reserved = 0, loads = 0, held = 0
        wrong = cache_violations(&sm.cache, &reserved)
        if not self.fill and reserved != sm.mshrs.used:
            wrong.append(f"{reserved} lines are reserved, {sm.mshrs.used} MSHRs in use")
        if sm.mshrs.limit >= 0 and sm.mshrs.used > sm.mshrs.limit:
            wrong.append(f"{sm.mshrs.used} of {sm.mshrs.limit} MSHRs are in use")
        if sm.entries > self.ldst_queue:
            wrong.append(f"{sm.entries} instructions are in a load/store unit for {self.ldst_queue}")
        if not self.fill and sm.misses.size > self.miss_queue + 1:
            wrong.append(f"{sm.misses.size} requests are in a miss queue for {self.miss_queue}")
        for i in range(self.slots * self.block_warps):
            held += sm.warp[i].held if sm.warp[i].alive else 0
            loads += sm.warp[i].loads if sm.warp[i].alive else 0
            if sm.warp[i].alive and bits(sm.warp[i].pending) + sm.warp[i].ancient != sm.warp[i].loads:
                wrong.append(f"warp slot {i} has lost count of its loads")
        if held != sm.mshrs.used:
            wrong.append(f"warps hold {held} MSHRs, {sm.mshrs.used} are in use")
        if loads != self._loads_out(sm):
            wrong.append(f"{loads} loads are not complete, {self._loads_out(sm)} are on record")
        for ring, name in ((sm.responses.size, "responses"), (sm.hits.size, "hits")):
            if ring > 0 and sm.wake[0] == NEVER:
                wrong.append(f"{name} are due and the SM sleeps")
        if sm.wake[0] <= self.now:
            wrong.append(f"is to wake in cycle {sm.wake[0]}, and it is cycle {self.now}")
        return wrong

    cdef int64_t _loads_out(self, Sm* sm):
        cdef int64_t i = sm.free_load, free = 0
        while i != NONE:
            free += 1
            i = sm.load[i].next
        return sm.loads - free

    def under_way(self):
        """Return what is not empty, as sentences: at the end of a run, nothing."""
        cdef int64_t i
        cdef Sm* sm
        cdef Slice* s
        found = []
        for i in range(self.sms):
            sm = &self.sm[i]
            sizes = {
                "blocks": sum([sm.slot[k].occupied for k in range(self.slots)]),
                "instructions in the load/store unit": sm.entries, "MSHRs": sm.mshrs.used,
                "requests in the miss queue": sm.misses.size, "responses": sm.responses.size,
                "requests in the buffer": sm.buffer.held,
                "loads": self._loads_out(sm),
            }
            found += [f"SM {i}: {size} {what}" for what, size in sizes.items() if size]
        for i in range(self.slices):
            s = &self.slice[i]
            sizes = {
                "requests in the input": s.input.size, "waiting SMs": s.waiting.size, "MSHRs": s.mshrs.used,
                "requests in the DRAM's queue": s.channel.queued, "lines on their way from the DRAM": s.returns.size,
            }
            found += [f"slice {i}: {size} {what}" for what, size in sizes.items() if size]
        return found

    def waiting_for(self):
        """Return what SMs and slices wait for, as sentences: the report on a run that cannot go on."""
        cdef int64_t i, k
        cdef Sm* sm
        found = []
        for i in range(self.sms):
            sm = &self.sm[i]
            if sm.stalled:
                found.append(f"SM {i}: the load/store unit waits for {FAIL_NAMES[sm.reason - FAILED]}")
            if sm.waiting:
                k = modulo(ring_first(&sm.misses).line, self.slices)
                found.append(f"SM {i}: the miss queue waits for room in slice {k}")
            for k in range(self.slots):
                if sm.slot[k].occupied:
                    loading = sum([sm.warp[k * self.block_warps + j].loads > 0 for j in range(self.block_warps)])
                    found.append(
                        f"SM {i}: block {sm.slot[k].block}: {sm.slot[k].waiting} of {sm.slot[k].alive} warps wait at a "
                        f"barrier, {loading} for loads"
                    )
        for i in range(self.slices):
            if self.slice[i].stalled:
                found.append(f"slice {i}: a request waits for {SLICE_FAIL_NAMES[self.slice[i].reason - FAILED]}")
        return found


cdef int64_t bits(uint64_t mask):
    cdef int64_t count = 0
    while mask != 0:
        mask &= mask - 1
        count += 1
    return count
