# latency-limit: the latencies of answers in the crossbar, and loads of lines that the L1 has lost (docs/policies.md).
from libc.stdint cimport int64_t

cdef struct Congestion:
    int64_t answers, latency   # of the period: reads answered, and the sum of their latencies
    int64_t shortest           # latency of all answers so far; 0: there was none
    int64_t loads, lost        # of the period: load transactions, and those of absent lines that the L1 has lost


cdef struct LatencyRule:
    double high, low           # multiples of the shortest latency
    double lost                # share of the loads
    int64_t step


cdef inline void congestion_answer(Congestion* c, int64_t latency) noexcept nogil:
    if c.shortest == 0 or latency < c.shortest:
        c.shortest = latency
    c.latency += latency
    c.answers += 1


cdef inline int64_t congestion_limit(
    Congestion* c, const LatencyRule* rule, int64_t limit, int64_t most
) noexcept nogil:
    # End the period: return the new limit on the warps of a scheduler.
    cdef double latency = <double> c.latency, least = <double> (c.shortest * c.answers)
    if c.answers > 0:
        if latency > rule.high * least and <double> c.lost > rule.lost * <double> c.loads:
            limit = max(limit - rule.step, 1)
        elif latency < rule.low * least:
            limit = min(limit + rule.step, most)
    c.answers = c.latency = c.loads = c.lost = 0
    return limit
