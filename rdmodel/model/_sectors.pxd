# The L1 of `hardware` on GPUs that fetch lines by sector: docs/model.md section 13 has the rules, and
# rdmodel.reference.model.l1 is their readable form.
#
# A line has masks with a bit per sector, and a record per sector in flight. One MSHR holds the sectors that one
# transaction missed; the lowest of them is their leader. `valid` and `written` hold for a line with a way (IN_SET), and
# are emptied when it takes one; `shadowed` holds for a line in the shadow (IN_SHADOW).
from libc.stdint cimport int32_t, int64_t, uint32_t

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
    take_way,
)
from rdmodel.model._warp cimport Arrival, Warp, put_off
from rdmodel.structures._calendar cimport calendar_put
from rdmodel.structures._heap cimport Event
from rdmodel.structures._lru cimport recency_touch

cdef extern from *:
    int lowest_sector "__builtin_ctz"(unsigned int x) noexcept nogil


cdef inline bint sectors_can_merge(Core core, int64_t id, uint32_t pending) noexcept nogil:
    # Return whether every MSHR of the sectors `pending` has room for one more transaction.
    cdef const SectorFlight* flight = core.flying + (id << core.sector_bits)
    while pending:
        if flight[flight[lowest_sector(pending)].leader].merged >= core.mshr_merge:
            return False
        pending &= pending - 1
    return True


cdef inline void sectors_merge(Core core, int64_t id, uint32_t pending) noexcept nogil:
    cdef SectorFlight* flight = core.flying + (id << core.sector_bits)
    cdef uint32_t leaders = 0
    while pending:
        leaders |= <uint32_t> 1 << flight[lowest_sector(pending)].leader
        pending &= pending - 1
    while leaders:
        flight[lowest_sector(leaders)].merged += 1
        leaders &= leaders - 1


cdef inline int64_t sectors_due(Core core, int64_t id, uint32_t pending) noexcept nogil:
    # Return when the last of the sectors `pending` arrives.
    cdef const SectorFlight* flight = core.flying + (id << core.sector_bits)
    cdef int64_t due = -1
    while pending:
        due = max(due, flight[lowest_sector(pending)].due)
        pending &= pending - 1
    return due


cdef inline int sectors_allocate(Core core, int64_t id, const Warp* w, bint bypass) noexcept nogil:
    # Find an MSHR and, for an absent line, a way. A line that is in flight without a way stays without one.
    cdef Line* l = &core.line[id]
    if not core._mshr_free(w):
        return STALL_MSHR
    if l.flags & IN_SET:
        return SERVED
    if l.flags & IN_FLIGHT or not take_way(&core.recency[l.set], core.ways, core.line, id):
        if not bypass:
            return STALL_WAYS
        core.bypassed += 1
        return SERVED
    core.sector[id].valid = core.sector[id].written = 0
    return SERVED


cdef inline int sectors_request(
    Core core, int64_t id, uint32_t missing, uint32_t held, Warp* w, int64_t port, double first_touch_factor
) noexcept nogil:
    # Count the misses, by cause, and request the sectors; `held` are those in the shadow.
    cdef Line* l = &core.line[id]
    cdef SectorMasks* s = &core.sector[id]
    cdef SectorFlight* flight = core.flying + (id << core.sector_bits)
    cdef int64_t latency, leader = lowest_sector(missing), due
    cdef uint32_t left = missing
    if core.logs:
        core._log(id, missing, False)
    core.compulsory += popcount(missing & ~s.asked)
    core.associativity += popcount(missing & s.asked & held)
    core.capacity += popcount(missing & s.asked & ~held)
    latency = core.lat_min + core._draw()
    if not l.flags & SEEN and first_touch_factor != 1.0:
        latency = <int64_t> (first_touch_factor * <double> latency + 0.5)
    due = core.now + latency
    while left:
        flight[lowest_sector(left)].due = due
        flight[lowest_sector(left)].leader = <int32_t> leader
        left &= left - 1
    flight[leader].merged = 1
    s.pending |= missing
    l.flags |= IN_FLIGHT | SEEN
    core.mshrs_used += 1
    w.mshrs += 1
    return NO_MEMORY if calendar_put(
        &core.events, Event(due, core.order, (id << core.sector_bits) + leader, port)
    ) < 0 else SERVED


