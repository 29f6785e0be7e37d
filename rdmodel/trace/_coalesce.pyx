# The door from lane addresses to transactions. All checks are made in rdmodel.trace before an array gets here.
"""Compiled coalescing: warp instructions in, the cache lines that they request out."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    LANES = 32
    ELSEWHERE = 2     # rdmodel.trace: constants and textures have caches of their own
    MOST_GAP = 2147483647
    SHORT_BODY = 512   # loop bodies up to this length are looked at once, not in every iteration
    SECTOR_BITS = 5
    EVERY = 2         # rdmodel.trace: a loop is left in every iteration, not in the last one only
    LOAD = 0
    STORE = 1
    BARRIER = 3

# What happens to stores and atomics: rdmodel.trace.coalescing names these rules.
cdef enum:
    RULE_DROP = 0
    RULE_KEEP = 1
    RULE_LINES = 2
    RULE_AS_LOAD = 3
    RULE_MACHINE = 4
    RULE_MACHINE_LOADS = 5

# What `out_flags` holds.
cdef enum:
    FLAG_LOCAL = 1
    FLAG_LOOP_EXIT = 2
    LOCAL = 1         # rdmodel.trace.Space


cdef inline int64_t group_lanes(int64_t size) noexcept nogil:
    # CUDA guide G.4.2: up to 4 bytes per lane a whole warp, 8 a half-warp, 16 a quarter-warp.
    if size <= 4:
        return 32
    return 16 if size <= 8 else 8


cdef inline int64_t add_line(int64_t line, int64_t* group, int64_t found, int64_t* top) noexcept nogil:
    """Append `line` to the group's `found` lines unless it is there; lines that rise need no search."""
    cdef int64_t i
    if found > 0 and line <= top[0]:
        i = found - 1
        while i >= 0:
            if group[i] == line:
                return found
            i -= 1
    else:
        top[0] = line
    group[found] = line
    return found + 1


cdef int64_t coalesce_warp(
    const int64_t* address, uint32_t mask, int64_t size, int64_t line_bits, int64_t* out
) noexcept nogil:
    """Write the lines of one instruction (32 lane addresses, inactive ones unread) to `out`; return how many."""
    cdef int64_t width = group_lanes(size)
    cdef int64_t lane, line, last, found = 0, total = 0, top = 0
    for lane in range(LANES):
        if lane % width == 0:
            total += found
            found = 0
        if not (mask >> lane) & 1:
            continue
        line = address[lane] >> line_bits
        last = (address[lane] + size - 1) >> line_bits
        found = add_line(line, out + total, found, &top)
        while line < last:
            line += 1
            found = add_line(line, out + total, found, &top)
    return total + found


cdef inline uint32_t sectors_of(int64_t first, int64_t last, int64_t line, int64_t line_bits) noexcept nogil:
    """Return which sectors of a line the bytes `first` to `last` touch: bit s is its s-th 32 bytes."""
    cdef int64_t begin = line << line_bits, end = begin + (<int64_t> 1 << line_bits) - 1
    cdef int64_t low = ((first if first > begin else begin) - begin) >> SECTOR_BITS
    cdef int64_t high = ((last if last < end else end) - begin) >> SECTOR_BITS
    return <uint32_t> (((<uint64_t> 2 << high) - (<uint64_t> 1 << low)) & <uint64_t> 0xffffffff)


cdef int64_t coalesce_masks(
    const int64_t* address, uint32_t mask, int64_t size, int64_t line_bits, bint sectors, int64_t* out, uint32_t* masks
) noexcept nogil:
    """As `coalesce_warp`, and write to `masks` which lanes asked for each of the lines, or for which of its sectors."""
    cdef int64_t width = group_lanes(size)
    cdef int64_t lane, line, last, i, first = 0, total = 0
    for lane in range(LANES):
        if lane % width == 0:
            first = total
        if not (mask >> lane) & 1:
            continue
        last = address[lane] + size - 1
        for line in range(address[lane] >> line_bits, (last >> line_bits) + 1):
            i = first
            while i < total and out[i] != line:
                i += 1
            if i == total:
                out[total] = line
                masks[total] = 0
                total += 1
            if sectors:
                masks[i] |= sectors_of(address[lane], last, line, line_bits)
            else:
                masks[i] |= <uint32_t> 1 << lane
    return total


