# The steps and transactions of the definition, on top of `Core` (_core.pxd); rdmodel.reference.model.hardware is the
# readable form of the same rules. docs/model.md section 11 defines them by their differences from `PaperCore`.
"""Implement definition `hardware` of the analytical model: `HardwareCore`, one object per SM."""

from array import array

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from rdmodel.model._core cimport C_BLOCK, C_CHOICES, C_CHUNK, C_DONE, C_GO, C_LATENCIES, C_LOG, C_MEMORY
from rdmodel.model._core cimport IN_FLIGHT, IN_SET, NO_MEMORY, SEEN, SERVED, STALL_MSHR, STALL_WAYS
from rdmodel.model._core cimport Core as Shared
from rdmodel.model._core cimport Line, leave_way
from rdmodel.model._sectors cimport sectors_access, sectors_fill, sectors_store
from rdmodel.model._sched cimport MAX_SCHEDULERS, SCHED_FIFO, SCHED_RANDOM, Scheduler, has_bit, sched_pick
from rdmodel.model._warp cimport OP_BARRIER, OP_BYPASS, OP_LOAD, READS, Arrival, Warp, loads, put_off, writing_kind
from rdmodel.model._warp cimport warp_fetch_ahead, warp_gather_needs, warp_record, warp_shows_more
from rdmodel.structures._calendar cimport NEVER, calendar_put, calendar_take
from rdmodel.structures._heap cimport Event
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._pool cimport pool_of

# Treatment of stores that do not act as loads; STORES_FREE: they take no step and no line. From STORES_UPDATE on, they
# look up their lines as loads do, in a sectored core.
cdef enum:
    STORES_FREE = 0
    STORES_STEP = 1
    STORES_EVICT = 2
    STORES_UPDATE = 3
    STORES_THROUGH = 4

# Phases of a step, at which `_run` resumes.
cdef enum:
    AT_EFFECTS, AT_ISSUE, AT_ADVANCE, AT_CLOCK, AT_BLOCKS


