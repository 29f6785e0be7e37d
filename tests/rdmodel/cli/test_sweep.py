"""`rdmodel sweep`: forms of output, spellings, what is kept, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rdmodel as rd
import tracegen
from rdmodel.cli.progress_line import bar_progress
from rdmodel.cli.text_sweep import MAX_REASONS
from rdmodel.gpu.overrides import override
from rdmodel.sweeps import sweep as sweep_module
from tests.support.commands import SIZES, SMALL
from tests.support.presets import FERMI

LINEAR = override(rd.presets.gpu("gtx470-16k"), {"l1.index": "linear"})
VARY = ["--gpu", FERMI, "--index", "linear", "--vary", "ways=1,2,3", "--vary", "l1_size=8K,16K", "--jobs", "1"]
GRID: dict[str, Any] = {"ways": [1, 2, 3], "l1_size": [8192, 16384], "n_jobs": 1}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """Give each test a cache of its own."""
    monkeypatch.setenv("RDMODEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "answers.sqlite"


def held(*names: str, gpu: Any = LINEAR, **grid: Any) -> rd.Sweep:
    return rd.sweep([tracegen.kernel(name, **SIZES) for name in names], gpu, **(grid or GRID))


def timeless(plain: Any) -> Any:
    """Return what JSON holds without times."""
    if isinstance(plain, dict):
        return {name: timeless(one) for name, one in plain.items() if not name.endswith("seconds")}
    return [timeless(one) for one in plain] if isinstance(plain, list) else plain


def rows_of(text: str) -> list[list[str]]:
    """Return the table of a sweep, a list for each line."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.split("\n\n")[1].splitlines()]


# ---- forms


def test_json_is_what_the_library_returns(run):
    status, out, err = run("sweep", "atax.1", "bicg.1", *SMALL, *VARY, "--json")
    assert (status, err) == (0, "")
    assert timeless(json.loads(out)) == timeless(json.loads(json.dumps(held("atax.1", "bicg.1").to_dict())))


def test_csv_has_a_row_for_each_point_and_a_reason_where_there_is_no_result(run):
    _, out, _ = run("sweep", "atax.1", *SMALL, *VARY, "--csv")
    found = list(csv.DictReader(io.StringIO(out)))
    for row, wanted in zip(found, held("atax.1").rows, strict=True):
        assert (row["kernel"], row["ways"], row["l1_size"]) == ("atax.1", *map(str, wanted.point.values()))
        assert row["reason"] == (wanted.reason or "")
        assert row["miss_rate"] == ("" if wanted.result is None else str(wanted.result.miss_rate))


def test_the_text_has_a_line_for_each_point_and_the_reasons_of_the_others(run):
    status, out, err = run("sweep", "atax.1", *SMALL, *VARY)
    assert (status, err) == (0, "")
    assert out.startswith("atax.1 NX=64 NY=64 on gtx470-16k, predict\n\n")
    head, *rows = rows_of(out)
    assert head[:3] == ["ways", "l1_size", "transactions"]
    ran = [row for row in held("atax.1").rows if row.result is not None]
    for line, row in zip(rows, ran, strict=True):
        assert line[:2] == [str(row.point["ways"]), f"{row.point['l1_size'] // 1024}K"]
        assert line[-1] == f"{100 * row.result.miss_rate:.2f} %"
        assert line[3] == f"{100 * row.result.hits / row.result.transactions:.2f} %"
    assert "cannot be run: ways=3 l1_size=8K: l1.size=8192: is not a multiple of line x ways = 128 x 3 = 384" in out


def test_several_kernels_are_told_apart(run):
    _, out, _ = run("sweep", "atax.1", "bicg.1", *SMALL, *VARY)
    assert out.startswith("2 kernels on gtx470-16k, predict\n")
    assert [row[0] for row in rows_of(out)] == ["kernel", *["atax.1 NX=64 NY=64"] * 4, *["bicg.1 NX=64 NY=64"] * 4]
    assert "cannot be run: bicg.1 ways=3 l1_size=16K: " in out


def test_many_reasons_are_cut_and_the_csv_has_all(run):
    _, out, _ = run("sweep", "atax.1", *SMALL, *VARY[:4], "--vary", "ways=" + ",".join(map(str, range(1, 41))))
    assert out.count("cannot be run") == MAX_REASONS
    assert out.endswith(f"and {40 - 6 - MAX_REASONS} more (--csv has all)\n")


