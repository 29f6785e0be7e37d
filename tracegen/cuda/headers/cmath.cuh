// <cmath>, <math.h>, math_constants.h: constants and std names; the functions are built into the compiler.
#pragma once
#define INFINITY __int_as_float(0x7f800000)
#define HUGE_VALF INFINITY
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)
#define NAN __int_as_float(0x7fc00000)
#define CUDART_INF_F INFINITY
#define CUDART_INF HUGE_VAL
#define CUDART_NAN_F NAN
#define CUDART_PI_F 3.14159265f
#define CUDART_PI 3.14159265358979324
#define CUDART_SQRT_TWO_F 1.41421356f
#define M_E 2.71828182845904524
#define M_LOG2E 1.44269504088896341
#define M_LOG10E 0.434294481903251828
#define M_LN2 0.693147180559945309
#define M_LN10 2.30258509299404568
#define M_PI 3.14159265358979324
#define M_PI_2 1.57079632679489662
#define M_PI_4 0.785398163397448310
#define M_1_PI 0.318309886183790672
#define M_2_PI 0.636619772367581343
#define M_2_SQRTPI 1.12837916709551257
#define M_SQRT2 1.41421356237309505
#define M_SQRT1_2 0.707106781186547524
namespace std {
using ::abs; using ::acos; using ::acosf; using ::acosh; using ::asin; using ::asinf; using ::asinh; using ::atan;
using ::atan2; using ::atan2f; using ::atanf; using ::atanh; using ::cbrt; using ::ceil; using ::ceilf;
using ::copysign; using ::cos; using ::cosf; using ::cosh; using ::erf; using ::erfc; using ::exp; using ::exp2;
using ::exp2f; using ::expf; using ::expm1; using ::fabs; using ::fabsf; using ::floor; using ::floorf; using ::fma;
using ::fmaf; using ::fmax; using ::fmaxf; using ::fmin; using ::fminf; using ::fmod; using ::fmodf; using ::frexp;
using ::hypot; using ::hypotf; using ::isfinite; using ::isinf; using ::isnan; using ::ldexp; using ::llround;
using ::log; using ::log10; using ::log10f; using ::log1p; using ::log2; using ::log2f; using ::logf; using ::lrint;
using ::lround; using ::modf; using ::modff; using ::nearbyint; using ::pow; using ::powf; using ::rint;
using ::rintf; using ::round; using ::roundf; using ::signbit; using ::sin; using ::sinf; using ::sinh; using ::sqrt;
using ::sqrtf; using ::tan; using ::tanf; using ::tanh; using ::tanhf; using ::tgamma; using ::trunc; using ::truncf;
}