@cython.final
cdef class HardwareCore(Shared):
    """Definition `hardware`: lines are allocated at issue, and a step is a transaction (docs/model.md section 11)."""

    cdef Scheduler sched[MAX_SCHEDULERS]
    cdef int64_t schedulers           # number of schedulers
    cdef int64_t turn                 # the scheduler that acts first in the next step
    cdef uint64_t* slots_of           # [schedulers x words] the slots of each scheduler, one bit per slot
    cdef int64_t words
    cdef int64_t stores, stagger
    cdef int64_t tags                 # transactions that a step issues
    cdef bint head, bypass, whole, gaps
    cdef double first_touch_factor
    cdef int phase
    cdef bint filled                  # a fill arrived in this step: stalled instructions may try again
    cdef int64_t port                 # the warp whose instruction has the port; NONE = the port is free
    cdef bint port_waits              # that instruction has stalled
    cdef double[::1] choice
    cdef int64_t choice_at

    def __init__(
        self, *, int64_t sched, int64_t schedulers, int64_t stores, int64_t stagger, bint head, bint bypass,
        bint whole, int64_t tags, bint gaps, double first_touch_factor, **common,
    ):
        super().__init__(**common)
        cdef int64_t i
        assert 1 <= schedulers <= MAX_SCHEDULERS
        assert stores < STORES_UPDATE or self.sectored
        self.schedulers = schedulers
        self.words = self.warps + 63 >> 6
        self.slots_of = <uint64_t*> calloc(<size_t> (schedulers * self.words), sizeof(uint64_t))
        if self.slots_of == NULL:
            raise MemoryError
        for i in range(self.warps):
            self.slots_of[i % schedulers * self.words + (i >> 6)] |= <uint64_t> 1 << (i & 63)
        for i in range(schedulers):
            self.sched[i] = Scheduler(sched if self.divergence else SCHED_FIFO, NONE, 0)
        self.listed = self.sched[0].kind == SCHED_RANDOM or self.sched[0].kind == SCHED_FIFO
        self.stores = stores
        self.stagger = stagger
        self.head = head
        self.bypass = bypass
        self.whole = whole
        self.tags = tags
        self.gaps = gaps
        self.first_touch_factor = first_touch_factor
        self.choice = array("d")
        self.port = NONE
        self.phase = AT_BLOCKS

    def __dealloc__(self):
        free(self.slots_of)

    def put_choices(self, double[::1] draws):
        """Replace the draws of warp choices; all of the last batch must have been used."""
        self.choice = draws
        self.choice_at = 0

    def start_block(self, int64_t slot):
        """Start the warps of a primed block: each becomes ready, waits for its stagger, or ends at once."""
        cdef int64_t i, first = slot * self.block_warps
        cdef int64_t order = self.started - 1
        cdef Event turn
        cdef bint late = self.stagger > 0 and order > 0 and self.now == 0
        self.alive[slot] = self.block_warps
        for i in range(first, first + self.block_warps):
            if not self._look_ahead(i):
                raise RuntimeError("a warp was started before it was primed")
            if late and not self.warp[i].ending:
                # A negative order puts it before all events of issued instructions.
                turn = Event(order * self.stagger, self.warp[i].age - (<int64_t> 1 << 62), i, i)
                if calendar_put(&self.waiting, turn) < 0:
                    raise MemoryError
            elif self._admit(i) < 0:
                raise MemoryError

    cdef int _run(self) noexcept nogil:
        cdef int code
        while True:
            if self.phase == AT_EFFECTS:
                self._apply_fills()
                if self._admit_arrivals() < 0:
                    return C_MEMORY
                self.phase = AT_BLOCKS
            if self.phase == AT_BLOCKS:
                if self._wants_block():
                    return C_BLOCK
                self.phase = AT_ISSUE
            if self.phase == AT_ISSUE:
                if self.logged >= self.log_full:
                    return C_LOG
                code = self._issue_step()
                if code != C_GO:
                    return code
            if self.phase == AT_ADVANCE:
                code = self._advance()
                if code != C_GO:
                    return code
            if self.phase == AT_CLOCK:
                self.now += 1
                self.phase = AT_EFFECTS

    cdef void _apply_fills(self) noexcept nogil:
        cdef Event fill
        self.filled = False
        while calendar_take(&self.events, self.now, &fill):
            if self.sectored:
                sectors_fill(self, fill.what)
            else:
                self.line[fill.what].flags &= ~IN_FLIGHT
                self.all_late = 0
            self.mshrs_used -= 1
            self.warp[fill.warp].mshrs -= 1
            self.filled = True
        if self.filled:
            self._unpark()

    cdef int _admit_arrivals(self) noexcept nogil:
        cdef Event turn
        while calendar_take(&self.waiting, self.now, &turn):
            if self._admit(turn.what) < 0:
                return -1
        return 0

    cdef int _admit(self, int64_t warp) noexcept nogil:
        """Make a warp ready, let it stand at its barrier, or end it; the data that it waited for have arrived."""
        cdef Warp* w = &self.warp[warp]
        if w.passed_from >= 0:
            self._apply_stores(w)
        if w.ending:
            self._end_warp(warp)
        elif w.program[w.at].op == OP_BARRIER and w.gap_left == 0:
            self.standing[warp // self.block_warps] += 1
        else:
            self._make_ready(warp)
            return 0
        return self._open_barrier(warp // self.block_warps)

    cdef int _open_barrier(self, int64_t slot) noexcept nogil:
        """Let the warps of a block go on in the next step, if all that have not ended stand at a barrier."""
        cdef int64_t i, first = slot * self.block_warps
        cdef Warp* w
        if self.standing[slot] == 0 or self.standing[slot] < self.alive[slot]:
            return 0
        self.standing[slot] = 0
        for i in range(first, first + self.block_warps):
            w = &self.warp[i]
            if w.ending:
                continue
            w.at += 1
            w.key = Arrival(self.now + 1, self.order)
            self._look_ahead(i)
            if w.ending:
                put_off(&w.key, w.everything)
            if calendar_put(&self.waiting, Event(w.key.time, w.key.order, i, i)) < 0:
                return -1
        self.order += 1
        return 0

    cdef void _apply_stores(self, Warp* w) noexcept nogil:
        """Log the stores that a warp has passed since its last instruction, or evict their lines."""
        if self.logs:
            self._log_stores(w, w.passed_at, w.passed_from, w.id_at)
        if self.stores == STORES_EVICT:
            self._evict(w)
        w.passed_from = NONE

    cdef void _evict(self, const Warp* w) noexcept nogil:
        cdef int64_t i
        cdef Line* l
        for i in range(w.passed_from, w.id_at):
            l = &self.line[w.ids[i]]
            if l.flags & (IN_SET | IN_FLIGHT) == IN_SET:
                leave_way(&self.recency[l.set], self.line, w.ids[i])
                self.pool.used[pool_of(&self.pool, l.set)] -= 1

    cdef int _issue_step(self) noexcept nogil:
        cdef Warp* w
        if self.port != NONE and self.port_waits:
            if not self.filled:
                return self._leap()
            self.port_waits = False
        if self.port == NONE:
            if self.ready_size == 0:
                return self._leap()
            if self.sched[0].kind == SCHED_RANDOM and self.choice_at == self.choice.shape[0]:
                return C_CHOICES
        # Request draws before the choice is made: a step that has begun cannot be interrupted.
        if not self._draws_suffice(self._most_transactions()):
            return C_LATENCIES
        self.phase = AT_CLOCK
        if self.port == NONE:
            if self._issue() == C_MEMORY:
                return C_MEMORY
            if self.port == NONE:
                return C_GO
        w = &self.warp[self.port]
        if w.program[w.at].op == OP_BYPASS:
            return self._use_port_to_pass_by(w)
        return self._use_port()

    cdef int _issue(self) noexcept nogil:
        """Let each scheduler issue one instruction, beginning behind the one whose instruction last took the port.

        All instructions that do not access memory issue; of the others, the first one takes the port.
        """
        cdef int64_t i, at, warp, number = self.turn
        cdef Warp* w
        for i in range(self.schedulers):
            at = self._choose(number)
            if at >= 0:
                warp = self.ready[at] if self.listed else at
                w = &self.warp[warp]
                if w.gap_left > 0 or self.port == NONE:
                    self.sched[number].last = warp
                    self.sched[number].last_age = w.age
                    if w.gap_left == 0:
                        self._take_chosen(at)
                        self.port = warp
                        self.turn = number + 1 if number + 1 < self.schedulers else 0
                    elif self._issue_other(warp, at) == C_MEMORY:
                        return C_MEMORY
            number = number + 1 if number + 1 < self.schedulers else 0
        return C_GO

    cdef inline void _take_chosen(self, int64_t at) noexcept nogil:
        """Remove the warp that `_choose` has returned from the ready ones."""
        if self.listed:
            self._take_ready(at)
        else:
            self._take_ready_slot(at)

    cdef inline int _issue_other(self, int64_t warp, int64_t at) noexcept nogil:
        """Issue an instruction that does not access memory: the warp is ready again in the next step."""
        cdef Warp* w = &self.warp[warp]
        cdef Event turn = Event(self.now, self.order, warp, warp)
        w.gap_left -= 1
        # No other scheduler chooses this warp, and none chooses twice in a step: where the order of the ready warps does
        # not matter, it may stay among them.
        if not self.listed and (w.gap_left > 0 or w.program[w.at].op != OP_BARRIER):
            return C_GO
        self._take_chosen(at)
        w.key = Arrival(self.now, self.order)
        self.order += 1
        return C_MEMORY if calendar_put(&self.waiting, turn) < 0 else C_GO

    cdef int64_t _most_transactions(self) noexcept nogil:
        """Return an upper bound on the number of draws of the next step."""
        cdef int64_t i, most = self.tags
        cdef Warp* w
        if self.whole:
            if self.port != NONE:
                w = &self.warp[self.port]
                return w.program[w.at].count
            for i in range(self.warps):
                if has_bit(self.ready_bits, i):
                    w = &self.warp[i]
                    most = max(most, <int64_t> w.program[w.at].count)
        return most

    cdef int _wait_for_turn(self, Warp* w) noexcept nogil:
        """Free the port, and let its warp wait until its needs have arrived; it becomes ready in a later step."""
        cdef Event turn = Event(w.key.time, w.key.order, self.port, self.port)
        self.port = NONE
        self.phase = AT_CLOCK
        return C_MEMORY if calendar_put(&self.waiting, turn) < 0 else C_GO

    cdef int _use_port(self) noexcept nogil:
        """Issue the next transactions of the instruction at the port, or all that are left."""
        cdef Warp* w = &self.warp[self.port]
        cdef bint load = w.program[w.at].op == OP_LOAD
        cdef bint looks_up = load or self.stores >= STORES_UPDATE
        cdef int64_t tags = self.tags
        cdef int outcome
        if w.left < 0:
            w.left = w.program[w.at].count if looks_up else 0
            w.latest = Arrival(-1, -1)
        while w.left > 0:
            self._count_for(w, w.ids[w.id_at])
            if self.sectored:
                outcome = self._access_sectors(w.ids[w.id_at], w.masks[w.id_at], load, w)
            else:
                outcome = self._access(w.ids[w.id_at], w)
            if outcome == NO_MEMORY:
                return C_MEMORY
            if outcome != SERVED:
                self._stall(outcome)
                return C_GO
            w.id_at += 1
            w.left -= 1
            if w.id_at < w.used:
                self._fetch(w.ids[w.id_at])
            tags -= 1
            if tags == 0 and not self.whole:
                break
        if w.left == 0:
            if looks_up and w.program[w.at].count > 0:
                self.requests += load
                self.store_requests += not load
            if not looks_up:
                if self.logs:
                    self._log_stores(w, w.at, w.id_at, w.id_at + w.program[w.at].count)
                w.id_at += w.program[w.at].count
            self._leave_port(w)
        return C_GO

    cdef int _use_port_to_pass_by(self, Warp* w) noexcept nogil:
        """Issue the next transactions of a load that does not look into the L1: they never stall."""
        if w.left < 0:
            w.left = w.program[w.at].count
            w.latest = Arrival(-1, -1)
        self._pass_by(w, w.left if self.whole else self.tags)
        if w.left == 0:
            self.bypassed_requests += w.program[w.at].count > 0
            self._leave_port(w)
        return C_GO

    cdef inline void _leave_port(self, Warp* w) noexcept nogil:
        """Record that the instruction at the port is issued."""
        warp_record(w, w.latest)
        warp_fetch_ahead(w)
        w.left = -1
        w.key = Arrival(-1, -1)
        self.phase = AT_ADVANCE

    cdef void _stall(self, int outcome) noexcept nogil:
        if outcome == STALL_MSHR:
            self.stalls_mshr += 1
        else:
            self.stalls_ways += 1
        if self.head:
            self.port_waits = True
        else:
            self._park(self.port)
            self.port = NONE

    cdef int _advance(self) noexcept nogil:
        cdef Warp* w = &self.warp[self.port]
        if not self._look_ahead(self.port):
            self.subject = self.port
            return C_CHUNK
        if w.ending:
            w.key = w.everything
        if w.key.time < 0 or not self.divergence and not w.ending:
            w.key = Arrival(self.now, self.order - 1)
        return self._wait_for_turn(w)

    cdef bint _look_ahead(self, int64_t warp) noexcept nogil:
        """Pass stores that take no step, and gather the needs of the next instruction; False: the buffer is too short."""
        cdef Warp* w = &self.warp[warp]
        while w.at < w.n:
            if w.program[w.at].op == OP_BARRIER and not warp_shows_more(w):
                return False
            warp_gather_needs(w)
            if self.gaps:
                w.gap_left += w.program[w.at].gap
            if loads(&w.program[w.at]) or w.program[w.at].op == OP_BARRIER or self.stores == STORES_STEP:
                return True
            # A store without lines is an access that does not go through the L1.
            if self.stores >= STORES_UPDATE and w.program[w.at].count > 0:
                return True
            if (self.logs or self.stores == STORES_EVICT) and w.passed_from < 0:
                w.passed_from = w.id_at
                w.passed_at = w.at
            w.id_at += w.program[w.at].count
            warp_record(w, Arrival(-1, -1))
        w.ending = not w.more
        return w.ending

    cdef int _leap(self) noexcept nogil:
        """Jump to the next fill or arrival: there is nothing to issue."""
        cdef int64_t time = self._next_event()
        if time < 0 or (self.waiting.first == NEVER and self.parked_size == 0 and self.port == NONE):
            return C_DONE
        self.now = time
        self.phase = AT_EFFECTS
        return C_GO

    cdef int64_t _choose(self, int64_t number) noexcept nogil:
        """Return the ready warp that a scheduler chooses; -1 if none of its warps is ready.

        If there is a list of the ready warps, return the index of the warp in the list.
        """
        cdef const uint64_t* slots = self.slots_of + number * self.words
        cdef int64_t i
        if self.sched[0].kind == SCHED_RANDOM:
            self.choice_at += 1
            return <int64_t> (self.choice[self.choice_at - 1] * <double> self.ready_size)
        if self.sched[0].kind == SCHED_FIFO:
            for i in range(self.ready_size):
                if has_bit(slots, self.ready[i]):
                    return i
            return -1
        return sched_pick(&self.sched[number], self.ready_bits, slots, self.words, self.warps, self.warp)

    cdef inline int _access_sectors(self, int64_t id, uint64_t masks, bint load, Warp* w) noexcept nogil:
        if load:
            return sectors_access(self, id, <uint32_t> masks, w, self.port, self.bypass, self.first_touch_factor)
        sectors_store(
            self, id, <uint32_t> masks, <uint32_t> (masks >> 32), self.stores == STORES_THROUGH,
            writing_kind(&w.program[w.at]),
        )
        return SERVED

    cdef int _access(self, int64_t id, Warp* w) noexcept nogil:
        cdef Line* l = &self.line[id]
        cdef int64_t arrival = self.now + self.hit_latency
        cdef int outcome
        cdef bint again = l.flags & IN_SET != 0
        if l.flags & IN_FLIGHT:
            if self.mshr_merge >= 0 and l.state.flight.merged >= self.mshr_merge:
                return STALL_MSHR
            l.state.flight.merged += 1
            self.latency_misses += 1
            arrival = max(arrival, l.state.flight.due)
        elif l.flags & IN_SET:
            self.hits += 1
        else:
            outcome = self._miss(id, w)
            if outcome != SERVED:
                return outcome
            arrival = l.state.flight.due
        return self._count_served(id, again, w, arrival)

    cdef int _miss(self, int64_t id, Warp* w) noexcept nogil:
        cdef Line* l = &self.line[id]
        cdef int64_t latency
        cdef bint first = not l.flags & SEEN
        if not self._mshr_free(w):
            return STALL_MSHR
        if not self._take_way(id):
            if not self.bypass:
                return STALL_WAYS
            self.bypassed += 1
        if self.logs:
            self._log(id, 1, 0, READS)
        self._count_miss(l)
        latency = self.lat_min + self._draw()
        if first and self.first_touch_factor != 1.0:
            latency = <int64_t> (self.first_touch_factor * <double> latency + 0.5)
        l.state.flight.due = self.now + latency
        l.state.flight.merged = 1
        l.flags |= IN_FLIGHT
        self.mshrs_used += 1
        w.mshrs += 1
        return NO_MEMORY if calendar_put(&self.events, Event(l.state.flight.due, self.order, id, self.port)) < 0 else SERVED