def test_each_engine_has_columns_of_its_own(run):
    heads = {}
    for engine in ("predict", "estimate", "simulate"):
        status, out, _ = run("sweep", "atax.1", *SMALL, "--engine", engine, "--vary", "sched=lrr,gto")
        assert status == 0
        heads[engine] = rows_of(out)[0]
    assert heads["predict"][-1] == heads["estimate"][2] == heads["simulate"][2] == "miss rate"
    assert heads["simulate"] == ["sched", "sectors", "miss rate", "cycles", "IPC"]


# ---- spellings


SPELLINGS = {
    "--vary l1.size=8K,16K": {"l1.size": ["8K", "16K"]},
    "--set l1.size=8K,16K": {"l1.size": ["8K", "16K"]},
    "--vary mshrs=4,inf --vary seed=0,1": {"mshrs": [4, None], "seed": [0, 1]},
    "--gpu gtx470-16k,gtx480-khairy": {"gpu": ["gtx470-16k", "gtx480-khairy"]},
    "--vary gpu=gtx470-16k,gtx480-khairy": {"gpu": ["gtx470-16k", "gtx480-khairy"]},
    "--vary stores=free,evict --definition hardware --sms 4 --seed 3": {
        "stores": ["free", "evict"],
        "sms": 4,
        "seed": 3,
    },
    "--latency 50:3 --no-divergence --threads all --vary definition=paper,hardware": {
        "lat_min": 50,
        "sigma": 3.0,
        "divergence": False,
        "threads": None,
        "definition": ["paper", "hardware"],
    },
    "--seeds 2 --l2 --stores --vary ways=2,4 --model-sms all": {
        "seeds": 2,
        "l2": True,
        "stores": "allocate",
        "ways": [2, 4],
        "model_sms": "all",
    },
    "--engine simulate --vary dram.latency=10,500 --blocks 1": {
        "engine": "simulate",
        "dram.latency": [10, 500],
        "blocks": 1,
    },
    "--engine estimate --vary work=100,all": {"engine": "estimate", "work": [100, None]},
}


@pytest.mark.parametrize("line", SPELLINGS)
def test_options_mean_what_they_mean_in_python(run, line):
    gpu = () if "gpu=" in line or "--gpu" in line else ("--gpu", FERMI)
    status, out, err = run("sweep", "atax.1", *SMALL, *line.split(), *gpu, "--json")
    assert (status, err) == (0, "")
    grid = {"gpu": "gtx470-16k", "n_jobs": 1, **SPELLINGS[line]}
    wanted = [row.to_dict() for row in held("atax.1", **grid).rows]
    assert timeless(json.loads(out)["rows"]) == timeless(json.loads(json.dumps(wanted)))


def test_changes_of_the_gpu_hold_for_all_points_and_all_gpus(run):
    _, out, _ = run(
        *(
            "sweep",
            "atax.1",
            *SMALL,
            "--l1",
            "8K:2:64",
            "--set",
            "l1.index=masks",
            "--set",
            "l1.index.masks=1,2,4,8,16,32",
        ),
        *("--gpu", "gtx470-16k,gtx480-khairy", "--vary", "mshrs=4,8", "--json"),
    )
    for row in json.loads(out)["rows"]:
        l1 = row["result"]["config"]["gpu"]["l1"]
        assert (l1["size"], l1["ways"], l1["line"], l1["mshrs"]) == (8192, 2, 64, row["point"]["mshrs"])
        assert l1["index"] == {"name": "masks", "masks": [1, 2, 4, 8, 16, 32]}


def test_without_names_a_sweep_is_one_point_for_each_kernel(run):
    _, out, _ = run("sweep", "atax.1", *SMALL, "--json")
    (row,) = json.loads(out)["rows"]
    assert row["point"] == {}


def test_files_are_kernels_too(run, tmp_path):
    rd.save(tracegen.kernel("atax.1", **SIZES), tmp_path / "t")
    _, out, _ = run("sweep", str(tmp_path / "t"), *VARY, "--json")
    counts = [row["result"] and row["result"]["hits"] for row in json.loads(out)["rows"]]
    assert counts == [row.result and row.result.hits for row in held("atax.1").rows]


# ---- what is kept


