# The compiled half of tracegen.simt.scoreboard, which guarantees the sizes of the arrays. A batch of a divergent kernel
# has a few dozen warps: NumPy would spend all its time between its calls.
"""Pack the lanes of warps, and settle the loads that an instruction waits for in one pass over the warps."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    LANES = 32
    REACH = 64      # places of a register


def pack_lanes(const uint8_t[::1] lanes, uint32_t[::1] bits, uint8_t[::1] active):
    """Pack the lanes of each warp into `bits`, the first lane lowest, and mark the `active` blocks, with a lane set.

    Blocks have equal numbers of warps. Returns the number of active blocks.
    """
    cdef int64_t blocks = active.shape[0]
    cdef int64_t warps = bits.shape[0] // blocks
    cdef int64_t block, warp, found = 0
    cdef uint32_t any_lane
    assert bits.shape[0] == blocks * warps and lanes.shape[0] == bits.shape[0] * LANES
    with nogil:
        for block in range(blocks):
            any_lane = 0
            for warp in range(block * warps, (block + 1) * warps):
                bits[warp] = packed(&lanes[warp * LANES])
                any_lane |= bits[warp]
            active[block] = any_lane != 0
            found += any_lane != 0
    return found


cdef inline uint32_t packed(const uint8_t* lanes) noexcept nogil:
    cdef uint32_t bits = 0
    cdef int lane
    for lane in range(LANES):
        bits |= <uint32_t>lanes[lane] << lane
    return bits


cdef class Registers:
    """The registers of a scoreboard: the rows of `state`, (4, warps), which changes in place.

    They are the number of memory instructions of each warp, its open loads, those of them since its last store, and 1
    if its next instruction waits for all of them.
    """

    cdef uint64_t[::1] count
    cdef uint64_t[::1] open
    cdef uint64_t[::1] since_store
    cdef uint64_t[::1] waiting

    def __cinit__(self, uint64_t[:, ::1] state):
        self.count, self.open, self.since_store, self.waiting = state[0], state[1], state[2], state[3]

    def wait(self, const uint8_t[::1] warps):
        """Make the next instruction of `warps` wait for all their open loads."""
        cdef int64_t warp
        assert warps.shape[0] == self.open.shape[0]
        with nogil:
            for warp in range(warps.shape[0]):
                self.waiting[warp] |= warps[warp] != 0 and self.open[warp] != 0

    def issue(self, const uint32_t[::1] bits, bint is_load, bint is_barrier, sources, uint64_t[::1] needs):
        """Issue an instruction to the warps with `bits`, and write its `needs`.

        `sources` are the loads that it depends on. Those that have arrived in every warp are marked.
        """
        cdef const uint64_t[::1] position
        cdef const uint32_t[::1] ran
        assert bits.shape[0] == needs.shape[0] == self.open.shape[0]
        needs[:] = 0
        for load in sources:
            position, ran = load.position, load.mask.bits
            assert position.shape[0] == ran.shape[0] == bits.shape[0]
            load.arrived = self.add_source(position, ran, bits, needs)
        with nogil:
            self.settle(bits, is_load, is_barrier, needs)

    cdef bint add_source(
        self, const uint64_t[::1] position, const uint32_t[::1] ran, const uint32_t[::1] bits, uint64_t[::1] needs
    ) noexcept nogil:
        # Return whether the load leaves the registers of all warps: of those that run, which wait for it now.
        cdef int64_t warp
        cdef uint64_t distance, place
        cdef bint arrived = True
        for warp in range(bits.shape[0]):
            distance = self.count[warp] - position[warp] - 1
            if ran[warp] and distance < REACH:
                place = <uint64_t>1 << distance
                needs[warp] |= place
                arrived = arrived and (bits[warp] != 0 or not self.open[warp] & place)
        return arrived

    cdef void settle(
        self, const uint32_t[::1] bits, bint is_load, bint is_barrier, uint64_t[::1] needs
    ) noexcept nogil:
        cdef int64_t warp
        cdef uint64_t wanted
        for warp in range(bits.shape[0]):
            if not bits[warp]:
                needs[warp] = 0
                continue
            wanted = needs[warp]
            if is_barrier or self.waiting[warp]:
                # Accesses to shared memory are not recorded: a barrier may publish the values of any load before it.
                wanted = self.open[warp]
            elif not is_load:
                wanted |= self.since_store[warp]
            wanted &= self.open[warp]
            needs[warp] = wanted
            self.waiting[warp] = 0
            self.open[warp] &= ~wanted
            self.since_store[warp] &= ~wanted
            if is_barrier:
                continue
            self.open[warp] = self.open[warp] << 1 | is_load
            self.since_store[warp] = self.since_store[warp] << 1 | 1 if is_load else 0
            self.count[warp] += 1
