# Arrays are checked in rdmodel.trace before they get here.
"""Coalesce warp instructions into the cache lines that they request."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rdmodel.trace._lanes cimport (
    LANES,
    Runs,
    coalesce_lanes,
    coalesce_sectors,
    coalesce_warp,
    find_runs,
    group_lanes,
    write_runs,
    write_sector_runs,
)

cdef enum:
    FIRST_NON_L1_SPACE = 2   # as in rdmodel.trace: constants and textures have their own caches
    EVERY_ITERATION = 2      # as in rdmodel.trace: the warp leaves the loop in every iteration, not only in the last
    MAX_GAP = 2147483647
    SHORT_BODY = 512         # longest loop body that is analysed once and not in every iteration
    LOAD = 0
    STORE = 1
    BARRIER = 3
    BYPASS = 4               # as in rdmodel.trace.coalescing: a load that does not look into the L1
    CACHE_OPS = 32           # as in rdmodel.trace.cache_ops

# Treatment of stores and atomics: rdmodel.trace.coalescing.StoreRule.
cdef enum:
    RULE_DROP = 0
    RULE_KEEP = 1
    RULE_LINES = 2
    RULE_AS_LOAD = 3
    RULE_MACHINE = 4
    RULE_MACHINE_LOADS = 5

# Bits of `ChunkBuffers` flags.
cdef enum:
    FLAG_LOCAL = 1
    FLAG_LOOP_EXIT = 2
    FLAG_PAST_L1 = 4
    LOCAL = 1         # rdmodel.trace.Space


cdef inline int32_t add_gaps(int64_t gap, int64_t carry) noexcept nogil:
    return <int32_t> (gap + carry) if gap + carry < MAX_GAP else <int32_t> MAX_GAP


cdef inline bint vanishes(uint8_t op, uint8_t space, int64_t rule, bint barriers) noexcept nogil:
    if op == BARRIER:
        return rule < RULE_MACHINE and not barriers
    return rule == RULE_DROP and (op != LOAD or space >= FIRST_NON_L1_SPACE)


cdef inline bint wants_lines(uint8_t op, uint8_t space, int64_t rule) noexcept nogil:
    if space >= FIRST_NON_L1_SPACE or op == BARRIER:
        return False
    return op == LOAD or (RULE_LINES <= rule <= RULE_MACHINE)


cdef inline uint8_t acts_as(uint8_t op, uint8_t space, int64_t rule) noexcept nogil:
    # An access that does not go through the L1 keeps its place and waits for its needs, as a store does.
    if op == BARRIER:
        return BARRIER
    if space >= FIRST_NON_L1_SPACE:
        return STORE
    return LOAD if rule == RULE_AS_LOAD else op


cdef inline bint is_load(uint8_t op) noexcept nogil:
    return op == LOAD or op == BYPASS


cdef inline bint goes_past(uint8_t op, uint8_t space, uint8_t cache_op, const uint8_t* bypass) noexcept nogil:
    # Return whether a load does not look into the L1; `bypass` is NULL if there is none.
    return op == LOAD and bypass != NULL and bypass[space * CACHE_OPS + cache_op]


cdef inline int64_t count_lanes(uint32_t x) noexcept nogil:
    # Written out, as `popcount` in _tree.pxd: the builtin may be a function call.
    x -= (x >> 1) & <uint32_t> 0x55555555
    x = (x & <uint32_t> 0x33333333) + ((x >> 2) & <uint32_t> 0x33333333)
    return (((x + (x >> 4)) & <uint32_t> 0x0f0f0f0f) * <uint32_t> 0x01010101) >> 24


cdef inline uint8_t flags_of(uint8_t space, bint loop_exit, bint past) noexcept nogil:
    return (
        (FLAG_LOCAL if space == LOCAL else 0) | (FLAG_LOOP_EXIT if loop_exit else 0) | (FLAG_PAST_L1 if past else 0)
    )


cdef inline bint leaves(uint8_t loop_exit, bint last) noexcept nogil:
    return loop_exit == EVERY_ITERATION or loop_exit != 0 and last


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


cdef struct Output:
    # Pointers to the buffers of a chunk, their fill levels and their limits.
    uint8_t* op
    uint64_t* needs
    int32_t* gap
    int32_t* count
    int64_t* lines
    int32_t* pc           # NULL: without pcs
    uint8_t* lanes
    uint8_t* flags
    uint32_t* masks       # NULL: without masks
    uint32_t* full        # NULL: without sectors that stores write in full
    const uint8_t* bypass # by space and cache operator: loads that do not look into the L1; NULL: there are none
    int64_t line_bits, sector_bits, request_bytes
    bint sectors          # masks of sectors, not of lanes
    bint barriers         # barriers are kept under every rule
    int64_t n, used, carry
    int64_t room, line_room   # instructions; lines that may be used before another instruction


cdef inline bint has_room(const Output* out) noexcept nogil:
    return out.n < out.room and out.used <= out.line_room


cdef inline bint absorb(uint8_t op, uint8_t space, int64_t gap, int64_t rule, Output* out) noexcept nogil:
    """Return whether an instruction vanishes; the gap of a barrier that does is carried to the next instruction."""
    if not vanishes(op, space, rule, out.barriers):
        return False
    if op == BARRIER:
        out.carry += gap
    return True


cdef inline int64_t write_lines(
    uint8_t op, const int64_t* address, uint32_t mask, int64_t size, int64_t width, const Output* out
) noexcept nogil:
    """Write the lines of one instruction, and their masks, behind the lines in use; return their number."""
    cdef int64_t* lines = out.lines + out.used
    cdef uint32_t* full
    cdef int64_t i, count
    if out.masks == NULL:
        return coalesce_warp(address, mask, size, width, out.line_bits, lines)
    if not out.sectors:
        return coalesce_lanes(address, mask, size, width, out.line_bits, lines, out.masks + out.used)
    full = NULL if out.full == NULL or is_load(op) else out.full + out.used
    count = coalesce_sectors(
        address, mask, size, width, out.line_bits, out.sector_bits, lines, out.masks + out.used, full
    )
    if out.full != NULL and is_load(op):
        for i in range(out.used, out.used + count):
            out.full[i] = 0
    return count


cdef inline void append(
    int32_t pc, uint8_t op, uint8_t space, uint8_t size, int64_t gap, bint loop_exit, uint64_t needs, uint32_t mask,
    uint8_t cache_op, const int64_t* address, int64_t rule, Output* out,
) noexcept nogil:
    """Write one instruction and its lines; `address` is read only if the instruction has lines."""
    cdef int64_t count = 0
    cdef bint past = goes_past(acts_as(op, space, rule), space, cache_op, out.bypass)
    out.op[out.n] = BYPASS if past and out.flags == NULL else acts_as(op, space, rule)
    if wants_lines(op, space, rule):
        count = write_lines(out.op[out.n], address, mask, size, group_lanes(size, out.request_bytes), out)
    out.needs[out.n] = needs
    out.gap[out.n] = add_gaps(gap, out.carry)
    out.carry = 0
    out.count[out.n] = <int32_t> count
    if out.pc != NULL:
        out.pc[out.n] = pc
    if out.flags != NULL:
        out.lanes[out.n] = <uint8_t> count_lanes(mask)
        out.flags[out.n] = flags_of(space, loop_exit, past)
    out.used += count
    out.n += 1


cdef int64_t plan_body(
    SegmentBuffers of, int64_t warp, int64_t rule, const Output* out, Planned* plan
) noexcept nogil:
    """Write one warp's loop body without dropped instructions to `plan`; return the number of entries, with barriers."""
    cdef int64_t i, hole, planned = 0, unit = <int64_t> 1 << (out.sector_bits if out.sectors else out.line_bits)
    cdef Planned* p
    for i in range(of.op.shape[0]):
        p = &plan[planned]
        p.barrier = vanishes(of.op[i], of.space[i], rule, out.barriers)
        if of.mask[warp, i] == 0 or p.barrier and of.op[i] != BARRIER:
            continue
        p.place, p.step, p.needs, p.gap, p.pc = i, of.step[i], of.needs[warp, i], of.gap[i], of.pc[i]
        p.size, p.space, p.mask = of.size[i], of.space[i], of.mask[warp, i]
        p.lanes = <uint8_t> count_lanes(p.mask)
        p.op, p.loop_exit = acts_as(of.op[i], of.space[i], rule), of.loop_exit[i]
        p.past = goes_past(p.op, of.space[i], of.cache_op[i] if of.cache_op is not None else 0, out.bypass)
        if p.past and out.flags == NULL:
            p.op = BYPASS
        p.lines = wants_lines(of.op[i], of.space[i], rule)
        p.width = group_lanes(of.size[i], out.request_bytes)
        p.runs.count = 0
        if p.lines:
            # A run of stores has no holes if it is to show which sectors are written in full.
            hole = p.size if out.full != NULL and not is_load(p.op) else unit
            find_runs(of.base[warp, i], p.mask, p.size, p.width, hole, &p.runs)
        planned += 1
    return planned


