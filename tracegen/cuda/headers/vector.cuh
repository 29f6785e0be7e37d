// <vector>: templates of host and device code name it in functions that only the host calls.
#pragma once
namespace std {
template <class T, class Allocator = void> class vector;
}
