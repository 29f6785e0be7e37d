# Declares the caches that serve requests in the L2, for the classes that send them requests.

from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    PERIODS = 8           # numbers of periods whose requests are counted apart

cdef struct Counts:
    int64_t reads, hits, writes, write_hits, write_backs, dirtied, dram_read_sectors, partition_sectors, cold, old_hits
    int64_t updates, atomic_sectors      # of `writes`, those of atomics; of `dram_read_sectors`, what these fetched


cdef class CountedCache:
    cdef Counts counted[PERIODS]      # by period
    cdef Counts* now                  # those of the request under way
    cdef int64_t dirty_ways           # lines of a set that may be dirty; -1: all
    cdef readonly int64_t empty       # number of ways without a line

    cdef void _begin(self, uint8_t kind) noexcept nogil


cdef struct Way:
    int64_t line
    bint dirty
    bint old              # not requested since a `Warmer` added it


cdef class SharedCache(CountedCache):
    cdef Way* way                     # [sets x ways]
    cdef int64_t* lines_in            # [sets] number of lines in each set
    cdef int64_t sets, ways

    cdef void _request(self, int64_t line, uint8_t kind) noexcept nogil
    cdef void _limit_dirty_lines(self, int64_t set) noexcept nogil
    cdef void _add_old(self, int64_t line, bint write) noexcept nogil


cdef struct SectorWay:
    int64_t line
    uint32_t valid        # sectors that can be read
    uint32_t dirty        # sectors to be written back
    uint32_t cleaned      # sectors that have been written back while the line was here
    uint32_t old          # valid sectors that were not requested since a `Warmer` added them


cdef class SectoredCache(CountedCache):
    cdef SectorWay* way               # [partitions x sets x ways]
    cdef int64_t* lines_in            # [partitions x sets] number of lines in each set
    cdef int64_t units, partitions, sets, ways, fetch, bits
    cdef bint hashed

    cdef void _request(self, int64_t line, uint32_t asked, uint32_t full, uint8_t kind, int64_t side) noexcept nogil
    cdef int64_t _unit_of(self, int64_t line) noexcept nogil
    cdef int64_t _find(self, int64_t set, int64_t line) noexcept nogil
    cdef SectorWay* _use(self, int64_t set, int64_t line) noexcept nogil
    cdef void _age(self, SectorWay* way, uint32_t asked) noexcept nogil
    cdef void _add_old(self, int64_t line, uint32_t asked, uint32_t full, uint8_t kind, int64_t side) noexcept nogil
    cdef void _add_sectors(self, int64_t set, int64_t line, uint32_t valid, uint32_t dirty) noexcept nogil
    cdef int64_t _dirty_lines(self, int64_t set, int64_t* oldest) noexcept nogil
    cdef void _limit_dirty_lines(self, int64_t set) noexcept nogil
    cdef void _read(self, int64_t line, uint32_t asked, int64_t side) noexcept nogil
    cdef uint32_t _granules(self, uint32_t sectors) noexcept nogil
    cdef int64_t _fetch(self, SectorWay* way, uint32_t missing, bint cold) noexcept nogil
    cdef void _write(self, int64_t line, uint32_t asked, uint32_t full, bint atomic, int64_t side) noexcept nogil
