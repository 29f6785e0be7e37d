# The analytical model of one SM, both definitions. rdmodel.model validates everything and drives the cores;
# rdmodel.reference is the readable form of the same rules. A core runs until it needs something from outside
# (instructions of a warp, random numbers, a block), says what, is given it, and goes on.
"""Compiled cores of the analytical model: `PaperCore` and `HardwareCore`, one object per SM."""

from array import array

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from rdmodel._heap cimport Event, Heap, heap_free, heap_init, heap_pop, heap_push
from rdmodel._lru cimport NONE, Link, Recency, recency_init, recency_push, recency_remove, recency_touch
from rdmodel._tree cimport (
    LineTable,
    Stack,
    stack_distance,
    stack_free,
    stack_init,
    stack_touch,
    table_free,
    table_init,
    table_intern_many,
)

# What `run` returns. WANT_CHUNK, WANT_BLOCK: `subject` is the warp slot, the block slot.
DONE, WANT_CHUNK, WANT_LATENCIES, WANT_CHOICES, WANT_BLOCK = range(5)

cdef enum:
    C_DONE = 0
    C_CHUNK = 1
    C_LATENCIES = 2
    C_CHOICES = 3
    C_BLOCK = 4
    C_MEMORY = -1
    C_GO = -3         # run on

cdef enum:
    OP_LOAD = 0
    HISTORY = 64      # earlier memory instructions that a `needs` mask can name

# Line flags.
cdef enum:
    SEEN = 1          # a miss was issued for it on this SM
    IN_SHADOW = 2     # among the most recent lines of the fully associative shadow
    IN_SET = 4        # paper: d < ways; hardware: it owns a way
    IN_FLIGHT = 8

# Outcomes of one transaction.
cdef enum:
    SERVED = 0
    STALL_MSHR = 1
    STALL_WAYS = 2
    NO_MEMORY = 3

cdef enum:
    INDEX_LINEAR = 0
    INDEX_MODULO = 1

cdef enum:
    SCHED_RANDOM = 0
    SCHED_FIFO = 1
    SCHED_LRR = 2
    SCHED_GTO = 3
    SCHED_OLDEST = 4

cdef enum:
    STORES_FREE = 0
    STORES_STEP = 1
    STORES_EVICT = 2

# Where `run` takes up again.
cdef enum:
    AT_ARRIVALS = 0
    AT_BLOCKS = 1
    AT_ISSUE = 2
    AT_ADVANCE = 3
    AT_GO_ON = 4
    AT_EFFECTS = 5
    AT_STALLED = 6
    AT_CLOCK = 7


cdef struct Line:
    Link in_set
    Link in_shadow
    int64_t set
    int64_t due        # when the request in flight arrives
    int64_t pending    # requests in flight for it whose effect is outstanding
    int64_t merged     # transactions that share its MSHR
    int64_t owner      # warp slot that allocated the MSHR, and that warp's age: slots are used again
    int64_t owner_age
    int64_t flags


cdef struct Arrival:
    int64_t time
    int64_t order


cdef struct Warp:
    # Buffered instructions and the line ids of their transactions.
    uint8_t* op
    uint64_t* needs
    int32_t* gap
    int32_t* count
    int64_t* ids
    int64_t n, capacity, used, id_capacity
    int64_t at             # current instruction
    int64_t id_at          # its next transaction
    int64_t left           # transactions of it still to be tried; -1 = not begun
    bint more              # the stream may hold further instructions
    # What the warp has asked for.
    Arrival latest         # of the current instruction
    Arrival everything     # of all instructions
    Arrival ancient        # of those that `needs` can no longer name
    Arrival[64] history    # ring of the last memory instructions
    int64_t instructions
    # While it looks for its next instruction: what must have arrived, gaps to go, lines of stores that evict.
    Arrival key
    int64_t gap_left
    int64_t evict_from
    bint ending
    int64_t held           # MSHRs that it allocated
    int64_t age


cdef inline bint after(Arrival a, Arrival b) noexcept nogil:
    return a.time > b.time or (a.time == b.time and a.order > b.order)


cdef inline int64_t parity(uint64_t x) noexcept nogil:
    x ^= x >> 32
    x ^= x >> 16
    x ^= x >> 8
    x ^= x >> 4
    return <int64_t> ((<uint64_t> 0x6996 >> (x & 15)) & 1)


cdef inline int64_t modulo(int64_t a, int64_t b) noexcept nogil:
    cdef int64_t r = a % b
    return r + b if r < 0 else r


