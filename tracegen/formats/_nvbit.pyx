# The compiled half of tracegen.formats.nvbit. The caller guarantees the sizes of the arrays; text is not trusted.
"""Parse lines of NVBit's mem_trace into warp instructions."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr

from tracegen.formats._lex cimport (
    MAX_WIDTH, find_opcode, lanes_of, line_end, pass_opcode, read_decimal, read_hex, read_hex_of_width, read_word
)

cdef enum:
    LANES = 32
    NO_ACCESS = 255             # in `op`: the instruction counts for the gap of the next one
    SHARED_WINDOW = 1 << 18     # lower addresses of an opcode with both kinds are offsets in shared memory

# Events that the caller handles; tracegen.formats.nvbit has the same numbers. Those from 10 on are mistakes in a line.
cdef enum:
    FINE = 0
    LAUNCH = 1
    NEW_OPCODE = 2
    OTHER_LAUNCH = 3
    MALFORMED = 10
    BAD_BLOCK = 11
    BAD_WARP = 12
    BAD_ADDRESSES = 13
    HIGH_ADDRESS = 14
    TOO_LONG = 15
    NO_THREAD = 16

cdef struct Record:
    int64_t launch
    int64_t x
    int64_t y
    int64_t z
    int64_t warp
    int64_t opcode              # position of its first character
    int64_t opcode_end
    int64_t addresses           # position of the first one


cdef inline int64_t find_prefix(const uint8_t* text, int64_t at, int64_t end) noexcept nogil:
    """Return where ``MEMTRACE: `` ends in a line, or -1; output of the program may precede it in the line."""
    cdef const void* found
    while at < end:
        if read_word(text, &at, end, "MEMTRACE: ", 10):
            return at
        found = memchr(text + at + 1, c'M', <size_t>(end - at - 1))
        if found == NULL:
            return -1
        at = <const uint8_t*>found - text
    return -1


cdef inline int read_record(const uint8_t* text, int64_t at, int64_t end, Record* r) noexcept nogil:
    """Read a record up to its addresses; a line that is neither a record nor a launch is MALFORMED."""
    cdef uint64_t context = 0
    if not (read_word(text, &at, end, "CTX ", 4) and read_hex(text, &at, end, &context)):
        return MALFORMED
    if read_word(text, &at, end, " - LAUNCH", 9):
        return LAUNCH
    if not (
        read_word(text, &at, end, " - grid_launch_id ", 18)
        and read_decimal(text, &at, end, &r.launch)
        and read_word(text, &at, end, " - CTA ", 7)
        and read_decimal(text, &at, end, &r.x)
        and read_word(text, &at, end, ",", 1)
        and read_decimal(text, &at, end, &r.y)
        and read_word(text, &at, end, ",", 1)
        and read_decimal(text, &at, end, &r.z)
        and read_word(text, &at, end, " - warp ", 8)
        and read_decimal(text, &at, end, &r.warp)
        and read_word(text, &at, end, " - ", 3)
    ):
        return MALFORMED
    r.opcode = at
    pass_opcode(text, &at, end)
    r.opcode_end = at
    if at == r.opcode or not read_word(text, &at, end, " - ", 3):
        return MALFORMED
    r.addresses = at
    return FINE


cdef inline int read_addresses(
    const uint8_t* text, int64_t at, int64_t end, uint64_t last, int64_t* out, uint32_t* mask, uint64_t* highest
) noexcept nogil:
    """Read 32 addresses to the end of the line; write the nonzero ones, one after another."""
    cdef int lane
    cdef uint64_t value = 0
    cdef uint64_t most = 0
    cdef uint32_t active = 0
    for lane in range(LANES):
        if read_hex_of_width(text, at, end, MAX_WIDTH, &value):
            at += MAX_WIDTH
        elif not read_hex(text, &at, end, &value):
            return BAD_ADDRESSES
        elif at < end and text[at] == c' ':
            at += 1
        elif lane < LANES - 1:
            return BAD_ADDRESSES
        out[0] = <int64_t>value
        out += value != 0
        active = active >> 1 | <uint32_t>(value != 0) << (LANES - 1)
        most = max(most, value)
    while at < end and (text[at] == c' ' or text[at] == c'\r'):
        at += 1
    mask[0] = active
    highest[0] = most
    if at != end:
        return BAD_ADDRESSES
    return HIGH_ADDRESS if most > last else FINE


cdef inline bint is_announced(const int64_t[::1] launches, int64_t launch) noexcept nogil:
    cdef int64_t low = 0
    cdef int64_t n = launches.shape[0]
    cdef int64_t middle
    while low < n:
        middle = low + (n - low) // 2
        if launches[middle] == launch:
            return True
        if launches[middle] < launch:
            low = middle + 1
        else:
            n = middle
    return False


def parse(
    const uint8_t[::1] text,
    int64_t at,
    int64_t wanted,
    int64_t shift,
    const int64_t[::1] announced,
    const int64_t[::1] grid,
    int64_t slots,
    int64_t last_address,
    int64_t longest,
    const uint8_t[:, ::1] names,
    const int64_t[::1] lengths,
    const uint8_t[:, ::1] kinds,
    int64_t opcodes,
    int64_t[::1] block,
    int64_t[::1] warp,
    int32_t[::1] pc,
    uint8_t[::1] op,
    uint8_t[::1] space,
    uint8_t[::1] size,
    uint32_t[::1] mask,
    int64_t[::1] addresses,
    int64_t rows,
    int64_t used,
    uint32_t threads,
    bint drops_lanes,
    int64_t[::1] dropped,
):
    """Append the instructions of launch `wanted` in ``text[at:]`` to the arrays, which hold `rows` and `used` already.

    `rows` counts instructions and `used` addresses. Launch numbers in records are lower by `shift` than announced ones.
    Records of other `announced` launches (ascending) and lines without the prefix are ignored. `names`, `lengths` and
    `kinds` describe the first `opcodes` opcodes, as in `OpcodeTable`. Active lanes must be among `threads`, the lowest
    ones of a mask; others are a mistake or, with `drops_lanes`, left out and counted in ``dropped[0]``. The function stops before the first line that the
    caller must handle. The arrays need room for one instruction per 128 bytes of text and one more, `addresses` for 32
    per instruction. Returns (position, lines read, rows, used, event).
    """
    cdef int64_t end = text.shape[0]
    cdef int64_t lines = 0
    cdef int64_t start, stop, first, code
    cdef int event = FINE
    cdef uint64_t highest = 0
    cdef Record r
    cdef const uint8_t* p
    if at >= end:
        return at, 0, rows, used, FINE
    p = &text[0]
    with nogil:
        while at < end:
            stop = line_end(p, at, end)
            start = at
            at = stop + 1
            lines += 1
            if stop - start > longest:
                event = TOO_LONG
                break
            first = find_prefix(p, start, stop)
            if first < 0:
                continue
            event = read_record(p, first, stop, &r)
            if event:
                if is_remark(p, first, stop):
                    event = FINE
                    continue
                break
            if r.launch + shift != wanted:
                if is_announced(announced, r.launch + shift):
                    continue
                event = OTHER_LAUNCH
                break
            if r.x >= grid[0] or r.y >= grid[1] or r.z >= grid[2]:
                event = BAD_BLOCK
                break
            if r.warp >= slots:
                event = BAD_WARP
                break
            code = find_opcode(p + r.opcode, r.opcode_end - r.opcode, names, lengths, opcodes)
            if code < 0:
                event = NEW_OPCODE
                break
            event = read_addresses(
                p, r.addresses, stop, <uint64_t>last_address, &addresses[used], &mask[rows], &highest
            )
            if event:
                break
            if kinds[code, 3] and highest < SHARED_WINDOW:
                continue
            block[rows] = (r.z * grid[1] + r.y) * grid[0] + r.x
            warp[rows] = r.warp
            pc[rows] = <int32_t>code
            op[rows] = kinds[code, 0]
            space[rows] = kinds[code, 1]
            size[rows] = kinds[code, 2]
            if mask[rows] & ~threads and op[rows] != NO_ACCESS:
                if not drops_lanes:
                    event = NO_THREAD
                    break
                dropped[0] += lanes_of(mask[rows] & ~threads)
                mask[rows] &= threads
            if mask[rows] == 0 or op[rows] == NO_ACCESS:
                op[rows] = NO_ACCESS
                mask[rows] = 0
            used += lanes_of(mask[rows])
            rows += 1
    if event:
        return start, lines - 1, rows, used, event
    return min(at, end), lines, rows, used, FINE


cdef inline bint is_remark(const uint8_t* text, int64_t at, int64_t end) noexcept nogil:
    """Tell whether a line is a remark about contexts, which the tool prints when it is verbose."""
    return (
        read_word(text, &at, end, "STARTING CONTEXT", 16) or read_word(text, &at, end, "TERMINATING CONTEXT", 19)
    )