def test_a_second_run_makes_nothing_and_prints_the_same(run, cache, monkeypatch):
    first = run("sweep", "atax.1", *SMALL, *VARY)
    assert "4 points run, " in first[1]
    assert cache.exists()

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(sweep_module, "try_point", never)
    second = run("sweep", "atax.1", *SMALL, *VARY)
    assert "0 points run, 4 taken from answers files, " in second[1]
    assert [line for line in second[1].splitlines() if "run," not in line] == [
        line for line in first[1].splitlines() if "run," not in line
    ]


def test_a_cache_can_be_elsewhere_or_nowhere(run, cache, tmp_path):
    run("sweep", "atax.1", *SMALL, *VARY, "--no-cache")
    assert not cache.exists()
    for kept in (0, 4):
        _, out, _ = run("sweep", "atax.1", *SMALL, *VARY, "--cache", str(tmp_path / "mine"), "--json")
        assert json.loads(out)["kept"] == kept
    assert not cache.exists()


def test_a_file_that_cannot_be_used_is_told_and_done_without(run, tmp_path):
    (tmp_path / "mine.txt").write_text("mine" * 100)
    status, out, err = run("sweep", "atax.1", *SMALL, *VARY, "--cache", str(tmp_path / "mine.txt"))
    assert status == 0
    assert "4 points run" in out
    assert err == f"rdmodel: {tmp_path / 'mine.txt'}: is not a cache of answers; left alone\n"


@pytest.mark.parametrize("more", [(), ("--no-cache",)])
def test_an_interruption_says_what_is_kept(run, monkeypatch, more):
    try_point = sweep_module.try_point
    made: list[object] = []

    def stopping(*arguments: Any) -> Any:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(arguments)
        return try_point(*arguments)

    monkeypatch.setattr(sweep_module, "try_point", stopping)
    status, out, err = run("sweep", "atax.1", *SMALL, *VARY, *more)
    assert (status, out) == (130, "")
    what = "are lost: they were not stored" if more else "are stored: run the command again to continue"
    assert err == f"rdmodel: 4 of 6 points {what}\nrdmodel: error: interrupted\n"


