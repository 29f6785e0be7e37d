# Each warp has a growing buffer of rows; the columns of a block are the buffers of its warps, one after the other.
# Most rows have one distance between the addresses of their lanes. They are written out when the columns are made, so
# that a block that is executed touches little memory.
"""Record the memory instructions of a block's warps, and the earlier loads that each of them waits for."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

import numpy as np

from tracegen.ptx.isa._code cimport *

cdef int64_t IRREGULAR = <int64_t>1 << 62   # in place of a stride; no two addresses lie so far apart

COLUMNS = {"pc": "i4", "op": "u1", "space": "u1", "size": "u1", "gap": "i4", "needs": "u8", "mask": "u4"}
"""The columns with one element per row, and their dtypes."""


cdef inline bint grow(void** buffer, int64_t* room, int64_t wanted, int64_t size) noexcept nogil:
    """Enlarge a buffer to at least `wanted` elements; return False if memory runs out."""
    cdef int64_t larger = max(wanted, room[0] * 2, <int64_t>256)
    cdef void* moved
    if wanted <= room[0]:
        return True
    moved = realloc(buffer[0], <size_t>(larger * size))
    if moved == NULL:
        return False
    buffer[0] = moved
    room[0] = larger
    return True


cdef inline void settle_published(WarpLog* log) noexcept nogil:
    """Let the next row wait for the values in shared memory."""
    log.pending |= log.published & log.open
    log.open &= ~log.published
    log.published = 0


cdef inline void settle_computed(WarpLog* log) noexcept nogil:
    """Let the next row wait for the values that the last basic block has computed with."""
    log.pending |= log.computed & log.open
    log.open &= ~log.computed
    log.computed = 0


cdef inline int64_t stride_of(const uint64_t* address, int64_t n) noexcept nogil:
    """Return the distance between the addresses of neighbouring lanes, or IRREGULAR."""
    cdef uint64_t stride = address[1] - address[0] if n > 1 else 0, different = 0
    cdef int64_t i
    for i in range(1, n):
        different |= (address[i] - address[i - 1]) ^ stride
    return IRREGULAR if different else <int64_t>stride


cdef inline void write_addresses(const WarpLog* log, const Row* row, int64_t* addresses) noexcept nogil:
    """Write the addresses of the active lanes of a row."""
    cdef int64_t i, at = row.first
    if row.stride == IRREGULAR:
        memcpy(addresses, log.addresses + at, row.lanes * sizeof(int64_t))
        return
    for i in range(row.lanes):
        addresses[i] = at
        at += row.stride


@cython.final
cdef class Log:
    """The rows of one block.

    `tainted` marks the register slots that can depend on a recorded load. `unrolled` has one element per loop: after
    so many iterations, a warp begins the next body (the array has at least one element, for `loops` = 0, too).
    """

    def __cinit__(self, int64_t warps, const uint8_t[::1] tainted, const int64_t[::1] unrolled, int64_t loops):
        self.warps = warps
        self.slots = tainted.shape[0]
        self.owner = tainted
        self.tainted = &tainted[0]
        self.logs = <WarpLog*>calloc(<size_t>warps, sizeof(WarpLog))
        self.live = <uint32_t*>calloc(<size_t>warps, sizeof(uint32_t))
        self.order = <int64_t*>calloc(<size_t>(warps * self.slots), sizeof(int64_t))
        self.bits = <uint64_t*>calloc(<size_t>(warps * self.slots), sizeof(uint64_t))
        self.loops, self.unrolled, self.unrolled_owner = loops, &unrolled[0], unrolled
        self.trips = <int64_t*>calloc(<size_t>(warps * loops + 1), sizeof(int64_t))
        self.turned = <uint8_t*>calloc(<size_t>(warps * loops + 1), sizeof(uint8_t))
        if self.trips == NULL or self.turned == NULL:
            raise MemoryError
        if self.logs == NULL or self.live == NULL or self.order == NULL or self.bits == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef int64_t w
        if self.logs != NULL:
            for w in range(self.warps):
                free(self.logs[w].rows)
                free(self.logs[w].addresses)
        free(self.logs)
        free(self.live)
        free(self.order)
        free(self.bits)
        free(self.trips)
        free(self.turned)

    def restart(self):
        """Discard all rows before the next block."""
        cdef int64_t w
        cdef WarpLog* log
        self.bytes = 0
        for w in range(self.warps):
            log = &self.logs[w]
            log.n = log.used = log.lanes = log.gap = log.count = 0
            log.open = log.pending = log.published = log.computed = 0
        memset(self.turned, 0, <size_t>(self.warps * self.loops))
        memset(self.bits, 0, <size_t>(self.warps * self.slots) * sizeof(uint64_t))

    def columns(self):
        """Return the columns of all warps by name (`rdmodel.trace.Columns`), but no loop exits and cache operators."""
        cdef int64_t w, i, k, n = 0, used = 0
        cdef const WarpLog* log
        cdef const Row* row
        for w in range(self.warps):
            n += self.logs[w].n
            used += self.logs[w].lanes
        found = {name: np.empty(n, dtype) for name, dtype in COLUMNS.items()}
        found["warp_start"], found["address_start"] = np.zeros(self.warps + 1, np.int64), np.zeros(n + 1, np.int64)
        found["addresses"] = np.empty(used, np.int64)
        cdef int64_t[::1] warp_start = found["warp_start"], start = found["address_start"]
        cdef int64_t[::1] addresses = found["addresses"]
        cdef int32_t[::1] pc = found["pc"], gap = found["gap"]
        cdef uint8_t[::1] op = found["op"], space = found["space"], size = found["size"]
        cdef uint32_t[::1] mask = found["mask"]
        cdef uint64_t[::1] needs = found["needs"]
        with nogil:
            i = used = 0
            for w in range(self.warps):
                log = &self.logs[w]
                for k in range(log.n):
                    row = &log.rows[k]
                    pc[i], gap[i], mask[i], needs[i] = row.pc, row.gap, row.mask, row.needs
                    op[i], space[i], size[i] = row.op, row.space, row.size
                    if row.lanes:
                        write_addresses(log, row, &addresses[used])
                    used += row.lanes
                    i += 1
                    start[i] = used
                warp_start[w + 1] = i
        return found

    cdef void count_instruction(self, const Lanes* lanes) noexcept nogil:
        """Count an instruction without a row for every warp of `lanes`."""
        cdef int64_t k
        for k in range(lanes.warps):
            self.logs[lanes.warp[k]].gap += 1

    cdef void uncount_instruction(self, const Lanes* lanes) noexcept nogil:
        """Take back the count of the last instruction, which gets a row instead."""
        cdef int64_t k
        for k in range(lanes.warps):
            if self.logs[lanes.warp[k]].gap > 0:
                self.logs[lanes.warp[k]].gap -= 1

    cdef void retire(self, const Lanes* lanes) noexcept nogil:
        """Mark lanes that have left the kernel."""
        cdef int64_t k
        for k in range(lanes.warps):
            self.live[lanes.warp[k]] &= ~lanes.mask[k]

    # ---- Needs

    cdef uint64_t depends_on(self, int64_t slot, int64_t w) noexcept nogil:
        """Return the open loads that a register of warp `w` depends on: bit i = the (i+1)-th previous row."""
        cdef int64_t at, shift
        if slot < 0 or not self.tainted[slot]:
            return 0
        at = slot * self.warps + w
        if self.bits[at] == 0:
            return 0
        shift = self.logs[w].count - 1 - self.order[at]
        return (self.bits[at] << shift) & self.logs[w].open if shift < 64 else 0

    cdef void set_dependence(self, int64_t slot, int64_t w, uint32_t mask, uint64_t loads) noexcept nogil:
        """Set the loads that a register depends on; lanes that do not write keep their own."""
        if slot < 0 or not self.tainted[slot]:
            return
        if mask != self.live[w]:
            loads |= self.depends_on(slot, w)
        self.order[slot * self.warps + w] = self.logs[w].count - 1
        self.bits[slot * self.warps + w] = loads

    cdef void wait(self, const Lanes* lanes, int64_t slot) noexcept nogil:
        """Make the next row of each warp wait for the loads that a register depends on."""
        cdef int64_t k
        cdef WarpLog* log
        cdef uint64_t loads
        if slot < 0 or not self.tainted[slot]:
            return
        for k in range(lanes.warps):
            log = &self.logs[lanes.warp[k]]
            loads = self.depends_on(slot, lanes.warp[k])
            log.pending |= loads
            log.open &= ~loads

    cdef void publish(self, const Lanes* lanes, int64_t slot) noexcept nogil:
        """Note that a register went to shared memory: compilers move later loads before the store, but no barrier."""
        cdef int64_t k
        cdef uint64_t loads
        if slot < 0 or not self.tainted[slot]:
            return
        for k in range(lanes.warps):
            loads = self.depends_on(slot, lanes.warp[k])
            self.logs[lanes.warp[k]].published |= loads
            self.logs[lanes.warp[k]].computed |= loads

    cdef void wait_for_published(self, const Lanes* lanes) noexcept nogil:
        """Make the next row of each warp wait for the loads whose values went to shared memory."""
        cdef int64_t k
        for k in range(lanes.warps):
            settle_published(&self.logs[lanes.warp[k]])

    cdef void turn_back(self, const Lanes* lanes, int64_t loop) noexcept nogil:
        """Note that warps go back to the header of a loop."""
        cdef int64_t k
        for k in range(lanes.warps):
            self.turned[loop * self.warps + lanes.warp[k]] = 1

    cdef void begin_block(self, const Lanes* lanes, int64_t loop) noexcept nogil:
        """Let the next row of each warp wait for what its last basic block computed with; `loop` is -1 if no loop begins.

        The header of a loop begins a block when a warp enters the loop, and after each body.
        """
        cdef int64_t k, at
        for k in range(lanes.warps):
            if loop >= 0:
                at = loop * self.warps + lanes.warp[k]
                self.trips[at] = self.trips[at] + 1 if self.turned[at] else 0
                self.turned[at] = 0
                if self.trips[at] % self.unrolled[loop]:
                    continue
            settle_computed(&self.logs[lanes.warp[k]])

    cdef void pass_on(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Let the results of arithmetic depend on the loads of their operands, which the basic block thereby uses."""
        cdef int64_t k, i, w
        cdef uint64_t loads
        for k in range(lanes.warps):
            w = lanes.warp[k]
            loads = 0
            for i in range(4):
                loads |= self.depends_on(code.src[i], w)
            if code.op != MOV:
                self.logs[w].computed |= loads
            for i in range(4):
                self.set_dependence(code.dst[i], w, lanes.mask[k], loads)

    cdef void clear(self, const Code* code, const Lanes* lanes) noexcept nogil:
        """Mark the written registers as independent of recorded loads."""
        cdef int64_t k, i
        for k in range(lanes.warps):
            for i in range(4):
                self.set_dependence(code.dst[i], lanes.warp[k], lanes.mask[k], 0)

    # ---- Rows

    cdef bint append(
        self, const Code* code, const Lanes* lanes, int64_t op, int64_t space, int64_t size, const uint64_t* address
    ) noexcept nogil:
        """Add a row to every warp of `lanes`; return False if memory runs out."""
        cdef int64_t k, i, active, w
        cdef WarpLog* log
        cdef Row* row
        cdef bint returns = op == OP_LOAD or (op == OP_ATOMIC and code.dst[0] >= 0)
        for k in range(lanes.warps):
            w = lanes.warp[k]
            log = &self.logs[w]
            active = 0 if op == OP_BARRIER else lanes.start[k + 1] - lanes.start[k]
            if not grow(<void**>&log.rows, &log.room, log.n + 1, sizeof(Row)):
                return False
            row = &log.rows[log.n]
            row.lanes = <uint8_t>active
            log.lanes += active
            if active:
                row.first, row.stride = <int64_t>address[lanes.start[k]], stride_of(address + lanes.start[k], active)
                if row.stride == IRREGULAR and not self.append_addresses(log, row, address + lanes.start[k]):
                    return False
            row.pc = <int32_t>code.pc
            row.gap = <int32_t>min(log.gap, <int64_t>0x7FFFFFFF)
            row.mask = lanes.mask[k]
            row.op = <uint8_t>op
            row.space = <uint8_t>space
            row.size = <uint8_t>size
            log.n += 1
            log.gap = 0
            self.bytes += <int64_t>sizeof(Row) + active * <int64_t>sizeof(int64_t)
            if op == OP_BARRIER:
                settle_published(log)
            row.needs = log.pending
            log.pending = 0
            if op == OP_BARRIER:
                continue
            log.open = log.open << 1 | returns
            log.published <<= 1
            log.computed <<= 1
            log.count += 1
            if returns:
                for i in range(4):
                    self.set_dependence(code.dst[i], w, lanes.mask[k], 1)
        return True

    cdef bint append_addresses(self, WarpLog* log, Row* row, const uint64_t* address) noexcept nogil:
        """Copy the addresses of a row; return False if memory runs out."""
        if not grow(<void**>&log.addresses, &log.address_room, log.used + row.lanes, sizeof(int64_t)):
            return False
        memcpy(log.addresses + log.used, address, row.lanes * sizeof(int64_t))
        row.first = log.used
        log.used += row.lanes
        return True
