// The types of expressions as gcc and nvcc name them.
#pragma once
template <class T> struct rdmodel_referred { using type = T; };
template <class T> struct rdmodel_referred<T&> { using type = T; };
template <class T> struct rdmodel_referred<T&&> { using type = T; };
template <class T> using rdmodel_typeof = typename rdmodel_referred<T>::type;
#define __typeof__(...) rdmodel_typeof<decltype(__VA_ARGS__)>
#define __typeof __typeof__
