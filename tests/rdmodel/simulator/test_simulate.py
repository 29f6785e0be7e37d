"""`simulate` as its users see it: options, errors, and what a simulation says of itself."""

from __future__ import annotations

import dataclasses
import json
import sys
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import tracegen
from rdmodel import predict, simulate
from rdmodel.errors import ConfigError, LaunchError, RdmodelError, SimulationError, TraceError
from rdmodel.gpu.config import CoreConfig, gpu_from_dict
from rdmodel.gpu.memory import L2Config
from rdmodel.results.counts import MissCounts
from rdmodel.results.simulation import (
    Contention,
    DramCounts,
    L2Counts,
    MissLatencies,
    ReservationFails,
    Simulation,
    SmSimulation,
    Traffic,
)
from rdmodel.simulator import _engine
from rdmodel.simulator import machine as machine_module
from rdmodel.simulator.options import SimulationOptions
from rdmodel.trace import Op
from tests.support.builders import busy_program, load, make_gpu, make_trace, store
from tests.support.presets import FERMI

GPU = make_gpu().replace(l2=L2Config(slices=2, size=16 * 128, ways=2, mshrs=2))
"""Two SMs whose caches, the L2's too, are smaller than what `BUSY` uses."""

MIXED = [[[*warp, store(3), store(50)] for warp in block] for block in busy_program()]
BUSY = make_trace(MIXED, warps=2)
NO_MEMORY = make_trace([[[], []], [[], []]], warps=2)
STORES = make_trace([[[store(1), store(2)]]], warps=1)


