// <vector>: as large as those of the host, whose structures and functions name it beside those of device code.
#pragma once
namespace std {
template <class T, class Allocator = void> class vector {
  T *first, *last, *end_of_room;
public:
  using value_type = T; using iterator = T*; using const_iterator = const T*;
  vector(); explicit vector(size_t n); vector(size_t n, const T& value);
  T& operator[](size_t i); const T& operator[](size_t i) const; T& at(size_t i); T* data(); const T* data() const;
  T& front(); T& back(); T* begin(); T* end(); const T* begin() const; const T* end() const;
  size_t size() const; size_t capacity() const; bool empty() const;
  void clear(); void resize(size_t n); void resize(size_t n, const T& value); void reserve(size_t n);
  void assign(size_t n, const T& value); void push_back(const T& value); void pop_back(); void swap(vector& other);
};
}
