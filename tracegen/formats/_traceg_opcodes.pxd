# Opcodes of .traceg lines: a hash table from the name before the first dot to its meaning for memory, and the numbers
# of operations and memory spaces in a trace (rdmodel.trace.Op and Space).

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum:
    TABLE_SLOTS = 256
    MAX_NAME_BYTES = 8

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

cdef enum Kind:
    PLAIN = 0                # no memory instruction
    LOADS = 1
    COPIES = 2               # a load into shared memory: it writes no register, and DEPBAR waits for it
    STORES = 3
    ATOMICS = 4
    REDUCES = 5              # an atomic without result
    ELSEWHERE = 6            # an access that traces do not contain: shared memory, or cache control
    PUTS = 7                 # likewise, and the last source is data
    WAITS = 8                # DEPBAR
    SYNCS = 9                # BAR
    BULK = 10                # copies of whole boxes by the tensor memory accelerator

cdef struct Opcode:
    uint64_t name            # up to eight characters, the first one lowest; 0: the slot is free
    uint8_t kind, space
    uint8_t generic          # the addresses decide whether memory is global, local or shared


cdef inline uint64_t slot_of(uint64_t name) noexcept nogil:
    return (name * <uint64_t>0x9E3779B97F4A7C15) >> 56


cdef inline void add_opcode(Opcode* table, uint64_t name, int kind, int space, bint generic) noexcept nogil:
    cdef uint64_t slot = slot_of(name)
    while table[slot].name:
        slot = (slot + 1) % TABLE_SLOTS
    table[slot].name = name
    table[slot].kind, table[slot].space, table[slot].generic = kind, space, generic


cdef inline fill(Opcode* table, names, int kind, int space=GLOBAL, bint generic=False):
    for name in names.split():
        add_opcode(table, int.from_bytes(name.encode(), "little"), kind, space, generic)


cdef inline fill_table(Opcode* table):
    """Add all opcodes that have to do with memory to an empty table."""
    fill(table, "LDG LDU LDGMC", LOADS)
    fill(table, "LD", LOADS, GLOBAL, True)
    fill(table, "LDL", LOADS, LOCAL)
    fill(table, "LDC LDCU ULDC", LOADS, CONSTANT)
    fill(table, "TEX TEXS TLD TLDS TLD4 TLD4S TXD SULD", LOADS, TEXTURE)
    fill(table, "LDGSTS", COPIES)
    fill(table, "STG", STORES)
    fill(table, "ST", STORES, GLOBAL, True)
    fill(table, "STL", STORES, LOCAL)
    fill(table, "SUST", STORES, TEXTURE)
    fill(table, "ATOMG", ATOMICS)
    fill(table, "ATOM", ATOMICS, GLOBAL, True)
    fill(table, "SUATOM", ATOMICS, TEXTURE)
    fill(table, "REDG", REDUCES)
    fill(table, "RED", REDUCES, GLOBAL, True)
    fill(table, "SURED", REDUCES, TEXTURE)
    fill(table, "LDS LDSM LDSLK LDTM ALD CCTL CCTLL CCTLT MATCH QSPC SYNCS ARRIVES UTMACCTL", ELSEWHERE)
    fill(table, "STS STSM STSCUL STAS STTM AST ATOMS REDAS REDS", PUTS)
    fill(table, "DEPBAR", WAITS)
    fill(table, "BAR", SYNCS)
    fill(table, "UTMALDG UTMASTG UTMAPF UTMAREDG UBLKCP UBLKPF UBLKRED", BULK)


cdef inline const Opcode* find_opcode(const Opcode* table, const uint8_t* text, int64_t length) noexcept nogil:
    """Return the entry for the characters before the first dot; NULL: not in the table, so no memory instruction."""
    cdef uint64_t name = 0, slot
    cdef int64_t i = 0
    while i < length and text[i] != c'.':
        if i == MAX_NAME_BYTES:
            return NULL
        name |= <uint64_t>text[i] << (8 * i)
        i += 1
    slot = slot_of(name)
    while table[slot].name:
        if table[slot].name == name:
            return &table[slot]
        slot = (slot + 1) % TABLE_SLOTS
    return NULL


cdef inline int64_t suffix_width(const uint8_t* text, int64_t length) noexcept nogil:
    """Return the bytes that a suffix of an opcode gives, such as 64, U8, S16 or F32, or 0 if there is none."""
    cdef int64_t i = 0, bits
    while i < length:
        if text[i] != c'.':
            i += 1
            continue
        i += 1
        if i < length and text[i] in (c'U', c'S', c'F', c'B'):
            i += 1
        bits = 0
        while i < length and c'0' <= text[i] <= c'9' and bits < 1000:
            bits = bits * 10 + (text[i] - c'0')
            i += 1
        if (i == length or text[i] == c'.') and bits in (8, 16, 32, 64, 128):
            return bits // 8
    return 0
