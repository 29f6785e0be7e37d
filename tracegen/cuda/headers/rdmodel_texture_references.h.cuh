// Texture and surface references, which CUDA 12 removed: handles with the functions of texture objects.
#pragma once
template <class T, int kind = cudaTextureType1D, cudaTextureReadMode mode = cudaReadModeElementType> struct texture {
  cudaTextureObject_t object = 0x434e455245464552;  // marks the variable; the emulator binds it
};
template <class T, int kind = cudaTextureType1D> struct surface { cudaSurfaceObject_t object = 0x434e455245464552; };

template <class T, cudaTextureReadMode mode> struct rdmodel_texel { using type = T; };
#define RDMODEL_NORMALISED(TYPE)                                                                           \
  template <> struct rdmodel_texel<TYPE, cudaReadModeNormalizedFloat> { using type = float; };             \
  template <> struct rdmodel_texel<unsigned TYPE, cudaReadModeNormalizedFloat> { using type = float; };
#define RDMODEL_NORMALISED_VECTOR(TYPE, SIZE)                                                              \
  template <> struct rdmodel_texel<TYPE##SIZE, cudaReadModeNormalizedFloat> { using type = float##SIZE; }; \
  template <> struct rdmodel_texel<u##TYPE##SIZE, cudaReadModeNormalizedFloat> { using type = float##SIZE; };
RDMODEL_NORMALISED(char) RDMODEL_NORMALISED(short)
RDMODEL_NORMALISED_VECTOR(char, 1) RDMODEL_NORMALISED_VECTOR(char, 2) RDMODEL_NORMALISED_VECTOR(char, 4)
RDMODEL_NORMALISED_VECTOR(short, 1) RDMODEL_NORMALISED_VECTOR(short, 2) RDMODEL_NORMALISED_VECTOR(short, 4)
#undef RDMODEL_NORMALISED
#undef RDMODEL_NORMALISED_VECTOR

#define RDMODEL_FETCH(NAME)                                                                                      \
  template <class T, int kind, cudaTextureReadMode mode, class... Places>                                        \
  __device__ typename rdmodel_texel<T, mode>::type NAME(const texture<T, kind, mode>& from, Places... places) { \
    return NAME<typename rdmodel_texel<T, mode>::type>(from.object, places...);                                  \
  }
RDMODEL_FETCH(tex1Dfetch)
RDMODEL_FETCH(tex1D)
RDMODEL_FETCH(tex2D)
RDMODEL_FETCH(tex3D)
RDMODEL_FETCH(tex1DLayered)
RDMODEL_FETCH(tex2DLayered)
RDMODEL_FETCH(texCubemap)
RDMODEL_FETCH(texCubemapLayered)
RDMODEL_FETCH(tex1DLod)
RDMODEL_FETCH(tex2DLod)
RDMODEL_FETCH(tex3DLod)
RDMODEL_FETCH(tex1DGrad)
RDMODEL_FETCH(tex2DGrad)
RDMODEL_FETCH(tex3DGrad)
#undef RDMODEL_FETCH

#define RDMODEL_SURFACE(DIMENSION)                                                          \
  template <class T, class S, int kind, class... Places>                                    \
  __device__ T surf##DIMENSION##read(const surface<S, kind>& from, Places... places) {      \
    return surf##DIMENSION##read<T>(from.object, places...);                                \
  }                                                                                         \
  template <class T, class S, int kind, class... Places>                                    \
  __device__ void surf##DIMENSION##read(T* to, const surface<S, kind>& from, Places... places) { \
    surf##DIMENSION##read(to, from.object, places...);                                      \
  }                                                                                         \
  template <class T, class S, int kind, class... Places>                                    \
  __device__ void surf##DIMENSION##write(T value, const surface<S, kind>& to, Places... places) { \
    surf##DIMENSION##write(value, to.object, places...);                                    \
  }
RDMODEL_SURFACE(1D)
RDMODEL_SURFACE(2D)
RDMODEL_SURFACE(3D)
#undef RDMODEL_SURFACE
