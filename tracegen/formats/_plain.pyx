# The compiled half of tracegen.formats.plain. The caller guarantees the sizes of the arrays; text is not trusted.
"""Read lines of addresses, CSV, lackey and dinero as accesses of threads (`tracegen.formats._line_accesses`)."""

cimport cython

from libc.stdint cimport int8_t, int64_t, uint8_t, uint64_t

from tracegen.formats._lex cimport hex_digit, line_end
from tracegen.formats._line_accesses cimport ATOMIC, CONTINUES, HOLE, LOAD, MAX_GAP, OPERATION_SHIFT, STORE
from tracegen.formats._trc cimport KIND_BITS, LANES

cdef enum:
    PIECE = 16              # bytes of an access; a wider one becomes several
    PC_BITS = 0x7fffffff

cdef enum:
    ADDRESSES = 0
    CSV = 1
    LACKEY = 2
    DINERO = 3

# What a line may be besides an operation.
cdef enum:
    MODIFY = 4              # a load and a store
    FETCH = 5               # of an instruction
    NOTHING = 6             # a comment

# Columns of CSV; tracegen.formats.plain has the same numbers.
cdef enum:
    IGNORED = 0
    ADDRESS = 1
    SIZE = 2
    OPERATION = 3
    PC = 4
    THREAD = 5
    BLOCK = 6
    WARP = 7
    LANE = 8
    COLUMNS = 9

# How a line names its thread; tracegen.formats.plain has the same numbers.
cdef enum:
    DEALT = 0               # not at all: lines are dealt to the threads in turn
    OF_GRID = 1             # thread
    OF_BLOCK = 2            # block, thread
    LANE_OF_GRID = 3        # warp, lane
    LANE_OF_BLOCK = 4       # block, warp, lane

# Reasons to refuse a line; tracegen.formats.plain has the messages.
cdef enum:
    FINE = 0
    MALFORMED = 1
    BAD_ADDRESS = 2
    BAD_SIZE = 3
    TOO_LONG = 4
    BAD_OPERATION = 5
    FLUSH = 6
    WRONG_FIELDS = 7
    OPEN_QUOTE = 8
    BAD_THREAD = 9
    BAD_BLOCK = 10
    BAD_LANE = 11
    FULL = -1               # no line is wrong, but the next one may not fit into the array

cdef uint64_t TOO_LARGE = <uint64_t>1 << 63

cdef struct Line:
    uint64_t address
    uint64_t size
    int operation
    uint64_t[COLUMNS] values


# ---- Text to numbers

cdef inline bint is_blank(uint8_t c) noexcept nogil:
    return c == c' ' or c == c'\t' or c == c'\r'


cdef inline void skip_blanks(const uint8_t* p, int64_t* at, int64_t stop) noexcept nogil:
    while at[0] < stop and is_blank(p[at[0]]):
        at[0] += 1


cdef inline bint read_digits(const uint8_t* p, int64_t* at, int64_t stop, bint hexadecimal, uint64_t* value) noexcept nogil:
    """Read digits; a number of 2^63 or more becomes 2^63, so that it cannot wrap around into the valid range."""
    cdef uint64_t base = 16 if hexadecimal else 10
    cdef uint64_t last = TOO_LARGE // base - 1
    cdef uint64_t v = 0
    cdef int64_t i = at[0]
    cdef int digit
    while i < stop:
        digit = hex_digit(p[i])
        if digit < 0 or digit >= <int>base:
            break
        v = v * base + <uint64_t>digit if v <= last else TOO_LARGE
        i += 1
    if i == at[0]:
        return False
    at[0] = i
    value[0] = v
    return True


cdef inline bint pass_prefix(const uint8_t* p, int64_t* at, int64_t stop) noexcept nogil:
    if stop - at[0] > 2 and p[at[0]] == c'0' and (p[at[0] + 1] | 0x20) == c'x':
        at[0] += 2
        return True
    return False


cdef inline bint read_number(const uint8_t* p, int64_t* at, int64_t stop, bint hexadecimal, uint64_t* value) noexcept nogil:
    """Read a number that is hexadecimal after 0x or if `hexadecimal` is set, and decimal otherwise."""
    cdef bint prefixed = pass_prefix(p, at, stop)
    return read_digits(p, at, stop, prefixed or hexadecimal, value)


