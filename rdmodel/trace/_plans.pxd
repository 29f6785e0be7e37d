# Loop bodies that are analysed once for a warp, and written again for every iteration and, where blocks differ in their
# addresses only, for every block.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from rdmodel.trace._lanes cimport LANES, Runs, write_runs, write_sector_runs
from rdmodel.trace._output cimport Output, add_gaps, flags_of, is_load, leaves, write_lines

cdef enum:
    SHORT_BODY = 512         # longest loop body that is analysed once and not in every iteration


cdef struct Planned:
    # An instruction of a short loop body, analysed once for one warp.
    int64_t place         # in the body
    Runs runs             # in the first trip
    int64_t step
    int64_t width
    uint64_t needs
    int32_t gap, pc
    uint8_t op, size, lanes, space
    uint32_t mask
    bint barrier          # dropped, but its gap is carried on
    bint lines
    bint past             # a load that does not look into the L1
    uint8_t loop_exit


cdef struct Reading:
    # How a stream is read, as far as plans depend on it.
    int64_t rule, line_bits, sector_bits, request_bytes
    bint masks, full, details, barriers


cdef inline Reading reading_of(int64_t rule, const Output* out) noexcept nogil:
    return Reading(
        rule, out.line_bits, out.sector_bits if out.sectors else -1, out.request_bytes, out.masks != NULL,
        out.full != NULL, out.flags != NULL, out.barriers,
    )


cdef inline bint same_reading(const Reading* a, const Reading* b) noexcept nogil:
    return (
        a.rule == b.rule and a.line_bits == b.line_bits and a.sector_bits == b.sector_bits
        and a.request_bytes == b.request_bytes and a.masks == b.masks and a.full == b.full and a.details == b.details
        and a.barriers == b.barriers
    )


cdef inline int64_t gather_lines(const Planned* p, const int64_t[:, :] base, int64_t shift, const Output* out) noexcept nogil:
    cdef int64_t[32] address
    cdef int64_t lane
    for lane in range(LANES):
        address[lane] = base[p.place, lane] + shift
    return write_lines(p.op, address, p.mask, p.size, p.width, out)


cdef inline int64_t write_planned_runs(const Planned* p, int64_t shift, const Output* out) noexcept nogil:
    # Write the lines of runs, and the masks of their sectors.
    cdef int64_t i, count
    cdef bint full = out.full != NULL and not is_load(p.op)
    count = write_sector_runs(
        &p.runs, shift, out.line_bits, out.sector_bits, out.lines + out.used, out.masks + out.used,
        out.full + out.used if full else NULL,
    )
    if out.full != NULL and not full:
        for i in range(out.used, out.used + count):
            out.full[i] = 0
    return count


cdef inline void fill_up(void* array, int64_t begun, int64_t period, int64_t count, size_t size) noexcept nogil:
    # Repeat the `period` items before item `begun`, until there are `count` more. They are doubled from copy to copy.
    cdef char* first = <char*> array + <size_t> (begun - period) * size
    cdef int64_t done = period, more
    while done < period + count:
        more = min(done, period + count - done)
        memcpy(first + <size_t> done * size, first, <size_t> more * size)
        done += more


cdef inline int64_t most_lines(const Planned* plan, int64_t planned, int64_t line_bits) noexcept nogil:
    # Return the most lines of an iteration; -1: they have to be looked for lane by lane, or a barrier was dropped.
    cdef int64_t i, k, most = 0 if planned > 0 else -1
    for k in range(planned):
        if plan[k].barrier or plan[k].lines and plan[k].runs.count == 0:
            return -1
        if plan[k].lines:
            for i in range(plan[k].runs.count):
                most += (plan[k].runs.last[i] - plan[k].runs.first[i] >> line_bits) + 2
    return most