# ---- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schd": "gto"}, "unknown option 'schd'; did you mean 'sched'"),
        ({"block": 3}, "unknown option 'block'; did you mean 'blocks'"),
        ({"checks": True}, "unknown option 'checks'; did you mean 'check'"),
        ({"definition": "paper"}, "unknown option 'definition'; known: sms, blocks, sched, memory, stores"),
        ({"sched": "random"}, "unknown value for sched: 'random'; known: lrr, gto, two-level, old"),
        ({"sched": "two_level"}, "unknown value for sched: 'two_level'; did you mean 'two-level'?"),
        ({"sms": 0}, "sms=0: must be at least 1"),
        ({"sms": -3}, "sms=-3: must be at least 1"),
        ({"sms": 2.0}, "sms=2.0: must be a whole number"),
        ({"blocks": 0}, "blocks=0: must be at least 1"),
        ({"blocks": -1}, "blocks=-1: must be at least 1"),
        ({"memory": -1}, "memory=-1: must be at least 0"),
        ({"memory": True}, "memory=True: must be a whole number"),
        ({"memory": float("nan")}, "memory=nan: must be a whole number"),
        ({"stores": "evict"}, "stores='evict': must be True or False"),
        ({"check": 1}, "check=1: must be True or False"),
        ({"seed": -1}, "seed=-1: must be at least 0"),
        ({"seed": 1.0}, "seed=1.0: must be a whole number"),
        ({"gpu": "gtx470-16"}, "unknown GPU 'gtx470-16'; did you mean 'gtx470-16k'"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line_that_names_it(options, message):
    with pytest.raises(ConfigError) as error:
        simulate(BUSY, **{"gpu": GPU, **options})
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_what_is_no_trace_is_refused():
    with pytest.raises(TraceError, match=r"trace='atax\.1': must be a Trace"):
        simulate("atax.1", gpu=FERMI)


@pytest.mark.parametrize("gpu", ["small", "v100"])
@pytest.mark.parametrize("options", [{}, {"memory": 5}, {"policies": "swl:best"}])
def test_a_kernel_without_instructions_takes_no_time_and_has_counters_of_zero(gpu, options):
    found = simulate(NO_MEMORY, GPU if gpu == "small" else gpu, check=True, **{"sms": 2, **options})
    assert (found.cycles, found.instructions, found.transactions, found.stores, found.ipc) == (0, 0, 0, 0, 0.0)
    assert found.traffic.read_messages == found.traffic.write_messages == 0
    assert found.l2 is None if found.dram is None else found.l2.reads == found.dram.bytes == 0
    assert sum(sm.blocks for sm in found.per_sm) == 2
    assert np.isnan(found.miss_rate)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["miss_rate"] is None


@pytest.mark.parametrize("gpu", ["small", "v100"])
def test_a_kernel_of_barriers_and_other_instructions_takes_their_cycles(gpu):
    trace = make_trace([[[(Op.BARRIER, 0, gap, [])] for gap in (0, 7)]], warps=2)
    found = simulate(trace, GPU if gpu == "small" else gpu, sms=1, check=True)
    assert (found.warp_instructions, found.loads, found.stores) == (9, 0, 0)
    assert found.cycles >= 8


def test_stores_without_transactions_issue_and_leave_all_counters_of_memory_at_zero():
    found = simulate(STORES, GPU, stores=False)
    assert (found.warp_instructions, found.stores, found.cycles) == (2, 0, 2)
    assert found.traffic.write_messages == 0


@pytest.mark.parametrize("gpu", ["small", "v100"])
def test_a_kernel_that_only_stores_counts_its_stores_and_no_loads(gpu):
    found = simulate(STORES, GPU if gpu == "small" else gpu, sms=1, check=True)
    assert (found.stores, found.loads, found.traffic.write_messages) == (2, 0, 2)
    assert str(found).startswith(f"random on {gpu} (simulated): no loads, ")


def test_a_block_that_cannot_be_resident_is_refused():
    with pytest.raises(LaunchError, match="a block cannot be resident: it needs 64 threads"):
        simulate(BUSY, GPU.replace(max_threads=63))


def test_a_scheduler_has_at_most_64_warps():
    one = GPU.replace(max_warps=80, max_threads=2560, max_blocks=10, core=CoreConfig(schedulers=1))
    trace = make_trace([[[load(i)] for i in range(8)] for _ in range(10)], warps=8)
    with pytest.raises(
        ConfigError, match=r"core\.schedulers=1: 80 resident warps exceed the limit of 64 per scheduler"
    ):
        simulate(trace, one)
    assert simulate(trace, one, blocks=8).loads == 64
    assert simulate(trace, one.replace(core=CoreConfig(schedulers=2))).loads == 80


def test_a_block_that_the_trace_does_not_hold_is_an_error_only_where_it_is_needed():
    trace = tracegen.kernel("atax.1", NX=512, NY=4, block=(64, 1, 1)).cut([0, 1, 2])
    assert simulate(trace, gpu=FERMI, blocks=3).per_sm[2].blocks == 1
    with pytest.raises(TraceError, match=r"block 3 is not in the trace of atax\.1: it holds 3 of 8 blocks"):
        simulate(trace, gpu=FERMI)


def test_only_the_first_blocks_are_simulated_on_as_many_sms_as_asked_for():
    assert simulate(BUSY, GPU, blocks=3) == dataclasses.replace(
        simulate(make_trace(MIXED[:3], warps=2), GPU), config=simulate(BUSY, GPU, blocks=3).config
    )
    every = simulate(BUSY, GPU)
    assert sum(sm.blocks for sm in every.per_sm) == len(MIXED)
    assert counts_of(simulate(BUSY, GPU, blocks=10**6)) == counts_of(every)
    one = simulate(BUSY, GPU, sms=1)
    assert (one.sms, len(one.per_sm), one.per_sm[0].blocks) == (1, 1, len(MIXED))


def counts_of(result: Simulation) -> dict[str, object]:
    plain = result.to_dict()
    return {name: value for name, value in plain.items() if "seconds" not in name and name not in ("config", "seed")}


def test_stores_can_be_left_out():
    with_stores, without = simulate(BUSY, GPU), simulate(BUSY, GPU, stores=False)
    assert with_stores.writes == 2 * 2 * len(MIXED)
    assert (without.writes, without.traffic.write_messages) == (0, 0)
    assert without.l2 is not None
    assert without.l2.writes == 0
    assert without.loads == with_stores.loads
    assert without.instructions == with_stores.instructions


@pytest.mark.parametrize("options", [{}, {"sched": "gto", "memory": 40}, {"sched": "two-level", "stores": False}])
def test_a_run_repeats_itself_and_the_seed_is_only_recorded(options):
    first, again, seeded = (simulate(BUSY, GPU, seed=seed, **options) for seed in (0, 0, 7))
    assert first == again
    assert (seeded.seed, seeded.config["seed"]) == (7, 7)
    assert counts_of(seeded) == counts_of(first)


def test_checking_changes_nothing():
    assert simulate(BUSY, GPU, check=True) == simulate(BUSY, GPU)


class Broken:
    """A machine that says that something is wrong."""

    def __init__(self, machine, **answers):
        self._machine = machine
        for name, answer in answers.items():
            setattr(self, name, lambda *_, answer=answer: answer)

    def __getattr__(self, name):
        return getattr(self._machine, name)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"violations": ["one line twice", "no way"]}, "an invariant is broken: one line twice; no way"),
        ({"run": _engine.STUCK, "waiting_for": ["SM 0"]}, "nothing can happen any more: SM 0"),
        ({"under_way": ["slice 1: 2 reads"]}, "the machine is not empty at the end: slice 1: 2 reads"),
    ],
)
def test_a_run_that_goes_wrong_says_kernel_cycle_and_what_is_wrong(monkeypatch, answers, message):
    machine = machine_module.Machine
    monkeypatch.setattr(machine_module, "Machine", lambda **given: Broken(machine(**given), **answers))
    with pytest.raises(SimulationError, match=r"^random, cycle -?\d+: ") as error:
        simulate(BUSY, GPU, check=True)
    assert str(error.value).endswith(message)


