"""Combine latency and throughput: the customers of an SM as a closed network of queues (docs/time.md)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rdmodel.common.late_dataclass import dataclass
from rdmodel.timing.demands import Demand

STEPS = 200
"""Bisections of the throughput; each halves the error."""


@dataclass(frozen=True, slots=True)
class Flow:
    """The steady state of an SM: `throughput` in customers per cycle, and `waiting`, cycles of one in all queues."""

    throughput: float
    waiting: float


def solve_queues(demands: Sequence[Demand], customers: float, alone: float) -> Flow:
    """Return the flow of `customers` that circulate through the resources of an SM.

    A customer needs `alone` cycles if there is no other, and occupies each resource for the cycles of its demand. With
    N customers on an SM and a throughput of X, a resource of c copies with the demand D is used at the rate u = X D. A
    customer finds it used at v = u (n - 1) / n, where n = N / c customers share a copy, and waits for c D v / (1 - v).
    It waits in one resource of each stage: the busiest. The throughput is the fixed point of

        X = N / (alone + the sum of the waits),

    but at most 1 / D for every resource (Schweitzer's approximation of mean value analysis). A customer that needs less
    time than these resources serve it uses several at once, and also waits for several at once: the sum of the waits
    is multiplied by `alone` / the sum of c D. So another customer never makes an SM slower.
    """
    busiest = [
        max(stage, key=lambda demand: demand.cycles)
        for _, stage in ((name, list(group)) for name, group in groupby(demands, key=lambda demand: demand.stage))
    ]
    most = 1 / max(demand.cycles for demand in demands) if any(demand.cycles for demand in demands) else float("inf")
    high = min(most, customers / alone) if alone else most
    low = 0.0
    served = sum(demand.copies * demand.cycles for demand in busiest)
    overlap = alone / served if served > alone else 1.0

    def waiting(throughput: float) -> float:
        total = 0.0
        for demand in busiest:
            sharing = max(1.0, customers / demand.copies)
            used = throughput * demand.cycles * (sharing - 1) / sharing
            total += demand.copies * demand.cycles * used / (1 - used)
        return overlap * total

    if high * (alone + waiting(high)) <= customers:
        return Flow(high, waiting(high))
    for _ in range(STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if middle * (alone + waiting(middle)) < customers:
            low = middle
        else:
            high = middle
    return Flow(high, waiting(high))
