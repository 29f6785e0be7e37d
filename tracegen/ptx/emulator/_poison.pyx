# Registers have one byte per slot and thread. Memory has one bit per byte, in arrays of the same layout; each array has
# a few bytes more, so that the bits of an access are one 32-bit word. Only steps with the flag POISONED come here.
"""Track which registers and bytes of memory hold values that were not computed."""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from tracegen.ptx.emulator._places cimport Places
from tracegen.ptx.emulator._warp cimport shuffle_lanes
from tracegen.ptx.isa._code cimport *

cdef enum:
    MORE_BYTES = 8
    MOST_MARKED = 16         # bytes that `is_spoiled` and `mark` take at a time


cdef inline bint is_spoiled(const uint8_t* bits, uint64_t at, int64_t size) noexcept nogil:
    """Return whether one of `size` bytes, at most 16, is poisoned."""
    cdef uint32_t word
    memcpy(&word, bits + (at >> 3), sizeof(word))
    return (word >> (at & 7) & ((<uint32_t>1 << size) - 1)) != 0


cdef inline void mark(uint8_t* bits, uint64_t at, int64_t size, bint poisoned) noexcept nogil:
    cdef uint32_t word, mask = ((<uint32_t>1 << size) - 1) << (at & 7)
    memcpy(&word, bits + (at >> 3), sizeof(word))
    if poisoned:
        word |= mask
    elif word & mask:
        word &= ~mask
    else:
        return  # leaves untouched pages of the bits untouched
    memcpy(bits + (at >> 3), &word, sizeof(word))


