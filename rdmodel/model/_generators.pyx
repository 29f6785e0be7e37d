"""Seed the generators of random numbers as NumPy does, and draw their numbers one after the other.

The numbers are those of ``numpy.random.Generator(PCG64(SeedSequence(seed, spawn_key=key)))``, without the import of
`numpy.random` and without arrays.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from rdmodel.model._normal cimport steps_next
from rdmodel.model._uniform cimport Uniform, uniform_next, uniform_of, uniform_seed, uniform_state

cdef enum:
    POOL = 4                    # words in which SeedSequence gathers the entropy


cdef inline uint32_t mixed_word(uint32_t word, uint32_t* key, uint32_t factor) noexcept nogil:
    word ^= key[0]
    key[0] *= factor
    word *= key[0]
    return word ^ word >> 16


cdef inline uint32_t mixed_words(uint32_t one, uint32_t other) noexcept nogil:
    cdef uint32_t word = <uint32_t> 0xCA01F9DD * one - <uint32_t> 0x4973F715 * other
    return word ^ word >> 16


cdef list words_of(number):
    # Return the words of 32 bits of a number, the lowest first; 0 has one.
    number = int(number)
    words = [number & 0xFFFFFFFF]
    while number >> 32:
        number >>= 32
        words.append(number & 0xFFFFFFFF)
    return words


def generator_state(seed, *key):
    """Return the state of a generator, and its increment: both as two halves of 64 bits (high, low, high, low).

    `seed` and the numbers of `key` are not negative. The algorithms are ``seed_seq`` (O'Neill, "Developing a seed_seq
    alternative", 2015), as NumPy's SeedSequence has it, and PCG64.
    """
    cdef uint32_t[POOL] pool
    cdef uint32_t[8] out
    cdef uint64_t[4] halves
    cdef uint32_t hash_key = 0x43B0D7E5
    cdef int64_t i, j
    words = words_of(seed)
    words += [0] * (POOL - len(words))
    for number in key:
        words += words_of(number)
    for i in range(POOL):
        pool[i] = mixed_word(words[i], &hash_key, 0x931E8875)
    for i in range(POOL):
        for j in range(POOL):
            if i != j:
                pool[j] = mixed_words(pool[j], mixed_word(pool[i], &hash_key, 0x931E8875))
    for word in words[POOL:]:
        for j in range(POOL):
            pool[j] = mixed_words(pool[j], mixed_word(word, &hash_key, 0x931E8875))
    hash_key = 0x8B51F9DD
    for i in range(8):
        out[i] = mixed_word(pool[i % POOL], &hash_key, 0x58F38DED)
    for i in range(4):
        halves[i] = <uint64_t> out[2 * i + 1] << 32 | out[2 * i]
    cdef Uniform generator = uniform_seed(halves[0], halves[1], halves[2], halves[3])
    uniform_state(&generator, halves)
    return halves[0], halves[1], halves[2], halves[3]


def draw_steps(state, double sigma, int64_t count):
    """Return `count` numbers round(|N(0, sigma)|) from a state, as a list: latencies as `FastCore` draws them."""
    cdef Uniform generator = uniform_of(state)
    return [steps_next(&generator, sigma) for _ in range(count)]


def draw_uniforms(state, int64_t count):
    """Return `count` numbers of [0, 1) from a state, as a list: the choices that `FastCore` draws."""
    cdef Uniform generator = uniform_of(state)
    return [uniform_next(&generator) for _ in range(count)]
