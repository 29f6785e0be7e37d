"""`rdmodel locality`: its forms of output, its options, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

import rdmodel as rd
import tracegen
from rdmodel.cli import text_locality
from tests.support.presets import FERMI

SIZES = {"NI": 64, "NJ": 64, "NK": 16}
SMALL = ["--param", "NI=64", "--param", "NJ=64", "--param", "NK=16"]


@pytest.fixture(scope="module")
def gemm() -> rd.Locality:
    return rd.locality(tracegen.kernel("gemm", **SIZES), gpu=FERMI, sms=2)


def without_times(plain: dict) -> dict:
    return {name: value for name, value in plain.items() if "seconds" not in name}


def tables(text: str) -> dict[str, dict[str, list[str]]]:
    """Return the tables of a report by the first word of their heads, each a dict from a label to its cells."""
    found = {}
    for part in text.split("\n\n")[1:-1]:
        rows = [re.split(r"\s{2,}", line.strip()) for line in part.splitlines()]
        found[rows[0][0]] = {label: cells for label, *cells in rows[1:]}
    return found


def whole(cell: str) -> int:
    return int(cell.replace(",", ""))


def test_json_is_the_object_that_the_library_returns(run, gemm):
    status, out, err = run("locality", "gemm", *SMALL, "--sms", "2", "--json", "--gpu", FERMI)
    assert (status, err) == (0, "")
    assert without_times(json.loads(out)) == without_times(json.loads(json.dumps(gemm.to_dict())))


def test_several_kernels_give_a_list_and_csv_a_row_each(run):
    names = ["gemm", "2mm.1"]
    _, out, _ = run(
        "locality", *names, "--param", "NI=64", "--param", "NJ=64", "--param", "NK=16", "--json", "--gpu", FERMI
    )
    assert [plain["kernel"] for plain in json.loads(out)] == names
    _, out, _ = run("locality", *names, *SMALL, "--csv", "--gpu", FERMI)
    rows = list(csv.DictReader(io.StringIO(out)))
    wanted = rd.locality(tracegen.kernel("gemm", **SIZES), gpu=FERMI).to_row()
    assert [row["kernel"] for row in rows] == names
    assert without_times(rows[0]) == {name: str(value) for name, value in without_times(wanted).items()}


def test_the_report_has_the_numbers_of_the_result(run, gemm):
    status, out, err = run("locality", "gemm", *SMALL, "--sms", "2", "--gpu", FERMI)
    assert (status, err) == (0, "")
    found = tables(out)
    loads = found["L1 loads"]
    assert whole(loads["all"][0]) == gemm.accesses
    assert whole(loads["first touches"][0]) == gemm.first_touches
    assert [whole(loads["re-references"][i]) for i in (0, 2)] == [gemm.unbounded.total, gemm.bounded.total]
    for name, label in text_locality.CLASS_LABELS.items():
        count, _, hits, _ = loads[label.strip()]
        assert (whole(count), whole(hits)) == (getattr(gemm.unbounded, name), getattr(gemm.bounded, name))
    for name, label in text_locality.LINE_TYPE_LABELS.items():
        count, _, uses, *mean = found["lines"][label]
        assert (whole(count), whole(uses)) == (getattr(gemm.lines, name), gemm.reuse_distances[name].total)
        assert mean == ([f"{gemm.reuse_distances[name].mean:,.1f}"] if gemm.reuse_distances[name].total else [])
    assert found["accesses"]["mean"] == [f"{gemm.accesses_per_line.mean:.2f}", f"{gemm.accesses_per_stay.mean:.2f}"]
    assert [int(pc) for pc in found["load at pc"]] == [load.pc for load in gemm.loads]
    for load in gemm.loads:
        count, _, lines, kind, _, concentration = found["load at pc"][str(load.pc)]
        assert (whole(count), whole(lines)) == (load.accesses, load.lines.total)
        assert (kind, concentration) == (text_locality.LINE_TYPE_LABELS[load.dominant], f"{load.concentration:.2f}")
    assert whole(found["L1 evictions"]["cross-block"][0]) == gemm.simulation.contention.cross_block
    assert f"access pattern similarity {gemm.similarity:.2f}" in out


def test_shares_of_a_table_add_up(run):
    _, out, _ = run("locality", "gemm", *SMALL, "--gpu", FERMI)
    found = tables(out)
    for name in ("reuse distance", "accesses"):
        rows = [cells for label, cells in found[name].items() if label != "mean"]
        for column in zip(*rows, strict=True):
            assert sum(float(cell.removesuffix(" %")) for cell in column) == pytest.approx(100, abs=0.1)


def test_lines_that_nobody_uses_again_have_no_distances():
    trace = tracegen.trace(lambda k, A: k.load(A, k.x), grid=1, block=64, arrays={"A": 64})
    report = text_locality.format_locality(rd.locality(trace, gpu=FERMI))
    assert "no line is used again on its SM" in report
    assert "reuse distance" not in report


def test_a_load_that_brings_no_line_has_a_dash():
    def twice(k, A):
        k.load(A, k.x)
        k.load(A, k.x)

    report = text_locality.format_locality(
        rd.locality(tracegen.trace(twice, grid=1, block=32, arrays={"A": 32}), gpu=FERMI)
    )
    assert re.search(r"^    \d+ +1 +100\.00 % +0  - +1\.00$", report, re.M)


def test_options_are_those_of_simulate(run):
    status, out, _ = run(
        "locality", "gemm", *SMALL, "--sms", "1", "--blocks", "2", "--sched", "old", "--no-stores", "--gpu", FERMI
    )
    assert status == 0
    assert out.splitlines()[1] == "1 SM: 2 of 16 blocks, only the first 2 of the grid, scheduler old"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["gemm", "--sms", "0"], "sms=0: must be at least 1"),
        (["gemm", "--threads", "8"], "unknown argument '--threads'"),
        (["gemn"], "gemn"),
    ],
)
def test_what_means_nothing_is_refused(run, argv, message):
    status, out, err = run("locality", *argv, "--gpu", FERMI)
    assert (status, out) == (2, "")
    assert message in err
