// <algorithm>: the functions that device code uses.
#pragma once
namespace std {
template <class T> constexpr __host__ __device__ const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> constexpr __host__ __device__ const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> constexpr __host__ __device__ T min(initializer_list<T> list) {
  T found = *list.begin();
  for (const T& item : list) found = item < found ? item : found;
  return found;
}
template <class T> constexpr __host__ __device__ T max(initializer_list<T> list) {
  T found = *list.begin();
  for (const T& item : list) found = found < item ? item : found;
  return found;
}
template <class T> constexpr __host__ __device__ const T& clamp(const T& value, const T& least, const T& most) {
  return value < least ? least : most < value ? most : value;
}
template <class T> __host__ __device__ void swap(T& a, T& b) { T c = a; a = b; b = c; }
}
