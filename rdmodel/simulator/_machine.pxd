# The parts of the simulated machine as structs: SMs, slices of the L2, and their counters.
# docs/machine.md defines the cycle; _engine.pyx runs it.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from rdmodel.simulator._allocation cimport Allocation
from rdmodel.simulator._cache cimport Cache
from rdmodel.simulator._congestion cimport Congestion
from rdmodel.simulator._distances cimport Distances
from rdmodel.simulator._dram cimport Channel
from rdmodel.simulator._footprints cimport Footprints
from rdmodel.simulator._issue cimport Scheduler, Warp
from rdmodel.simulator._mshrs cimport Mshrs
from rdmodel.simulator._patterns cimport Patterns
from rdmodel.simulator._victims cimport Victims
from rdmodel.structures._ring cimport Ring

# Messages to the slices. `what` of a message has its kind in the low bits, then a mask of sectors, then the sender: an SM,
# or the number of SMs plus that of a slice. The id of a read is the sender's line or, in an L1 with sectors, the MSHR;
# that of a write is the mask of sectors written in full, and from bit WRITER_AT on, if it is to be acknowledged, the
# block slot plus one. An acknowledgement is a response of kind WRITE whose id is that of the write. In other responses
# from a slice, `what` has the cycle in which they were sent, from bit SECTORS_AT on.
cdef enum:
    READ = 0
    WRITE = 1
    BYPASS = 2        # a read whose data go to the warp and not into the L1
    UPDATE = 3        # the write of an atomic, which needs the old value
    KIND_MASK = 3     # kinds of writes have bit 0, WRITE
    SECTORS_AT = 2
    SENDER_AT = 34
    WRITER_AT = 32

# In the id of a read of an L1, from its slice on: the SM has read the line before, according to its victim bit.
cdef enum:
    HINT = 0x4000000000000000

# Outcomes of an access to a cache, and reasons for a stall in the order in which they are checked.
cdef enum:
    HIT = 0
    PENDING_HIT = 1
    MISS = 2
    WRITTEN = 3
    WRITE_MISS = 4    # of a slice
    BYPASSED = 4      # of an L1
    PASSED = 5        # of a slice
    SENT_ON = 6       # of a slice: a write to a line whose home is in another partition
    NO_MEMORY = 7
    FAILED = 8
    FAIL_LINE = 8
    FAIL_MSHR = 9
    FAIL_MERGE = 10
    FAIL_QUEUE = 11
    FAILS = 4


cdef inline bint fill_helps(int reason, int64_t tried, int64_t filled) noexcept nogil:
    # Tell whether the fill of a line of set `filled` may be what a stalled access to set `tried` has waited for. A
    # filled line frees an MSHR, and may be replaced; its replacement may need no place in the queue.
    return filled == tried or reason == FAIL_MSHR or reason == FAIL_MERGE


cdef struct Load:
    # A load instruction whose data are not complete.
    int64_t number        # among the warp's memory instructions
    int64_t hit           # cycle of its last hit or pending hit; -1 = none
    int32_t warp          # its slot
    int32_t waits         # fills outstanding, and one for the load/store unit or for the last hit
    int32_t left          # transactions that have not left the buffer, if there is one
    int32_t pc
    int32_t pattern       # its number for apcm, or NONE
    int32_t served        # transactions
    int32_t next          # next in the list of free loads
    uint8_t past          # it does not look into the L1
    uint8_t reads_only    # it may hit, but brings nothing into the L1
    uint8_t leaves        # the warp leaves its loop after it


cdef struct Entry:
    # An instruction in the load/store unit.
    int64_t warp
    int64_t load          # NONE for stores
    int64_t at, count     # transactions served, and all
    int64_t pc
    uint8_t op
    bint local
    int64_t* ids
    uint32_t* masks       # lanes that requested each line, while accesses are recorded
    uint64_t* sectors     # of each line: those asked for, and in the upper half those written in full; if `sized`


cdef struct BlockSlot:
    bint occupied, closed
    int64_t block
    int64_t alive         # warps that have not ended
    int64_t waiting       # warps of these at the barrier
    int64_t stores        # that have not been acknowledged, if blocks wait for that
    int64_t issued        # instructions, if warps issue by blocks
    int64_t group         # number of its group of blocks, if schedulers choose groups


cdef struct Buffer:
    # MRPB's queues of (time of entry, id of the line, load, warp slot).
    Ring* queue
    int64_t queues
    int64_t last          # the queue drained last; -1 = none
    int64_t flushed       # the queue that is being flushed; -1 = none
    int64_t stuck         # the queue whose head could not be served; -1 = none
    int64_t held          # transactions in all queues
    bint blocked          # nothing can enter before a transaction has been drained


cdef struct SmCounters:
    int64_t blocks
    int64_t hits, pending_hits, compulsory, capacity, associativity, writes, bypassed
    int64_t warp_instructions, thread_instructions
    int64_t[4] fails
    int64_t intra_warp, cross_warp, cross_block
    int64_t read_messages, write_messages, acknowledgements
    # Where lines have sectors; `lookups` are load transactions.
    int64_t lookups, sectors, tag_misses, sector_misses, store_sectors, store_hits, read_sectors, write_sectors


