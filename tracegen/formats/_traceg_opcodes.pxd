# Opcodes of .traceg lines: a hash table from the name before the first dot to its meaning for memory, and the numbers
# of operations and memory spaces in a trace (rdmodel.trace.Op and Space).

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, strlen

from tracegen.formats._fields cimport MAX_OPERANDS

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

cdef enum CacheOperator:          # rdmodel.trace.cache_ops
    CACHE_CA = 1
    CACHE_CG = 2
    CACHE_CS = 3
    CACHE_LU = 4
    CACHE_CV = 5
    CACHE_VOLATILE = 6
    NO_ALLOCATE = 7
    EVICT_FIRST = 8
    EVICT_LAST = 9
    ASYNC_CA = 10
    ASYNC_CG = 11
    CACHE_BULK = 12
    CACHE_TEX = 13
    READ_ONLY = 16

cdef struct Opcode:
    uint64_t name            # up to eight characters, the first one lowest; 0: the slot is free
    uint8_t kind, space
    uint8_t generic          # the addresses decide whether memory is global, local or shared


# A line of an instruction.
cdef struct Line:
    uint64_t pc, mask
    const Opcode* opcode     # NULL: nothing about memory
    int64_t width            # bytes per lane, 0: no memory instruction
    uint8_t cache_op
    int64_t targets, sources # general registers
    uint64_t named           # targets, including uniform and predicate registers
    int64_t[MAX_OPERANDS] target, source


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


cdef inline bint is_word(const uint8_t* text, int64_t length, const char* word) noexcept nogil:
    return length == <int64_t>strlen(word) and memcmp(text, word, <size_t>length) == 0


cdef inline int hint_of(const uint8_t* text, int64_t length) noexcept nogil:
    """Return the cache operator that one suffix names, or 0."""
    if length != 2:
        return CACHE_VOLATILE if is_word(text, length, b"MMIO") else 0
    if text[0] == c'C':
        return CACHE_CA if text[1] == c'A' else CACHE_CG if text[1] == c'G' else CACHE_CS if text[1] == c'S' else (
            CACHE_CV if text[1] == c'V' else 0
        )
    if text[0] == c'E':
        return EVICT_FIRST if text[1] == c'F' else EVICT_LAST if text[1] == c'L' else 0
    return CACHE_LU if is_word(text, 2, b"LU") else NO_ALLOCATE if is_word(text, 2, b"NA") else 0


cdef inline uint8_t cache_op_of(const uint8_t* text, int64_t length, bint copies) noexcept nogil:
    """Return the cache operator of a load, or of a copy to shared memory, as `tracegen.formats.sass_opcodes` does."""
    cdef int64_t i = 0, first
    cdef int chosen = 0, found
    cdef bint read_only = False, strong = False, bypasses = False, scoped = False
    while i < length:
        if text[i] != c'.':
            i += 1
            continue
        first = i + 1
        i += 1
        while i < length and text[i] != c'.':
            i += 1
        if is_word(text + first, i - first, b"STRONG"):
            strong = True
        elif is_word(text + first, i - first, b"BYPASS"):
            bypasses = True
        elif is_word(text + first, i - first, b"CONSTANT") or is_word(text + first, i - first, b"CI"):
            read_only = True
        elif strong and is_word(text + first, i - first, b"GPU"):
            chosen, scoped = CACHE_CG, True
        elif strong and is_word(text + first, i - first, b"SYS"):
            chosen, scoped = CACHE_VOLATILE, True
        elif not scoped and chosen == 0:
            found = hint_of(text + first, i - first)
            chosen = found if found else chosen
    if copies:
        return ASYNC_CG if bypasses or chosen in (CACHE_CG, CACHE_CV, CACHE_VOLATILE) else ASYNC_CA
    if read_only and chosen not in (CACHE_LU, CACHE_CV, CACHE_VOLATILE):
        chosen |= READ_ONLY
    return <uint8_t>chosen


cdef inline const char* operator_suffix(int cache_op) noexcept nogil:
    """Return the suffix of Volta's loads that is closest to a cache operator, without that of read-only ones."""
    cdef int plain = cache_op & ~READ_ONLY
    if plain == CACHE_CG or plain == ASYNC_CG or plain == CACHE_BULK:
        return b".STRONG.GPU"
    if plain == CACHE_VOLATILE or plain == CACHE_CV:
        return b".STRONG.SYS"
    if plain == EVICT_FIRST or plain == CACHE_CS:
        return b".EF"
    return b".EL" if plain == EVICT_LAST else b".LU" if plain == CACHE_LU else b".NA" if plain == NO_ALLOCATE else b""


cdef inline uint8_t cache_op_of_load(const Opcode* opcode, const uint8_t* text, int64_t length) noexcept nogil:
    """Return the cache operator in the text of an opcode; 0 for what is no load of global or local memory."""
    if opcode == NULL or (opcode.kind != LOADS and opcode.kind != COPIES) or opcode.space >= CONSTANT:
        return 0
    return cache_op_of(text, length, opcode.kind == COPIES)
