# _core.pxd declares the fields of a core. A core runs until it needs a warp's instructions, random numbers or a block;
# then `run` returns the request, the caller serves it, and calls `run` again. rdmodel.model.predict validates all
# arguments, and rdmodel.model.sm drives the cores.
"""Implement the parts that both definitions of the model share: `Core`, one object per SM."""

from array import array

import numpy as np

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from rdmodel._tree cimport LineTable, stack_free, stack_init, table_free, table_init, table_intern_many
from rdmodel.model._tally cimport (
    Recent,
    Tally,
    origins_codes,
    origins_free,
    origins_init,
)
from rdmodel.model._warp cimport (
    EARLY,
    LATE,
    warp_append,
    warp_begin,
    warp_free,
    warp_make_room,
    warp_primed,
)
from rdmodel.structures._calendar cimport calendar_free, calendar_init
from rdmodel.structures._index cimport INDEX_CALL, index_read, set_of
from rdmodel.structures._lru cimport NONE, recency_init
from rdmodel.structures._pool cimport pool_init
from rdmodel.structures._memory cimport grow

DONE = C_DONE
WANT_CHUNK = C_CHUNK
WANT_LATENCIES = C_LATENCIES
WANT_CHOICES = C_CHOICES
WANT_BLOCK = C_BLOCK
WANT_LOG = C_LOG