cdef int64_t gather_lines(const Planned* p, const int64_t[:, :] base, int64_t shift, const Output* out) noexcept nogil:
    cdef int64_t[32] address
    cdef int64_t lane
    for lane in range(LANES):
        address[lane] = base[p.place, lane] + shift
    return write_lines(p.op, address, p.mask, p.size, p.width, out)


cdef inline int64_t write_planned_runs(const Planned* p, int64_t shift, const Output* out) noexcept nogil:
    cdef int64_t i, count
    cdef bint full = out.full != NULL and not is_load(p.op)
    if not out.sectors:
        return write_runs(&p.runs, shift, out.line_bits, out.lines + out.used)
    count = write_sector_runs(
        &p.runs, shift, out.line_bits, out.sector_bits, out.lines + out.used, out.masks + out.used,
        out.full + out.used if full else NULL,
    )
    if out.full != NULL and not full:
        for i in range(out.used, out.used + count):
            out.full[i] = 0
    return count


cdef int64_t repeat_plan(
    const Planned* plan, int64_t planned, int64_t body, int64_t trips, const int64_t[:, :] base,
    int64_t position, Output* out,
) noexcept nogil:
    """Append the planned instructions, trip by trip from `position` on, while there is room; return the new position."""
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
            if not has_room(out):
                return trip * body + p.place
            out.op[out.n] = p.op
            out.needs[out.n] = p.needs
            out.gap[out.n] = add_gaps(p.gap, out.carry)
            out.carry = 0
            count = 0
            shift = trip * p.step
            if p.runs.count > 0:
                count = write_planned_runs(p, shift, out)
            elif p.lines:
                count = gather_lines(p, base, shift, out)
            out.count[out.n] = <int32_t> count
            out.used += count
            if out.pc != NULL:
                out.pc[out.n] = p.pc
            if out.flags != NULL:
                out.lanes[out.n] = p.lanes
                out.flags[out.n] = flags_of(p.space, leaves(p.loop_exit, trip == trips - 1), p.past)
            out.n += 1
            k += 1
        k = 0
        trip += 1
    return body * trips


