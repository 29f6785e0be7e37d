// Constant expressions of <array>, <complex>, <functional> and <numeric>, which nvcc compiles for the device with
// --expt-relaxed-constexpr, from NVIDIA's C++ library. It takes a second to compile, so that other programs do without.
#pragma once
#if __has_include(<cuda/std/array>)
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/numeric>
#include <rdmodel_operators.h>
namespace std {
using ::cuda::std::array;
using ::cuda::std::complex;
using ::cuda::std::get;
RDMODEL_OPERATORS
using ::cuda::std::invoke;
using ::cuda::std::accumulate; using ::cuda::std::gcd; using ::cuda::std::lcm;
}
#endif
