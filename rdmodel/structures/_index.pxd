# Index functions in numeric form, and their evaluation: they map a line to its set of the cache.
# rdmodel.policies.IndexCode defines the kinds, and guarantees that every intermediate value fits 64 bits.
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint64_t

cdef enum:
    INDEX_LINEAR = 0      # parities, with an optional remainder folded in
    INDEX_MODULO = 1      # remainder
    INDEX_DISPLACED = 2   # remainder of the tag, times a factor, added to the low bits
    INDEX_TABLE = 3       # an entry of a table
    INDEX_CALL = 4        # a function of the user

cdef struct Index:
    int64_t kind
    int64_t modulus
    int64_t factor
    int64_t shift
    int64_t fold_mask
    int64_t bits          # number of masks in use
    uint64_t[63] mask
    const int64_t* table  # its memory belongs to the `IndexCode`, which the owner of this keeps
    int64_t entries
    void* call            # a `CheckedCall` of the `IndexCode`


cdef inline int index_read(Index* f, code) except -1:
    # Read the fields of an `IndexCode`, which must live as long as `f`.
    cdef bytes table = code.table
    f.kind = code.kind
    f.modulus = code.modulus
    f.factor = code.factor
    f.shift = code.shift
    f.fold_mask = code.fold_mask
    f.bits = 0
    for mask in code.masks:
        f.mask[f.bits] = mask
        f.bits += 1
    f.table = <const int64_t*> PyBytes_AS_STRING(table)
    f.entries = len(table) // <int64_t> sizeof(int64_t)
    f.call = <void*> code.call
    return 0


cdef inline int64_t call_index(void* call, int64_t line) noexcept with gil:
    # The set of a line by a function of the user. It raises nothing; whoever added the line asks for its error.
    return (<object> call)(line)


cdef inline int64_t parity(uint64_t x) noexcept nogil:
    # By hand, as `popcount` in _tree.pxd: without the instruction, the builtin is a function call.
    x ^= x >> 32
    x ^= x >> 16
    x ^= x >> 8
    x ^= x >> 4
    return <int64_t> ((<uint64_t> 0x6996 >> (x & 15)) & 1)


cdef inline int64_t modulo(int64_t a, int64_t b) noexcept nogil:
    # The remainder that is not negative; C's is negative for a negative line.
    cdef int64_t r = a % b
    return r + b if r < 0 else r


cdef inline int64_t set_of(const Index* f, int64_t line) noexcept nogil:
    cdef int64_t j, s = 0
    if f.kind == INDEX_LINEAR:
        for j in range(f.bits):
            s |= parity(<uint64_t> line & f.mask[j]) << j
        if f.modulus != 0:
            s ^= modulo((line >> f.shift) & f.fold_mask, f.modulus)
        return s
    if f.kind == INDEX_MODULO:
        return modulo(line, f.modulus)
    if f.kind == INDEX_TABLE:
        return f.table[modulo(line >> f.shift, f.entries)]
    if f.kind == INDEX_CALL:
        return call_index(f.call, line)
    s = f.factor * modulo(line >> f.shift, f.modulus)
    return modulo(s + (line & ((<int64_t> 1 << f.shift) - 1)), f.modulus)
