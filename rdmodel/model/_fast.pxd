"""Declare `FastCore`, and define its transactions: docs/model.md sections 11 and 13 have their rules."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rdmodel.model._agenda cimport Agenda, agenda_add_fill
from rdmodel.model._core cimport Core
from rdmodel.model._ready cimport Ready
from rdmodel.model._sectors cimport count_sectors
from rdmodel.model._shadow cimport FastLine, Shadow, shadow_add, shadow_sectors
from rdmodel.model._uniform cimport Uniform
from rdmodel.model._warp cimport READS, UPDATES
from rdmodel.model._ways cimport (
    Ways,
    sectors_can_merge,
    sectors_due,
    sectors_late,
    sectors_merge,
    sectors_request,
    ways_take,
    ways_use,
)

# Results of a transaction that is not issued; an issued one has a key that is not negative, or NO_ARRIVAL.
cdef enum:
    STALLED_MSHR = -2
    STALLED_WAYS = -3
    NO_ARRIVAL = -1

cdef enum:
    DRAWS = 256                 # latencies that are drawn at a time


cdef struct Pace:
    # Keys of the latest arrivals of a warp's data; -1 = none.
    int64_t key              # of the needs of its next instruction
    int64_t latest           # of the current instruction
    int64_t everything       # of all instructions
    int64_t ancient          # of those before the last HISTORY ones
    int64_t[64] history      # ring of the last HISTORY instructions


cdef class FastCore(Core):
    cdef Ready ready_list
    cdef uint8_t[64] parked_warps
    cdef int64_t parked_number
    cdef Agenda agenda
    cdef Ways in_sets
    cdef Shadow seen
    cdef FastLine* fast_line
    cdef Pace* pace
    cdef int64_t[64] next_line        # of each warp that is ready; -1 = its instruction has no transactions
    cdef uint32_t[64] next_asked      # the sectors that it asks for, if it is that of a load of a sectored core
    cdef uint64_t special             # warps that end, or have passed stores, when their needs have arrived
    cdef int64_t soon                 # the warp that is ready in the next step; -1 = none
    cdef int64_t port                 # the warp whose instruction has the port; -1 = the port is free
    cdef bint advancing               # the warp at the port has issued an instruction, but has not gone on
    cdef bint in_place, through
    cdef int64_t tags                 # transactions that a step issues
    cdef int64_t observed             # position of the first access whose distance is not measured
    cdef int32_t* first_of_set        # [sets] while distances are measured: the first access to each; -1 = none
    cdef int64_t check_at             # position at which accesses must be measured, or their row closed up
    cdef Uniform choices, latencies   # generators of warp choices and of latencies
    cdef double sigma
    cdef int64_t[DRAWS] drawn           # latencies that were drawn
    cdef int64_t drawn_at             # the next one
    # Of `ScheduledCore` (_scheduled.pyx), whose ready warps are a set of slots; what both cores share looks at them.
    cdef bint gaps, head
    cdef bint evicts                  # stores that warps pass evict their lines
    cdef uint64_t ready_slots
    cdef uint64_t gapping             # of these, warps with other instructions before their next memory instruction
    cdef int64_t[64] gap_left         # and how many, of each warp
    cdef bint port_waits              # the instruction at the port has stalled, and stays there (`head`)
    cdef int64_t done_at              # the last step in which warps came to a barrier by such instructions,
    cdef int64_t done                 # and how many did

    cdef bint _start_warp(self, int64_t warp) noexcept nogil
    cdef int _observe_all(self) noexcept nogil
    cdef int _count_distances(self, const int64_t* distance, int64_t n) noexcept nogil
    cdef int _check(self) noexcept nogil
    cdef void _plan_check(self) noexcept nogil


# ---- transactions

cdef inline int64_t draw_fill(FastCore core, int64_t now) noexcept nogil:
    # Draw when the data of a miss arrive.
    cdef int64_t due = now + core.lat_min + core.drawn[core.drawn_at]
    core.drawn_at += 1
    core.mshrs_used += 1
    agenda_add_fill(&core.agenda, due)
    return due


cdef inline int64_t load_line(FastCore core, int64_t id, int64_t now) noexcept nogil:
    # Issue a transaction of a load; return when its data arrive, or that it stalls.
    cdef FastLine* l = &core.fast_line[id]
    cdef Ways* ways = &core.in_sets
    cdef int64_t way = l.way, late, first, held
    if way >= 0:
        late = ways.due[way] > now
        if late and core.mshr_merge >= 0:
            if ways.merged[way] >= core.mshr_merge:
                return STALLED_MSHR
            ways.merged[way] += 1
        core.latency_misses += late
        core.hits += 1 - late
        ways_use(ways, way, core.order)
        shadow_add(&core.seen, core.fast_line, id, 1)
        return max(now + core.hit_latency, ways.due[way])
    if core.mshrs_used == core.mshrs:
        return STALLED_MSHR
    way = ways_take(ways, core.fast_line, id, now)
    if way < 0:
        return STALLED_WAYS
    if core.logs:
        core._log(id, 1, 0, READS)
    first = l.last < 0
    held = l.last >= core.seen.tail
    core.compulsory += first
    core.associativity += held
    core.capacity += 1 - first - held
    ways.due[way] = draw_fill(core, now)
    ways.merged[way] = 1
    ways_use(ways, way, core.order)
    shadow_add(&core.seen, core.fast_line, id, 1)
    return ways.due[way]


cdef inline int64_t load_sectors(FastCore core, int64_t id, uint32_t asked, int64_t now) noexcept nogil:
    # As `load_line`, for the sectors that a transaction asks for.
    cdef FastLine* l = &core.fast_line[id]
    cdef Ways* ways = &core.in_sets
    cdef int64_t way = l.way
    cdef uint32_t there, late
    if way < 0:
        return load_absent(core, id, asked, now)
    there = asked & ways.there[way]
    late = sectors_late(ways, way, there, now)
    if there != asked or late:
        return load_partly(core, id, asked, there, late, now)
    core.hits += count_sectors(asked)
    load_uses(core, id, way, asked)
    return now + core.hit_latency


cdef inline void load_uses(FastCore core, int64_t id, int64_t way, uint32_t asked) noexcept nogil:
    # Let the cache and that of the causes know that a load has used sectors of a line.
    cdef FastLine* l = &core.fast_line[id]
    l.asked |= asked
    ways_use(&core.in_sets, way, core.order)
    shadow_add(&core.seen, core.fast_line, id, shadow_sectors(&core.seen, l) | asked)


cdef inline void count_causes(FastCore core, const FastLine* l, uint32_t missing) noexcept nogil:
    cdef uint32_t again = missing & l.asked, held = 0
    if again:
        held = again & shadow_sectors(&core.seen, l)
    core.compulsory += count_sectors(missing ^ again)
    core.associativity += count_sectors(held)
    core.capacity += count_sectors(again ^ held)


cdef inline int64_t load_absent(FastCore core, int64_t id, uint32_t asked, int64_t now) noexcept nogil:
    # Load sectors of a line that has no way.
    cdef Ways* ways = &core.in_sets
    cdef int64_t way, due
    if core.mshrs_used == core.mshrs:
        return STALLED_MSHR
    way = ways_take(ways, core.fast_line, id, now)
    if way < 0:
        return STALLED_WAYS
    ways.there[way] = ways.written[way] = 0
    core.tag_misses += 1
    if core.logs:
        core._log(id, asked, 0, READS)
    count_causes(core, &core.fast_line[id], asked)
    due = draw_fill(core, now)
    sectors_request(ways, way, asked, due)
    load_uses(core, id, way, asked)
    return due


cdef inline int64_t load_partly(
    FastCore core, int64_t id, uint32_t asked, uint32_t there, uint32_t late, int64_t now
) noexcept nogil:
    # Load sectors of a line some of which are missing, or `late`, that is, in flight.
    cdef Ways* ways = &core.in_sets
    cdef int64_t way = core.fast_line[id].way, arrival = -1, due
    cdef uint32_t missing = asked & ~there
    if core.mshr_merge >= 0 and not sectors_can_merge(ways, way, late, core.mshr_merge):
        return STALLED_MSHR
    if there:
        arrival = max(now + core.hit_latency, sectors_due(ways, way, late))
    if missing:
        if core.mshrs_used == core.mshrs:
            return STALLED_MSHR
        core.sector_misses += 1
        if core.logs:
            core._log(id, missing, 0, READS)
        count_causes(core, &core.fast_line[id], missing)
        due = draw_fill(core, now)
        sectors_request(ways, way, missing, due)
        arrival = max(arrival, due)
    if core.mshr_merge >= 0:
        sectors_merge(ways, way, late)
    core.hits += count_sectors(there & ~late)
    core.latency_misses += count_sectors(late)
    load_uses(core, id, way, asked)
    return arrival


cdef inline bint misses(FastCore core, int64_t warp, const bint sectored) noexcept nogil:
    # Tell whether the next transaction of a warp misses.
    cdef int64_t id = core.next_line[warp], way
    if id < 0:
        return False
    way = core.fast_line[id].way
    if not sectored:
        return way < 0
    return core.next_asked[warp] & ~(core.in_sets.there[way] if way >= 0 else 0) != 0


cdef inline void store_sectors(
    FastCore core, int64_t id, uint32_t asked, uint32_t full, uint8_t kind, int64_t now
) noexcept nogil:
    # Issue a transaction of a store that writes in place, where its line is, and through to the L2. An atomic is served
    # by the L2: the L1 loses its sectors, except those in flight.
    cdef FastLine* l = &core.fast_line[id]
    cdef Ways* ways = &core.in_sets
    cdef int64_t way = l.way
    core.store_transactions += 1
    core.store_sectors += count_sectors(asked)
    if way >= 0:
        core.store_hits += count_sectors(asked & (ways.there[way] | ways.written[way]))
    if core.logs:
        core._log(id, asked, full, kind)
    if kind == UPDATES:
        if way >= 0:
            ways.there[way] &= ~asked | sectors_late(ways, way, asked, now)
            ways.written[way] &= ~asked
        return
    if way < 0 and core.through:
        way = ways_take(ways, core.fast_line, id, now)
        if way >= 0:
            ways.there[way] = ways.written[way] = 0
    if way >= 0:
        ways.written[way] |= asked
        ways.there[way] |= full
        ways_use(ways, way, core.order)
