// The functions of operators in NVIDIA's C++ library, to be declared in the namespaces of others.
#pragma once
#if __has_include(<cuda/std/functional>)
#include <cuda/std/functional>
#endif
#define RDMODEL_OPERATORS \
  using ::cuda::std::plus; using ::cuda::std::minus; using ::cuda::std::multiplies; using ::cuda::std::divides; \
  using ::cuda::std::modulus; using ::cuda::std::negate; using ::cuda::std::equal_to; using ::cuda::std::not_equal_to; \
  using ::cuda::std::greater; using ::cuda::std::less; using ::cuda::std::greater_equal; using ::cuda::std::less_equal; \
  using ::cuda::std::logical_and; using ::cuda::std::logical_or; using ::cuda::std::logical_not; \
  using ::cuda::std::bit_and; using ::cuda::std::bit_or; using ::cuda::std::bit_xor; using ::cuda::std::bit_not;
