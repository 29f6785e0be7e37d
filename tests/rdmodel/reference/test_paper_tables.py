"""Replay the worked examples of Nugteren et al. (HPCA 2014) with the reference model: tables 2 to 5 and figure 7.

In the tables every thread is a warp, a line has 4 elements, and threads take turns without waiting. The paper calls a
request that merges with one in flight a miss as well.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import repeat
from typing import Any

import pytest

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.policies import Fermi, Linear
from rdmodel.reference import Effect, Instruction, Log, Try, hardware, paper, run
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.paths import DATA

PAPER = json.loads((DATA / "paper_tables.json").read_text())
STATUS = {"hit": "hit", "miss": "miss", "latency": "miss", "stall": "cancel"}


def loads(*lines: int) -> list[Instruction]:
    return [Instruction(Op.LOAD, ALL_NEEDS, 0, (line,)) for line in lines]


def replay(warps: list[list[Instruction]], *, mshrs: int | None = None, **changes: Any) -> Log:
    cache = CacheConfig(size=2 * 16, ways=2, line=16, index=Linear(), mshrs=mshrs)
    options = Options(definition="paper", sigma=0.0, divergence=False, **changes)
    log: Log = []
    run(paper(cache, options, 1, repeat(0), log), [warps])
    return log


def tries(log: Log) -> list[Try]:
    return [record for record in log if isinstance(record, Try)]


def effects(log: Log) -> list[list[int]]:
    by_time: dict[int, list[int]] = {}
    for record in log:
        if isinstance(record, Effect):
            by_time.setdefault(record.time, []).append(record.line)
    return [by_time.get(time, []) for time in range(max(by_time) + 1)]


def four_threads() -> list[list[Instruction]]:
    return [loads(0, 0), loads(0, 0), loads(1, 1), loads(1, 1)]


def threads_0_and_2() -> list[list[Instruction]]:
    return [loads(0, 0), loads(1, 1)]


def rows(log: Log, threads: list[int]) -> list[dict[str, Any]]:
    """Return the log in the form of the rows of table 5."""
    result = []
    instruction: Counter[int] = Counter()
    for t in tries(log):
        stalled = t.outcome == "stall"
        result.append(
            {
                "time": t.time,
                "instruction": instruction[t.warp],
                "thread": threads[t.warp],
                "cache_line": t.line,
                "distance": t.distance,
                "mshr_before": t.mshrs_before,
                "status": STATUS[t.outcome],
                "mshr_after": None if stalled else t.mshrs_after,
                "latency": t.latency,
                "effect_at": t.effect_at,
            }
        )
        instruction[t.warp] += not stalled
    return result


def table_5(name: str) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "address"} for row in PAPER["table5"][name]]


def test_table_2_without_latency() -> None:
    table = PAPER["table2"]
    got = tries(replay(four_threads(), lat_min=0, hit_latency=0))
    assert [t.warp for t in got] == table["thread"]
    assert [t.line for t in got] == table["cache_line"]
    assert [t.distance for t in got] == table["distance"]


@pytest.mark.parametrize(("name", "hit_latency"), [("table3", 2), ("table4", 0)])
def test_tables_3_and_4_with_latency(name: str, hit_latency: int) -> None:
    table = PAPER[name]
    log = replay(four_threads(), lat_min=2, hit_latency=hit_latency, clip=False)
    got = tries(log)
    assert [t.time for t in got] == list(range(8))
    assert [t.warp for t in got] == table["thread"]
    assert [t.line for t in got] == table["cache_line"]
    assert [t.distance for t in got] == table["distance"]
    assert [STATUS[t.outcome][0] for t in got] == table["hit_miss"]
    assert [t.latency for t in got] == table["latency"]
    assert [t.effect_at for t in got] == table["effect_at"]
    assert effects(log) == table["cache_effect"]


@pytest.mark.parametrize(("name", "hit_latency"), [("table3", 2), ("table4", 0)])
def test_tables_3_and_4_differ_if_effects_come_before_the_accesses(name: str, hit_latency: int) -> None:
    got = tries(replay(four_threads(), lat_min=2, hit_latency=hit_latency, clip=False, effects="before"))
    assert [t.distance for t in got] == PAPER[f"{name}_if_BEFORE"]["distance"]


def test_table_4_with_clipping_moves_the_request_at_time_1() -> None:
    example = PAPER["table4"]["clip_example"]
    clipped = {t.time: t.effect_at for t in tries(replay(four_threads(), lat_min=2, hit_latency=0))}
    free = {t.time: t.effect_at for t in tries(replay(four_threads(), lat_min=2, hit_latency=0, clip=False))}
    assert clipped[example["time"]] == example["effect_at_clipped"]
    assert free[example["time"]] == example["effect_at_unclipped"]


def test_table_5_with_one_mshr_needs_effects_before_the_accesses() -> None:
    log = replay(threads_0_and_2(), mshrs=1, lat_min=2, hit_latency=0, clip=False, effects="before")
    assert rows(log, [0, 2]) == table_5("rows_paper")
    assert effects(log) == PAPER["table5"]["cache_effect"]


def test_table_5_with_effects_after_the_accesses() -> None:
    log = replay(threads_0_and_2(), mshrs=1, lat_min=2, hit_latency=0, clip=False)
    assert rows(log, [0, 2]) == table_5("rows_if_AFTER")
    assert effects(log) == PAPER["table5"]["cache_effect_if_AFTER"]


def test_table_5_with_clipping() -> None:
    log = replay(threads_0_and_2(), mshrs=1, lat_min=2, hit_latency=0, effects="before")
    assert rows(log, [0, 2]) == table_5("rows_BEFORE_with_clip")


FIGURE_7 = [
    pytest.param(name, size, ways, int(shift), id=f"{size}K-stride-2^{shift}")
    for name, size, ways in (("fig7_16KB_4way", 16, 4), ("fig7_style_48KB_6way", 48, 6))
    for shift in PAPER[name]
]


@pytest.mark.parametrize("definition", ["paper", "hardware"])
@pytest.mark.parametrize(("name", "size", "ways", "shift"), FIGURE_7)
def test_figure_7_two_loops_of_strided_loads(definition: Any, name: str, size: int, ways: int, shift: int) -> None:
    cache = CacheConfig(size=size << 10, ways=ways, index=Fermi())
    options = Options(definition=definition, lat_min=0, sigma=0.0, hit_latency=0)
    for count, expected in PAPER[name][str(shift)].items():
        loop = loads(*(i << shift >> 7 for i in range(int(count))))
        if definition == "paper":
            sm = paper(cache, options, 1, repeat(0))
        else:
            sm = hardware(cache, options, 1, repeat(0), repeat(0.0))
        counts = run(sm, [[loop + loop]])
        assert 100 * counts.misses / counts.transactions == pytest.approx(expected)
        assert counts.transactions == 2 * int(count) == counts.hits + counts.misses
