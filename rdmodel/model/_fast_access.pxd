# The transactions of `FastCore`: docs/model.md sections 11 and 13 have the rules.
from libc.stdint cimport int64_t, uint32_t

from rdmodel.model._agenda cimport agenda_add_fill
from rdmodel.model._fast cimport FastCore
from rdmodel.model._sectors cimport count_sectors
from rdmodel.model._shadow cimport FastLine, shadow_add, shadow_sectors
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


cdef inline int64_t draw_fill(FastCore core, int64_t now) noexcept nogil:
    # Draw when the data of a miss arrive.
    cdef int64_t due = now + core.lat_min + core._draw()
    core.mshrs_used += 1
    agenda_add_fill(&core.agenda, due)
    return due


cdef inline int64_t load_line(FastCore core, int64_t id, int64_t now) noexcept nogil:
    # Issue a transaction of a load; return when its data arrive, or that it stalls.
    cdef FastLine* l = &core.fast_line[id]
    cdef Ways* ways = &core.in_sets
    cdef int64_t way = l.way, late
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
        core._log(id, 1, 0, False)
    core.compulsory += l.last < 0
    core.associativity += l.last >= core.seen.tail
    core.capacity += 0 <= l.last < core.seen.tail
    ways.due[way] = draw_fill(core, now)
    ways.merged[way] = 1
    ways_use(ways, way, core.order)
    shadow_add(&core.seen, core.fast_line, id, 1)
    return ways.due[way]


cdef inline int64_t load_sectors(FastCore core, int64_t id, uint32_t asked, int64_t now) noexcept nogil:
    # As `load_line`, for the sectors that a transaction asks for.
    cdef FastLine* l = &core.fast_line[id]
    cdef Ways* ways = &core.in_sets
    cdef int64_t way = l.way, arrival = -1, due
    cdef uint32_t there = 0, late = 0, missing, held
    if way >= 0:
        there = asked & ways.there[way]
        late = there & sectors_late(ways, way, now)
        if there == asked and not late:
            core.hits += count_sectors(asked)
            l.asked |= asked
            ways_use(ways, way, core.order)
            shadow_add(&core.seen, core.fast_line, id, shadow_sectors(&core.seen, l) | asked)
            return now + core.hit_latency
    missing = asked & ~there
    held = shadow_sectors(&core.seen, l)
    if core.mshr_merge >= 0 and not sectors_can_merge(ways, way, late, core.mshr_merge):
        return STALLED_MSHR
    if there:
        arrival = max(now + core.hit_latency, sectors_due(ways, way, late))
    if missing:
        if core.mshrs_used == core.mshrs:
            return STALLED_MSHR
        if way >= 0:
            core.sector_misses += 1
        else:
            way = ways_take(ways, core.fast_line, id, now)
            if way < 0:
                return STALLED_WAYS
            ways.there[way] = ways.written[way] = 0
            core.tag_misses += 1
        if core.logs:
            core._log(id, missing, 0, False)
        core.compulsory += count_sectors(missing & ~l.asked)
        core.associativity += count_sectors(missing & l.asked & held)
        core.capacity += count_sectors(missing & l.asked & ~held)
        due = draw_fill(core, now)
        sectors_request(ways, way, missing, due)
        arrival = max(arrival, due)
    if core.mshr_merge >= 0:
        sectors_merge(ways, way, late)
    core.hits += count_sectors(there & ~late)
    core.latency_misses += count_sectors(late)
    l.asked |= asked
    ways_use(ways, way, core.order)
    shadow_add(&core.seen, core.fast_line, id, held | asked)
    return arrival


cdef inline void store_sectors(FastCore core, int64_t id, uint32_t asked, uint32_t full, int64_t now) noexcept nogil:
    # Issue a transaction of a store that writes in place, where its line is, and through to the L2.
    cdef FastLine* l = &core.fast_line[id]
    cdef Ways* ways = &core.in_sets
    cdef int64_t way = l.way
    core.store_transactions += 1
    core.store_sectors += count_sectors(asked)
    if way >= 0:
        core.store_hits += count_sectors(asked & (ways.there[way] | ways.written[way]))
    elif core.through:
        way = ways_take(ways, core.fast_line, id, now)
        if way >= 0:
            ways.there[way] = ways.written[way] = 0
    if way >= 0:
        ways.written[way] |= asked
        ways.there[way] |= full
        ways_use(ways, way, core.order)
    if core.logs:
        core._log(id, asked, full, True)
