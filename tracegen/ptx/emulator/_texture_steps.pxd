# `TextureSteps`: samples of textures, and loads and stores of surfaces, on top of `MemorySteps`. The texels of a sample
# and its value are in `_texture`.
cimport cython
from libc.stdint cimport int64_t, uint8_t

from tracegen.ptx.emulator._lanes cimport MAX_BLOCK_THREADS
from tracegen.ptx.emulator._memory_steps cimport MemorySteps
from tracegen.ptx.emulator._texture cimport MOST_TEXELS, Footprint, Texture
from tracegen.ptx.isa._code cimport Code, Lanes


cdef class TextureSteps(MemorySteps):
    cdef object textures_owner
    cdef const Texture* textures
    cdef int64_t texture_count, last_texture # `last_texture`: the one that was named last
    # Per lane of a sample: the texels that it reads, and their host pointers.
    cdef Footprint[MAX_BLOCK_THREADS] footprints
    cdef uint8_t* texels[MAX_BLOCK_THREADS][MOST_TEXELS]

    cdef int64_t read_texture(self, const Code* code, const Lanes* lanes) noexcept nogil
    @cython.final
    cdef int64_t read_texels(
        self, const Code* code, const Lanes* lanes, int64_t k, int64_t size, int64_t* rows
    ) noexcept nogil
    @cython.final
    cdef bint record_texels(self, const Code* code, int64_t size, int64_t* rows) noexcept nogil
    @cython.final
    cdef void sample_lanes(self, const Code* code, const Lanes* lanes) noexcept nogil
    cdef int64_t access_surface(self, const Code* code, const Lanes* lanes) noexcept nogil
    @cython.final
    cdef const Texture* texture_of(self, const Code* code, int64_t lane) noexcept nogil
