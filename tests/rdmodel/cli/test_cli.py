"""The command line: the contract with scripts, and what a person sees when something is wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from typing import get_args, get_type_hints

import pytest

import rdmodel as rd
import tracegen
from rdmodel.cli.engine_options import DEFINITION_OPTIONS, add_schedule
from rdmodel.cli.parser import Parser
from rdmodel.gpu.config import CoreSched
from rdmodel.model.options import Options

SMALL = ["--param", "NX=64", "--param", "NY=64", "--block", "64"]


def test_predict_prints_the_object_of_the_contract_and_agrees_with_the_library(run):
    status, out, err = run("predict", "atax.1", *SMALL, "--json", "--seed", "3")
    assert (status, err) == (0, "")
    plain = json.loads(out)
    head = (
        "kernel gpu definition seed sms_modelled transactions hits latency_misses misses stalls "
        "miss_rate latency_miss_rate trace_seconds seconds"
    )
    assert list(plain)[:14] == head.split()
    assert list(plain["misses"]) == ["compulsory", "capacity", "associativity", "total"]
    assert list(plain)[-1] == "config"
    trace = tracegen.kernel("atax.1", NX=64, NY=64, block=(64, 1, 1))
    same = rd.predict(trace, seed=3).to_dict()
    assert plain.keys() - same.keys() == {"occupancy", "work"}
    for name in same:
        if "seconds" not in name:
            assert plain[name] == json.loads(json.dumps(same[name])), name


def test_several_kernels_give_a_list_and_csv_a_row_each(run):
    _, out, _ = run("predict", "atax.1", "bicg.1", *SMALL, "--json")
    assert [p["kernel"] for p in json.loads(out)] == ["atax.1", "bicg.1"]
    _, out, _ = run("predict", "atax.1", "bicg.1", *SMALL, "--gpu", "gtx470-16k", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["kernel"] for row in rows] == ["atax.1", "bicg.1"]
    for row in rows:
        parts = ("hits", "latency_misses", "misses_total")
        assert int(row["transactions"]) == sum(int(row[name]) for name in parts)


def test_the_text_names_the_causes_and_says_what_the_rate_leaves_out(run):
    _, out, _ = run("predict", "atax.1", *SMALL)
    for word in ("compulsory", "capacity", "associativity", "L1 miss rate", "leaves out", "stores"):
        assert word in out


def test_every_common_option_reaches_the_model(run):
    options = (
        "--gpu gtx470-48k --set l1.ways=6 --l1 16K:4:128 --index bxor --mshr inf --mshr-per-warp 6 --mshr-merge 8 "
        "--latency 150:10 --hit-latency 7 --sched gto --schedulers 2 --sms 3 --model-sms 2 --threads 128 --cta waves "
        "--blocks 5 --stores evict --stall head --full-set bypass --step instruction --stagger 5 --gap "
        "--first-touch-factor 2 --no-divergence --seeds 2"
    )
    sizes = ("--param", "NX=512", "--param", "NY=8", "--block", "64")
    status, out, err = run("predict", "atax.1", *sizes, *options.split(), "--json")
    assert (status, err) == (0, "")
    plain = json.loads(out)
    config, l1 = plain["config"]["options"], plain["config"]["gpu"]["l1"]
    assert (l1["size"], l1["ways"], l1["index"], l1["mshrs"]) == (16384, 4, {"name": "bxor"}, None)
    assert (l1["mshr_per_warp"], l1["mshr_merge"]) == (6, 8)
    expected = {
        "lat_min": 150, "sigma": 10.0, "hit_latency": 7, "sched": "gto", "schedulers": 2, "sms": 3, "model_sms": 2,
        "threads": 128, "cta": "waves", "blocks": 5, "stores": "evict", "stall": "head", "full_set": "bypass",
        "step": "instruction", "stagger": 5, "gap": True, "first_touch_factor": 2.0, "divergence": False,
    }  # fmt: skip
    assert {name: config[name] for name in expected} == expected
    assert plain["sms_modelled"] == 2
    assert plain["seeds"]["n"] == 2


def test_options_of_an_engine_take_all_values_that_the_library_takes():
    kinds = get_type_hints(Options)
    for option in ("--cta", "--effects", "--sched", "--stall", "--full-set", "--step"):
        kind = kinds[option.removeprefix("--").replace("-", "_")]
        assert DEFINITION_OPTIONS[option]["type"].allowed == [*get_args(kind)]
    parser = Parser()
    add_schedule(parser)
    assert all(parser.parse_args(["--sched", sched]).sched == sched for sched in get_args(CoreSched))


def test_paper_options_and_bare_stores(run):
    status, out, _ = run(
        "predict", "atax.1", *SMALL, "--definition", "paper", "--effects", "before", "--no-clip", "--stores", "--json"
    )
    assert status == 0
    options = json.loads(out)["config"]["options"]
    assert (options["effects"], options["clip"], options["stores"]) == ("before", False, "allocate")
    assert (options["lat_min"], options["sigma"], options["hit_latency"]) == (100, 5.0, 0)


def test_blocks_are_said_to_be_only_the_first_of_the_grid(run):
    _, out, _ = run("predict", "atax.1", "--param", "NX=512", "--param", "NY=8", "--block", "64", "--blocks", "2")
    assert "only the first 2 of the grid" in out


def test_ablation_and_breakdown_are_printed(run):
    _, out, _ = run("predict", "atax.1", *SMALL, "--ablation", "--breakdown", "paper")
    for word in ("without", "divergence", "cta", "mshr", "latency"):
        assert word in out


@pytest.mark.parametrize("form", ["trace", "trace.trc"])
def test_a_written_trace_predicts_as_its_kernel(run, tmp_path, form):
    path = str(tmp_path / form)
    assert run("trace", "atax.2", *SMALL, "-o", path)[0] == 0
    options = ["--definition", "paper", "--json"]
    from_file = json.loads(run("predict", path, *options)[1])
    from_kernel = json.loads(run("predict", "atax.2", *SMALL, *options)[1])
    for name in ("transactions", "hits", "latency_misses", "misses", "stalls"):
        assert from_file[name] == from_kernel[name]


def test_info_describes_a_trace(run, tmp_path):
    path = str(tmp_path / "t")
    run("trace", "atax.1", *SMALL, "-o", path)
    _, out, _ = run("info", path)
    assert "atax.1" in out
    assert "footprint" in out
    plain = json.loads(run("info", path, "--json")[1])
    assert plain["instructions"]["load"] == 2 * 64 * 2


def test_trace_holds_only_the_blocks_that_predict_models_unless_all_are_asked_for(run, tmp_path):
    sizes = ["--param", "NX=512", "--param", "NY=4", "--block", "32", "--sms", "4"]
    run("trace", "atax.1", *sizes, "-o", str(tmp_path / "some"))
    run("trace", "atax.1", *sizes, "-o", str(tmp_path / "all"), "--all")
    assert list(rd.load(tmp_path / "some").blocks) == [0, 4, 8, 12]
    assert list(rd.load(tmp_path / "all").blocks) == list(range(16))
    status, _, err = run("predict", str(tmp_path / "some"), "--sms", "4", "--model-sms", "2")
    assert status == 2
    assert "block 1 is not in the trace" in err


def test_mrc_is_the_curve_of_the_histogram(run):
    plain = json.loads(run("mrc", "atax.1", *SMALL, "--sizes", "128,16K", "--json")[1])
    far = sum(n for d, n in plain["histogram"].items() if int(d) >= 128 or d == "-1")
    assert plain["curve"][1] == {"lines": 128, "bytes": 16384, "miss_ratio": far / plain["transactions"]}
    _, out, _ = run("mrc", "atax.1", *SMALL)
    assert "first touch" in out


def test_a_gpu_that_is_printed_can_be_loaded_again(run, tmp_path):
    _, out, _ = run("gpus", "gtx470-48k", "--set", "sms=3")
    path = tmp_path / "mine.toml"
    path.write_text(out)
    assert rd.presets.gpu(path) == rd.presets.gpu("gtx470-48k").replace(sms=3)
    assert run("predict", "atax.1", *SMALL, "--gpu", str(path))[0] == 0


MATRIX = "%%MatrixMarket matrix coordinate real general\n% a comment\n3 3 4\n1 1 2.5\n1 3 1\n2 2 7\n3 1 1\n"


@pytest.mark.parametrize(
    ("name", "param", "content"),
    [
        ("spmv", "matrix", MATRIX),
        ("spmv.warp", "matrix", MATRIX.replace("7", "-7e-2")),
        ("color.1", "graph", MATRIX),
        ("wc", "text", "one fish\ntwo fish"),
    ],
)
def test_an_input_of_a_kernel_can_be_a_file(run, tmp_path, name, param, content):
    path = tmp_path / "5"  # a name that is no number for it
    path.write_text(content)
    status, out, err = run("predict", name, "--param", f"{param}={path}", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["transactions"] == rd.predict(tracegen.kernel(name, **{param: str(path)})).transactions
    assert f" {param}=5 on " in run("predict", name, "--param", f"{param}={path}")[1]


@pytest.mark.parametrize(
    ("line", "content", "said"),
    [
        ("spmv --param matrix=a.mtx", None, "spmv: matrix: a.mtx: No such file or directory"),
        ("spmv --param matrix=.", None, "spmv: matrix: .: is a folder, must be a regular file"),
        ("spmv --param matrix=a.mtx", "1 2 3\n", "a.mtx:1: not a Matrix Market file (Not a Matrix Market file"),
        ("spmv --param matrix=a.mtx", MATRIX.replace("2 2 7", "2 two 7"), "a.mtx:6: not a Matrix Market file (Inv"),
        ("bfs.1 --param graph=a.mtx", MATRIX.replace("2 2 7", "2 4 7"), "bfs.1: graph: a.mtx:6: not a Matrix"),
        ("spmv --param matrix=a.mtx", MATRIX.replace("3 3 4", "3 3 5"), "a.mtx: not a Matrix Market file (Trunc"),
        ("spmv --param matrix=a.mtx", MATRIX.replace("3 3 4", f"3 3 {10**15}"), "a.mtx: a matrix of the declared size"),
        (
            "spmv --param matrix=a.mtx --param N=3",
            MATRIX,
            "N: cannot be combined with matrix: it describes generated data",
        ),
        ("sssp --param graph=a.mtx", MATRIX, "sssp: graph: weights must be positive whole numbers"),
        ("bfs.1 --param graph=a.mtx --param LEVEL=9", MATRIX, "LEVEL=9: the search from vertex 0 ends with level 1"),
        ("spmv --param text=a.mtx", MATRIX, "unknown size of spmv 'text'"),
        ("atax.1 --param matrix=a.mtx", MATRIX, "unknown size of atax.1 'matrix'; known: NX, NY"),
        ("spmv --param N=a.mtx", MATRIX, "param N='a.mtx': must be a whole number"),
        ("wc --param text=a.txt", None, "wc: text: a.txt: No such file or directory"),
        ("wc --param text=a.mtx", "", "wc: text: a text of 0 bytes"),
    ],
)
def test_a_file_that_is_no_input_of_the_kernel_is_refused_in_one_line(run, tmp_path, monkeypatch, line, content, said):
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "a.mtx").write_text(content)
    status, out, err = run("predict", *line.split())
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_kernels_are_listed_with_the_files_that_they_take(run):
    listed = {one["name"]: one["inputs"] for one in json.loads(run("kernels", "--json")[1])}
    assert (listed["atax.1"], listed["spmv"], listed["iix"]) == ([], ["matrix"], ["text"])
    assert " SEED=0 [matrix=FILE] " in run("kernels")[1]


def test_kernels_and_gpus_are_listed(run):
    _, out, _ = run("kernels")
    assert out.count("\n") == 1 + len(tracegen.kernels())
    assert {k["name"] for k in json.loads(run("kernels", "--json")[1])} >= {"gemm", "atax.1", "corr.corr"}
    assert "gtx570-16k" in run("gpus")[1]
    assert len(json.loads(run("gpus", "--json")[1])) == len(rd.presets.names())


HUGE = "99999999999999999999"
LONG = "9" * 5000

BAD = {
    "": "the following arguments are required: COMMAND",
    "predct atax.1": "did you mean 'predict'",
    "predict ataks.1": "did you mean 'atax.1'",
    "predict atax.1 --gpu gtx47-16k": "did you mean 'gtx470-16k'",
    "predict atax.1 --definiton paper": "did you mean '--definition'",
    "predict atax.1 --definition papr": "did you mean 'paper'",
    "predict atax.1 --set l1.sise=48K": "did you mean 'l1.size'",
    "predict atax.1 --set l1.size": "is not name=value",
    "predict atax.1 --l1 48000:4": "size=48000: is not a multiple of line x ways",
    "predict atax.1 --l1 24K:4 --index linear": "the number of sets must be a power of two, not 48",
    "predict atax.1 --l1 16K:0": "ways=0: must be at least 1",
    "predict atax.1 --l1 16K": "is not SIZE:WAYS:LINE",
    "predict atax.1 --latency -5:3": "lat_min=-5: must be at least 0",
    "predict atax.1 --latency 100:nan": "'nan' is not a finite number",
    "predict atax.1 --hit-latency -1": "hit_latency=-1: must be at least 0",
    "predict atax.1 --set latency.sigma=nan": "sigma='nan'",
    "predict atax.1 --index fermy": "did you mean 'fermi'",
    "predict atax.1 --mshr 0": "mshrs=0: must be at least 1",
    "predict atax.1 --mshr many": "mshrs='many'",
    "predict atax.1 --sched gto --definition paper": "sched='gto': only the definition 'hardware'",
    "predict atax.1 --no-clip": "clip=False: only the definition 'paper'",
    "predict atax.1 --param NZ=3": "did you mean 'NY'",
    "predict atax.1 --param NX=0": "NX=0: must be at least 1",
    "predict atax.1 --param NX=big": "must be a whole number",
    "predict atax.1 --block 2000": "2000 threads",
    "predict atax.1 --block 3;4": "is not X,Y,Z",
    "predict atax.1 --threads 100": "must be at least 256, the threads of one block",
    "predict atax.1 --model-sms 109": "model_sms=109: must be at most 108",
    "predict atax.1 --model-sms some": "is not a whole number",
    "predict atax.1 --seeds 0": "seeds=0",
    "predict atax.1 --seed -1": "seed=-1",
    "predict atax.1 --set max_threads=128": "a block cannot be resident: it needs 256 threads",
    "predict gone.trc": "gone.trc: no such file",
    "predict some/where": "some/where: no such file",
    "mrc atax.1 --sizes 100": "must be a multiple of the line size",
    "gpus gtx999": "unknown GPU 'gtx999'",
    # Numbers that Python reads, and that are no numbers here.
    f"predict atax.1 --seed {HUGE}": f"'{HUGE}' is not a whole number of at most 2^63 - 1",
    f"predict atax.1 --max-instructions {HUGE}": "a whole number of at most 2^63 - 1",
    f"predict atax.1 --max-instructions {LONG}": "a whole number of at most 2^63 - 1",
    f"predict atax.1 --memory {HUGE}G": f"'{HUGE}G' is too large: the largest size is 1048576T",
    f"predict atax.1 --memory {LONG}T": "is too large: the largest size is 1048576T",
    f"predict atax.1 --grid {HUGE}": "a whole number of at most 2^63 - 1",
    f"predict atax.1 --param NX={HUGE}": f"param NX='{HUGE}': must be a whole number of at most 2^63 - 1",
    f"predict atax.1 --set l1.size={LONG}": "a whole number of at most 2^63 - 1",
    "predict atax.1 --set l1.size=9223372036854775807K": "a whole number of at most 2^63 - 1",
    f"simulate atax.1 --policy swl:warps={LONG}": "a whole number of at most 2^63 - 1",
    f"mrc atax.1 --sizes 12800{HUGE}": "a whole number of at most 2^63 - 1",
    f"tiles gemm --tile BX={HUGE}": "a whole number of at most 2^63 - 1",
    "predict atax.1 --seed 3_2": "'3_2' is not a whole number",
    "predict atax.1 --seed \u0663": "'\u0663' is not a whole number",
    "predict atax.1 --block 3\u0662": "is not X,Y,Z",
    "predict atax.1 --latency 1_0:5": "'1_0' is not a whole number",
    "predict atax.1 --latency 10:5_0": "'5_0' is not a finite number",
    "predict atax.1 --sample-blocks .\u0661": "is not a finite number",
    "predict atax.1 --param NX=\u0663\u0662": "param NX='\u0663\u0662': must be a whole number",
    "predict atax.1 --param NX=3_2": "param NX='3_2': must be a whole number",
    "predict atax.1 --param NX=64 --param NX=32": "--param NX: is given twice; give it one value",
    "predict spmv --param matrix=a --param matrix=b": "--param matrix: is given twice",
    "tiles gemm --tile BX=1_6": "BX=1_6: must be a whole number",
    "tiles gemm --tile block=1_6x8": "must be a shape, such as 32x8",
}


@pytest.mark.parametrize("line", BAD)
def test_a_mistake_gives_status_2_and_one_clear_line(run, line):
    status, out, err = run(*line.split())
    assert (status, out) == (2, "")
    assert BAD[line] in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"blocksize: 32 1 1\n0 0 128 4\n0 0 12", "t.trc:3"),
        (b"blocksize: 32 1 1\n0 0 x 4\n", "t.trc:2"),
        (b"blocksize: 32 1 1\n0 0 nan 4\n", "t.trc:2"),
        (b"blocksize: 32 1 1\n0 0 -128 4\n", "t.trc:2"),
        (bytes(range(256)) * 20, "t.trc:1"),
    ],
)
def test_a_bad_file_gives_status_2_and_names_file_and_line(run, tmp_path, content, message):
    path = tmp_path / "t.trc"
    path.write_bytes(content)
    status, out, err = run("predict", str(path))
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_closed_pipe_is_no_error_message():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as broken:
        done = subprocess.run(
            [sys.executable, "-m", "rdmodel", "kernels"], stdout=broken, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == ""
