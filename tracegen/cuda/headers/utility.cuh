// <utility>: pairs and sequences of numbers; the compiler itself declares std::move and std::forward.
#pragma once
#include <algorithm>
#include <type_traits>
namespace std {
template <class A, class B> struct pair {
  A first;
  B second;
};
template <class A, class B> constexpr __host__ __device__ pair<A, B> make_pair(A a, B b) { return {a, b}; }
template <class T, class U = T> constexpr __host__ __device__ T exchange(T& place, U&& value) {
  T before = static_cast<T&&>(place);
  place = static_cast<U&&>(value);
  return before;
}
template <class T, T... n> struct integer_sequence {
  using value_type = T;
  static constexpr __host__ __device__ size_t size() { return sizeof...(n); }
};
template <class A, class B> struct rdmodel_join;
template <class T, T... a, T... b> struct rdmodel_join<integer_sequence<T, a...>, integer_sequence<T, b...>> {
  using type = integer_sequence<T, a..., (sizeof...(a) + b)...>;
};
template <class T, size_t count> struct rdmodel_sequence
    : rdmodel_join<typename rdmodel_sequence<T, count / 2>::type, typename rdmodel_sequence<T, count - count / 2>::type> {};
template <class T> struct rdmodel_sequence<T, 0> { using type = integer_sequence<T>; };
template <class T> struct rdmodel_sequence<T, 1> { using type = integer_sequence<T, 0>; };
template <class T, T count> using make_integer_sequence = typename rdmodel_sequence<T, count>::type;
template <size_t... n> using index_sequence = integer_sequence<size_t, n...>;
template <size_t count> using make_index_sequence = make_integer_sequence<size_t, count>;
template <class... T> using index_sequence_for = make_index_sequence<sizeof...(T)>;
}