cdef bint rises_gently(
    const int64_t[:] address, uint32_t mask, int64_t size, int64_t line, int64_t* first, int64_t* last
) noexcept nogil:
    """Tell whether a warp's lanes ascend by at most a line each, and point at the first and the last address.

    Then the instruction requests every line from the first to the last, in that order, wherever a loop moves it.
    """
    cdef int64_t lane, before = -1
    if size > 4:
        return False
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        if before < 0:
            first[0] = address[lane]
        elif address[lane] < before or address[lane] - before > line:
            return False
        before = address[lane]
    last[0] = before + size - 1
    return before >= 0


cdef inline int64_t write_run(int64_t first, int64_t last, int64_t line_bits, int64_t* out) noexcept nogil:
    cdef int64_t line = first >> line_bits, end = last >> line_bits, count = 0
    while line <= end:
        out[count] = line
        line += 1
        count += 1
    return count


cdef inline int32_t add_gaps(int64_t gap, int64_t carry) noexcept nogil:
    return <int32_t> (gap + carry) if gap + carry < MOST_GAP else <int32_t> MOST_GAP


cdef inline bint vanishes(uint8_t op, uint8_t space, int64_t rule) noexcept nogil:
    if op == BARRIER:
        return rule < RULE_MACHINE
    return rule == RULE_DROP and (op != LOAD or space >= ELSEWHERE)


cdef inline bint wants_lines(uint8_t op, uint8_t space, int64_t rule) noexcept nogil:
    if space >= ELSEWHERE or op == BARRIER:
        return False
    return op == LOAD or (RULE_LINES <= rule <= RULE_MACHINE)


cdef inline uint8_t acts_as(uint8_t op, uint8_t space, int64_t rule) noexcept nogil:
    # What is served elsewhere keeps its place and waits for its needs, as a store does.
    if op == BARRIER:
        return BARRIER
    if space >= ELSEWHERE:
        return STORE
    return LOAD if rule == RULE_AS_LOAD else op


cdef inline int64_t count_lanes(uint32_t x) noexcept nogil:
    # By hand, as `popcount` in _tree.pxd: the builtin may be a function call.
    x -= (x >> 1) & <uint32_t> 0x55555555
    x = (x & <uint32_t> 0x33333333) + ((x >> 2) & <uint32_t> 0x33333333)
    return (((x + (x >> 4)) & <uint32_t> 0x0f0f0f0f) * <uint32_t> 0x01010101) >> 24


cdef inline uint8_t flags_of(uint8_t space, bint loop_exit) noexcept nogil:
    return (FLAG_LOCAL if space == LOCAL else 0) | (FLAG_LOOP_EXIT if loop_exit else 0)


cdef inline bint leaves(uint8_t loop_exit, bint last) noexcept nogil:
    return loop_exit == EVERY or loop_exit != 0 and last


cdef struct Planned:
    # An instruction of a short loop body, looked at once for one warp.
    int64_t place         # in the body
    int64_t first, last   # addresses in the first trip, if they rise gently
    int64_t step
    uint64_t needs
    int32_t gap, pc
    uint8_t op, size, lanes, space
    uint32_t mask
    bint barrier          # it vanishes, the time before it does not
    bint lines, gentle
    uint8_t loop_exit


cdef struct Output:
    # Where instructions go: pointers to columns, how much is there, and how much fits.
    uint8_t* op
    uint64_t* needs
    int32_t* gap
    int32_t* count
    int64_t* lines
    int32_t* pc           # NULL: without details
    uint8_t* lanes
    uint8_t* flags
    int64_t n, used, carry
    int64_t room, line_room


cdef int64_t plan_body(
    const int32_t[:] pc, const uint8_t[:] op, const uint8_t[:] space, const uint8_t[:] size, const int32_t[:] gap,
    const uint8_t[:] loop_exit, const int64_t[:] step,
    const uint64_t[:] needs, const uint32_t[:] mask, const int64_t[:, :] base, int64_t rule, int64_t line_bits,
    Planned* plan,
) noexcept nogil:
    """Write what is left of one warp's loop body to `plan`; return how many instructions, barriers included."""
    cdef int64_t i, planned = 0
    cdef Planned* p
    for i in range(op.shape[0]):
        p = &plan[planned]
        p.barrier = vanishes(op[i], space[i], rule)
        if mask[i] == 0 or p.barrier and op[i] != BARRIER:
            continue
        p.place, p.step, p.needs, p.gap, p.pc = i, step[i], needs[i], gap[i], pc[i]
        p.size, p.space, p.mask, p.lanes = size[i], space[i], mask[i], <uint8_t> count_lanes(mask[i])
        p.op, p.loop_exit = acts_as(op[i], space[i], rule), loop_exit[i]
        p.lines = wants_lines(op[i], space[i], rule)
        p.gentle = p.lines and rises_gently(
            base[i], p.mask, p.size, <int64_t> 1 << line_bits, &p.first, &p.last
        )
        planned += 1
    return planned