cdef class Core:
    """What both definitions share: lines, sets, shadow, distances, warps' buffers, counters."""

    cdef LineTable table
    cdef Line* line
    cdef int64_t* position          # of every line in its set's stack
    cdef int64_t known, line_capacity
    cdef Stack* stack
    cdef Recency* recency           # per set
    cdef Recency shadow
    cdef int64_t sets, ways, shadow_lines
    cdef bint track
    # The index function.
    cdef int64_t index_kind, modulus, factor, shift, fold_mask, index_bits
    cdef uint64_t[63] index_mask
    # Warps and blocks.
    cdef Warp* warp
    cdef int64_t slots, block_warps, warps
    cdef int64_t* alive             # warps of the slot's block still running
    cdef uint8_t* asks              # the slot's block has ended (or never was); a block is wanted
    cdef int64_t resident, started, asking
    cdef bint waves, filling
    cdef int64_t* ready
    cdef int64_t ready_size
    cdef int64_t* parked
    cdef int64_t parked_size
    cdef Heap events                # effects or fills
    cdef Heap waiting
    # MSHRs; -1 = unlimited.
    cdef int64_t mshrs, mshr_merge, mshr_per_warp, mshrs_used
    # Time and chance.
    cdef public int64_t now
    cdef public int64_t subject
    cdef int64_t order, lat_min, hit_latency
    cdef int64_t[::1] latency
    cdef int64_t latency_at
    cdef bint divergence
    cdef int64_t phase, current
    # Counters.
    cdef public int64_t transactions, hits, latency_misses, compulsory, capacity, associativity
    cdef public int64_t stalls_mshr, stalls_ways, bypassed
    cdef int64_t* distance_count
    cdef int64_t distance_capacity, distance_end
    cdef public int64_t infinite

    def __cinit__(self):
        self.line = NULL
        self.position = NULL
        self.stack = NULL
        self.recency = NULL
        self.warp = NULL
        self.alive = NULL
        self.asks = NULL
        self.ready = NULL
        self.parked = NULL
        self.distance_count = NULL
        heap_init(&self.events)
        heap_init(&self.waiting)
        if table_init(&self.table, 1024) < 0:
            raise MemoryError

    def __init__(
        self, *, int64_t sets, int64_t ways, index, int64_t mshrs, int64_t mshr_merge, int64_t mshr_per_warp,
        int64_t slots, int64_t block_warps, bint waves, int64_t lat_min, int64_t hit_latency, bint divergence,
        bint track,
    ):
        cdef int64_t i
        assert self.warp == NULL, "a core is set up once"
        self.sets = sets
        self.ways = ways
        self.shadow_lines = sets * ways
        self.track = track
        self._set_index(index)
        self.mshrs = mshrs
        self.mshr_merge = mshr_merge
        self.mshr_per_warp = mshr_per_warp
        self.slots = slots
        self.block_warps = block_warps
        self.warps = slots * block_warps
        self.waves = waves
        self.lat_min = lat_min
        self.hit_latency = hit_latency
        self.divergence = divergence
        self.recency = <Recency*> malloc(<size_t> sets * sizeof(Recency))
        self.warp = <Warp*> calloc(<size_t> self.warps, sizeof(Warp))
        self.alive = <int64_t*> calloc(<size_t> slots, sizeof(int64_t))
        self.asks = <uint8_t*> malloc(<size_t> slots)
        self.ready = <int64_t*> malloc(<size_t> self.warps * sizeof(int64_t))
        self.parked = <int64_t*> malloc(<size_t> self.warps * sizeof(int64_t))
        if not (self.recency and self.warp and self.alive and self.asks and self.ready and self.parked):
            raise MemoryError
        for i in range(sets):
            recency_init(&self.recency[i])
        recency_init(&self.shadow)
        memset(self.asks, 1, <size_t> slots)
        self.asking = slots
        self.filling = True
        self.current = NONE
        self.latency = array("q")
        if track:
            self.stack = <Stack*> calloc(<size_t> sets, sizeof(Stack))
            if self.stack == NULL:
                raise MemoryError
            for i in range(sets):
                if stack_init(&self.stack[i]) < 0:
                    raise MemoryError

    def _set_index(self, index):
        self.index_kind = index.kind
        self.modulus = index.modulus
        self.factor = index.factor
        self.shift = index.shift
        self.fold_mask = index.fold_mask
        self.index_bits = len(index.masks)
        for i, mask in enumerate(index.masks):
            self.index_mask[i] = mask

    def __dealloc__(self):
        cdef int64_t i
        if self.stack != NULL:
            for i in range(self.sets):
                stack_free(&self.stack[i])
        if self.warp != NULL:
            for i in range(self.warps):
                free(self.warp[i].op)
                free(self.warp[i].needs)
                free(self.warp[i].gap)
                free(self.warp[i].count)
                free(self.warp[i].ids)
        free(self.stack)
        free(self.warp)
        free(self.line)
        free(self.position)
        free(self.recency)
        free(self.alive)
        free(self.asks)
        free(self.ready)
        free(self.parked)
        free(self.distance_count)
        heap_free(&self.events)
        heap_free(&self.waiting)
        table_free(&self.table)

    # ---- what comes from outside

    def put_latencies(self, int64_t[::1] draws):
        """Take over the next latency draws; what is left of the last batch goes first, so pass it on."""
        self.latency = draws
        self.latency_at = 0

    def latencies_left(self):
        """Return how many draws of the current batch are unused."""
        return self.latency.shape[0] - self.latency_at

    def begin_block(self, int64_t slot):
        """Reset the warps of a block slot; `put_chunk` each warp until `primed`, then call `start_block`."""
        cdef int64_t i
        cdef Warp* w
        for i in range(slot * self.block_warps, (slot + 1) * self.block_warps):
            w = &self.warp[i]
            w.n = w.at = w.used = w.id_at = 0
            w.left = -1
            w.more = True
            w.latest = w.everything = w.ancient = Arrival(-1, -1)
            w.instructions = 0
            w.gap_left = 0
            w.held = 0
            w.ending = False
            w.evict_from = -1
            w.key = Arrival(-1, -1)
            w.age = self.started * self.block_warps + i - slot * self.block_warps
        self.asks[slot] = 0
        self.asking -= 1
        self.started += 1
        self.resident += 1

    def put_chunk(
        self, int64_t warp, const uint8_t[::1] op, const uint64_t[::1] needs, const int32_t[::1] gap,
        const int32_t[::1] count, const int64_t[::1] lines, int64_t n, int64_t used, bint more,
    ):
        """Append `n` instructions with `used` lines in all to a warp's buffer; `more`: further ones may follow."""
        assert 0 <= n <= op.shape[0] and 0 <= used <= lines.shape[0]
        if self._append(&self.warp[warp], op, needs, gap, count, lines, n, used) < 0:
            raise MemoryError
        self.warp[warp].more = more

    cdef int _append(
        self, Warp* w, const uint8_t[::1] op, const uint64_t[::1] needs, const int32_t[::1] gap,
        const int32_t[::1] count, const int64_t[::1] lines, int64_t n, int64_t used,
    ) except? -2 nogil:
        cdef int64_t first, before
        cdef int64_t kept = w.n - w.at
        first = w.evict_from if w.evict_from >= 0 else w.id_at
        if w.at > 0:
            memmove(w.op, w.op + w.at, <size_t> kept * sizeof(uint8_t))
            memmove(w.needs, w.needs + w.at, <size_t> kept * sizeof(uint64_t))
            memmove(w.gap, w.gap + w.at, <size_t> kept * sizeof(int32_t))
            memmove(w.count, w.count + w.at, <size_t> kept * sizeof(int32_t))
        if first > 0:
            memmove(w.ids, w.ids + first, <size_t> (w.used - first) * sizeof(int64_t))
        w.at = 0
        w.n = kept
        w.used -= first
        w.id_at -= first
        if w.evict_from >= 0:
            w.evict_from = 0
        if self._reserve(w, kept + n, w.used + used) < 0:
            return -1
        if n > 0:
            memcpy(w.op + kept, &op[0], <size_t> n * sizeof(uint8_t))
            memcpy(w.needs + kept, &needs[0], <size_t> n * sizeof(uint64_t))
            memcpy(w.gap + kept, &gap[0], <size_t> n * sizeof(int32_t))
            memcpy(w.count + kept, &count[0], <size_t> n * sizeof(int32_t))
        if used > 0:
            before = self.known
            if table_intern_many(&self.table, &lines[0], used, w.ids + w.used) < 0:
                return -1
            if self._meet(before, &lines[0], used, w.ids + w.used) < 0:
                return -1
        w.n += n
        w.used += used
        return 0

    cdef int _reserve(self, Warp* w, int64_t n, int64_t ids) except? -2 nogil:
        cdef int64_t capacity
        if n > w.capacity:
            capacity = n if n > 2 * w.capacity else 2 * w.capacity
            if (
                grow(<void**> &w.op, capacity, sizeof(uint8_t)) < 0
                or grow(<void**> &w.needs, capacity, sizeof(uint64_t)) < 0
                or grow(<void**> &w.gap, capacity, sizeof(int32_t)) < 0
                or grow(<void**> &w.count, capacity, sizeof(int32_t)) < 0
            ):
                return -1
            w.capacity = capacity
        if ids > w.id_capacity:
            capacity = ids if ids > 2 * w.id_capacity else 2 * w.id_capacity
            if grow(<void**> &w.ids, capacity, sizeof(int64_t)) < 0:
                return -1
            w.id_capacity = capacity
        return 0

    cdef int _meet(self, int64_t before, const int64_t* lines, int64_t used, const int64_t* ids) except? -2 nogil:
        """Set up the records of the lines that the table has just seen for the first time."""
        cdef int64_t i, id, capacity
        if self.table.count == before:
            return 0
        if self.table.count > self.line_capacity:
            capacity = 2 * self.table.count
            if grow(<void**> &self.line, capacity, sizeof(Line)) < 0:
                return -1
            if grow(<void**> &self.position, capacity, sizeof(int64_t)) < 0:
                return -1
            self.line_capacity = capacity
        for i in range(used):
            id = ids[i]
            if id == self.known:
                self.known += 1
                self.position[id] = -1
                self.line[id].flags = 0
                self.line[id].pending = 0
                self.line[id].due = -1
                self.line[id].set = self._set_of(lines[i])
        return 0

    cdef int64_t _set_of(self, int64_t line) noexcept nogil:
        cdef int64_t j, s = 0
        if self.index_kind == INDEX_LINEAR:
            for j in range(self.index_bits):
                s |= parity(<uint64_t> line & self.index_mask[j]) << j
            if self.modulus != 0:
                s ^= modulo((line >> self.shift) & self.fold_mask, self.modulus)
            return s
        if self.index_kind == INDEX_MODULO:
            return modulo(line, self.modulus)
        s = self.factor * modulo(line >> self.shift, self.modulus)
        return modulo(s + (line & ((<int64_t> 1 << self.shift) - 1)), self.modulus)

    def primed(self, int64_t warp):
        """Tell whether a warp's buffer shows how it begins: it holds a load, or all there is."""
        cdef Warp* w = &self.warp[warp]
        cdef int64_t i
        if not w.more:
            return True
        for i in range(w.at, w.n):
            if w.op[i] == OP_LOAD:
                return True
        return False

    def decline_block(self, int64_t slot):
        """Leave a block slot empty for good: there are no more blocks."""
        self.asks[slot] = 2
        self.asking -= 1

    def histogram(self):
        """Return the counts of finite distances as a list of (distance, count), ascending."""
        cdef int64_t d
        return [(d, self.distance_count[d]) for d in range(self.distance_end) if self.distance_count[d]]

    # ---- lines

    cdef int _observe(self, int64_t id) except? -2 nogil:
        """Count the distance that a transaction sees in its set's stack."""
        cdef int64_t d, capacity
        if self.position[id] < 0:
            self.infinite += 1
            return 0
        d = stack_distance(&self.stack[self.line[id].set], self.position[id])
        if d >= self.distance_capacity:
            capacity = 2 * d + 64
            if grow(<void**> &self.distance_count, capacity, sizeof(int64_t)) < 0:
                return -1
            memset(
                self.distance_count + self.distance_capacity, 0,
                <size_t> (capacity - self.distance_capacity) * sizeof(int64_t),
            )
            self.distance_capacity = capacity
        if d >= self.distance_end:
            self.distance_end = d + 1
        self.distance_count[d] += 1
        return 0

    cdef int _remember(self, int64_t id) except? -2 nogil:
        """Move a line to the top of the shadow and, if distances are tracked, of its set's stack."""
        cdef Line* l = &self.line[id]
        cdef int64_t old
        if l.flags & IN_SHADOW:
            recency_touch(&self.shadow, &self.line[0].in_shadow, id, sizeof(Line))
        else:
            if self.shadow.size == self.shadow_lines:
                old = self.shadow.oldest
                recency_remove(&self.shadow, &self.line[0].in_shadow, old, sizeof(Line))
                self.line[old].flags &= ~IN_SHADOW
            recency_push(&self.shadow, &self.line[0].in_shadow, id, sizeof(Line))
            l.flags |= IN_SHADOW
        if self.track:
            return stack_touch(&self.stack[l.set], id, self.position)
        return 0

    cdef void _count_miss(self, Line* l) noexcept nogil:
        if not l.flags & SEEN:
            self.compulsory += 1
        elif l.flags & IN_SHADOW:
            self.associativity += 1
        else:
            self.capacity += 1
        l.flags |= SEEN

    cdef bint _mshr_free(self, Warp* w) noexcept nogil:
        if self.mshrs >= 0 and self.mshrs_used >= self.mshrs:
            return False
        return self.mshr_per_warp < 0 or w.held < self.mshr_per_warp

    cdef int64_t _draw(self) noexcept nogil:
        self.latency_at += 1
        return self.latency[self.latency_at - 1]

    cdef bint _draws_suffice(self, int64_t wanted) noexcept nogil:
        return self.latency_at + wanted <= self.latency.shape[0]

    cdef void _end_warp(self, int64_t warp) noexcept nogil:
        cdef int64_t slot = warp // self.block_warps
        self.alive[slot] -= 1
        if self.alive[slot] == 0:
            self._end_block(slot)

    cdef void _end_block(self, int64_t slot) noexcept nogil:
        self.resident -= 1
        self.asks[slot] = 1
        self.asking += 1

    cdef bint _wants_block(self) noexcept nogil:
        """Point `subject` at the next slot that asks for a block; in waves all blocks must have ended first."""
        cdef int64_t slot
        if self.asking == 0:
            self.filling = False
            return False
        if self.waves and self.resident == 0:
            self.filling = True
        if self.waves and not self.filling:
            return False
        for slot in range(self.slots):
            if self.asks[slot] == 1:
                self.subject = slot
                return True
        return False

    cdef bint _starved(self, Warp* w) noexcept nogil:
        return w.at == w.n and w.more

    cdef void _make_ready(self, int64_t warp) noexcept nogil:
        self.ready[self.ready_size] = warp
        self.ready_size += 1

    cdef int64_t _take_ready(self, int64_t index) noexcept nogil:
        """Remove one warp from the ready list; the others keep their order."""
        cdef int64_t warp = self.ready[index]
        self.ready_size -= 1
        memmove(
            self.ready + index, self.ready + index + 1, <size_t> (self.ready_size - index) * sizeof(int64_t)
        )
        return warp

    cdef void _unpark(self) noexcept nogil:
        cdef int64_t i
        for i in range(self.parked_size):
            self._make_ready(self.parked[i])
        self.parked_size = 0

    cdef int64_t _next_event(self) noexcept nogil:
        """Return when the next effect, fill or arrival is due, or -1 if none is."""
        cdef int64_t time = -1
        if self.events.size > 0:
            time = self.events.item[0].time
        if self.waiting.size > 0 and (time < 0 or self.waiting.item[0].time < time):
            time = self.waiting.item[0].time
        return time

    def run(self):
        """Run on; return why it stopped: DONE, or what it wants (`subject` says for whom)."""
        cdef int code
        with nogil:
            code = self._run()
        if code == C_MEMORY:
            raise MemoryError
        return code

    cdef int _run(self) except? -2 nogil:
        return C_DONE