cdef class ChunkBuffers:
    """Output buffers of coalescing, and how much of them is filled: `n` instructions and `used` lines.

    ``op needs gap count`` have room for every instruction, `lines` for every line. `pc`, and `lanes` with `flags`, have
    room for every instruction or are empty (they are not written); `masks` and `full` have room for every line or are
    empty.
    With `sector_bits` >= 0, a mask holds the sectors of its line, of 2^sector_bits bytes, that were requested, and
    `full` those that a store writes in full; otherwise a mask holds the lanes that requested the line. `barriers`:
    barriers are kept under every rule.
    """

    def __init__(
        self, uint8_t[::1] op, uint64_t[::1] needs, int32_t[::1] gap, int32_t[::1] count, int64_t[::1] lines,
        int32_t[::1] pc, uint8_t[::1] lanes, uint8_t[::1] flags, uint32_t[::1] masks, uint32_t[::1] full,
        int64_t sector_bits, bint barriers,
    ):
        self._op, self._needs, self._gap, self._count, self._lines = op, needs, gap, count, lines
        self._pc, self._lanes, self._flags, self._masks, self._full = pc, lanes, flags, masks, full
        self._sector_bits = sector_bits
        self._barriers = barriers
        self.n = self.used = 0


cdef inline bint can_hold(ChunkBuffers chunk, int64_t max_lines) noexcept nogil:
    """Return whether an empty chunk has room for one instruction of `max_lines` lines."""
    return chunk._op.shape[0] > 0 and chunk._lines.shape[0] >= max_lines


