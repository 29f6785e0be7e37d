// <limits>: the members of numeric_limits that kernels use, for arithmetic types.
#pragma once
#include <float.h>
#include <limits.h>
namespace std {
template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
#define RDMODEL_LIMITS(TYPE, LEAST, LOW, MOST, STEP, WHOLE)          \
  template <> struct numeric_limits<TYPE> {                          \
    static constexpr bool is_specialized = true;                     \
    static constexpr bool is_integer = WHOLE;                        \
    static constexpr bool is_signed = (LOW) < 0;                     \
    static constexpr __host__ __device__ TYPE min() { return LEAST; }     \
    static constexpr __host__ __device__ TYPE lowest() { return LOW; }    \
    static constexpr __host__ __device__ TYPE max() { return MOST; }      \
    static constexpr __host__ __device__ TYPE epsilon() { return STEP; }  \
    static __host__ __device__ TYPE infinity() {                      \
      return WHOLE ? 0 : static_cast<TYPE>(__int_as_float(0x7f800000)); \
    }                                                                \
  };
RDMODEL_LIMITS(char, CHAR_MIN, CHAR_MIN, CHAR_MAX, 0, true)
RDMODEL_LIMITS(signed char, SCHAR_MIN, SCHAR_MIN, SCHAR_MAX, 0, true)
RDMODEL_LIMITS(unsigned char, 0, 0, UCHAR_MAX, 0, true)
RDMODEL_LIMITS(short, SHRT_MIN, SHRT_MIN, SHRT_MAX, 0, true)
RDMODEL_LIMITS(unsigned short, 0, 0, USHRT_MAX, 0, true)
RDMODEL_LIMITS(int, INT_MIN, INT_MIN, INT_MAX, 0, true)
RDMODEL_LIMITS(unsigned int, 0, 0, UINT_MAX, 0, true)
RDMODEL_LIMITS(long, LONG_MIN, LONG_MIN, LONG_MAX, 0, true)
RDMODEL_LIMITS(unsigned long, 0, 0, ULONG_MAX, 0, true)
RDMODEL_LIMITS(long long, LLONG_MIN, LLONG_MIN, LLONG_MAX, 0, true)
RDMODEL_LIMITS(unsigned long long, 0, 0, ULLONG_MAX, 0, true)
RDMODEL_LIMITS(float, FLT_MIN, -FLT_MAX, FLT_MAX, FLT_EPSILON, false)
RDMODEL_LIMITS(double, DBL_MIN, -DBL_MAX, DBL_MAX, DBL_EPSILON, false)
#undef RDMODEL_LIMITS
}
