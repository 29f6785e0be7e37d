# A step has the phases of `HardwareCore` (_hardware.pyx), which has all options and is the readable form. Two cores leave
# out the uncommon ones; rdmodel.model.cores tells which core can serve a run. All that a step reads is small and dense:
# the ready warps are bits (_ready.pxd), fills are numbers per day (_agenda.pxd), a line in flight is known by its time
# (_ways.pxd), and the shadow is a row of accesses (_shadow.pxd). Both cores have their transactions from _fast.pxd, their
# warps from _pace.pxd and their port from _port.pxd. They differ in the choice of warps: `ListedCore` (_listed.pyx) takes
# them from a list of the ready ones, `ScheduledCore` (_scheduled.pyx) by their slots.
"""Implement what two fast cores of the definition `hardware` have in common: `FastCore`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from rdmodel._tree cimport stack_move_many
from rdmodel.model._agenda cimport MOST_DAYS, MOST_TAGS, agenda_free, agenda_init
from rdmodel.model._core cimport Core as Shared
from rdmodel.model._ready cimport MOST_WARPS, PLACES, deposits_quickly
from rdmodel.model._shadow cimport FastLine, Shadow, shadow_close_up, shadow_free, shadow_full, shadow_init
from rdmodel.model._uniform cimport uniform_of
from rdmodel.model._warp cimport HISTORY
from rdmodel.model._ways cimport ways_free, ways_init
from rdmodel.structures._index cimport set_of
from rdmodel.structures._lru cimport NONE
from rdmodel.structures._memory cimport grow, use_large_pages

cdef enum:
    OBSERVED = 1024          # accesses whose distances are measured together


cdef inline int64_t set_number(FastCore core, int64_t id) noexcept nogil:
    # Return the set of a line from its record, which its last access has used: a table of sets would be in memory. No
    # branch depends on whether the line is there.
    cdef int64_t way = core.fast_line[id].way, absent = way >> 63
    return (way >> core.in_sets.bits & ~absent) | (~way & absent)


cdef class FastCore(Shared):
    """The part of `ListedCore` and `ScheduledCore`, for at most 64 warps, that does not choose warps."""

    def __init__(
        self, *, bint in_place, bint through, int64_t sectors, int64_t tags, int64_t longest, **common
    ):
        super().__init__(**common)
        assert self.warps <= MOST_WARPS and 1 <= tags <= MOST_TAGS and self.lat_min >= 1
        assert max(longest, self.hit_latency) < MOST_DAYS - 1
        self.drawn_at = DRAWS
        self.in_place = in_place
        self.through = through
        self.tags = tags
        self.soon = self.port = NONE
        self.ready_list.deposits = deposits_quickly()
        self.ready_list.place = <uint8_t*> malloc(PLACES)
        self.pace = <Pace*> malloc(<size_t> self.warps * sizeof(Pace))
        self.first_of_set = <int32_t*> malloc(<size_t> self.sets * sizeof(int32_t))
        if (
            self.ready_list.place == NULL or self.pace == NULL or self.first_of_set == NULL
            or agenda_init(&self.agenda, max(longest, self.hit_latency)) < 0
            or ways_init(
                &self.in_sets, self.sets, self.ways, self.protected, self.pool, sectors, self.sectored
            ) < 0
            or shadow_init(&self.seen, self.shadow_lines) < 0
        ):
            raise MemoryError
        memset(self.first_of_set, NONE, <size_t> self.sets * sizeof(int32_t))
        self._plan_check()

    def __dealloc__(self):
        free(self.ready_list.place)
        free(self.pace)
        free(self.first_of_set)
        free(self.fast_line)
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
            if not self._start_warp(i):
                raise RuntimeError("a warp was started before it was primed")

    def histogram(self):
        """Return the count of each finite distance, indexed by the distance."""
        if self._observe_all() < 0:
            raise MemoryError
        return Shared.histogram(self)

    cdef bint _start_warp(self, int64_t warp) noexcept nogil:
        """Let a warp begin, as `start_warp` does for each of the two cores."""
        return False

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
            ):
                return -1
            use_large_pages(
                self.fast_line, <size_t> capacity * sizeof(FastLine), <size_t> self.known * sizeof(FastLine)
            )
            self.line_capacity = capacity
        for i in range(used):
            if ids[i] == self.known:
                number = set_of(&self.index, lines[i])
                if self.logs:
                    self.number[self.known] = lines[i]
                self.fast_line[self.known] = FastLine(-1, <int32_t> ~number, 0, -1)
                self._find_place(self.known, lines[i])
                self.known += 1
        return 0

    cdef int _observe_all(self) noexcept nogil:
        """Measure the distances of the latest accesses, set by set: the sets do not depend on each other."""
        cdef const Shadow* s = &self.seen
        cdef int64_t n = s.at - self.observed, i, at, number, many, done = 0
        cdef int64_t[OBSERVED] line, later, of_set, distance
        if not self.track:
            return 0
        # The accesses to a set are a list from the first, at `first_of_set`, to the last.
        for i in range(n - 1, -1, -1):
            line[i] = s.access[(self.observed + i) & (s.capacity - 1)].line
            number = set_number(self, line[i])
            later[i] = self.first_of_set[number]
            self.first_of_set[number] = <int32_t> i
        for i in range(n):
            number = set_number(self, line[i])
            at = self.first_of_set[number]
            if at != i:
                continue
            many = 0
            while at >= 0:
                of_set[many] = line[at]
                many += 1
                at = later[at]
            self.first_of_set[number] = NONE
            if stack_move_many(
                &self.stack[number], of_set, many, &self.fast_line[0].position, sizeof(FastLine), distance + done
            ) < 0:
                return -1
            done += many
        self.observed = s.at
        return self._count_distances(distance, n)

    cdef int _count_distances(self, const int64_t* distance, int64_t n) noexcept nogil:
        """Count distances; they are scattered, so that many are looked up at a time."""
        cdef int64_t i
        for i in range(n):
            if 0 <= distance[i] < self.distance_end:
                self.distance_count[distance[i]] += 1
            elif distance[i] < 0:
                self.infinite += 1
            elif self._count_far(distance[i]) < 0:
                return -1
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