def test_progress_counts_begun_blocks_and_may_stop_the_run():
    seen = []
    simulate(BUSY, GPU, check=True, progress=lambda *numbers: seen.append(numbers))
    assert seen == sorted(seen)
    assert {total for _, total in seen} == {len(MIXED)}
    assert seen[-1][0] == len(MIXED)

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(BUSY, GPU, check=True, progress=interrupt)


def test_an_observer_sees_every_load_transaction_of_the_l1s():
    rows = []
    found = simulate(BUSY, GPU, observe=lambda array: rows.append(array.copy()))
    sm, block, warp, _, line, outcome, _ = np.concatenate(rows).T
    assert np.bincount(outcome).tolist() == [found.hits, found.pending_hits, found.misses.total]
    for counts in found.per_sm:
        mine = outcome[sm == counts.sm]
        assert len(mine) == counts.transactions
        assert (mine == 2).sum() == counts.misses.total
    wanted = {(b, w, n) for b, warps in enumerate(MIXED) for w, i in enumerate(warps) for n in lines_of(i)}
    assert set(zip(block.tolist(), warp.tolist(), line.tolist(), strict=True)) == wanted


def lines_of(instructions) -> set[int]:
    return {line for op, _, _, lines in instructions for line in lines if op == load()[0]}


# ---- laws


@pytest.mark.parametrize(
    "options", [{}, {"sched": "gto"}, {"sched": "old", "memory": 0}, {"stores": False, "memory": 300}, {"sms": 1}]
)
def test_counts_add_up(options):
    found = simulate(BUSY, GPU, **options)
    assert found.transactions == found.hits + found.pending_hits + found.misses.total + found.bypassed
    assert found.loads == found.transactions - found.bypassed
    assert found.stores == found.writes
    for name in (
        "hits",
        "pending_hits",
        "writes",
        "stores",
        "bypassed",
        "instructions",
        "warp_instructions",
        "transactions",
        "loads",
    ):
        assert sum(getattr(sm, name) for sm in found.per_sm) == getattr(found, name), name
    for group in ("misses", "reservation_fails", "contention"):
        total = getattr(found, group).to_dict()
        assert total == {name: sum(getattr(sm, group).to_dict()[name] for sm in found.per_sm) for name in total}
    assert [sm.sm for sm in found.per_sm] == list(range(found.sms))
    assert found.traffic.read_messages == found.traffic.response_messages == found.misses.total
    assert found.traffic.write_messages == found.writes
    assert found.miss_latencies.counts.sum() == found.misses.total
    assert found.cycles > 0


def test_what_leaves_one_level_arrives_at_the_next():
    found = simulate(BUSY, GPU)
    l2, dram = found.l2, found.dram
    assert l2 is not None
    assert dram is not None
    assert l2.reads == l2.hits + l2.pending_hits + l2.misses == found.traffic.read_messages
    assert l2.writes == found.traffic.write_messages >= l2.write_hits
    assert dram.reads == l2.misses
    assert dram.bytes == 128 * (dram.reads + dram.writes)
    assert 0 < dram.activations <= dram.reads + dram.writes


