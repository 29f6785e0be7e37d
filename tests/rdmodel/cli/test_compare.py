"""`rdmodel compare` and `rdmodel calibrate`: their forms of output, their options, and what they refuse."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rdmodel as rd
import tracegen
from rdmodel import presets
from rdmodel.cli import compare_command, progress_line
from rdmodel.common.progress import stage
from rdmodel.comparison.compare import DEFINITIONS
from rdmodel.errors import SimulationError
from rdmodel.gpu.config import LatencyConfig
from tests.support.builders import make_gpu
from tests.support.commands import SIZES, SMALL, timeless, without_times
from tests.support.presets import FERMI
from tracegen.kernel_library.suites import SUITES

NAMES = ["atax.1", "bicg.1"]


def compared(*names: str, **options: object) -> list[rd.Comparison]:
    return [rd.compare(tracegen.kernel(name, **SIZES), gpu=FERMI, **options) for name in names]


# ---- forms of output


def test_json_of_one_kernel_is_the_object_that_the_library_returns(run):
    status, out, err = run("compare", "atax.1", *SMALL, "--json", "--seed", "3", "--gpu", FERMI)
    assert (status, err) == (0, "")
    same = json.loads(json.dumps(compared("atax.1", seed=3)[0].to_dict()))
    assert timeless(json.loads(out)) == timeless(same)


def test_json_of_several_kernels_has_them_and_their_agreement(run):
    _, out, _ = run("compare", *NAMES, *SMALL, "--json", "--gpu", FERMI)
    plain, results = json.loads(out), compared(*NAMES)
    assert [one["kernel"] for one in plain["comparisons"]] == NAMES
    assert plain["agreement"] == {name: rd.agreement(results, name).to_dict() for name in DEFINITIONS}


def test_csv_has_a_row_for_each_kernel(run):
    _, out, _ = run("compare", *NAMES, *SMALL, "--csv", "--gpu", FERMI)
    for row, result in zip(csv.DictReader(io.StringIO(out)), compared(*NAMES), strict=True):
        assert without_times(row) == without_times({name: str(value) for name, value in result.to_row().items()})


def rows_of(text: str) -> dict[str, list[str]]:
    """Return the rows of the first table, by what stands in front."""
    table = text.split("\n\n")[1]
    return {label: cells for label, *cells in (re.split(r"\s{2,}", line.strip()) for line in table.splitlines())}


def test_the_text_of_one_kernel_has_every_share_and_error(run):
    (result,) = compared("atax.1", latency=LatencyConfig(lat_min=400, sigma=90))
    status, out, err = run("compare", "atax.1", *SMALL, "--latency", "400:90", "--gpu", FERMI)
    assert (status, err) == (0, "")
    assert out.startswith(
        "atax.1 NX=64 NY=64 on gtx470-16k, simulated and predicted\n14 SMs, scheduler lrr: 2 of 2 blocks, seed 0\n"
        "latency of a miss 400 + |N(0, 90)|, of a hit 20 (paper: 0)\n\n"
    )
    rows = rows_of(out)
    assert rows["of 4,224 loads"] == ["simulated", "hardware", "error", "paper", "error"]
    for label in ("hits", "pending hits", "misses", "compulsory", "capacity", "associativity"):
        name = label.replace(" ", "_")
        wanted = [f"{100 * result.simulated[name]:.2f} %"]
        for definition in DEFINITIONS:
            wanted.append(f"{100 * result.predicted(definition)[name]:.2f} %")
            wanted.append(f"{result.errors(definition)[name]:+.2f}".replace("+0.00", "0.00").replace("-0.00", "0.00"))
        assert rows[label] == wanted


def test_the_text_of_several_kernels_has_a_line_each_and_a_summary_per_definition(run):
    results = compared(*NAMES, blocks=1)
    _, out, _ = run("compare", *NAMES, *SMALL, "--blocks", "1", "--gpu", FERMI)
    rows = rows_of(out)
    assert rows["kernel"] == ["loads", "simulated", "hardware", "error", "paper", "error"]
    for result in results:
        cells = rows[result.kernel]
        assert cells[:2] == [f"{result.simulation.loads:,}", f"{100 * result.simulation.miss_rate:.2f} %"]
        assert cells[2] == f"{100 * result.predictions['hardware'].miss_rate:.2f} %"
    for definition in DEFINITIONS:
        error = rd.agreement(results, definition).mean_absolute_error
        assert f"\n{definition}: mean absolute error {error:.2f} points over 2 kernels\n  largest: " in out


def test_one_definition_has_its_columns_alone(run):
    _, out, _ = run("compare", "atax.1", *SMALL, "--definition", "paper", "--gpu", FERMI)
    assert rows_of(out)["of 4,224 loads"] == ["simulated", "paper", "error"]
    both = json.loads(
        run("compare", "atax.1", *SMALL, "--definition", "paper", "--definition", "hardware", "--json")[1],
    )
    assert list(both["predictions"]) == ["paper", "hardware"]


def test_a_plot_is_drawn_beside_the_output(run, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.svg"
    status, out, _ = run("compare", *NAMES, *SMALL, "--csv", "--plot", str(path), "--gpu", FERMI)
    assert status == 0
    assert out.count("\n") == 3
    assert path.read_text().startswith("<?xml")


# ---- options


def test_every_option_reaches_the_simulator_and_the_model(run):
    options = (
        "--gpu gtx470-48k --set core.hit_latency=7 --l1 16K:4:128 --index bxor --mshr inf --mshr-per-warp 6 "
        "--mshr-merge 8 --sched gto --allocate fill --sms 3 --blocks 5 --check --seed 4 --latency 50:6"
    )
    sizes = ("--param", "NX=512", "--param", "NY=8", "--block", "64")
    status, out, err = run("compare", "atax.1", *sizes, *options.split(), "--json", "--gpu", FERMI)
    assert (status, err) == (0, "")
    plain = json.loads(out)
    simulated, predicted = plain["simulation"]["config"], plain["predictions"]["hardware"]["config"]
    assert simulated["gpu"] == predicted["gpu"]
    l1 = {"size": 16384, "ways": 4, "index": {"name": "bxor"}, "mshrs": None, "mshr_per_warp": 6, "mshr_merge": 8}
    assert {name: simulated["gpu"]["l1"][name] for name in l1} == l1
    assert simulated["gpu"]["l1"]["allocate"] == "fill"
    for name, value in {"sms": 3, "blocks": 5, "sched": "gto"}.items():
        assert simulated["options"][name] == predicted["options"][name] == value
    assert plain["latency"] == {"lat_min": 50, "sigma": 6.0, "hit_latency": 7}
    assert predicted["options"]["hit_latency"] == 7
    assert (plain["seed"], predicted["seed"]) == (4, 4)


def test_a_check_is_passed_on(run, monkeypatch):
    seen = []
    compare = compare_command.compare
    monkeypatch.setattr(
        compare_command, "compare", lambda *a, **given: [seen.append(given["check"]), compare(*a, **given)][1]
    )
    run("compare", "atax.1", *SMALL, "--check", "--gpu", FERMI)
    run("compare", "atax.1", *SMALL, "--gpu", FERMI)
    assert seen == [True, False]


@pytest.mark.parametrize(
    ("options", "fitted"),
    [
        ("", None),
        ("--sms 14", None),
        ("--set name=mine --set latency.sigma=3", None),
        ("--latency 10:2", None),
        ("--set calibrated.sigma=7 --set l2.slices=4", None),
        ("--sms 2", (2, 5)),
        ("--set l2.slices=4", (14, 4)),
        ("--l1 48K:6:128", (14, 5)),
        ("--latency 10", None),
        ("--latency 10 --mshr 32", (14, 5)),
    ],
)
def test_latencies_are_fitted_once_where_the_machine_is_not_the_calibrated_one(run, monkeypatch, options, fitted):
    seen = []

    def fit(gpu: rd.GPU, **_: object) -> rd.Calibration:
        seen.append((gpu.sms, gpu.l2.slices))
        latency = LatencyConfig(lat_min=77, sigma=8, hit_latency=9)
        return rd.Calibration(gpu=gpu.name, latency=latency, misses=1, error=0, patterns={})

    monkeypatch.setattr("rdmodel.comparison.compare.calibrate", fit)
    status, out, _ = run("compare", *NAMES, *SMALL, *options.split(), "--json", "--gpu", FERMI)
    assert status == 0
    assert seen == ([] if fitted is None else [fitted])
    kept = presets.gpu("gtx470-16k").calibrated
    lat_min, sigma = (kept.lat_min, kept.sigma) if fitted is None else (77, 8)
    lat_min = 10 if "10" in options else lat_min
    sigma = {"--latency 10:2": 2, "--set calibrated.sigma=7 --set l2.slices=4": 7}.get(options, sigma)
    for one in json.loads(out)["comparisons"]:
        assert (one["latency"]["lat_min"], one["latency"]["sigma"]) == (lat_min, sigma)


def test_a_recorded_trace_compares_as_its_kernel(run, tmp_path):
    path = str(tmp_path / "atax")
    assert run("trace", "atax.1", *SMALL, "--all", "-o", path, "--gpu", FERMI)[0] == 0
    _, out, _ = run("compare", path, "--json", "--gpu", FERMI)
    assert json.loads(out)["errors"] == compared("atax.1")[0].to_dict()["errors"]


# ---- suites


def test_a_suite_is_compared_at_its_sizes_and_can_be_cut_to_some_kernels(run, monkeypatch):
    sizes = {"atax.1": {"NX": 64, "NY": 32}, "bicg.1": {"NX": 32, "NY": 64}, "gemm": {"NI": 32, "NJ": 32, "NK": 32}}
    monkeypatch.setitem(SUITES, "polybench", sizes)
    _, out, _ = run("compare", "--suite", "polybench", "--json", "--definition", "hardware", "--gpu", FERMI)
    found = {one["kernel"]: one["simulation"]["config"]["trace"]["params"] for one in json.loads(out)["comparisons"]}
    assert found == sizes
    _, out, _ = run("compare", "--suite", "polybench", "gemm", "atax.1", "--csv", "--gpu", FERMI)
    assert [row["kernel"] for row in csv.DictReader(io.StringIO(out))] == ["gemm", "atax.1"]
    one = json.loads(run("compare", "--suite", "polybench", "gemm", "--json", "--gpu", FERMI)[1])
    assert one["kernel"] == "gemm"


@pytest.mark.parametrize("form", ["--json", "--csv", "--check"])
@pytest.mark.parametrize(
    ("stop", "status", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (SimulationError("k, cycle 7: stuck"), 1, "k, cycle 7: stuck"),
        (rd.TraceError("the modelled blocks of k hold no loads"), 2, "the modelled blocks of k hold no loads"),
    ],
)
def test_what_is_finished_comes_out_even_if_the_rest_cannot(run, monkeypatch, form, stop, status, said):
    compare = compare_command.compare

    def stopping(trace, *given, **options):
        if trace.launch.kernel == "bicg.1":
            raise stop
        return compare(trace, *given, **options)

    monkeypatch.setattr(compare_command, "compare", stopping)
    found, out, err = run("compare", "atax.1", "bicg.1", "atax.2", *SMALL, form, "--gpu", FERMI)
    assert (found, err) == (status, f"rdmodel: error: {said}\n")
    if form == "--json":
        assert [one["kernel"] for one in json.loads(out)["comparisons"]] == ["atax.1"]
    elif form == "--csv":
        assert [row["kernel"] for row in csv.DictReader(io.StringIO(out))] == ["atax.1"]
    else:
        assert "over 1 kernel\n" in out
    assert run("compare", "bicg.1", *SMALL, "--gpu", FERMI)[:2] == (status, "")


# ---- mistakes


BAD = {
    "compar atax.1": "did you mean 'compare'",
    "compare": "KERNEL_OR_FILE: is missing; name a kernel or a file, or --suite NAME",
    "compare atax.1 ataks.2": "did you mean 'atax.2'",
    "compare gone.trc": "gone.trc: no such file",
    "compare --suite polibench": "did you mean 'polybench'",
    "compare --suite polybench atax.3": "unknown kernel of the suite polybench: 'atax.3'; did you mean 'atax.",
    "compare --suite polybench atax.1 --param NX=4": "--param: --suite polybench is a suite, which has its own sizes",
    "compare --suite polybench --block 32": "--block: --suite polybench is a suite",
    "compare --suite polybench --kernel k": "--kernel: --suite polybench is a suite",
    "compare atax.1 --definition papr": "did you mean 'paper'",
    "compare atax.1 --sched random": "unknown sched 'random'; known: lrr, gto, two-level, old",
    "compare atax.1 --latency 5:x": "'x' is not a finite number",
    "compare atax.1 --latency -5:3": "lat_min=-5: must be at least 0",
    "compare atax.1 --latency 5:-3": "sigma=-3.0: must be a finite number",
    "compare atax.1 --memory 5": "unknown argument '--memory'",
    "compare atax.1 --no-stores": "unknown argument '--no-stores'",
    "compare atax.1 --seeds 4": "unknown argument '--seeds'; did you mean '--seed'",
    "compare atax.1 --sms 0": "sms=0: must be at least 1",
    "compare atax.1 --blocks 0": "blocks=0: must be at least 1",
    "compare atax.1 --seed -1": "seed=-1: must be at least 0",
    "compare atax.1 --json --csv": "not allowed with argument",
    "compare atax.1 --plot a.gif": "plot='a.gif': must end in .svg, .png, .pdf",
    "compare atax.1 --plot gone/a.svg": "plot='gone/a.svg': there is no folder 'gone'",
    "compare atax.1 --set l2.slises=3": "did you mean 'l2.slices'",
    "compare atax.1 --set calibrated.sigma=nan": "calibrated.sigma",
    "calibrate gtx47-16k": "did you mean 'gtx470-16k'",
    "calibrate --measured gone.txt": "gone.txt: No such file or directory",
    "calibrate --measured .": ".: is a folder, must be a regular file",
    "calibrate --seed -1": "seed=-1: must be at least 0",
    "calibrate --set dram.bank=3": "did you mean 'dram.banks'",
    "calibrate --csv": "unknown argument '--csv'",
}


@pytest.mark.parametrize("line", BAD)
def test_a_mistake_gives_status_2_and_one_clear_line_before_the_work(run, monkeypatch, line):
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("rdmodel.comparison.compare.simulate", never)
    monkeypatch.setattr("rdmodel.comparison.compare.predict", never)
    monkeypatch.setattr("rdmodel.comparison.calibrate.simulate", never)
    status, out, err = run(*line.split())
    assert (status, out) == (2, "")
    assert BAD[line] in err
    assert err.count("\n") == 1


def test_without_matplotlib_a_plot_is_refused_before_the_work(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(compare_command, "compare", None)
    status, out, err = run("compare", "atax.1", "--plot", str(tmp_path / "a.svg"), "--gpu", FERMI)
    assert (status, out) == (2, "")
    assert "pip install 'rdmodel[plot]'" in err


@pytest.mark.parametrize(
    "line",
    [
        "compare atax.1 --param NX=64 --param NY=64 --latency 50:5 --definition hardware",
        "policies atax.1 --param NX=64 --param NY=64 --policies swl:warps=1 --jobs 1",
        "tiles atax.1 --param NX=64 --param NY=64 --tile block=32,64 --no-cache",
    ],
)
def test_a_full_disk_keeps_the_old_plot_and_the_printed_results(run, monkeypatch, tmp_path, line):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    plot = tmp_path / "a.svg"
    plot.write_text("old")
    monkeypatch.setattr(Path, "write_bytes", full)
    status, out, err = run(*line.split(), "--plot", str(plot))
    assert status == 1
    assert err == f"rdmodel: error: plot={str(plot)!r}: cannot be written: No space left on device\n"
    assert "atax.1" in out
    assert plot.read_text() == "old"
    assert list(tmp_path.iterdir()) == [plot]


# ---- progress


def test_progress_is_a_bar_over_kernels_and_is_wiped(run, monkeypatch):
    monkeypatch.setattr(progress_line, "monotonic", itertools.count().__next__)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, out, err = run("compare", *NAMES, *SMALL, "--check", "--csv", "--gpu", FERMI)
    lines = err.split("\r\x1b[K")[1:]
    assert lines[-1] == ""
    drawn = r"\[#*\.*\] kernel [12] of 2, (atax|bicg)\.1: \d+ %, \d+ s(, about [^,]+ left)?"
    assert all(re.fullmatch(drawn, line) for line in lines[:-1])
    assert "\n" not in err
    assert out.count("\n") == 3


def test_the_bar_grows_from_kernel_to_kernel():
    bar = compare_command.KernelProgress(2)
    bar.kernel = "atax.1"
    lengths = []
    for kernel in range(2):
        bar.finished = kernel
        for part in range(3):
            told = stage(lambda *at: lengths.append(bar.describe(*at).count("#")), part, 3)
            told(0, 4)
            told(4, 4)
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (0, progress_line.BAR_WIDTH)


def test_asking_for_help_loads_no_numpy():
    code = (
        "import sys, contextlib; from rdmodel.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['compare', '--help'])\n"
        "print('numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\n"
    assert "--suite polybench" in done.stdout


# ---- calibrate


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(presets.dumps(make_gpu()))
    return str(path)


def test_calibrate_prints_the_fit_and_a_table_that_can_be_pasted(run, small):
    status, out, err = run("calibrate", small, "--seed", "2")
    assert (status, err) == (0, "")
    found = rd.calibrate(make_gpu(), seed=2)
    latency = found.latency
    assert out.startswith(f"{found.misses:,} L1 miss latencies, simulated on small\n")
    assert rows_of(out)["stream"][0] == f"{found.patterns['stream']['min']:,}"
    assert f"latency of a miss {latency.lat_min} + |N(0, {latency.sigma:g})|, of a hit 20\n" in out
    assert f"between the distributions {found.error:.3f} " in out
    table = tomllib.loads(out[out.index("[calibrated]") :])
    assert LatencyConfig(**table["calibrated"]) == latency


def test_calibrate_as_json_is_what_the_library_returns(run, small):
    _, out, _ = run("calibrate", small, "--set", "l2.latency=300", "--json")
    gpu = rd.presets.gpu(small)
    changed = gpu.replace(l2=type(gpu.l2)(**{**gpu.to_dict()["l2"], "latency": 300}))
    assert json.loads(out) == json.loads(json.dumps(rd.calibrate(changed).to_dict()))


@pytest.mark.parametrize("text", ["100\n110\n130\n", "100, 110\n\n130", "100 110\t130", "1e2,110.0,130,"])
def test_measured_latencies_are_read_between_spaces_commas_and_lines(run, tmp_path, text):
    path = tmp_path / "measured.txt"
    path.write_text(text)
    status, out, _ = run("calibrate", FERMI, "--measured", str(path), "--json")
    assert status == 0
    assert json.loads(out) == json.loads(json.dumps(rd.calibrate(gpu=FERMI, measured=[100, 110, 130]).to_dict()))
    assert "3 L1 miss latencies, measured\n" in run("calibrate", "--measured", str(path))[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"100\n\n1o0\n", ":3: '1o0' is not a latency: a number from 0 to 2^40"),
        (b"100 nan", ":1: 'nan' is not a latency"),
        (b"100\n-3", ":2: '-3' is not a latency"),
        (b"1 inf", ":1: 'inf' is not a latency"),
        (b"1\n1e13", ":2: '1e13' is not a latency"),
        (b" \n,\n", ": holds no latencies"),
        (b"\xff\xfe\x00", ": is not a text file"),
    ],
)
def test_a_bad_file_of_latencies_is_told_with_its_line(run, tmp_path, text, message):
    path = tmp_path / "measured.txt"
    path.write_bytes(text)
    status, out, err = run("calibrate", "--measured", str(path))
    assert (status, out) == (2, "")
    assert err.startswith(f"rdmodel: error: {path}{message}")
    assert err.count("\n") == 1