cdef inline Output output_of(
    ChunkBuffers chunk, int64_t carry, int64_t max_lines, int64_t line_bits, int64_t request_bytes,
    const uint8_t[::1] bypass,
) noexcept nogil:
    """Return pointers to the buffers; `can_hold` must be true."""
    cdef Output out = Output(
        &chunk._op[0], &chunk._needs[0], &chunk._gap[0], &chunk._count[0], &chunk._lines[0], NULL, NULL, NULL, NULL,
        NULL, NULL, line_bits, max(chunk._sector_bits, 0), request_bytes, chunk._sector_bits >= 0, chunk._barriers,
        chunk.n, chunk.used, carry, chunk._op.shape[0], chunk._lines.shape[0] - max_lines,
    )
    if chunk._pc.shape[0] > 0:
        out.pc = &chunk._pc[0]
    if chunk._flags.shape[0] > 0:
        out.lanes, out.flags = &chunk._lanes[0], &chunk._flags[0]
    if chunk._masks.shape[0] > 0:
        out.masks = &chunk._masks[0]
    if chunk._full.shape[0] > 0:
        out.full = &chunk._full[0]
    if bypass is not None:
        out.bypass = &bypass[0]
    return out


cdef class SegmentBuffers:
    """The columns of a `Segment`, opened once for all warps and chunks."""

    def __init__(self, segment):
        self.pc, self.op, self.space, self.size = segment.pc, segment.op, segment.space, segment.size
        self.gap, self.loop_exit, self.step = segment.gap, segment.loop_exit.view("u1"), segment.step
        self.needs, self.mask, self.base, self.cache_op = segment.needs, segment.mask, segment.base, segment.cache_op
        self.end = self.op.shape[0] * <int64_t> segment.trips


cdef int64_t fill_from_segment(
    SegmentBuffers segment, int64_t warp, int64_t position, int64_t rule, int64_t line_bits, int64_t request_bytes,
    int64_t max_lines, ChunkBuffers chunk, int64_t* carry, const uint8_t[::1] bypass,
) noexcept:
    """Append one warp's instructions of a segment to `chunk`, from `position` (trip x body + instruction) on.

    Stops at the end of the segment, or when the chunk might not hold one more instruction, which has at most
    `max_lines` lines. Returns the new position. `carry` is the sum of the gaps of barriers; it goes to the next
    instruction, because barriers that are dropped leave the time before them. A line has at most 32 sectors.
    `request_bytes`, a power of two, are the bytes that a group of lanes may access. `bypass` tells by space and cache
    operator which loads do not look into the L1: they become BYPASS; None: none.
    """
    cdef const int32_t[:] pc = segment.pc
    cdef const uint8_t[:] op = segment.op
    cdef const uint8_t[:] space = segment.space
    cdef const uint8_t[:] size = segment.size
    cdef const int32_t[:] gap = segment.gap
    cdef const uint8_t[:] loop_exit = segment.loop_exit
    cdef const int64_t[:] step = segment.step
    cdef const uint64_t[:, :] needs = segment.needs
    cdef const uint32_t[:, :] mask = segment.mask
    cdef const int64_t[:, :, :] base = segment.base
    cdef const uint8_t[:] cache_op = segment.cache_op
    cdef int64_t body = op.shape[0], end = segment.end, trips = end // body if body else 0, i, trip, lane, planned
    cdef int64_t[32] address
    cdef Planned[SHORT_BODY] plan
    cdef Output out
    cdef uint32_t active = 0
    for i in range(body):
        active |= mask[warp, i]
    if active == 0:
        return end
    out = output_of(chunk, carry[0], max_lines, line_bits, request_bytes, bypass)
    with nogil:
        if body <= SHORT_BODY and trips > 1 and (out.masks == NULL or out.sectors):
            planned = plan_body(segment, warp, rule, &out, plan)
            position = repeat_plan(plan, planned, body, trips, base[warp], position, &out)
        else:
            while position < end and has_room(&out):
                i = position % body
                trip = position // body
                position += 1
                active = mask[warp, i]
                if active == 0 or absorb(op[i], space[i], gap[i], rule, &out):
                    continue
                if wants_lines(op[i], space[i], rule):
                    for lane in range(LANES):
                        address[lane] = base[warp, i, lane] + trip * step[i]
                append(
                    pc[i], op[i], space[i], size[i], gap[i], leaves(loop_exit[i], trip == trips - 1),
                    needs[warp, i], active, cache_op[i] if cache_op is not None else 0, address, rule, &out,
                )
    chunk.n, chunk.used, carry[0] = out.n, out.used, out.carry
    return position