def test_an_ideal_memory_has_neither_l2_nor_dram_and_answers_when_it_is_told_to():
    found = simulate(BUSY, GPU, memory=77)
    assert (found.l2, found.dram) == (None, None)
    assert found.miss_latencies.to_dict() == {"min": 77, "median": 77, "p95": 77, "max": 77, "mean": 77.0}
    assert found.cycles > simulate(BUSY, GPU, memory=0).cycles


# ---- what a result says


def made(**changes: object) -> Simulation:
    """Return a simulation with counts made by hand."""
    counts = {
        "warp_instructions": 40,
        "instructions": 800,
        "hits": 50,
        "pending_hits": 10,
        "misses": MissCounts(20, 15, 5),
        "writes": 30,
        "bypassed": 7,
        "reservation_fails": ReservationFails(4, 3, 2, 1),
        "contention": Contention(6, 5, 4),
    }
    whole = {
        **counts,
        "kernel": "k",
        "gpu": "g",
        "seed": 3,
        "sms": 2,
        "cycles": 400,
        "traffic": Traffic(
            read_messages=40, write_messages=30, response_messages=40, request_bytes=4400, response_bytes=5440
        ),
        "miss_latencies": MissLatencies(np.array([10, 20, 90]), np.array([30, 9, 1])),
        "l2": L2Counts(
            reads=40, hits=20, pending_hits=10, misses=10, bypassed=0, writes=30, write_hits=3, stalls={"dram_queue": 8}
        ),
        "dram": DramCounts(reads=10, writes=6, activations=4, bytes=2048),
        "trace_seconds": 0.25,
        "seconds": 0.5,
        "config": {"seed": 3, "gpu": {"l1": {"size": 16384, "line": 128}}},
        "per_sm": (SmSimulation(sm=0, blocks=1, **counts),),
    }
    return Simulation(**{**whole, **changes})


def test_rates_follow_from_the_counts():
    found = made()
    assert (found.transactions, found.loads, found.stores) == (107, 100, 30)
    assert (found.miss_rate, found.pending_hit_rate) == (0.4, 0.1)
    assert (found.ipc, found.mpki) == (2.0, 50.0)
    assert found.reservation_fails.total == 10
    # 400 cycles of 2 SMs.
    assert found.fails_per_kilocycle == {
        name: float(Fraction(1000 * count, 800)) for name, count in found.reservation_fails.to_dict().items()
    }
    assert found.l2 is not None
    assert found.dram is not None
    assert (found.l2.miss_rate, found.dram.row_hit_rate) == (0.25, 0.75)
    assert found.miss_latencies.to_dict() == {"min": 10, "median": 10, "p95": 20, "max": 90, "mean": 14.25}
    assert (found.per_sm[0].transactions, found.per_sm[0].loads, found.per_sm[0].stores) == (107, 100, 30)


def test_transactions_mean_the_same_as_in_a_prediction():
    predicted = predict(BUSY, GPU, model_sms="all")
    for policies in ((), ["bypass-all"], ["pd:distance=1"]):
        found = simulate(BUSY, GPU, policies=policies)
        assert found.stores > 0
        assert found.transactions == predicted.transactions == found.to_dict()["transactions"]
        by_sm = {sm.sm: sm.transactions for sm in found.per_sm}
        assert sum(by_sm.values()) == found.transactions


def test_json_has_loads_and_stores_apart():
    found = simulate(BUSY, GPU, policies=["bypass-on-stall:on=all"])
    for counts, plain in ((found, found.to_dict()), *zip(found.per_sm, found.to_dict()["per_sm"], strict=True)):
        assert (plain["loads"], plain["stores"], plain["bypassed"]) == (counts.loads, counts.writes, counts.bypassed)
        assert plain["transactions"] == plain["loads"] + plain["bypassed"]
        assert "writes" not in plain
    assert found.miss_rate == found.misses.total / found.loads


