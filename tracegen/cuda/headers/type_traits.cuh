// <type_traits>: the traits that templates of kernels use most.
#pragma once
namespace std {
template <class T, T v> struct integral_constant {
  static constexpr T value = v;
  using value_type = T;
  using type = integral_constant;
  constexpr __host__ __device__ operator T() const { return v; }
  constexpr __host__ __device__ T operator()() const { return v; }
};
template <bool v> using bool_constant = integral_constant<bool, v>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;
template <bool c, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool c, class T = void> using enable_if_t = typename enable_if<c, T>::type;
template <bool c, class T, class F> struct conditional { using type = T; };
template <class T, class F> struct conditional<false, T, F> { using type = F; };
template <bool c, class T, class F> using conditional_t = typename conditional<c, T, F>::type;
template <class...> using void_t = void;
template <class T, class U> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <class T, class U> constexpr bool is_same_v = is_same<T, U>::value;
template <class T> struct remove_const { using type = T; };
template <class T> struct remove_const<const T> { using type = T; };
template <class T> struct remove_volatile { using type = T; };
template <class T> struct remove_volatile<volatile T> { using type = T; };
template <class T> struct remove_cv { using type = typename remove_const<typename remove_volatile<T>::type>::type; };
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T&> { using type = T; };
template <class T> struct remove_reference<T&&> { using type = T; };
template <class T> struct remove_pointer { using type = T; };
template <class T> struct remove_pointer<T*> { using type = T; };
template <class T> struct decay { using type = typename remove_cv<typename remove_reference<T>::type>::type; };
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_cvref_t = remove_cv_t<remove_reference_t<T>>;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> using decay_t = typename decay<T>::type;
template <class T> struct is_void : is_same<remove_cv_t<T>, void> {};
template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_pointer : false_type {};
template <class T> struct is_pointer<T*> : true_type {};
template <class T> struct is_floating_point
    : bool_constant<is_same<remove_cv_t<T>, float>::value || is_same<remove_cv_t<T>, double>::value> {};
template <class T> struct rdmodel_is_whole : false_type {};
#define RDMODEL_WHOLE(TYPE) template <> struct rdmodel_is_whole<TYPE> : true_type {};
RDMODEL_WHOLE(bool) RDMODEL_WHOLE(char) RDMODEL_WHOLE(signed char) RDMODEL_WHOLE(unsigned char)
RDMODEL_WHOLE(short) RDMODEL_WHOLE(unsigned short) RDMODEL_WHOLE(int) RDMODEL_WHOLE(unsigned int)
RDMODEL_WHOLE(long) RDMODEL_WHOLE(unsigned long) RDMODEL_WHOLE(long long) RDMODEL_WHOLE(unsigned long long)
#undef RDMODEL_WHOLE
template <class T> struct is_integral : rdmodel_is_whole<remove_cv_t<T>> {};
template <class T> struct is_arithmetic : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T, bool = is_arithmetic<T>::value> struct is_signed : bool_constant<(T(-1) < T(0))> {};
template <class T> struct is_signed<T, false> : false_type {};
template <class T> struct is_unsigned : bool_constant<is_integral<T>::value && !is_signed<T>::value> {};
template <class T> struct is_enum : bool_constant<__is_enum(T)> {};
template <class T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class Base, class T> struct is_base_of : bool_constant<__is_base_of(Base, T)> {};
template <class T> T&& declval();
template <class... T> struct common_type;
template <class T> struct common_type<T> { using type = decay_t<T>; };
template <class T, class U> struct common_type<T, U> {
  using type = decay_t<decltype(false ? declval<T>() : declval<U>())>;
};
template <class T, class U, class... V> struct common_type<T, U, V...>
    : common_type<typename common_type<T, U>::type, V...> {};
template <class... T> using common_type_t = typename common_type<T...>::type;
template <class T> constexpr bool is_void_v = is_void<T>::value;
template <class T> constexpr bool is_const_v = is_const<T>::value;
template <class T> constexpr bool is_pointer_v = is_pointer<T>::value;
template <class T> constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> constexpr bool is_integral_v = is_integral<T>::value;
template <class T> constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T> constexpr bool is_signed_v = is_signed<T>::value;
template <class T> constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T> constexpr bool is_enum_v = is_enum<T>::value;
template <class T> constexpr bool is_trivially_copyable_v = is_trivially_copyable<T>::value;
}
