# An instruction of a warp on its way to a chunk: the rules for its kind, the buffers that it is written to, and its lines.
# Arrays are checked in rdmodel.trace before they get here.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rdmodel.trace._lanes cimport coalesce_lanes, coalesce_sectors, coalesce_warp, group_lanes

cdef enum:
    FIRST_NON_L1_SPACE = 2   # as in rdmodel.trace: constants and textures have their own caches
    EVERY_ITERATION = 2      # as in rdmodel.trace: the warp leaves the loop in every iteration, not only in the last
    MAX_GAP = 2147483647
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
    # Return whether an instruction vanishes; the gap of a barrier that does is carried to the next instruction.
    if not vanishes(op, space, rule, out.barriers):
        return False
    if op == BARRIER:
        out.carry += gap
    return True


cdef inline int64_t write_lines(
    uint8_t op, const int64_t* address, uint32_t mask, int64_t size, int64_t width, const Output* out
) noexcept nogil:
    # Write the lines of one instruction, and their masks, behind the lines in use; return their number.
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
    # Write one instruction and its lines; `address` is read only if the instruction has lines.
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
