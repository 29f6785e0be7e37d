# The steps and transactions of the definition, on top of `Core` (_core.pxd); rdmodel.reference.model.paper is the
# readable form of the same rules.
"""Implement definition `paper` of the analytical model: `PaperCore`, one object per SM."""

cimport cython
from libc.stdint cimport int64_t

from rdmodel.model._core cimport C_BLOCK, C_CHUNK, C_DONE, C_GO, C_LATENCIES, C_LOG, C_MEMORY
from rdmodel.model._core cimport IN_FLIGHT, IN_SET, NO_MEMORY, SERVED, STALL_MSHR
from rdmodel.model._core cimport Core as Shared
from rdmodel.model._core cimport Flight, Line, raise_line
from rdmodel.model._warp cimport OP_BYPASS, OP_LOAD, READS, Arrival, Warp, loads, put_off
from rdmodel.model._warp cimport warp_fetch_ahead, warp_primed
from rdmodel.structures._calendar cimport NEVER, calendar_put, calendar_take
from rdmodel.structures._heap cimport Event
from rdmodel.structures._lru cimport NONE

# Phases of a step, at which `_run` resumes.
cdef enum:
    AT_EFFECTS, AT_ISSUE, AT_ADVANCE, AT_CLOCK, AT_GO_ON, AT_ARRIVALS, AT_STALLED