cdef int grow(void** array, int64_t count, size_t size) noexcept nogil:
    cdef void* grown = realloc(array[0], <size_t> count * size)
    if grown == NULL:
        return -1
    array[0] = grown
    return 0


@cython.final
cdef class PaperCore(Core):
    """The definition `paper`: effects move lines, a step is an instruction (docs/model.md sections 4 to 6)."""

    cdef bint before, clip, freed

    def __init__(self, *, bint before, bint clip, **common):
        super().__init__(**common)
        self.before = before
        self.clip = clip
        self.phase = AT_EFFECTS if before else AT_ISSUE

    def start_block(self, int64_t slot):
        """Let the warps of a primed block join the back of the queue; an empty one ends at once."""
        cdef int64_t i
        self.alive[slot] = 0
        for i in range(slot * self.block_warps, (slot + 1) * self.block_warps):
            if self.warp[i].n > 0:
                self.alive[slot] += 1
                self._make_ready(i)
        if self.alive[slot] == 0:
            self._end_block(slot)

    cdef int _run(self) except? -2 nogil:
        cdef int code
        while True:
            if self._wants_block():
                return C_BLOCK
            if self.phase == AT_ISSUE:
                code = self._issue_step()
            elif self.phase == AT_ADVANCE:
                self.phase = AT_GO_ON if self.before else AT_EFFECTS
                code = C_CHUNK if self._starved(&self.warp[self.current]) else C_GO
                if code == C_CHUNK:
                    self.subject = self.current
                    self.phase = AT_ADVANCE
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

    cdef int _tick(self) except? -2 nogil:
        if self.ready_size > 0 or self.before and self.waiting.size + self.parked_size > 0:
            self.now += 1
            self.phase = AT_EFFECTS if self.before else AT_ISSUE
            return C_GO
        return self._leap()

    cdef int _leap(self) except? -2 nogil:
        """Jump to the next effect or arrival: no warp is ready."""
        if self.waiting.size == 0 and self.parked_size == 0:
            return C_DONE
        self.now = self._next_event()
        self.phase = AT_EFFECTS
        return C_GO

    cdef int _issue_step(self) except? -2 nogil:
        cdef int64_t warp
        cdef int outcome
        cdef Warp* w
        if self.ready_size == 0:
            return self._leap()
        w = &self.warp[self.ready[0]]
        if not self._draws_suffice(w.count[w.at] if w.left < 0 else w.left):
            return C_LATENCIES
        warp = self._take_ready(0)
        outcome = self._issue(warp)
        self.phase = AT_GO_ON if self.before else AT_EFFECTS
        if outcome == NO_MEMORY:
            return C_MEMORY
        if outcome == STALL_MSHR:
            self.stalls_mshr += 1
            if self.divergence:
                self.parked[self.parked_size] = warp
                self.parked_size += 1
            else:
                self.current = warp
            return C_GO
        self.current = warp
        w.at += 1
        w.left = -1
        self.phase = AT_ADVANCE
        return C_GO

    cdef int _issue(self, int64_t warp) except? -2 nogil:
        """Let the instruction's remaining transactions look, in order, until one stalls."""
        cdef Warp* w = &self.warp[warp]
        cdef int outcome
        if w.left < 0:
            w.left = w.count[w.at]
            w.latest = Arrival(-1, -1)
        while w.left > 0:
            outcome = self._access(w.ids[w.id_at], warp)
            if outcome != SERVED:
                return outcome
            w.id_at += 1
            w.left -= 1
        return SERVED

    cdef int _access(self, int64_t id, int64_t warp) except? -2 nogil:
        cdef Line* l = &self.line[id]
        cdef Warp* w = &self.warp[warp]
        cdef Event effect
        effect.warp = NONE
        if l.flags & IN_SET:
            self.hits += 1
            effect.time = self.now + self.hit_latency
        elif l.flags & IN_FLIGHT:
            if self.mshr_merge >= 0 and l.merged >= self.mshr_merge:
                return STALL_MSHR
            self.latency_misses += 1
            effect.time = l.due if self.clip else self.now + self.lat_min + self._draw()
            effect.warp = l.owner
            l.pending += 1
            l.merged += 1
        else:
            if not self._mshr_free(w):
                return STALL_MSHR
            self._count_miss(l)
            effect.time = l.due = self.now + self.lat_min + self._draw()
            effect.warp = l.owner = warp
            l.owner_age = w.age
            l.pending = l.merged = 1
            l.flags |= IN_FLIGHT
            self.mshrs_used += 1
            w.held += 1
        if self.track and self._observe(id) < 0:
            return NO_MEMORY
        effect.order = self.order
        effect.what = id
        self.order += 1
        self.transactions += 1
        if after(Arrival(effect.time, effect.order), w.latest):
            w.latest = Arrival(effect.time, effect.order)
        return NO_MEMORY if heap_push(&self.events, effect) < 0 else SERVED

    cdef int _apply_effects(self) except? -2 nogil:
        cdef Event effect
        cdef Line* l
        while self.events.size > 0 and self.events.item[0].time <= self.now:
            effect = heap_pop(&self.events)
            l = &self.line[effect.what]
            if self._remember(effect.what) < 0:
                return C_MEMORY
            self._raise_in_set(effect.what)
            if effect.warp != NONE:
                l.pending -= 1
                if l.pending == 0:
                    l.flags &= ~IN_FLIGHT
                    self.mshrs_used -= 1
                    self.freed = True
                    if self.warp[l.owner].age == l.owner_age:
                        self.warp[l.owner].held -= 1
        return C_GO

    cdef void _raise_in_set(self, int64_t id) noexcept nogil:
        """Move a line to the top of the `ways` most recent lines of its set: those with d < ways."""
        cdef Line* l = &self.line[id]
        cdef Recency* r = &self.recency[l.set]
        cdef int64_t old
        if l.flags & IN_SET:
            recency_touch(r, &self.line[0].in_set, id, sizeof(Line))
            return
        if r.size == self.ways:
            old = r.oldest
            recency_remove(r, &self.line[0].in_set, old, sizeof(Line))
            self.line[old].flags &= ~IN_SET
        recency_push(r, &self.line[0].in_set, id, sizeof(Line))
        l.flags |= IN_SET

    cdef int _go_on_or_wait(self) except? -2 nogil:
        cdef int64_t warp = self.current
        cdef Event arrival
        self.current = NONE
        if warp == NONE:
            return C_GO
        arrival = Event(self.warp[warp].latest.time, self.warp[warp].latest.order, warp, warp)
        if self.divergence and arrival.time > self.now:
            return C_MEMORY if heap_push(&self.waiting, arrival) < 0 else C_GO
        self._go_on(warp)
        return C_GO

    cdef void _go_on(self, int64_t warp) noexcept nogil:
        if self.warp[warp].at < self.warp[warp].n:
            self._make_ready(warp)
        else:
            self._end_warp(warp)

    cdef int _admit_arrival(self) except? -2 nogil:
        """Let one arrived warp go on: one at a time, because a block that ends with it gives way right then."""
        if self.waiting.size > 0 and self.waiting.item[0].time <= self.now:
            self._go_on(heap_pop(&self.waiting).what)
        else:
            self.phase = AT_STALLED
        return C_GO


