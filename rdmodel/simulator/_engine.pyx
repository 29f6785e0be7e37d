# docs/machine.md defines the machine's cycle phase by phase (S1 to S5 of an SM, P1 to P3 of a partition, the end of the
# cycle), and rdmodel.reference.machine walks through every cycle of it. Here time jumps: every SM and partition knows
# the cycle in which it can next do something (`wake`), and is skipped until then.
#
# The engine asks for instructions of a warp and for blocks between two cycles only, so it interrupts no phase.
"""Simulate from event to event: `Machine`, the compiled simulator."""

cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from rdmodel.simulator._cache cimport Cache, cache_drop_ghosts, cache_init
from rdmodel.simulator._clock cimport clock_turn, wake_at
from rdmodel.simulator._distances cimport distances_init
from rdmodel.simulator._feeding cimport Feeding
from rdmodel.simulator._foresight cimport sm_foresees_stall
from rdmodel.simulator._issue cimport Warp, lowest_bit, warp_begin, warp_done, warp_starved
from rdmodel.simulator._loadstore cimport ADMIT_BY_PATTERN, ADMIT_COLD, ADMIT_UNPROTECTED, ADMIT_USED
from rdmodel.simulator._machine cimport BlockSlot, Buffer, Entry, Slice, Sm, slot_bit
from rdmodel.simulator._mshrs cimport mshrs_init
from rdmodel.simulator._network cimport C_GO, C_MEMORY, LOG_BEGIN, LOG_END
from rdmodel.simulator._network cimport REQUEST_BYTES as C_REQUEST_BYTES
from rdmodel.simulator._patterns cimport patterns_init
from rdmodel.simulator._period cimport period_end, period_over
from rdmodel.simulator._release cimport slice_free, sm_free
from rdmodel.simulator._victims cimport victims_begin
from rdmodel.simulator._wakes cimport NEVER, wakes_due, wakes_free, wakes_init, wakes_next, wakes_plan, wakes_take
from rdmodel.structures._index cimport index_read
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._memory cimport aligned_zeros
from rdmodel.structures._pool cimport pool_init
from rdmodel.structures._ring cimport Ring, ring_first, ring_pop

# A cimported name exists only in C; callers of this module need it in Python.
from rdmodel.simulator._loadstore import ROW_WIDTH

# Reasons why `_run` stopped; it returns these, C_GO or C_MEMORY.
cdef enum:
    C_DONE = 0
    C_CHUNK = 1           # warp `subject` of SM `subject_sm` needs instructions
    C_BLOCK = 2           # slot `subject` of SM `subject_sm` is free
    C_PAUSE = 3           # no need: the caller may look at signals
    C_DRAIN = 4           # the record of accesses is full
    C_STUCK = 5           # nothing can happen any more, and blocks are resident
    C_FAULT = 7           # a plug-in has given an answer that is not allowed

DONE = C_DONE
WANT_CHUNK = C_CHUNK
WANT_BLOCK = C_BLOCK
PAUSE = C_PAUSE
WANT_DRAIN = C_DRAIN
STUCK = C_STUCK
FAULT = C_FAULT
REQUEST_BYTES = C_REQUEST_BYTES



