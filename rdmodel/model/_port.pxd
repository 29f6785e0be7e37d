# The port of the L1 in `FastCore`: it issues the transactions of one instruction after the other.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from rdmodel.model._agenda cimport arrival_key
from rdmodel.model._core cimport C_CHUNK, C_GO, C_MEMORY
from rdmodel.model._fast cimport (
    DRAWS,
    NO_ARRIVAL,
    STALLED_MSHR,
    STALLED_WAYS,
    FastCore,
    Pace,
    load_line,
    load_sectors,
    store_sectors,
)
from rdmodel.model._normal cimport steps_next
from rdmodel.model._pace cimport go_on, record
from rdmodel.model._ready cimport ready_make_room, ready_park
from rdmodel.model._uniform cimport Uniform
from rdmodel.model._warp cimport Warp, prefetch, warp_fetch_ahead, writing_kind
from rdmodel.structures._lru cimport NONE

cdef enum:
    FETCHED = 32             # transactions of a warp that are fetched before they are issued
    LINES_FETCHED = 4        # and those whose lines are, which may come from memory


cdef inline void stall(FastCore core, int64_t cause, const bint scheduled) noexcept nogil:
    # Let the warp at the port wait for the next fill: there (`head`), or parked.
    core.stalls_mshr += cause == STALLED_MSHR
    core.stalls_ways += cause == STALLED_WAYS
    if scheduled and core.head:
        core.port_waits = True
        return
    if scheduled:
        core.parked_warps[core.parked_number] = <uint8_t> core.port
        core.parked_number += 1
    else:
        ready_make_room(&core.ready_list, 1)
        ready_park(&core.ready_list, core.port)
    core.port = NONE


cdef inline int end_instruction(FastCore core, int64_t latest, const bint scheduled) noexcept nogil:
    # Go on to the next instruction of the warp at the port; `latest` is the key of its last one.
    cdef int64_t warp = core.port
    cdef Warp* w = &core.warp[warp]
    cdef Pace* p = &core.pace[warp]
    record(core, w, p, latest)
    warp_fetch_ahead(w)
    w.left = -1
    p.key = -1
    if go_on(core, scheduled):
        return C_GO
    core.subject = warp
    core.advancing = True
    return C_CHUNK


cdef inline int issue(FastCore core, const bint sectored, const bint scheduled) noexcept nogil:
    # Issue transactions of the instruction at the port: those of this step, and of further steps up to the next event.
    cdef int64_t warp = core.port, tag = 0, id = core.next_line[warp], arrival = NO_ARRIVAL, now = core.now
    cdef Warp* w = &core.warp[warp]
    cdef Pace* p = &core.pace[warp]
    # The word that a stalled warp left beside its line tells a load from a store; its buffer need not be read.
    cdef uint64_t asked = core.next_asked[warp] if sectored else 0
    cdef bint load = not sectored or asked != 0
    cdef int64_t at, left, latest, ahead
    cdef bint by_origin = core.tallies and not core.parts
    if id < 0:
        return end_instruction(core, -1, scheduled)
    if core.parts:
        # All transactions of an instruction are of one part.
        core._count_for(w, id)
    at = w.id_at
    left = w.left
    latest = p.latest
    if left < 0:
        left = w.program[w.at].count
        latest = -1
    if not load:
        asked = w.masks[at]
    while True:
        if by_origin:
            core._count_for(w, id)
        if not sectored:
            arrival = load_line(core, id, now)
        elif load:
            arrival = load_sectors(core, id, <uint32_t> asked, now)
        else:
            store_sectors(
                core, id, <uint32_t> asked, <uint32_t> (asked >> 32), writing_kind(&w.program[w.at]), now
            )
        if arrival < NO_ARRIVAL:
            stall(core, arrival, scheduled)
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
            return end_instruction(core, latest, scheduled)
        id = w.ids[at]
        prefetch(&core.fast_line[w.ids[min(at + LINES_FETCHED, w.used - 1)]])
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


cdef inline void draw_latencies(FastCore core) noexcept nogil:
    # Draw latencies for the next steps, behind those that are left.
    cdef Uniform generator = core.latencies
    cdef int64_t left = DRAWS - core.drawn_at, i
    for i in range(left):
        core.drawn[i] = core.drawn[core.drawn_at + i]
    for i in range(left, DRAWS):
        core.drawn[i] = steps_next(&generator, core.sigma)
    core.latencies = generator
    core.drawn_at = 0
