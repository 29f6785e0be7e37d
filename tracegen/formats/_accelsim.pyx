# The reading half of tracegen.formats.accelsim. What goes into the arrays is bounded by their sizes, not by what a file
# claims.
"""Lines of a .traceg file to warp instructions."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

import numpy as np

from tracegen.formats._fields cimport (
    MOST_OPERANDS, REGISTERS, at_break, read_decimal, read_hex, read_registers, read_signed, read_word, skip
)

cdef extern from *:
    int count_bits "__builtin_popcount"(unsigned int x) noexcept nogil
    int lowest_bit "__builtin_ctz"(unsigned int x) noexcept nogil
    int highest_bit "__builtin_clz"(unsigned int x) noexcept nogil

cdef enum:
    LANES = 32
    ZERO = 255               # RZ, which nothing is ever written to
    NEAR = 64                # how far back a `needs` mask reaches
    LONGEST_OPCODE = 64
    SLOTS = 256

cdef enum:
    LOAD = 0
    STORE = 1
    ATOMIC = 2
    BARRIER = 3

cdef enum:
    GLOBAL = 0
    LOCAL = 1
    CONSTANT = 2
    TEXTURE = 3

# What the base of an opcode says.
cdef enum Kind:
    PLAIN = 0                # no memory instruction
    LOADS = 1
    COPIES = 2               # a load into shared memory: no register, waited for by DEPBAR
    STORES = 3
    ATOMICS = 4
    REDUCES = 5              # an atomic without result
    ELSEWHERE = 6            # memory that is not ours: shared, or cache control
    PUTS = 7                 # the same, and the last source is data
    WAITS = 8                # DEPBAR
    SYNCS = 9                # BAR
    BULK = 10                # copies of whole boxes by the tensor memory accelerator

# Why `Reader.parse` came back. tracegen.formats.accelsim has the words; the first three are no problems.
cpdef enum Event:
    DONE = 0
    FULL = 1
    HEADER = 2
    BLOCK = 3
    NO_TOKEN = 4
    BAD_PC = 5
    BAD_MASK = 6
    BAD_REGISTERS = 7
    BAD_OPCODE = 8
    BAD_WIDTH = 9
    BAD_MODE = 10
    FEW_ADDRESSES = 11
    BAD_ADDRESS = 12
    HOLES = 13
    MANY_FIELDS = 14
    FEW_FIELDS = 15
    BULK_COPY = 16
    NOT_MEMORY = 17
    MIXED = 18
    BAD_PLACE = 19
    TOO_LONG = 20
    NO_BEGIN = 21
    NO_BLOCK = 22
    NO_WARP = 23
    NO_COUNT = 24
    NESTED = 25
    BAD_WARP = 26
    WARP_TWICE = 27
    BAD_COUNT = 28
    WRONG_COUNT = 29
    NO_END = 30

# Where in the file the reader is.
cdef enum:
    OUTSIDE = 0
    BEGUN = 1                # after #BEGIN_TB
    IN_BLOCK = 2
    IN_WARP = 3              # its number is known
    COUNTED = 4              # and how many instructions follow

cdef uint64_t WINDOW = <uint64_t>1 << 24
cdef uint64_t LAST_32 = <uint64_t>0xFFFFFFFF


# ---- Opcodes

cdef struct Slot:
    uint64_t name
    uint8_t kind, space, generic

cdef Slot[SLOTS] table


cdef inline uint64_t place_of(uint64_t name) noexcept nogil:
    return (name * <uint64_t>0x9E3779B97F4A7C15) >> 56


def _fill(names, int kind, int space=0, bint generic=False):
    cdef uint64_t name, at
    for text in names.split():
        name = int.from_bytes(text.encode(), "little")
        at = place_of(name)
        while table[at].name:
            at = (at + 1) % SLOTS
        table[at].name = name
        table[at].kind, table[at].space, table[at].generic = kind, space, generic


_fill("LDG LDU LDGMC", LOADS)
_fill("LD", LOADS, GLOBAL, True)
_fill("LDL", LOADS, LOCAL)
_fill("LDC LDCU ULDC", LOADS, CONSTANT)
_fill("TEX TEXS TLD TLDS TLD4 TLD4S TXD SULD", LOADS, TEXTURE)
_fill("LDGSTS", COPIES)
_fill("STG", STORES)
_fill("ST", STORES, GLOBAL, True)
_fill("STL", STORES, LOCAL)
_fill("SUST", STORES, TEXTURE)
_fill("ATOMG", ATOMICS)
_fill("ATOM", ATOMICS, GLOBAL, True)
_fill("SUATOM", ATOMICS, TEXTURE)
_fill("REDG", REDUCES)
_fill("RED", REDUCES, GLOBAL, True)
_fill("SURED", REDUCES, TEXTURE)
_fill("LDS LDSM LDSLK LDTM ALD CCTL CCTLL CCTLT MATCH QSPC SYNCS ARRIVES UTMACCTL", ELSEWHERE)
_fill("STS STSM STSCUL STAS STTM AST ATOMS REDAS REDS", PUTS)
_fill("DEPBAR", WAITS)
_fill("BAR", SYNCS)
_fill("UTMALDG UTMASTG UTMAPF UTMAREDG UBLKCP UBLKPF UBLKRED", BULK)


cdef inline const Slot* classify(const uint8_t* opcode, int64_t length) noexcept nogil:
    """Return what the letters before the first dot say; NULL: nothing about memory."""
    cdef uint64_t name = 0, at
    cdef int64_t i = 0
    while i < length and opcode[i] != c'.':
        if i == 8:
            return NULL
        name |= <uint64_t>opcode[i] << (8 * i)
        i += 1
    at = place_of(name)
    while table[at].name:
        if table[at].name == name:
            return &table[at]
        at = (at + 1) % SLOTS
    return NULL


cdef inline int64_t suffix_width(const uint8_t* opcode, int64_t length) noexcept nogil:
    """Return the bytes that a part such as 64, U8, S16 or F32 of an opcode says, or 0."""
    cdef int64_t i = 0, bits
    while i < length:
        if opcode[i] != c'.':
            i += 1
            continue
        i += 1
        if i < length and opcode[i] in (c'U', c'S', c'F', c'B'):
            i += 1
        bits = 0
        while i < length and c'0' <= opcode[i] <= c'9' and bits < 1000:
            bits = bits * 10 + (opcode[i] - c'0')
            i += 1
        if (i == length or opcode[i] == c'.') and bits in (8, 16, 32, 64, 128):
            return bits // 8
    return 0


# ---- Reading

cdef struct Line:
    uint64_t pc, mask
    const Slot* slot
    int64_t width            # bytes per lane, 0: no memory instruction
    int64_t targets, sources # general registers among them
    uint64_t named           # targets, uniform and predicate registers included
    int64_t[MOST_OPERANDS] target, source


@cython.final
cdef class Reader:
    """Reads instruction lines into the columns of `rdmodel.trace.Columns`; `take` hands them over.

    `last_address` is the highest address allowed, `longest` the most bytes of a line; `rows` is how many
    instructions, and warps, the arrays hold before `parse` comes back with `FULL`.
    """

    cdef uint64_t last_address
    cdef int64_t longest, room, address_room
    # The file's layout.
    cdef bint coordinates, line_numbers
    cdef int64_t extras
    cdef uint64_t shared_window, local_window
    # Where in the file.
    cdef int state
    cdef uint64_t[3] block_place
    cdef int64_t block, block_warps, warp, instructions
    cdef uint64_t claimed, reported
    cdef uint32_t warps_seen
    # The warp's registers.
    cdef int64_t[REGISTERS] owner
    cdef int64_t ordinal
    cdef uint64_t open, copies, pending
    cdef bint unknown        # some load has not said where its result goes
    cdef int64_t gap
    # What was read.
    cdef int64_t rows, used
    cdef int32_t[::1] pc, gap_of
    cdef uint8_t[::1] op, space, size
    cdef uint64_t[::1] needs
    cdef uint32_t[::1] mask
    cdef int64_t[::1] addresses, block_of, warp_of

    def __init__(self, int64_t last_address, int64_t longest, int64_t rows):
        self.last_address = <uint64_t>last_address
        self.longest = longest
        self.room = rows
        self.address_room = rows * 16 + LANES
        self.extras = -1
        self.pc, self.gap_of = np.empty(rows, np.int32), np.empty(rows, np.int32)
        self.op, self.space, self.size = np.empty(rows, np.uint8), np.empty(rows, np.uint8), np.empty(rows, np.uint8)
        self.needs, self.mask = np.empty(rows, np.uint64), np.empty(rows, np.uint32)
        self.addresses = np.empty(self.address_room, np.int64)
        self.block_of, self.warp_of = np.empty(rows, np.int64), np.empty(rows, np.int64)

    def set_layout(
        self, *, bint coordinates, bint line_numbers, bint plain, int64_t block_warps, shared_window, local_window
    ):
        """Say what the header says: numbers before the pc, nothing after the addresses (`plain`), windows, warps."""
        self.coordinates, self.line_numbers = coordinates, line_numbers
        self.extras = 0 if plain else -1
        self.block_warps = block_warps
        self.shared_window, self.local_window = shared_window, local_window

    def enter_block(self, int64_t block, int64_t x, int64_t y, int64_t z):
        """Start the block with this number and place in the grid: the line that `BLOCK` stood for is right."""
        self.block = block
        self.block_place[0], self.block_place[1], self.block_place[2] = <uint64_t>x, <uint64_t>y, <uint64_t>z
        self.warps_seen = 0
        self.state = IN_BLOCK

    def count_of_warp(self):
        """Return (warp, instructions that were claimed, found): what `WRONG_COUNT` is about."""
        return self.warp, self.reported, self.instructions

    def finish(self):
        """Return `NO_END` if the file may not end here, else `DONE`."""
        return DONE if self.state == OUTSIDE else NO_END

    def take(self):
        """Return the columns that were read, as views that the next `parse` overwrites, and start over.

        Beside those of `rdmodel.trace.Columns` there are block and warp, one per instruction.
        """
        cdef int64_t n = self.rows
        columns = {
            "pc": self.pc, "op": self.op, "space": self.space, "size": self.size, "gap": self.gap_of,
            "needs": self.needs, "mask": self.mask, "block": self.block_of, "warp": self.warp_of,
        }
        taken = {name: np.asarray(column)[:n] for name, column in columns.items()}
        taken["addresses"] = np.asarray(self.addresses)[:self.used]
        self.rows = self.used = 0
        return taken

    def parse(self, bytes text, int64_t at):
        """Read ``text[at:]`` until something is up; return (position, lines read, event).

        The position is that of the line that the event is about, or the end of the text (`DONE`).
        """
        cdef const uint8_t* first = <const uint8_t*><const char*>text
        cdef const uint8_t* end = first + len(text)
        cdef const uint8_t* p = first + at
        cdef const uint8_t* start
        cdef int64_t lines = 0
        cdef int event = DONE
        with nogil:
            while p < end:
                start = p
                if self.rows == self.room or self.used + LANES > self.address_room:
                    event = FULL
                    break
                event = self.read_line(&p, end)
                if event != DONE:
                    p = start
                    break
                p += 1
                lines += 1
        return min(p, end) - first, lines, event

    # ---- Structure

    cdef int read_line(self, const uint8_t** at, const uint8_t* end) noexcept nogil:
        """Read one line and leave `at` at its newline."""
        cdef const uint8_t* p = skip(at[0])
        cdef int event
        cdef uint8_t c = p[0]
        if c == c'\n' or p >= end:
            at[0] = p
            return DONE
        if self.state == COUNTED and c != c'#' and c != c'w':
            event = self.read_instruction(&p, at[0], end)
        elif c == c'#':
            event = self.read_mark(&p, end)
        elif c == c'-' and self.state == OUTSIDE:
            return HEADER
        elif c == c't':
            return BLOCK if self.state == BEGUN else self.misplaced()
        elif c == c'w':
            event = self.read_warp(&p)
        elif c == c'i' and self.state == IN_WARP:
            event = self.read_count(&p)
        elif self.state == IN_BLOCK and read_word(&p, b"cluster", 7):
            event = DONE
            while p[0] != c'\n' and p < end:
                p += 1
        else:
            event = self.misplaced()
        if event == DONE:
            p = skip(p)
            if p[0] != c'\n' and p < end:
                return MANY_FIELDS
        at[0] = p
        return event

    cdef int misplaced(self) noexcept nogil:
        """Return what is missing before a line that may not stand where it does."""
        if self.state == OUTSIDE:
            return NO_BEGIN
        if self.state == BEGUN:
            return NO_BLOCK
        if self.state == IN_BLOCK:
            return NO_WARP
        return NO_COUNT if self.state == IN_WARP else NO_TOKEN

    cdef int read_mark(self, const uint8_t** at, const uint8_t* end) noexcept nogil:
        """Read the begin or the end of a block; other lines that start with # are comments."""
        cdef const uint8_t* p = at[0]
        if read_word(&p, b"#BEGIN_TB", 9):
            if self.state != OUTSIDE:
                # The next call finds the block closed, and begins one.
                self.state = OUTSIDE
                return NESTED
            self.state = BEGUN
        elif read_word(&p, b"#END_TB", 7):
            if self.state == OUTSIDE:
                return NO_BEGIN
            if self.wrong_count():
                return WRONG_COUNT
            self.state = OUTSIDE
        else:
            while p[0] != c'\n' and p < end:
                p += 1
        at[0] = p
        return DONE

    cdef bint wrong_count(self) noexcept nogil:
        """Tell whether the open warp has another length than it said; only the first time."""
        cdef bint wrong = self.state == COUNTED and self.claimed != <uint64_t>self.instructions
        if wrong:
            self.reported = self.claimed
            self.claimed = <uint64_t>self.instructions
        return wrong

    cdef int read_warp(self, const uint8_t** at) noexcept nogil:
        cdef const uint8_t* p = at[0]
        cdef uint64_t number = 0
        if self.state < IN_BLOCK:
            return self.misplaced()
        if self.wrong_count():
            return WRONG_COUNT
        # Until a sound line comes, instructions belong to no warp.
        self.state = IN_BLOCK
        if not read_word(&p, b"warp", 4) or not read_word(&p, b"=", 1) or not read_decimal(&p, &number):
            return BAD_WARP
        if number >= <uint64_t>self.block_warps:
            return BAD_WARP
        if self.warps_seen >> number & 1:
            return WARP_TWICE
        self.warps_seen |= <uint32_t>1 << number
        self.warp = <int64_t>number
        self.instructions = self.ordinal = self.gap = 0
        self.unknown = False
        self.open = self.copies = self.pending = 0
        memset(self.owner, 0xFF, sizeof(self.owner))
        self.state = IN_WARP
        at[0] = p
        return DONE

    cdef int read_count(self, const uint8_t** at) noexcept nogil:
        if not read_word(at, b"insts", 5) or not read_word(at, b"=", 1) or not read_decimal(at, &self.claimed):
            return BAD_COUNT
        self.state = COUNTED
        return DONE

    # ---- Instructions

    cdef int read_instruction(self, const uint8_t** at, const uint8_t* start, const uint8_t* end) noexcept nogil:
        """Read an instruction line whole; only a sound one changes anything but the count of lines."""
        cdef const uint8_t* p = at[0]
        cdef const uint8_t* opcode
        cdef Line line
        cdef int64_t length
        cdef uint64_t named = 0
        cdef int problem
        self.instructions += 1
        problem = self.read_place(&p)
        if problem:
            return problem
        if not read_hex(&p, &line.pc, False) or line.pc > LAST_32:
            return BAD_PC
        if not read_hex(&p, &line.mask, False) or line.mask > LAST_32:
            return BAD_MASK
        if not read_registers(&p, &named, &line.targets, line.target):
            return BAD_REGISTERS
        line.named = named
        opcode = p = skip(p)
        if not (c'A' <= p[0] <= c'Z'):
            return BAD_OPCODE
        while not at_break(p):
            p += 1
        length = p - opcode
        if length > LONGEST_OPCODE:
            return BAD_OPCODE
        line.slot = classify(opcode, length)
        if line.slot != NULL and line.slot.kind == BULK:
            return BULK_COPY
        if not read_registers(&p, &named, &line.sources, line.source):
            return BAD_REGISTERS
        problem = self.read_access(&p, &line, opcode, length)
        if problem:
            return problem
        problem = self.read_extras(&p, end)
        if problem:
            return problem
        if p - start > self.longest:
            return TOO_LONG
        at[0] = p
        return self.apply(&line)

    cdef int read_place(self, const uint8_t** at) noexcept nogil:
        """Read what stands before the pc: in old files block and warp, in some the line of the source."""
        cdef uint64_t number = 0
        cdef int64_t i
        if self.coordinates:
            for i in range(4):
                if not read_decimal(at, &number):
                    return BAD_PLACE
                if number != (self.block_place[i] if i < 3 else <uint64_t>self.warp):
                    return BAD_PLACE
        if self.line_numbers and not read_decimal(at, &number):
            return BAD_PLACE
        return DONE

    cdef int read_access(
        self, const uint8_t** at, Line* line, const uint8_t* opcode, int64_t length
    ) noexcept nogil:
        """Read the width and, unless that is 0, the addresses, which go behind those in use."""
        cdef uint64_t width = 0, mode = 0
        cdef int kind = line.slot.kind if line.slot != NULL else PLAIN
        line.width = 0
        if not read_decimal(at, &width):
            return BAD_WIDTH
        if width == 0:
            return DONE
        if kind in (PLAIN, WAITS, SYNCS):
            return NOT_MEMORY
        line.width = suffix_width(opcode, length)
        if line.width == 0:
            if width > 16:
                return BAD_WIDTH
            line.width = <int64_t>width
        if not read_decimal(at, &mode) or mode > 2:
            return BAD_MODE
        if mode == 0:
            return self.read_list(at, <uint32_t>line.mask)
        return self.read_strided(at, <uint32_t>line.mask) if mode == 1 else self.read_deltas(at, <uint32_t>line.mask)

    cdef int read_list(self, const uint8_t** at, uint32_t mask) noexcept nogil:
        cdef int64_t* out = &self.addresses[self.used]
        cdef uint64_t address = 0
        cdef int64_t i
        for i in range(count_bits(mask)):
            # Where a number follows the addresses, only the 0x tells that one is missing.
            if not read_hex(at, &address, self.extras != 0):
                return FEW_ADDRESSES
            if address > self.last_address:
                return BAD_ADDRESS
            out[i] = <int64_t>address
        return DONE

    cdef int read_strided(self, const uint8_t** at, uint32_t mask) noexcept nogil:
        cdef int64_t* out = &self.addresses[self.used]
        cdef int64_t lanes = count_bits(mask), i
        cdef uint64_t base = 0, stride = 0, span, address
        cdef bint minus = False
        if not read_hex(at, &base, False) or not read_signed(at, &minus, &stride):
            return FEW_ADDRESSES
        if mask == 0:
            return DONE
        if lanes != LANES - highest_bit(mask) - lowest_bit(mask):
            return HOLES
        if base > self.last_address:
            return BAD_ADDRESS
        if lanes > 1:
            if stride >= <uint64_t>1 << 58:
                return BAD_ADDRESS
            span = stride * <uint64_t>(lanes - 1)
            if (span > base) if minus else (base + span > self.last_address):
                return BAD_ADDRESS
        if minus:
            stride = <uint64_t>0 - stride
        address = base
        for i in range(lanes):
            out[i] = <int64_t>address
            address += stride
        return DONE

    cdef int read_deltas(self, const uint8_t** at, uint32_t mask) noexcept nogil:
        cdef int64_t* out = &self.addresses[self.used]
        cdef uint64_t address = 0, delta = 0
        cdef int64_t i
        cdef bint minus = False
        if not read_hex(at, &address, False):
            return FEW_ADDRESSES
        if mask and address > self.last_address:
            return BAD_ADDRESS
        for i in range(count_bits(mask)):
            if i > 0:
                if not read_signed(at, &minus, &delta):
                    return FEW_ADDRESSES
                if (delta > address) if minus else (address + delta > self.last_address):
                    return BAD_ADDRESS
                address = address - delta if minus else address + delta
            out[i] = <int64_t>address
        return DONE

    cdef int read_extras(self, const uint8_t** at, const uint8_t* end) noexcept nogil:
        """Read what follows the addresses: as many fields as on the file's first instruction line.

        None, immediates (one or two), or two and a word and anything (values of registers).
        """
        cdef const uint8_t* p = skip(at[0])
        cdef uint64_t value = 0
        cdef bint minus = False
        cdef int64_t found = 0
        while found < 2 and read_signed(&p, &minus, &value):
            found += 1
        p = skip(p)
        if found == 2 and (c'A' <= p[0] <= c'Z'):
            found = 3
            while p[0] != c'\n' and p < end:
                p += 1
        if p[0] != c'\n' and p < end:
            return MANY_FIELDS
        if self.extras < 0:
            self.extras = found
        if found != self.extras:
            return MANY_FIELDS if found > self.extras else FEW_FIELDS
        at[0] = p
        return DONE

    # ---- What an instruction waits for, and the row it becomes

    cdef inline void touch(self, int64_t register) noexcept nogil:
        """Make the next memory instruction wait for the load, if any, that is on its way to a register."""
        cdef int64_t distance = self.ordinal - 1 - self.owner[register]
        if self.owner[register] >= 0 and distance < NEAR:
            self.pending |= self.open & <uint64_t>1 << distance

    cdef int apply(self, Line* line) noexcept nogil:
        cdef int kind = line.slot.kind if line.slot != NULL else PLAIN
        cdef int64_t i, group = 1 if line.width <= 4 else 2 if line.width <= 8 else 4
        cdef int place = 0
        if line.slot != NULL and line.slot.generic and line.width and line.mask:
            place = self.window_of(<int64_t>count_bits(<uint32_t>line.mask))
            if place < 0:
                return MIXED
        if kind == ATOMICS and line.targets == 0 and line.sources >= 3:
            # Older tracers list the result, which follows a predicate, as the first source.
            line.target[0] = line.source[0]
            line.targets = 1
            line.sources -= 1
            for i in range(line.sources):
                line.source[i] = line.source[i + 1]
        for i in range(line.sources):
            self.touch(line.source[i])
        if line.sources and kind in (STORES, ATOMICS, REDUCES, PUTS):
            for i in range(line.source[line.sources - 1], min(line.source[line.sources - 1] + group, <int64_t>ZERO)):
                self.touch(i)
        if kind == WAITS:
            self.pending |= self.open & self.copies
        return self.write(line, ELSEWHERE if place == 2 else kind, group, place == 1)

    cdef int write(self, Line* line, int kind, int64_t group, bint local) noexcept nogil:
        """Add the row of an instruction, or count it to the gap, and note whose its target registers are."""
        cdef int64_t row = self.rows
        cdef bint memory = line.mask != 0 and LOADS <= kind <= REDUCES and line.width > 0
        cdef bint sync = line.mask != 0 and kind == SYNCS
        cdef bint returns = memory and kind in (LOADS, ATOMICS)
        returns = self.set_targets(line, group, returns)
        if not (memory or sync):
            self.gap += 1
            return DONE
        self.block_of[row], self.warp_of[row] = self.block, self.warp
        self.pc[row] = <int32_t><uint32_t>line.pc
        self.gap_of[row] = <int32_t>min(self.gap, <int64_t>0x7FFFFFFF)
        self.mask[row] = <uint32_t>line.mask
        self.op[row] = BARRIER if sync else LOAD if kind <= COPIES else STORE if kind == STORES else ATOMIC
        self.space[row] = 0 if sync else LOCAL if local else line.slot.space
        self.size[row] = <uint8_t>line.width
        self.gap = 0
        self.rows += 1
        if sync:
            self.needs[row] = 0
            return DONE
        if self.unknown:
            self.pending = ~<uint64_t>0
        self.needs[row] = self.pending
        self.used += count_bits(<uint32_t>line.mask)
        self.open = (self.open & ~self.pending) << 1 | (returns or kind == COPIES)
        self.copies = self.copies << 1 | (kind == COPIES)
        self.pending = 0
        self.unknown = kind == LOADS and line.named == 0
        self.ordinal += 1
        return DONE

    cdef bint set_targets(self, Line* line, int64_t group, bint returns) noexcept nogil:
        """Make the target registers those of the load at hand, or of none; return whether it has any."""
        cdef int64_t i, r, last
        cdef bint any = False
        for i in range(line.targets):
            last = min(line.target[i] + (group if line.width and line.targets == 1 else 1), <int64_t>ZERO)
            for r in range(line.target[i], last):
                self.touch(r)
                if line.mask:
                    self.owner[r] = self.ordinal if returns else -1
                    any = returns
        return any

    cdef int window_of(self, int64_t lanes) noexcept nogil:
        """Return where generic addresses lie: 0 global, 1 local, 2 shared memory, -1 not all in one of them."""
        cdef int64_t i
        cdef int found = -1, place
        cdef uint64_t address
        for i in range(lanes):
            address = <uint64_t>self.addresses[self.used + i]
            place = 0
            if self.local_window and address - self.local_window < WINDOW:
                place = 1
            elif self.shared_window and address - self.shared_window < WINDOW:
                place = 2
            if i > 0 and place != found:
                return -1
            found = place
        return found