@cython.final
cdef class PaperCore(Shared):
    """Definition `paper`: effects move lines, and a step is an instruction (docs/model.md sections 4 to 6)."""

    cdef bint before, clip
    cdef bint freed                   # an MSHR was freed in this step
    cdef int phase
    cdef int64_t current              # the warp of this step, until it goes on

    def __init__(self, *, bint before, bint clip, **common):
        super().__init__(**common)
        self.before = before
        self.clip = clip
        self.flights = True
        self.current = NONE
        self.phase = AT_EFFECTS if before else AT_ISSUE

    def start_block(self, int64_t slot):
        """Add the warps of a primed block to the back of the queue; a block without loads ends at once."""
        cdef int64_t i
        self.alive[slot] = 0
        for i in range(slot * self.block_warps, (slot + 1) * self.block_warps):
            self._pass_stores(&self.warp[i])
            if self.warp[i].at < self.warp[i].n:
                self.alive[slot] += 1
                self._make_ready(i)
        if self.alive[slot] == 0:
            self._end_block(slot)

    cdef int _run(self) noexcept nogil:
        cdef int code
        while True:
            if self._wants_block():
                return C_BLOCK
            if self.phase == AT_ISSUE:
                if self.logged >= self.log_full:
                    return C_LOG
                code = self._issue_step()
            elif self.phase == AT_ADVANCE:
                code = self._advance()
            elif self.phase == AT_EFFECTS:
                code = self._apply_effects()
                self.phase = AT_ARRIVALS if self.before else AT_GO_ON
            elif self.phase == AT_GO_ON:
                code = self._go_on_or_wait()
                self.phase = AT_CLOCK if self.before else AT_ARRIVALS
            elif self.phase == AT_ARRIVALS:
                code = self._admit_arrival()
            elif self.phase == AT_STALLED:
                if self.freed:
                    self._unpark()
                    self.freed = False
                self.phase = AT_ISSUE if self.before else AT_CLOCK
                code = C_GO
            else:
                code = self._tick()
            if code != C_GO:
                return code

    cdef int _tick(self) noexcept nogil:
        if self.ready_size > 0 or self.before and (self.waiting.first != NEVER or self.parked_size > 0):
            self.now += 1
            self.phase = AT_EFFECTS if self.before else AT_ISSUE
            return C_GO
        return self._leap()

    cdef int _leap(self) noexcept nogil:
        """Jump to the next effect or arrival: no warp is ready."""
        if self.waiting.first == NEVER and self.parked_size == 0:
            return C_DONE
        self.now = self._next_event()
        self.phase = AT_EFFECTS
        return C_GO

    cdef int _issue_step(self) noexcept nogil:
        cdef int64_t warp
        cdef int outcome
        cdef Warp* w
        if self.ready_size == 0:
            return self._leap()
        w = &self.warp[self.ready[0]]
        if not self._draws_suffice(w.program[w.at].count if w.left < 0 else w.left):
            return C_LATENCIES
        warp = self._take_ready(0)
        outcome = self._issue(warp)
        if outcome == NO_MEMORY:
            return C_MEMORY
        if outcome == SERVED:
            self.current = warp
            if w.program[w.at].op == OP_LOAD:
                self.requests += w.program[w.at].count > 0
            else:
                self.bypassed_requests += w.program[w.at].count > 0
            w.at += 1
            w.left = -1
            warp_fetch_ahead(w)
            if w.id_at < w.used:
                self._fetch(w.ids[w.id_at])
            self.phase = AT_ADVANCE
            return C_GO
        self.stalls_mshr += 1
        if self.divergence:
            self._park(warp)
        else:
            self.current = warp
        self.phase = AT_GO_ON if self.before else AT_EFFECTS
        return C_GO

    cdef int _issue(self, int64_t warp) noexcept nogil:
        """Issue the remaining transactions of the instruction, in order, until one stalls."""
        cdef Warp* w = &self.warp[warp]
        cdef int outcome
        if w.left < 0:
            w.left = w.program[w.at].count
            w.latest = Arrival(-1, -1)
        if w.program[w.at].op == OP_BYPASS:
            self._pass_by(w, w.left)
        while w.left > 0:
            self._count_for(w, w.ids[w.id_at])
            outcome = self._access(w.ids[w.id_at], warp)
            if outcome != SERVED:
                return outcome
            w.id_at += 1
            w.left -= 1
        return SERVED

    cdef int _access(self, int64_t id, int64_t warp) noexcept nogil:
        cdef Line* l = &self.line[id]
        cdef Warp* w = &self.warp[warp]
        cdef Event effect = Event(0, self.order, id, NONE)
        if l.flags & IN_SET:
            self.hits += 1
            effect.time = self.now + self.hit_latency
        elif l.flags & IN_FLIGHT:
            if self.mshr_merge >= 0 and l.state.flight.merged >= self.mshr_merge:
                return STALL_MSHR
            self.latency_misses += 1
            effect.time = l.state.flight.due if self.clip else self.now + self.lat_min + self._draw()
            effect.warp = self.flight[id].owner
            self.flight[id].pending += 1
            l.state.flight.merged += 1
        else:
            if not self._mshr_free(w):
                return STALL_MSHR
            if self.logs:
                self._log(id, 1, 0, READS)
            self._count_miss(l)
            effect.time = l.state.flight.due = self.now + self.lat_min + self._draw()
            effect.warp = warp
            self.flight[id] = Flight(pending=1, owner=warp, owner_age=w.age)
            l.state.flight.merged = 1
            l.flags |= IN_FLIGHT
            self.mshrs_used += 1
            w.mshrs += 1
        if self.track and self._observe(id) < 0:
            return NO_MEMORY
        self.order += 1
        self.transactions += 1
        put_off(&w.latest, Arrival(effect.time, effect.order))
        return NO_MEMORY if calendar_put(&self.events, effect) < 0 else SERVED

    cdef int _advance(self) noexcept nogil:
        """Request instructions until the buffer shows whether the warp goes on after this one."""
        if not warp_primed(&self.warp[self.current]):
            self.subject = self.current
            return C_CHUNK
        self.phase = AT_GO_ON if self.before else AT_EFFECTS
        return C_GO

    cdef int _apply_effects(self) noexcept nogil:
        cdef Event effect
        cdef Line* l
        while calendar_take(&self.events, self.now, &effect):
            l = &self.line[effect.what]
            if self._remember(effect.what) < 0:
                return C_MEMORY
            # The `ways` most recent lines of a set are those with d < ways.
            raise_line(&self.recency[l.set], self.ways, self.line, &self.line[0].in_set, IN_SET, effect.what)
            if effect.warp != NONE:
                self.flight[effect.what].pending -= 1
                if self.flight[effect.what].pending == 0:
                    self._free_mshr(effect.what)
        return C_GO

    cdef void _free_mshr(self, int64_t id) noexcept nogil:
        cdef Flight* flight = &self.flight[id]
        self.line[id].flags &= ~IN_FLIGHT
        self.mshrs_used -= 1
        self.freed = True
        # The owner may have ended, and another warp may have its slot: compare the age.
        if self.warp[flight.owner].age == flight.owner_age:
            self.warp[flight.owner].mshrs -= 1

    cdef int _go_on_or_wait(self) noexcept nogil:
        cdef int64_t warp = self.current
        cdef Event arrival
        self.current = NONE
        if warp == NONE:
            return C_GO
        arrival = Event(self.warp[warp].latest.time, self.warp[warp].latest.order, warp, warp)
        if self.divergence and arrival.time > self.now:
            return C_MEMORY if calendar_put(&self.waiting, arrival) < 0 else C_GO
        self._go_on(warp)
        return C_GO

    cdef void _go_on(self, int64_t warp) noexcept nogil:
        self._pass_stores(&self.warp[warp])
        if self.warp[warp].at < self.warp[warp].n:
            self._make_ready(warp)
        else:
            self._end_warp(warp)

    cdef void _pass_stores(self, Warp* w) noexcept nogil:
        """Log the stores before the warp's next load, and pass them."""
        while w.at < w.n and not loads(&w.program[w.at]):
            self._log_stores(w, w.at, w.id_at, w.id_at + w.program[w.at].count)
            w.id_at += w.program[w.at].count
            w.at += 1

    cdef int _admit_arrival(self) noexcept nogil:
        """Let one arrived warp go on; one at a time, because a block that ends with it is replaced immediately."""
        cdef Event arrival
        if calendar_take(&self.waiting, self.now, &arrival):
            self._go_on(arrival.what)
        else:
            self.phase = AT_STALLED
        return C_GO
