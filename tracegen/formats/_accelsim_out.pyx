# The compiled half of tracegen.formats.accelsim_writer. Columns are those of a checked trace.
"""Write warp instructions as lines of a .traceg file, with registers that express their dependences on loads."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset, strlen

import numpy as np

from tracegen.formats._fields cimport REGISTERS
from tracegen.formats._loads_in_flight cimport NEEDS_BITS
from tracegen.formats._traceg_addresses cimport WARP_LANES, count_bits, highest_bit, lowest_bit
from tracegen.formats._traceg_opcodes cimport BARRIER, CACHE_TEX, CONSTANT, GLOBAL, LOAD, LOCAL, READ_ONLY, STORE, operator_suffix

cdef extern from *:
    int lowest_bit64 "__builtin_ctzll"(unsigned long long x) noexcept nogil

cdef enum:
    ZERO = 255                   # RZ, which no instruction ever writes
    RENDERED_REGISTERS = 248     # targets of loads: R0 to R247
    ADDRESS_REGISTER = 252       # source of an instruction that waits for no load; no instruction writes it
    FILLER_SOURCES = 3
    LONGEST_LINE = 1024


# ---- Fields

cdef inline int64_t put_text(uint8_t* out, int64_t at, const char* text) noexcept nogil:
    cdef int64_t i
    for i in range(<int64_t>strlen(text)):
        out[at + i] = <uint8_t>text[i]
    return at + <int64_t>strlen(text)


cdef inline int64_t put_hex(uint8_t* out, int64_t at, uint64_t value, int digits) noexcept nogil:
    """Write at least `digits` hexadecimal digits and a blank."""
    cdef int i
    while digits < 16 and value >> (4 * digits):
        digits += 1
    for i in range(digits):
        out[at + i] = <uint8_t>b"0123456789abcdef"[value >> (4 * (digits - 1 - i)) & 15]
    out[at + digits] = c' '
    return at + digits + 1


cdef inline int64_t put_decimal(uint8_t* out, int64_t at, int64_t value) noexcept nogil:
    """Write a number and a blank."""
    cdef uint8_t[20] digits
    cdef uint64_t left = <uint64_t>value
    cdef int n = 0
    if value < 0:
        out[at] = c'-'
        at += 1
        left = <uint64_t>0 - left
    while True:
        digits[n] = <uint8_t>(c'0' + left % 10)
        left //= 10
        n += 1
        if left == 0:
            break
    while n > 0:
        n -= 1
        out[at] = digits[n]
        at += 1
    out[at] = c' '
    return at + 1


cdef inline int64_t put_registers(uint8_t* out, int64_t at, const int64_t* register_of, int64_t n) noexcept nogil:
    cdef int64_t i
    at = put_decimal(out, at, n)
    for i in range(n):
        out[at] = c'R'
        at = put_decimal(out, at + 1, register_of[i])
    return at


cdef inline const char* opcode_of(int op, int space) noexcept nogil:
    if op == LOAD:
        return b"LDG.E" if space == GLOBAL else b"LDL" if space == LOCAL else b"LDC" if space == CONSTANT else b"TLD"
    if op == STORE:
        return b"STG.E" if space == GLOBAL else b"STL" if space == LOCAL else b"SUST"
    return b"ATOMG.E.ADD" if space <= LOCAL else b"SUATOM.ADD"


cdef inline const char* suffix_of(int size) noexcept nogil:
    return b".U8" if size == 1 else b".U16" if size == 2 else b".64" if size == 8 else b".128" if size == 16 else b""


cdef inline int64_t put_addresses(uint8_t* out, int64_t at, uint32_t mask, const int64_t* address) noexcept nogil:
    """Write base and stride if the lanes are neighbours, else base and differences, as Accel-Sim's tracer does."""
    cdef int64_t lanes = count_bits(mask), i
    cdef int64_t stride = address[1] - address[0] if lanes > 1 else 0
    cdef bint steady = lanes > 1 and lanes == WARP_LANES - highest_bit(mask) - lowest_bit(mask)
    steady = steady and -2147483648 <= stride <= 2147483647
    for i in range(2, lanes):
        steady = steady and address[i] - address[i - 1] == stride
    at = put_text(out, at, b"1 0x" if steady else b"2 0x")
    at = put_hex(out, at, <uint64_t>address[0], 1)
    if steady:
        return put_decimal(out, at, stride)
    for i in range(1, lanes):
        at = put_decimal(out, at, address[i] - address[i - 1])
    return at