cdef inline int sectors_access(
    Core core, int64_t id, uint32_t asked, Warp* w, int64_t port, bint bypass, double first_touch_factor
) noexcept nogil:
    # Issue a load's transaction, or stall.
    cdef Line* l = &core.line[id]
    cdef SectorMasks* s = &core.sector[id]
    cdef bint there = l.flags & (IN_SET | IN_FLIGHT) != 0
    cdef uint32_t hit = asked & s.valid if l.flags & IN_SET else 0
    cdef uint32_t pending = asked & s.pending
    cdef uint32_t missing = asked & ~(hit | pending)
    cdef uint32_t held = s.shadowed if l.flags & IN_SHADOW else 0
    cdef int64_t arrival = -1
    cdef int outcome
    if pending and core.mshr_merge >= 0 and not sectors_can_merge(core, id, pending):
        return STALL_MSHR
    if missing:
        outcome = sectors_allocate(core, id, w, bypass)
        if outcome != SERVED:
            return outcome
    if pending and core.mshr_merge >= 0:
        sectors_merge(core, id, pending)
    if hit | pending:
        arrival = core.now + core.hit_latency
        if pending:
            arrival = max(arrival, sectors_due(core, id, pending))
    if missing:
        if sectors_request(core, id, missing, held, w, port, first_touch_factor) == NO_MEMORY:
            return NO_MEMORY
        arrival = max(arrival, core.flying[(id << core.sector_bits) + lowest_sector(missing)].due)
        core.sector_misses += there
        core.tag_misses += not there
    s.asked |= asked
    s.shadowed = held | asked
    core.sectors += popcount(asked)
    core.hits += popcount(hit)
    core.latency_misses += popcount(pending)
    if core._observe_and_remember(id) < 0:
        return NO_MEMORY
    if l.flags & IN_SET:
        recency_touch(&core.recency[l.set], &core.line[0].in_set, id, sizeof(Line))
    put_off(&w.latest, Arrival(arrival, core.order))
    core.order += 1
    core.transactions += 1
    return SERVED


cdef inline void sectors_fill(Core core, int64_t what) noexcept nogil:
    # Apply a fill: the sectors of one MSHR arrive. `what` is line x sectors + leader.
    cdef int64_t id = what >> core.sector_bits, leader = what & ((<int64_t> 1 << core.sector_bits) - 1)
    cdef SectorMasks* s = &core.sector[id]
    cdef const SectorFlight* flight = core.flying + (id << core.sector_bits)
    cdef uint32_t left = s.pending
    while left:
        if flight[lowest_sector(left)].leader == leader:
            s.pending &= ~(left & (0 - left))
            s.valid |= left & (0 - left)
        left &= left - 1
    if s.pending == 0:
        core.line[id].flags &= ~IN_FLIGHT


cdef inline void sectors_store(Core core, int64_t id, uint32_t asked, uint32_t full, bint allocate) noexcept nogil:
    # Issue a transaction of a store that writes in place, where its line is, and through to the L2.
    cdef Line* l = &core.line[id]
    cdef SectorMasks* s = &core.sector[id]
    core.order += 1
    core.store_transactions += 1
    core.store_sectors += popcount(asked)
    core.store_hits += popcount(asked & (s.pending | (s.valid | s.written if l.flags & IN_SET else 0)))
    if allocate and not l.flags & (IN_SET | IN_FLIGHT) and take_way(&core.recency[l.set], core.ways, core.line, id):
        s.valid = s.written = 0
    if l.flags & IN_SET:
        s.written |= asked
        s.valid |= full & ~s.pending
        recency_touch(&core.recency[l.set], &core.line[0].in_set, id, sizeof(Line))
    if core.logs:
        core._log(id, asked, True)