cdef inline int finish_line(const uint8_t* p, int64_t at, int64_t stop) noexcept nogil:
    skip_blanks(p, &at, stop)
    return FINE if at == stop else MALFORMED


# ---- Lines of each format; `at` is behind the leading blanks, and the line is not empty

cdef int read_address_line(const uint8_t* p, int64_t at, int64_t stop, Line* line) noexcept nogil:
    if not read_number(p, &at, stop, False, &line.address):
        return MALFORMED
    return finish_line(p, at, stop)


cdef int read_lackey_line(const uint8_t* p, int64_t at, int64_t stop, Line* line) noexcept nogil:
    cdef uint8_t c = p[at]
    if stop - at > 1 and ((c == c'=' or c == c'-') and p[at + 1] == c or c == c'S' and p[at + 1] == c'B'):
        line.operation = NOTHING   # a message of valgrind, or the start of a superblock
        return FINE
    if c == c'L':
        line.operation = LOAD
    elif c == c'S':
        line.operation = STORE
    elif c == c'M':
        line.operation = MODIFY
    elif c == c'I':
        line.operation = FETCH
    else:
        return MALFORMED
    at += 1
    if at == stop or not is_blank(p[at]):
        return MALFORMED
    skip_blanks(p, &at, stop)
    if not read_digits(p, &at, stop, True, &line.address) or at == stop or p[at] != c',':
        return MALFORMED
    at += 1
    if not read_digits(p, &at, stop, False, &line.size):
        return MALFORMED
    return finish_line(p, at, stop)


cdef int read_dinero_line(const uint8_t* p, int64_t at, int64_t stop, Line* line) noexcept nogil:
    cdef uint8_t c = p[at] | 0x20 if p[at] >= c'A' else p[at]
    cdef bint extended = c >= c'a'
    cdef int64_t i
    if c == c'0' or c == c'r' or c == c'3' or c == c'm':
        line.operation = LOAD
    elif c == c'1' or c == c'w':
        line.operation = STORE
    elif c == c'2' or c == c'i':
        line.operation = FETCH
    elif c != c'4' and c != c'c' and c != c'v':
        return MALFORMED
    at += 1
    if at == stop or not is_blank(p[at]):
        return MALFORMED
    if c == c'4' or c == c'c' or c == c'v':
        return FLUSH
    skip_blanks(p, &at, stop)
    if not read_number(p, &at, stop, True, &line.address) or (at < stop and not is_blank(p[at])):
        return MALFORMED
    skip_blanks(p, &at, stop)
    if extended:
        if not read_number(p, &at, stop, True, &line.size) or (at < stop and not is_blank(p[at])):
            return MALFORMED
        return FINE
    # A comment may follow. Only digits alone are a size: 'add' is a hexadecimal number, too.
    i = at
    if not pass_prefix(p, &i, stop):
        while i < stop and c'0' <= p[i] <= c'9':
            i += 1
        if i == at or finish_line(p, i, stop):
            return FINE
    return FINE if read_number(p, &at, stop, True, &line.size) and not finish_line(p, at, stop) else MALFORMED


cdef int next_field(const uint8_t* p, int64_t* at, int64_t stop, int64_t* first, int64_t* last) noexcept nogil:
    """Find the content of a field of CSV, without blanks and quotes around it; pass the comma behind it."""
    cdef int64_t i
    skip_blanks(p, at, stop)
    i = first[0] = at[0]
    if i < stop and p[i] == c'"':
        first[0] = i = i + 1
        while True:
            while i < stop and p[i] != c'"':
                i += 1
            if i == stop:
                return OPEN_QUOTE
            if i + 1 == stop or p[i + 1] != c'"':
                break
            i += 2
        last[0] = i
        at[0] = i + 1
        skip_blanks(p, at, stop)
        if at[0] < stop and p[at[0]] != c',':
            return OPEN_QUOTE
    else:
        while i < stop and p[i] != c',':
            i += 1
        at[0] = i
        while i > first[0] and is_blank(p[i - 1]):
            i -= 1
        last[0] = i
    at[0] += 1
    return FINE


cdef inline bint is_word(const uint8_t* p, int64_t length, const char* word, int64_t word_length) noexcept nogil:
    cdef int64_t i
    if length != word_length:
        return False
    for i in range(length):
        if (p[i] | 0x20) != <uint8_t>word[i]:
            return False
    return True


