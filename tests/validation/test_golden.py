"""The golden record: complete, still reproduced by a few small kernels, and sensitive to every counter."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from validation.common.records import from_csv, to_csv
from validation.golden import __main__ as command
from validation.golden.results import ENGINES, RECORD, Digest, counter_bytes, differences, kernels, run

DIGESTS = from_csv(Digest, RECORD.read_text())

LONG = {
    "simulator": ("gesummv", "corr.corr", "covar.covar", "mvt.1", "syr2k", "atax.1", "bicg.2", "syrk"),
    "l2": ("corr.corr", "covar.covar", "gesummv", "syr2k", "syrk"),
}
"""Runs that take most of the time of all, by engine. They are left to the command, which a workflow runs."""

SMALL = ("gramschmidt.2", "covar.mean", "atax.2")


def call(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["program", *arguments])
    command.main()


def test_the_record_has_all_kernels_under_all_engines_and_reads_back():
    assert [(one.kernel, one.engine) for one in DIGESTS] == [(k, e) for k in kernels() for e in ENGINES]
    assert to_csv(Digest, DIGESTS) == RECORD.read_text()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", SMALL)
def test_small_kernels_give_the_recorded_results_bit_for_bit(kernel, engine):
    assert differences([run((kernel, engine))], DIGESTS) == []


def test_a_result_that_differs_is_named_with_both_counts():
    digest = DIGESTS[0]
    other = dataclasses.replace(digest, misses=digest.misses + 1, sha256="0" * 64)
    head = f"{digest.kernel}, {digest.engine}: {digest.misses + 1} misses of {digest.loads} loads, recorded: "
    assert differences([other], DIGESTS) == [f"{head}{digest.misses} of {digest.loads}"]
    assert differences([other], []) == [f"{head}none"]


def test_every_counter_is_in_the_digest_and_no_time_is():
    result = rd.simulate(tracegen.kernel("gemm", NI=8, NJ=32, NK=4), "gtx470-16k", sms=1)
    same = counter_bytes(result)
    assert counter_bytes(dataclasses.replace(result, seconds=result.seconds + 1)) == same
    assert counter_bytes(dataclasses.replace(result, cycles=result.cycles + 1)) != same
    assert counter_bytes(dataclasses.replace(result, dram=None)) != same


def test_values_that_differ_in_the_last_bit_or_in_their_type_differ_in_bytes():
    values = [1, 1.0, np.nextafter(1.0, 2.0), np.ones(1), np.ones(1, np.int64), np.ones((1, 1)), "1", [1], {1: 1}]
    assert len({counter_bytes(value) for value in values}) == len(values)
    assert counter_bytes({"b": 1, "a": 2}) == counter_bytes({"a": 2, "b": 1})


def test_the_command_says_that_results_are_identical_or_which_differ(monkeypatch, capsys, tmp_path):
    arguments = ("--kernels", "gramschmidt.2", "--engines", "hardware", "--jobs", "1")
    with pytest.raises(SystemExit) as left:
        call(monkeypatch, *arguments)
    assert left.value.code == 0
    assert capsys.readouterr().out == "1 results are bit-identical to the recorded ones\n"
    other = tmp_path / "digests.csv"
    other.write_text(to_csv(Digest, [dataclasses.replace(one, sha256="0" * 64) for one in DIGESTS]))
    monkeypatch.setattr("validation.golden.__main__.RECORD", other)
    with pytest.raises(SystemExit) as left:
        call(monkeypatch, *arguments)
    assert left.value.code == 1
    assert capsys.readouterr().out.startswith("gramschmidt.2, hardware: ")


@pytest.mark.parametrize("arguments", [("--record", "--kernels", "gemm"), ("--engines", "none")])
def test_what_cannot_be_is_refused(monkeypatch, capsys, arguments):
    with pytest.raises(SystemExit) as left:
        call(monkeypatch, *arguments)
    assert left.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_all_results_are_bit_identical_to_the_recorded_ones(monkeypatch, capsys, engine):
    short = [kernel for kernel in kernels() if kernel not in LONG.get(engine, ())]
    with pytest.raises(SystemExit) as left:
        call(monkeypatch, "--jobs", "1", "--engines", engine, "--kernels", *short)
    assert left.value.code == 0, capsys.readouterr().out
