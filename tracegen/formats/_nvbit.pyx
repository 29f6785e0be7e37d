# The compiled half of tracegen.formats.nvbit. The caller guarantees the sizes of the arrays; text is not trusted.
"""Parse lines of NVBit's mem_trace into warp instructions."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from tracegen.formats._equal_words cimport GROUP, MOST_GROUPS, Words, groups_by_hand, groups_within, read_groups
from tracegen.formats._lex cimport find_opcode, line_end, pass_opcode, read_decimal, read_hex, read_word
from tracegen.formats.ordering._rows cimport NO_ACCESS, Row, begin_row, count_bits, pack

cdef enum:
    LANES = 32
    DIGITS = 16                 # of an address, as the tool writes it
    SHARED_WINDOW = 1 << 18     # lower addresses of an opcode with both kinds are offsets in shared memory

# Events that the caller handles; tracegen.formats.nvbit has the same numbers. Those from 10 on are mistakes in a line.
cdef enum:
    FINE = 0
    LAUNCH = 1
    NEW_OPCODE = 2
    OTHER_LAUNCH = 3
    FULL = 4
    MALFORMED = 10
    BAD_BLOCK = 11
    BAD_WARP = 12
    BAD_ADDRESSES = 13
    HIGH_ADDRESS = 14
    TOO_LONG = 15
    NO_THREAD = 16

cdef struct Record:
    int64_t launch
    int64_t place               # position of the numbers of its block
    int64_t x
    int64_t y
    int64_t z
    int64_t warp
    int64_t opcode              # position of its first character
    int64_t opcode_end
    int64_t addresses           # position of the first one

cdef struct Lanes:
    Words words                 # their values are one per active lane
    uint32_t mask


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
    ):
        return MALFORMED
    r.place = at
    return FINE if read_place(text, at, end, r) else MALFORMED


cdef inline bint read_place(const uint8_t* text, int64_t at, int64_t end, Record* r) noexcept nogil:
    """Read the part of a record from the numbers of its block up to the addresses."""
    if not (
        read_decimal(text, &at, end, &r.x)
        and read_word(text, &at, end, ",", 1)
        and read_decimal(text, &at, end, &r.y)
        and read_word(text, &at, end, ",", 1)
        and read_decimal(text, &at, end, &r.z)
        and read_word(text, &at, end, " - warp ", 8)
        and read_decimal(text, &at, end, &r.warp)
        and read_word(text, &at, end, " - ", 3)
    ):
        return False
    r.opcode = at
    pass_opcode(text, &at, end)
    r.opcode_end = at
    if at == r.opcode or not read_word(text, &at, end, " - ", 3):
        return False
    r.addresses = at
    return True


cdef inline int64_t pass_blanks(const uint8_t* text, int64_t at, int64_t end) noexcept nogil:
    while at < end and (text[at] == c' ' or text[at] == c'\r'):
        at += 1
    return at


cdef inline int64_t read_usual_addresses(const uint8_t* text, int64_t at, int64_t end, Lanes* lanes) noexcept nogil:
    """Read 32 addresses of 16 digits and the end of the line; return its position, or -1 if the line differs."""
    if read_groups(text + at, text + end, DIGITS, &lanes.words) != MOST_GROUPS:
        return -1
    drop_zeros(lanes)
    at = pass_blanks(text, at + LANES * (DIGITS + 3), end)
    return at if at < end and text[at] == c'\n' else -1


cdef inline int read_addresses(const uint8_t* text, int64_t at, int64_t end, Lanes* lanes) noexcept nogil:
    """Read 32 addresses of any form to the end of the line at `end`."""
    cdef int i
    cdef uint64_t value = 0
    lanes.words.any = 0
    lanes.words.zeros = 0
    for i in range(LANES):
        if not read_hex(text, &at, end, &value):
            return BAD_ADDRESSES
        if at < end and text[at] == c' ':
            at += 1
        elif i < LANES - 1:
            return BAD_ADDRESSES
        lanes.words.values[i] = <int64_t>value
        lanes.words.any |= value
        lanes.words.zeros |= <uint32_t>(value == 0) << i
    drop_zeros(lanes)
    return FINE if pass_blanks(text, at, end) == end else BAD_ADDRESSES


cdef inline void drop_zeros(Lanes* lanes) noexcept nogil:
    """Keep the values of active lanes only: 0 says that a lane is inactive."""
    cdef int i
    cdef int64_t count = 0
    cdef int64_t* values = lanes.words.values
    lanes.mask = ~lanes.words.zeros
    if lanes.words.zeros:
        for i in range(LANES):
            values[count] = values[i]
            count += lanes.mask >> i & 1


cdef inline bint any_above(const Lanes* lanes, uint64_t last) noexcept nogil:
    """Tell whether an address is above `last`."""
    cdef int i
    if lanes.words.any > last:
        for i in range(count_bits(lanes.mask)):
            if <uint64_t>lanes.words.values[i] > last:
                return True
    return False


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
    uint64_t needs,
    int64_t last_address,
    int64_t longest,
    const uint8_t[:, ::1] names,
    const int64_t[::1] lengths,
    const uint8_t[:, ::1] kinds,
    int64_t opcodes,
    Row[::1] rows,
    int64_t row,
    int64_t[::1] words,
    int64_t used,
    uint32_t threads,
    bint drops_lanes,
    int64_t[::1] dropped,
):
    """Append the instructions of launch `wanted` in ``text[at:]`` to `rows`, and their packed addresses to `words`.

    These hold `row` and `used` already. Launch numbers in records are lower by `shift` than announced ones. Records of
    other `announced` launches (ascending) and lines without the prefix are ignored. All instructions get the same
    `needs`. `names`, `lengths` and `kinds` describe the first `opcodes` opcodes, as in `OpcodeTable`. Active lanes must
    be among `threads`, the lowest ones of a mask; others are a mistake or, with `drops_lanes`, left out and counted in
    ``dropped[0]``. The function stops before the first line that the caller must handle; FULL asks for room for a row
    and 32 words. Returns (position, lines read, row, used, event).
    """
    cdef int64_t end = text.shape[0]
    cdef int64_t lines = 0
    cdef int64_t start, stop, first, code
    cdef int64_t head = -1      # position of an earlier line's start that most lines share, and its length
    cdef int64_t head_bytes = 0
    cdef int event = FINE
    cdef Record r
    cdef Lanes lanes
    cdef Row* out
    cdef const uint8_t* p
    if at >= end:
        return at, 0, row, used, FINE
    p = &text[0]
    with nogil:
        while at < end:
            start = at
            lines += 1
            # The end of a line is not looked for until it matters: in usual lines it is where the addresses end.
            if not (
                head >= 0
                and end - start > head_bytes
                and memcmp(p + start, p + head, <size_t>head_bytes) == 0
                and read_place(p, start + head_bytes, end, &r)
            ):
                stop = line_end(p, start, end)
                at = stop + 1
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
                head, head_bytes = start, r.place - start
            if r.launch + shift != wanted:
                if not is_announced(announced, r.launch + shift):
                    event = OTHER_LAUNCH
                    break
                at = line_end(p, start, end) + 1
                if at - 1 - start > longest:
                    event = TOO_LONG
                    break
                continue
            if row >= rows.shape[0] or words.shape[0] - used < LANES:
                event = FULL
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
            stop = read_usual_addresses(p, r.addresses, end, &lanes)
            if stop < 0:
                stop = line_end(p, start, end)
                event = read_addresses(p, r.addresses, stop, &lanes)
            if stop - start > longest:
                event = TOO_LONG
            if event:
                break
            at = stop + 1
            if any_above(&lanes, <uint64_t>last_address):
                event = HIGH_ADDRESS
                break
            if kinds[code, 3] and lanes.words.any < SHARED_WINDOW:
                continue
            out = &rows[row]
            begin_row(out, ((r.z * grid[1] + r.y) * grid[0] + r.x) * slots + r.warp, needs, code, &kinds[code, 0])
            if lanes.mask & ~threads and out.op != NO_ACCESS:
                if not drops_lanes:
                    event = NO_THREAD
                    break
                dropped[0] += count_bits(lanes.mask & ~threads)
                lanes.mask &= threads
            if lanes.mask == 0 or out.op == NO_ACCESS:
                out.op = NO_ACCESS
                lanes.mask = 0
            else:
                out.flags |= pack(lanes.words.values, count_bits(lanes.mask), &words[used], &used)
            out.mask = lanes.mask
            row += 1
    if event:
        return start, lines - 1, row, used, event
    return min(at, end), lines, row, used, FINE


cdef inline bint is_remark(const uint8_t* text, int64_t at, int64_t end) noexcept nogil:
    """Tell whether a line is a remark about contexts, which the tool prints when it is verbose."""
    return (
        read_word(text, &at, end, "STARTING CONTEXT", 16) or read_word(text, &at, end, "TERMINATING CONTEXT", 19)
    )


def read_words(const uint8_t[::1] text, int64_t digits, bint by_hand):
    """Return the values of groups of words at the start of a text, the bits of any of them, and which are zero.

    For tests of both ways of `read_groups`: ``by_hand`` is that of machines without AVX2.
    """
    cdef Words words
    cdef const uint8_t* p = &text[0]
    cdef int64_t groups
    if by_hand:
        groups = groups_by_hand(p, digits, groups_within(text.shape[0], digits), &words)
    else:
        groups = read_groups(p, p + text.shape[0], digits, &words)
    return [words.values[i] for i in range(GROUP * groups)], words.any, words.zeros
