# The L1 of `hardware` on GPUs that fetch lines by sector: docs/model.md section 13 has the rules, and
# rdmodel.reference.model.l1 is their readable form.
#
# A line has masks with a bit per sector, and a list of the MSHRs with its sectors in flight: each has those that one
# transaction missed. The masks `valid` and `written` hold for a line with a way (IN_SET), and are emptied when it takes
# one; `shadowed` holds for a line in the shadow (IN_SHADOW).
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rdmodel._tree cimport popcount
from rdmodel.model._core cimport (
    IN_FLIGHT,
    IN_SET,
    IN_SHADOW,
    NO_MEMORY,
    SEEN,
    SERVED,
    STALL_MSHR,
    STALL_WAYS,
    Core,
    Line,
    SectorFlight,
    SectorMasks,
)
from rdmodel.model._warp cimport READS, UPDATES, Warp
from rdmodel.structures._calendar cimport calendar_put
from rdmodel.structures._heap cimport Event
from rdmodel.structures._lru cimport NONE


cdef inline int64_t count_sectors(uint32_t mask) noexcept nogil:
    # A word has the answers for four sectors, as most lines have.
    return <int64_t> ((<uint64_t> 0x4332322132212110 >> (mask << 2)) & 15) if mask < 16 else popcount(mask)


cdef inline uint32_t sectors_pending(Core core, const Line* l) noexcept nogil:
    # Return the sectors of a line that are in flight.
    cdef uint32_t pending = 0
    cdef int64_t at = l.state.sectors.flying if l.flags & IN_FLIGHT else NONE
    while at != NONE:
        pending |= core.flying[at].sectors
        at = core.flying[at].next
    return pending


cdef inline int sectors_can_merge(Core core, const Line* l, uint32_t asked) noexcept nogil:
    # Stall if an MSHR that has sectors which a transaction asks for can merge no more.
    cdef int64_t at
    if core.mshr_merge < 0:
        return SERVED
    at = l.state.sectors.flying
    while at != NONE:
        if core.flying[at].sectors & asked and core.flying[at].merged >= core.mshr_merge:
            return STALL_MSHR
        at = core.flying[at].next
    return SERVED


cdef inline int64_t sectors_wait(Core core, const Line* l, uint32_t asked) noexcept nogil:
    # Return when the last of the sectors in flight that a transaction asks for arrives, and count it in their MSHRs.
    cdef int64_t at = l.state.sectors.flying, due = -1
    while at != NONE:
        if core.flying[at].sectors & asked:
            core.flying[at].merged += 1
            due = max(due, core.flying[at].due)
        at = core.flying[at].next
    return due


cdef inline int sectors_allocate(Core core, int64_t id, const Warp* w, bint bypass) noexcept nogil:
    # Find an MSHR and, for an absent line, a way. A line that is in flight without a way stays without one.
    cdef Line* l = &core.line[id]
    if not core._mshr_free(w):
        return STALL_MSHR
    if l.flags & IN_SET:
        return SERVED
    if l.flags & IN_FLIGHT or not core._take_way(id):
        if not bypass:
            return STALL_WAYS
        core.bypassed += 1
        return SERVED
    l.state.sectors.valid = l.state.sectors.written = 0
    return SERVED


cdef inline int64_t sectors_request(
    Core core, int64_t id, uint32_t missing, Warp* w, int64_t port, double first_touch_factor
) noexcept nogil:
    # Request the sectors that a transaction misses; return when they arrive, or -1: out of memory.
    cdef Line* l = &core.line[id]
    cdef int64_t at = core.unused, latency
    if at == NONE:
        if core._add_flights() < 0:
            return -1
        at = core.unused
    if core.logs:
        core._log(id, missing, 0, READS)
    latency = core.lat_min + core._draw()
    if not l.flags & SEEN and first_touch_factor != 1.0:
        latency = <int64_t> (first_touch_factor * <double> latency + 0.5)
    core.unused = core.flying[at].next
    core.flying[at] = SectorFlight(
        id, core.now + latency, 1, missing, l.state.sectors.flying if l.flags & IN_FLIGHT else NONE
    )
    l.state.sectors.flying = <int32_t> at
    l.flags |= IN_FLIGHT | SEEN
    core.mshrs_used += 1
    w.mshrs += 1
    return -1 if calendar_put(&core.events, Event(core.now + latency, core.order, at, port)) < 0 else core.now + latency


