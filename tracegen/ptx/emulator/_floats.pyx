# Single precision is computed in single precision. Directed rounding uses the C library's fesetround around each loop.
# Rounding to whole numbers does not rely on it, because compilers replace rint by code for the default mode.
# Approximate instructions (ex2, lg2, sin, rcp ...) are as accurate as the C library; .ftz is ignored.
"""Execute floating-point instructions and conversions of PTX over packed lanes."""

from libc.math cimport (
    ceil, copysign, cos, exp2, fabs, floor, fma, fmaf, frexp, isfinite, isinf, isnan, ldexp, log2, rint, signbit, sin,
    sqrt, sqrtf, tanh, trunc,
)
from libc.stdint cimport int64_t, uint32_t, uint64_t

from tracegen.ptx.isa._code cimport *

cdef extern from "fenv.h" nogil:
    int FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD
    int fesetround(int mode) noexcept

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline float single_of(uint64_t bits) {
        float x; uint32_t low = (uint32_t) bits; memcpy(&x, &low, sizeof x); return x;
    }
    static inline double double_of(uint64_t bits) { double x; memcpy(&x, &bits, sizeof x); return x; }
    static inline uint64_t bits_of_single(float x) { uint32_t bits; memcpy(&bits, &x, sizeof bits); return bits; }
    static inline uint64_t bits_of_double(double x) { uint64_t bits; memcpy(&bits, &x, sizeof bits); return bits; }
    """
    float single_of(uint64_t bits) noexcept nogil
    double double_of(uint64_t bits) noexcept nogil
    uint64_t bits_of_single(float x) noexcept nogil
    uint64_t bits_of_double(double x) noexcept nogil

ctypedef fused real:
    float
    double

cdef uint64_t ONES = <uint64_t>0 - 1


cdef inline real value(uint64_t bits, real unused) noexcept nogil:
    if real is float:
        return single_of(bits)
    else:
        return double_of(bits)


cdef inline uint64_t bits_of(real x) noexcept nogil:
    if real is float:
        return bits_of_single(x)
    else:
        return bits_of_double(x)


# ---- Arithmetic

cdef bint compute_exact(
    int64_t op, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c, real zero
) noexcept nogil:
    """Execute the instructions whose results IEEE 754 defines exactly; return False for any other."""
    cdef int64_t i
    if op == FADD:
        for i in range(n):
            d[i] = bits_of(<real>(value(a[i], zero) + value(b[i], zero)))
    elif op == FSUB:
        for i in range(n):
            d[i] = bits_of(<real>(value(a[i], zero) - value(b[i], zero)))
    elif op == FMUL:
        for i in range(n):
            d[i] = bits_of(<real>(value(a[i], zero) * value(b[i], zero)))
    elif op == FDIV:
        for i in range(n):
            d[i] = bits_of(<real>(value(a[i], zero) / value(b[i], zero)))
    elif op == FMA:
        for i in range(n):
            if real is float:
                d[i] = bits_of_single(fmaf(single_of(a[i]), single_of(b[i]), single_of(c[i])))
            else:
                d[i] = bits_of_double(fma(double_of(a[i]), double_of(b[i]), double_of(c[i])))
    elif op == FSQRT:
        for i in range(n):
            if real is float:
                d[i] = bits_of_single(sqrtf(single_of(a[i])))
            else:
                d[i] = bits_of_double(sqrt(double_of(a[i])))
    elif op == FRCP:
        for i in range(n):
            d[i] = bits_of(<real>(<real>1 / value(a[i], zero)))
    else:
        return False
    return True


cdef bint compute_sign(
    int64_t op, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, int64_t width
) noexcept nogil:
    cdef int64_t i
    cdef uint64_t sign = <uint64_t>1 << (width - 1)
    cdef uint64_t rest = sign - 1
    if op == FABS:
        for i in range(n):
            d[i] = a[i] & rest
    elif op == FNEG:
        for i in range(n):
            d[i] = (a[i] & (rest | sign)) ^ sign
    elif op == COPYSIGN:
        for i in range(n):
            d[i] = (b[i] & rest) | (a[i] & sign)
    else:
        return False
    return True


cdef bint compute_function(int64_t op, int64_t n, uint64_t* d, const uint64_t* a, real zero) noexcept nogil:
    cdef int64_t i
    cdef double x
    for i in range(n):
        x = value(a[i], zero)
        if op == FRSQRT:
            x = 1 / sqrt(x)
        elif op == FEX2:
            x = exp2(x)
        elif op == FLG2:
            x = log2(x)
        elif op == FSIN:
            x = sin(x)
        elif op == FCOS:
            x = cos(x)
        elif op == FTANH:
            x = tanh(x)
        else:
            return False
        d[i] = bits_of(<real>x)
    return True


cdef inline real smaller(real x, real y) noexcept nogil:
    if x == y:
        return x if signbit(x) else y
    return x if x < y else y


cdef void select_extreme(
    bint least, bint keep_nan, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, real zero
) noexcept nogil:
    """Compute min or max; a NaN and a number give the number, unless `keep_nan` is set."""
    cdef int64_t i
    cdef real x, y
    for i in range(n):
        x = value(a[i], zero)
        y = value(b[i], zero)
        if isnan(x) or isnan(y):
            d[i] = a[i] if isnan(x) == keep_nan else b[i]
        else:
            d[i] = bits_of(smaller(x, y) if least else -smaller(-x, -y))


# ---- Comparisons

cdef void compare(int64_t how, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, real zero) noexcept nogil:
    cdef int64_t i
    cdef real x, y
    cdef bint unordered, result
    for i in range(n):
        x = value(a[i], zero)
        y = value(b[i], zero)
        unordered = isnan(x) or isnan(y)
        if how == EQ or how == EQU:
            result = x == y
        elif how == NE or how == NEU:
            result = x != y and not unordered
        elif how == LT or how == LTU:
            result = x < y
        elif how == LE or how == LEU:
            result = x <= y
        elif how == GT or how == GTU:
            result = x > y
        elif how == GE or how == GEU:
            result = x >= y
        elif how == NUM:
            result = not unordered
        else:
            result = unordered
        d[i] = result or (unordered and EQU <= how <= GEU)


cdef void test(int64_t how, int64_t n, uint64_t* d, const uint64_t* a, real zero) noexcept nogil:
    cdef int64_t i
    cdef real x
    cdef double least = 2.0 ** -126 if real is float else 2.0 ** -1022
    for i in range(n):
        x = value(a[i], zero)
        if how == FINITE:
            d[i] = isfinite(x) != 0
        elif how == INFINITE:
            d[i] = isinf(x) != 0
        elif how == NUMBER:
            d[i] = not isnan(x)
        elif how == NOTANUMBER:
            d[i] = isnan(x) != 0
        elif how == NORMAL:
            d[i] = isfinite(x) and fabs(x) >= least
        else:
            d[i] = x != 0 and fabs(x) < least


# ---- Conversions

cdef inline double whole(double x, int64_t rounding) noexcept nogil:
    """Return `x` rounded to a whole number."""
    if rounding == NEAREST:
        return rint(x)
    if rounding == ZERO:
        return trunc(x)
    return floor(x) if rounding == DOWN else ceil(x)


cdef double half_value(uint64_t bits) noexcept nogil:
    cdef int exponent = <int>((bits >> 10) & 31)
    cdef double fraction = <double>(bits & 1023)
    if exponent == 31:
        fraction = double_of(0x7FF8000000000000) if bits & 1023 else double_of(0x7FF0000000000000)
    else:
        fraction = ldexp(fraction + 1024, exponent - 25) if exponent else ldexp(fraction, -24)
    return -fraction if bits & 0x8000 else fraction


cdef uint64_t half_bits(double x, int64_t rounding) noexcept nogil:
    """Return the half-precision number for `x`."""
    cdef uint64_t sign = 0x8000 if signbit(x) else 0
    cdef int exponent = 0
    cdef double scaled
    if isnan(x):
        return 0x7FFF
    if isinf(x):
        return sign | 0x7C00
    frexp(x, &exponent)
    exponent = max(exponent, -13)
    # The sign stays on while rounding, because directed modes depend on it. 2048 carries into the exponent.
    scaled = fabs(whole(ldexp(x, 11 - exponent), rounding))
    if scaled == 2048:
        exponent += 1
        scaled = 1024
    if exponent > 16:
        # Rounding towards zero stops at the largest finite number; rounding 0.75 shows the direction of the mode.
        return sign | (0x7C00 if fabs(whole(copysign(0.75, x), rounding)) == 1 else 0x7BFF)
    if scaled < 1024:
        return sign | <uint64_t>scaled
    return sign | <uint64_t>(exponent + 14) << 10 | (<uint64_t>scaled & 1023)


cdef inline double wide_value(uint64_t bits, int64_t width) noexcept nogil:
    """Return a float of `width` bits as a double, which represents it exactly."""
    if width == 64:
        return double_of(bits)
    return single_of(bits) if width == 32 else half_value(bits)


cdef inline uint64_t narrow_bits(double x, int64_t width, int64_t rounding) noexcept nogil:
    if width == 64:
        return bits_of_double(x)
    return bits_of_single(<float>x) if width == 32 else half_bits(x, rounding)


cdef inline uint64_t integer_of(double x, int64_t width, bint signed) noexcept nogil:
    """Return an integral `x` as an integer, saturated; a NaN gives 0."""
    cdef double limit = ldexp(1.0, <int>(width - 1 if signed else width))
    cdef uint64_t most = ONES >> (65 - width if signed else 64 - width)
    if isnan(x):
        return 0
    if x >= limit:
        return most
    if signed:
        return ~most if x < -limit else <uint64_t><int64_t>x
    return 0 if x <= 0 else <uint64_t>x


cdef inline uint64_t float_of(uint64_t bits, const Code* code) noexcept nogil:
    """Convert an integer to floating point with one rounding, in the current rounding mode."""
    cdef int64_t unused = 64 - code.from_width
    cdef int64_t signed = <int64_t>(bits << unused) >> unused
    cdef uint64_t unsigned = (bits << unused) >> unused
    if code.width == 64:
        return bits_of_double(<double>signed if code.from_kind == SIGNED else <double>unsigned)
    if code.width == 32:
        return bits_of_single(<float>signed if code.from_kind == SIGNED else <float>unsigned)
    return half_bits(<double>signed if code.from_kind == SIGNED else <double>unsigned, code.rounding)


cdef bint convert(const Code* code, int64_t n, uint64_t* d, const uint64_t* a) noexcept nogil:
    cdef int64_t i
    cdef double x
    if code.op == INT_TO_FLOAT:
        for i in range(n):
            d[i] = float_of(a[i], code)
    elif code.op == FLOAT_TO_INT:
        for i in range(n):
            x = whole(wide_value(a[i], code.from_width), code.rounding)
            d[i] = integer_of(x, code.width, code.kind == SIGNED)
    elif code.op == FLOAT_TO_FLOAT:
        for i in range(n):
            x = wide_value(a[i], code.from_width)
            d[i] = narrow_bits(whole(x, code.rounding) if code.mode else x, code.width, code.rounding)
    else:
        return False
    return True


cdef void saturate(const Code* code, int64_t n, uint64_t* d) noexcept nogil:
    """Clamp results to [0, 1]; a NaN becomes 0."""
    cdef int64_t i
    cdef double x
    for i in range(n):
        x = wide_value(d[i], code.width)
        if not x > 0:
            d[i] = 0
        elif x > 1:
            d[i] = narrow_bits(1, code.width, NEAREST)


# ---- Entry point

cdef void compute(
    const Code* code, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c, real zero
) noexcept nogil:
    cdef int64_t op = code.op
    if compute_exact(op, n, d, a, b, c, zero) or compute_sign(op, n, d, a, b, code.width):
        return
    if op == FMIN or op == FMAX:
        select_extreme(op == FMIN, (code.flags & SPREAD) != 0, n, d, a, b, zero)
    elif op == FCOMPARE:
        compare(code.mode, n, d, a, b, zero)
    elif op == TESTP:
        test(code.mode, n, d, a, zero)
    else:
        compute_function(op, n, d, a, zero)


cdef inline int library_mode(int64_t rounding) noexcept nogil:
    if rounding == ZERO:
        return FE_TOWARDZERO
    return FE_DOWNWARD if rounding == DOWN else FE_UPWARD


cdef void compute_floats(
    const Code* code, int64_t n, uint64_t* d, const uint64_t* a, const uint64_t* b, const uint64_t* c
) noexcept nogil:
    """Execute a floating-point instruction for `n` lanes: `d` from the operands `a`, `b` and `c`."""
    if code.rounding != NEAREST:
        fesetround(library_mode(code.rounding))
    if not convert(code, n, d, a):
        if code.width == 64:
            compute[double](code, n, d, a, b, c, 0.0)
        else:
            compute[float](code, n, d, a, b, c, 0.0)
    if code.rounding != NEAREST:
        fesetround(FE_TONEAREST)
    if code.flags & SATURATE:
        saturate(code, n, d)
