"""Test quick estimates: exactness where everything is run, laws for excerpts, and bad input."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError, TraceError
from rdmodel.estimation import estimate as estimation
from rdmodel.estimation.excerpt import Excerpt
from rdmodel.model import divided_runs, single_runs
from rdmodel.trace import Columns, Launch
from tests.support.builders import load, make_trace
from tests.support.examples import examples
from tests.support.presets import FERMI
from tests.support.random_traces import ProgramTrace, column_traces
from tracegen.affine.shortening import ShortenedNest
from tracegen.affine.trace import MAX_SHORTER

COUNTS = ("transactions", "hits", "latency_misses", "misses", "stalls_mshr", "stalls_ways", "bypassed", "steps", "l2")
NAMES = {"transactions", "sectors", "hits", "latency_misses", "misses", "miss_rate", "steps"}
L2_NAMES = {"l2_reads", "l2_misses", "l2_miss_rate", "l2_bytes", "dram_read_sectors", "dram_bytes"}
WAYS = pytest.mark.parametrize("l2", [False, True], ids=["l1", "l2"])

STREAM = {
    "name": "stream",
    "parameters": {"B": 500, "N": 400},
    "arrays": {"a": ["B", "N", 256]},
    "grid": ["B"],
    "block": [256],
    "body": [{"for": "k", "to": "N", "do": [{"gap": 2}, {"load": "a", "at": ["block_x", "k", "thread_x"]}]}],
}
"""Every block reads lines of its own, each once."""

TILES = {
    "name": "tiles",
    "parameters": {"NI": 256, "NJ": 256, "NK": 512, "T": 16},
    "arrays": {"c": ["NI", "NJ"], "a": ["NI", "NK"], "b": ["NK", "NJ"]},
    "threads": ["NJ", "NI"],
    "block": ["T", "T"],
    "body": [
        {
            "for": "k",
            "to": "NK",
            "step": "T",
            "do": [
                {"for": "p", "from": "thread_x", "to": "T", "step": "T", "do": [{"load": "a", "at": ["y", "k + p"]}]},
                {"for": "q", "from": "thread_y", "to": "T", "step": "T", "do": [{"load": "b", "at": ["k + q", "x"]}]},
                "barrier",
            ],
        },
        {"store": "c", "at": ["y", "x"]},
    ],
}


def gemm(**sizes: int):
    return tracegen.affine_kernel("gemm", **{"NI": 128, "NJ": 128, "NK": 64, **sizes})


def exactly(trace, l2: bool, **options):
    return rd.predict(trace, gpu=FERMI, model_sms="all", threads=None, histogram=False, l2=l2, **options)


def instructions_of(trace) -> int:
    """Count warp instructions and gaps, one by one."""
    rows = trace.columns
    return len(rows) + int(rows.gap.astype(object).sum())


# ---- exact


@WAYS
@pytest.mark.parametrize("definition", ["hardware", "paper"])
@pytest.mark.parametrize("work", [None, 10_000_000])
def test_with_work_enough_everything_is_counted_as_by_predict(l2, definition, work):
    trace = gemm()
    found, exact = (
        rd.estimate(trace, gpu=FERMI, l2=l2, work=work, definition=definition, seed=3),
        exactly(trace, l2, definition=definition, seed=3),
    )
    assert [getattr(found, name) for name in COUNTS] == [getattr(exact, name) for name in COUNTS]
    assert found.per_sm == exact.per_sm
    assert found.instructions == instructions_of(trace)
    assert set(found.estimates) == NAMES | (L2_NAMES if l2 else set())
    assert all(one.low == one.value == one.high for one in found.estimates.values())
    assert found.config["trace"] == exact.config["trace"]
    assert found.config["work"] == work


@examples(25)
@given(column_traces(), st.booleans())
def test_recorded_traces_are_counted_as_by_predict(trace, l2):
    try:
        exact = exactly(trace, l2)
    except rd.RdmodelError as error:
        with pytest.raises(type(error)):
            rd.estimate(trace, gpu=FERMI, l2=l2)
        return
    found = rd.estimate(trace, gpu=FERMI, l2=l2)
    assert [getattr(found, name) for name in COUNTS] == [getattr(exact, name) for name in COUNTS]
    assert found.instructions == instructions_of(trace)


def test_blocks_that_depend_on_those_before_are_all_run_in_order():
    asked = []

    class InOrder(ProgramTrace):
        any_order = False

        def block(self, block):
            asked.append(block)
            return super().block(block)

    stream = tracegen.affine_kernel(STREAM)
    trace = InOrder(dataclasses.replace(stream.launch, grid=(40, 1, 1)), {b: stream.block(b) for b in range(40)})
    assert rd.estimate(trace, gpu=FERMI, work=100).estimates["misses"].standard_error == 0
    assert asked == list(range(40))


def test_only_the_first_blocks_can_be_asked_for():
    trace = gemm()
    found, exact = rd.estimate(trace, gpu=FERMI, blocks=7), exactly(trace, False, blocks=7)
    assert (found.transactions, found.misses) == (exact.transactions, exact.misses)


# ---- laws


@WAYS
@pytest.mark.parametrize("work", [20_000, 100_000])
def test_blocks_that_share_nothing_are_counted_exactly_whatever_is_run_of_them(l2, work):
    trace = tracegen.affine_kernel(STREAM)
    found = rd.estimate(trace, gpu=FERMI, l2=l2, work=work)
    lines = 500 * 400 * 8
    assert found.transactions == pytest.approx(lines)
    assert found.misses.total == pytest.approx(lines)
    assert found.hits == found.latency_misses == 0
    assert found.instructions == pytest.approx(lines * 3)
    assert lines in found.estimates["misses"]
    assert found.estimates["misses"].standard_error > 0
    if l2:
        assert found.l2.reads == found.l2.misses == pytest.approx(lines)
        assert found.l2.dram_bytes == pytest.approx(lines * 128)


@WAYS
def test_parts_add_up_to_the_whole(l2):
    found = rd.estimate(gemm(NI=512, NJ=512, NK=512), gpu=FERMI, l2=l2)
    assert found.hits + found.latency_misses + found.misses.total == pytest.approx(found.transactions)
    if l2:
        assert found.l2.reads == pytest.approx(found.misses.total)
        assert found.l2.hits + found.l2.misses == pytest.approx(found.l2.reads)
        assert 0 <= found.l2.write_hits <= found.l2.writes
        assert found.l2.write_backs >= 0
    for one in found.estimates.values():
        assert 0 <= one.low <= one.value <= one.high


@WAYS
@pytest.mark.parametrize("kernel", ["atax.2", "mvt.2"])
def test_simple_kernels_are_within_their_intervals(l2, kernel):
    trace = tracegen.affine_kernel(kernel)
    exact = exactly(trace, l2)
    found = rd.estimate(trace, gpu=FERMI, l2=l2, work=100_000).estimates
    assert exact.miss_rate in found["miss_rate"]
    assert exact.misses.total in found["misses"]
    assert exact.transactions in found["transactions"]
    if l2:
        assert exact.l2.dram_bytes in found["dram_bytes"]


@WAYS
def test_the_same_question_has_the_same_answer(l2):
    trace = gemm(NI=512, NJ=512, NK=256)
    one, other = (rd.estimate(trace, gpu=FERMI, l2=l2, work=30_000, seed=5) for _ in range(2))
    assert one == other
    assert one.estimates == other.estimates


SECTORED = rd.presets.gpu("v100").replace(sms=4)
"""A GPU with sectors, on which little work shows the life of a block."""


def exact_l2(trace):
    exact = rd.predict(trace, gpu=SECTORED, l2=True, work=None)
    return {
        "l2_reads": exact.l2.reads,
        "l2_misses": exact.l2.misses,
        "l2_miss_rate": exact.l2.miss_rate,
        "dram_read_sectors": exact.l2.dram_read_sectors,
        "dram_bytes": exact.l2.dram_bytes,
        "misses": exact.misses.total,
        "sectors": exact.sectors,
    }


@pytest.mark.parametrize("kernel", ["gemm", "syrk", "atax.2"])
def test_intervals_of_the_l2_hold_the_exact_counts_where_lines_have_sectors(kernel):
    sizes = {"gemm": {"NI": 128, "NJ": 128, "NK": 512}, "syrk": {"N": 128, "M": 256}}
    sizes |= {"atax.2": {"NX": 1024, "NY": 2048}}
    trace = tracegen.affine_kernel(kernel, **sizes[kernel])
    found, exact = rd.estimate(trace, SECTORED, l2=True, work=20_000), exact_l2(trace)
    assert found.config["sampled"] != "everything"
    assert [name for name, value in exact.items() if value not in found.estimates[name]] == []
    assert found.sectors == pytest.approx(exact["sectors"], rel=1e-6)
    assert found.l2.dram_read_sectors == pytest.approx(exact["dram_read_sectors"], rel=0.02)


@pytest.mark.parametrize(("kernel", "sizes"), [("3dconv", {}), ("2dconv", {"NI": 512, "NJ": 512})])
def test_misses_of_grids_of_few_waves_are_those_of_whole_sms(kernel, sizes):
    """256 blocks, 3 or 4 on each of 80 SMs, and 1,024 blocks, whose first wave has 640."""
    trace = tracegen.affine_kernel(kernel, **sizes)
    exact = rd.predict(trace, "v100", model_sms="all", threads=None, histogram=False)
    found = rd.estimate(trace, "v100", work=100_000)
    assert found.config["sampled"] != "everything"
    assert exact.misses.total in found.estimates["misses"]
    assert found.misses.total == pytest.approx(exact.misses.total, rel=0.03)


def test_a_loop_is_cut_where_it_has_read_whole_sectors():
    """Cut after 3 of the 8 floats of a sector, a loop would seem to go on without misses."""
    trace = gemm(NK=512)
    [_start, loop, *_] = Excerpt(trace, [0], 1.0).block(0)
    for advance, period in {32: 8, 64: 16, 128: 32}.items():
        for share in (1e-9, 0.06, 0.11, 0.3):
            [_, cut, *_] = Excerpt(trace, [0], share, advance=advance).block(0)
            assert cut.trips % period == 0
            assert abs(cut.trips - share * loop.trips) <= period


def test_only_arrays_that_are_loaded_from_bound_what_is_read_from_dram():
    """The product writes c without reading it."""
    trace = tracegen.affine_kernel("2mm.1", NI=128, NJ=128, NK=512, NL=16)
    read = sum(array.bytes for array in trace.launch.arrays if array.name in ("A", "B", "a", "b"))
    assert 0 < read < sum(array.bytes for array in trace.launch.arrays)
    found = rd.estimate(trace, SECTORED, l2=True, work=20_000)
    assert found.estimates["dram_read_sectors"].high == pytest.approx(read / 32)


def test_where_warps_may_drift_apart_later_any_hit_may_be_a_miss():
    """Threads have loops of different lengths: in the beginning, nothing says how their warps will be apart."""
    trace = tracegen.affine_kernel("corr.corr", M=512, N=16)
    found = rd.estimate(trace, SECTORED, l2=True, work=10_000)
    assert found.estimates["misses"].high > 0.9 * found.sectors
    exact = exact_l2(trace)
    assert all(exact[name] in found.estimates[name] for name in ("misses", "l2_reads", "dram_read_sectors"))


def test_an_estimate_that_would_save_little_runs_everything():
    trace = tracegen.affine_kernel("2dconv", NI=128, NJ=128)
    assert rd.estimate(trace, SECTORED, l2=True, work=1).config["sampled"] == "everything"


@pytest.fixture
def runs(monkeypatch):
    """Collect the transactions of each run of the model that an estimate makes."""
    found = []

    def counted(*args, **options):
        found.append(rd.predict(*args, **options).transactions)
        return rd.predict(*args, **options)

    def counted_by_part(*args, **options):
        result, late = divided_runs.predict_parts(*args, **options)
        found.append(result.transactions)
        return result, late

    def counted_steps(*args, **options):
        found.append(rd.predict(*args, **options).transactions)
        return single_runs.predict_steps(*args, **options)

    monkeypatch.setattr(estimation, "predict", counted)
    monkeypatch.setattr(estimation, "predict_parts", counted_by_part)
    monkeypatch.setattr(estimation, "predict_steps", counted_steps)
    return found


@WAYS
def test_more_work_opens_no_fewer_transactions(l2, runs):
    run = []
    for work in (20_000, 600_000, None):
        rd.estimate(gemm(NI=256, NJ=256, NK=1024), gpu=FERMI, l2=l2, work=work)
        run.append(sum(runs))
        runs.clear()
    assert run == sorted(run)
    assert run[0] < run[-1] / 20


def test_an_estimate_takes_the_runs_of_the_last_one_unless_more_work_changes_them(runs):
    trace, finished = gemm(NI=512, NJ=512, NK=256), estimation.FinishedRuns()

    def again(work: int) -> rd.Prediction:
        return estimation.estimate_again(finished, trace, FERMI, l2=True, work=work, seed=3, progress=None)

    few = again(1000)
    assert len(runs) == 2
    more = again(2000)
    assert len(runs) == 2, "these blocks are the fewest, whatever the work"
    fresh = rd.estimate(trace, FERMI, l2=True, work=2000, seed=3)
    assert (more.per_sm, more.l2, more.estimates) == (fresh.per_sm, fresh.l2, fresh.estimates)
    assert (more.transactions, more.l2) == (few.transactions, few.l2)
    assert again(10_000_000).transactions == exactly(trace, True).transactions


def test_triangles_and_borders_do_not_stop_it():
    for kernel, sizes in {"corr.corr": {"M": 512, "N": 64}, "2dconv": {"NI": 1024, "NJ": 1024}}.items():
        trace = tracegen.affine_kernel(kernel, **sizes)
        assert rd.estimate(trace, gpu=FERMI, l2=True, work=30_000).transactions > 0


def test_fewer_sms_than_the_gpu_has_are_possible():
    assert rd.estimate(gemm(NI=256, NJ=256), gpu=FERMI, sms=3, work=10_000).config["options"]["sms"] == 3


# ---- excerpts


def addresses(program) -> list[list[int]]:
    """Return the addresses of the lanes of warp 0, instruction by instruction."""
    return [
        (segment.base[0, i] + t * segment.step[i]).tolist()
        for segment in program
        for t in range(segment.trips)
        for i in range(len(segment.op))
        if segment.mask[0, i]
    ]


def is_within(part: list, whole: list) -> bool:
    """Return whether one list is a subsequence of the other."""
    rest = iter(whole)
    return all(any(item == other for other in rest) for item in part)


@pytest.mark.parametrize("kernel", [STREAM, TILES], ids=["loop", "tiles"])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("start", [0.0, 0.1, 0.6])
def test_an_excerpt_keeps_instructions_in_their_order(kernel, share, start):
    trace = tracegen.affine_kernel(kernel)
    whole = addresses(trace.block(3))
    excerpt = Excerpt(trace, [3], share, [start])
    part = addresses(excerpt.block(0))
    assert is_within(part, whole)
    assert excerpt.shares == pytest.approx(len(part) / len(whole), abs=0.05)
    assert abs(len(part) / len(whole) - share) < 0.1


def test_an_excerpt_of_columns_keeps_a_share_of_every_warp():
    rows = [[load(line) for line in range(10)], [load(line) for line in range(50, 54)]]
    excerpt = Excerpt(make_trace([rows, rows], warps=2), [1], 0.5, [0.3])
    part = excerpt.block(0)
    assert isinstance(part, Columns)
    part.check()
    assert np.diff(part.warp_start).tolist() == [5, 2]
    assert part.addresses[0] // 128 == 3
    assert excerpt.shares == 0.5


def test_what_is_written_out_keeps_segments_in_a_row():
    program = [dataclasses.replace(s, trips=1) for s in tracegen.affine_kernel(STREAM, unroll="none").block(0)]
    program *= 20
    trace = ProgramTrace(Launch(kernel="k", grid=(1, 1, 1), block=(256, 1, 1)), {0: program})
    assert len(Excerpt(trace, [0], 0.25, [0.5]).block(0)) == 5


def test_a_shortened_nest_says_what_is_left():
    trace = tracegen.affine_kernel(TILES)
    make, left = trace.shortened(0.25)
    assert left(0) == 8 / 32
    of_loops, part = len(addresses(trace.block(0))) - 1, len(addresses(make(0, 0.0))) - 1
    assert part == of_loops / 4
    assert tracegen.affine_kernel(STREAM).shortened(0.25) is None
    assert ShortenedNest(trace._nest, 1e-9).loops[0].most == 2


def test_shares_that_are_asked_for_again_keep_the_programs_that_were_made():
    trace = tracegen.affine_kernel(TILES)
    make, _ = trace.shortened(0.25)
    program = make(0, 0.0).shared
    assert trace.shortened(0.25)[0](1, 0.0).shared is program
    assert trace.shortened(0.5)[0](0, 0.0).shared is not program
    assert pickle.loads(pickle.dumps(trace)).shortened(0.25)[1](0) == 8 / 32
    for share in np.linspace(0.3, 0.9, MAX_SHORTER):
        trace.shortened(float(share))
    assert len(trace._shorter) <= MAX_SHORTER


def test_iterations_of_loops_count_by_their_work():
    first = {"for": "p", "to": 4, "do": [{"for": "q", "to": 2, "do": [{"load": "a", "at": ["y", "p + q"]}]}]}
    trace = tracegen.affine_kernel({**TILES, "body": [first, *TILES["body"]]})
    _, left = trace.shortened(0.25)
    # The first loop keeps 2 of 4 iterations with 2 accesses, the second one 8 of 32 with 2 and a barrier.
    assert left(0) == (2 * 2 + 8 * 3) / (4 * 2 + 32 * 3)
    idle = {"for": "p", "to": 4, "do": [{"for": "q", "to": 2, "do": [{"gap": 1}]}]}
    assert tracegen.affine_kernel({**STREAM, "body": [idle]}).shortened(0.25)[1](0) == 1 / 2


@pytest.mark.parametrize("sizes", [{"TI": 32, "TJ": 64}, {"TI": 32, "TJ": 8}, {"TI": 4, "TJ": 32}])
def test_the_transactions_of_kernels_with_several_loops_are_estimated_within_a_percent(sizes):
    trace = tracegen.kernel("gemm.tiled", NI=256, NJ=256, NK=512, **sizes)
    whole = exactly(trace, True)
    found = rd.estimate(trace, FERMI, l2=True)
    assert found.transactions == pytest.approx(whole.transactions, rel=0.01)


# ---- absurd sizes and bad input


@WAYS
def test_absurd_sizes_are_answered_at_once(l2):
    sizes = {"N": 1 << 32, "B": 10**9}
    nest = {
        "name": "absurd",
        "parameters": sizes,
        "arrays": {"a": [1 << 34]},
        "grid": ["B"],
        "block": [256],
        "body": [{"for": "k", "to": "N", "do": [{"load": "a", "at": ["k + thread_x"]}]}],
    }
    trace = tracegen.affine_kernel(nest)
    # Whatever took a step per block, or per iteration, would never end.
    found = rd.estimate(trace, gpu=FERMI, l2=l2)
    assert found.instructions == pytest.approx(10**9 * 8 * 2**32, rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"work": 0}, "work=0: must be a number"),
        ({"work": float("nan")}, "work=nan"),
        ({"work": True}, "work=True"),
        ({"work": "all"}, "work='all'"),
        ({"l2": 1}, "l2=1: must be True or False"),
        ({"model_sms": 2}, "model_sms: not an option of estimate"),
        ({"sample_sms": 2}, "sample_sms: not an option of estimate"),
        ({"seeds": 2}, "seeds: not an option"),
        ({"blocks": 0}, "blocks=0: must be at least 1"),
        ({"sms": 0}, "sms=0"),
        ({"seed": -1}, "seed=-1"),
        ({"colour": 1}, "colour"),
        ({"gpu": "none"}, "GPU"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        rd.estimate(gemm(), **{"gpu": FERMI, **options})


def test_what_is_no_trace_is_refused():
    with pytest.raises(TraceError, match="must be a Trace"):
        rd.estimate("gemm", gpu=FERMI)


def test_a_block_that_is_missing_is_named():
    trace = tracegen.affine_kernel("gemm", NI=128, NJ=128, NK=64, blocks=[0, 1, 3])
    with pytest.raises(TraceError, match="block 2 is not in the trace"):
        rd.estimate(trace, gpu=FERMI)
    assert rd.estimate(trace, gpu=FERMI, blocks=2).transactions > 0


def test_progress_rises_and_may_stop_it():
    seen = []

    class Enough(Exception):
        pass

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        if done >= 20:
            raise Enough

    rd.estimate(gemm(NI=512, NJ=512), gpu=FERMI, l2=True, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
    seen.clear()
    with pytest.raises(Enough):
        rd.estimate(gemm(NI=512, NJ=512), gpu=FERMI, l2=True, progress=progress)
