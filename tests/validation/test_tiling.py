"""The committed records of simulated and of ranked tiles: complete and reproduced, and the choice of a tile matters."""

from __future__ import annotations

import dataclasses
from itertools import product
from math import isnan

import pytest

from tracegen.kernel_library.registry import spec_of
from validation.common import records
from validation.tiling import report
from validation.tiling.__main__ import main
from validation.tiling.measure import GPUS, STUDIES, Row, measure
from validation.tiling.predict import Exact, Quick, Seconds, cases, still_estimated
from validation.tiling.quality import NEAR_FACTOR, Quality, Ranked, missed, why_missed
from validation.tiling.report import FILES, QUICK_TASKS, RESULTS, differences, keys, page, read

ROWS = read(Row)
RANKED = [read(kind) for kind in (Exact, Quick, Seconds)]
QUALITY = Quality(ROWS, *RANKED[:2])


@pytest.mark.parametrize("kind", [Row, Exact, Quick, Seconds])
def test_the_record_has_every_tile_and_reads_back(kind):
    rows = read(kind)
    assert [row.key for row in rows] == keys(kind)
    assert records.to_csv(kind, rows) == FILES[kind].read_text()


def test_the_page_is_of_the_records():
    assert page() == RESULTS.read_text()


def test_every_kernel_has_24_tiles_or_more_on_two_gpus():
    assert len(GPUS) == 2
    for study in STUDIES:
        assert len(study.all_tiles()) >= 24
        assert {*study.sizes, *study.tiles} <= spec_of(study.kernel).sizes.keys()


