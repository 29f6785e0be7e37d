# The compiled half of tracegen.formats.ppt. The caller guarantees the sizes of the arrays; text is not trusted.
"""Parse records of PPT-GPU's tracing tool into warp instructions."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from tracegen.formats._equal_words cimport GROUP, Words, read_groups
from tracegen.formats._lex cimport MAX_WIDTH, find_opcode, line_end, pass_opcode, read_hex, read_hex_of_width
from tracegen.formats.ordering._rows cimport NO_ACCESS, Row, begin_row, pack

cdef enum:
    LANES = 32
    SHARED_WINDOW = 1 << 18     # lower addresses of an opcode with both kinds are offsets in shared memory

# Events that the caller handles; tracegen.formats.ppt has the same numbers. Those from 10 on are mistakes in a line.
cdef enum:
    FINE = 0
    NEW_OPCODE = 2
    FULL = 4
    MALFORMED = 10
    BAD_ADDRESS = 11
    TOO_MANY = 12
    TOO_LONG = 13
    NO_THREAD = 14


cdef inline bint is_separator(const uint8_t* text, int64_t at, int64_t end) noexcept nogil:
    """Tell whether a line is blank or made of equals signs."""
    while at < end and (text[at] == c'=' or text[at] == c' ' or text[at] == c'\r'):
        at += 1
    return at == end


cdef inline int read_addresses(
    const uint8_t* text,
    int64_t at,
    int64_t stop,
    int64_t end,
    int64_t* width,
    uint64_t last,
    bint has_shared,
    Words* words,
    int* lanes,
) noexcept nogil:
    """Read the addresses to the end of the line at `stop` as the values of `words`, without those in shared memory.

    `width` is that of the last address with its blank, in this line or an earlier one: most have the same.
    """
    cdef uint64_t value = 0
    cdef int64_t start, i
    cdef int n = 0
    while at < stop and text[at] == c' ':
        at += 1
    if not has_shared:
        n = GROUP * <int>read_groups(text + at, text + end, width[0] - 3, words)
        at += n * width[0]
        if words.zeros or words.any > last:
            for i in range(n):
                if <uint64_t>(words.values[i] - 1) >= last:  # 0, or above the last one
                    return BAD_ADDRESS
    while True:
        while at < stop and (text[at] == c' ' or text[at] == c'\r'):
            at += 1
        if at == stop:
            lanes[0] = n
            return FINE
        if read_hex_of_width(text, at, end, width[0], &value):
            at += width[0]
        else:
            start = at
            if not read_hex(text, &at, end, &value) or (at < stop and text[at] != c' ' and text[at] != c'\r'):
                return MALFORMED
            width[0] = min(at - start + 1, MAX_WIDTH)
        if value == 0 or value > last:
            return BAD_ADDRESS
        if has_shared and value < SHARED_WINDOW:
            continue
        if n == LANES:
            return TOO_MANY
        words.values[n] = <int64_t>value
        n += 1


def parse(
    const uint8_t[::1] text,
    int64_t at,
    int64_t block_id,
    int64_t warps,
    uint64_t needs,
    int64_t last_address,
    int64_t longest,
    const uint8_t[:, ::1] names,
    const int64_t[::1] lengths,
    const uint8_t[:, ::1] kinds,
    int64_t opcodes,
    int64_t[::1] records,
    Row[::1] rows,
    int64_t row,
    int64_t[::1] words,
    int64_t used,
    int last_lanes,
    bint drops_lanes,
    int64_t[::1] dropped,
):
    """Append the instructions of block `block_id` in ``text[at:]`` to `rows`, and their packed addresses to `words`.

    These hold `row` and `used` already. All instructions get the same `needs`. The records of each opcode are dealt to
    the `warps` in turn; `records` counts the turns by opcode. The last warp has `last_lanes` lanes, and records with
    more addresses pass its turn over. If it is the only one, they are a mistake or, with `drops_lanes`, lose the
    others, which ``dropped[0]`` counts. `names`, `lengths` and `kinds` describe the first `opcodes` opcodes, as in
    `OpcodeTable`. The function stops before the first line that the caller must handle; FULL asks for room for a row
    and 32 words. Returns (position, lines read, row, used, event).
    """
    cdef int64_t end = text.shape[0]
    cdef int64_t lines = 0
    cdef int64_t start, stop, code
    cdef int64_t width = MAX_WIDTH
    cdef int event = FINE
    cdef int lanes = 0
    cdef Words found
    cdef Row* out
    cdef const uint8_t* p
    if at >= end:
        return at, 0, row, used, FINE
    p = &text[0]
    with nogil:
        while at < end:
            start = at
            stop = line_end(p, at, end)
            lines += 1
            if row >= rows.shape[0] or words.shape[0] - used < LANES:
                event = FULL
                break
            if stop - start > longest:
                event = TOO_LONG
                break
            if is_separator(p, start, stop):
                at = stop + 1
                continue
            pass_opcode(p, &at, stop)
            if at == start or not c'A' <= p[start] <= c'Z' or (at < stop and p[at] != c' ' and p[at] != c'\r'):
                event = MALFORMED
                break
            code = find_opcode(p + start, at - start, names, lengths, opcodes)
            if code < 0:
                event = NEW_OPCODE
                break
            event = read_addresses(p, at, stop, end, &width, <uint64_t>last_address, kinds[code, 3], &found, &lanes)
            if event:
                break
            if kinds[code, 0] == NO_ACCESS:
                lanes = 0
            if lanes > last_lanes and records[code] % warps == warps - 1:
                if warps > 1:
                    records[code] += 1
                elif drops_lanes:
                    dropped[0] += lanes - last_lanes
                    lanes = last_lanes
                else:
                    event = NO_THREAD
                    break
            out = &rows[row]
            begin_row(out, block_id * warps + records[code] % warps, needs, code, &kinds[code, 0])
            records[code] += 1
            out.mask = 0
            if lanes == 0:
                out.op = NO_ACCESS
            else:
                out.mask = <uint32_t>0xFFFFFFFF >> (LANES - lanes)
                out.flags |= pack(found.values, lanes, &words[used], &used)
            row += 1
            at = stop + 1
    if event:
        return start, lines - 1, row, used, event
    return min(at, end), lines, row, used, FINE