@cython.final
cdef class Poison:
    """Poison of the registers of a block and of the memory that it sees, `local` bytes per thread and `shared`."""

    def __init__(
        self, int64_t slots, int64_t threads, int64_t variables, Places places, int64_t local, int64_t shared
    ):
        self.slots, self.threads, self.variables, self.places = slots, threads, min(variables, slots), places
        self.rows = np.zeros((max(1, slots), threads), np.uint8)
        self.local = np.zeros(local * threads // 8 + MORE_BYTES, np.uint8)
        self.shared_bits = np.zeros(shared // 8 + MORE_BYTES, np.uint8)
        self.shared, self.peers = self.shared_bits, NULL

    def bind(self, const uint64_t[::1] cells):
        """Set the host addresses of the bits of the arrays, in the order of the arrays of the places."""
        self.owner = cells
        self.cells = &cells[0]

    def join(self, const uint64_t[::1] peers):
        """Set the host addresses of the bits of the shared memories of a cluster, by rank."""
        self.cluster, self.peers = peers, &peers[0]

    cdef void clear(self) noexcept nogil:
        """Forget everything about registers, local and shared memory before the next block."""
        memset(&self.rows[0, 0], 0, <size_t>(self.variables * self.threads))
        memset(&self.local[0], 0, <size_t>self.local.shape[0])
        memset(&self.shared[0], 0, <size_t>self.shared.shape[0])

    # ---- Registers

    cdef int64_t find(self, int64_t slot, const Lanes* lanes) noexcept nogil:
        """Return the first thread among the lanes whose register is poisoned, or -1."""
        cdef int64_t i
        if slot >= 0:
            for i in range(lanes.n):
                if self.rows[slot, lanes.lane[i]]:
                    return lanes.lane[i]
        return -1

    cdef void taint(self, const Code* code, const Lanes* lanes, int64_t slot) noexcept nogil:
        """Poison the results of the lanes whose register `slot` is poisoned, such as the guard of the step."""
        cdef int64_t i, k
        for k in range(4):
            if code.dst[k] >= 0:
                for i in range(lanes.n):
                    self.rows[code.dst[k], lanes.lane[i]] |= self.rows[slot, lanes.lane[i]]

    cdef void compute(self, const Code* code, const Lanes* lanes, const uint64_t* registers) noexcept nogil:
        """Poison the results of a step that have a poisoned operand, and clear the others."""
        cdef int64_t i, k, lane
        cdef uint8_t found
        if code.op == SHFL:
            self.shuffle(code, lanes, registers)
        elif code.op == VOTE or code.op == MATCH or code.op == REDUX:
            self.combine(code, lanes)
        else:
            for i in range(lanes.n):
                lane = lanes.lane[i]
                if code.op == POISON:
                    found = 1
                elif code.op == SELECT:
                    k = 0 if registers[code.src[2] * self.threads + lane] & 1 else 1
                    found = self.rows[code.src[2], lane] | self.rows[code.src[k], lane]
                else:
                    found = 0
                    for k in range(6):
                        if code.src[k] >= 0:
                            found |= self.rows[code.src[k], lane]
                for k in range(4):
                    if code.dst[k] >= 0:
                        self.rows[code.dst[k], lane] = found

    cdef void combine(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Poison the results of a whole warp if one of its lanes has a poisoned operand."""
        cdef int64_t i, k, w
        cdef uint8_t found
        for w in range(lanes.warps):
            found = 0
            for i in range(lanes.start[w], lanes.start[w + 1]):
                found |= self.rows[code.src[0], lanes.lane[i]]
            for k in range(2):
                if code.dst[k] >= 0:
                    for i in range(lanes.start[w], lanes.start[w + 1]):
                        self.rows[code.dst[k], lanes.lane[i]] = found

    cdef void shuffle(self, const Code* code, const Lanes* lanes, const uint64_t* registers) noexcept nogil:
        """Shuffle the poison as the values are shuffled; a poisoned lane number poisons the result."""
        cdef int64_t i, lane
        cdef uint8_t other
        for i in range(self.threads):
            self.scratch[0][i] = self.rows[code.src[0], i]
        shuffle_lanes(
            code, lanes, self.threads, self.scratch[1], self.scratch[2], self.scratch[3], self.scratch[0],
            registers + code.src[1] * self.threads, registers + code.src[2] * self.threads,
        )
        for i in range(lanes.n):
            lane = lanes.lane[i]
            other = self.rows[code.src[1], lane] | self.rows[code.src[2], lane]
            if code.dst[1] >= 0:
                self.rows[code.dst[1], lane] = other
            if code.dst[0] >= 0:
                self.rows[code.dst[0], lane] = <uint8_t>self.scratch[2][lane] | other

    # ---- Memory

    cdef uint8_t* bits_of(self, int64_t space, int64_t thread, uint64_t place, uint64_t* at) noexcept nogil:
        """Return the bits of the memory that holds an address inside an array, and the place in it.

        NULL stands for memory that holds no poison: constants, and arrays if nothing poisons them.
        """
        at[0] = place
        if space == CONST:
            return NULL
        if space == SHARED and self.peers != NULL:
            at[0] = place & ((<uint64_t>1 << RANK_BITS) - 1)
            return <uint8_t*>self.peers[place >> RANK_BITS]
        if space == SHARED:
            return &self.shared[0]
        if space == GLOBAL:
            self.places.find(place, 1)
            at[0] = place - self.places.bases[self.places.last_buffer]
            return <uint8_t*>self.cells[self.places.last_buffer]
        at[0] = <uint64_t>(thread * self.places.local_bytes) + place
        return &self.local[0]

    cdef int64_t transfer(
        self, const Code* code, const Lanes* lanes, int64_t space, const uint64_t* place, bint strict
    ) noexcept nogil:
        """Move poison with the values of an access. Return a thread that stores poison globally if `strict`, or -1."""
        cdef int64_t i, k, lane, bytes = code.width // 8, refused = -1
        cdef uint64_t at = 0
        cdef uint8_t* bits
        cdef uint8_t found
        for i in range(lanes.n):
            lane = lanes.lane[i]
            bits = self.bits_of(space, lane, place[i], &at)
            if bits == NULL:
                for k in range(code.count):
                    if (code.op == LOAD or code.op == ATOM) and code.dst[k] >= 0:
                        self.rows[code.dst[k], lane] = 0
                continue
            for k in range(code.count):
                if code.op == LOAD:
                    if code.dst[k] >= 0:
                        self.rows[code.dst[k], lane] = is_spoiled(bits, at + <uint64_t>(k * bytes), bytes)
                    continue
                found = self.rows[code.src[1 + k], lane]
                if code.op == ATOM:
                    if code.src[2] >= 0:
                        found |= self.rows[code.src[2], lane]
                    if is_spoiled(bits, at, bytes):
                        if code.dst[0] >= 0:
                            self.rows[code.dst[0], lane] = 1
                        found |= code.mode != ATOMIC_EXCH
                    elif code.dst[0] >= 0:
                        self.rows[code.dst[0], lane] = 0
                if found and strict and space == GLOBAL and refused < 0:
                    refused = lane
                mark(bits, at + <uint64_t>(k * bytes), bytes, found)
        return refused

    cdef bint copy(self, int64_t to_space, uint64_t to, int64_t space, uint64_t origin, int64_t size) noexcept nogil:
        """Copy the poison of `size` bytes of memory that were found to exist; return whether there is any."""
        cdef uint64_t at = 0, start = 0
        cdef int64_t k = 0, i, n
        cdef uint8_t* target = self.bits_of(to_space, 0, to, &at)
        cdef uint8_t* source = self.bits_of(space, 0, origin, &start)
        cdef bint found = False, spoiled
        while k < size:
            n = min(<int64_t>MOST_MARKED, size - k)
            spoiled = source != NULL and is_spoiled(source, start + <uint64_t>k, n)
            found |= spoiled
            if target != NULL and not spoiled:
                mark(target, at + <uint64_t>k, n, False)
            elif target != NULL:
                for i in range(k, k + n):
                    mark(target, at + <uint64_t>i, 1, is_spoiled(source, start + <uint64_t>i, 1))
            k += n
        return found

    cdef void mark(self, int64_t space, uint64_t place, int64_t size, bint poisoned) noexcept nogil:
        """Poison `size` bytes of memory that were found to exist, or take their poison."""
        cdef uint64_t at = 0
        cdef int64_t k = 0
        cdef uint8_t* bits = self.bits_of(space, 0, place, &at)
        while bits != NULL and k < size:
            mark(bits, at + <uint64_t>k, min(<int64_t>MOST_MARKED, size - k), poisoned)
            k += MOST_MARKED