@cython.final
cdef class HardwareCore(Core):
    """The definition `hardware`: lines are allocated at issue, a step is a transaction (docs/model.md section 11)."""

    cdef int64_t sched, stores, stagger, port, last, last_age, last_order
    cdef bint head, bypass, whole, gaps, filled, port_waits
    cdef double first_touch_factor
    cdef double[::1] choice
    cdef int64_t choice_at

    def __init__(
        self, *, int64_t sched, int64_t stores, int64_t stagger, bint head, bint bypass, bint whole, bint gaps,
        double first_touch_factor, **common,
    ):
        super().__init__(**common)
        self.sched = sched if self.divergence else SCHED_FIFO
        self.stores = stores
        self.stagger = stagger
        self.head = head
        self.bypass = bypass
        self.whole = whole
        self.gaps = gaps
        self.first_touch_factor = first_touch_factor
        self.choice = array("d")
        self.port = NONE
        self.last = NONE
        self.last_order = -1
        self.phase = AT_BLOCKS

    def put_choices(self, double[::1] draws):
        """Take over the next warp-choice draws; only called when the last batch is used up."""
        self.choice = draws
        self.choice_at = 0

    def start_block(self, int64_t slot):
        """Start the warps of a primed block: they join the ready list, wait for their stagger, or end at once."""
        cdef int64_t i, first = slot * self.block_warps
        cdef int64_t order = self.started - 1
        cdef Event turn
        cdef bint late = self.stagger > 0 and order > 0 and self.now == 0
        self.alive[slot] = self.block_warps
        for i in range(first, first + self.block_warps):
            if not self._look_ahead(i):
                raise RuntimeError("a warp was started before it was primed")
            if self.warp[i].ending:
                self._act_on_stores(&self.warp[i])
                self.alive[slot] -= 1
            elif late:
                # Before anything that was issued: real orders are not negative.
                turn = Event(order * self.stagger, self.warp[i].age - (<int64_t> 1 << 62), i, i)
                if heap_push(&self.waiting, turn) < 0:
                    raise MemoryError
            else:
                self._join(i)
        if self.alive[slot] == 0:
            self._end_block(slot)

    cdef int _run(self) except? -2 nogil:
        cdef int code
        while True:
            if self.phase == AT_EFFECTS:
                code = self._apply_fills()
            elif self.phase == AT_ARRIVALS:
                code = self._admit_arrivals()
            elif self.phase == AT_BLOCKS:
                code = C_BLOCK if self._wants_block() else C_GO
                if code == C_GO:
                    self.phase = AT_ISSUE
            elif self.phase == AT_ISSUE:
                code = self._issue_step()
            elif self.phase == AT_ADVANCE:
                code = self._advance()
            else:
                self.now += 1
                self.phase = AT_EFFECTS
                code = C_GO
            if code != C_GO:
                return code

    cdef int _apply_fills(self) except? -2 nogil:
        cdef Line* l
        cdef Event fill
        self.filled = False
        while self.events.size > 0 and self.events.item[0].time <= self.now:
            fill = heap_pop(&self.events)
            l = &self.line[fill.what]
            l.flags &= ~IN_FLIGHT
            self.mshrs_used -= 1
            self.warp[fill.warp].held -= 1
            self.filled = True
        if self.filled:
            self._unpark()
        self.phase = AT_ARRIVALS
        return C_GO

    cdef int _admit_arrivals(self) except? -2 nogil:
        cdef int64_t warp
        while self.waiting.size > 0 and self.waiting.item[0].time <= self.now:
            warp = heap_pop(&self.waiting).what
            if self.warp[warp].ending:
                self._act_on_stores(&self.warp[warp])
                self._end_warp(warp)
            else:
                self._join(warp)
        self.phase = AT_BLOCKS
        return C_GO

    cdef void _join(self, int64_t warp) noexcept nogil:
        self._act_on_stores(&self.warp[warp])
        self._make_ready(warp)

    cdef void _act_on_stores(self, Warp* w) noexcept nogil:
        """Let the evicting stores act that a warp has passed since its last instruction."""
        cdef int64_t i
        if w.evict_from >= 0:
            for i in range(w.evict_from, w.id_at):
                self._evict(w.ids[i])
            w.evict_from = -1

    cdef void _evict(self, int64_t id) noexcept nogil:
        cdef Line* l = &self.line[id]
        if l.flags & IN_SET and not l.flags & IN_FLIGHT:
            recency_remove(&self.recency[l.set], &self.line[0].in_set, id, sizeof(Line))
            l.flags &= ~IN_SET

    cdef int _issue_step(self) except? -2 nogil:
        cdef int64_t wanted
        cdef Warp* w
        if self.port != NONE and self.port_waits:
            if not self.filled:
                return self._leap()
            self.port_waits = False
        if self.port == NONE:
            if self.ready_size == 0:
                return self._leap()
            if self.sched == SCHED_RANDOM and self.choice_at == self.choice.shape[0]:
                return C_CHOICES
            # Draws are asked for before the choice is made: a step that has begun is not interrupted.
            if not self._draws_suffice(self._most_transactions()):
                return C_LATENCIES
            self.port = self._take_ready(self._choose())
            w = &self.warp[self.port]
            self.last = self.port
            self.last_age = w.age
            if w.gap_left > 0:
                w.gap_left -= 1
                w.key = Arrival(self.now, self._next_order())
                return self._wait_for_turn(w)
        elif not self._draws_suffice(self._most_transactions()):
            return C_LATENCIES
        self.phase = AT_CLOCK
        return self._use_port()

    cdef int64_t _most_transactions(self) noexcept nogil:
        """Return an upper bound on the draws that the next step may use."""
        cdef int64_t i, most = 1
        if self.whole:
            if self.port != NONE:
                return self.warp[self.port].count[self.warp[self.port].at]
            for i in range(self.ready_size):
                if self.warp[self.ready[i]].count[self.warp[self.ready[i]].at] > most:
                    most = self.warp[self.ready[i]].count[self.warp[self.ready[i]].at]
        return most

    cdef int _wait_for_turn(self, Warp* w) except? -2 nogil:
        """Send the warp at the port to wait until its key; it re-joins in a later step."""
        cdef Event turn = Event(w.key.time, w.key.order, self.port, self.port)
        self.port = NONE
        self.phase = AT_CLOCK
        return C_MEMORY if heap_push(&self.waiting, turn) < 0 else C_GO

    cdef int _use_port(self) except? -2 nogil:
        """Let the instruction at the port try its next transaction, or all that are left."""
        cdef Warp* w = &self.warp[self.port]
        cdef int outcome
        if w.left < 0:
            w.left = w.count[w.at] if w.op[w.at] == OP_LOAD else 0
            w.latest = Arrival(-1, -1)
        while w.left > 0:
            outcome = self._access(w.ids[w.id_at], self.port)
            if outcome == NO_MEMORY:
                return C_MEMORY
            if outcome != SERVED:
                self._stall(outcome)
                return C_GO
            w.id_at += 1
            w.left -= 1
            if not self.whole:
                break
        if w.left == 0:
            if w.op[w.at] != OP_LOAD:
                w.id_at += w.count[w.at]
            self._record(w, w.latest)
            w.left = -1
            w.key = Arrival(-1, -1)
            self.phase = AT_ADVANCE
        return C_GO

    cdef void _stall(self, int outcome) noexcept nogil:
        if outcome == STALL_MSHR:
            self.stalls_mshr += 1
        else:
            self.stalls_ways += 1
        if self.head:
            self.port_waits = True
        else:
            self.parked[self.parked_size] = self.port
            self.parked_size += 1
            self.port = NONE

    cdef void _record(self, Warp* w, Arrival arrival) noexcept nogil:
        """Step past the current instruction and remember when its data arrive."""
        cdef int64_t at = w.instructions % HISTORY
        if w.instructions >= HISTORY and after(w.history[at], w.ancient):
            w.ancient = w.history[at]
        w.history[at] = arrival
        if after(arrival, w.everything):
            w.everything = arrival
        w.instructions += 1
        w.at += 1

    cdef int _advance(self) except? -2 nogil:
        cdef Warp* w = &self.warp[self.port]
        if not self._look_ahead(self.port):
            self.subject = self.port
            return C_CHUNK
        if w.ending:
            w.key = w.everything
        if w.key.time < 0 or not self.divergence and not w.ending:
            w.key = Arrival(self.now, self.last_order)
        return self._wait_for_turn(w)

    cdef bint _look_ahead(self, int64_t warp) noexcept nogil:
        """Pass stores that use no step and gather what the next instruction needs; False: more must be read."""
        cdef Warp* w = &self.warp[warp]
        while w.at < w.n:
            self._gather_needs(w)
            if self.gaps:
                w.gap_left += w.gap[w.at]
            if w.op[w.at] == OP_LOAD or self.stores == STORES_STEP:
                return True
            if self.stores == STORES_EVICT and w.evict_from < 0:
                w.evict_from = w.id_at
            w.id_at += w.count[w.at]
            self._record(w, Arrival(-1, -1))
        w.ending = not w.more
        return w.ending

    cdef void _gather_needs(self, Warp* w) noexcept nogil:
        cdef uint64_t needs = w.needs[w.at]
        cdef int64_t i = 0
        if after(w.ancient, w.key):
            w.key = w.ancient
        if needs == <uint64_t> -1:
            if after(w.everything, w.key):
                w.key = w.everything
            return
        while needs != 0 and i < w.instructions:
            if needs & 1 and after(w.history[(w.instructions - 1 - i) % HISTORY], w.key):
                w.key = w.history[(w.instructions - 1 - i) % HISTORY]
            needs >>= 1
            i += 1

    cdef int64_t _next_order(self) noexcept nogil:
        self.last_order = self.order
        self.order += 1
        return self.last_order

    cdef int _leap(self) except? -2 nogil:
        """Jump to the next fill or arrival: there is nothing to issue."""
        cdef int64_t time = self._next_event()
        if time < 0 or (self.waiting.size == 0 and self.parked_size == 0 and self.port == NONE):
            return C_DONE
        self.now = time
        self.phase = AT_EFFECTS
        return C_GO

    cdef int64_t _choose(self) noexcept nogil:
        """Return the index in the ready list of the warp to issue."""
        cdef int64_t i, best = 0
        if self.sched == SCHED_RANDOM:
            self.choice_at += 1
            return <int64_t> (self.choice[self.choice_at - 1] * <double> self.ready_size)
        if self.sched == SCHED_FIFO:
            return 0
        for i in range(self.ready_size):
            # The slot of the last issuer may have passed to another warp: the age tells.
            if self.sched == SCHED_GTO and self.ready[i] == self.last and self.warp[self.last].age == self.last_age:
                return i
            if self.sched == SCHED_LRR:
                if self._turn(self.ready[i]) < self._turn(self.ready[best]):
                    best = i
            elif self.warp[self.ready[i]].age < self.warp[self.ready[best]].age:
                best = i
        return best

    cdef int64_t _turn(self, int64_t warp) noexcept nogil:
        """Return how many warp slots after the last issuer a warp comes in the cycle."""
        return (warp - self.last - 1 + self.warps) % self.warps

    cdef int _access(self, int64_t id, int64_t warp) except? -2 nogil:
        cdef Line* l = &self.line[id]
        cdef Warp* w = &self.warp[warp]
        cdef int64_t arrival = self.now + self.hit_latency
        cdef int outcome
        if l.flags & IN_FLIGHT:
            if self.mshr_merge >= 0 and l.merged >= self.mshr_merge:
                return STALL_MSHR
            l.merged += 1
            self.latency_misses += 1
            if l.due > arrival:
                arrival = l.due
        elif l.flags & IN_SET:
            self.hits += 1
        else:
            outcome = self._miss(id, warp)
            if outcome != SERVED:
                return outcome
            arrival = l.due
        if self.track and self._observe(id) < 0:
            return NO_MEMORY
        if self._remember(id) < 0:
            return NO_MEMORY
        if l.flags & IN_SET:
            recency_touch(&self.recency[l.set], &self.line[0].in_set, id, sizeof(Line))
        self._next_order()
        self.transactions += 1
        if after(Arrival(arrival, self.last_order), w.latest):
            w.latest = Arrival(arrival, self.last_order)
        return SERVED

    cdef int _miss(self, int64_t id, int64_t warp) except? -2 nogil:
        cdef Line* l = &self.line[id]
        cdef int64_t latency
        cdef bint first = not l.flags & SEEN
        if not self._mshr_free(&self.warp[warp]):
            return STALL_MSHR
        if self._allocate(id):
            l.flags |= IN_SET
        elif self.bypass:
            self.bypassed += 1
        else:
            return STALL_WAYS
        self._count_miss(l)
        latency = self.lat_min + self._draw()
        if first and self.first_touch_factor != 1.0:
            latency = <int64_t> (self.first_touch_factor * <double> latency + 0.5)
        l.due = self.now + latency
        l.merged = 1
        l.flags |= IN_FLIGHT
        self.mshrs_used += 1
        self.warp[warp].held += 1
        return NO_MEMORY if heap_push(&self.events, Event(l.due, self.order, id, warp)) < 0 else SERVED

    cdef bint _allocate(self, int64_t id) noexcept nogil:
        """Take an empty way, or that of the least recently used line that is not in flight; False if there is none."""
        cdef Recency* r = &self.recency[self.line[id].set]
        cdef int64_t victim
        if r.size == self.ways:
            victim = r.oldest
            while victim != NONE and self.line[victim].flags & IN_FLIGHT:
                victim = self.line[victim].in_set.newer
            if victim == NONE:
                return False
            recency_remove(r, &self.line[0].in_set, victim, sizeof(Line))
            self.line[victim].flags &= ~IN_SET
        recency_push(r, &self.line[0].in_set, id, sizeof(Line))
        return True
