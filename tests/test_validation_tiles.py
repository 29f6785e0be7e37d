"""The committed record of simulated tiles: complete, still so, and worth a ranking."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest

from tracegen.kernels.registry import spec_of
from validation import record
from validation.tiles import report
from validation.tiles.__main__ import main
from validation.tiles.measure import GPUS, STUDIES, Row, measure, tasks
from validation.tiles.report import NEAR, QUICK, RESULTS, SIMULATED, moved, read, results

ROWS = read()


def test_the_record_has_every_tile_and_reads_back():
    assert [row.key for row in ROWS] == tasks()
    assert record.to_csv(Row, ROWS) == SIMULATED.read_text()
    assert results(ROWS) == RESULTS.read_text()


def test_every_kernel_has_24_tiles_or_more_on_two_gpus():
    assert len(GPUS) == 2
    for study in STUDIES:
        assert len(study.all_tiles()) >= 24
        assert {*study.sizes, *study.tiles} <= spec_of(study.kernel).sizes.keys()


def test_what_was_recorded_is_what_is_simulated(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["program", "--check", "--quick", "--gpus", GPUS[0], "--jobs", "1"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert capsys.readouterr().out == "3 rows are as recorded\n"
    assert stop.value.code == 0


def test_a_row_that_moved_is_named():
    (row,) = (row for row in ROWS if row.key == QUICK[0])
    line = moved([dataclasses.replace(row, cycles=row.cycles + 1)], ROWS)
    assert line[0].startswith(f"{row} -> Row(gpu='{row.gpu}', kernel='{row.kernel}'")
    assert moved([row], []) == [f"nothing -> {row}"]


def test_a_run_that_was_broken_off_is_gone_on_with(monkeypatch, tmp_path, capsys):
    for name, path in (("SIMULATED", tmp_path / "simulated.csv"), ("RESULTS", tmp_path / "RESULTS.md")):
        monkeypatch.setattr(report, name, path)
    held = [row for row in ROWS if row.key in QUICK]
    report.write(held[1:])
    done = []
    monkeypatch.setattr("validation.tiles.__main__.measure", lambda task: (done.append(task), held[0])[1])
    monkeypatch.setattr("sys.argv", ["program", "--resume", "--quick", "--jobs", "1"])
    main()
    assert done == [held[0].key]
    assert report.read() == held
    assert report.RESULTS.read_text() == results(held)


def test_the_page_shows_a_best_tile_and_those_as_good():
    rows = [dataclasses.replace(ROWS[0], tile=f"TI={n}", cycles=cycles) for n, cycles in ((1, 104), (2, 100), (3, 300))]
    line = next(line for line in report.table(rows).splitlines() if "cycles" in line)
    assert line.endswith("| cycles | TI=2 | 100 | 2 of 3 | 1.04 | 3.00 |")


@pytest.mark.parametrize("field", ["cycles", "l2_bytes", "l1_misses"])
def test_the_choice_of_a_tile_matters(field):
    # A ranking could hardly be wrong where most tiles are as good as the best.
    for gpu, study in product(GPUS, STUDIES):
        found = [getattr(row, field) for row in ROWS if (row.gpu, row.kernel) == (gpu, study.kernel)]
        assert sum(value <= NEAR * min(found) for value in found) <= len(found) / 3


def test_tiles_as_wide_as_a_warp_issue_the_same_number_of_instructions():
    for gpu, study in product(GPUS, STUDIES):
        along = "TK" if study.kernel == "3dconv.tiled" else "TJ"
        rows = [row for row in ROWS if (row.gpu, row.kernel) == (gpu, study.kernel) and row.sizes[along] >= 32]
        assert len({row.instructions for row in rows}) == 1


def test_a_row_is_of_the_tile_that_it_names():
    row = measure(QUICK[-1])
    assert row in ROWS
    assert row.sizes == {"TI": 2, "TJ": 8, "TK": 32}
