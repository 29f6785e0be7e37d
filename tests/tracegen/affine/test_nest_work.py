"""Compare the work of loop nests with the naive interpreter, and with counts by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given

import tracegen
from rdmodel.errors import TraceError
from rdmodel.trace import WARP, Op
from rdmodel.trace.counting import count_work, work_of_block
from tests.support.examples import examples
from tests.support.naive_affine import OPS, Naive
from tests.support.naive_banks import naive_wavefronts
from tests.support.random_affine import iterations, kernels
from tracegen.affine import from_json, load_affine, to_json


def only(counts):
    return {name: value for name, value in counts.items() if value}


class Counting(Naive):
    """Counts what every thread computes, and the conflicts of array B, which is in shared memory."""

    def __init__(self, kernel: dict[str, Any], block: int) -> None:
        self.counts: Counter[str] = Counter()
        super().__init__({**kernel, "arrays": {"A": ["N", 40], "B": [200]}}, block)

    def statement(self, s, active, last, where):
        access = OPS.keys() & s.keys() if isinstance(s, dict) else ()
        if isinstance(s, dict) and "flops" in s:
            self.counts["lanes"] += len(active)
            self.counts["warps"] += len({n // WARP for n in active})
        elif access and s[next(iter(access))] == "B":
            (kind,) = access
            for warp in {n // WARP for n in active}:
                lanes = {n % WARP: self.address("B", s["at"], n) for n in active if n // WARP == warp}
                self.counts[f"{kind}_shared"] += 1
                self.counts[f"wavefronts {kind}"] += naive_wavefronts(lanes, 4, kind == "atomic")[0]
        else:
            super().statement(s, active, last, where)


def computing(body: list[Any]) -> list[Any]:
    """Return statements with arithmetic at the end of every body."""
    return [{**s, "do": computing(s["do"])} if isinstance(s, dict) and "do" in s else s for s in body] + [{"flops": 3}]


@examples(40, suppress_health_check=list(HealthCheck))
@given(kernels(depth=2))
def test_random_nests_have_the_work_of_the_naive_interpreter(kernel):
    kernel["arrays"]["B"] = {"shape": [200], "space": "shared"}
    kernel["body"] = computing(kernel["body"])
    assert to_json(from_json(to_json(from_json(kernel)))) == to_json(from_json(kernel))
    trace, found = iterations(kernel)
    if isinstance(found, TraceError):
        return
    for block in trace.blocks:
        work, naive = work_of_block(trace, block), Counting(kernel, block)
        rows = Counter(row[0] for rows in naive.rows for row in rows)
        assert work.instructions["barrier"] == rows[Op.BARRIER]
        assert (work.instructions["load_global"], work.instructions["store_global"]) == (rows[Op.LOAD], rows[Op.STORE])
        assert work.instructions["fp32"] == 2 * naive.counts["warps"]
        assert (work.operations["fp32_fma"], work.flops["fp32"]) == (naive.counts["lanes"], 3 * naive.counts["lanes"])
        for kind in OPS:
            assert work.instructions[f"{kind}_shared"] == naive.counts[f"{kind}_shared"]
            assert work.shared_wavefronts[f"{kind}_shared"] == naive.counts[f"wavefronts {kind}"]


def test_the_tiled_multiply_computes_each_product_and_loads_both_factors_from_shared_memory():
    # Tiles of 16 x 16 x 16, 16 x 16 threads, 2 tiles: 2 x 16 multiply-adds per thread. A warp has two rows: as[i, k] is
    # two words in different banks, bs[k, j] 16 neighbours; one wavefront each.
    sizes = {"NI": 32, "NJ": 32, "NK": 32, "TI": 16, "TJ": 16, "TK": 16, "BX": 16, "BY": 16}
    trace = tracegen.kernel("gemm.shared", **sizes)
    found = count_work(trace)
    assert found.operations["fp32_fma"] == 4 * 256 * 32 + 4 * 256  # and c * beta + alpha * sum in the end
    assert found.instructions["load_shared"] == 4 * 8 * 32 * 2
    assert found.instructions["store_shared"] == 4 * 8 * 2 * 2
    assert only(found.shared_conflicts) == {}
    # Tiles of 32 x 32 with 8 x 32 threads: lanes of a warp are in four rows of as, 32 words apart: four-way conflicts.
    tall = tracegen.kernel("gemm.shared", **sizes | {"TI": 32, "TJ": 32, "TK": 32, "BX": 8, "BY": 32})
    found = count_work(tall)
    assert found.shared_wavefronts["load_shared"] > found.shared_groups["load_shared"]
    assert trace.launch.shared_memory == 4 * 2 * 16 * 16


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ({"flops": -2}, "body[0]: flops -2: must be a whole number from 0 to 2^20"),
        ({"flops": 2, "type": "int8"}, "body[0]: unknown type 'int8'"),
        ({"flops": 2, "adds": 1}, "body[0]: unknown field of arithmetic 'adds'"),
        ({"load": "s", "at": ["thread_x + 1"]}, "body[0]: load of s: s[64]: it has indices 0 to 63"),
    ],
)
def test_mistakes_in_arithmetic_and_in_shared_arrays_are_named(statement, message):
    kernel = {"name": "k", "arrays": {"s": {"shape": [64], "space": "shared"}}, "grid": [1], "block": [64]}
    with pytest.raises(TraceError) as error:
        tracegen.affine_kernel({**kernel, "body": [statement]})
    assert message in str(error.value)


def test_every_bundled_nest_tells_its_arithmetic():
    for name in tracegen.affine.names():
        trace = tracegen.affine_kernel(load_affine(name))
        work = trace.block_work(0)
        assert work is not None, name
        assert sum(work.flops.values()) > 0 or name.startswith("transpose"), name
