"""Keep the requests of the SMs until the L2 serves them, and serve them in the order of time."""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memmove

from rdmodel.model._core cimport Core, Request
from rdmodel.model._l2 cimport CountedCache, SectoredCache, SharedCache
from rdmodel.structures._memory cimport grow


cdef struct Pending:
    int64_t time
    int64_t line
    uint32_t sectors
    uint32_t full         # of a write: those of which it changes every byte
    int32_t kind          # bits 0 and 1: its kind (rdmodel.model._warp); the rest: its period


cdef struct Queue:
    # The requests of an SM, in the order in which they left it; those before `first` are served.
    Pending* item
    int64_t first, end, capacity


cdef class PendingRequests:
    """The `count` requests that have left the SMs 0 to `sms` - 1 and are not served yet."""

    cdef Queue* queue                 # of each SM
    # The SMs with a request to serve, the earliest first: time of the request, and number of the SM in `sm_bits` bits.
    # Behind the last one there is a key above all others.
    cdef int64_t* heap
    cdef int64_t sms, sm_bits
    cdef readonly int64_t count

    def __init__(self, int64_t sms):
        assert self.queue == NULL and sms > 0
        self.sms = sms
        self.queue = <Queue*> calloc(<size_t> sms, sizeof(Queue))
        self.heap = <int64_t*> calloc(<size_t> (sms + 1), sizeof(int64_t))
        self.sm_bits = (sms - 1).bit_length()
        if self.queue == NULL or self.heap == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef int64_t sm
        if self.queue != NULL:
            for sm in range(self.sms):
                free(self.queue[sm].item)
        free(self.queue)
        free(self.heap)

    def take(self, int64_t sm, Core core not None, int64_t period):
        """Take over the requests that have left an SM since the last call.

        They are counted in `period`, and those of the late part of a run in the next one.
        """
        cdef Queue* q
        cdef int64_t i, capacity
        cdef const Request* request
        assert 0 <= sm < self.sms and period >= 0
        q = &self.queue[sm]
        capacity = max(q.end + core.logged, 2 * q.capacity)
        if q.end + core.logged > q.capacity:
            if grow(<void**> &q.item, capacity, sizeof(Pending)) < 0:
                raise MemoryError
            q.capacity = capacity
        for i in range(core.logged):
            request = &core.log[i]
            q.item[q.end + i] = Pending(
                request.time, request.line, request.sectors, request.full,
                <int32_t> (4 * (period + request.part) + request.kind),
            )
        q.end += core.logged
        self.count += core.logged
        core.logged = 0

    def serve(self, CountedCache cache not None, int64_t partitions, until):
        """Serve the requests from before `until` (None: all), ordered by time, then SM, then as they left the SM.

        SM i is on the side ``i % partitions`` of the L2.
        """
        cdef int64_t end = INT64_MAX if until is None else until
        cdef SharedCache plain = cache if isinstance(cache, SharedCache) else None
        cdef SectoredCache sectored = None if plain is not None else <SectoredCache?> cache
        cdef int64_t sm
        with nogil:
            self._serve(plain, sectored, partitions, end)
            for sm in range(self.sms):
                close_up(&self.queue[sm])

    cdef void _serve(
        self, SharedCache plain, SectoredCache sectored, int64_t partitions, int64_t until
    ) noexcept nogil:
        cdef int64_t size = 0, sm
        cdef int64_t* heap = self.heap
        cdef Queue* q
        cdef const Pending* p
        for sm in range(self.sms):
            q = &self.queue[sm]
            if q.first < q.end and q.item[q.first].time < until:
                heap[size] = q.item[q.first].time << self.sm_bits | sm
                size += 1
        heap[size] = INT64_MAX
        for sm in range(size // 2 - 1, -1, -1):
            sink(heap, sm, size)
        while size > 0:
            sm = heap[0] & (<int64_t> 1 << self.sm_bits) - 1
            q = &self.queue[sm]
            p = &q.item[q.first]
            q.first += 1
            self.count -= 1
            if plain is not None:
                plain._request(p.line, <uint8_t> p.kind)
            else:
                sectored._request(p.line, p.sectors, p.full, <uint8_t> p.kind, sm % partitions)
            if q.first < q.end and q.item[q.first].time < until:
                heap[0] = q.item[q.first].time << self.sm_bits | sm
            else:
                size -= 1
                heap[0] = heap[size]
                heap[size] = INT64_MAX
            sink(heap, 0, size)


cdef inline void sink(int64_t* heap, int64_t at, int64_t size) noexcept nogil:
    # Move a key down in the heap until it is before both keys below it.
    cdef int64_t moved = heap[at], child = 2 * at + 1
    while child < size:
        child += heap[child + 1] < heap[child]
        if heap[child] > moved:
            break
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = moved


cdef void close_up(Queue* q) noexcept nogil:
    # Remove the served requests.
    q.end -= q.first
    if q.first > 0 and q.end > 0:
        memmove(q.item, q.item + q.first, <size_t> q.end * sizeof(Pending))
    q.first = 0