@cython.final
cdef class Renderer:
    """Writes instruction lines to `out`, an array of `room` bytes, and allocates target registers to loads.

    It tracks which register belongs to which load in flight, as `Reader` does when it reads the lines. `reduced_needs`
    counts instructions that needed other things than loads in flight, `extra_waits` those that wait for more loads
    because no register was free, and `added_fillers` the lines that were inserted before instructions that wait for
    more loads than a line can name.
    """

    cdef readonly object out
    cdef readonly int64_t reduced_needs, extra_waits, added_fillers
    cdef uint8_t[::1] text
    cdef int64_t[REGISTERS] owner
    cdef int64_t[NEEDS_BITS] first_register
    cdef int64_t ordinal, next_register
    cdef uint64_t open
    # The next instruction: the filler lines still to be written before it, and the registers of the loads it waits for.
    cdef bint planned
    cdef int64_t fillers, names, direct
    cdef int64_t[NEEDS_BITS] name
    cdef int64_t target, group

    def __init__(self, int64_t room):
        self.out = np.empty(max(room, <int64_t>LONGEST_LINE), np.uint8)
        self.text = self.out
        self.open_warp()

    def open_warp(self):
        """Start a warp, in which no load is in flight."""
        self.ordinal = self.next_register = 0
        self.open = 0
        self.planned = False
        memset(self.owner, 0xFF, sizeof(self.owner))

    def render(
        self,
        const int32_t[::1] pc,
        const uint8_t[::1] op,
        const uint8_t[::1] space,
        const uint8_t[::1] size,
        const int32_t[::1] gap,
        const uint64_t[::1] needs,
        const uint32_t[::1] mask,
        const int64_t[::1] address_start,
        const int64_t[::1] addresses,
        const uint8_t[::1] cache_op,
        int64_t row,
        int64_t end,
    ):
        """Write instructions ``row:end`` of a warp until `out` is full; return (next row, bytes, lines).

        Call again with the next row, until that is `end`. `cache_op` may be None.
        """
        cdef uint8_t* out = &self.text[0]
        cdef int64_t at = 0, lines = 0, room = self.text.shape[0]
        cdef const int64_t* address = NULL
        with nogil:
            while row < end and room - at >= LONGEST_LINE:
                if not self.planned:
                    self.plan(op[row], size[row], gap[row], needs[row])
                lines += 1
                if self.fillers > 0:
                    at = self.put_filler(out, at, <uint32_t>pc[row], mask[row])
                    continue
                if address_start[row] < address_start[row + 1]:
                    address = &addresses[address_start[row]]
                at = self.put_instruction(
                    out, at, <uint32_t>pc[row], op[row], space[row], size[row], mask[row], address,
                    cache_op[row] if cache_op is not None else 0,
                )
                self.planned = False
                row += 1
        return row, at, lines

    cdef void plan(self, int op, int size, int64_t gap, uint64_t needs) noexcept nogil:
        """Choose the registers that the next instruction reads and writes, and the number of lines before it."""
        cdef uint64_t wanted = needs & self.open, left = wanted
        cdef int64_t spare
        self.planned = True
        self.direct = 4 if op == LOAD else 3
        self.group = 0
        self.fillers = gap
        self.names = 0
        self.reduced_needs += needs != wanted
        while left:
            self.name[self.names] = self.first_register[(self.ordinal - 1 - lowest_bit64(left)) & (NEEDS_BITS - 1)]
            self.names += 1
            left &= left - 1
        spare = self.fillers_needed()
        if spare > gap:
            self.added_fillers += spare - gap
            self.fillers = spare
        if op == BARRIER:
            self.open &= ~wanted
            return
        if op != STORE:
            self.group = 1 if size <= 4 else 2 if size <= 8 else 4
            wanted |= self.find_target(wanted)
        self.open = (self.open & ~wanted) << 1 | (op != STORE)
        self.ordinal += 1

    cdef uint64_t find_target(self, uint64_t wanted) noexcept nogil:
        """Find registers that no load in flight targets, or else reuse some; return the loads that owned them."""
        cdef int64_t first = 0, tries, r
        cdef uint64_t taken = 0
        for tries in range(RENDERED_REGISTERS // self.group + 1):
            first = (self.next_register + self.group - 1) // self.group * self.group
            if first >= RENDERED_REGISTERS:
                first = 0
            self.next_register = first + self.group
            taken = 0
            for r in range(first, first + self.group):
                if self.owner[r] >= 0 and self.ordinal - 1 - self.owner[r] < NEEDS_BITS:
                    taken |= self.open & ~wanted & <uint64_t>1 << (self.ordinal - 1 - self.owner[r])
            if taken == 0:
                break
        self.extra_waits += taken != 0
        for r in range(first, first + self.group):
            self.owner[r] = self.ordinal
        self.first_register[self.ordinal & (NEEDS_BITS - 1)] = first
        self.target = first
        return taken

    cdef int64_t fillers_needed(self) noexcept nogil:
        """Return the number of lines for the loads that the instruction itself has no room to name."""
        return max(self.names - self.direct + FILLER_SOURCES - 1, <int64_t>0) // FILLER_SOURCES

    cdef int64_t put_filler(self, uint8_t* out, int64_t at, uint32_t pc, uint32_t mask) noexcept nogil:
        """Write an instruction without result; the last ones read registers that the next one cannot name."""
        cdef int64_t named = 0
        if self.fillers <= self.fillers_needed():
            named = min(self.names - self.direct, <int64_t>FILLER_SOURCES)
        self.fillers -= 1
        self.names -= named
        at = put_hex(out, at, pc, 4)
        at = put_hex(out, at, mask if mask else ~<uint32_t>0, 8)
        at = put_text(out, at, b"0 IADD3 ")
        at = put_registers(out, at, &self.name[self.names], named)
        return put_text(out, at, b"0 0\n")

    cdef int64_t put_instruction(
        self, uint8_t* out, int64_t at, uint32_t pc, int op, int space, int size, uint32_t mask, const int64_t* address,
        int cache_op,
    ) noexcept nogil:
        at = put_hex(out, at, pc, 4)
        at = put_hex(out, at, mask if mask else ~<uint32_t>0, 8)
        if op == BARRIER:
            at = put_text(out, at, b"0 BAR.SYNC ")
            at = put_registers(out, at, &self.name[0], self.names)
            return put_text(out, at, b"0 0\n")
        at = put_registers(out, at, &self.target, 1 if self.group else 0)
        at = put_text(out, at, opcode_of(op, space))
        at = put_text(out, at, suffix_of(size))
        if cache_op and op == LOAD and space < CONSTANT:
            # A read of a texture takes the way of a read-only load.
            if cache_op & READ_ONLY or cache_op == CACHE_TEX:
                at = put_text(out, at, b".CONSTANT")
            at = put_text(out, at, operator_suffix(cache_op))
        out[at] = c' '
        if self.names == 0:
            self.name[0] = ADDRESS_REGISTER
            self.names = 1
        if op != LOAD:
            # The last source of a store is its data, as wide as the access; RZ belongs to no load.
            self.name[self.names] = ZERO
            self.names += 1
        at = put_registers(out, at + 1, &self.name[0], self.names)
        at = put_decimal(out, at, size)
        at = put_addresses(out, at, mask, address)
        return put_text(out, at, b"0\n")
