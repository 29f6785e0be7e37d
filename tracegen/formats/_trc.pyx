# The compiled half of tracegen.formats.trc. The caller guarantees the sizes of the arrays; text is not trusted.
"""Parse and write lines of the Ocelot tracer, sort accesses by thread, and group them into warp instructions.

An access is two numbers: its key (thread * 256 + kind, where the kind is the bytes, plus `STORE`) and its address.
"""

cimport cython

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    FIELDS = 4
    STORE = 0x80            # in the kind: the access is a store; the other bits are its width in bytes
    WIDTH = 0x7f

# Reasons to refuse a line; tracegen.formats.trc has the messages.
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
            # A number of 2^63 or more saturates, so that it cannot wrap around into the valid range.
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


cdef inline int check_numbers(const uint64_t* values, uint64_t threads, uint64_t last_address) noexcept nogil:
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
    int64_t[:, ::1] accesses,
    int64_t n,
):
    """Append the accesses of ``text[at:]`` to `accesses`, which holds `n` already; stop before the first bad line.

    Thread numbers must be below `threads`, addresses at most `last_address`, and lines at most `longest` bytes long.
    `accesses` needs room for one access per 8 bytes of text and one more. Returns (position, lines read, n, problem).
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
                problem = check_numbers(values, <uint64_t>threads, <uint64_t>last_address)
            if problem <= 0 and at - start > longest:
                problem = TOO_LONG
            if problem > 0:
                break
            if problem == FINE:
                accesses[n, 0] = <int64_t>(values[0] << KIND_BITS | values[3] | (STORE if values[1] else 0))
                accesses[n, 1] = <int64_t>values[2]
                n += 1
            problem = FINE
            at += 1
            lines += 1
    return (start if problem else min(at, end)), lines, n, problem


# ---- Accesses by thread

cdef enum:
    DIGIT_BITS = 11
    DIGITS = 1 << DIGIT_BITS


cdef inline void sort_by_digit(
    const Access* source, Access* target, int64_t n, int64_t least, int shift
) noexcept nogil:
    cdef int64_t[DIGITS] place
    cdef int64_t i, count, before = 0
    for i in range(DIGITS):
        place[i] = 0
    for i in range(n):
        place[((source[i].key >> KIND_BITS) - least) >> shift & (DIGITS - 1)] += 1
    for i in range(DIGITS):
        count = place[i]
        place[i] = before
        before += count
    for i in range(n):
        count = ((source[i].key >> KIND_BITS) - least) >> shift & (DIGITS - 1)
        target[place[count]] = source[i]
        place[count] += 1


def sort(int64_t[:, ::1] accesses, int64_t[:, ::1] room):
    """Sort accesses by thread (stable radix sort) with `room` for as many; return whether the result is in `room`."""
    cdef int64_t n = accesses.shape[0]
    cdef int64_t i, thread, before = -1
    cdef int64_t least = 0, most = 0
    cdef int shift = 0
    cdef bint ordered = True
    cdef Access* source
    cdef Access* target
    if n == 0:
        return False
    source, target = <Access*>&accesses[0, 0], <Access*>&room[0, 0]
    with nogil:
        least = most = source[0].key >> KIND_BITS
        for i in range(n):
            thread = source[i].key >> KIND_BITS
            ordered &= before <= thread
            before = thread
            least = min(least, thread)
            most = max(most, thread)
        while not ordered and most - least >> shift:
            sort_by_digit(source, target, n, least, shift)
            source, target = target, source
            shift += DIGIT_BITS
    return source == <Access*>&room[0, 0]


# ---- Accesses to warp instructions

cdef class AccessGrouper:
    """Finds the accesses of each warp in accesses that are sorted by thread.

    `accesses` has shape (n, 2). `give_back` is called from time to time, to release the pages of mapped accesses that
    have been read; None for accesses in memory.
    """

    def __init__(self, const int64_t[:, ::1] accesses, int64_t block_threads, give_back=None):
        self.accesses = accesses
        self.n = accesses.shape[0]
        self.p = <const Access*>&accesses[0, 0] if self.n else NULL
        self.at = 0
        self.block_threads = block_threads
        self.block_warps = (block_threads + LANES - 1) // LANES
        self.give_back = give_back
        self.mapped = give_back is not None

    cdef uint32_t open_warp(self, int64_t* begin, int64_t* end) noexcept nogil:
        """Find the next warp; set where the accesses of each of its lanes begin and end, and return these lanes."""
        cdef int64_t thread = self.p[self.at].key >> KIND_BITS
        cdef int64_t block = thread // self.block_threads
        cdef int64_t local = (thread % self.block_threads) // LANES
        cdef int64_t first = block * self.block_threads + local * LANES
        cdef int64_t beyond = first + min(<int64_t>LANES, self.block_threads - local * LANES)
        cdef int64_t last
        cdef uint32_t lanes = 0
        self.warp = block * self.block_warps + local
        while self.at < self.n:
            thread = self.p[self.at].key >> KIND_BITS
            if thread >= beyond:
                break
            last = self.at
            while last < self.n and self.p[last].key >> KIND_BITS == thread:
                maybe_give_back(self, last)
                last += 1
            lanes |= <uint32_t>1 << (thread - first)
            begin[thread - first], end[thread - first] = self.at, last
            self.at = last
        return lanes

    cdef void release(self) noexcept nogil:
        with gil:
            self.give_back()


cdef struct Warp:
    int64_t[LANES] end          # one past the lane's last access
    int64_t[2][LANES] ahead     # the lane's next load [0] and next store [1], or its end
    uint32_t lanes              # lanes that have accesses left
    uint32_t candidates         # lanes whose k-th load or store is still to be issued
    int stores                  # whether these are stores
    int64_t[2] ordinal          # k of loads [0] and of stores [1]


@cython.final
cdef class Grouper(AccessGrouper):
    """Groups accesses, sorted by thread and in program order within each, into warp instructions."""

    cdef Warp w

    def __init__(self, const int64_t[:, ::1] accesses, int64_t block_threads, give_back=None):
        AccessGrouper.__init__(self, accesses, block_threads, give_back)
        self.w.lanes = self.w.candidates = 0

    def fill(
        self,
        int64_t[::1] warp,
        int32_t[::1] pc,
        uint8_t[::1] op,
        uint8_t[::1] size,
        uint32_t[::1] mask,
        int64_t[::1] addresses,
    ):
        """Write as many of the next instructions as fit, and their addresses; return the numbers of both.

        `warp` is counted over the whole grid. `addresses` needs room for at least 32.
        """
        cdef int64_t room = warp.shape[0]
        cdef int64_t lanes = addresses.shape[0] - LANES
        cdef int64_t rows = 0, used = 0
        cdef Warp* w = &self.w
        cdef uint32_t taken
        cdef int leader
        with nogil:
            while rows < room and used <= lanes:
                if not w.candidates:
                    if not w.lanes:
                        if self.at == self.n:
                            break
                        self.begin_warp()
                    leader = lowest_bit(w.lanes)
                    w.stores = w.ahead[1][leader] < w.ahead[0][leader]
                    w.candidates = with_access(w, w.stores)
                warp[rows] = self.warp
                pc[rows] = <int32_t>((2 * w.ordinal[w.stores] + w.stores) & 0x7fffffff)
                op[rows] = w.stores
                size[rows] = <uint8_t>(self.p[w.ahead[w.stores][lowest_bit(w.candidates)]].key & WIDTH)
                taken = self.take_part(&addresses[0], &used)
                mask[rows] = taken
                rows += 1
                w.candidates &= ~taken
                if not w.candidates:
                    w.ordinal[w.stores] += 1
        return rows, used

    cdef void begin_warp(self) noexcept nogil:
        """Find the accesses of the next warp, by lane and direction."""
        cdef Warp* w = &self.w
        cdef int64_t[LANES] begin
        cdef uint32_t left
        cdef int lane, stores
        left = w.lanes = self.open_warp(&begin[0], &w.end[0])
        w.ordinal[0] = w.ordinal[1] = 0
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            for stores in range(2):
                w.ahead[stores][lane] = self.following(begin[lane], w.end[lane], stores)

    cdef inline int64_t following(self, int64_t at, int64_t end, int stores) noexcept nogil:
        while at < end and ((self.p[at].key & STORE) != 0) != stores:
            maybe_give_back(self, at)
            at += 1
        return at

    cdef uint32_t take_part(self, int64_t* out, int64_t* used) noexcept nogil:
        """Issue the next access of every candidate lane with the width of the first candidate; return these lanes."""
        cdef Warp* w = &self.w
        cdef int stores = w.stores
        cdef int64_t* position = &w.ahead[stores][0]
        cdef uint32_t candidates = w.candidates
        cdef int64_t width = self.p[position[lowest_bit(candidates)]].key & WIDTH
        cdef uint32_t taken = 0
        cdef int lane
        cdef int64_t at
        while candidates:
            lane = lowest_bit(candidates)
            candidates &= candidates - 1
            at = position[lane]
            if self.p[at].key & WIDTH == width:
                out[used[0]] = self.p[at].address
                used[0] += 1
                taken |= <uint32_t>1 << lane
                maybe_give_back(self, at)
                position[lane] = self.following(at + 1, w.end[lane], stores)
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
    """Write one line per access to `out`, which needs 46 bytes per access; return the number of bytes written."""
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
