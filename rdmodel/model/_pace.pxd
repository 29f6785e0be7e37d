# The warps of `FastCore` on their way to their next instruction: they pass stores, gather needs, wait for the data that
# these name, stand at barriers, and become ready. `scheduled`: the core is a `ScheduledCore`. Each module has one value, so
# that the branches of the other core are left out.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from rdmodel.model._agenda cimport Agenda, agenda_add_warp, agenda_end_day, early_key, key_time, opening_key
from rdmodel.model._fast cimport FastCore, Pace
from rdmodel.model._ready cimport ready_append, ready_unpark
from rdmodel.model._warp cimport HISTORY, OP_BARRIER, OP_LOAD, Warp, lowest_bit, warp_shows_more
from rdmodel.model._ways cimport ways_leave
from rdmodel.structures._lru cimport NONE


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


cdef inline bint look_ahead(FastCore core, int64_t warp, const bint scheduled) noexcept nogil:
    # Pass stores that take no step, and gather the needs of the next instruction; False: the buffer is too short.
    cdef Warp* w = &core.warp[warp]
    cdef Pace* p = &core.pace[warp]
    cdef int64_t count
    cdef bint asks
    while w.at < w.n:
        # The gap before a barrier must not count again when the buffer has more.
        if scheduled and w.program[w.at].op == OP_BARRIER and not warp_shows_more(w):
            return False
        p.key = gather_needs(w, p)
        if scheduled and core.gaps:
            core.gap_left[warp] += w.program[w.at].gap
        count = w.program[w.at].count
        if w.program[w.at].op == OP_LOAD or (core.in_place and count > 0):
            core.next_line[warp] = w.ids[w.id_at] if count > 0 else -1
            asks = core.sectored and count > 0 and w.program[w.at].op == OP_LOAD
            core.next_asked[warp] = <uint32_t> w.masks[w.id_at] if asks else 0
            return True
        if w.program[w.at].op == OP_BARRIER:
            core.special |= <uint64_t> 1 << warp
            return warp_shows_more(w)
        if (core.logs or scheduled and core.evicts) and w.passed_from < 0:
            w.passed_from = w.id_at
            w.passed_at = w.at
            core.special |= <uint64_t> 1 << warp
        w.id_at += count
        record(core, w, p, -1)
    if w.more:
        return False
    w.ending = True
    core.special |= <uint64_t> 1 << warp
    return True


cdef inline void open_barrier(FastCore core, int64_t slot, const bint scheduled) noexcept nogil:
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
        look_ahead(core, i, scheduled)
        if core.warp[i].ending:
            core.pace[i].key = max(core.pace[i].key, core.pace[i].everything)
        agenda_add_warp(&core.agenda, i, core.pace[i].key)


cdef inline void make_ready(FastCore core, int64_t warp, const bint scheduled) noexcept nogil:
    if scheduled:
        core.ready_slots |= <uint64_t> 1 << warp
        core.gapping |= <uint64_t> (core.gap_left[warp] > 0) << warp
    else:
        ready_append(&core.ready_list, warp)


cdef inline void apply_stores(FastCore core, const Warp* w, const bint scheduled) noexcept nogil:
    # Log the stores that a warp has passed since its last instruction, or evict their lines.
    cdef int64_t i
    if core.logs:
        core._log_stores(w, w.passed_at, w.passed_from, w.id_at)
    if scheduled and core.evicts:
        for i in range(w.passed_from, w.id_at):
            ways_leave(&core.in_sets, core.fast_line, w.ids[i], core.now)


cdef inline void admit(FastCore core, int64_t warp, const bint scheduled) noexcept nogil:
    # Make a warp ready, let it stand at its barrier, or end it; the data that it waited for have arrived.
    cdef Warp* w = &core.warp[warp]
    if core.special >> warp & 1:
        core.special ^= <uint64_t> 1 << warp
        if w.passed_from >= 0:
            apply_stores(core, w, scheduled)
            w.passed_from = NONE
        if w.ending:
            core._end_warp(warp)
        elif w.program[w.at].op == OP_BARRIER:
            if scheduled and core.gap_left[warp] > 0:
                core.special |= <uint64_t> 1 << warp
                make_ready(core, warp, scheduled)
                return
            core.standing[warp // core.block_warps] += 1
        else:
            make_ready(core, warp, scheduled)
            return
        if core.standing[warp // core.block_warps] > 0:
            open_barrier(core, warp // core.block_warps, scheduled)
        return
    make_ready(core, warp, scheduled)


cdef inline bint start_warp(FastCore core, int64_t warp, const bint scheduled) noexcept nogil:
    # Let a warp begin: it becomes ready, or ends at once; False: its buffer is empty.
    core.gap_left[warp] = 0
    if not look_ahead(core, warp, scheduled):
        return False
    admit(core, warp, scheduled)
    return True


cdef inline void admit_due(FastCore core, const bint scheduled) noexcept nogil:
    # Apply the fills of this step, and admit the warps whose needs have arrived.
    cdef Agenda* a = &core.agenda
    cdef int64_t day, fills, last, warp, following, i
    if core.soon >= 0 and a.first > core.now:
        admit(core, core.soon, scheduled)
        core.soon = NONE
        return
    day = core.now & (a.days - 1)
    fills = a.fills[day]
    last = a.last[day]
    if fills > 0:
        core.mshrs_used -= fills
        if scheduled:
            core.port_waits = False
            for i in range(core.parked_number):
                core.ready_slots |= <uint64_t> 1 << core.parked_warps[i]
            core.parked_number = 0
        else:
            ready_unpark(&core.ready_list)
    if core.soon >= 0:
        admit(core, core.soon, scheduled)
        core.soon = NONE
    if last >= 0:
        warp = a.after[last]
        while True:
            # A warp that opens its barrier waits again, among the warps of another day.
            following = a.after[warp]
            a.waiting -= 1
            admit(core, warp, scheduled)
            if warp == last:
                break
            warp = following
    agenda_end_day(a, core.now)


cdef inline bint go_on(FastCore core, const bint scheduled) noexcept nogil:
    # Let the warp at the port wait for the needs of its next instruction; False: its buffer is empty.
    cdef int64_t warp = core.port
    cdef Pace* p = &core.pace[warp]
    if not look_ahead(core, warp, scheduled):
        return False
    if core.warp[warp].ending:
        p.key = p.everything
    if key_time(p.key) > core.now:
        agenda_add_warp(&core.agenda, warp, p.key)
    elif scheduled and core.done_at == core.now and (p.key < 0 or key_time(p.key) == core.now):
        # Warps that came to a barrier in this step, before this one, are admitted before it, too.
        agenda_add_warp(&core.agenda, warp, early_key(core.now, core.done))
    else:
        core.soon = warp
    core.port = NONE
    return True


cdef inline void end_step(FastCore core, const bint scheduled) noexcept nogil:
    core.now += 1
    if core.agenda.first <= core.now or core.soon >= 0:
        admit_due(core, scheduled)
