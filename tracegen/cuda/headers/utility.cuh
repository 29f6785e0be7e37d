// <utility>: the pair of device code; the compiler itself declares std::move and std::forward.
#pragma once
#include <algorithm>
#include <type_traits>
namespace std {
template <class A, class B> struct pair {
  A first;
  B second;
};
template <class A, class B> constexpr __host__ __device__ pair<A, B> make_pair(A a, B b) { return {a, b}; }
}