@cython.final
cdef class Machine(Feeding):
    """SMs, crossbar, L2 slices and DRAM channels: `run` returns its next need; fulfil it, and `run` on."""

    cdef public int64_t last_end
    cdef public int64_t subject_sm, subject
    cdef int64_t resident             # blocks
    cdef bint filling
    cdef bint foreseeing              # stalls of SMs: nothing but the machine itself decides about them
    cdef bint periodic                # some policy looks back on periods
    cdef int64_t cycles_left          # until the next pause

    def __init__(
        self, *, int64_t sms, int64_t slots, int64_t block_warps, int64_t max_lines, core, l1, index, crossbar, l2,
        dram, clock, ideal, bint log, policies,
    ):
        """Build a machine.

        `core`, `l1`, `crossbar`, `l2` and `dram` are dicts of numbers under the fields' names, None as -1; `policies`
        are settings of policies by kind (`rdmodel.policies.registry.machine_settings`).
        """
        assert self.sm == NULL, "a machine is set up once"
        self.sms = sms
        self.slices = 0 if ideal >= 0 else l2["slices"]
        self.slots = slots
        self.block_warps = block_warps
        self.max_lines = max_lines
        self.now = -1
        self.last_end = -1
        self.filling = self.any_wanted = True
        self.ideal = ideal
        self.logging = log
        self._read_memory(crossbar, l2, dram, clock, l1["line"])
        self._read_core(core, l1)
        self._read_policies(policies)
        self._allocate_sms(l1, index)
        self._create_states(l1)
        self._allocate_scheduling()
        self._allocate_slices(l1["line"], l2, dram)

    def _read_policies(self, policies):
        self._read_admission(**policies.get("admission", {}))
        self._read_reordering(**policies.get("reordering", {}))
        self._read_throttling(**policies.get("throttling", {}))
        self.foreseeing = self.tags == 1 and not (self.unusual or self.deciding or self.finding)
        self.foreseeing_slices = self.partitions == 1 and not (self.elaborate or self.closing_slices)
        self.commands_ahead = self.partitions == 1 and not (self.logging or self.sectored)
        self.periodic = self.sampling_period.cycles > 0 or self.closing_period.cycles > 0 or self.plugged

    def _allocate_sms(self, l1, index):
        cdef int64_t i, k, warps = self.slots * self.block_warps
        cdef Sm* sm
        self.sm = <Sm*> calloc(<size_t> self.sms, sizeof(Sm))
        if self.sm == NULL or wakes_init(&self.wakes, self.sms + self.slices) < 0:
            raise MemoryError
        for i in range(self.sms):
            sm = &self.sm[i]
            sm.warp = <Warp*> aligned_zeros(warps, sizeof(Warp))
            sm.slot = <BlockSlot*> calloc(<size_t> self.slots, sizeof(BlockSlot))
            sm.entry = <Entry*> calloc(<size_t> self.ldst_queue, sizeof(Entry))
            sm.entry_ids = <int64_t*> malloc(<size_t> (self.ldst_queue * self.max_lines) * sizeof(int64_t))
            mshrs_init(&sm.mshrs, l1["mshrs"], l1["mshr_merge"])
            if not (sm.warp and sm.slot and sm.entry and sm.entry_ids):
                raise MemoryError
            if cache_init(&sm.cache, l1["sets"], l1["ways"], l1["lines"]) < 0:
                raise MemoryError
            pool_init(&sm.cache.pool, l1["pool"], l1["pools"], l1["sets"])
            sm.cache.protected = l1["protected"]
            index_read(&sm.cache.index, index)
            self.index_code = index
            sm.cache.interleave = 1
            sm.cache.spread.bits = 0
            sm.cache.sectored = sm.cache.flying = self.sectored
            sm.cache.sector_bits = l1["sector_bits"]
            if self.sized:
                sm.entry_sectors = <uint64_t*> malloc(<size_t> (self.ldst_queue * self.max_lines) * sizeof(uint64_t))
                if sm.entry_sectors == NULL:
                    raise MemoryError
                for k in range(warps):
                    sm.warp[k].sized = True
            sm.free_load = NONE
            sm.number = i
            self._allocate_policies(sm, l1["sets"])
            for k in range(self.ldst_queue):
                sm.entry[k].ids = sm.entry_ids + k * self.max_lines
                if self.sized:
                    sm.entry[k].sectors = sm.entry_sectors + k * self.max_lines

    cdef _allocate_policies(self, Sm* sm, int64_t sets):
        cdef int64_t warps = self.slots * self.block_warps
        cdef Buffer* b = &sm.buffer
        if self.admission == ADMIT_UNPROTECTED:
            sm.cache.accesses = <int64_t*> calloc(<size_t> sets, sizeof(int64_t))
            if sm.cache.accesses == NULL:
                raise MemoryError
            sm.cache.pooled = self.by_cache
            sm.cache.aging = self.since_allocation
            sm.distance = self.distance
        if self.max_distance > 0 and distances_init(&sm.distances, sets, self.sampled_every, self.max_distance) < 0:
            raise MemoryError
        sm.cache.noted = self.plugged or self.admission in (
            ADMIT_UNPROTECTED, ADMIT_USED, ADMIT_BY_PATTERN, ADMIT_COLD,
        )
        if self.admission == ADMIT_USED:
            sm.unused = <int64_t*> calloc(<size_t> self.counters, sizeof(int64_t))
            if sm.unused == NULL:
                raise MemoryError
        if self.admission == ADMIT_BY_PATTERN:
            if patterns_init(&sm.patterns, warps, self.pattern_loads, self.pattern_tags, self.max_accesses) < 0:
                raise MemoryError
            sm.patterns.bypassing = self.pattern_bypassing
            sm.patterns.protecting = self.pattern_protecting
        b.last = b.flushed = b.stuck = NONE
        if self.buffered:
            b.queues = self._queues()
            b.queue = <Ring*> calloc(<size_t> b.queues, sizeof(Ring))
            if b.queue == NULL:
                raise MemoryError

    def __dealloc__(self):
        cdef int64_t i
        if self.sm != NULL:
            for i in range(self.sms):
                sm_free(&self.sm[i], self.slots * self.block_warps)
        if self.slice != NULL:
            for i in range(self.slices):
                slice_free(&self.slice[i])
        free(self.sm)
        free(self.slice)
        wakes_free(&self.wakes)
        free(self.log)
        free(self.latency)

    # ---- blocks and instructions from outside

    def take_lines(self, Machine previous):
        """Begin with the lines that the L2 of a machine holds whose run is over; it is left without any.

        Both have the same L2 and the same policies. Slices begin open, so tags without data are dropped.
        """
        cdef int64_t i
        cdef Cache lines
        assert self.now == -1 and self.slices == previous.slices and self.reader_words == previous.reader_words
        for i in range(self.slices):
            lines = previous.slice[i].cache
            assert previous.slice[i].mshrs.used == 0 and previous.slice[i].channel.queued == 0
            assert lines.sets == self.slice[i].cache.sets and lines.ways == self.slice[i].cache.ways
            assert lines.sectored == self.slice[i].cache.sectored
            previous.slice[i].cache = self.slice[i].cache
            self.slice[i].cache = lines
            cache_drop_ghosts(&self.slice[i].cache)

    def begin_block(self, int64_t sm, int64_t slot, int64_t block):
        """Reset the warps of a block slot; next, `prime` it or `put_chunk` each warp until none starves, then `start_block`."""
        cdef Sm* m = &self.sm[sm]
        cdef int64_t i
        for i in range(self.block_warps):
            warp_begin(&m.warp[slot * self.block_warps + i], m.begun, block, i)
            if self.scoring:
                victims_begin(&m.victims, slot * self.block_warps + i)
            m.begun += 1
        m.slot[slot].block = block
        self._note_block(sm, slot, block)
        m.n.blocks += 1

    def start_block(self, int64_t sm, int64_t slot):
        """Let the warps of a block start; a block without any instruction leaves the slot free."""
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
            if self.plugged and m.warp[i].alive:
                self._tell_warp(m, i, True)
            if self.predicting and m.warp[i].alive:
                self._begin_prediction(m, i)
            self._stand(m, i)
        b.occupied = b.alive > 0
        self.resident += b.occupied
        self._regroup(m)
        if b.alive == 0:
            self._log(LOG_END, self.now, sm, slot, b.block, 0)
            self.last_end = max(self.last_end, self.now)
        self._rouse(sm, self.now + 1)

    def decline_block(self, int64_t sm, int64_t slot):
        """Leave a block slot empty for good: there are no more blocks."""
        self.sm[sm].slot[slot].closed = True

    # ---- running

    def run(self, int64_t cycles):
        """Run for at most about `cycles` eventful cycles; return the reason why it stopped.

        A machine that reads from streams serves its requests for instructions itself.
        """
        cdef int code
        self.cycles_left = cycles
        while True:
            with nogil:
                code = self._run()
            if code == C_MEMORY:
                raise MemoryError
            if code != C_CHUNK or self.streams is None:
                return code
            self._feed(self.subject_sm, self.subject)

    cdef int _run(self) noexcept nogil:
        cdef int code
        cdef int64_t wake
        while True:
            code = self._end_cycle()
            if code != C_GO:
                return code
            if self.cycles_left <= 0:
                return C_PAUSE
            self.cycles_left -= 1
            wake = wakes_next(&self.wakes, self.now)
            if wake == NEVER:
                return C_STUCK if self.resident > 0 else C_DONE
            if self.periodic and self.resident > 0:
                wake = min(wake, min(period_end(&self.sampling_period), period_end(&self.closing_period)))
                wake = min(wake, min(period_end(&self.plugin[0].period), period_end(&self.plugin[1].period)))
            self.now = wake
            code = self._cycle(self.now)
            if code != C_GO:
                return code

    cdef int _cycle(self, int64_t t) noexcept nogil:
        """Run cycle `t` of the SMs that wake in it, then of the slices; nothing that they do wakes others before `t + 1`."""
        cdef int64_t word, i
        cdef uint64_t due
        clock_turn(&self.x_clock, t)
        clock_turn(&self.l_clock, t)
        clock_turn(&self.d_clock, t)
        for word in range(self.wakes.words):
            due = wakes_take(&self.wakes, word, t)
            while due:
                i = (word << 6) + lowest_bit(due)
                due &= due - 1
                if not wakes_due(&self.wakes, i, t):
                    continue
                if (self._sm_cycle(i, t) if i < self.sms else self._slice_cycle(i - self.sms, t)) < 0:
                    return C_MEMORY
        return C_GO

    # ---- the end of a cycle

    cdef int _end_cycle(self) noexcept nogil:
        """Run the phases E0 to E3; before them, request missing instructions."""
        cdef int64_t i
        if self.periodic:
            if period_over(&self.sampling_period, self.now) and self.resident > 0:
                self._end_sampling_period()
            if period_over(&self.closing_period, self.now) and self.resident > 0:
                self._open_or_close()
            if self.plugged and self.resident > 0:
                self._end_plugin_periods()
        if self.fault:
            return C_FAULT
        while self.starved_size > 0:
            self.subject_sm = self.starved[2 * self.starved_size - 2]
            self.subject = self.starved[2 * self.starved_size - 1]
            if warp_starved(&self.sm[self.subject_sm].warp[self.subject]):
                return C_CHUNK
            self.starved_size -= 1
            if self.predicting:
                self._follow(&self.sm[self.subject_sm], self.subject)
            self._stand(&self.sm[self.subject_sm], self.subject)
            self._rouse(self.subject_sm, self.now + 1)
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

    cdef bint _find_wanted(self) noexcept nogil:
        """Set the subject to the next free slot, at the start in rounds, later by SM and slot; False: there is none."""
        cdef int64_t outer, inner
        for outer in range(self.slots if self.filling else self.sms):
            for inner in range(self.sms if self.filling else self.slots):
                self.subject_sm, self.subject = (inner, outer) if self.filling else (outer, inner)
                if self._wants_block(&self.sm[self.subject_sm].slot[self.subject]):
                    return True
        return False

    cdef bint _wants_block(self, const BlockSlot* b) noexcept nogil:
        if b.occupied or b.closed:
            return False
        return not self.limits_blocks or self._takes_block(self.subject_sm)

    cdef void _settle(self, int64_t i) noexcept nogil:
        """Open barriers and end warps and blocks, until nothing changes."""
        cdef Sm* sm = &self.sm[i]
        cdef BlockSlot* b
        cdef int64_t slot
        cdef uint64_t checked = sm.check
        sm.check = 0
        self._regroup(sm)
        for slot in range(self.slots):
            b = &sm.slot[slot]
            if checked & slot_bit(slot) == 0 or not b.occupied:
                continue
            self._end_warps(sm, slot)
            while 0 < b.alive == b.waiting:
                self._open_barrier(sm, slot)
                self._rouse(sm.number, self.now + 1)
                self._end_warps(sm, slot)
            if b.alive == 0 and b.stores == 0:
                if sm.monitored:
                    self._end_monitoring(sm)
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
                if self.plugged:
                    self._tell_warp(sm, i, False)
                if self.predicting:
                    self._end_prediction(sm, i)

    # ---- an SM's cycle

    cdef int _sm_cycle(self, int64_t i, int64_t t) noexcept nogil:
        cdef Sm* sm = &self.sm[i]
        if self.attentive:
            self._attend(sm, t)
        while sm.responses.size > 0 and ring_first(&sm.responses).time <= t:
            if self._fill(i, t, ring_pop(&sm.responses)) < 0:
                return C_MEMORY
        while sm.hits.size > 0 and ring_first(&sm.hits).time <= t:
            self._arrive(sm, ring_pop(&sm.hits).id)
        if self.buffered:
            if self._access_buffered(i, t) < 0:
                return C_MEMORY
        elif sm.entries > 0 and (not sm.stalled or sm.retry):
            if (self._access(i, t) if self.tags == 1 else self._access_tags(i, t)) < 0:
                return C_MEMORY
        while sm.resting.size > 0 and ring_first(&sm.resting).time <= t:
            self._end_rest(sm, ring_pop(&sm.resting).what)
        if self.by_blocks:
            if self._issue_by_blocks(i, t) < 0:
                return C_MEMORY
        elif self._issue(sm, i, t) < 0:
            return C_MEMORY
        if sm.misses.size > 0 and self._send(i, t) < 0:
            return C_MEMORY
        wakes_plan(&self.wakes, i, self._sm_wake(sm, t), t)
        if sm.check:
            self.any_check = True
        return C_GO

    cdef void _end_rest(self, Sm* sm, int64_t warp) noexcept nogil:
        sm.warp[warp].resting = False
        self._stand(sm, warp)

    cdef int64_t _sm_wake(self, Sm* sm, int64_t t) noexcept nogil:
        """Return the next cycle in which the SM can do something unless a message arrives before."""
        cdef int64_t wake = NEVER
        if self.buffered:
            wake = self._buffer_wake(sm, t)
        elif sm.entries > 0 and (not sm.stalled or sm.retry) and not (
            self.foreseeing and not sm.stalled
            and sm_foresees_stall(sm, self.fill, self.miss_queue, self.mshr_per_warp, t)
        ):
            return t + 1
        if self._can_issue(sm, t + 1):
            return t + 1
        if self.scoring:
            wake = min(wake, sm.victims.until)
        if sm.responses.size > 0:
            wake = min(wake, ring_first(&sm.responses).time)
        if sm.resting.size > 0:
            wake = min(wake, ring_first(&sm.resting).time)
        if sm.hits.size > 0:
            wake = min(wake, ring_first(&sm.hits).time)
        if sm.misses.size > 0 and not sm.waiting:
            wake = min(wake, wake_at(&self.x_clock, sm.request_port))
        return max(wake, t + 1)

    # ---- results

    def sm_counters(self, int64_t i):
        """Return the counters of an SM as a dict; `fails` in the order of FAIL_LINE to FAIL_QUEUE."""
        return self.sm[i].n
