# `Network`: the crossbar, the slices of the L2 and the DRAM channels: phases S5 and P1 to P3 of docs/machine.md.
# Base of the other classes of the machine; it names the return values and log entries of all of them.
cimport cython
from libc.stdint cimport int64_t

from rdmodel.simulator._cache cimport Spread
from rdmodel.simulator._clock cimport Clock
from rdmodel.simulator._machine cimport Slice, Sm
from rdmodel.simulator._wakes cimport Wakes, wakes_rouse
from rdmodel.structures._index cimport modulo
from rdmodel.structures._ring cimport Item, Ring, ring_first

cdef enum:
    REQUEST_BYTES = 8

# What parts of a cycle return.
cdef enum:
    C_MEMORY = -1         # out of memory
    C_GO = 6              # run on

# Kinds of log entries; the columns are in docs/machine.md.
cdef enum:
    LOG_ISSUE = 0
    LOG_ACCESS = 1
    LOG_FILL = 2
    LOG_SLICE = 3
    LOG_DRAM = 4
    LOG_BEGIN = 5
    LOG_END = 6

cdef enum:
    LOG_WIDTH = 6         # columns


cdef class Network:
    cdef Sm* sm
    cdef Slice* slice
    cdef int64_t sms, slices
    cdef Wakes wakes                  # of all SMs, then of all slices
    cdef public int64_t now           # the SM cycle
    # Configuration: see rdmodel.gpu.memory.
    cdef int64_t ideal                # latency of an ideal memory; -1: none
    cdef Clock x_clock, l_clock, d_clock
    cdef int64_t x_latency, read_flits, data_flits
    cdef int64_t[33] sector_flits     # of a message with so many sectors
    cdef bint sectored                # lines are read and written by sector
    cdef bint sized                   # messages have masks: of sectors, or of the 32-byte pieces that they carry
    cdef int64_t line_mask            # in `what` of a message that carries a line; 0: messages have no masks
    cdef int64_t sectors              # of a line
    cdef int64_t fetch_sectors        # sectors that the DRAM reads together
    cdef Spread spread                # of lines over slices and sets
    cdef int64_t l_queue, l_latency, d_latency
    cdef int64_t partitions, partition_latency
    cdef int64_t dirty_ways           # lines of a set that may be dirty; -1: all
    cdef bint store_acks              # slices acknowledge stores
    cdef bint elaborate               # there are sectors or victim bits, so that `_handle_lines` is not enough
    cdef bint hinting                 # slices have victim bits
    cdef int64_t reader_words         # of the victim bits of a line
    cdef bint deciding                # policies decide about loads: a stalled one may go on after any change
    cdef bint foreseeing_slices       # stalls of slices: requests come in one order, and only the machine decides
    cdef bint commands_ahead          # of DRAM channels: requests come from the input alone, and nobody looks at them
    cdef bint closing_slices          # slices watch the misses of their reads, and may close
    cdef bint logging, log_lost
    cdef int64_t* log
    cdef int64_t log_size, log_capacity

    cdef int64_t _hashed_slice(self, int64_t line) noexcept nogil
    cdef int _respond(self, Slice* s, int64_t sm, int64_t id, int64_t line, int64_t sectors, int64_t t) noexcept nogil
    cdef int _acknowledge(self, Slice* s, Item item, int64_t t) noexcept nogil
    @cython.final
    cdef int _handle_lines(self, Slice* s, int64_t id, const Item* item, int64_t t) noexcept nogil
    cdef int _handle_hinting(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil
    cdef int _handle_sectors(self, Slice* s, int64_t id, Item item, int64_t t) noexcept nogil
    cdef int _fill_slice_sectors(self, Slice* s, int64_t t, Item item) noexcept nogil
    cdef int _take_answer(self, Slice* s, int64_t t, Item item) noexcept nogil
    cdef int _send(self, int64_t i, int64_t t) noexcept nogil
    @cython.final
    cdef Item _take_miss(self, Sm* sm) noexcept nogil
    cdef int64_t _count_sectors_sent(self, Sm* sm, Item item) noexcept nogil
    cdef int64_t _response_flits(self, int64_t sectors) noexcept nogil
    @cython.final
    cdef int _send_ideal(self, Sm* sm, int64_t t) noexcept nogil
    @cython.final
    cdef int64_t _travel(
        self, int64_t* leaves, int64_t* enters, int64_t flits, int64_t latency, int64_t t
    ) noexcept nogil
    cdef int _slice_cycle(self, int64_t p, int64_t t) noexcept nogil
    @cython.final
    cdef int64_t _slice_wake(self, Slice* s, int64_t t) noexcept nogil
    @cython.final
    cdef int _fill_slice(self, Slice* s, int64_t t, Item item) noexcept nogil
    @cython.final
    cdef int _answer(self, Slice* s, int64_t sm, int64_t id, int64_t line, int64_t sectors, int64_t t) noexcept nogil
    @cython.final
    cdef int _serve(self, int64_t p, int64_t t) noexcept nogil
    @cython.final
    cdef void _retry_after_fill(self, Slice* s, int64_t set) noexcept nogil
    cdef int _grant(self, Slice* s, int64_t t) noexcept nogil
    @cython.final
    cdef int _handle(self, Slice* s, const Item* item, int64_t t) noexcept nogil
    @cython.final
    cdef int _read_slice(self, Slice* s, int64_t id, const Item* item, int64_t t) noexcept nogil
    @cython.final
    cdef int _pass_slice(self, Slice* s, int64_t id, int64_t who, int64_t wanted) noexcept nogil
    cdef void _open_or_close_slice(self, Slice* s, double max_missing_share) noexcept nogil
    @cython.final
    cdef int _fetch(self, Slice* s, int64_t id, int64_t who, int64_t wanted) noexcept nogil
    @cython.final
    cdef int _handle_write(self, Slice* s, int64_t id, bint atomic) noexcept nogil
    @cython.final
    cdef int64_t _dirty_line_to_clean(self, const Slice* s, int64_t set) noexcept nogil
    @cython.final
    cdef int _evict(self, Slice* s, int64_t victim) noexcept nogil
    @cython.final
    cdef int64_t _first_open_cycle(self, const Slice* s, int64_t t) noexcept nogil
    @cython.final
    cdef int _command(self, int64_t p, int64_t end) noexcept nogil
    cdef void _append_log(
        self, int64_t kind, int64_t time, int64_t where, int64_t a, int64_t b, int64_t c
    ) noexcept nogil

    cdef inline void _rouse(self, int64_t number, int64_t time) noexcept nogil:
        # Let an SM or a slice wake at a time after `now`, unless it wakes earlier.
        wakes_rouse(&self.wakes, number, time, self.now)

    cdef inline int64_t _slice_of(self, int64_t line) noexcept nogil:
        # Return the slice of a line.
        return modulo(line, self.slices) if self.spread.bits == 0 else self._hashed_slice(line)

    cdef inline int64_t _entrance(self, int64_t sm, int64_t line) noexcept nogil:
        # Return the slice that serves a line to an SM: of the slices with its set, that of the SM's partition.
        cdef int64_t home = self._slice_of(line)
        return home if self.partitions == 1 else home - home % self.partitions + sm % self.partitions

    cdef inline Ring* _first_input(self, Slice* s) noexcept nogil:
        # Return the queue of the message that the slice handles next: the one that could be handled first.
        if s.crossed.size == 0:
            return &s.input
        if s.input.size == 0 or ring_first(&s.crossed).time <= ring_first(&s.input).time:
            return &s.crossed
        return &s.input

    cdef inline void _log(
        self, int64_t kind, int64_t time, int64_t where, int64_t a, int64_t b, int64_t c
    ) noexcept nogil:
        if self.logging:
            self._append_log(kind, time, where, a, b, c)
