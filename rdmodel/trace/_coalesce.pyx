# Arrays are checked in rdmodel.trace before they get here.
"""Coalesce warp instructions into the cache lines that they request."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from rdmodel.trace._lanes cimport LANES, find_runs, group_lanes
from rdmodel.trace._output cimport BARRIER, BYPASS, Output, absorb, acts_as, append, count_lanes, goes_past, has_room
from rdmodel.trace._output cimport is_load, leaves, vanishes, wants_lines
from rdmodel.trace._plans cimport SHORT_BODY, Planned, Reading, reading_of, repeat_plan, same_reading


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
    """The columns of a `Segment`, opened once for all warps and chunks, and perhaps for several blocks.

    If blocks share them, the plans of their warps are kept.
    """

    def __init__(self, segment):
        self.pc, self.op, self.space, self.size = segment.pc, segment.op, segment.space, segment.size
        self.gap, self.loop_exit, self.step = segment.gap, segment.loop_exit.view("u1"), segment.step
        self.needs, self.mask, self.base, self.cache_op = segment.needs, segment.mask, segment.base, segment.cache_op
        self.trips = segment.trips
        self.warps = self.mask.shape[0]

    def __dealloc__(self):
        cdef int64_t i, warp
        for i in range(self.readings):
            for warp in range(self.warps):
                free(self.plans[i][warp].entries)
            free(self.plans[i])

    cdef WarpPlan* plan_of(self, int64_t warp, int64_t rule, const Output* out) except? NULL:
        """Return the plan of a warp, made at the first call; NULL: none is kept.

        Plans of the first readings stay: another thread may be using them.
        """
        cdef Planned[SHORT_BODY] plan
        cdef Reading reading = reading_of(rule, out)
        cdef WarpPlan* kept
        cdef int64_t i = 0, count
        if self.op.shape[0] > SHORT_BODY or out.masks != NULL and not out.sectors or out.bypass != NULL:
            return NULL
        while i < self.readings and not same_reading(&self.reading[i], &reading):
            i += 1
        if i == MAX_READINGS:
            return NULL
        if i == self.readings:
            self.plans[i] = <WarpPlan*> calloc(<size_t> max(self.warps, 1), sizeof(WarpPlan))
            if self.plans[i] == NULL:
                raise MemoryError
            self.reading[i] = reading
            self.readings += 1
        kept = &self.plans[i][warp]
        if kept.entries == NULL:
            count = plan_body(self, warp, rule, out, plan)
            kept.entries = <Planned*> malloc(<size_t> max(count, 1) * sizeof(Planned))
            if kept.entries == NULL:
                raise MemoryError
            memcpy(kept.entries, plan, <size_t> count * sizeof(Planned))
            kept.count = count
        return kept


cdef int64_t fill_from_segment(
    SegmentBuffers segment, int64_t warp, int64_t position, int64_t trips, const int64_t* moves, int64_t rule,
    Output* out,
) except -1:
    """Append one warp's instructions of a segment, from `position` (trip x body + instruction) on; return the new one.

    Stops at the end of the segment, or when there might be no room for one more instruction. ``moves[i]`` are the bytes
    by which a block moves instruction i; NULL: the segment is that of one block. The gaps of barriers go to the next
    instruction, because barriers that are dropped leave the time before them.
    """
    cdef const WarpPlan* kept = NULL
    if moves != NULL:
        kept = segment.plan_of(warp, rule, out)
    if kept == NULL:
        return fill_unplanned(segment, warp, position, trips, moves, rule, out)
    if kept.count == 0:
        return segment.op.shape[0] * trips
    with nogil:
        return repeat_plan(
            kept.entries, kept.count, segment.op.shape[0], trips, segment.base[warp], moves, position, out
        )


cdef int64_t fill_unplanned(
    SegmentBuffers segment, int64_t warp, int64_t position, int64_t trips, const int64_t* moves, int64_t rule,
    Output* out,
) noexcept:
    """Append as `fill_from_segment`, without a plan that is kept."""
    cdef const uint8_t[:] op = segment.op
    cdef const uint8_t[:] space = segment.space
    cdef const uint8_t[:] cache_op = segment.cache_op
    cdef const uint32_t[:, :] mask = segment.mask
    cdef const int64_t[:, :, :] base = segment.base
    cdef int64_t body = op.shape[0], end = body * trips, i, trip, lane, planned, shift
    cdef int64_t[32] address
    cdef Planned[SHORT_BODY] plan
    cdef uint32_t active = 0
    for i in range(body):
        active |= mask[warp, i]
    if active == 0:
        return end
    with nogil:
        if body <= SHORT_BODY and trips > 1 and (out.masks == NULL or out.sectors):
            planned = plan_body(segment, warp, rule, out, plan)
            return repeat_plan(plan, planned, body, trips, base[warp], moves, position, out)
        while position < end and has_room(out):
            i = position % body
            trip = position // body
            position += 1
            active = mask[warp, i]
            if active == 0 or absorb(op[i], space[i], segment.gap[i], rule, out):
                continue
            if wants_lines(op[i], space[i], rule):
                shift = trip * segment.step[i] + (moves[i] if moves != NULL else 0)
                for lane in range(LANES):
                    address[lane] = base[warp, i, lane] + shift
            append(
                segment.pc[i], op[i], space[i], segment.size[i], segment.gap[i],
                leaves(segment.loop_exit[i], trip == trips - 1), segment.needs[warp, i], active,
                cache_op[i] if cache_op is not None else 0, address, rule, out,
            )
    return position


cdef int64_t fill_from_columns(columns, int64_t position, int64_t end, int64_t rule, Output* out) except -1:
    """Append the instructions `position` to `end` of `Columns`; limits and result as `fill_from_segment`."""
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
    with nogil:
        while position < end and has_room(out):
            i = position
            position += 1
            if absorb(op[i], space[i], gap[i], rule, out):
                continue
            if wants_lines(op[i], space[i], rule):
                at = address_start[i]
                for lane in range(LANES):
                    if (mask[i] >> lane) & 1:
                        address[lane] = addresses[at]
                        at += 1
            append(
                pc[i], op[i], space[i], size[i], gap[i], loop_exit[i], needs[i], mask[i],
                cache_op[i] if cache_op is not None else 0, address, rule, out,
            )
    return position


cdef class StreamBuffers:
    """The instructions of one warp, coalesced chunk by chunk: of `columns` from `position` to `end`, or of a `program`.

    A list of `buffers` has an entry for each segment of the program, None until the segment is read. If blocks share
    the program, `moves` has the bytes by which this one moves each instruction, one segment after the other, and
    `trips` the number of iterations of each segment; otherwise both are None. Pages, if not None, receive the ranges
    that were read of columns, `rows_per_pass` instructions at a time. A line has at most 32 sectors. `request_bytes`, a
    power of two, are the bytes that a group of lanes may access, `max_lines` the lines that an instruction has at most.
    `bypass` tells by space and cache operator which loads do not look into the L1: they become BYPASS; None: none.
    """

    def __init__(
        self, columns, int64_t position, int64_t end, program, list buffers, const int64_t[::1] moves,
        const int64_t[::1] trips, int64_t warp, int64_t rule, int64_t line_bits, int64_t request_bytes,
        int64_t max_lines, pages, int64_t rows_per_pass, const uint8_t[::1] bypass,
    ):
        assert len(buffers) == len(program)
        assert trips is None or trips.shape[0] == len(program)
        self.columns, self.position, self.end, self.pages = columns, position, end, pages
        self.program, self.buffers, self.moves, self.trips, self.warp = program, buffers, moves, trips, warp
        self.rule, self.line_bits, self.request_bytes, self.max_lines = rule, line_bits, request_bytes, max_lines
        self.rows_per_pass = rows_per_pass
        self.bypass = bypass
        self.segment = self.carry = self.row = 0

    def of_warps(self, int64_t warps):
        """Return a list of this stream, from its beginning, and those of the same program for the next warps."""
        cdef StreamBuffers other
        cdef int64_t warp
        assert self.columns is None
        kind = type(self)
        make = kind.__new__
        streams = [self]
        for warp in range(self.warp + 1, self.warp + warps):
            other = <StreamBuffers> make(kind)
            other.program, other.buffers, other.moves, other.trips = self.program, self.buffers, self.moves, self.trips
            other.warp, other.rule, other.line_bits = warp, self.rule, self.line_bits
            other.request_bytes, other.max_lines, other.bypass = self.request_bytes, self.max_lines, self.bypass
            streams.append(other)
        return streams

    def reread(self, list streams not None, list buffers not None, const int64_t[::1] moves, const int64_t[::1] trips):
        """Let streams begin another block, of the shared program with these `buffers`; return whether they read that.

        `streams` are this one and those of the other warps of its block; `moves` and `trips` are those of the other
        block.
        """
        cdef StreamBuffers other
        if self.buffers is not buffers:
            return False
        assert moves is not None and trips is not None and trips.shape[0] == len(buffers)
        for stream in streams:
            other = <StreamBuffers?> stream
            assert other.buffers is buffers
            other.moves, other.trips = moves, trips
            other.segment = other.position = other.carry = other.row = 0
        return True

    def fill(self, ChunkBuffers chunk not None):
        """Replace the content of `chunk` by the next instructions; return whether more may follow."""
        return self.refill(chunk)

    cdef bint refill(self, ChunkBuffers chunk) except -1:
        cdef Output out
        cdef bint more
        if not can_hold(chunk, self.max_lines):
            raise AssertionError("a chunk must hold at least one instruction")
        chunk.n = chunk.used = 0
        out = output_of(chunk, self.carry, self.max_lines, self.line_bits, self.request_bytes, self.bypass)
        more = self._refill_from_program(&out) if self.columns is None else self._refill_from_columns(&out)
        chunk.n, chunk.used, self.carry = out.n, out.used, out.carry
        return more

    cdef bint refill_timed(self, ChunkBuffers chunk, double* seconds) except -1:
        """Refill a chunk, and add the time that it takes to `seconds`."""
        cdef timespec before, after
        cdef bint more
        clock_gettime(CLOCK_MONOTONIC, &before)
        more = self.refill(chunk)
        clock_gettime(CLOCK_MONOTONIC, &after)
        seconds[0] += <double> (after.tv_sec - before.tv_sec) + 1e-9 * <double> (after.tv_nsec - before.tv_nsec)
        return more

    cdef bint _refill_from_program(self, Output* out) except -1:
        cdef SegmentBuffers segment
        cdef int64_t trips, body
        cdef const int64_t* moves = NULL
        while self.segment < len(self.buffers):
            opened = self.buffers[self.segment]
            if opened is None:
                opened = self.buffers[self.segment] = SegmentBuffers(self.program[self.segment])
            segment = <SegmentBuffers?> opened
            body, trips = segment.op.shape[0], segment.trips
            if self.trips is not None:
                trips = self.trips[self.segment]
            if body > 0 and trips > 0:
                if self.trips is not None:
                    assert self.row + body <= self.moves.shape[0]
                    moves = &self.moves[self.row]
                self.position = fill_from_segment(segment, self.warp, self.position, trips, moves, self.rule, out)
                if self.position != body * trips:
                    return True
            self.segment += 1
            self.row += body
            self.position = 0
        return False

    cdef bint _refill_from_columns(self, Output* out) except -1:
        cdef int64_t begun, stop
        while self.position < self.end:
            begun, stop = self.position, min(self.end, self.position + self.rows_per_pass)
            self.position = fill_from_columns(self.columns, begun, stop, self.rule, out)
            if self.pages is not None:
                starts = self.columns.address_start
                self.pages.read(begun, self.position, starts.item(begun), starts.item(self.position))
            if self.position < stop:
                return True
        return False