cdef inline int sectors_access(
    Core core, int64_t id, uint32_t asked, Warp* w, int64_t port, bint bypass, double first_touch_factor
) noexcept nogil:
    # Issue a load's transaction, or stall.
    cdef Line* l = &core.line[id]
    cdef SectorMasks* s = &l.state.sectors
    cdef bint there = l.flags & (IN_SET | IN_FLIGHT) != 0, again = l.flags & IN_SET != 0
    cdef uint32_t hit = asked & s.valid if l.flags & IN_SET else 0
    cdef uint32_t pending = asked & sectors_pending(core, l)
    cdef uint32_t missing = asked & ~(hit | pending)
    cdef uint32_t held = l.shadowed if l.flags & IN_SHADOW else 0
    cdef int64_t arrival = -1, due
    cdef int outcome
    if pending and sectors_can_merge(core, l, asked) != SERVED:
        return STALL_MSHR
    if missing:
        outcome = sectors_allocate(core, id, w, bypass)
        if outcome != SERVED:
            return outcome
    if hit | pending:
        arrival = core.now + core.hit_latency
        core.hits += count_sectors(hit)
        if pending:
            arrival = max(arrival, sectors_wait(core, l, asked))
            core.latency_misses += count_sectors(pending)
    if missing:
        due = sectors_request(core, id, missing, w, port, first_touch_factor)
        if due < 0:
            return NO_MEMORY
        arrival = max(arrival, due)
        core.compulsory += count_sectors(missing & ~s.asked)
        core.associativity += count_sectors(missing & s.asked & held)
        core.capacity += count_sectors(missing & s.asked & ~held)
        core.sector_misses += there
        core.tag_misses += not there
    s.asked |= asked
    l.shadowed = held | asked
    return core._count_served(id, again, w, arrival)


cdef inline void sectors_fill(Core core, int64_t at) noexcept nogil:
    # Apply a fill: the sectors of an MSHR arrive.
    cdef SectorFlight* flight = &core.flying[at]
    cdef Line* l = &core.line[flight.line]
    cdef int32_t* place = &l.state.sectors.flying
    l.state.sectors.valid |= flight.sectors
    while place[0] != at:
        place = &core.flying[place[0]].next
    place[0] = flight.next
    if l.state.sectors.flying == NONE:
        l.flags &= ~IN_FLIGHT
        core.all_late = 0
    flight.next = core.unused
    core.unused = <int32_t> at


cdef inline void sectors_store(
    Core core, int64_t id, uint32_t asked, uint32_t full, bint allocate, uint8_t kind
) noexcept nogil:
    # Issue a transaction of a store that writes in place, where its line is, and through to the L2. An atomic is served
    # by the L2: the L1 loses its sectors, except those in flight.
    cdef Line* l = &core.line[id]
    cdef SectorMasks* s = &l.state.sectors
    cdef uint32_t pending = sectors_pending(core, l)
    core.order += 1
    core.store_transactions += 1
    core.store_sectors += count_sectors(asked)
    core.store_hits += count_sectors(asked & (pending | (s.valid | s.written if l.flags & IN_SET else 0)))
    if core.logs:
        core._log(id, asked, full, kind)
    if kind == UPDATES:
        if l.flags & IN_SET:
            s.valid &= ~asked
            s.written &= ~asked
        return
    if l.flags & IN_SET:
        core._use_again(id)
    elif allocate and not l.flags & IN_FLIGHT and core._take_way(id):
        s.valid = s.written = 0
    if l.flags & IN_SET:
        s.written |= asked
        s.valid |= full & ~pending
