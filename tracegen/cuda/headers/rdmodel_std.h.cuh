// Constant expressions of <array>, <complex>, <functional> and <numeric>, which nvcc compiles for the device with
// --expt-relaxed-constexpr, from NVIDIA's C++ library. It takes a second to compile, so that other programs do without.
#pragma once
#if __has_include(<cuda/std/array>)
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/functional>
#include <cuda/std/numeric>
namespace std {
using ::cuda::std::array;
using ::cuda::std::complex;
using ::cuda::std::get;
using ::cuda::std::plus; using ::cuda::std::minus; using ::cuda::std::multiplies; using ::cuda::std::divides;
using ::cuda::std::modulus; using ::cuda::std::negate; using ::cuda::std::equal_to; using ::cuda::std::not_equal_to;
using ::cuda::std::greater; using ::cuda::std::less; using ::cuda::std::greater_equal; using ::cuda::std::less_equal;
using ::cuda::std::logical_and; using ::cuda::std::logical_or; using ::cuda::std::logical_not;
using ::cuda::std::bit_and; using ::cuda::std::bit_or; using ::cuda::std::bit_xor; using ::cuda::std::bit_not;
using ::cuda::std::invoke;
using ::cuda::std::accumulate; using ::cuda::std::gcd; using ::cuda::std::lcm;
}
#endif