@pytest.mark.slow
def test_what_was_recorded_is_what_is_simulated_and_predicted(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["program", "--check", "--quick", "--gpus", GPUS[0], "--jobs", "1"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert capsys.readouterr().out == "all rows are as recorded\n"
    assert stop.value.code == 0


@pytest.mark.parametrize("objective", ["dram_bytes", "cycles"])
def test_what_was_recorded_is_what_is_estimated(objective):
    for gpu, kernel in cases([GPUS[1]], ["transpose.tiled", "2mm.tiled.1"]):
        rows = [row for row in read(Quick) if row.key[:3] == (gpu, kernel, objective)]
        least = min(rows, key=lambda row: row.work)
        assert least.pruned
        assert still_estimated(least)
        assert not still_estimated(dataclasses.replace(least, value=least.value + 1))


def test_the_share_of_cases_in_which_the_best_predicted_tile_is_as_good_as_the_best():
    count = len(QUALITY.cases)
    assert count == len(GPUS) * len(STUDIES) == 14
    assert QUALITY.near("DRAM bytes", "exact") == 14
    assert QUALITY.near("DRAM bytes", "quick") == 14
    # Wanted are 90 % of the cases; what is missing is in `WHY`.
    assert QUALITY.near("cycles", "exact") == 11
    assert QUALITY.near("cycles", "quick") == 9
    assert sum(QUALITY.without_dram(case).near for case in QUALITY.cases) == 10


def test_every_case_that_misses_what_is_wanted_has_a_reason_and_no_other_has():
    assert {(effort, by, *case) for effort, by, case in missed(QUALITY)} == why_missed().keys()


def test_a_ranking_is_held_against_what_was_simulated():
    one = Ranked(["a", "b", "c", "d", "e"], [1, 2, 3, 4, 5], [110, 120, 130, 140, 100])
    assert one.above == pytest.approx(1.1)
    assert not one.near
    assert not one.among_first
    assert Ranked(one.tiles, one.predicted, [105, 120, 130, 100, 140]).near
    assert Ranked(one.tiles, one.predicted, [105, 120, 130, 100, 140]).among_first
    # of ten pairs, four are the other way round
    assert one.tau == pytest.approx((6 - 4) / 10)
    assert one.ratios == pytest.approx([1 / 110, 2 / 120, 3 / 130, 4 / 140, 5 / 100])
    assert isnan(Ranked(["a", "b"], [1, 2], [5, 5]).tau)


def test_the_order_of_a_quick_ranking_is_that_of_its_ranks():
    for case in QUALITY.cases:
        one = QUALITY.ranked(case, "cycles", "quick")
        ranks = {row.tile: row.rank for row in read(Quick) if row.key[:3] == (*case, "cycles")}
        assert [ranks[tile] for tile in one.tiles] == sorted(ranks.values())


def test_the_cycles_of_a_row_are_its_longest_term():
    for row in read(Exact):
        assert row.cycles == max(row.sm, row.l1, row.crossbar, row.l2, row.dram)
        assert row.sm >= row.steps


def test_a_row_that_moved_is_named():
    (row,) = (row for row in ROWS if row.key == QUICK_TASKS[0])
    line = differences([dataclasses.replace(row, cycles=row.cycles + 1)], ROWS)
    assert line[0].startswith(f"{row} -> Row(gpu='{row.gpu}', kernel='{row.kernel}'")
    assert differences([row], []) == [f"nothing -> {row}"]


def test_a_run_that_was_broken_off_is_gone_on_with(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(report, "RESULTS", tmp_path / "RESULTS.md")
    for kind in FILES:
        monkeypatch.setitem(report.FILES, kind, tmp_path / FILES[kind].name)
    held = [row for row in ROWS if row.key in QUICK_TASKS]
    report.write(Row, held[1:])
    done = []
    monkeypatch.setattr("validation.tiling.__main__.measure", lambda task: (done.append(task), held[0])[1])
    monkeypatch.setattr("sys.argv", ["program", "--resume", "--quick", "--only", "simulated", "--jobs", "1"])
    main()
    assert done == [held[0].key]
    assert report.read(Row) == held
    assert report.RESULTS.read_text() == report.results(held)


def test_rankings_take_the_place_of_those_that_are_recorded(monkeypatch, tmp_path):
    for kind in FILES:
        monkeypatch.setitem(report.FILES, kind, tmp_path / FILES[kind].name)
    rows = [[row for row in read_at if row.key[:2] == QUALITY.cases[0]] for read_at in RANKED]
    report.store(rows)
    assert [report.read(kind) for kind in (Exact, Quick, Seconds)] == rows
    assert report.ranked_already() == {QUALITY.cases[0]}
    changed = [[dataclasses.replace(of[0], gpu=of[0].gpu)] for of in rows]
    changed[0] = [dataclasses.replace(rows[0][0], cycles=1)]
    report.store(changed)
    assert report.read(Exact) == [*changed[0], *rows[0][1:]]
    assert report.read(Quick) == rows[1]


def test_the_page_shows_a_best_tile_and_those_as_good():
    rows = [dataclasses.replace(ROWS[0], tile=f"TI={n}", cycles=cycles) for n, cycles in ((1, 104), (2, 100), (3, 300))]
    line = next(line for line in report.table(rows).splitlines() if "cycles" in line)
    assert line.endswith("| cycles | TI=2 | 100 | 2 of 3 | 1.04 | 3.00 |")


@pytest.mark.parametrize("field", ["cycles", "l2_bytes", "l1_misses"])
def test_the_choice_of_a_tile_matters(field):
    # A ranking could hardly be wrong where most tiles are as good as the best.
    for gpu, study in product(GPUS, STUDIES):
        found = [getattr(row, field) for row in ROWS if (row.gpu, row.kernel) == (gpu, study.kernel)]
        assert sum(value <= NEAR_FACTOR * min(found) for value in found) <= len(found) / 3


def test_tiles_as_wide_as_a_warp_issue_the_same_number_of_instructions():
    for gpu, study in product(GPUS, STUDIES):
        along = "TK" if study.kernel == "3dconv.tiled" else "TJ"
        rows = [row for row in ROWS if (row.gpu, row.kernel) == (gpu, study.kernel) and row.sizes[along] >= 32]
        assert len({row.instructions for row in rows}) == 1


def test_a_row_is_of_the_tile_that_it_names():
    row = measure(QUICK_TASKS[-1])
    assert row in ROWS
    assert row.sizes == {"TI": 2, "TJ": 8, "TK": 32}