cdef int64_t fill_from_columns(
    columns, int64_t position, int64_t end, int64_t rule, int64_t line_bits, int64_t request_bytes,
    int64_t max_lines, ChunkBuffers chunk, int64_t* carry, const uint8_t[::1] bypass,
) except -1:
    """Append the instructions `position` to `end` of `Columns` to `chunk`; limits and result as `fill_from_segment`."""
    cdef const int32_t[::1] pc = columns.pc
    cdef const uint8_t[::1] op = columns.op
    cdef const uint8_t[::1] space = columns.space
    cdef const uint8_t[::1] size = columns.size
    cdef const int32_t[::1] gap = columns.gap
    cdef const uint8_t[::1] loop_exit = columns.loop_exit.view("u1")
    cdef const uint64_t[::1] needs = columns.needs
    cdef const uint32_t[::1] mask = columns.mask
    cdef const int64_t[::1] address_start = columns.address_start
    cdef const int64_t[::1] addresses = columns.addresses
    cdef const uint8_t[::1] cache_op = columns.cache_op
    cdef int64_t i, lane, at
    cdef int64_t[32] address
    cdef Output out
    out = output_of(chunk, carry[0], max_lines, line_bits, request_bytes, bypass)
    with nogil:
        while position < end and has_room(&out):
            i = position
            position += 1
            if absorb(op[i], space[i], gap[i], rule, &out):
                continue
            if wants_lines(op[i], space[i], rule):
                at = address_start[i]
                for lane in range(LANES):
                    if (mask[i] >> lane) & 1:
                        address[lane] = addresses[at]
                        at += 1
            append(
                pc[i], op[i], space[i], size[i], gap[i], loop_exit[i], needs[i], mask[i],
                cache_op[i] if cache_op is not None else 0, address, rule, &out,
            )
    chunk.n, chunk.used, carry[0] = out.n, out.used, out.carry
    return position


cdef class StreamBuffers:
    """The instructions of one warp, coalesced chunk by chunk: of `columns` from `position` to `end`, or of a `program`.

    A list of `buffers` has an entry for each segment of the program, None until the segment is read. Pages, if not
    None, receive the ranges that were read of columns. `rows_per_pass` instructions of columns are read at a time.
    """

    def __init__(
        self, columns, int64_t position, int64_t end, program, list buffers, int64_t warp, int64_t rule,
        int64_t line_bits, int64_t request_bytes, int64_t max_lines, pages, int64_t rows_per_pass,
        const uint8_t[::1] bypass,
    ):
        assert len(buffers) == len(program)
        self.columns, self.position, self.end, self.pages = columns, position, end, pages
        self.program, self.buffers, self.warp = program, buffers, warp
        self.rule, self.line_bits, self.request_bytes, self.max_lines = rule, line_bits, request_bytes, max_lines
        self.rows_per_pass = rows_per_pass
        self.bypass = bypass
        self.segment = self.carry = 0

    def fill(self, ChunkBuffers chunk not None):
        """Replace the content of `chunk` by the next instructions; return whether more may follow."""
        return self.refill(chunk)

    cdef bint refill(self, ChunkBuffers chunk) except -1:
        cdef SegmentBuffers segment
        if not can_hold(chunk, self.max_lines):
            raise AssertionError("a chunk must hold at least one instruction")
        chunk.n = chunk.used = 0
        if self.columns is not None:
            return self._refill_from_columns(chunk)
        while self.segment < len(self.buffers):
            opened = self.buffers[self.segment]
            if opened is None:
                opened = self.buffers[self.segment] = SegmentBuffers(self.program[self.segment])
            segment = <SegmentBuffers?> opened
            self.position = fill_from_segment(
                segment, self.warp, self.position, self.rule, self.line_bits, self.request_bytes, self.max_lines,
                chunk, &self.carry, self.bypass,
            )
            if self.position != segment.end:
                return True
            self.segment += 1
            self.position = 0
        return False

    cdef bint _refill_from_columns(self, ChunkBuffers chunk) except -1:
        cdef int64_t begun, stop
        while self.position < self.end:
            begun, stop = self.position, min(self.end, self.position + self.rows_per_pass)
            self.position = fill_from_columns(
                self.columns, begun, stop, self.rule, self.line_bits, self.request_bytes, self.max_lines, chunk,
                &self.carry, self.bypass,
            )
            if self.pages is not None:
                starts = self.columns.address_start
                self.pages.read(begun, self.position, starts.item(begun), starts.item(self.position))
            if self.position < stop:
                return True
        return False
