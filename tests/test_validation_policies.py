"""The committed record of what papers say of cache-management policies: complete, explained, and still so."""

from __future__ import annotations

import dataclasses

import pytest

from validation.policies.__main__ import main
from validation.policies.measure import MEASURED, Case, cases, from_csv, measure, settings, to_csv
from validation.policies.report import CLAIMS, RESULTS, claims, moved, results, to_markdown, why

MEASUREMENTS = from_csv(MEASURED.read_text())

QUICK = [
    Case("khairy", "streaming", "vectoradd"),
    Case("wang-part", "strided", "syrk"),
    Case("jia-part", "intra_warp_short", "bicg.2"),
]


def call(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["program", *arguments])
    main()


def test_the_record_is_of_all_runs_in_order_and_reads_back():
    recorded = [(one.machine, one.group, one.kernel, one.policies) for one in MEASUREMENTS]
    assert recorded == [(*dataclasses.astuple(case), name) for case, names in cases().items() for name in names]
    assert to_csv(MEASUREMENTS) == MEASURED.read_text()
    assert results(MEASUREMENTS) == RESULTS.read_text()


@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case.kernel} on {case.machine}")
def test_the_simulator_counts_what_it_counted(case):
    names = [name for name in cases()[case] if name != "swl:best"]
    measured = measure(case, names)
    assert len(measured) >= 4
    assert moved(measured, MEASUREMENTS) == []


def test_every_claim_has_a_verdict_and_those_that_do_not_hold_a_reason():
    found = claims(MEASUREMENTS)
    assert found.keys() == CLAIMS.keys()
    assert all(isinstance(claim.holds, bool) and claim.measured for claim in found.values())
    assert {name for name, claim in found.items() if not claim.holds} == set(why())


def test_every_group_of_the_file_is_run():
    assert {case.group for case in cases()} == settings()["groups"].keys()
    assert {case.machine for case in cases()} == settings()["machines"].keys()


def test_all_runs_of_a_kernel_execute_the_same_instructions():
    counts = {}
    for one in MEASUREMENTS:
        counts.setdefault((one.machine, one.group, one.kernel), set()).add((one.instructions, one.loads + one.bypassed))
    assert all(len(own) == 1 for own in counts.values())


def test_a_run_that_moved_is_named_with_both_values():
    one = MEASUREMENTS[0]
    other = dataclasses.replace(one, cycles=one.cycles + 1)
    assert moved([one], MEASUREMENTS) == []
    (line,) = moved([other], MEASUREMENTS)
    assert f"cycles {one.cycles} -> {one.cycles + 1}" in line
    assert moved([dataclasses.replace(one, kernel="else")], MEASUREMENTS) == [
        f"else on {one.machine} under {one.policies}: not recorded"
    ]


def test_the_table_can_be_printed_from_the_record(monkeypatch, capsys):
    call(monkeypatch, "--recorded")
    assert capsys.readouterr().out == to_markdown(claims(MEASUREMENTS))


@pytest.mark.parametrize("arguments", [("--record", "--check"), ("--recorded", "--check"), ("--jobs", "0")])
def test_what_cannot_be_is_refused(monkeypatch, capsys, arguments):
    with pytest.raises(SystemExit) as left:
        call(monkeypatch, *arguments)
    assert left.value.code == 2
    assert arguments[0] in capsys.readouterr().err
