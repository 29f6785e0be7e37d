// <string>: as large as those of the host, whose structures and types name it beside those of device code.
#pragma once
namespace std {
template <class Character> class basic_string {
  Character* text;
  size_t length;
  char near[16];
public:
  basic_string(); basic_string(const Character* from);
  const Character* c_str() const; size_t size() const; bool empty() const;
};
using string = basic_string<char>;
}
