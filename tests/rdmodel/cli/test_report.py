"""`rdmodel report`: every number on the page comes from a command that stands beside it, and the page appears whole."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import rdmodel as rd
from rdmodel.reports import build as build_module
from rdmodel.reports.report import Report
from tests.support.commands import ARGUMENTS, SHAPE
from tests.support.html_page import Page
from tests.support.nvbit_texts import header, record
from tests.support.presets import FERMI
from tests.support.ptx_texts import SAXPY

SMALL = ["--param", "NX=256", "--param", "NY=64", "--block", "32", "--sms", "4"]


@pytest.fixture
def report(run, tmp_path):
    """Make a page of arguments, and read it."""

    def call(*argv: str) -> Page:
        path = tmp_path / "page.html"
        status, out, err = run("report", *argv, "-o", str(path), "--overwrite")
        assert (status, err) == (0, "")
        text = path.read_text(encoding="utf-8")
        assert out.startswith(f"{path}: wrote ")
        assert out.endswith(f", {len(text.encode()):,} bytes\n")
        return Page(text)

    return call


def numbers(column: dict[str, str]) -> list[str]:
    return [value.replace(",", "") for value in column.values()]


# ---- where the numbers come from

CHANGED = (
    ["--l1", "8K:2", "--index", "linear", "--mshr", "8", "--sched", "gto", "--seed", "3", "--threads", "64"],
    ["--set", "l1.size=8K", "--set", "l1.ways=2", "--latency", "50:3.5", "--no-divergence", "--cta", "waves"],
    ["--latency", "70", "--gpu", "gtx480-khairy", "--stores", "step", "--blocks", "6", "--seeds", "2"],
    [
        "--stores",
        "--what-if",
        "l1.size=8K,l1.ways=2",
        "--what-if",
        "l1.index=linear,l1.mshrs=inf,sms=2",
    ],
)


@pytest.mark.parametrize("changed", CHANGED, ids=" ".join)
def test_the_command_beside_each_part_gives_its_numbers(run, report, changed):
    both = ["--definition", "hardware", "--definition", "paper"]
    page = report("atax.1", *SMALL, *changed, *both, "--l2", "--simulate")

    def answers(part: str) -> list[dict]:
        found = []
        for command in page.commands[part]:
            status, out, err = run(*shlex.split(command)[1:], "--json")
            assert (status, err) == (0, ""), command
            found.append(json.loads(out))
        return found

    [info] = answers("Launch")
    told = page.column("Launch and memory accesses")
    assert told["footprint"].startswith(f"{info['footprint']:,} bytes")
    assert told["load transactions"].startswith(f"{info['load_transactions']:,} ")
    assert numbers(page.column("Arrays", 3)) == [str(array["accesses"]) for array in info["arrays"]]
    for at, plain in zip((1, 3), answers("L1 prediction"), strict=True):
        column = page.column("Load transactions at the L1", at)
        for name, value in (("all", plain["transactions"]), ("misses", plain["misses"]["total"])):
            assert float(column[name].replace(",", "")) == pytest.approx(value, abs=0.051)
        behind = page.column("Requests at the L2 and DRAM traffic", at)
        assert float(behind["bytes between L2 and DRAM"].replace(",", "")) == plain["l2"]["dram_bytes"]
        rows = page.tables[f"Misses with one component of the model switched off, definition {plain['definition']}"]
        assert [row[0] for row in rows[1:]] == [row["component"] for row in plain["ablation"]]
        for row, wanted in zip(rows[1:], plain["ablation"], strict=True):
            assert float(row[1].replace(",", "")) == pytest.approx(wanted["misses"], abs=0.051)
    assert page.commands["L2 and DRAM"] == page.commands["L1 prediction"]
    rates = list(page.column("The same kernel on changed GPUs").values())[1:]
    assert rates == [f"{100 * plain['miss_rate']:.2f} %" for plain in answers("Causes and remedies")]
    [mrc] = answers("Reuse distances")
    curve = {row[1].replace(",", ""): row[2] for row in page.tables["Miss-ratio curve"][1:]}
    for point in mrc["curve"]:
        assert curve[str(point["lines"])] == f"{100 * point['miss_ratio']:.2f} %"
    total = page.tables["Reuse distances"][1:]
    assert sum(int(row[1].replace(",", "")) for row in total) == mrc["transactions"]
    [compared] = answers("Simulation")
    assert numbers(page.column("Time"))[0] == str(compared["simulation"]["cycles"])
    shares = page.column("Load transactions, simulated and predicted; errors in points", 2)
    assert shares["misses"] == f"{100 * compared['predicted']['hardware']['misses']:.2f} %"
    [found] = answers("Locality")
    reuse = numbers(page.column("Load transactions and hits by last access to their line"))
    assert reuse == [str(found["first_touches"]), *map(str, found["unbounded"].values())]


def test_json_has_what_the_page_shows(run):
    status, out, err = run("report", "atax.1", *SMALL, "--json")
    assert (status, err) == (0, "")
    plain = json.loads(out)
    [one] = plain["kernels"]
    predicted = json.loads(run("predict", "atax.1", *SMALL, "--ablation", "--json")[1])
    assert one["predictions"]["hardware"]["misses"] == predicted["misses"]
    assert one["predictions"]["hardware"]["ablation"] == predicted["ablation"]
    sizes = "--param NX=256 --param NY=64 --block 32,1,1 --sms 4"
    assert one["commands"]["predictions"] == [f"rdmodel predict atax.1 {sizes} --ablation"]
    assert one["comparison"] is one["locality"] is None
    assert plain["gpu"] == rd.presets.gpu(rd.presets.DEFAULT_GPU).to_dict()


def test_several_kernels_and_launches_stand_on_one_page(run, report, tmp_path):
    page = report("atax.1", "bicg.1", *SMALL, "--no-ablation", "--no-what-if")
    assert [row[0] for row in page.tables["L1 miss rates, and misses by cause"]] == ["kernel", "atax.1", "bicg.1"]
    (tmp_path / "saxpy.ptx").write_text(SAXPY)
    launch = "[[launch]]\ngrid = 4\nargs = { a = 2.0 }\n"
    file = tmp_path / "two.toml"
    file.write_text(
        'source = "saxpy.ptx"\nblock = 256\nargs = { n = 1000, x = "float[1000]:iota", y = "float[1000]" }\n'
        f"{launch}{launch}"
    )
    page = report(str(file))
    assert len(page.tables["L1 miss rates, and misses by cause"]) == 3
    assert page.commands["Launch"] == [f"rdmodel info {file} --launch 2"]
    assert [text for _, text in page.headings if text.endswith(", launch 2")] == [f"{file}: saxpy, launch 2"]


# ---- recorded traces


def test_a_program_is_reported_with_its_arguments(run, report, tmp_path):
    file = tmp_path / "the saxpy.ptx"
    file.write_text(SAXPY)
    page = report(str(file), *SHAPE, *ARGUMENTS, "--sms", "1", "--gpu", FERMI)
    [command] = page.commands["L1 prediction"]
    assert shlex.split(command)[2] == str(file)
    status, out, _ = run(*shlex.split(command)[1:], "--json")
    assert status == 0
    rate = page.column("Load transactions at the L1", 2)["misses"]
    assert rate == f"{100 * json.loads(out)['miss_rate']:.2f} %"


def test_a_recorded_trace_is_summarised_whole(run, report, tmp_path):
    run("trace", "atax.1", *SMALL, "--all", "-o", str(tmp_path / "t.trc"))
    page = report(str(tmp_path / "t.trc"), "--sms", "4")
    assert page.column("Launch and memory accesses")["blocks in the counts below"] == "8 of 8"
    assert "SM 0 of 4, 2 of 8 blocks" in page.text
    for command in (line for lines in page.commands.values() for line in lines):
        assert run(*shlex.split(command)[1:])[0] == 0, command


def test_a_name_in_a_recorded_trace_is_no_markup(run, report, tmp_path):
    lines = [header(name="<script>alert(1)</script>", grid=(1, 1, 1), block=(32, 1, 1))]
    lines += [record([0x7F0000000000 + 128 * i + 4 * lane for lane in range(32)]) for i in range(4)]
    (tmp_path / "<b>.txt").write_text("".join(lines))
    page = report(str(tmp_path / "<b>.txt"), "--simulate", "--gpu", FERMI)
    assert not {"script", "b"} & set(page.tags)
    assert page.headings[0][1] == "Cache behaviour of <script>alert(1)</script> on gtx470-16k"
    assert any(text.startswith(f"{tmp_path}/<b>.txt: <script>") for level, text in page.headings if level == 2)


# ---- what is refused


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "--output: is missing"),
        (["-o", "old.html"], "old.html: exists already"),
        (["-o", "."], ".: exists already"),
        (["-o", "gone/page.html"], "there is no folder 'gone'"),
        (["-o", "a.html", "--definition", "papr"], "unknown definition 'papr'; did you mean 'paper'?"),
        (["-o", "a.html", "--what-if", "l1.sise=1"], "unknown key 'l1.sise'; did you mean 'l1.size'"),
        (
            ["-o", "a.html", "--gpu", FERMI, "--what-if", "l1.size=48K"],
            "l1.index='fermi': is defined for 32 or 64 sets",
        ),
        (["-o", "a.html", "--what-if", "l1"], "'l1' is not name=value"),
        (["-o", "a.html", "--what-if", "sms=2", "--no-what-if"], "--no-what-if cannot be combined with --what-if"),
        (["-o", "a.html", "--memory", "2G", "--simulate"], "simulate cannot be combined with --memory"),
        (["-o", "a.html", "--memory", "2G", "--l2"], "l2 cannot be combined with --memory"),
        (["-o", "a.html", "--memory", "2M"], "rdmodel itself takes"),
        (["-o", "a.html", "--param", "NZ=3"], "unknown size of atax.1 'NZ'"),
    ],
)
def test_a_mistake_is_one_line_before_any_work(run, tmp_path, monkeypatch, argv, said):
    monkeypatch.chdir(tmp_path)
    Path("old.html").write_text("old")
    monkeypatch.setattr(build_module, "predict", None)
    status, out, err = run("report", "atax.1", *argv)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert os.listdir() == ["old.html"]
    assert Path("old.html").read_text() == "old"


def test_with_enough_memory_the_page_is_the_same(report):
    plain = report("atax.1", *SMALL, "--no-what-if").text
    assert report("atax.1", *SMALL, "--no-what-if", "--memory", "2G").text == plain


def test_matplotlib_is_not_needed(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert report("atax.1", *SMALL).figures


def test_other_commands_do_not_load_it():
    code = "import sys, rdmodel.cli.predict_command; print([name for name in sys.modules if 'rdmodel.reports' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ---- the page appears whole or not at all


def stop(*_: object) -> str:
    raise KeyboardInterrupt


def fill_disk(*_: object) -> int:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("place", "name", "what", "status", "said"),
    [
        (Report, "to_html", stop, 130, "interrupted"),
        (Path, "write_bytes", stop, 130, "interrupted"),
        (Path, "write_bytes", fill_disk, 1, "cannot be written: No space left on device"),
        (Path, "replace", fill_disk, 1, "cannot be written: No space left on device"),
    ],
)
def test_an_older_page_outlives_a_run_that_fails(run, tmp_path, monkeypatch, place, name, what, status, said):
    page = tmp_path / "page.html"
    page.write_text("old")
    monkeypatch.setattr(place, name, what)
    found, out, err = run("report", "atax.1", *SMALL, "-o", str(page), "--overwrite")
    assert (found, out) == (status, "")
    assert said in err
    assert page.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_page_keeps_the_permissions_and_the_link_of_the_one_it_replaces(report, tmp_path):
    real = tmp_path / "real.html"
    real.write_text("old")
    real.chmod(0o600)
    (tmp_path / "page.html").symlink_to(real)
    page = report("atax.1", *SMALL, "--no-what-if")
    assert (tmp_path / "page.html").is_symlink()
    assert (real.read_text(encoding="utf-8"), real.stat().st_mode & 0o777) == (page.text, 0o600)


def test_a_link_in_a_circle_is_told_before_any_work(run, tmp_path):
    (tmp_path / "page.html").symlink_to("page.html")
    status, _, err = run("report", "atax.1", *SMALL, "-o", str(tmp_path / "page.html"), "--overwrite")
    assert status == 2
    assert "page.html is a symbolic link that leads back to itself" in err