cdef int64_t gather_lines(
    const Planned* p, const int64_t[:, :] base, int64_t shift, int64_t line_bits, int64_t* out
) noexcept nogil:
    cdef int64_t[32] address
    cdef int64_t lane
    for lane in range(LANES):
        address[lane] = base[p.place, lane] + shift
    return coalesce_warp(address, p.mask, p.size, line_bits, out)


cdef int64_t repeat_plan(
    const Planned* plan, int64_t planned, int64_t body, int64_t trips, const int64_t[:, :] base,
    int64_t position, int64_t line_bits, Output* out,
) noexcept nogil:
    """Append what is planned, trip after trip from `position` on, while there is room; return the new position."""
    cdef int64_t trip = position // body, k = 0, count, shift
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
            if out.n >= out.room or out.used > out.line_room:
                return trip * body + p.place
            out.op[out.n] = p.op
            out.needs[out.n] = p.needs
            out.gap[out.n] = add_gaps(p.gap, out.carry)
            out.carry = 0
            count = 0
            shift = trip * p.step
            if p.gentle:
                count = write_run(p.first + shift, p.last + shift, line_bits, out.lines + out.used)
            elif p.lines:
                count = gather_lines(p, base, shift, line_bits, out.lines + out.used)
            out.count[out.n] = <int32_t> count
            out.used += count
            if out.pc != NULL:
                out.pc[out.n] = p.pc
                out.lanes[out.n] = p.lanes
                out.flags[out.n] = flags_of(p.space, leaves(p.loop_exit, trip == trips - 1))
            out.n += 1
            k += 1
        k = 0
        trip += 1
    return body * trips


def coalesce_segment(
    const int32_t[:] pc, const uint8_t[:] op, const uint8_t[:] space, const uint8_t[:] size, const int32_t[:] gap,
    const uint8_t[:] loop_exit, const int64_t[:] step,
    const uint64_t[:, :] needs, const uint32_t[:, :] mask, const int64_t[:, :, :] base,
    int64_t warp, int64_t position, int64_t trips, int64_t rule, int64_t line_bits, int64_t most_lines,
    uint8_t[::1] out_op, uint64_t[::1] out_needs, int32_t[::1] out_gap, int32_t[::1] out_count, int64_t[::1] out_lines,
    int32_t[::1] out_pc, uint8_t[::1] out_lanes, uint8_t[::1] out_flags, uint32_t[::1] out_masks,
    bint sectors, int64_t n, int64_t used, int64_t carry,
):
    """Append one warp's instructions of a loop segment, from `position` (trip x body + instruction) on.

    Stops at the end of the segment or when the output might not hold one more instruction, which has at most
    `most_lines` lines. Returns (new position, n, used, carry); n counts instructions, `used` lines, `carry` the
    gaps of barriers, which go to the next instruction: barriers vanish, the time before them does not. What only
    the simulator reads (pc, active lanes, flags) is written if `out_pc` has room, and the lanes that asked for each
    line, or with `sectors` which 32-byte sectors of it they asked for (lines of 32 to 1024 bytes), if `out_masks` has.
    """
    cdef int64_t body = op.shape[0], end = body * trips, i, trip, lane, count, planned = 0
    cdef int64_t room = out_op.shape[0], line_room = out_lines.shape[0]
    cdef int64_t[32] address
    cdef Planned[SHORT_BODY] plan
    cdef Output out
    cdef bint details = out_pc.shape[0] > 0, masks = out_masks.shape[0] > 0
    cdef uint32_t active = 0
    for i in range(body):
        active |= mask[warp, i]
    if active == 0:
        return end, n, used, carry
    if body <= SHORT_BODY and trips > 1 and not masks and room > 0 and line_room >= most_lines:
        out = Output(
            &out_op[0], &out_needs[0], &out_gap[0], &out_count[0], &out_lines[0],
            NULL, NULL, NULL, n, used, carry, room, line_room - most_lines,
        )
        if details:
            out.pc, out.lanes, out.flags = &out_pc[0], &out_lanes[0], &out_flags[0]
        with nogil:
            planned = plan_body(
                pc, op, space, size, gap, loop_exit, step, needs[warp], mask[warp], base[warp], rule, line_bits, plan
            )
            position = repeat_plan(plan, planned, body, trips, base[warp], position, line_bits, &out)
        return position, out.n, out.used, out.carry
    with nogil:
        while position < end and n < room and used + most_lines <= line_room:
            i = position % body
            trip = position // body
            position += 1
            active = mask[warp, i]
            if active == 0:
                continue
            if vanishes(op[i], space[i], rule):
                if op[i] == BARRIER:
                    carry += gap[i]
                continue
            count = 0
            if wants_lines(op[i], space[i], rule):
                for lane in range(LANES):
                    address[lane] = base[warp, i, lane] + trip * step[i]
                if masks:
                    count = coalesce_masks(
                        address, active, size[i], line_bits, sectors, &out_lines[used], &out_masks[used]
                    )
                else:
                    count = coalesce_warp(address, active, size[i], line_bits, &out_lines[used])
            out_op[n] = acts_as(op[i], space[i], rule)
            out_needs[n] = needs[warp, i]
            out_gap[n] = add_gaps(gap[i], carry)
            carry = 0
            out_count[n] = <int32_t> count
            if details:
                out_pc[n] = pc[i]
                out_lanes[n] = <uint8_t> count_lanes(active)
                out_flags[n] = flags_of(space[i], leaves(loop_exit[i], trip == trips - 1))
            used += count
            n += 1
    return position, n, used, carry


