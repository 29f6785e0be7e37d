"""Check the record of registers that come from code for a related GPU, and the command that prints it."""

from __future__ import annotations

from statistics import fmean

import pytest

from tracegen.ptx.registers import ptxas
from validation.common.records import from_csv
from validation.registers.__main__ import (
    COUNTED,
    GPUS,
    SPILLED,
    TIMED,
    WAYS,
    Counted,
    Spilled,
    Timed,
    assemblers,
    main,
    spread,
)
from validation.tuning.records import read as predicted
from validation.tuning.spaces import SPACES


@pytest.fixture(scope="module")
def counted():
    return from_csv(Counted, COUNTED.read_text())


@pytest.mark.parametrize("space", ["convolution", "dedispersion"])
@pytest.mark.parametrize("gpu", GPUS)
def test_code_for_a_related_gpu_is_nearer_than_an_estimate(counted, gpu, space):
    rows = [row for row in counted if (row.gpu, row.space) == (gpu, space)]
    errors = [[abs(getattr(row, way) - row.own) / row.own for row in rows] for way in ("related", "estimated")]
    assert len(rows) == 40
    assert fmean(errors[0]) < 0.25 * fmean(errors[1])
    same = [sum(getattr(row, f"{way}_warps") == row.own_warps for row in rows) for way in ("related", "estimated")]
    assert same[0] >= max(same[1], 30)


def test_times_are_recorded_with_registers_of_each_kind():
    rows = from_csv(Timed, TIMED.read_text())
    for space in SPACES:
        for way in WAYS:
            configs = [row.config for row in rows if (row.space, row.registers) == (space, way)]
            assert configs == spread(space, 80)


def test_the_recorded_spills_are_those_of_the_predicted_points():
    spilled = {(row.space, row.config): (row.registers, row.loaded) for row in from_csv(Spilled, SPILLED.read_text())}
    points = [row for row in predicted() if row.spilled_bytes]
    assert spilled == {row.key: (row.registers, row.spilled_bytes) for row in points}


def test_the_command_prints_the_record(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["registers", "--recorded"])
    main()
    first_words = [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:] if line]
    counted_rows = [gpu for gpu in GPUS for _ in SPACES]
    timed_rows, spilled_rows = [space.gpu for space in SPACES.values()], ["a4000", "rtx3090"]
    assert first_words == [*counted_rows, "tau", *timed_rows, "that", *spilled_rows]


def test_the_command_names_what_it_needs(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["registers"])
    with pytest.raises(SystemExit):
        main()
    assert "--sources and --ptxas: are needed, or --recorded" in capsys.readouterr().err


def test_other_assemblers_are_forgotten_again():
    before, find = ptxas.known_architectures(), ptxas.find_assemblers
    with assemblers():
        assert ptxas.find_assemblers() == ()
        assert ptxas.known_architectures() == frozenset()
    assert ptxas.find_assemblers is find
    assert ptxas.known_architectures() == before
