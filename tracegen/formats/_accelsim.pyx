# The compiled half of tracegen.formats.traceg. Writes stay within the sizes of the arrays, whatever a file claims.
"""Parse lines of a .traceg file into warp instructions."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from tracegen.formats._fields cimport (
    at_break, read_decimal, read_hex, read_registers, read_trailing_fields, read_word, skip
)
from tracegen.formats._loads_in_flight cimport (
    LoadsInFlight, clear_loads, issue_access, settle_needs, wait_for_copies, wait_for_register
)
from tracegen.formats._traceg_addresses cimport (
    WARP_LANES, count_bits, memory_of, read_differences, read_list, read_strided
)
from tracegen.formats._traceg_opcodes cimport (
    ATOMIC, ATOMICS, BARRIER, BULK, COPIES, ELSEWHERE, LOAD, LOADS, LOCAL, PLAIN, PUTS, REDUCES, STORE, STORES,
    SYNCS, TABLE_SLOTS, WAITS, Line, Opcode, cache_op_of_load, fill_table, find_opcode, suffix_width
)

cdef enum:
    ZERO = 255               # RZ, which no instruction ever writes
    LONGEST_OPCODE = 64

# Reasons for `Reader.parse` to return. tracegen.formats.traceg has messages for those that are mistakes, from 4 on.
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
    NO_THREAD = 31
    SILENT_WARPS = 32

# Places of the reader in the file.
cdef enum:
    OUTSIDE = 0
    BEGUN = 1                # after #BEGIN_TB
    IN_BLOCK = 2
    IN_WARP = 3              # after the number of the warp
    COUNTED = 4              # after the number of its instructions

cdef uint64_t LAST_32 = <uint64_t>0xFFFFFFFF


cdef Opcode[TABLE_SLOTS] table
fill_table(table)


# ---- Reading

@cython.final
cdef class Reader:
    """Parses instruction lines into the columns of `rdmodel.trace.Columns`, which `take` returns.

    `last_address` is the highest valid address and `longest` the limit of bytes in a line. The arrays hold `rows`
    instructions; `parse` returns with `FULL` when they are full.
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
    cdef uint32_t warps_seen, last_warp_mask
    cdef bint drops_lanes
    cdef readonly int64_t dropped_lanes
    # The warp.
    cdef LoadsInFlight loads
    cdef int64_t gap
    # The instructions that were parsed.
    cdef int64_t rows, used
    cdef int32_t[::1] pc, gap_of
    cdef uint8_t[::1] op, space, size, cache_op
    cdef uint64_t[::1] needs
    cdef uint32_t[::1] mask
    cdef int64_t[::1] addresses, block_of, warp_of

    def __init__(self, int64_t last_address, int64_t longest, int64_t rows):
        self.last_address = <uint64_t>last_address
        self.longest = longest
        self.room = rows
        self.address_room = rows * 16 + WARP_LANES
        self.extras = -1
        self.pc, self.gap_of = np.empty(rows, np.int32), np.empty(rows, np.int32)
        self.op, self.space, self.size, self.cache_op = np.empty((4, rows), np.uint8)
        self.needs, self.mask = np.empty(rows, np.uint64), np.empty(rows, np.uint32)
        self.addresses = np.empty(self.address_room, np.int64)
        self.block_of, self.warp_of = np.empty(rows, np.int64), np.empty(rows, np.int64)

    def set_layout(
        self, *, bint coordinates, bint line_numbers, bint plain, int64_t block_warps, uint32_t last_warp_mask,
        bint drops_lanes, shared_window, local_window
    ):
        """Set the layout of the file that its header describes.

        Other lanes than those of `last_warp_mask` in the last warp of a block are mistakes, or dropped (`drops_lanes`).

        Lines begin with block and warp (`coordinates`) and with the source line (`line_numbers`), and end with the
        addresses (`plain`). The windows are the first addresses of shared and local memory, 0 if unknown.
        """
        self.coordinates, self.line_numbers = coordinates, line_numbers
        self.extras = 0 if plain else -1
        self.block_warps, self.last_warp_mask, self.drops_lanes = block_warps, last_warp_mask, drops_lanes
        self.shared_window, self.local_window = shared_window, local_window

    def enter_block(self, int64_t block, int64_t x, int64_t y, int64_t z):
        """Begin the block whose line the caller has parsed after a `BLOCK` event, at (x, y, z) in the grid."""
        self.block = block
        self.block_place[0], self.block_place[1], self.block_place[2] = <uint64_t>x, <uint64_t>y, <uint64_t>z
        self.warps_seen = 0
        self.state = IN_BLOCK

    def count_of_warp(self):
        """Return warp, claimed instructions and found instructions of a `WRONG_COUNT` event."""
        return self.warp, self.reported, self.instructions

    cdef uint32_t silent_warps(self) noexcept nogil:
        return ~self.warps_seen & <uint32_t>0xFFFFFFFF >> (32 - self.block_warps)

    def accept_silent_warps(self):
        """Take the warps that the block does not name for warps without instructions; return their mask."""
        silent = self.silent_warps()
        self.warps_seen |= silent
        return silent

    def finish(self):
        """Return `NO_END` if the file ends within a block, else `DONE`."""
        return DONE if self.state == OUTSIDE else NO_END

    def take(self):
        """Return and clear the parsed columns; they are views, which the next `parse` overwrites.

        Beside those of `rdmodel.trace.Columns`, ``block`` and ``warp`` have one value per instruction.
        """
        cdef int64_t n = self.rows
        columns = {
            "pc": self.pc, "op": self.op, "space": self.space, "size": self.size, "gap": self.gap_of,
            "needs": self.needs, "mask": self.mask, "block": self.block_of, "warp": self.warp_of, "cache_op": self.cache_op,
        }
        taken = {name: np.asarray(column)[:n] for name, column in columns.items()}
        taken["addresses"] = np.asarray(self.addresses)[:self.used]
        self.rows = self.used = 0
        return taken

    def parse(self, const uint8_t[::1] text, int64_t at):
        """Parse ``text[at:]`` up to the next event; return (position, lines read, event).

        The position is that of the line of the event, or the end of the text (`DONE`). The text is bytes or a bytearray,
        not empty: a zero byte follows it.
        """
        cdef const uint8_t* first = &text[0]
        cdef const uint8_t* end = first + text.shape[0]
        cdef const uint8_t* p = first + at
        cdef const uint8_t* start
        cdef int64_t lines = 0
        cdef int event = DONE
        with nogil:
            while p < end:
                start = p
                if self.rows == self.room or self.used + WARP_LANES > self.address_room:
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
        """Parse one line and move `at` to its newline."""
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
        """Return the event that names the line missing before a misplaced line."""
        if self.state == OUTSIDE:
            return NO_BEGIN
        if self.state == BEGUN:
            return NO_BLOCK
        if self.state == IN_BLOCK:
            return NO_WARP
        return NO_COUNT if self.state == IN_WARP else NO_TOKEN

    cdef int read_mark(self, const uint8_t** at, const uint8_t* end) noexcept nogil:
        """Parse the begin or the end of a block; other lines that start with # are comments."""
        cdef const uint8_t* p = at[0]
        if read_word(&p, b"#BEGIN_TB", 9):
            if self.state != OUTSIDE:
                # The next call finds the old block closed and begins the new one.
                self.state = OUTSIDE
                return NESTED
            self.state = BEGUN
        elif read_word(&p, b"#END_TB", 7):
            if self.state == OUTSIDE:
                return NO_BEGIN
            if self.wrong_count():
                return WRONG_COUNT
            if self.state >= IN_BLOCK and self.silent_warps():
                return SILENT_WARPS
            self.state = OUTSIDE
        else:
            while p[0] != c'\n' and p < end:
                p += 1
        at[0] = p
        return DONE

    cdef bint wrong_count(self) noexcept nogil:
        """Tell, only once, whether the open warp has another number of instructions than its header claims."""
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
        # Until a valid line comes, instructions belong to no warp.
        self.state = IN_BLOCK
        if not read_word(&p, b"warp", 4) or not read_word(&p, b"=", 1) or not read_decimal(&p, &number):
            return BAD_WARP
        if number >= <uint64_t>self.block_warps:
            return BAD_WARP
        if self.warps_seen >> number & 1:
            return WARP_TWICE
        self.warps_seen |= <uint32_t>1 << number
        self.warp = <int64_t>number
        self.instructions = self.gap = 0
        clear_loads(&self.loads)
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
        """Parse a whole instruction line; an invalid one changes nothing but the count of lines."""
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
        line.opcode = find_opcode(table, opcode, length)
        if line.opcode != NULL and line.opcode.kind == BULK:
            return BULK_COPY
        line.cache_op = cache_op_of_load(line.opcode, opcode, length)
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
        if not self.has_threads(&line):
            return NO_THREAD
        at[0] = p
        return self.apply(&line)

    cdef int read_place(self, const uint8_t** at) noexcept nogil:
        """Parse the fields before the pc: block and warp in old files, the line of the source in some."""
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
        """Parse the width and, unless it is 0, the addresses, which are written after those of earlier lines."""
        cdef int64_t* out = &self.addresses[self.used]
        cdef uint32_t mask = <uint32_t>line.mask
        cdef uint64_t width = 0, mode = 0
        cdef int kind = line.opcode.kind if line.opcode != NULL else PLAIN
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
            # If fields follow the addresses, only the 0x of addresses shows that one of them is missing.
            return read_list(at, mask, self.last_address, self.extras != 0, out)
        if mode == 1:
            return read_strided(at, mask, self.last_address, out)
        return read_differences(at, mask, self.last_address, out)

    cdef int read_extras(self, const uint8_t** at, const uint8_t* end) noexcept nogil:
        """Parse the fields after the addresses, as many as on the file's first instruction line.

        There are none, one or two immediates, or two numbers, a word and further text (values of registers).
        """
        cdef int64_t found = read_trailing_fields(at, end)
        if found < 0:
            return MANY_FIELDS
        if self.extras < 0:
            self.extras = found
        if found != self.extras:
            return MANY_FIELDS if found > self.extras else FEW_FIELDS
        return DONE

    cdef bint has_threads(self, Line* line) noexcept nogil:
        """Tell whether all lanes of an access have a thread, or drop those that have none: they are the last ones."""
        cdef uint32_t missing = <uint32_t>line.mask & ~self.last_warp_mask
        if not missing or not line.width or self.warp < self.block_warps - 1 or line.opcode.kind > REDUCES:
            return True
        if not self.drops_lanes:
            return False
        self.dropped_lanes += count_bits(missing)
        line.mask &= self.last_warp_mask
        return True

    # ---- Dependences, and the row of an instruction

    cdef int apply(self, Line* line) noexcept nogil:
        """Account for a valid line: the loads that it waits for, and its row or its share of a gap."""
        cdef int kind = line.opcode.kind if line.opcode != NULL else PLAIN
        cdef int64_t i, group = 1 if line.width <= 4 else 2 if line.width <= 8 else 4
        cdef int place = 0
        if line.opcode != NULL and line.opcode.generic and line.width and line.mask:
            place = memory_of(
                &self.addresses[self.used], count_bits(<uint32_t>line.mask), self.local_window, self.shared_window
            )
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
            wait_for_register(&self.loads, line.source[i])
        if line.sources and kind in (STORES, ATOMICS, REDUCES, PUTS):
            for i in range(line.source[line.sources - 1], min(line.source[line.sources - 1] + group, <int64_t>ZERO)):
                wait_for_register(&self.loads, i)
        if kind == WAITS:
            wait_for_copies(&self.loads)
        return self.write(line, ELSEWHERE if place == 2 else kind, group, place == 1)

    cdef int write(self, Line* line, int kind, int64_t group, bint local) noexcept nogil:
        """Write the row of an instruction, or count it into the gap; set the owners of its target registers."""
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
        self.space[row] = 0 if sync else LOCAL if local else line.opcode.space
        self.size[row] = <uint8_t>line.width
        self.cache_op[row] = line.cache_op if memory else 0
        self.gap = 0
        self.rows += 1
        if sync:
            self.needs[row] = settle_needs(&self.loads)
            return DONE
        self.needs[row] = issue_access(&self.loads, returns, kind == COPIES, kind == LOADS and line.named == 0)
        self.used += count_bits(<uint32_t>line.mask)
        return DONE

    cdef bint set_targets(self, Line* line, int64_t group, bint returns) noexcept nogil:
        """Set the owner of the target registers: this instruction if it `returns` a value; tell whether it has any."""
        cdef int64_t i, r, last
        cdef bint any = False
        for i in range(line.targets):
            last = min(line.target[i] + (group if line.width and line.targets == 1 else 1), <int64_t>ZERO)
            for r in range(line.target[i], last):
                wait_for_register(&self.loads, r)
                if line.mask:
                    self.loads.owner[r] = self.loads.ordinal if returns else -1
                    any = returns
        return any