def coalesce_columns(
    const int32_t[::1] pc, const uint8_t[::1] op, const uint8_t[::1] space, const uint8_t[::1] size,
    const int32_t[::1] gap, const uint8_t[::1] loop_exit,
    const uint64_t[::1] needs, const uint32_t[::1] mask, const int64_t[::1] address_start, const int64_t[::1] addresses,
    int64_t position, int64_t end, int64_t rule, int64_t line_bits, int64_t most_lines,
    uint8_t[::1] out_op, uint64_t[::1] out_needs, int32_t[::1] out_gap, int32_t[::1] out_count, int64_t[::1] out_lines,
    int32_t[::1] out_pc, uint8_t[::1] out_lanes, uint8_t[::1] out_flags, uint32_t[::1] out_masks,
    bint sectors, int64_t n, int64_t used, int64_t carry,
):
    """Append the instructions `position` to `end` of a column trace; limits and result as `coalesce_segment`."""
    cdef int64_t i, lane, at, count
    cdef bint details = out_pc.shape[0] > 0, masks = out_masks.shape[0] > 0
    cdef int64_t room = out_op.shape[0], line_room = out_lines.shape[0]
    cdef int64_t[32] address
    with nogil:
        while position < end and n < room and used + most_lines <= line_room:
            i = position
            position += 1
            if vanishes(op[i], space[i], rule):
                if op[i] == BARRIER:
                    carry += gap[i]
                continue
            count = 0
            if wants_lines(op[i], space[i], rule):
                at = address_start[i]
                for lane in range(LANES):
                    if (mask[i] >> lane) & 1:
                        address[lane] = addresses[at]
                        at += 1
                if masks:
                    count = coalesce_masks(
                        address, mask[i], size[i], line_bits, sectors, &out_lines[used], &out_masks[used]
                    )
                else:
                    count = coalesce_warp(address, mask[i], size[i], line_bits, &out_lines[used])
            out_op[n] = acts_as(op[i], space[i], rule)
            out_needs[n] = needs[i]
            out_gap[n] = add_gaps(gap[i], carry)
            carry = 0
            out_count[n] = <int32_t> count
            if details:
                out_pc[n] = pc[i]
                out_lanes[n] = <uint8_t> count_lanes(mask[i])
                out_flags[n] = flags_of(space[i], loop_exit[i])
            used += count
            n += 1
    return position, n, used, carry