cdef struct Sm:
    Warp* warp            # [slots x block_warps]
    BlockSlot* slot
    int64_t begun         # warps
    Scheduler[4] scheduler
    int64_t first_scheduler   # issues first: the one after the last that filled the load/store unit
    int64_t limit         # active warps per scheduler; -1 = all
    int64_t tokens        # of these, the oldest whose loads may bring lines, if some may not
    # Limits on blocks: the limit; and of this period, up to cycle `counted`, the cycles in which no warp issued.
    int64_t block_limit, counted, idle_cycles, waiting_cycles
    bint monitored        # the end of its first block sets the limit
    uint64_t check        # slots in which some warp may have ended, or the barrier may open (`slot_bit`)
    # The load/store unit: a ring of instructions. `stalled`: the first cannot go on since `since`.
    Entry* entry
    int64_t* entry_ids
    uint32_t* entry_masks
    uint64_t* entry_sectors
    uint32_t asked        # sectors of the transaction that accesses the L1
    uint32_t missed       # those that it sent for, or wrote
    int64_t entry_head, entries
    bint stalled, retry
    int reason
    int64_t tried         # the set of the line of the transaction that has stalled
    int64_t since
    Load* load
    int64_t free_load, loads
    Ring hits             # loads whose last hit returns at `time`
    Ring resting          # warps, in `what`, that may issue again at `time`
    # The L1, and what lies between it and the crossbar.
    Cache cache
    Mshrs mshrs
    Ring misses           # the miss queue
    Ring responses
    int64_t request_port, response_port    # crossbar cycles from which they are free
    bint waiting          # for a slice with a full input
    # Policies: counters of the period, whether the L1 is closed, and the buffer before it.
    int64_t period_misses, period_instructions, sampled
    int64_t misses_before, instructions_before
    int64_t looked, not_found, instructions_at_closing
    bint closed
    Buffer buffer
    Allocation allocation
    Victims victims
    Patterns patterns
    int64_t* unused       # abyp's counters
    int64_t distance      # for which lines are protected
    Distances distances
    bint hinted           # g-cache: the answer that fills a line has a hint
    bint contended        # g-cache: hot lines stay
    int64_t hints         # g-cache: for lines without a way, in this period
    Congestion congestion
    Footprints footprints
    int64_t number        # in `Network.wakes`
    SmCounters n


cdef inline uint64_t slot_bit(int64_t slot) noexcept nogil:
    # The bit of a block slot in a mask; slots from 63 on share one.
    return <uint64_t> 1 << min(slot, <int64_t> 63)


cdef struct SliceCounters:
    int64_t reads, hits, pending_hits, misses, bypassed, writes, write_hits, partition_sectors, atomic_sectors
    int64_t[4] fails


cdef struct Slice:
    Cache cache
    Mshrs mshrs
    Ring input
    int64_t occupancy     # messages on their way or in the input
    int64_t[2] next_line  # of the next two requests, as far as they are known; -1 = none
    int64_t[2] next_id    # and the numbers of these lines
    Ring waiting          # SMs, in `what`
    int64_t request_port, response_port
    bint stalled, retry
    int reason
    int64_t tried         # the set of the line of the last request that was tried
    int64_t since         # L2 cycle
    Channel channel
    Ring returns
    # Where the L2 has partitions: messages from slices of the others, requests and answers; the ports through which
    # they leave and enter; and the lines that are under way from their homes.
    Ring crossed, answers
    int64_t request_exit, request_entry, answer_exit, answer_entry
    Mshrs crossing
    # Streaming bypass: reads that bypass, whether the slice is closed, and counters of the period.
    Mshrs passing
    bint closed
    int64_t looked, not_found
    int64_t number        # in `Network.wakes`
    SliceCounters n


cdef enum:
    ASKED_AT = 32     # a waiter's `who` has the sender and, from this bit on, the sectors that it asked for


cdef inline int64_t who_asks(int64_t sender, uint32_t asked) noexcept nogil:
    return sender | <int64_t> (<uint64_t> asked << ASKED_AT)


cdef inline uint32_t asked_by(int64_t who) noexcept nogil:
    return <uint32_t> (<uint64_t> who >> ASKED_AT)


cdef inline uint32_t aligned_piece(uint32_t asked) noexcept nogil:
    # The smallest aligned group of 1, 2, 4, ... pieces that has all of `asked`, at least one.
    cdef int lowest = 0, width = 1
    cdef uint32_t group = 1
    while not asked >> lowest & 1:
        lowest += 1
    while width < 32:
        group = ((<uint32_t> 1 << width) - 1) << (lowest & ~(width - 1))
        if asked & ~group == 0:
            return group
        width *= 2
    return <uint32_t> 0xFFFFFFFF
