# The compiled half of tracegen.formats.trc. Sizes of the arrays are the caller's business; text is not trusted.
"""Lines of the Ocelot tracer to numbers, accesses to warp instructions, and accesses back to lines."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from *:
    int lowest_bit "__builtin_ctz"(unsigned int x) noexcept nogil

cdef enum:
    LANES = 32
    FIELDS = 4
    STORE = 0x80            # in `kind`: the access is a store; the other bits are its width in bytes

# Why a line was refused: tracegen.formats.trc has the words.
cdef enum:
    FINE = 0
    NOT_FOUR_NUMBERS = 1
    BAD_THREAD = 2
    BAD_DIRECTION = 3
    BAD_ADDRESS = 4
    BAD_WIDTH = 5
    TOO_LONG = 6
    BLANK = -1

cdef uint64_t TOO_LARGE = <uint64_t>1 << 63
cdef uint64_t LAST_SAFE = (((<uint64_t>1 << 63) - 1)) // 10


# ---- Text to numbers

cdef inline bint is_blank(uint8_t c) noexcept nogil:
    return c == c' ' or c == c'\t' or c == c'\r'


cdef inline int read_numbers(const uint8_t* text, int64_t* at, int64_t end, uint64_t* values) noexcept nogil:
    """Read one line of four decimal numbers from ``text[at]``; on success `at` is at its newline or `end`."""
    cdef int64_t i = at[0]
    cdef int64_t first
    cdef uint64_t value
    cdef int field
    for field in range(FIELDS):
        while i < end and is_blank(text[i]):
            i += 1
        first = i
        value = 0
        while i < end and c'0' <= text[i] <= c'9':
            # A number of 2^63 or more sticks there, so that it cannot wrap around into range.
            value = value * 10 + (text[i] - c'0') if value <= LAST_SAFE else TOO_LARGE
            i += 1
        if i == first:
            at[0] = i
            return BLANK if field == 0 and (i == end or text[i] == c'\n') else NOT_FOUR_NUMBERS
        values[field] = value
        if field < FIELDS - 1 and (i == end or not is_blank(text[i])):
            return NOT_FOUR_NUMBERS
    while i < end and is_blank(text[i]):
        i += 1
    at[0] = i
    return FINE if i == end or text[i] == c'\n' else NOT_FOUR_NUMBERS


cdef inline int judge(const uint64_t* values, uint64_t threads, uint64_t last_address) noexcept nogil:
    if values[0] >= threads:
        return BAD_THREAD
    if values[1] > 1:
        return BAD_DIRECTION
    if values[2] > last_address:
        return BAD_ADDRESS
    return FINE if 1 <= values[3] <= 16 else BAD_WIDTH


def parse(
    const uint8_t[::1] text,
    int64_t at,
    int64_t threads,
    int64_t last_address,
    int64_t longest,
    int64_t[::1] thread,
    int64_t[::1] address,
    uint8_t[::1] kind,
    int64_t n,
):
    """Append the accesses of ``text[at:]`` to the arrays, of which `n` are used; stop before the first bad line.

    Thread numbers must be below `threads`, addresses at most `last_address`, lines at most `longest` bytes long.
    Returns (position, lines read, n, problem).
    The arrays must have room for one access per 8 bytes of text, and one more.
    """
    cdef int64_t end = text.shape[0]
    cdef int64_t lines = 0
    cdef int64_t start = at
    cdef uint64_t[FIELDS] values
    cdef int problem = FINE
    cdef const uint8_t* p
    if at >= end:
        return at, 0, n, FINE
    p = &text[0]
    with nogil:
        while at < end:
            start = at
            problem = read_numbers(p, &at, end, values)
            if problem == FINE:
                problem = judge(values, <uint64_t>threads, <uint64_t>last_address)
            if problem <= 0 and at - start > longest:
                problem = TOO_LONG
            if problem > 0:
                break
            if problem == FINE:
                thread[n] = <int64_t>values[0]
                address[n] = <int64_t>values[2]
                kind[n] = <uint8_t>(values[3] | (STORE if values[1] else 0))
                n += 1
            problem = FINE
            at += 1
            lines += 1
    return (start if problem else min(at, end)), lines, n, problem


# ---- Accesses to warp instructions

cdef struct Warp:
    int64_t[LANES] end          # one past the lane's last access
    int64_t[2][LANES] ahead     # by direction: the lane's first load, first store not yet issued, or its end
    uint32_t lanes              # which lanes have accesses left


cdef inline int64_t following(const uint8_t* kind, int64_t at, int64_t end, int stores) noexcept nogil:
    while at < end and (kind[at] >= STORE) != stores:
        at += 1
    return at


cdef int64_t open_warp(
    Warp* w, const int64_t* thread, const uint8_t* kind, int64_t at, int64_t end, int64_t first, int64_t width
) noexcept nogil:
    """Take the accesses of the `width` threads from `first` on, which start at `at`; return where they end."""
    cdef int64_t lane, last
    w.lanes = 0
    while at < end and thread[at] < first + width:
        lane = thread[at] - first
        last = at
        while last < end and thread[last] == thread[at]:
            last += 1
        w.lanes |= <uint32_t>1 << lane
        w.end[lane] = last
        w.ahead[0][lane] = following(kind, at, last, 0)
        w.ahead[1][lane] = following(kind, at, last, 1)
        at = last
    return at


cdef uint32_t take_part(
    Warp* w, const uint8_t* kind, const int64_t* address, int stores, uint32_t candidates, int64_t* out, int64_t* used
) noexcept nogil:
    """Issue the next access of every candidate lane that is as wide as the first one's; return these lanes."""
    cdef int64_t* position = &w.ahead[stores][0]
    cdef uint8_t wanted = kind[position[lowest_bit(candidates)]]
    cdef uint32_t taken = 0
    cdef int lane
    while candidates:
        lane = lowest_bit(candidates)
        candidates &= candidates - 1
        if kind[position[lane]] == wanted:
            out[used[0]] = address[position[lane]]
            used[0] += 1
            taken |= <uint32_t>1 << lane
            position[lane] = following(kind, position[lane] + 1, w.end[lane], stores)
            if w.ahead[0][lane] == w.end[lane] and w.ahead[1][lane] == w.end[lane]:
                w.lanes &= ~(<uint32_t>1 << lane)
    return taken