cdef int read_operation(const uint8_t* p, int64_t length, Line* line) noexcept nogil:
    if is_word(p, length, "load", 4) or is_word(p, length, "read", 4):
        line.operation = LOAD
    elif is_word(p, length, "store", 5) or is_word(p, length, "write", 5):
        line.operation = STORE
    elif is_word(p, length, "atomic", 6):
        line.operation = ATOMIC
    elif length != 1:
        return BAD_OPERATION
    elif (p[0] | 0x20) == c'l' or (p[0] | 0x20) == c'r' or p[0] == c'0':
        line.operation = LOAD
    elif (p[0] | 0x20) == c's' or (p[0] | 0x20) == c'w' or p[0] == c'1':
        line.operation = STORE
    elif (p[0] | 0x20) == c'a' or p[0] == c'2':
        line.operation = ATOMIC
    else:
        return BAD_OPERATION
    return FINE


cdef int read_csv_line(const uint8_t* p, int64_t at, int64_t stop, const int8_t* roles, int64_t count, Line* line) noexcept nogil:
    cdef int64_t column = 0, first = 0, last = 0
    cdef int problem
    while at <= stop:
        if column == count:
            return WRONG_FIELDS
        problem = next_field(p, &at, stop, &first, &last)
        if problem:
            return problem
        if roles[column] == OPERATION:
            problem = read_operation(p + first, last - first, line)
            if problem:
                return problem
        elif roles[column] != IGNORED:
            if not read_number(p, &first, last, False, &line.values[roles[column]]) or first != last:
                return MALFORMED
        column += 1
    line.address, line.size = line.values[ADDRESS], line.values[SIZE]
    return FINE if column == count else WRONG_FIELDS