def test_an_interruption_between_storing_a_point_and_counting_it_loses_no_count(run, monkeypatch):
    put = rd.Answers.put

    def interrupted(self: rd.Answers, *arguments: Any) -> None:
        put(self, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(rd.Answers, "put", interrupted)
    status, _, err = run("sweep", "atax.1", *SMALL, *VARY)
    assert status == 130
    assert err.startswith("rdmodel: 3 of 6 points are stored"), "two of them cannot exist"


def test_ctrl_c_ends_a_command_at_once_and_the_same_command_goes_on(tmp_path):
    argv = [sys.executable, "-m", "rdmodel", "sweep", "atax.1", "--engine", "simulate", "--param", "NX=512"]
    argv += ["--param", "NY=512", "--vary", "mshrs=8,16,24,32,40,48,56,64,72,80", "--cache", str(tmp_path / "a")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen(argv, start_new_session=True, **pipes) as command:
        with rd.Answers(tmp_path / "a") as answers:
            while len(answers) < 2 and command.poll() is None:
                time.sleep(0.02)
        os.killpg(command.pid, signal.SIGINT)
        out, err = command.communicate(timeout=60)
    assert (command.returncode, out) == (130, "")
    told = re.fullmatch(
        r"rdmodel: (\d+) of 10 points are stored: run the command again to continue\nrdmodel: error: interrupted\n", err
    )
    assert told
    done = subprocess.run([*argv, "--json", "--jobs", "1"], check=True, **pipes)
    assert json.loads(done.stdout)["kept"] == int(told[1]) >= 2


# ---- mistakes


BAD = {
    "sweep": "the following arguments are required: KERNEL_OR_FILE",
    "sweep gemmm --vary ways=1": "did you mean 'gemm'",
    "sweep gemm --vary wys=1,2": "unknown name in a sweep of predict: 'wys'; did you mean 'ways'",
    "sweep gemm --vary ways": "'ways' is not name=value",
    "sweep gemm --vary ways=": "'ways=' is not name=value",
    "sweep gemm --vary ways=1,,2": "ways='': must be a number",
    "sweep gemm --vary ways=1,two": "ways='two': must be a number (15, 48K, 2M, 40.5) or inf",
    "sweep gemm --vary ways=4,2,4": "ways: 4 is given twice",
    "sweep gemm --vary ways=4 --vary ways=2": "--vary ways: is given twice; name all values at once",
    "sweep gemm --vary l1.ways=4 --set l1.ways=2,4": "--set l1.ways: is given twice",
    "sweep gemm --vary ways=4 --vary l1_ways=2": "l1_ways: is another name of ways",
    "sweep gemm --vary sched=gtoo": "unknown value for sched: 'gtoo'; did you mean 'gto'",
    "sweep gemm --vary sched=gto --sched lrr": "--vary sched: cannot be combined with --sched",
    "sweep gemm --vary sigma=1,2 --latency 100:5": "--vary sigma: cannot be combined with --latency",
    "sweep gemm --vary gpu=gtx470-16k --gpu k40c-16k": "--vary gpu: cannot be combined with --gpu",
    "sweep gemm --gpu gtx470-16k,gtx47": "unknown GPU 'gtx47'; did you mean",
    "sweep gemm --vary index=linnear": "unknown index function 'linnear'",
    "sweep gemm --vary policies=pd": "policies: cannot be varied by a sweep; rdmodel.contest",
    "sweep gemm --gpu gtx470-16k --vary ways=3,5": "none of 2 points can be run: l1.size=16384: is not a multiple",
    "sweep gemm --engine guess": "unknown engine 'guess'",
    "sweep gemm --engine simulate --definition paper": "unknown name in a sweep of simulate: 'definition'",
    "sweep gemm --engine estimate --seeds 2": "unknown name in a sweep of estimate: 'seeds'",
    "sweep gemm --engine estimate --threads 64": "threads: not an option of estimate",
    "sweep gemm --jobs 0": "n_jobs=0: must be at least 1",
    "sweep gemm --seed -1": "seed=-1",
    "sweep gemm --block 2048": "2048 threads, at most 1024 fit in a block",
    "sweep gemm --json --csv": "not allowed with argument",
    "sweep gemm --cache a --no-cache": "not allowed with argument",
    "sweep no/such.trc": "no/such.trc: no such file",
    "sweeep gemm": "did you mean 'sweep'",
}


@pytest.mark.parametrize("line", BAD)
def test_a_mistake_gives_status_2_and_one_clear_line_before_the_work(run, monkeypatch, line):
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(sweep_module, "try_point", never)
    status, out, err = run(*line.split())
    assert (status, out) == (2, "")
    assert BAD[line] in err
    assert err.count("\n") == 1


def test_asking_for_help_loads_no_numpy():
    code = (
        "import sys, contextlib; from rdmodel.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['sweep', '--help'])\n"
        "print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"


def test_other_commands_do_not_load_sweeps(run):
    code = (
        "import sys; from rdmodel.cli import main\n"
        "main(['kernels']); print('rdmodel.sweeps.sweep' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"


def test_the_bar_says_how_many_points_are_finished():
    bar = bar_progress("points")
    assert bar.describe(3, 12) == "[######..................] 3 of 12 points"
    assert bar.describe(0, 0) == "[........................] 0 of 0 points"


def test_a_sweep_over_caches_with_sectors_counts_sectors(run):
    options = ("--param", "NX=64", "--param", "NY=64", "--gpu", "v100", "--vary", "l1.sector=32,128", "--no-cache")
    _, out, _ = run("sweep", "atax.1", *options)
    table = [line.split() for line in out.splitlines()[2:5]]
    assert table[0][:2] == ["l1.sector", "sectors"]
    assert [row[1] for row in table[1:]] == ["4,224", "4,224"]


def test_a_sweep_of_simulations_with_sectors_has_the_miss_rate_of_the_simulations(run):
    options = ("--param", "NX=64", "--param", "NY=64", "--vary", "gpu=a100,gtx470-16k", "--no-cache")
    _, out, _ = run("sweep", "atax.1", "--engine", "simulate", *options)
    table = [line.split() for line in out.splitlines()[2:5]]
    assert table[0] == ["gpu", "sectors", "miss", "rate", "cycles", "IPC"]
    for row, gpu in zip(table[1:], ("a100", "gtx470-16k"), strict=True):
        simulated = rd.simulate(tracegen.kernel("atax.1", NX=64, NY=64), gpu)
        assert row[1:4] == [f"{simulated.sectors:,}", f"{100 * simulated.miss_rate:.2f}", "%"]
    assert simulated.sectors == simulated.loads
