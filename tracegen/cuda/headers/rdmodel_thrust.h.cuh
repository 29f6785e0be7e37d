// Names of Thrust that device code uses: its tuples, pairs, complex numbers and operators, from NVIDIA's C++ library.
#pragma once
namespace thrust {}
#if __has_include(<cuda/std/tuple>)
#include <cuda/std/complex>
#include <cuda/std/tuple>
#include <cuda/std/utility>
#include <rdmodel_operators.h>
namespace thrust {
using ::cuda::std::complex; using ::cuda::std::abs; using ::cuda::std::arg; using ::cuda::std::conj;
using ::cuda::std::cos; using ::cuda::std::exp; using ::cuda::std::log; using ::cuda::std::norm;
using ::cuda::std::polar; using ::cuda::std::pow; using ::cuda::std::sin; using ::cuda::std::sqrt;
using ::cuda::std::get; using ::cuda::std::make_pair; using ::cuda::std::make_tuple; using ::cuda::std::pair;
using ::cuda::std::swap; using ::cuda::std::tie; using ::cuda::std::tuple;
RDMODEL_OPERATORS
template <class T> struct maximum {
  constexpr __host__ __device__ T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
template <class T> struct minimum {
  constexpr __host__ __device__ T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
}
#endif