@cython.final
cdef class Scanner:
    """Reads lines of one format as accesses; lines of CSV have the columns `roles`.

    `naming` says how lines name their threads; numbers of threads are below `threads`, which is a multiple of
    `block_threads`. Addresses are at most `last_address`, lines at most `longest` bytes long, and accesses at most
    `widest` bytes wide; a line without a size has `default_size` bytes.
    """

    cdef int form, naming
    cdef int64_t block_threads, block_warps, threads, longest
    cdef uint64_t last_address, widest, default_size
    cdef const int8_t[::1] roles
    cdef int64_t count       # of lines that access memory
    cdef int64_t fetches     # instructions since the last access
    cdef int64_t pc          # of the last instruction, or -1
    cdef bint has_pc

    def __init__(
        self,
        int form,
        const int8_t[::1] roles,
        int naming,
        int64_t block_threads,
        int64_t threads,
        int64_t last_address,
        int64_t longest,
        int64_t widest,
        int64_t default_size,
    ):
        self.form = form
        self.roles = roles
        self.naming = naming
        self.block_threads = block_threads
        self.block_warps = (block_threads + LANES - 1) // LANES
        self.threads = threads
        self.last_address = <uint64_t>last_address
        self.longest = longest
        self.widest = <uint64_t>widest
        self.default_size = <uint64_t>default_size
        self.count = self.fetches = 0
        self.pc = -1
        self.has_pc = False
        cdef int64_t i
        for i in range(roles.shape[0]):
            self.has_pc |= roles[i] == PC

    @property
    def lines(self):
        """Number of lines that access memory, those that were left out included."""
        return self.count

    def leave_out(self, int64_t[:, ::1] accesses, int64_t n):
        """Let the next line keep its turn without an access; return the new number of entries in `accesses`."""
        if self.naming == DEALT:
            accesses[n, 0] = (self.count % self.threads) << KIND_BITS | HOLE << OPERATION_SHIFT
            accesses[n, 1] = 0
            self.count += 1
            n += 1
        return n

    def scan(self, const uint8_t[::1] text, int64_t at, int64_t[:, ::1] accesses, int64_t n):
        """Append the accesses of ``text[at:]`` to `accesses`, which holds `n` already; stop before the first bad line.

        Returns (position, lines read, n, problem). The problem -1 means that `accesses` must have room for more.
        """
        cdef int64_t end = text.shape[0]
        cdef int64_t lines = 0
        cdef int64_t stop, start, thread
        cdef int64_t room = accesses.shape[0] - 2 * (<int64_t>self.widest // PIECE + 2)
        cdef int problem = FINE
        cdef const uint8_t* p
        cdef Line line
        if at >= end:
            return at, 0, n, FINE
        p = &text[0]
        with nogil:
            while at < end:
                if n > room:
                    problem = FULL
                    break
                stop = line_end(p, at, end)
                if stop - at > self.longest:
                    problem = TOO_LONG
                    break
                start = at
                skip_blanks(p, &start, stop)
                if start < stop and p[start] != c'#':
                    problem = self.read_line(p, start, stop, &line)
                    if problem:
                        break
                    if line.operation == FETCH:
                        self.fetches += 1
                        self.pc = <int64_t>(line.address & PC_BITS)
                    elif line.operation != NOTHING:
                        thread = self.thread_of(&line, &problem)
                        if problem:
                            break
                        n = self.append(&line, thread, accesses, n)
                        self.count += 1
                at = stop + 1
                lines += 1
        return min(at, end), lines, n, problem

    cdef int read_line(self, const uint8_t* p, int64_t at, int64_t stop, Line* line) noexcept nogil:
        cdef int problem
        cdef uint64_t pieces
        line.operation = LOAD
        line.address = 0
        line.size = line.values[SIZE] = self.default_size
        if self.form == ADDRESSES:
            problem = read_address_line(p, at, stop, line)
        elif self.form == CSV:
            problem = read_csv_line(p, at, stop, &self.roles[0], self.roles.shape[0], line)
        elif self.form == LACKEY:
            problem = read_lackey_line(p, at, stop, line)
        else:
            problem = read_dinero_line(p, at, stop, line)
        if problem or line.operation == FETCH or line.operation == NOTHING:
            return problem
        if not 1 <= line.size <= self.widest:
            return BAD_SIZE
        pieces = (line.size - 1) // PIECE
        return FINE if line.address <= self.last_address - pieces * PIECE else BAD_ADDRESS

    cdef int64_t thread_of(self, const Line* line, int* problem) noexcept nogil:
        cdef uint64_t threads = <uint64_t>self.block_threads
        cdef uint64_t block = 0, thread
        if self.naming == DEALT:
            return self.count % self.threads
        if self.naming == OF_GRID or self.naming == OF_BLOCK:
            thread = line.values[THREAD]
            block = line.values[BLOCK] if self.naming == OF_BLOCK else thread // threads
            thread = thread if self.naming == OF_BLOCK else thread % threads
        else:
            thread = line.values[WARP]
            if self.naming == LANE_OF_BLOCK:
                block = line.values[BLOCK]
            else:
                block = thread // <uint64_t>self.block_warps
                thread = thread % <uint64_t>self.block_warps
            if thread >= <uint64_t>self.block_warps:
                problem[0] = BAD_THREAD
                return 0
            if line.values[LANE] >= LANES:
                problem[0] = BAD_LANE
                return 0
            thread = thread * LANES + line.values[LANE]
        if thread >= threads:
            problem[0] = BAD_THREAD
        elif block >= <uint64_t>(self.threads // self.block_threads):
            problem[0] = BAD_BLOCK
        else:
            return <int64_t>(block * threads + thread)
        return 0

    cdef int64_t append(self, const Line* line, int64_t thread, int64_t[:, ::1] accesses, int64_t n) noexcept nogil:
        cdef int64_t key = thread << KIND_BITS
        cdef int64_t pc = <int64_t>(line.values[PC] & PC_BITS) if self.has_pc else self.pc
        cdef int64_t gap = min(self.fetches - 1 if self.fetches else 0, <int64_t>MAX_GAP)
        cdef int operation = LOAD if line.operation == MODIFY else line.operation
        cdef int64_t more = 0
        cdef uint64_t done
        self.fetches = 0
        if gap or pc >= 0:
            accesses[n, 0] = key
            accesses[n, 1] = gap << 32 | (pc + 1)
            n += 1
        while True:
            done = 0
            while done < line.size:
                accesses[n, 0] = key | more | operation << OPERATION_SHIFT | <int64_t>min(line.size - done, <uint64_t>PIECE)
                accesses[n, 1] = <int64_t>(line.address + done)
                more = CONTINUES
                n += 1
                done += PIECE
            if line.operation != MODIFY or operation == STORE:
                return n
            operation = STORE