cdef inline int64_t copy_trips(
    const Planned* plan, int64_t planned, int64_t trip, int64_t trips, int64_t most, const int64_t* moves, Output* out,
) noexcept nogil:
    # Write the iterations from `trip` on for which there is room, but the last one of the loop: they differ in nothing but
    # their lines from the iteration that was written before. Return the first one that is left.
    cdef int64_t end = min(trips - 1, trip + (out.room - out.n) // planned), n = out.n, count, k, used = out.used
    cdef const Planned* p
    cdef int32_t* counts = out.count
    cdef int64_t* lines = out.lines
    if most > 0 and used <= out.line_room:
        end = min(end, trip + (out.line_room - used) // most)
    count = (end - trip) * planned
    if count <= 0 or used > out.line_room:
        return trip
    fill_up(out.op, n, planned, count, sizeof(uint8_t))
    fill_up(out.needs, n, planned, count, sizeof(uint64_t))
    fill_up(out.gap, n, planned, count, sizeof(int32_t))
    if out.pc != NULL:
        fill_up(out.pc, n, planned, count, sizeof(int32_t))
    if out.flags != NULL:
        fill_up(out.lanes, n, planned, count, sizeof(uint8_t))
        fill_up(out.flags, n, planned, count, sizeof(uint8_t))
    out.n += count
    while trip < end:
        for k in range(planned):
            p = &plan[k]
            count = 0
            if p.lines:
                count = write_runs(
                    &p.runs, trip * p.step + (moves[p.place] if moves != NULL else 0), out.line_bits, lines + used
                )
            counts[n] = <int32_t> count
            used += count
            n += 1
        trip += 1
    out.used = used
    return trip


cdef inline int64_t repeat_plan(
    const Planned* plan, int64_t planned, int64_t body, int64_t trips, const int64_t[:, :] base, const int64_t* moves,
    int64_t position, Output* out,
) noexcept nogil:
    # Append the planned instructions, trip by trip from `position` on, while there is room; return the new position.
    # Instruction i is moved by ``moves[i]`` bytes (NULL: none is). Bytes that are written could be any field of `out`, so
    # what each instruction needs of it is kept in local variables.
    cdef int64_t trip = position // body, k = 0, count, shift, n = out.n, used = out.used, carry = out.carry
    cdef int64_t room = out.room, line_room = out.line_room, line_bits = out.line_bits
    cdef bint whole_lines = not out.sectors, last
    cdef uint8_t* op = out.op
    cdef uint64_t* needs = out.needs
    cdef int32_t* gap = out.gap
    cdef int32_t* counts = out.count
    cdef int32_t* pc = out.pc
    cdef uint8_t* lanes = out.lanes
    cdef uint8_t* flags = out.flags
    cdef int64_t* lines = out.lines
    cdef int64_t most = -1 if out.sectors or trips - trip < 3 else most_lines(plan, planned, line_bits)
    cdef bint whole
    cdef const Planned* p
    while k < planned and plan[k].place < position % body:
        k += 1
    position = body * trips
    while trip < trips:
        whole = k == 0 and carry == 0
        last = trip == trips - 1
        while k < planned:
            p = &plan[k]
            if p.barrier:
                carry += p.gap
                k += 1
                continue
            if n >= room or used > line_room:
                position = trip * body + p.place
                trip = trips
                break
            op[n] = p.op
            needs[n] = p.needs
            gap[n] = add_gaps(p.gap, carry)
            carry = 0
            count = 0
            if p.lines:
                shift = trip * p.step + (moves[p.place] if moves != NULL else 0)
                if whole_lines and p.runs.count > 0:
                    count = write_runs(&p.runs, shift, line_bits, lines + used)
                else:
                    out.used = used
                    count = write_planned_runs(p, shift, out) if p.runs.count > 0 else gather_lines(p, base, shift, out)
            counts[n] = <int32_t> count
            used += count
            if pc != NULL:
                pc[n] = p.pc
            if flags != NULL:
                lanes[n] = p.lanes
                flags[n] = flags_of(p.space, leaves(p.loop_exit, last), p.past)
            n += 1
            k += 1
        k = 0
        trip += 1
        if whole and most >= 0 and trip < trips:
            out.n, out.used = n, used
            trip = copy_trips(plan, planned, trip, trips, most, moves, out)
            n, used = out.n, out.used
    out.n, out.used, out.carry = n, used, carry
    return position
