# Every address is already translated to a host pointer inside its array. Kernels may access unaligned addresses, so
# every value goes through memcpy.
"""Load, store and update memory for PTX instructions, lane by lane."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from tracegen.ptx.emulator._floats cimport compute_floats
from tracegen.ptx.isa._code cimport *

ctypedef fused number:
    int8_t
    int16_t
    int32_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef inline void load(int64_t n, uint64_t* d, uint8_t** place, int64_t offset, number unused) noexcept nogil:
    cdef int64_t i
    cdef number value = 0
    for i in range(n):
        memcpy(&value, place[i] + offset, sizeof(number))
        d[i] = <uint64_t><int64_t>value


cdef void load_values(int64_t n, uint64_t* d, uint8_t** place, int64_t offset, int64_t width, bint signed) noexcept nogil:
    """Load a number of `width` bits per lane, with its sign if `signed`."""
    if width == 64:
        load[uint64_t](n, d, place, offset, 0)
    elif width == 32:
        if signed:
            load[int32_t](n, d, place, offset, 0)
        else:
            load[uint32_t](n, d, place, offset, 0)
    elif width == 16:
        if signed:
            load[int16_t](n, d, place, offset, 0)
        else:
            load[uint16_t](n, d, place, offset, 0)
    elif signed:
        load[int8_t](n, d, place, offset, 0)
    else:
        load[uint8_t](n, d, place, offset, 0)


cdef inline void store(int64_t n, const uint64_t* a, uint8_t** place, int64_t offset, number unused) noexcept nogil:
    cdef int64_t i
    cdef number value
    for i in range(n):
        value = <number>a[i]
        memcpy(place[i] + offset, &value, sizeof(number))


cdef void store_values(int64_t n, const uint64_t* a, uint8_t** place, int64_t offset, int64_t width) noexcept nogil:
    """Store the lowest `width` bits per lane; if lanes store to the same place, the last lane wins."""
    if width == 64:
        store[uint64_t](n, a, place, offset, 0)
    elif width == 32:
        store[uint32_t](n, a, place, offset, 0)
    elif width == 16:
        store[uint16_t](n, a, place, offset, 0)
    else:
        store[uint8_t](n, a, place, offset, 0)


# ---- Atomics, one lane after the other

cdef inline bint is_less(uint64_t x, uint64_t y, int64_t unused, bint signed) noexcept nogil:
    if signed:
        return <int64_t>(x << unused) < <int64_t>(y << unused)
    return x << unused < y << unused


cdef inline uint64_t updated(const Code* code, uint64_t old, uint64_t b, uint64_t c, uint64_t mask) noexcept nogil:
    cdef int64_t op = code.mode, unused = 64 - code.width
    cdef bint signed = code.kind == SIGNED
    if op == ATOMIC_ADD:
        return old + b
    if op == ATOMIC_MIN:
        return b if is_less(b, old, unused, signed) else old
    if op == ATOMIC_MAX:
        return b if is_less(old, b, unused, signed) else old
    if op == ATOMIC_INC:
        return 0 if (old & mask) >= (b & mask) else old + 1
    if op == ATOMIC_DEC:
        return b if (old & mask) == 0 or (old & mask) > (b & mask) else old - 1
    if op == ATOMIC_AND:
        return old & b
    if op == ATOMIC_OR:
        return old | b
    if op == ATOMIC_XOR:
        return old ^ b
    if op == ATOMIC_EXCH:
        return b
    return c if (old & mask) == (b & mask) else old


cdef inline int64_t float_operation(int64_t mode) noexcept nogil:
    if mode == ATOMIC_ADD:
        return FADD
    return FMIN if mode == ATOMIC_MIN else FMAX


cdef void update_values(
    const Code* code, int64_t n, uint64_t* d, uint8_t** place, const uint64_t* b, const uint64_t* c
) noexcept nogil:
    """Execute an atomic lane by lane; `d` receives the old values unless it is NULL."""
    cdef uint64_t mask = (<uint64_t>0 - 1) >> (64 - code.width)
    cdef uint64_t old, new, operand
    cdef int64_t i
    cdef bint computes = code.kind == FLOAT and code.mode <= ATOMIC_MAX
    cdef Code step = code[0]
    step.op = float_operation(code.mode)
    for i in range(n):
        load_values(1, &old, &place[i], 0, code.width, False)
        operand = b[i]
        if computes:
            compute_floats(&step, 1, &new, &old, &operand, NULL)
        else:
            new = updated(code, old, operand, c[i], mask)
        store_values(1, &new, &place[i], 0, code.width)
        if d != NULL:
            d[i] = old
