cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from tracegen.ptx.isa._code cimport Code, Lanes

# Operations of rows: rdmodel.trace.Op.
cdef enum:
    OP_LOAD = 0
    OP_STORE = 1
    OP_ATOMIC = 2
    OP_BARRIER = 3

cdef struct Row:
    uint64_t needs
    int64_t first          # address of the first active lane; place of the addresses in the log if they are IRREGULAR
    int64_t stride         # bytes between the addresses of neighbouring active lanes
    int32_t pc
    int32_t gap
    uint32_t mask
    uint8_t op
    uint8_t space
    uint8_t size
    uint8_t lanes          # that are active; 0 for a barrier

# The rows of one warp and the state of its loads.
cdef struct WarpLog:
    Row* rows
    int64_t n
    int64_t room
    int64_t lanes          # active lanes of all rows
    int64_t* addresses     # of the rows whose addresses are IRREGULAR
    int64_t used
    int64_t address_room
    int64_t gap            # instructions since the last row
    int64_t count          # rows other than barriers
    uint64_t open          # bit i: the (i+1)-th previous row is a load that no instruction has waited for
    uint64_t pending       # same bits: the loads that the next row waits for
    uint64_t published     # same bits: loads whose values went to shared memory; the next barrier waits for them
    uint64_t computed      # same bits: loads whose values this basic block computes with; the next block waits for them

@cython.final
cdef class Log:
    cdef int64_t warps
    cdef int64_t slots
    cdef int64_t bytes
    cdef WarpLog* logs
    cdef uint32_t* live
    cdef const uint8_t* tainted
    cdef int64_t* order    # per slot and warp: number of the newest row that the register depends on
    cdef uint64_t* bits    # bit i: the register depends on row order - i
    cdef object owner
    cdef int64_t loops
    cdef const int64_t* unrolled   # per loop: iterations of a body
    cdef int64_t* trips    # per loop and warp: iterations since the warp entered the loop
    cdef uint8_t* turned   # per loop and warp: the warp goes back to the header
    cdef object unrolled_owner

    cdef uint64_t depends_on(self, int64_t slot, int64_t w) noexcept nogil
    cdef void set_dependence(self, int64_t slot, int64_t w, uint32_t mask, uint64_t loads) noexcept nogil
    cdef void count_instruction(self, const Lanes* lanes) noexcept nogil
    cdef void uncount_instruction(self, const Lanes* lanes) noexcept nogil
    cdef void retire(self, const Lanes* lanes) noexcept nogil
    cdef void wait(self, const Lanes* lanes, int64_t slot) noexcept nogil
    cdef void publish(self, const Lanes* lanes, int64_t slot) noexcept nogil
    cdef void wait_for_published(self, const Lanes* lanes) noexcept nogil
    cdef void turn_back(self, const Lanes* lanes, int64_t loop) noexcept nogil
    cdef void begin_block(self, const Lanes* lanes, int64_t loop) noexcept nogil
    cdef void pass_on(self, const Code* code, const Lanes* lanes) noexcept nogil
    cdef void clear(self, const Code* code, const Lanes* lanes) noexcept nogil
    cdef bint append(
        self, const Code* code, const Lanes* lanes, int64_t op, int64_t space, int64_t size, const uint64_t* address
    ) noexcept nogil
    cdef bint append_addresses(self, WarpLog* log, Row* row, const uint64_t* address) noexcept nogil
