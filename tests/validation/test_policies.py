"""The committed record of claims about cache-management policies: complete, explained, and reproduced."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tracegen
from rdmodel.trace import Columns
from rdmodel.trace.expansion import expand
from validation.common.claims import Claim
from validation.policies import patterns
from validation.policies.__main__ import main, recorded
from validation.policies.claims import Counters, rank_correlation
from validation.policies.koo_compared import swept
from validation.policies.measure import (
    MEASURED,
    VARIANTS,
    VARIED,
    Case,
    cases,
    make_launches,
    measure,
    settings,
    to_csv,
)
from validation.policies.report import CLAIMS, differences, judged, pages, pattern_differences, to_markdown, why
from validation.policies.verdicts import judge, with_ranges

RUNS, PATTERNS = recorded()
MEASUREMENTS = [one for one in RUNS if not one.variant]

QUICK = [
    Case("khairy", "streaming", "vectoradd"),
    Case("wang-part", "strided", "syrk"),
    Case("jia-part", "intra_warp_short", "bicg.2"),
    Case("koo", "koo_moderate", "cc.1"),
    Case("koo-endless", "koo_insensitive", "stencil3d"),
]

DIVERGENT_AND_ALIKE = [("koo_moderate", "spmv"), ("koo_moderate", "gemm")]

SWEEPS = ("swl:best", "apcm-swl")


def call(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["program", *arguments])
    main()


def test_the_record_is_of_all_runs_in_order_and_reads_back():
    variants = [[one for one in RUNS if one.variant == number] for number in range(VARIANTS)]
    assert [one for rows in variants for one in rows] == RUNS
    for rows, of in (*((rows, "run") for rows in variants), (PATTERNS, "look")):
        known = [(one.machine, one.group, one.kernel, one.policies) for one in rows]
        assert known == [(*dataclasses.astuple(case), name) for case, names in cases(of).items() for name in names]
    assert to_csv(MEASUREMENTS) == MEASURED.read_text()
    assert to_csv(RUNS[len(MEASUREMENTS) :]) == VARIED.read_text()
    assert patterns.to_csv(PATTERNS) == patterns.PATTERNS.read_text()
    assert all(path.read_text() == text for path, text in pages(RUNS, PATTERNS).items())


@pytest.mark.slow
@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case.kernel} on {case.machine}")
def test_the_simulator_counts_what_it_counted(case):
    names = [name for name in cases()[case] if name not in SWEEPS]
    measured = measure(case, names)[0]
    assert len(measured) >= 4
    assert differences(measured, MEASUREMENTS) == []
    assert differences(measure(case, names[:2], variants=[1])[1], RUNS) == []


@pytest.mark.parametrize("kernel", ["stencil3d", "srad.2"])
def test_kernels_use_their_lines_as_they_did(kernel):
    (found,) = patterns.classify(Case("koo", "koo_insensitive", kernel))
    assert pattern_differences([found], PATTERNS) == []
    assert len(pattern_differences([dataclasses.replace(found, streaming=found.streaming + 1)], PATTERNS)) == 1


def test_every_claim_has_a_verdict_and_those_that_do_not_hold_a_reason():
    found = judged(RUNS, PATTERNS)
    assert found.keys() == CLAIMS.keys()
    assert all(isinstance(verdict.claim.holds, bool) and verdict.measured for verdict in found.values())
    assert {name for name, verdict in found.items() if verdict.word == "does not"} == set(why())
    assert all(verdict.variants == VARIANTS for verdict in found.values())


def test_the_launches_of_a_search_follow_one_another_level_by_level():
    launches = make_launches(Case("koo", "koo_sensitive", "bfs.1"))
    assert [(one.launch.kernel, one.params["LEVEL"]) for one in launches] == [
        (kernel, level) for level in range(11) for kernel in ("bfs.1", "bfs.2")
    ]


def test_blocks_of_divergent_kernels_are_kept_with_their_active_lanes_only():
    divergent, alike = (make_launches(Case("koo", group, kernel))[0] for group, kernel in DIVERGENT_AND_ALIKE)
    assert isinstance(divergent.block(3), Columns)
    assert divergent.block(3) is divergent.block(3)
    plain = expand(tracegen.kernel("spmv", N=8192).block(3), 8)
    assert np.array_equal(divergent.block(3).addresses, plain.addresses)
    assert not isinstance(alike.block(0), Columns)


def test_every_group_of_the_file_is_run():
    assert {case.group for case in cases()} == settings()["groups"].keys()
    assert {case.machine for case in cases()} == settings()["machines"].keys()


def test_all_runs_of_a_kernel_execute_the_same_instructions():
    counts = {}
    for one in RUNS:
        counts.setdefault((one.machine, one.group, one.kernel), set()).add((one.instructions, one.loads + one.bypassed))
    assert all(len(own) == 1 for own in counts.values())
    for one in PATTERNS:
        ((_, loads),) = counts[one.machine, one.group, one.kernel]
        assert one.accesses == loads


def test_what_many_numbers_of_a_policy_gain_is_the_most_for_each_kernel():
    own = [one for one in MEASUREMENTS if (one.machine, one.group) == ("koo", "koo_moderate")]
    best = [
        max(base.cycles / one.cycles for one in own if one.kernel == base.kernel and one.policies.startswith("pcal:"))
        for base in own
        if base.policies == "none"
    ]
    assert swept(Counters(MEASUREMENTS, PATTERNS), "pcal")[-len(best) :] == best


def test_a_rank_correlation_is_of_ranks_and_equal_numbers_share_theirs():
    assert rank_correlation([1, 10, 100], [2, 3, 50]) == pytest.approx(1)
    assert rank_correlation([1, 10, 100], [5, 4, -7]) == pytest.approx(-1)
    # ranks 1.5, 1.5, 3 and 1, 2, 3: covariance 0.75 by standard deviations 0.866 and 1
    assert rank_correlation([7, 7, 9], [1, 2, 3]) == pytest.approx(0.75**0.5)


def test_a_run_that_moved_is_named_with_both_values():
    one = MEASUREMENTS[0]
    other = dataclasses.replace(one, cycles=one.cycles + 1)
    assert differences([one], MEASUREMENTS) == []
    (line,) = differences([other], MEASUREMENTS)
    assert f"cycles {one.cycles} -> {one.cycles + 1}" in line
    assert differences([dataclasses.replace(one, kernel="else")], MEASUREMENTS) == [
        f"else on {one.machine} under {one.policies}: not recorded"
    ]


def test_the_table_can_be_printed_from_the_record(monkeypatch, capsys):
    call(monkeypatch, "--recorded")
    assert capsys.readouterr().out == to_markdown(judged(RUNS, PATTERNS))


def test_a_claim_is_decided_only_if_all_variants_agree():
    def variant(**holds: bool) -> dict[str, Claim]:
        return {name: Claim("here", "so", f"{name} {1 + holds[name]}.0", holds[name]) for name in holds}

    found = judge([variant(a=True, b=False, c=True), variant(a=True, b=False, c=False)])
    assert {name: verdict.word for name, verdict in found.items()} == {"a": "holds", "b": "does not", "c": "undecided"}
    assert found["c"].holding == 1
    assert [verdict.measured for verdict in found.values()] == ["a 2.0", "b 1.0", "c 2.0 (1.0 to 2.0)"]


def test_numbers_that_differ_between_variants_have_ranges():
    assert with_ranges(["gemm 1.02, 8 of 1,024", "gemm 0.9, 8 of 2,048"]) == (
        "gemm 1.02 (0.9 to 1.02), 8 of 1,024 (1,024 to 2,048)"
    )
    assert with_ranges(["below: gemm 0.9", "below: syrk 0.8"]) == "below: gemm 0.9"
    assert with_ranges(["10.0", "9.0"]) == "10.0 (9.0 to 10.0)"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--record", "--check"),
        ("--recorded", "--check"),
        ("--jobs", "0"),
        ("--jitter", "9"),
        ("--jitter", "2", "--record"),
    ],
)
def test_what_cannot_be_is_refused(monkeypatch, capsys, arguments):
    with pytest.raises(SystemExit) as left:
        call(monkeypatch, *arguments)
    assert left.value.code == 2
    assert arguments[0] in capsys.readouterr().err
