"""The micro-benchmarks of Nugteren et al. (HPCA 2014, section 5): timings alone identify the simulated machine."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import pytest

from rdmodel.policies import BXor, Linear, Masks, PDisp, Pric, index_function
from rdmodel.trace import ALL_NEEDS
from tests.support.paths import DATA
from validation.microbenchmarks import clock as clock_module
from validation.microbenchmarks import gf2, mshr, set_index
from validation.microbenchmarks.clock import Clock, loads
from validation.microbenchmarks.machines import PAPER, PAPER_MSHRS, changed, configured, machines
from validation.microbenchmarks.mshr import Mshrs
from validation.microbenchmarks.report import COUNTS, RESULTS, figure_7, figure_9, find, indices, sizes

TABLES = json.loads((DATA / "paper_tables.json").read_text())

FERMI = ("7^13", "8^14", "9^15", "10^17", "11^19")
VARIED_SET_BITS = dict(zip(range(7, 23), (5, 5, 5, 5, 5, 4, 5, 4, 3, 2, 2, 1, 1, 0, 0, 0), strict=True))
"""By log2 of the stride: the last row of figure 7."""

FIGURE_9 = {**dict.fromkeys(range(1, 11), 6), 11: 5, 12: 5, **dict.fromkeys(range(13, 17), 4), 17: 3}
"""Loads per warp that are made at once, by warps: section 5.2, with 64 MSHRs and 6 for each warp."""


def masks(xors):
    """Return the masks over lines of 128 bytes that are written as byte-address bits."""
    return tuple(sum(1 << int(bit) - 7 for bit in one.split("^")) for one in xors)


# ---- what is recovered is what is configured


FAST = (PAPER, "gtx470-48k", PAPER_MSHRS, "wang-32k, pric, 48 MSHRs", "gtx470-16k, pmod")
"""Machines that are recovered anew; the record has them all."""


@pytest.fixture(scope="module")
def findings():
    return {name: find(name) for name in FAST}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_timings_recover_the_machine(findings, name):
    found = findings[name]
    assert found.recovered == found.configured


@pytest.mark.slow
def test_the_fermi_hash_comes_out_as_the_paper_prints_it(findings):
    small, large = (findings[name].recovered[0] for name in (PAPER, "gtx470-48k"))
    assert (small.sets, small.ways, small.masks) == (32, 4, masks(FERMI))
    assert (large.sets, large.ways, large.masks) == (64, 6, masks([*FERMI, "12"]))


@pytest.mark.slow
def test_the_record_says_what_is_found(findings):
    recorded = set(RESULTS.read_text().splitlines())
    for table in (sizes(findings.values()), indices(findings.values()), figure_9()):
        assert recorded.issuperset(table.splitlines())


def test_the_record_holds_every_machine_recovered_as_configured():
    rows = re.findall(r"^\| (.*) \| (?:\d+ launches|configured) \| (.*) \|$", RESULTS.read_text(), re.MULTILINE)
    assert [name for name, _ in rows[::2]] == [name for name, _ in rows[1::2]] == list(machines())
    assert rows[::2] == rows[1::2]
    assert re.findall(r"\| (yes|no:.*) \|$", RESULTS.read_text(), re.MULTILINE) == ["yes"] * len(machines())


def test_the_record_holds_figure_7_of_the_paper():
    rows = re.findall(r"^\| 2\^(\d+) \| (.*) \|$", RESULTS.read_text(), re.MULTILINE)
    table = TABLES["fig7_16KB_4way"]
    assert [shift for shift, _ in rows] == list(table)
    for shift, cells in rows:
        expected = [*(table[shift][str(n)] for n in COUNTS), VARIED_SET_BITS[int(shift)]]
        assert [float(cell) for cell in cells.split(" | ")] == expected


# ---- section 5.1


def test_a_load_of_a_full_cache_makes_the_whole_set_miss():
    # Line 128 has bit 14 of the address, which is xored with bit 8: it goes where line 2 is.
    clock = Clock(PAPER)
    fermi = [x for x in range(128) if index_function("fermi").set_of([x], 32)[0] == 2]
    assert set_index.evicted(clock, set_index.hit_time(clock), 128, 128, 128) == fermi == [2, 34, 67, 99]


def test_the_cache_alone_keeps_its_lines_where_the_second_stage_loads_one_of_them():
    clock = Clock(PAPER)
    assert set_index.evicted(clock, set_index.hit_time(clock), 128, 128, 5) == []


@pytest.mark.parametrize("shift", [7, 12, 13, 15, 18, 20])
def test_figure_7_comes_out_of_timings(shift):
    counts = COUNTS[:5] if shift > 15 else COUNTS
    found = set_index.stride_sweep(Clock(PAPER), [1 << shift], counts)[1 << shift]
    assert found == {n: TABLES["fig7_16KB_4way"][str(shift)][str(n)] for n in counts}


@pytest.mark.parametrize(("shift", "count"), [(12, 256), (13, 128), (16, 16), (16, 32), (20, 6), (20, 8)])
def test_the_same_sweep_with_48_kb(shift, count):
    found = set_index.stride_sweep(Clock("gtx470-48k"), [1 << shift], [count])
    expected = TABLES["fig7_style_48KB_6way"][str(shift)][str(count)]
    assert found[1 << shift][count] == pytest.approx(expected)


# ---- section 5.2


def test_figure_9_comes_out_of_timings():
    clock = Clock(machines()[PAPER_MSHRS])
    assert mshr.loads_at_once(clock, mshr.staircase(clock, 128)) == FIGURE_9


@pytest.mark.parametrize(("mshrs", "per_warp"), [(64, None), (32, None), (64, 6), (40, 9), (1, None)])
def test_steps_of_the_latency_count_the_mshrs(mshrs, per_warp):
    gpu = changed(PAPER, mshrs=mshrs, mshr_per_warp=per_warp)
    assert mshr.recover(Clock(gpu), 128, 128) == Mshrs(mshrs, per_warp, None)


def test_a_seventh_and_a_thirteenth_load_of_one_warp_each_wait_for_a_latency():
    clock = Clock(machines()[PAPER_MSHRS])
    times = [clock.together(mshr.spread(1, n, 128)) for n in range(1, 20)]
    rises = [n + 1 for n in range(1, 19) if times[n] - times[n - 1] > clock.chain([0]) // 2]
    assert rises == [7, 13, 19]


def test_there_is_no_step_where_the_first_of_as_many_loads_as_mshrs_is_back_before_the_last_is_made():
    # 100 answers of 5 flits each, 2 crossbar cycles per cycle: 250 cycles, as many as one load takes, within a quarter.
    assert mshr.recover(Clock(changed(PAPER, mshrs=100, mshr_per_warp=6)), 128, 128) == Mshrs(None, 6, None)


def test_without_a_limit_there_is_no_step():
    assert mshr.recover(Clock(changed(PAPER, mshrs=None)), 128, 128) == Mshrs(None, None, None)


def test_more_mshrs_than_the_warps_may_hold_remain_unknown():
    assert mshr.recover(Clock(changed(PAPER, mshrs=64, mshr_per_warp=1)), 128, 128) == Mshrs(None, 1, None)


@pytest.mark.parametrize("merge", [1, 2, 5, 100])
def test_a_step_of_a_hit_counts_the_transactions_of_an_mshr(merge):
    assert mshr.recover(Clock(changed(PAPER, mshr_merge=merge)), 128, 128).merge == merge


# ---- the method is not blind


ALIKE = {
    "linear": {"index": Linear()},
    "bxor": {"index": BXor()},
    "pric, polynomial 37": {"index": Pric()},
    "one bit more": {"index": Masks(masks=(65, 130, 260, 1032, 4112 | 1 << 14))},
    "8 ways": {"index": Linear(), "ways": 8},
    "direct mapped": {"index": Linear(), "ways": 1},
    "shorter lines": {"index": Linear(), "line": 64},
}
"""L1s of 16 KB that differ in one thing."""


@pytest.mark.slow
def test_every_difference_between_l1s_of_one_size_is_seen():
    found = {}
    for name, change in ALIKE.items():
        gpu = changed(PAPER, **change)
        found[name] = set_index.recover(Clock(gpu))
        assert found[name] == configured(gpu)[0], name
    assert len(set(found.values())) == len(ALIKE)


def test_sets_under_other_names_are_the_same_index_function():
    named = Masks(masks=(130, 65 ^ 130, 260, 4112, 1032))
    assert set_index.recover(Clock(changed(PAPER, index=named))).masks == masks(FERMI)


def test_the_clock_says_if_no_parities_explain_the_timings():
    clock = Clock(changed(PAPER, index=PDisp()))
    assert set_index.recover(clock).masks is None


def test_random_lines_refute_a_wrong_index_function():
    clock = Clock(PAPER)
    hit = set_index.hit_time(clock)
    assert set_index.explains(clock, hit, 128, 128, masks(FERMI), 18)
    assert not set_index.explains(clock, hit, 128, 128, masks(["7", "8", "9", "10", "11"]), 18)


def test_the_recovering_code_knows_no_configuration():
    for module in (set_index, mshr, gf2):
        text = Path(module.__file__).read_text()
        assert not re.search(r"rdmodel|machines|_gpu|_options", text)
    assert re.findall(r"simulate\(.*\)\.(\w+)", Path(clock_module.__file__).read_text()) == ["cycles"]


# ---- the parts


def test_a_basis_over_gf2_is_the_same_for_equal_spans():
    assert gf2.reduced([0b110, 0b011, 0b101, 0]) == gf2.reduced([0b101, 0b011]) == (0b101, 0b110)
    assert gf2.reduced([]) == ()


@pytest.mark.parametrize("vectors", [[], [0b1011], [0b0110, 0b1100, 0b1010], [0b1111, 0b0001, 0b1000, 0b0100]])
def test_an_annihilator_has_even_parity_with_every_vector_and_no_other_mask_does(vectors):
    found = gf2.annihilator(vectors, 4)
    even = {mask for mask in range(16) if all((mask & vector).bit_count() % 2 == 0 for vector in vectors)}
    assert len(even) == 1 << len(found)
    assert all(gf2.image(found, vector) == 0 for vector in vectors)
    assert even.issuperset(found) and gf2.reduced(found) == found


def test_steps_are_found_wherever_they_are():
    for rises in product((0, 1, 7), repeat=5):
        values = [sum(rises[:n]) for n in range(6)]
        assert set_index.steps(values.__getitem__, 0, 5, 0, values[5]) == [n for n in range(5) if rises[n]]


def test_a_launch_of_loads_is_one_block_of_single_threads():
    trace = loads([[0, 128], [4096]], ALL_NEEDS)
    trace.columns.check()
    assert trace.launch.block == (64, 1, 1) and len(trace) == 3
    assert trace.columns.addresses.tolist() == [0, 128, 4096] and trace.columns.mask.tolist() == [1, 1, 1]


def test_a_cache_too_large_to_be_filled_is_refused():
    with pytest.raises(ValueError, match="more than"):
        set_index.recover(Clock(changed(PAPER, size=1 << 20, ways=256, index=Linear())))


def test_figure_7_of_the_report_is_the_recorded_one(monkeypatch):
    monkeypatch.setattr("validation.microbenchmarks.report.STRIDES", (1 << 12, 1 << 14))
    for row in figure_7().splitlines()[2:]:
        assert row in RESULTS.read_text()
