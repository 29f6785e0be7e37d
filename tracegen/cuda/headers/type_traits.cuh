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
// Traits that the compiler answers, and the values of others.
#define RDMODEL_VALUE(NAME) template <class T> constexpr bool NAME##_v = NAME<T>::value;
#define RDMODEL_TRAIT(NAME, ...) \
  template <class T> struct NAME : bool_constant<__VA_ARGS__> {}; \
  RDMODEL_VALUE(NAME)
RDMODEL_TRAIT(is_enum, __is_enum(T))
RDMODEL_TRAIT(is_trivially_copyable, __is_trivially_copyable(T))
RDMODEL_TRAIT(is_class, __is_class(T))
RDMODEL_TRAIT(is_union, __is_union(T))
RDMODEL_TRAIT(is_empty, __is_empty(T))
RDMODEL_TRAIT(is_final, __is_final(T))
RDMODEL_TRAIT(is_pod, __is_pod(T))
RDMODEL_TRAIT(is_trivial, __is_trivial(T))
RDMODEL_TRAIT(is_standard_layout, __is_standard_layout(T))
RDMODEL_TRAIT(is_abstract, __is_abstract(T))
RDMODEL_TRAIT(is_polymorphic, __is_polymorphic(T))
RDMODEL_TRAIT(is_default_constructible, __is_constructible(T))
RDMODEL_TRAIT(is_copy_constructible, __is_constructible(T, const T&))
RDMODEL_TRAIT(is_move_constructible, __is_constructible(T, T&&))
RDMODEL_TRAIT(is_trivially_default_constructible, __is_trivially_constructible(T))
RDMODEL_TRAIT(is_trivially_copy_constructible, __is_trivially_constructible(T, const T&))
RDMODEL_TRAIT(is_copy_assignable, __is_assignable(T&, const T&))
RDMODEL_TRAIT(is_move_assignable, __is_assignable(T&, T&&))
#undef RDMODEL_TRAIT
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
template <class T> struct add_const { using type = const T; };
template <class T> struct add_volatile { using type = volatile T; };
template <class T> struct add_pointer { using type = remove_reference_t<T>*; };
template <class T> struct add_lvalue_reference { using type = T&; };
template <class T> struct add_rvalue_reference { using type = T&&; };
template <class T> struct remove_extent { using type = T; };
template <class T> struct remove_extent<T[]> { using type = T; };
template <class T, size_t n> struct remove_extent<T[n]> { using type = T; };
template <class T> struct underlying_type { using type = __underlying_type(T); };
template <class T> using add_const_t = const T;
template <class T> using add_pointer_t = typename add_pointer<T>::type;
template <class T> using add_lvalue_reference_t = T&;
template <class T> using remove_extent_t = typename remove_extent<T>::type;
template <class T> using underlying_type_t = typename underlying_type<T>::type;
template <size_t bytes> struct rdmodel_of_size;
template <> struct rdmodel_of_size<1> { using signed_type = signed char; using unsigned_type = unsigned char; };
template <> struct rdmodel_of_size<2> { using signed_type = short; using unsigned_type = unsigned short; };
template <> struct rdmodel_of_size<4> { using signed_type = int; using unsigned_type = unsigned int; };
template <> struct rdmodel_of_size<8> { using signed_type = long long; using unsigned_type = unsigned long long; };
template <class T> struct make_signed { using type = typename rdmodel_of_size<sizeof(T)>::signed_type; };
template <class T> struct make_unsigned { using type = typename rdmodel_of_size<sizeof(T)>::unsigned_type; };
template <> struct make_signed<unsigned long> { using type = long; };
template <> struct make_unsigned<long> { using type = unsigned long; };
template <> struct make_signed<long> { using type = long; };
template <> struct make_unsigned<unsigned long> { using type = unsigned long; };
template <class T> using make_signed_t = typename make_signed<T>::type;
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
template <class...> struct conjunction : true_type {};
template <class A, class... B> struct conjunction<A, B...>
    : conditional_t<bool(A::value), conjunction<B...>, false_type> {};
template <class...> struct disjunction : false_type {};
template <class A, class... B> struct disjunction<A, B...>
    : conditional_t<bool(A::value), true_type, disjunction<B...>> {};
template <class A> struct negation : bool_constant<!bool(A::value)> {};
template <class... A> constexpr bool conjunction_v = conjunction<A...>::value;
template <class... A> constexpr bool disjunction_v = disjunction<A...>::value;
template <class A> constexpr bool negation_v = negation<A>::value;
template <class T> struct alignment_of : integral_constant<size_t, alignof(T)> {};
template <class T> constexpr size_t alignment_of_v = alignof(T);
template <class T> struct is_lvalue_reference : false_type {};
template <class T> struct is_lvalue_reference<T&> : true_type {};
template <class T> struct is_rvalue_reference : false_type {};
template <class T> struct is_rvalue_reference<T&&> : true_type {};
template <class T> struct is_reference
    : bool_constant<is_lvalue_reference<T>::value || is_rvalue_reference<T>::value> {};
template <class T> struct is_array : false_type {};
template <class T> struct is_array<T[]> : true_type {};
template <class T, size_t n> struct is_array<T[n]> : true_type {};
template <class T> struct is_volatile : false_type {};
template <class T> struct is_volatile<volatile T> : true_type {};
template <class T> struct is_null_pointer : is_same<remove_cv_t<T>, decltype(nullptr)> {};
template <class T> struct is_scalar
    : bool_constant<is_arithmetic<T>::value || is_enum<T>::value || is_pointer<remove_cv_t<T>>::value> {};
template <class T, class... A> struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <class T, class... A> struct is_trivially_constructible
    : bool_constant<__is_trivially_constructible(T, A...)> {};
template <class From, class To> struct is_convertible : bool_constant<__is_convertible_to(From, To)> {};
template <class T, class... A> constexpr bool is_constructible_v = is_constructible<T, A...>::value;
template <class T, class... A> constexpr bool is_trivially_constructible_v = is_trivially_constructible<T, A...>::value;
template <class From, class To> constexpr bool is_convertible_v = is_convertible<From, To>::value;
template <class Base, class T> constexpr bool is_base_of_v = is_base_of<Base, T>::value;
RDMODEL_VALUE(is_void) RDMODEL_VALUE(is_const) RDMODEL_VALUE(is_pointer) RDMODEL_VALUE(is_floating_point)
RDMODEL_VALUE(is_integral) RDMODEL_VALUE(is_arithmetic) RDMODEL_VALUE(is_signed) RDMODEL_VALUE(is_unsigned)
RDMODEL_VALUE(is_lvalue_reference) RDMODEL_VALUE(is_rvalue_reference) RDMODEL_VALUE(is_reference)
RDMODEL_VALUE(is_array) RDMODEL_VALUE(is_volatile) RDMODEL_VALUE(is_null_pointer) RDMODEL_VALUE(is_scalar)
#undef RDMODEL_VALUE
}
