"""`rdmodel simulate`: its three forms of output, its options, and what it refuses."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import subprocess
import sys

import pytest

import rdmodel as rd
import tracegen
from rdmodel.cli import progress_line, simulate_command
from rdmodel.errors import SimulationError
from tests.support.builders import make_trace
from tests.support.commands import ARGUMENTS, SHAPE, SIZES, SMALL, sections, without_times
from tests.support.presets import FERMI
from tests.support.ptx_texts import SAXPY


def simulated(*names: str, **options: object) -> list[rd.Simulation]:
    return [rd.simulate(tracegen.kernel(name, **SIZES), gpu=FERMI, **options) for name in names]


# ---- forms of output


def test_json_is_the_object_that_the_library_returns(run):
    status, out, err = run("simulate", "atax.1", *SMALL, "--json", "--seed", "3", "--gpu", FERMI)
    assert (status, err) == (0, "")
    plain = json.loads(out)
    assert plain.pop("occupancy") == {"blocks": 8, "limiter": "blocks", "warps": 8, "max_warps": 48}
    same = json.loads(json.dumps(simulated("atax.1", seed=3)[0].to_dict()))
    assert list(plain) == list(same)
    assert without_times(plain) == without_times(same)
    assert plain["seed"] == 3


def test_several_kernels_give_a_list_and_csv_a_row_each(run):
    names = ["atax.1", "bicg.1"]
    _, out, _ = run("simulate", *names, *SMALL, "--json", "--gpu", FERMI)
    assert [plain["kernel"] for plain in json.loads(out)] == names
    _, out, _ = run("simulate", *names, *SMALL, "--csv", "--gpu", FERMI)
    rows = list(csv.DictReader(io.StringIO(out)))
    for row, result in zip(rows, simulated(*names), strict=True):
        wanted = {name: str(value) for name, value in result.to_row().items()}
        assert without_times(row) == without_times(wanted)
    _, out, _ = run("simulate", *names, *SMALL, "--gpu", FERMI)
    assert re.findall(r"^(\S+) NX=64 NY=64 on", out, re.M) == names


def test_metrics_of_a_profiler_are_printed_in_every_form(run):
    metrics = rd.simulate(tracegen.kernel("atax.1", **SIZES), gpu="v100").metrics()
    options = ("simulate", "atax.1", *SMALL, "--gpu", "v100", "--metrics", "ncu")
    assert json.loads(run(*options, "--json")[1])["metrics"] == metrics
    (row,) = csv.DictReader(io.StringIO(run(*options, "--csv")[1]))
    assert {name: float(row[name]) for name in metrics} == metrics
    text = run(*options)[1]
    assert all(f"\n  {name} " in text for name in metrics)
    assert text.endswith("in the words of Nsight Compute; sectors in flight are hits\n")
    assert "counted for 1 of 2 blocks, only the first 1 of the grid" in run(*options, "--blocks", "1")[1].replace(
        "\n", " "
    )


def test_the_text_has_every_count_with_its_share(run):
    result = simulated("atax.1")[0]
    status, out, err = run("simulate", "atax.1", *SMALL, "--gpu", FERMI)
    assert (status, err) == (0, "")
    assert out.startswith("atax.1 NX=64 NY=64 on gtx470-16k, simulated\n14 SMs: 2 of 2 blocks, scheduler lrr, seed 0\n")
    parts = sections(out)
    share = f"{100 * result.hits / result.loads:.2f} %"
    assert parts["cycles"]["cycles"] == [f"{result.cycles:,}", f"{result.cycles / 607e3:,.3f} ms"]
    assert parts["cycles"]["thread instructions"] == [f"{result.instructions:,}", f"IPC {result.ipc:,.2f}"]
    assert parts["L1"]["hits"] == [f"{result.hits:,}", share]
    assert parts["L1"]["pending hits"][0] == f"{result.pending_hits:,}"
    assert parts["L1"]["compulsory"][0] == f"{result.misses.compulsory:,}"
    assert parts["L1"]["stores"] == [f"{result.stores:,}"]
    assert parts["L1 miss latency"]["longest"] == [f"{result.miss_latencies.quantile(1):,}"]
    fails = result.reservation_fails
    per_sm = f"{1000 * fails.mshr_entry / result.cycles / 14:,.2f}"
    assert parts["L1 reservation failures"]["no MSHR"] == [f"{fails.mshr_entry:,}", per_sm]
    assert parts["L1 reservation failures"]["all"][0] == f"{fails.total:,}"
    assert parts["L1 evictions"]["all"] == [f"{sum(result.contention.to_dict().values()):,}", "-"]
    assert parts["crossbar"]["responses"] == [f"{n:,}" for n in (result.misses.total, result.traffic.response_bytes)]
    assert parts["L2"]["misses"] == [f"{result.l2.misses:,}", f"{100 * result.l2.miss_rate:.2f} %"]
    hits = result.dram.reads + result.dram.writes - result.dram.activations
    assert parts["DRAM"]["row hits"] == [f"{hits:,}", f"{100 * result.dram.row_hit_rate:.2f} %"]
    rate = result.dram.bytes * 607 / result.cycles / 1000
    assert parts["DRAM"]["bytes"] == [f"{result.dram.bytes:,}", f"{rate:.2f} GB/s"]
    assert f"L1 miss rate {100 * result.miss_rate:.2f} %, MPKI {result.mpki:.2f} (" in out


def test_the_columns_of_the_text_are_aligned(run):
    _, out, _ = run("simulate", "atax.1", *SMALL, "--gpu", FERMI)
    table = out.split("\n\n", 1)[1].split("  time: ")[0]
    rows = [re.fullmatch(r"  .*?\S {2,}(\S+)( {2,}\S.*)?", line) for line in table.splitlines() if line]
    assert len({row.end(1) for row in rows}) == 1
    assert len({row.end(2) for row in rows if row[2]}) == 1


def test_an_ideal_memory_is_said_and_has_no_l2_and_no_dram(run):
    _, out, _ = run("simulate", "atax.1", *SMALL, "--ideal-memory", "1200", "--gpu", FERMI)
    parts = sections(out)
    assert "ideal memory, 1,200 cycles away" in parts
    assert parts["L1 miss latency"]["median"] == ["1,200"]
    assert not {"crossbar", "L2", "DRAM"} & set(parts)
    _, out, _ = run("simulate", "atax.1", *SMALL, "--ideal-memory", "0", "--json", "--gpu", FERMI)
    assert json.loads(out)["l2"] is None


def test_blocks_and_stores_that_are_left_out_are_said(run):
    _, out, _ = run(
        "simulate", "atax.1", *SMALL, "--blocks", "1", "--no-stores", "--sms", "1", "--sched", "gto", "--gpu", FERMI
    )
    assert "\n1 SM: 1 of 2 blocks, only the first 1 of the grid, scheduler gto, without stores, seed 0\n" in out
    assert sections(out)["L1"]["stores"] == ["0"]


def test_stalls_of_the_l2_are_told_apart(run):
    sizes = [option for name in ("NI", "NJ", "NK") for option in ("--param", f"{name}=64")]
    _, out, _ = run("simulate", "gemm", *sizes, "--gpu", FERMI)
    stalls = sections(out)["L2"]
    causes = [stalls[name][0].replace(",", "") for name in ("full MSHR", "full DRAM queue")]
    assert sum(map(int, causes)) == int(stalls["cycles stalled"][0].replace(",", "")) > 0
    assert "no way" not in stalls


# ---- options


def test_every_option_reaches_the_simulator(run):
    options = (
        "--gpu gtx470-48k --set l1.ways=6 --set core.hit_latency=7 --l1 16K:4:128 --index bxor --mshr inf "
        "--mshr-per-warp 6 --mshr-merge 8 --sched two-level --allocate fill --sms 3 --blocks 5 --ideal-memory 90 "
        "--no-stores --check --seed 4"
    )
    sizes = ("--param", "NX=512", "--param", "NY=8", "--block", "64")
    status, out, err = run("simulate", "atax.1", *sizes, *options.split(), "--json")
    assert (status, err) == (0, "")
    plain = json.loads(out)
    gpu = plain["config"]["gpu"]
    l1 = {"size": 16384, "ways": 4, "line": 128, "index": {"name": "bxor"}, "mshrs": None, "mshr_per_warp": 6}
    l1 |= {"mshr_merge": 8, "allocate": "fill"}
    assert {name: gpu["l1"][name] for name in l1} == l1
    assert (gpu["name"], gpu["core"]["hit_latency"]) == ("gtx470-48k", 7)
    assert plain["config"]["options"] == {
        "sms": 3,
        "blocks": 5,
        "sched": "two-level",
        "memory": 90,
        "stores": False,
        "policies": [],
    }
    assert (plain["seed"], plain["stores"], plain["kernel"]) == (4, 0, "atax.1")


def test_check_and_allocate_are_what_they_are_short_for(run, monkeypatch):
    seen = []
    simulate = simulate_command.simulate
    monkeypatch.setattr(
        simulate_command, "simulate", lambda *a, **given: [seen.append(given["check"]), simulate(*a, **given)][1]
    )
    _, short, _ = run("simulate", "atax.1", *SMALL, "--check", "--allocate", "fill", "--csv", "--gpu", FERMI)
    _, long, _ = run("simulate", "atax.1", *SMALL, "--set", "l1.allocate=fill", "--csv", "--gpu", FERMI)
    assert seen == [True, False]
    rows = [without_times(row) for text in (short, long) for row in csv.DictReader(io.StringIO(text))]
    assert rows[0] == rows[1]


def test_a_ptx_kernel_and_every_launch_of_a_file_are_simulated(run, tmp_path):
    (tmp_path / "saxpy.ptx").write_text(SAXPY)
    source = str(tmp_path / "saxpy.ptx")
    status, out, err = run("simulate", source, "--kernel", "saxpy", *SHAPE, *ARGUMENTS, "--json", "--gpu", FERMI)
    assert (status, err) == (0, "")
    plain = json.loads(out)
    # 31 full warps and one of 8 lanes, two loads and a store each, one line each: nothing is used twice.
    assert (plain["misses"]["compulsory"], plain["misses"]["total"], plain["stores"]) == (64, 64, 32)
    launch = "grid = 4\nargs = { a = 2.0 }\n"
    (tmp_path / "two.toml").write_text(
        'source = "saxpy.ptx"\nblock = 256\nargs = { n = 1000, x = "float[1000]:iota", y = "float[1000]" }\n'
        f"[[launch]]\n{launch}[[launch]]\n{launch}"
    )
    both = json.loads(run("simulate", str(tmp_path / "two.toml"), "--json", "--gpu", FERMI)[1])
    assert [launch["misses"] for launch in both] == [plain["misses"]] * 2


def test_launches_with_a_warm_l2_are_those_of_the_library_and_are_summed_up(run):
    names = ["atax.1", "atax.2"]
    status, out, err = run("simulate", *names, *SMALL, "--warm-l2", "--json", "--gpu", FERMI)
    assert (status, err) == (0, "")
    plain = json.loads(out)
    wanted = rd.simulate_launches([tracegen.kernel(name, **SIZES) for name in names], gpu=FERMI)
    for one in plain:
        del one["occupancy"]
    same = json.loads(json.dumps([one.to_dict() for one in wanted]))
    assert [without_times(one) for one in plain] == [without_times(one) for one in same]
    assert plain[1]["l2"]["misses"] < simulated("atax.2")[0].l2.misses
    _, out, _ = run("simulate", *names, *SMALL, "--warm-l2", "--gpu", FERMI)
    assert re.findall(r"seed 0(.*)", out) == ["", ", L2 as 1 launch left it"]
    cycles = sum(one.cycles for one in wanted)
    assert f"\n\nall 2 launches: {cycles:,} cycles, " in out
    _, out, _ = run("simulate", names[0], *SMALL, "--warm-l2", "--gpu", FERMI)
    assert "launches:" not in out


def test_unrelated_kernels_that_share_addresses_are_noted(run):
    status, _, err = run("simulate", "gesummv", "mvt.1", "--param", "N=64", "--warm-l2", "--csv", "--gpu", FERMI)
    assert status == 0
    assert err == (
        "rdmodel: mvt.1: x1 has the address of tmp of gesummv, and finds its lines in the L2; --warm-l2 is for "
        "launches of one program\n"
    )


def test_all_launches_of_a_file_run_on_one_l2(run, tmp_path):
    (tmp_path / "saxpy.ptx").write_text(SAXPY)
    (tmp_path / "two.toml").write_text(
        'source = "saxpy.ptx"\nblock = 256\ngrid = 4\n'
        'args = { n = 1000, a = 2.0, x = "float[1000]:iota", y = "float[1000]" }\n[[launch]]\n[[launch]]\n'
    )
    first, second = json.loads(run("simulate", str(tmp_path / "two.toml"), "--warm-l2", "--json", "--gpu", FERMI)[1])
    assert (first["l2"]["misses"], second["l2"]["misses"]) == (64, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ideal-memory", "5"], "--ideal-memory 5: has no L2 to keep; leave out --warm-l2"),
        (
            ["--memory", "4G"],
            "--warm-l2 cannot be combined with --memory: the memory of several launches is not bounded",
        ),
    ],
)
def test_a_warm_l2_without_an_l2_or_with_a_limit_is_refused(run, options, message):
    status, out, err = run("simulate", "atax.1", *SMALL, "--warm-l2", *options, "--gpu", FERMI)
    assert (status, out, err) == (2, "", f"rdmodel: error: {message}\n")


@pytest.mark.parametrize("form", ["trace", "trace.trc"])
def test_a_written_trace_with_all_blocks_simulates_as_its_kernel(run, tmp_path, form):
    path = str(tmp_path / form)
    assert run("trace", "atax.1", *SMALL, "--all", "-o", path, "--gpu", FERMI)[0] == 0
    status, out, _ = run("simulate", path, "--json", "--gpu", FERMI)
    assert status == 0
    from_file, from_kernel = json.loads(out), simulated("atax.1")[0].to_dict()
    assert "occupancy" in from_file  # it belongs to the command
    del from_file["occupancy"]
    # A .trc file says neither how many instructions are between two accesses nor which loads they need.
    alike = ["transactions", "stores"] if form == "trace.trc" else [*without_times(from_file)][:-1]
    assert {name: from_file[name] for name in alike} == {name: from_kernel[name] for name in alike}


def test_a_block_that_a_file_does_not_hold_is_an_error_as_for_predict(run, tmp_path):
    path = str(tmp_path / "some")
    run("trace", "atax.1", *SMALL, "-o", path, "--gpu", FERMI)
    status, out, err = run("simulate", path, "--gpu", FERMI)
    assert (status, out) == (2, "")
    assert err == "rdmodel: error: block 1 is not in the trace of atax.1: it holds 1 of 2 blocks\n"
    assert run("simulate", path, "--blocks", "1", "--gpu", FERMI)[0] == 0


BAD = {
    "simulat atax.1": "did you mean 'simulate'",
    "simulate": "the following arguments are required: KERNEL_OR_FILE",
    "simulate ataks.1": "did you mean 'atax.1'",
    "simulate gone.trc": "gone.trc: no such file",
    "simulate atax.1 --shed gto": "unknown argument '--shed'; did you mean '--sched'",
    "simulate atax.1 --definition paper": "unknown argument '--definition'",
    "simulate atax.1 --model-sms all": "unknown argument '--model-sms'",
    "simulate atax.1 --threads 512": "unknown argument '--threads'",
    "simulate atax.1 --latency 100:5": "unknown argument '--latency'",
    "simulate atax.1 --hit-latency 5": "unknown argument '--hit-latency'",
    "simulate atax.1 --cta waves": "unknown argument '--cta'",
    "simulate atax.1 --seeds 3": "unknown argument '--seeds'",
    "simulate atax.1 --ablation": "unknown argument '--ablation'",
    "simulate atax.1 --stores": "unknown argument '--stores'; did you mean '--no-stores'",
    "predict atax.1 --ideal-memory 4": "unknown argument '--ideal-memory'",
    "simulate atax.1 --json --csv": "not allowed with argument",
    "simulate atax.1 --sched random": "unknown sched 'random'; known: lrr, gto, two-level, old",
    "simulate atax.1 --sched two_level": "did you mean 'two-level'",
    "simulate atax.1 --allocate fil": "did you mean 'fill'",
    "simulate atax.1 --ideal-memory -1": "memory=-1: must be at least 0",
    "simulate atax.1 --ideal-memory ideal": "'ideal' is not a whole number",
    "simulate atax.1 --ideal-memory nan": "'nan' is not a whole number",
    "simulate atax.1 --memory 400": "'400' is not a size with a unit, such as 512M or 2G; "
    "--ideal-memory takes a number of cycles",
    "simulate atax.1 --sms 0": "sms=0: must be at least 1",
    "simulate atax.1 --blocks -2": "blocks=-2: must be at least 1",
    "simulate atax.1 --seed -1": "seed=-1: must be at least 0",
    "simulate atax.1 --set core.shed=gto": "did you mean 'core.sched'",
    "simulate atax.1 --set core.sched=gtoo": "did you mean 'gto'",
    "simulate atax.1 --set core.schedulers=5": "schedulers=5: must be at most 4",
    "simulate atax.1 --set l2.slices=0": "slices=0: must be at least 1",
    "simulate atax.1 --set dram.row=100": "dram.row=100: is not a multiple of l1.line",
    "simulate atax.1 --mshr 0": "mshrs=0: must be at least 1",
    "simulate atax.1 --gpu gtx470-16k --metrics ncu": "l1.sector=128: Nsight Compute counts sectors of 32 bytes",
    "simulate atax.1 --gpu gtx47-16k": "did you mean 'gtx470-16k'",
    "simulate atax.1 --set max_threads=128": "a block cannot be resident: it needs 256 threads",
    "simulate atax.1 --block 2000": "2000 threads",
    "simulate atax.1 --set core.schedulers=1 --set max_warps=80 --set max_threads=2560 --set max_blocks=10 "
    "--set registers=131072": "core.schedulers=1: 80 resident warps exceed the limit of 64 per scheduler",
}


@pytest.mark.parametrize("line", BAD)
def test_a_mistake_gives_status_2_and_one_clear_line(run, line):
    status, out, err = run(*line.split())
    assert (status, out) == (2, "")
    assert BAD[line] in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "command",
    [
        "simulate",
        "simulate --json",
        "simulate --csv",
        "compare --definition hardware",
        "policies --policies swl:warps=1",
    ],
)
def test_a_kernel_that_accesses_no_memory_gives_counters_of_zero(run, tmp_path, command):
    rd.save(make_trace([[[]]], warps=1), tmp_path / "empty")
    name, *options = command.split()
    status, out, _ = run(name, str(tmp_path / "empty"), "--gpu", FERMI, *options)
    assert status == 0
    if command == "simulate":
        assert re.search(r"cycles +0 +0\.000 ms", out)
        assert "L1 miss rate: no loads" in out
    if command == "policies":
        assert "1.000" in out


def test_a_run_that_cannot_go_on_gives_status_1(run, monkeypatch):
    def fail(*_, **__):
        raise SimulationError("atax.1, cycle 7: nothing can happen any more: SM 0 waits")

    monkeypatch.setattr(simulate_command, "simulate", fail)
    status, out, err = run("simulate", "atax.1", *SMALL, "--gpu", FERMI)
    assert (status, out) == (1, "")
    assert err == "rdmodel: error: atax.1, cycle 7: nothing can happen any more: SM 0 waits\n"


# ---- around a run


def test_progress_is_one_line_on_a_terminal_and_is_wiped(run, monkeypatch):
    assert run("simulate", "atax.1", *SMALL, "--check", "--gpu", FERMI)[2] == ""
    monkeypatch.setattr(progress_line, "monotonic", itertools.count().__next__)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, out, err = run("simulate", "atax.1", *SMALL, "--check", "--csv", "--gpu", FERMI)
    assert "\r\x1b[Katax.1: block 2 of 2, " in err
    assert "\n" not in err
    assert err.endswith("\r\x1b[K")
    assert out.count("\n") == 2


def test_asking_for_help_loads_no_numpy():
    # Time is not asserted; what costs it is.
    code = (
        "import sys, contextlib; from rdmodel.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['simulate', '--help'])\n"
        "print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"
    assert "--ideal-memory N" in done.stdout
