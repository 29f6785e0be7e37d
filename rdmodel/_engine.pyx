# The machine's cycle is defined in docs/machine.md, phase by phase (S1 to S5 of an SM, P1 to P3 of a partition, the end
# of the cycle); rdmodel.reference.machine walks through every cycle of it. Here time jumps: every SM and partition
# knows when it can next do something (`wake`), and a part whose state cannot change is not looked at.
#
# What is missing (instructions of a warp, a block) is asked for between two cycles only, so no phase is interrupted.
"""The compiled event-driven simulator: `Machine`."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from rdmodel._cache cimport (
    DIRTY, IN_SHADOW, MISSED, RESERVED, VALID, Cache, CacheLine, Mshr, Waiter,
    cache_drop, cache_free, cache_give, cache_init, cache_intern, cache_touch, cache_victim,
    mshr_available, mshr_merge, mshr_mergeable, mshr_next_waiter, mshr_release, mshr_take, mshrs_free, mshrs_init,
    shadow_raise,
)
from rdmodel._clock cimport Clock, first_cycle, sm_cycle, sm_cycle_of
from rdmodel._dram cimport Channel, Request, Timing, channel_command, channel_enter, channel_free, channel_init
from rdmodel._index cimport index_read, modulo
from rdmodel._issue cimport (
    BARRIER, CANNOT, FREELY, LOAD, LOCAL_FLAG, STORE, WITH_ROOM, Scheduler, Warp,
    scheduler_pick, warp_advance, warp_begin, warp_complete, warp_done, warp_free, warp_make_room, warp_remember,
    warp_stand, warp_starved,
)
from rdmodel._lru cimport NONE
from rdmodel._machine cimport (
    FAIL_LINE, FAIL_MERGE, FAIL_MSHR, FAIL_QUEUE, FAILED, FAILS, HIT, MISS, NO_MEMORY, PENDING_HIT, READ, WRITE,
    WRITE_MISS, WRITTEN, BlockSlot, Entry, Load, Slice, Sm,
)
from rdmodel._ring cimport Item, ring_first, ring_free, ring_pop, ring_push
from rdmodel._warp cimport grow

cdef enum:
    NEVER = 0x3fffffffffffffff
    LOG_WIDTH = 6
    C_REQUEST_BYTES = 8
    C_ROW_WIDTH = 7
    MOST_LATENCY = 1048576    # longer ones are counted as this long

# What `_run` returns: why it stopped.
cdef enum:
    C_DONE = 0
    C_CHUNK = 1           # warp `subject` of SM `subject_sm` needs instructions
    C_BLOCK = 2           # slot `subject` of SM `subject_sm` is free
    C_PAUSE = 3           # nothing is wanted: the caller may look at signals
    C_DRAIN = 4           # the record of accesses is full
    C_STUCK = 5           # nothing can happen any more, and blocks are resident
    C_MEMORY = -1
    C_GO = 6              # of parts of a cycle: run on

# Kinds of log entries; the columns are in docs/machine.md.
cdef enum:
    LOG_ISSUE = 0
    LOG_ACCESS = 1
    LOG_FILL = 2
    LOG_SLICE = 3
    LOG_DRAM = 4
    LOG_BEGIN = 5
    LOG_END = 6

DONE = C_DONE
WANT_CHUNK = C_CHUNK
WANT_BLOCK = C_BLOCK
PAUSE = C_PAUSE
WANT_DRAIN = C_DRAIN
STUCK = C_STUCK
REQUEST_BYTES = C_REQUEST_BYTES
ROW_WIDTH = C_ROW_WIDTH
FAIL_NAMES = ("line_alloc", "mshr_entry", "mshr_merge", "miss_queue")
SLICE_FAIL_NAMES = ("line_alloc", "mshr_entry", "mshr_merge", "dram_queue")


@cython.final
cdef class Machine:
    """SMs, crossbar, L2 slices and DRAM channels; `run` until it wants something, give it, and `run` on."""

    cdef Sm* sm
    cdef Slice* slice
    cdef int64_t sms, slices
    cdef int64_t slots, block_warps
    cdef public int64_t now, last_end
    cdef public int64_t subject_sm, subject
    cdef int64_t resident             # blocks
    cdef bint filling, any_check, any_wanted
    cdef int64_t* starved             # (SM, warp) pairs
    cdef int64_t starved_size
    # Configuration: see rdmodel.config.
    cdef int64_t schedulers, fetch_group, ldst_queue, hit_latency, most_lines
    cdef int sched
    cdef bint fill                    # allocate="fill"
    cdef int64_t miss_queue, mshr_per_warp
    cdef int64_t ideal                # latency of an ideal memory; -1: none
    cdef Clock x_clock, l_clock, d_clock
    cdef int64_t x_latency, read_flits, write_flits, answer_flits
    cdef int64_t l_queue, l_latency, d_latency
    cdef int64_t* latency             # how many misses were filled after so many cycles
    cdef int64_t latencies, latency_capacity
    # The log, and the record of accesses.
    cdef bint logging, log_lost, recording
    cdef int64_t* log
    cdef int64_t log_size, log_capacity
    cdef int64_t[:, ::1] rows         # of the record
    cdef public int64_t recorded

    def __init__(
        self, *, int64_t sms, int64_t slots, int64_t block_warps, int64_t most_lines, core, l1, index, crossbar, l2,
        dram, clock, ideal, bint log,
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
        self._allocate_sms(l1, index)
        self._allocate_slices(l1["line"], l2, dram)

    def _read_core(self, core, l1):
        self.schedulers = core["schedulers"]
        self.sched = core["sched"]
        self.fetch_group = min(core["fetch_group"], 64)
        self.ldst_queue = core["ldst_queue"]
        self.hit_latency = core["hit_latency"]
        self.fill = l1["fill"]
        self.miss_queue = l1["miss_queue"]
        self.mshr_per_warp = l1["mshr_per_warp"]

    def _read_memory(self, crossbar, l2, dram, clock, line):
        self.x_clock = Clock(crossbar["clock"], clock)
        self.l_clock = Clock(l2["clock"], clock)
        self.d_clock = Clock(dram["clock"], clock)
        self.x_latency = crossbar["latency"]
        self.read_flits = -(-C_REQUEST_BYTES // crossbar["width"])
        self.write_flits = self.answer_flits = -(-(C_REQUEST_BYTES + line) // crossbar["width"])
        self.l_queue = l2["queue"]
        self.l_latency = l2["latency"]
        self.d_latency = dram["latency"]

    def _allocate_sms(self, l1, index):
        cdef int64_t i, k, warps = self.slots * self.block_warps
        cdef Sm* sm
        self.sm = <Sm*> calloc(<size_t> self.sms, sizeof(Sm))
        self.starved = <int64_t*> malloc(<size_t> (2 * self.sms * warps) * sizeof(int64_t))
        if self.sm == NULL or self.starved == NULL:
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
            sm.wake = NEVER
            for k in range(self.ldst_queue):
                sm.entry[k].ids = sm.entry_ids + k * self.most_lines
            for k in range(self.schedulers):
                sm.scheduler[k].last = sm.scheduler[k].last_age = -1

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
            if cache_init(&s.cache, l2["sets"], l2["ways"], 0) < 0:
                raise MemoryError
            s.cache.index.kind = 1
            s.cache.index.modulus = l2["sets"]
            s.cache.interleave = self.slices
            s.wake = NEVER
            if channel_init(&s.channel, dram["banks"]) < 0:
                raise MemoryError
            s.channel.lines_per_row = dram["row"] // line
            s.channel.limit = dram["queue"]
            s.channel.timing = Timing(
                dram["tcl"], dram["trp"], dram["trc"], dram["tras"], dram["trcd"], dram["trrd"], -(-line // dram["width"])
            )

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
        if self.slice != NULL:
            for i in range(self.slices):
                s = &self.slice[i]
                cache_free(&s.cache)
                mshrs_free(&s.mshrs)
                ring_free(&s.input)
                ring_free(&s.waiting)
                ring_free(&s.returns)
                channel_free(&s.channel)
        free(self.sm)
        free(self.slice)
        free(self.starved)
        free(self.log)
        free(self.latency)

    # ---- what comes from outside

    def begin_block(self, int64_t sm, int64_t slot, int64_t block):
        """Reset the warps of a block slot; `put_chunk` each warp until it is not `starved`, then `start_block`."""
        cdef Sm* m = &self.sm[sm]
        cdef int64_t i
        for i in range(self.block_warps):
            warp_begin(&m.warp[slot * self.block_warps + i], m.begun, block, i)
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
            self._stand(m, i)
        b.occupied = b.alive > 0
        self.resident += b.occupied
        if b.alive == 0:
            self._log(LOG_END, self.now, sm, slot, b.block, 0)
            self.last_end = max(self.last_end, self.now)
        m.wake = min(m.wake, self.now + 1)

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
            self.now = wake
            code = self._cycle(self.now)
            if code != C_GO:
                return code

    cdef int64_t _next_wake(self) noexcept nogil:
        cdef int64_t i, wake = NEVER
        for i in range(self.sms):
            wake = min(wake, self.sm[i].wake)
        for i in range(self.slices):
            wake = min(wake, self.slice[i].wake)
        return wake

    cdef int _cycle(self, int64_t t) noexcept nogil:
        cdef int64_t i
        for i in range(self.sms):
            if self.sm[i].wake <= t and self._sm_cycle(i, t) < 0:
                return C_MEMORY
        for i in range(self.slices):
            if self.slice[i].wake <= t and self._partition_cycle(i, t) < 0:
                return C_MEMORY
        return C_GO

    # ---- the end of a cycle

    cdef int _end_cycle(self) noexcept nogil:
        """E1 to E3, and before them the wishes for instructions."""
        cdef int64_t i
        while self.starved_size > 0:
            self.subject_sm = self.starved[2 * self.starved_size - 2]
            self.subject = self.starved[2 * self.starved_size - 1]
            if warp_starved(&self.sm[self.subject_sm].warp[self.subject]):
                return C_CHUNK
            self.starved_size -= 1
            self._stand(&self.sm[self.subject_sm], self.subject)
            self.sm[self.subject_sm].wake = min(self.sm[self.subject_sm].wake, self.now + 1)
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
        for slot in range(self.slots):
            b = &sm.slot[slot]
            if not b.occupied:
                continue
            self._end_warps(sm, slot)
            while 0 < b.alive == b.waiting:
                self._open_barrier(sm, slot)
                sm.wake = min(sm.wake, self.now + 1)
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
        if sm.entries > 0 and self._access(i, t) < 0:
            return C_MEMORY
        if self._issue(i, t) < 0 or self._send(i, t) < 0:
            return C_MEMORY
        sm.wake = self._sm_wake(sm, t)
        if sm.check:
            self.any_check = True
        return C_GO

    cdef int64_t _sm_wake(self, Sm* sm, int64_t t) noexcept nogil:
        """Return when the SM can next do something if nothing comes from outside."""
        cdef int64_t k, wake = NEVER
        if sm.entries > 0 and (not sm.stalled or sm.retry):
            return t + 1
        for k in range(self.schedulers):
            if sm.scheduler[k].freely or (sm.scheduler[k].with_room and sm.entries < self.ldst_queue):
                return t + 1
        if sm.responses.size > 0:
            wake = ring_first(&sm.responses).time
        if sm.hits.size > 0:
            wake = min(wake, ring_first(&sm.hits).time)
        if sm.misses.size > 0 and not sm.waiting:
            wake = min(wake, sm_cycle_of(&self.x_clock, sm.request_port))
        return max(wake, t + 1)

    cdef int _fill(self, int64_t i, int64_t t, Item item) noexcept nogil:
        """S1: the data of a line have come."""
        cdef Sm* sm = &self.sm[i]
        cdef CacheLine* l = &sm.cache.line[item.id]
        cdef int64_t mshr = l.mshr
        cdef Mshr entry = sm.mshrs.item[mshr]
        cdef Waiter waiter
        self._log(LOG_FILL, t, i, item.line, 0, 0)
        if self._count_latency(t - entry.since) < 0:
            return C_MEMORY
        l.mshr = NONE
        if self.fill:
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
            if standing == FREELY:
                s.freely |= bit
            elif standing == WITH_ROOM:
                s.with_room |= bit
        if w.alive and warp_done(w):
            sm.check = self.any_check = True

    # ---- S3: the load/store unit

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
            outcome = self._load(sm, e, e.ids[e.at], t)
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
            self._record(i, e, outcome)
        e.at += 1
        if e.at == e.count:
            return self._leave_unit(sm, e, t)
        return C_GO

    cdef int _leave_unit(self, Sm* sm, Entry* e, int64_t t) noexcept nogil:
        cdef int64_t load = e.load, returns
        sm.warp[e.warp].in_unit -= 1
        sm.entry_head = (sm.entry_head + 1) % self.ldst_queue
        sm.entries -= 1
        if load == NONE:
            self._stand(sm, e.warp)
            return C_GO
        returns = sm.load[load].hit + self.hit_latency
        if sm.load[load].hit >= 0 and returns > t:
            return C_MEMORY if ring_push(&sm.hits, Item(returns, 0, load, 0)) < 0 else C_GO
        self._arrive(sm, load)
        return C_GO

    cdef int _load(self, Sm* sm, Entry* e, int64_t id, int64_t t) noexcept nogil:
        cdef CacheLine* l = &sm.cache.line[id]
        cdef int outcome
        if l.mshr != NONE:
            if not mshr_mergeable(&sm.mshrs, l.mshr):
                return FAIL_MERGE
            outcome = PENDING_HIT
            sm.n.pending_hits += 1
            sm.load[e.load].hit = t
        elif l.flags & VALID:
            outcome = HIT
            sm.n.hits += 1
            sm.load[e.load].hit = t
        else:
            outcome = self._miss(sm, e, id, t)
            if outcome != MISS:
                return outcome
        if outcome != HIT:
            if mshr_merge(&sm.mshrs, l.mshr, e.load, 0) < 0:
                return NO_MEMORY
            sm.load[e.load].waits += 1
        if l.flags & (VALID | RESERVED):
            cache_touch(&sm.cache, id)
        shadow_raise(&sm.cache, id)
        return outcome

    cdef int _miss(self, Sm* sm, Entry* e, int64_t id, int64_t t) noexcept nogil:
        """Ask for an absent line: way, MSHR and room in the miss queue, or nothing at all."""
        cdef CacheLine* l = &sm.cache.line[id]
        cdef Warp* w = &sm.warp[e.warp]
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
        entry.owner = e.warp
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
            if old.block != block:
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
            l.flags |= DIRTY
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

    # ---- S4: issue

    cdef int _issue(self, int64_t i, int64_t t) noexcept nogil:
        cdef Sm* sm = &self.sm[i]
        cdef Scheduler* s
        cdef int64_t k, turn, place, first = sm.first_scheduler
        cdef uint64_t candidates
        for turn in range(self.schedulers):
            k = (first + turn) % self.schedulers
            s = &sm.scheduler[k]
            candidates = s.freely
            if sm.entries < self.ldst_queue:
                candidates |= s.with_room
            if candidates == 0:
                continue
            place = scheduler_pick(s, self.sched, candidates, sm.warp, k, self.schedulers, self.fetch_group)
            s.last = place
            s.last_age = sm.warp[k + place * self.schedulers].age
            if self._issue_from(i, t, k + place * self.schedulers) < 0:
                return C_MEMORY
        return C_GO

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
            sm.load[e.load] = Load(warp, w.issued, 1, -1, NONE)
        return C_GO

    cdef int64_t _new_load(self, Sm* sm) noexcept nogil:
        cdef int64_t i, size
        cdef Load* grown
        if sm.free_load == NONE:
            size = 64 if sm.loads == 0 else 2 * sm.loads
            grown = <Load*> realloc(sm.load, <size_t> size * sizeof(Load))
            if grown == NULL:
                return NONE
            sm.load = grown
            for i in range(size - 1, sm.loads - 1, -1):
                sm.load[i].next = sm.free_load
                sm.free_load = i
            sm.loads = size
        i = sm.free_load
        sm.free_load = sm.load[i].next
        return i

    # ---- S5: the crossbar

    cdef int _send(self, int64_t i, int64_t t) noexcept nogil:
        cdef Sm* sm = &self.sm[i]
        cdef Slice* s
        cdef Item item
        if self.ideal >= 0:
            return self._send_ideal(sm, t)
        while not sm.waiting and sm.misses.size > 0 and sm.request_port < first_cycle(&self.x_clock, t + 1):
            s = &self.slice[modulo(ring_first(&sm.misses).line, self.slices)]
            if s.occupancy >= self.l_queue:
                sm.waiting = True
                return C_MEMORY if ring_push(&s.waiting, Item(t, 0, 0, i)) < 0 else C_GO
            item = ring_pop(&sm.misses)
            sm.retry = True
            if item.what == READ:
                sm.n.read_messages += 1
            else:
                sm.n.write_messages += 1
            item.time = self._travel(
                &sm.request_port, &s.request_port, self.read_flits if item.what == READ else self.write_flits, t
            ) + self.l_latency
            item.what = 2 * i + item.what
            s.occupancy += 1
            s.wake = min(s.wake, item.time)
            if ring_push(&s.input, item) < 0:
                return C_MEMORY
        return C_GO

    cdef int _send_ideal(self, Sm* sm, int64_t t) noexcept nogil:
        """Answer every miss after the ideal memory's latency."""
        cdef Item item
        while sm.misses.size > 0:
            item = ring_pop(&sm.misses)
            sm.retry = True
            if item.what == WRITE:
                sm.n.write_messages += 1
                continue
            sm.n.read_messages += 1
            item.time = t + self.ideal
            if ring_push(&sm.responses, item) < 0:
                return C_MEMORY
        return C_GO

    cdef int64_t _travel(self, int64_t* leaves, int64_t* enters, int64_t flits, int64_t t) noexcept nogil:
        """Book both ports for a message that sets off at `t`; return the SM cycle in which it has arrived."""
        cdef int64_t out = max(leaves[0], first_cycle(&self.x_clock, t))
        cdef int64_t into = max(out + self.x_latency, enters[0])
        leaves[0] = out + flits
        enters[0] = into + flits
        return max(sm_cycle(&self.x_clock, into + flits), t + 1)

    # ---- a partition's cycle

    cdef int _partition_cycle(self, int64_t p, int64_t t) noexcept nogil:
        cdef Slice* s = &self.slice[p]
        while s.returns.size > 0 and ring_first(&s.returns).time <= t:
            if self._fill_slice(s, t, ring_pop(&s.returns)) < 0:
                return C_MEMORY
        if s.input.size > 0 and self._serve(p, t) < 0:
            return C_MEMORY
        if s.channel.queued > 0 and self._command(p, t) < 0:
            return C_MEMORY
        s.wake = self._partition_wake(s, t)
        return C_GO

    cdef int64_t _partition_wake(self, Slice* s, int64_t t) noexcept nogil:
        cdef int64_t wake = NEVER
        if s.returns.size > 0:
            wake = ring_first(&s.returns).time
        if s.channel.queued > 0:
            wake = min(wake, sm_cycle_of(&self.d_clock, s.channel.next))
        if s.input.size > 0 and (not s.stalled or s.retry):
            wake = min(wake, max(ring_first(&s.input).time, t + 1))
        return max(wake, t + 1)

    cdef int _fill_slice(self, Slice* s, int64_t t, Item item) noexcept nogil:
        """P1: the data of a line have come from the DRAM."""
        cdef CacheLine* l = &s.cache.line[item.id]
        cdef int64_t mshr = l.mshr
        cdef Waiter waiter
        l.mshr = NONE
        l.flags = (l.flags & ~RESERVED) | VALID
        while mshr_next_waiter(&s.mshrs, mshr, &waiter):
            if self._answer(s, waiter.who, waiter.id, item.line, t) < 0:
                return C_MEMORY
        mshr_release(&s.mshrs, mshr)
        s.retry = True
        return C_GO

    cdef int _answer(self, Slice* s, int64_t sm, int64_t id, int64_t line, int64_t t) noexcept nogil:
        cdef Sm* m = &self.sm[sm]
        cdef int64_t time = self._travel(&s.response_port, &m.response_port, self.answer_flits, t)
        m.wake = min(m.wake, time)
        return C_MEMORY if ring_push(&m.responses, Item(time, line, id, 0)) < 0 else C_GO

    cdef int _serve(self, int64_t p, int64_t t) noexcept nogil:
        """P2: handle one request per L2 cycle."""
        cdef Slice* s = &self.slice[p]
        cdef int64_t cycle = first_cycle(&self.l_clock, t), end = first_cycle(&self.l_clock, t + 1)
        cdef Item item
        cdef int outcome
        while cycle < end and s.input.size > 0 and ring_first(&s.input).time <= t and (not s.stalled or s.retry):
            if s.stalled:
                s.n.fails[s.reason - FAILED] += cycle - s.since
                s.stalled = False
            s.retry = False
            outcome = self._handle(s, ring_first(&s.input)[0], t)
            if outcome == NO_MEMORY:
                return C_MEMORY
            if outcome >= FAILED:
                s.stalled = True
                s.reason = outcome
                s.since = cycle
                break
            item = ring_pop(&s.input)
            self._log(LOG_SLICE, t, p, item.line, outcome, 0)
            s.occupancy -= 1
            if s.waiting.size > 0 and self._grant(s, t) < 0:
                return C_MEMORY
            cycle += 1
        return C_GO

    cdef int _grant(self, Slice* s, int64_t t) noexcept nogil:
        """Let the SM that has waited longest send."""
        cdef int64_t i = ring_pop(&s.waiting).what
        self.sm[i].waiting = False
        self.sm[i].wake = min(self.sm[i].wake, t + 1)
        return self._send(i, t)

    cdef int _handle(self, Slice* s, Item item, int64_t t) noexcept nogil:
        cdef int64_t id
        cdef int64_t sm = item.what >> 1
        cdef CacheLine* l
        if cache_intern(&s.cache, &item.line, 1, &id) < 0:
            return NO_MEMORY
        if item.what & 1 == WRITE:
            return self._handle_write(s, id)
        l = &s.cache.line[id]
        if l.mshr != NONE:
            if not mshr_mergeable(&s.mshrs, l.mshr):
                return FAIL_MERGE
            s.n.pending_hits += 1
            s.n.reads += 1
            cache_touch(&s.cache, id)
            return NO_MEMORY if mshr_merge(&s.mshrs, l.mshr, sm, item.id) < 0 else PENDING_HIT
        if l.flags & VALID:
            s.n.hits += 1
            s.n.reads += 1
            cache_touch(&s.cache, id)
            return NO_MEMORY if self._answer(s, sm, item.id, item.line, t) < 0 else HIT
        return self._fetch(s, id, sm, item.id)

    cdef int _fetch(self, Slice* s, int64_t id, int64_t sm, int64_t wanted) noexcept nogil:
        """Read an absent line from the DRAM: way, MSHR and room in the DRAM's queue, or nothing at all."""
        cdef CacheLine* l = &s.cache.line[id]
        cdef int64_t victim
        if not cache_victim(&s.cache, l.set, &victim):
            return FAIL_LINE
        if not mshr_available(&s.mshrs):
            return FAIL_MSHR
        if s.channel.queued >= s.channel.limit:
            return FAIL_QUEUE
        l.mshr = mshr_take(&s.mshrs, id)
        if l.mshr == NONE or mshr_merge(&s.mshrs, l.mshr, sm, wanted) < 0 or self._evict(s, victim) < 0:
            return NO_MEMORY
        cache_give(&s.cache, id, RESERVED)
        s.n.misses += 1
        s.n.reads += 1
        return NO_MEMORY if channel_enter(&s.channel, l.line, id, self.slices, False) < 0 else MISS

    cdef int _handle_write(self, Slice* s, int64_t id) noexcept nogil:
        """Write allocate, without fetching: the L2 knows which bytes it has."""
        cdef CacheLine* l = &s.cache.line[id]
        cdef int64_t victim
        if l.flags & (VALID | RESERVED):
            l.flags |= DIRTY
            cache_touch(&s.cache, id)
            s.n.write_hits += 1
            s.n.writes += 1
            return WRITTEN
        if not cache_victim(&s.cache, l.set, &victim):
            return FAIL_LINE
        if victim != NONE and s.cache.line[victim].flags & DIRTY and s.channel.queued >= s.channel.limit:
            return FAIL_QUEUE
        if self._evict(s, victim) < 0:
            return NO_MEMORY
        cache_give(&s.cache, id, VALID | DIRTY)
        s.n.writes += 1
        return WRITE_MISS

    cdef int _evict(self, Slice* s, int64_t victim) noexcept nogil:
        """Take the way of a line, NONE for an empty way; a dirty line is written to the DRAM."""
        cdef bint dirty
        if victim == NONE:
            return C_GO
        dirty = s.cache.line[victim].flags & DIRTY != 0
        cache_drop(&s.cache, victim)
        if dirty and channel_enter(&s.channel, s.cache.line[victim].line, victim, self.slices, True) < 0:
            return C_MEMORY
        return C_GO

    cdef int _command(self, int64_t p, int64_t t) noexcept nogil:
        """P3: at most one command per DRAM cycle."""
        cdef Slice* s = &self.slice[p]
        cdef Channel* c = &s.channel
        cdef int64_t cycle = max(first_cycle(&self.d_clock, t), c.next)
        cdef int64_t end = first_cycle(&self.d_clock, t + 1)
        cdef Request moved
        while cycle < end and c.queued > 0:
            if channel_command(c, cycle, &moved):
                self._log(LOG_DRAM, cycle, p, moved.line, moved.write, 0)
                s.retry = True
                if not moved.write and ring_push(
                    &s.returns,
                    Item(sm_cycle(&self.d_clock, c.bus_free) + self.d_latency, moved.line, moved.id, 0),
                ) < 0:
                    return C_MEMORY
            cycle = c.next
        c.next = cycle
        return C_GO

    # ---- log and record

    cdef inline void _log(
        self, int64_t kind, int64_t time, int64_t where, int64_t a, int64_t b, int64_t c
    ) noexcept nogil:
        if self.logging:
            self._append_log(kind, time, where, a, b, c)

    cdef void _append_log(
        self, int64_t kind, int64_t time, int64_t where, int64_t a, int64_t b, int64_t c
    ) noexcept nogil:
        cdef int64_t capacity
        cdef int64_t* row
        if self.log_size == self.log_capacity:
            capacity = max(<int64_t> 4096, 2 * self.log_capacity)
            row = <int64_t*> realloc(self.log, <size_t> (capacity * LOG_WIDTH) * sizeof(int64_t))
            if row == NULL:
                self.log_lost = True
                return
            self.log = row
            self.log_capacity = capacity
        row = self.log + self.log_size * LOG_WIDTH
        row[0], row[1], row[2], row[3], row[4], row[5] = kind, time, where, a, b, c
        self.log_size += 1

    cdef void _record(self, int64_t i, Entry* e, int outcome) noexcept nogil:
        cdef Warp* w = &self.sm[i].warp[e.warp]
        cdef int64_t* row = &self.rows[self.recorded, 0]
        row[0], row[1], row[2], row[3] = i, w.block, w.index, e.pc
        row[4], row[5], row[6] = self.sm[i].cache.line[e.ids[e.at]].line, outcome, e.masks[e.at]
        self.recorded += 1

    # ---- results

    def sm_counters(self, int64_t i):
        """Return what an SM has counted, as a dict; `fails` in the order of FAIL_NAMES."""
        return self.sm[i].n

    def slice_counters(self, int64_t i):
        """Return what a slice of the L2 has counted, as a dict; the last of `fails` is the DRAM's queue."""
        return self.slice[i].n

    def channel_counters(self, int64_t i):
        """Return what a DRAM channel has counted, as a dict."""
        cdef Channel* c = &self.slice[i].channel
        return {"reads": c.reads, "writes": c.writes, "activations": c.activations}

    def miss_latencies(self):
        """Return how many misses were filled after 0, 1, 2, ... cycles, as a list."""
        return [self.latency[i] for i in range(self.latencies)]

    def events(self):
        """Return the log as a list of tuples (kind, time, where, a, b)."""
        cdef int64_t i
        cdef int64_t* row
        if self.log_lost:
            raise MemoryError
        result = []
        for i in range(self.log_size):
            row = self.log + i * LOG_WIDTH
            result.append((row[0], row[1], row[2], row[3], row[4]))
        return result

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
        wrong = _cache_violations(&sm.cache, &reserved)
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
            if ring > 0 and sm.wake == NEVER:
                wrong.append(f"{name} are due and the SM sleeps")
        if sm.wake <= self.now:
            wrong.append(f"is to wake in cycle {sm.wake}, and it is cycle {self.now}")
        return wrong

    cdef int64_t _loads_out(self, Sm* sm):
        cdef int64_t i = sm.free_load, free = 0
        while i != NONE:
            free += 1
            i = sm.load[i].next
        return sm.loads - free

    cdef list _slice_violations(self, Slice* s):
        cdef int64_t reserved = 0
        wrong = _cache_violations(&s.cache, &reserved)
        if reserved != s.mshrs.used:
            wrong.append(f"{reserved} lines are reserved, {s.mshrs.used} MSHRs in use")
        if s.mshrs.limit >= 0 and s.mshrs.used > s.mshrs.limit:
            wrong.append(f"{s.mshrs.used} of {s.mshrs.limit} MSHRs are in use")
        if s.occupancy != s.input.size or s.occupancy > self.l_queue:
            wrong.append(f"the input for {self.l_queue} holds {s.input.size} requests and counts {s.occupancy}")
        if s.waiting.size > 0 and s.occupancy < self.l_queue:
            wrong.append(f"{s.waiting.size} SMs wait for an input that has room")
        if s.channel.queued > s.channel.limit + 1:
            wrong.append(f"{s.channel.queued} requests are in a DRAM queue for {s.channel.limit}")
        if s.wake <= self.now:
            wrong.append(f"is to wake in cycle {s.wake}, and it is cycle {self.now}")
        return wrong

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
                    found.append(
                        f"SM {i}: block {sm.slot[k].block}: {sm.slot[k].waiting} of {sm.slot[k].alive} warps wait at a "
                        f"barrier, {sum([sm.warp[k * self.block_warps + j].loads > 0 for j in range(self.block_warps)])} "
                        "for loads"
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


cdef list _cache_violations(const Cache* c, int64_t* reserved):
    """Walk through all sets; count the reserved lines on the way."""
    cdef int64_t set, id, owned
    cdef const CacheLine* l
    wrong = []
    for set in range(c.sets):
        owned = 0
        id = c.set[set].newest
        while id != NONE:
            l = &c.line[id]
            owned += 1
            reserved[0] += l.flags & RESERVED != 0
            if l.set != set or (l.flags & VALID != 0) == (l.flags & RESERVED != 0):
                wrong.append(f"line {l.line} is in set {set} and should not be")
            if (l.flags & RESERVED != 0) != (l.mshr != NONE):
                wrong.append(f"line {l.line} is reserved without an MSHR, or has one and is not")
            id = l.in_set.older
        if owned != c.set[set].size or owned > c.ways:
            wrong.append(f"set {set} owns {owned} ways, counts {c.set[set].size} and has {c.ways}")
    return wrong
