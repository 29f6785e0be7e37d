# Loop bodies that are analysed once for a warp, and written again for every iteration and, where blocks differ in their
# addresses only, for every block.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rdmodel.trace._lanes cimport LANES, Runs, write_runs, write_sector_runs
from rdmodel.trace._output cimport Output, add_gaps, flags_of, has_room, is_load, leaves, write_lines

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


cdef inline int64_t repeat_plan(
    const Planned* plan, int64_t planned, int64_t body, int64_t trips, const int64_t[:, :] base, const int64_t* moves,
    int64_t position, Output* out,
) noexcept nogil:
    # Append the planned instructions, trip by trip from `position` on, while there is room; return the new position.
    # Instruction i is moved by ``moves[i]`` bytes (NULL: none is).
    cdef int64_t trip = position // body, k = 0, count, shift, n
    cdef bint whole_lines = not out.sectors
    cdef const Planned* p
    while k < planned and plan[k].place < position % body:
        k += 1
    while trip < trips:
        while k < planned:
            p = &plan[k]
            if p.barrier:
                out.carry += p.gap
                k += 1
                continue
            if not has_room(out):
                return trip * body + p.place
            n = out.n
            out.op[n] = p.op
            out.needs[n] = p.needs
            out.gap[n] = add_gaps(p.gap, out.carry)
            out.carry = 0
            count = 0
            if p.lines:
                shift = trip * p.step + (moves[p.place] if moves != NULL else 0)
                if p.runs.count == 0:
                    count = gather_lines(p, base, shift, out)
                elif whole_lines:
                    count = write_runs(&p.runs, shift, out.line_bits, out.lines + out.used)
                else:
                    count = write_planned_runs(p, shift, out)
            out.count[n] = <int32_t> count
            out.used += count
            if out.pc != NULL:
                out.pc[n] = p.pc
            if out.flags != NULL:
                out.lanes[n] = p.lanes
                out.flags[n] = flags_of(p.space, leaves(p.loop_exit, trip == trips - 1), p.past)
            out.n = n + 1
            k += 1
        k = 0
        trip += 1
    return body * trips
