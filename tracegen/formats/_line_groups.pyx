# The compiled half of tracegen.formats.plain that follows tracegen.formats._plain. The caller guarantees the sizes of
# the arrays, and that accesses have the form of tracegen.formats._line_accesses.
"""Group the accesses of plain lines, sorted by thread, into warp instructions."""

cimport cython

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from tracegen.formats._line_accesses cimport AGREEING, CONTINUES, MAX_GAP, OPERATION_SHIFT, WIDTH
from tracegen.formats._trc cimport LANES, AccessGrouper, lowest_bit, maybe_give_back

cdef struct Warp:
    int64_t[LANES] next         # the lane's next access, or its end
    int64_t[LANES] end          # one past the lane's last access
    int64_t[LANES] gap
    int64_t[LANES] pc           # of the lane's next access, or -1
    uint32_t lanes              # lanes that have accesses left
    uint32_t candidates         # lanes whose next access belongs to this step and is still to be issued


@cython.final
cdef class LineGrouper(AccessGrouper):
    """Groups accesses, sorted by thread and in order within each, into warp instructions.

    The k-th lines of the threads of a warp form one instruction for each operation, width and program counter that
    occurs among them, in the order of their first lanes. If a line is several accesses, its first access comes first,
    with those of all lanes, then its second one.
    """

    cdef Warp w

    def __init__(self, const int64_t[:, ::1] accesses, int64_t block_threads, give_back=None):
        AccessGrouper.__init__(self, accesses, block_threads, give_back)
        self.w.lanes = self.w.candidates = 0

    def fill(
        self,
        int64_t[::1] warp,
        int32_t[::1] pc,
        int32_t[::1] gap,
        uint8_t[::1] op,
        uint8_t[::1] size,
        uint32_t[::1] mask,
        int64_t[::1] addresses,
    ):
        """Write as many of the next instructions as fit, and their addresses; return the numbers of both.

        `warp` is counted over the whole grid. `addresses` needs room for at least 32.
        """
        cdef int64_t room = warp.shape[0]
        cdef int64_t lanes = addresses.shape[0] - LANES
        cdef int64_t rows = 0, used = 0, most
        cdef Warp* w = &self.w
        cdef uint32_t taken
        cdef int leader
        cdef int64_t kind
        with nogil:
            while rows < room and used <= lanes:
                if not w.candidates:
                    if not w.lanes:
                        if self.at == self.n:
                            break
                        self.begin_warp()
                    w.candidates = self.next_step()
                    continue
                leader = lowest_bit(w.candidates)
                kind = self.p[w.next[leader]].key & AGREEING
                warp[rows] = self.warp
                op[rows] = <uint8_t>(kind >> OPERATION_SHIFT)
                pc[rows] = <int32_t>self.pc_of(leader)
                size[rows] = <uint8_t>(kind & WIDTH)
                most = 0
                taken = self.take_part(&addresses[0], &used, &most)
                gap[rows] = <int32_t>most
                mask[rows] = taken
                rows += 1
                w.candidates &= ~taken
        return rows, used

    cdef void begin_warp(self) noexcept nogil:
        """Find the accesses of the next warp, by lane."""
        cdef Warp* w = &self.w
        cdef uint32_t left
        cdef int lane
        left = w.lanes = self.open_warp(&w.next[0], &w.end[0])
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            w.pc[lane] = -1
            self.advance(lane)

    cdef inline void advance(self, int lane) noexcept nogil:
        """Read the preludes of the lane's next access; the lane is done if there is none."""
        cdef Warp* w = &self.w
        cdef int64_t at = w.next[lane]
        cdef int64_t value
        w.gap[lane] = 0
        while at < w.end[lane] and self.p[at].key & AGREEING == 0:
            value = self.p[at].address
            w.gap[lane] = min(w.gap[lane] + (value >> 32), <int64_t>MAX_GAP)
            w.pc[lane] = (value & <int64_t>0xffffffff) - 1
            maybe_give_back(self, at)
            at += 1
        w.next[lane] = at
        if at == w.end[lane]:
            w.lanes &= ~(<uint32_t>1 << lane)

    cdef inline int64_t pc_of(self, int lane) noexcept nogil:
        """Return the program counter of the lane's next access, which is its operation if the file gives none."""
        cdef int64_t pc = self.w.pc[lane]
        return pc if pc >= 0 else (self.p[self.w.next[lane]].key & AGREEING) >> OPERATION_SHIFT

    cdef uint32_t next_step(self) noexcept nogil:
        """Return the lanes whose current line continues or else, if there are none, all lanes that have lines left."""
        cdef Warp* w = &self.w
        cdef uint32_t left = w.lanes, candidates = 0
        cdef int lane
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            if self.p[w.next[lane]].key & CONTINUES:
                candidates |= <uint32_t>1 << lane
        if candidates:
            return candidates
        left = candidates = w.lanes
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            if self.p[w.next[lane]].key & WIDTH == 0:
                candidates &= ~(<uint32_t>1 << lane)
                w.next[lane] += 1
                self.advance(lane)
        return candidates

    cdef uint32_t take_part(self, int64_t* out, int64_t* used, int64_t* gap) noexcept nogil:
        """Issue the accesses of the candidate lanes that agree with the first one; return these lanes."""
        cdef Warp* w = &self.w
        cdef uint32_t candidates = w.candidates
        cdef int leader = lowest_bit(candidates)
        cdef int64_t kind = self.p[w.next[leader]].key & AGREEING
        cdef int64_t pc = self.pc_of(leader)
        cdef uint32_t taken = 0
        cdef int lane
        cdef int64_t at
        while candidates:
            lane = lowest_bit(candidates)
            candidates &= candidates - 1
            at = w.next[lane]
            if self.p[at].key & AGREEING == kind and self.pc_of(lane) == pc:
                out[used[0]] = self.p[at].address
                used[0] += 1
                taken |= <uint32_t>1 << lane
                gap[0] = max(gap[0], w.gap[lane])
                maybe_give_back(self, at)
                w.next[lane] = at + 1
                self.advance(lane)
        return taken