def test_no_rate_divides_by_zero():
    none = made(
        cycles=0,
        instructions=0,
        hits=0,
        pending_hits=0,
        misses=MissCounts(0, 0, 0),
        miss_latencies=MissLatencies(np.array([], np.int64), np.array([], np.int64)),
        l2=L2Counts(reads=0, hits=0, pending_hits=0, misses=0, bypassed=0, writes=0, write_hits=0, stalls={}),
        dram=DramCounts(reads=0, writes=0, activations=0, bytes=0),
    )
    assert (none.miss_rate, none.pending_hit_rate, none.ipc, none.mpki) == (0, 0, 0, 0)
    assert set(none.fails_per_kilocycle.values()) == {0.0}
    plain = json.loads(json.dumps(none.to_dict(), allow_nan=False))
    assert (plain["l2"]["miss_rate"], plain["dram"]["row_hit_rate"], plain["miss_latency"]["mean"]) == (0, 0, 0)


HEAD = [
    *("kernel", "gpu", "seed", "sms", "cycles", "instructions", "warp_instructions", "ipc", "transactions"),
    *("loads", "hits", "pending_hits", "misses", "miss_rate", "mpki"),
]


@pytest.mark.parametrize(
    "found", [made(), made(l2=None, dram=None), simulate(BUSY, GPU), simulate(BUSY, GPU, memory=9)]
)
def test_a_result_is_json_with_the_promised_keys(found):
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(plain)[: len(HEAD)] == HEAD
    assert list(plain)[-1] == "config"
    assert list(plain["misses"]) == ["compulsory", "capacity", "associativity", "total"]
    assert list(plain["reservation_fails"]) == ["line_alloc", "mshr_entry", "mshr_merge", "miss_queue"]
    assert list(plain["contention"]) == ["intra_warp", "cross_warp_intra_block", "cross_block"]
    assert {"bypassed", "l2", "dram", "trace_seconds", "seconds", "traffic", "per_sm"} <= set(plain)
    assert plain == found.to_dict()
    assert plain["per_sm"][0]["misses"]["total"] == found.per_sm[0].misses.total


def test_a_row_is_flat_and_has_every_number_of_the_dict():
    row = made().to_row()
    assert all(isinstance(value, str | int | float) for value in row.values())
    wanted = {
        "kernel": "k", "ipc": 2.0, "misses_total": 40, "reservation_fails_mshr_entry": 3,
        "contention_cross_block": 4, "traffic_request_bytes": 4400, "l2_miss_rate": 0.25, "dram_bytes": 2048,
        "dram_row_hit_rate": 0.75,
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    assert not {name for name in made(l2=None, dram=None).to_row() if name.startswith(("l2_", "dram_"))}


def test_a_frame_is_made_of_the_row_and_needs_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))
    assert made().to_frame() == [made().to_row()]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RdmodelError, match="needs pandas"):
        made().to_frame()


def test_a_result_cannot_be_changed_and_shows_itself_in_one_line():
    found = made()
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.hits = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.reservation_fails.line_alloc = 0
    assert str(found) == "k on g (simulated): L1 miss rate 40.00 % of 100 load transactions, 400 cycles, IPC 2.0"
    assert "\n" not in repr(found)


@pytest.mark.parametrize(
    "options", [{}, {"sched": "gto", "memory": 50, "blocks": 5, "sms": 1, "seed": 4}, {"stores": False, "sched": "old"}]
)
def test_the_configuration_of_a_result_is_enough_to_run_it_again(options):
    first = simulate(BUSY, GPU, **options)
    config = json.loads(json.dumps(first.config))
    gpu = gpu_from_dict(config["gpu"])
    assert SimulationOptions(**config["options"]).resolve(gpu) == SimulationOptions(**config["options"])
    assert simulate(BUSY, gpu, seed=config["seed"], **config["options"]) == first


def test_numbers_of_numpy_are_taken_and_recorded_as_plain_ones():
    found = simulate(BUSY, GPU, blocks=np.int64(3), memory=np.int32(4))
    assert json.loads(json.dumps(found.config))["options"]["blocks"] == 3
    assert found == simulate(BUSY, GPU, blocks=3, memory=4)


def test_options_left_out_are_the_gpus():
    config = simulate(BUSY, GPU.replace(core=CoreConfig(sched="old"))).config["options"]
    assert config == {"sms": 2, "blocks": None, "sched": "old", "memory": None, "stores": True, "policies": []}
