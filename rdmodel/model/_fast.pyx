# A step has the phases of `HardwareCore` (_hardware.pyx), which has all options and is the readable one of the two. This
# core leaves out the uncommon ones; rdmodel.model.cores tells which core can serve a run. All that a step reads
# is small and dense: the ready warps are bits (_ready.pxd), fills are numbers per day (_agenda.pxd), a line in flight is
# known by its time (_ways.pxd), and the shadow is a row of accesses (_shadow.pxd).
"""Implement the definition `hardware` for the common options: `FastCore`, one object per SM."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from rdmodel._tree cimport FULL, prefetch, stack_move
from rdmodel.model._agenda cimport MOST_DAYS, MOST_TAGS, Agenda, agenda_add_warp, agenda_end_day, agenda_free
from rdmodel.model._agenda cimport agenda_init, arrival_key, key_time, opening_key
from rdmodel.model._core cimport C_BLOCK, C_CHUNK, C_DONE, C_GO, C_LOG, C_MEMORY
from rdmodel.model._core cimport Core as Shared
from rdmodel.model._normal cimport steps_next
from rdmodel.model._ready cimport MOST_WARPS, PLACES, Ready, deposits_quickly, ready_append, ready_append_many
from rdmodel.model._ready cimport ready_take, select_bit, select_by_hand
from rdmodel.model._shadow cimport FastLine, Shadow, shadow_close_up, shadow_free, shadow_full, shadow_init
from rdmodel.model._uniform cimport Uniform, uniform_next, uniform_of
from rdmodel.model._warp cimport HISTORY, OP_BARRIER, OP_LOAD, Warp, lowest_bit, warp_fetch_ahead, warp_shows_more
from rdmodel.model._ways cimport ways_free, ways_init
from rdmodel.structures._index cimport set_of
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._memory cimport grow

cdef enum:
    OBSERVED = 1024          # accesses whose distances are measured together
    AHEAD = 8                # and how many of them are fetched before they are used
    FETCHED = 32             # transactions of a warp that are fetched before they are issued


@cython.final
cdef class FastCore(Shared):
    """Definition `hardware` with the common options, for at most 64 warps (docs/model.md section 11)."""

    def __init__(
        self, *, bint draws_warps, bint in_place, bint through, int64_t sectors, int64_t tags, int64_t longest,
        **common,
    ):
        super().__init__(**common)
        assert self.warps <= MOST_WARPS and 1 <= tags <= MOST_TAGS and self.lat_min >= 1
        assert max(longest, self.hit_latency) < MOST_DAYS
        self.draws_warps = draws_warps
        self.drawn_at = DRAWS
        self.in_place = in_place
        self.through = through
        self.tags = tags
        self.soon = self.port = NONE
        self.ready_list.deposits = deposits_quickly()
        self.ready_list.place = <uint8_t*> malloc(PLACES + MOST_WARPS)
        self.pace = <Pace*> malloc(<size_t> self.warps * sizeof(Pace))
        if (
            self.ready_list.place == NULL or self.pace == NULL
            or agenda_init(&self.agenda, max(longest, self.hit_latency)) < 0
            or ways_init(
                &self.in_sets, self.sets, self.ways, self.protected, self.pool, sectors, self.sectored
            ) < 0
            or shadow_init(&self.seen, self.shadow_lines) < 0
        ):
            raise MemoryError
        self._plan_check()

    def __dealloc__(self):
        free(self.ready_list.place)
        free(self.pace)
        free(self.fast_line)
        free(self.set_number)
        agenda_free(&self.agenda)
        ways_free(&self.in_sets)
        shadow_free(&self.seen)

    # ---- service of requests

    def seed(self, latencies, choices, double sigma):
        """Draw latencies and warp choices from the states of two generators (`generator_state`); `sigma` as in `Draws`."""
        self.latencies = uniform_of(latencies)
        self.choices = uniform_of(choices)
        self.sigma = sigma

    def start_block(self, int64_t slot):
        """Start the warps of a primed block: each becomes ready, or ends at once."""
        cdef int64_t i, j, first = slot * self.block_warps
        cdef Pace* p
        self.alive[slot] = self.block_warps
        for i in range(first, first + self.block_warps):
            p = &self.pace[i]
            p.key = p.latest = p.everything = p.ancient = -1
            for j in range(HISTORY):
                p.history[j] = -1
            if not look_ahead(self, i):
                raise RuntimeError("a warp was started before it was primed")
            admit(self, &self.ready_list, i)

    def histogram(self):
        """Return the count of each finite distance, indexed by the distance."""
        if self._observe_all() < 0:
            raise MemoryError
        return Shared.histogram(self)

    # ---- running

    cdef int _run(self) noexcept nogil:
        # Two copies of the loop, each without the branches of the other.
        if self.sectored:
            return run_steps(self, True)
        return run_steps(self, False)

    # ---- rare operations

    cdef int _add_lines(self, const int64_t* lines, int64_t used, const int64_t* ids) noexcept nogil:
        """Set up the records of the lines that are new to the table."""
        cdef int64_t i, capacity, number
        if self.table.count == self.known:
            return 0
        if self.table.count > self.line_capacity:
            capacity = 2 * self.table.count
            if (
                capacity >= <int64_t> 1 << 32
                or grow(<void**> &self.fast_line, capacity, sizeof(FastLine)) < 0
                or (self.logs and grow(<void**> &self.number, capacity, sizeof(int64_t)) < 0)
                or (self.track and grow(<void**> &self.position, capacity, sizeof(int64_t)) < 0)
                or (self.track and grow(<void**> &self.set_number, capacity, sizeof(int32_t)) < 0)
            ):
                return -1
            self.line_capacity = capacity
        for i in range(used):
            if ids[i] == self.known:
                number = set_of(&self.index, lines[i])
                if self.logs:
                    self.number[self.known] = lines[i]
                if self.track:
                    self.position[self.known] = -1
                    self.set_number[self.known] = <int32_t> number
                self.fast_line[self.known] = FastLine(-1, <int32_t> ~number, 0)
                self._find_place(self.known, lines[i])
                self.known += 1
        return 0

    cdef int _observe_all(self) noexcept nogil:
        """Measure the distances of the latest accesses."""
        cdef int64_t at, id, distance
        cdef const Shadow* s = &self.seen
        if not self.track:
            return 0
        for at in range(self.observed, s.at):
            if at + AHEAD < s.at:
                prefetch(&self.position[s.access[(at + AHEAD) & (s.capacity - 1)].line])
            id = s.access[at & (s.capacity - 1)].line
            distance = stack_move(&self.stack[self.set_number[id]], id, self.position)
            if distance >= self.distance_end:
                if self._count_far(distance) < 0:
                    return -1
            elif distance >= 0:
                self.distance_count[distance] += 1
            elif distance == FULL:
                return -1
            else:
                self.infinite += 1
        self.observed = s.at
        return 0

    cdef int _check(self) noexcept nogil:
        """Measure the latest accesses, and make room for more."""
        if self._observe_all() < 0:
            return -1
        if shadow_full(&self.seen):
            shadow_close_up(&self.seen, self.fast_line)
            self.observed = self.seen.at
        self._plan_check()
        return 0

    cdef void _plan_check(self) noexcept nogil:
        self.check_at = self.seen.tail + self.seen.capacity
        if self.track:
            self.check_at = min(self.check_at, self.observed + OBSERVED)


# ---- warps

cdef inline void record(FastCore core, Warp* w, Pace* p, int64_t arrival) noexcept nogil:
    # Step past the current instruction and record when its data arrive.
    cdef int64_t* place = &p.history[w.instructions & (HISTORY - 1)]
    p.ancient = max(p.ancient, place[0])
    place[0] = arrival
    p.everything = max(p.everything, arrival)
    w.instructions += 1
    w.at += 1


cdef inline int64_t gather_needs(const Warp* w, const Pace* p) noexcept nogil:
    # Return the key of the latest arrival of the data that the current instruction needs.
    cdef uint64_t needs = w.program[w.at].needs
    cdef int64_t key = max(p.key, p.ancient)
    if needs == <uint64_t> -1:
        return max(key, p.everything)
    while needs:
        key = max(key, p.history[(w.instructions - 1 - lowest_bit(needs)) & (HISTORY - 1)])
        needs &= needs - 1
    return key


cdef inline bint look_ahead(FastCore core, int64_t warp) noexcept nogil:
    # Pass stores that take no step, and gather the needs of the next instruction; False: the buffer is too short.
    cdef Warp* w = &core.warp[warp]
    cdef Pace* p = &core.pace[warp]
    cdef int64_t count
    cdef bint asks
    while w.at < w.n:
        p.key = gather_needs(w, p)
        count = w.program[w.at].count
        if w.program[w.at].op == OP_LOAD or (core.in_place and count > 0):
            core.next_line[warp] = w.ids[w.id_at] if count > 0 else -1
            asks = core.sectored and count > 0 and w.program[w.at].op == OP_LOAD
            core.next_asked[warp] = <uint32_t> w.masks[w.id_at] if asks else 0
            return True
        if w.program[w.at].op == OP_BARRIER:
            core.special |= <uint64_t> 1 << warp
            return warp_shows_more(w)
        if core.logs and w.passed_from < 0:
            w.passed_from = w.id_at
            core.special |= <uint64_t> 1 << warp
        w.id_at += count
        record(core, w, p, -1)
    if w.more:
        return False
    w.ending = True
    core.special |= <uint64_t> 1 << warp
    return True


cdef void open_barrier(FastCore core, int64_t slot) noexcept nogil:
    # Let the warps of a block go on in the next step, if all that have not ended stand at a barrier.
    cdef int64_t i, first = slot * core.block_warps
    if core.standing[slot] < core.alive[slot]:
        return
    core.standing[slot] = 0
    for i in range(first, first + core.block_warps):
        if core.warp[i].ending:
            continue
        core.warp[i].at += 1
        core.pace[i].key = opening_key(core.now)
        look_ahead(core, i)
        if core.warp[i].ending:
            core.pace[i].key = max(core.pace[i].key, core.pace[i].everything)
        agenda_add_warp(&core.agenda, i, core.pace[i].key)


cdef inline void admit(FastCore core, Ready* ready, int64_t warp) noexcept nogil:
    # Make a warp ready, or end it, after the data that it waited for have arrived.
    cdef Warp* w = &core.warp[warp]
    if core.special >> warp & 1:
        core.special ^= <uint64_t> 1 << warp
        if w.passed_from >= 0:
            core._log_stores(w, w.passed_from, w.id_at)
            w.passed_from = NONE
        if w.ending:
            core._end_warp(warp)
        elif w.program[w.at].op == OP_BARRIER:
            core.standing[warp // core.block_warps] += 1
        else:
            ready_append(ready, warp)
            return
        if core.standing[warp // core.block_warps] > 0:
            open_barrier(core, warp // core.block_warps)
        return
    ready_append(ready, warp)


cdef inline void admit_due(FastCore core, Ready* ready) noexcept nogil:
    # Apply the fills of this step, and admit the warps whose needs have arrived.
    cdef Agenda* a = &core.agenda
    cdef int64_t day, fills, last, warp, following
    if core.soon >= 0 and a.first > core.now:
        admit(core, ready, core.soon)
        core.soon = NONE
        return
    day = core.now & (a.days - 1)
    fills = a.fills[day]
    last = a.last[day]
    if fills > 0:
        core.mshrs_used -= fills
        if core.parked_number > 0:
            ready_append_many(ready, core.parked_warps, core.parked_number)
            core.parked_number = 0
    if core.soon >= 0:
        admit(core, ready, core.soon)
        core.soon = NONE
    if last >= 0:
        warp = a.after[last]
        while True:
            # A warp that opens its barrier waits again, among the warps of another day.
            following = a.after[warp]
            a.waiting -= 1
            admit(core, ready, warp)
            if warp == last:
                break
            warp = following
    agenda_end_day(a, core.now)


# ---- steps

cdef inline bint go_on(FastCore core) noexcept nogil:
    # Let the warp at the port wait for the needs of its next instruction; False: its buffer is empty.
    cdef int64_t warp = core.port
    cdef Pace* p = &core.pace[warp]
    if not look_ahead(core, warp):
        return False
    if core.warp[warp].ending:
        p.key = p.everything
    if key_time(p.key) > core.now:
        agenda_add_warp(&core.agenda, warp, p.key)
    else:
        core.soon = warp
    core.port = NONE
    return True


cdef inline void stall(FastCore core, int64_t cause) noexcept nogil:
    # Park the warp at the port until the next fill.
    core.stalls_mshr += cause == STALLED_MSHR
    core.stalls_ways += cause == STALLED_WAYS
    core.parked_warps[core.parked_number] = <uint8_t> core.port
    core.parked_number += 1
    core.port = NONE


cdef inline int end_instruction(FastCore core, int64_t latest) noexcept nogil:
    # Go on to the next instruction of the warp at the port; `latest` is the key of its last one.
    cdef int64_t warp = core.port
    cdef Warp* w = &core.warp[warp]
    cdef Pace* p = &core.pace[warp]
    record(core, w, p, latest)
    warp_fetch_ahead(w)
    w.left = -1
    p.key = -1
    if go_on(core):
        return C_GO
    core.subject = warp
    core.advancing = True
    return C_CHUNK


cdef inline int issue(FastCore core, const bint sectored) noexcept nogil:
    # Issue transactions of the instruction at the port: those of this step, and of further steps up to the next event.
    cdef int64_t warp = core.port, tag = 0, id = core.next_line[warp], arrival = NO_ARRIVAL, now = core.now
    cdef Warp* w = &core.warp[warp]
    cdef Pace* p = &core.pace[warp]
    # The word that a stalled warp left beside its line tells a load from a store; its buffer need not be read.
    cdef uint64_t asked = core.next_asked[warp] if sectored else 0
    cdef bint load = not sectored or asked != 0
    cdef int64_t at, left, latest, ahead
    if id < 0:
        return end_instruction(core, -1)
    at = w.id_at
    left = w.left
    latest = p.latest
    if left < 0:
        left = w.program[w.at].count
        latest = -1
    if not load:
        asked = w.masks[at]
    while True:
        core._count_for(w, id)
        if not sectored:
            arrival = load_line(core, id, now)
        elif load:
            arrival = load_sectors(core, id, <uint32_t> asked, now)
        else:
            store_sectors(core, id, <uint32_t> asked, <uint32_t> (asked >> 32), now)
        if arrival < NO_ARRIVAL:
            stall(core, arrival)
            break
        core.order += 1
        at += 1
        left -= 1
        if arrival >= 0:
            core.transactions += 1
            latest = max(latest, arrival_key(arrival, now, tag))
            if core.seen.at == core.check_at and core._check() < 0:
                return C_MEMORY
        if left == 0:
            w.id_at = at
            core.requests += load
            core.store_requests += not load
            core.now = now
            return end_instruction(core, latest)
        id = w.ids[at]
        prefetch(&core.fast_line[id])
        ahead = min(at + FETCHED, w.used)
        prefetch(&w.ids[ahead])
        if sectored:
            asked = w.masks[at]
            prefetch(&w.masks[ahead])
        tag += 1
        if tag == core.tags:
            if now + 1 >= core.agenda.first or core.drawn_at + core.tags > DRAWS or core.logged >= core.log_full:
                break
            now += 1
            core.now = now
            tag = 0
    w.id_at = at
    w.left = left
    p.latest = latest
    core.next_line[warp] = id
    if sectored:
        core.next_asked[warp] = <uint32_t> asked if load else 0
    core.now = now
    return C_GO


cdef void draw_latencies(FastCore core) noexcept nogil:
    # Draw latencies for the next steps, behind those that are left.
    cdef Uniform generator = core.latencies
    cdef int64_t left = DRAWS - core.drawn_at, i
    for i in range(left):
        core.drawn[i] = core.drawn[core.drawn_at + i]
    for i in range(left, DRAWS):
        core.drawn[i] = steps_next(&generator, core.sigma)
    core.latencies = generator
    core.drawn_at = 0


cdef inline bint stall_misses(FastCore core, Ready* ready, const bint sectored) noexcept nogil:
    # Let warps take the port while all MSHRs are in use, and park those whose next transaction misses; return whether
    # one keeps the port. Before the next event, nothing but the choices changes.
    cdef Ready r = ready[0]
    cdef Uniform choices = core.choices
    cdef int64_t steps = min(core.agenda.first - core.now, r.size), i
    cdef int64_t parked = core.parked_number, warp = NONE
    for i in range(steps):
        warp = ready_take(&r, <int64_t> (uniform_next(&choices) * <double> r.size))
        if not misses(core, warp, sectored):
            break
        core.parked_warps[parked] = <uint8_t> warp
        parked += 1
        warp = NONE
    core.choices = choices
    i = parked - core.parked_number
    core.stalls_mshr += i
    core.now += i
    core.parked_number = parked
    core.port = warp
    ready[0] = r
    return warp != NONE


cdef inline int run_steps(FastCore core, const bint sectored) noexcept nogil:
    cdef Ready* ready = &core.ready_list
    cdef int code = C_GO
    cdef int64_t index
    if core.advancing:
        core.advancing = False
        if not go_on(core):
            core.advancing = True
            return C_CHUNK
        core.now += 1
        if core.agenda.first <= core.now or core.soon >= 0:
            admit_due(core, ready)
    while True:
        if core._wants_block():
            return C_BLOCK
        if core.logged >= core.log_full:
            return C_LOG
        if core.port < 0:
            if ready.size == 0:
                if core.agenda.waiting + core.parked_number == 0:
                    return C_DONE
                core.now = core.agenda.first
                admit_due(core, ready)
                continue
        if core.drawn_at + core.tags > DRAWS:
            draw_latencies(core)
        if core.port < 0:
            if core.draws_warps and core.mshrs_used == core.mshrs:
                if not stall_misses(core, ready, sectored):
                    if core.agenda.first <= core.now:
                        admit_due(core, ready)
                    continue
            else:
                index = 0
                if core.draws_warps:
                    index = <int64_t> (uniform_next(&core.choices) * <double> ready.size)
                core.port = ready_take(ready, index)
        code = issue(core, sectored)
        if code != C_GO:
            return code
        core.now += 1
        if core.agenda.first <= core.now or core.soon >= 0:
            admit_due(core, ready)


# ---- Python

def find_bit(uint64_t word, int rank):
    """Return the place of the set bit with `rank` set bits before it, found in both ways that `FastCore` knows."""
    assert word != 0 and 0 <= rank
    return select_bit(word, rank, deposits_quickly()), select_by_hand(word, rank)