cdef inline uint32_t with_access(const Warp* w, int stores) noexcept nogil:
    cdef uint32_t left = w.lanes
    cdef uint32_t found = 0
    cdef int lane
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        if w.ahead[stores][lane] < w.end[lane]:
            found |= <uint32_t>1 << lane
    return found


def group(
    const int64_t[::1] thread,
    const int64_t[::1] address,
    const uint8_t[::1] kind,
    int64_t block_threads,
    int64_t[::1] warp,
    int64_t[::1] length,
    int32_t[::1] pc,
    uint8_t[::1] op,
    uint8_t[::1] size,
    uint32_t[::1] mask,
    int64_t[::1] address_start,
    int64_t[::1] addresses,
):
    """Group accesses, sorted by thread and in program order within one, into warp instructions.

    Writes the number of every warp that has accesses (`warp`, counted over the whole grid) with its instructions
    (`length`), and the columns of `rdmodel.trace.Columns`. Every array must have room for one entry per access,
    `address_start` for one more. Returns (warps, instructions).
    """
    cdef int64_t n = thread.shape[0]
    cdef int64_t block_warps = (block_threads + LANES - 1) // LANES
    cdef int64_t at = 0, warps = 0, rows = 0, used = 0, before, block, local, first
    cdef int64_t[2] ordinal
    cdef uint32_t candidates, taken
    cdef uint8_t width
    cdef int leader, stores
    cdef Warp w
    address_start[0] = 0
    if n == 0:
        return 0, 0
    with nogil:
        while at < n:
            block = thread[at] // block_threads
            local = (thread[at] % block_threads) // LANES
            first = block * block_threads + local * LANES
            at = open_warp(&w, &thread[0], &kind[0], at, n, first, min(<int64_t>LANES, block_threads - local * LANES))
            before = rows
            ordinal[0] = ordinal[1] = 0
            while w.lanes:
                leader = lowest_bit(w.lanes)
                stores = w.ahead[1][leader] < w.ahead[0][leader]
                candidates = with_access(&w, stores)
                while candidates:
                    width = kind[w.ahead[stores][lowest_bit(candidates)]] & ~STORE
                    taken = take_part(&w, &kind[0], &address[0], stores, candidates, &addresses[0], &used)
                    candidates &= ~taken
                    pc[rows] = <int32_t>((2 * ordinal[stores] + stores) & 0x7fffffff)
                    op[rows] = stores
                    size[rows] = width
                    mask[rows] = taken
                    rows += 1
                    address_start[rows] = used
                ordinal[stores] += 1
            warp[warps] = block * block_warps + local
            length[warps] = rows - before
            warps += 1
    return warps, rows


# ---- Accesses to text

cdef inline int64_t put_number(uint8_t* out, int64_t at, int64_t value, uint8_t after) noexcept nogil:
    cdef uint8_t[20] digits
    cdef int n = 0
    while True:
        digits[n] = <uint8_t>(c'0' + value % 10)
        value //= 10
        n += 1
        if value == 0:
            break
    while n > 0:
        n -= 1
        out[at] = digits[n]
        at += 1
    out[at] = after
    return at + 1


def render(
    const int64_t[::1] thread,
    const uint8_t[::1] store,
    const int64_t[::1] address,
    const uint8_t[::1] size,
    uint8_t[::1] out,
):
    """Write one line per access to `out`, which needs room for 46 bytes per access; return the bytes written."""
    cdef int64_t i, at = 0
    cdef uint8_t* p
    if thread.shape[0] == 0:
        return 0
    p = &out[0]
    with nogil:
        for i in range(thread.shape[0]):
            at = put_number(p, at, thread[i], c' ')
            at = put_number(p, at, store[i], c' ')
            at = put_number(p, at, address[i], c' ')
            at = put_number(p, at, size[i], c'\n')
    return at