cdef class Core:
    """Base of `PaperCore` and `HardwareCore`, which run one SM."""

    def __cinit__(self):
        # All other pointers begin as NULL.
        calendar_init(&self.events)
        calendar_init(&self.waiting)
        if table_init(&self.table, 1024) < 0:
            raise MemoryError

    def __init__(
        self, *, int64_t sets, int64_t ways, index, int64_t mshrs, int64_t mshr_merge, int64_t mshr_per_warp,
        int64_t slots, int64_t block_warps, bint waves, int64_t lat_min, int64_t hit_latency, bint divergence,
        bint track, int64_t log_full, bint sectored, int64_t pool=0, int64_t pools=1, int64_t protected=0,
    ):
        assert self.warp == NULL, "a core is set up once"
        index_read(&self.index, index)
        self.index_code = index
        self.sets = sets
        self.ways = ways
        self.shadow_lines = pool if pool else sets * ways
        self.protected = protected
        pool_init(&self.pool, pool, pools, sets)
        self.mshrs = mshrs
        self.mshr_merge = mshr_merge
        self.mshr_per_warp = mshr_per_warp
        self.slots = self.asking = slots
        self.block_warps = block_warps
        self.warps = slots * block_warps
        self.waves = waves
        self.filling = True
        self.lat_min = lat_min
        self.hit_latency = hit_latency
        self.latency = array("q")
        self.divergence = divergence
        self.listed = True
        self.track = track
        self.sectored = sectored
        self.unused = NONE
        self.logs = log_full > 0
        self.log_full = log_full if self.logs else INT64_MAX
        self._allocate_warps()
        self._allocate_sets()

    def _allocate_warps(self):
        self.warp = <Warp*> calloc(<size_t> self.warps, sizeof(Warp))
        self.alive = <int64_t*> calloc(<size_t> self.slots, sizeof(int64_t))
        self.standing = <int64_t*> calloc(<size_t> self.slots, sizeof(int64_t))
        self.state = <uint8_t*> malloc(<size_t> self.slots)
        self.ready = self.ready_room = <int32_t*> malloc(<size_t> (2 * self.warps) * sizeof(int32_t))
        self.ready_bits = <uint64_t*> calloc(<size_t> (self.warps + 63 >> 6), sizeof(uint64_t))
        self.parked = <int64_t*> malloc(<size_t> self.warps * sizeof(int64_t))
        if not (self.warp and self.alive and self.standing and self.state):
            raise MemoryError
        if not (self.ready_room and self.ready_bits and self.parked):
            raise MemoryError
        memset(self.state, ASKING, <size_t> self.slots)

    def _allocate_sets(self):
        cdef int64_t i
        self.recency = <Recency*> malloc(<size_t> self.sets * sizeof(Recency))
        if self.recency == NULL:
            raise MemoryError
        for i in range(self.sets):
            recency_init(&self.recency[i])
        recency_init(&self.shadow)
        if self.track:
            self.stack = <Stack*> calloc(<size_t> self.sets, sizeof(Stack))
            if self.stack == NULL:
                raise MemoryError
            for i in range(self.sets):
                if stack_init(&self.stack[i]) < 0:
                    raise MemoryError

    def __dealloc__(self):
        cdef int64_t i
        if self.stack != NULL:
            for i in range(self.sets):
                stack_free(&self.stack[i])
        if self.warp != NULL:
            for i in range(self.warps):
                warp_free(&self.warp[i])
        free(self.stack)
        free(self.warp)
        free(self.line)
        free(self.flight)
        free(self.position)
        free(self.flying)
        free(self.number)
        free(self.log)
        free(self.recency)
        free(self.alive)
        free(self.standing)
        free(self.state)
        free(self.ready_room)
        free(self.ready_bits)
        free(self.parked)
        free(self.distance_count)
        origins_free(&self.origins)
        calendar_free(&self.events)
        calendar_free(&self.waiting)
        table_free(&self.table)

    # ---- service of requests

    def put_latencies(self, int64_t[::1] draws):
        """Replace the latency draws; `draws` must begin with the unused ones of the last batch."""
        self.latency = draws
        self.latency_at = 0

    def latencies_left(self):
        """Return the number of unused draws of the current batch."""
        return self.latency.shape[0] - self.latency_at

    def begin_block(self, int64_t slot):
        """Reset the warps of a block slot; next, `prime` it, then `start_block`."""
        cdef int64_t i, first = slot * self.block_warps
        for i in range(self.block_warps):
            warp_begin(&self.warp[first + i], self.started * self.block_warps + i)
        self.state[slot] = OCCUPIED
        self.asking -= 1
        self.started += 1
        self.resident += 1

    def decline_block(self, int64_t slot):
        """Leave a block slot empty for good: there are no more blocks."""
        self.state[slot] = CLOSED
        self.asking -= 1

    def decline_blocks(self):
        """Leave all block slots empty that are free or will be, and request no more blocks."""
        cdef int64_t slot
        for slot in range(self.slots):
            if self.state[slot] == ASKING:
                self.state[slot] = CLOSED
        self.asking = 0
        self.closed = True

    def put_chunk(self, int64_t warp, ChunkBuffers chunk not None, bint more):
        """Append the instructions of a chunk to a warp's buffer; `more`: more may follow.

        A sectored core reads the masks of sectors in the chunk, and a core that tallies its pcs.
        """
        self._put_chunk(warp, chunk, more)

    cdef int _put_chunk(self, int64_t warp, ChunkBuffers chunk, bint more) except -1:
        cdef Warp* w = &self.warp[warp]
        cdef int64_t* ids
        cdef int64_t i, n = chunk.n, used = chunk.used
        cdef bint failed
        assert 0 <= warp < self.warps
        assert 0 <= n <= chunk._op.shape[0] and 0 <= used <= chunk._lines.shape[0]
        assert not self.sectored or used <= chunk._masks.shape[0]
        assert not self.tallies or n <= chunk._pc.shape[0]
        if warp_make_room(w, n, used, self.sectored, self.tallies) < 0:
            raise MemoryError
        if self.parts and n > 0:
            memcpy(w.codes + w.n, &chunk._pc[0], <size_t> n * sizeof(int32_t))
        elif self.tallies and n > 0 and origins_codes(&self.origins, &chunk._pc[0], n, w.codes + w.n) < 0:
            raise MemoryError
        if n > 0:
            warp_append(w, &chunk._op[0], &chunk._count[0], &chunk._needs[0], &chunk._gap[0], n)
        if used > 0:
            ids = w.ids + w.used
            with nogil:
                failed = (
                    table_intern_many(&self.table, &chunk._lines[0], used, ids) < 0
                    or self._add_lines(&chunk._lines[0], used, ids) < 0
                )
            if failed:
                raise MemoryError
            if self.index.kind == INDEX_CALL:
                self.index_code.call.check()
            if self.sectored:
                for i in range(used):
                    w.masks[w.used + i] = chunk._masks[i]
                if chunk._full.shape[0] > 0:
                    for i in range(used):
                        w.masks[w.used + i] |= <uint64_t> chunk._full[i] << 32
            w.used += used
        w.more = more
        return 0

    def run_fed(self, list streams not None, ChunkBuffers chunk not None, int64_t[::1] fed, const int64_t[::1] stops):
        """Run on as `run` does, but serve requests for chunks from ``streams[warp]``; return DONE or another request.

        ``fed[slot]`` counts these requests of the warps of a block slot. One at which it reaches ``stops[slot]`` is
        returned and not served. ``fed[slots + warp]`` counts the requests of each warp.
        """
        cdef int code
        cdef int64_t slot, warp
        assert fed.shape[0] == self.slots + self.warps and stops.shape[0] == self.slots
        while True:
            code = self.run()
            if code != C_CHUNK:
                return code
            warp = self.subject
            slot = warp // self.block_warps
            fed[slot] += 1
            fed[self.slots + warp] += 1
            if fed[slot] == stops[slot]:
                return code
            self._feed(warp, <StreamBuffers?> streams[warp], chunk)

    def prime(self, int64_t slot, list streams not None, ChunkBuffers chunk not None):
        """Read chunks from ``streams[warp]`` for each warp of a block slot until its buffer shows how it begins.

        It does if it has a load, or all instructions of the warp.
        """
        cdef int64_t warp
        cdef StreamBuffers stream
        for warp in range(slot * self.block_warps, (slot + 1) * self.block_warps):
            stream = <StreamBuffers?> streams[warp]
            self._feed(warp, stream, chunk)
            while not warp_primed(&self.warp[warp]):
                self._feed(warp, stream, chunk)

    cdef int _feed(self, int64_t warp, StreamBuffers stream, ChunkBuffers chunk) except -1:
        """Read the next chunk of a warp, and count the seconds that this takes."""
        cdef bint more = stream.refill_timed(chunk, &self.fed_seconds)
        return self._put_chunk(warp, chunk, more)

    # ---- origins

    def tally_by(self, const int64_t[::1] first, const int64_t[::1] end, int64_t shift):
        """Count by origin from now on; call it before the first block.

        An origin is an instruction and a place. Place i is array i, whose lines are those from ``first[i]`` up to
        ``end[i]``; arrays must be ascending and must not overlap. Of n arrays, place ``n + p`` has the other lines
        whose number, divided by ``1 << shift``, is p.
        """
        cdef int64_t n = first.shape[0]
        assert end.shape[0] == n and not self.tallies and self.known == 0 and 0 <= shift < 63
        if origins_init(&self.origins) < 0:
            raise MemoryError
        if n > 0:
            if (
                grow(<void**> &self.origins.first, n, sizeof(int64_t)) < 0
                or grow(<void**> &self.origins.end, n, sizeof(int64_t)) < 0
            ):
                raise MemoryError
            memcpy(self.origins.first, &first[0], <size_t> n * sizeof(int64_t))
            memcpy(self.origins.end, &end[0], <size_t> n * sizeof(int64_t))
        self.origins.arrays = n
        self.origins.shift = shift
        self.tallies = True

    def tally_parts(self):
        """Count the early and the late part of the run apart from now on; call it before the first block.

        The pc of each instruction is the number of its part, 0 or 1.
        """
        cdef int32_t[2] part = [EARLY, LATE], code
        self.tally_by(array("q"), array("q"), 62)
        if origins_codes(&self.origins, part, 2, code) < 0:
            raise MemoryError
        assert code[EARLY] == EARLY and code[LATE] == LATE
        self.parts = True

    def part_counts(self, int part):
        """Return the counters of a part of the run so far, by the names of the fields of `Tally`."""
        cdef const Recent* recent
        cdef Tally counts
        assert self.parts and 0 <= part <= LATE
        self._end_group()
        recent = &self.origins.recent[part]
        memset(&counts, 0, sizeof(Tally))
        # All lines are in one place, so that a part has one group, or none yet.
        if recent.place >= 0:
            counts = self.origins.tally[recent.group]
        return counts

    def tallied(self):
        """Return the counters by origin so far: pc and place of each, int64, and a row of the fields of `Tally` each, int64."""
        cdef int64_t n = self.origins.groups.count, i
        assert self.tallies
        self._end_group()
        counters = np.zeros((n, sizeof(Tally) // sizeof(int64_t)), np.int64)
        cdef int64_t[:, ::1] into = counters
        if n > 0:
            memcpy(&into[0, 0], self.origins.tally, <size_t> n * sizeof(Tally))
        group = _interned(&self.origins.groups)
        pc = _interned(&self.origins.codes)[group & 0xFFFFFFFF]
        return pc, _interned(&self.origins.places)[group >> 32], counters

    # ---- running

    cpdef int run(self) except -1:
        """Run on; return DONE or a request, whose warp or slot is `subject`."""
        cdef int code
        with nogil:
            code = self._run()
        if code == C_MEMORY or self.log_lost or self.origins.lost:
            raise MemoryError
        return code

    cdef int _run(self) noexcept nogil:
        return C_DONE

    def histogram(self):
        """Return the count of each finite distance, indexed by the distance."""
        counts = np.zeros(self.distance_end, np.int64)
        cdef int64_t[::1] into = counts
        if self.distance_end > 0:
            memcpy(&into[0], self.distance_count, <size_t> self.distance_end * sizeof(int64_t))
        return counts

    # ---- rare operations

    cdef int _add_lines(self, const int64_t* lines, int64_t used, const int64_t* ids) noexcept nogil:
        """Set up the records of the lines that are new to the table."""
        cdef int64_t i, capacity
        cdef Line* l
        if self.table.count == self.known:
            return 0
        if self.table.count > self.line_capacity:
            capacity = 2 * self.table.count
            if (
                grow(<void**> &self.line, capacity, sizeof(Line)) < 0
                or grow(<void**> &self.position, capacity, sizeof(int64_t)) < 0
                or (self.logs and grow(<void**> &self.number, capacity, sizeof(int64_t)) < 0)
                or (self.flights and grow(<void**> &self.flight, capacity, sizeof(Flight)) < 0)
            ):
                return -1
            self.line_capacity = capacity
        for i in range(used):
            if ids[i] == self.known:
                self.position[self.known] = -1
                if self.logs:
                    self.number[self.known] = lines[i]
                l = &self.line[self.known]
                l.flags = 0
                l.shadowed = 0
                if self.sectored:
                    l.state.sectors = SectorMasks(0, 0, 0, NONE)
                else:
                    l.state.flight = LineFlight(-1, 0)
                l.set = set_of(&self.index, lines[i])
                self._find_place(self.known, lines[i])
                self.known += 1
        return 0

    cdef int _add_flights(self) noexcept nogil:
        """Make unused MSHRs of a sectored core: there is none."""
        cdef int64_t capacity = 2 * self.flying_capacity + 64, i
        if grow(<void**> &self.flying, capacity, sizeof(SectorFlight)) < 0:
            return -1
        for i in range(self.flying_capacity, capacity):
            self.flying[i].next = self.unused
            self.unused = <int32_t> i
        self.flying_capacity = capacity
        return 0

    cdef int _count_far(self, int64_t distance) noexcept nogil:
        """Count a distance that is larger than all before."""
        cdef int64_t capacity
        if distance >= self.distance_capacity:
            capacity = 2 * distance + 64
            if grow(<void**> &self.distance_count, capacity, sizeof(int64_t)) < 0:
                return -1
            memset(
                self.distance_count + self.distance_capacity, 0,
                <size_t> (capacity - self.distance_capacity) * sizeof(int64_t),
            )
            self.distance_capacity = capacity
        self.distance_end = distance + 1
        self.distance_count[distance] += 1
        return 0

    cdef void _end_block(self, int64_t slot) noexcept nogil:
        self.resident -= 1
        self.state[slot] = CLOSED if self.closed else ASKING
        self.asking += not self.closed

    cdef bint _find_asking(self) noexcept nogil:
        """Do the rest of `_wants_block`, if a slot requests a block."""
        cdef int64_t slot
        if self.waves and self.resident == 0:
            self.filling = True
        if self.waves and not self.filling:
            return False
        for slot in range(self.slots):
            if self.state[slot] == ASKING:
                self.subject = slot
                return True
        return False


cdef _interned(LineTable* table):
    # Return the keys of a table by their numbers.
    keys = np.empty(table.count, np.int64)
    cdef int64_t[::1] into = keys
    cdef int64_t i
    for i in range(table.capacity):
        if table.slots[i].rank != 0:
            into[table.slots[i].rank - 1] = table.slots[i].line
    return keys
