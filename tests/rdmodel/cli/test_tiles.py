"""`rdmodel tiles`: its tables, its files, the answers that are kept, and every mistake in one line."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest

import rdmodel as rd
import tracegen
from rdmodel.answers.store import Answers
from rdmodel.service.operations import question_of
from rdmodel.service.requests import read_request
from tests.support.presets import FERMI

SMALL = ("--param", "NI=64", "--param", "NJ=64", "--param", "NK=64")
ASK = ("tiles", "gemm.tiled", *SMALL, "--gpu", FERMI, "--tile", "TI=8,16,64", "--tile", "TJ=16,32")
TILES = {"TI": [8, 16, 64], "TJ": [16, 32]}


def make_trace(tile):
    return tracegen.affine_kernel("gemm.tiled", NI=64, NJ=64, NK=64, **tile)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RDMODEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def asked(run, *argv: str) -> str:
    status, out, err = run(*argv)
    assert (status, err) == (0, "")
    return out


def without_time(text: str) -> dict[str, object]:
    return {name: value for name, value in json.loads(text).items() if name != "seconds"}


# ---- what is printed


def test_the_table_has_the_best_tiles_and_says_what_became_of_the_others(run):
    ranking = rd.rank_tiles(make_trace, TILES, gpu=FERMI, objective="misses", top=2)
    lines = asked(run, *ASK, "--objective", "misses", "--top", "2").splitlines()
    assert lines[0] == "gemm.tiled on gtx470-16k: 6 tiles by misses, least first (quick)"
    assert re.split(r"  +", lines[2].strip()) == ["rank", "TI", "TJ", "misses", "at least", "at most", "L1 miss rate"]
    for line, one in zip(lines[3:5], ranking.tiles, strict=False):
        number = f"{one.value:,.0f}"
        cells = [str(one.rank), str(one.tile["TI"]), str(one.tile["TJ"]), number]
        assert line.split()[:4] == cells
        assert f"{100 * one.prediction.miss_rate:.2f} %" in line
    assert lines[6] == "4 more tiles"
    assert not ranking.pruned, "all tiles are small enough to be run completely"


def test_one_tile_is_not_called_tiles(run):
    out = asked(run, "tiles", "gemm.tiled", *SMALL, "--gpu", FERMI, "--tile", "TI=8")
    assert out.startswith("gemm.tiled on gtx470-16k: 1 tile by DRAM bytes")
    assert "more" not in out
    assert "1 more tile\n" in asked(run, "tiles", "gemm.tiled", *SMALL, "--tile", "TI=8,16", "--top", "1")


def test_json_is_what_the_ranking_is(run):
    ranking = rd.rank_tiles(make_trace, TILES, gpu=FERMI, objective="time", top=5, seed=3)
    printed = without_time(asked(run, *ASK, "--objective", "time", "--seed", "3", "--json"))
    wanted = without_time(json.dumps(ranking.to_dict()))
    assert printed == wanted
    assert "cached" not in printed


def test_csv_has_a_row_for_every_tile_those_that_cannot_run_included(run):
    out = asked(run, "tiles", "gemm", *SMALL, "--tile", "block=32x8,2048,8x8x2", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["block"] for row in rows} == {"32x8", "2048", "8x8x2"}
    assert list(rows[0])[:3] == ["block", "rank", "value"]
    assert [row["block"] for row in rows if row["reason"]] == ["2048"]
    assert "2048 threads" in rows[-1]["reason"]
    assert rows[-1]["value"] == ""


def test_tiles_that_cannot_run_are_below_the_table(run):
    out = asked(
        run,
        "tiles",
        "gemm.shared",
        *SMALL,
        "--gpu",
        FERMI,
        "--tile",
        "TI=16,128",
        "--tile",
        "TJ=128",
        "--tile",
        "TK=64",
    )
    assert "cannot run: TI=128 TJ=128 TK=64: a block cannot be resident: it needs 65536 bytes of shared memory" in out


def test_a_miss_rate_is_in_percent(run):
    out = asked(run, *ASK, "--objective", "miss_rate", "--effort", "exact")
    best = rd.rank_tiles(make_trace, TILES, gpu=FERMI, objective="miss_rate", effort="exact").best
    assert f"{100 * best.value:.2f} %" in out.splitlines()[3]


def test_a_heat_map_is_drawn_beside(run, tmp_path):
    pytest.importorskip("matplotlib")
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    asked(run, *ASK, "--plot", str(first))
    asked(run, *ASK, "--plot", str(second))
    assert first.read_bytes() == second.read_bytes()
    assert b">1.00</text>" in first.read_bytes()


def test_a_loop_nest_in_a_file_is_a_kernel(run, tmp_path):
    path = tmp_path / "nest.json"
    nest = {
        "name": "rows",
        "parameters": {"N": 64, "T": 32},
        "arrays": {"A": ["N", "N"]},
        "threads": ["N", "N"],
        "block": ["T", 4],
        "body": [{"if": ["x < N", "y < N"], "do": [{"load": "A", "at": ["x", "y"]}]}],
    }
    path.write_text(json.dumps(nest))
    out = asked(run, "tiles", str(path), "--tile", "T=4,8,16", "--param", "N=128", "--json")
    ranking = rd.rank_tiles(lambda tile: tracegen.affine_kernel(nest, N=128, **tile), {"T": [4, 8, 16]}, top=5)
    assert without_time(out) == without_time(json.dumps(ranking.to_dict()))


def test_the_machine_can_be_changed(run):
    one = without_time(asked(run, *ASK, "--json", "--gpu", "gtx480-khairy", "--set", "l2.size=16K"))
    gpu = rd.presets.gpu("gtx480-khairy")
    gpu = gpu.replace(l2=replace(gpu.l2, size=16384))
    ranking = rd.rank_tiles(make_trace, TILES, gpu, top=5)
    assert [tile["value"] for tile in one["tiles"]] == [tile.value for tile in ranking.tiles]


def test_only_tiles_that_meet_all_conditions_are_ranked(run):
    # NI is a size of the kernel: 64.
    printed = json.loads(asked(run, *ASK, "--where", "TI * TJ <= 512", "--where", "2 * TI <= NI", "--json"))
    found = [tuple(row["tile"].values()) for row in printed["tiles"]]
    assert sorted(found) == [(8, 16), (8, 32), (16, 16), (16, 32)]


def test_milliseconds_have_four_digits(run):
    table = asked(run, *ASK, "--objective", "time")
    values = [line.split()[3] for line in table.splitlines()[3:8]]
    assert values
    assert all(re.fullmatch(r"0\.0*[1-9]\d{3}", value) for value in values), values


# ---- answers that are kept


def test_an_answer_is_kept_and_the_same_the_next_time(run, cache, monkeypatch):
    first = asked(run, *ASK, "--json")
    monkeypatch.setattr("rdmodel.cli.tiles_command.compute", lambda *_: pytest.fail("is kept"))
    assert asked(run, *ASK, "--json") == first
    assert "1 more tile" in asked(run, *ASK, "--top", "5")
    with Answers() as answers:
        assert answers.path == str(cache / "answers.sqlite")
        assert len(answers) == 1


def test_the_service_has_the_same_question(run, monkeypatch):
    first = asked(run, *ASK, "--json")
    sizes = {"NI": 64, "NJ": 64, "NK": 64}
    fields = {"kernel": "gemm.tiled", "gpu": FERMI, "params": sizes, "tiles": TILES, "top": 5}
    with Answers() as answers:
        assert answers.get(question_of(read_request({"op": "rank", **fields}))) == json.loads(first)
        assert answers.get(question_of(read_request({"op": "rank", **fields, "top": 4}))) is None
    made_up = {"kernel": "mvt.1", "gpu": "gtx470-16k", "objective": "dram_bytes", "tiles": [], "infeasible": []}
    monkeypatch.setattr("rdmodel.cli.tiles_command.compute", lambda *_: made_up)
    asked(run, "tiles", "mvt.1", "--tile", "block=32,64", "--json", "--top", "1")
    with Answers() as answers:
        bare = {"op": "rank", "kernel": "mvt.1", "tiles": {"block": [[32], [64]]}}
        assert answers.get(question_of(read_request(bare))) == made_up


def test_another_question_has_another_answer(run):
    others = ("--seed", "1"), ("--objective", "time"), ("--gpu", "gtx480-khairy"), ("--top", "2")
    for count, more in enumerate([(), *others], 1):
        asked(run, *ASK, *more)
        with Answers() as answers:
            assert len(answers) == count, more


def test_no_answer_is_kept_without_a_cache(run, cache):
    asked(run, *ASK, "--no-cache")
    assert not cache.exists()


def test_a_cache_of_ones_own_is_used(run, cache, tmp_path):
    own = tmp_path / "own.sqlite"
    first = asked(run, *ASK, "--json", "--cache", str(own))
    assert asked(run, *ASK, "--json", "--cache", str(own)) == first
    assert own.exists()
    assert not cache.exists()


def test_a_file_that_is_no_cache_is_left_alone_and_done_without(run, tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("mine " * 1000)
    status, out, err = run(*ASK, "--json", "--cache", str(other))
    assert status == 0
    assert json.loads(out)["tiles"]
    assert err.count("\n") == 1
    assert "is not a cache of answers; left alone" in err
    assert other.read_text() == "mine " * 1000


def test_an_error_is_not_kept(run):
    assert run("tiles", "gemm.tiled", "--tile", "TI=0")[0] == 2
    with Answers() as answers:
        assert len(answers) == 0


# ---- mistakes

MISTAKES = {
    "gemm.tiled": "--tile: is missing; name sizes to choose from: --tile TI=8,16,32",
    "gemm.tiled --tile TI": "argument --tile: 'TI' is not name=value",
    "gemm.tiled --tile TI=": "argument --tile: 'TI=' is not name=value",
    "gemm.tiled --tile TI=x": "TI=x: must be a whole number",
    "gemm.tiled --tile TI=8,": "TI=: must be a whole number",
    "gemm.tiled --tile TI=8 --tile TI=16": "--tile TI: is given twice; name all sizes at once: TI=8,16",
    "gemm.tiled --tile TX=8": "unknown parameter of gemm.tiled 'TX'; did you mean 'TK' or 'TJ' or 'TI'?",
    "gemm.tiled --tile TI=8 --param TI=8": "--param TI: is a size of the tiles already: --tile TI",
    "gemm.tiled --tile TI=8 --param NI=8 --param NI=9": "--param NI: is given twice",
    "gemm.tiled --tile TI=8 --param NI=x": "NI=x: must be a whole number",
    "gemm.tiled --tile TI=8 --param NX=8": "unknown parameter of gemm.tiled 'NX'; did you mean",
    "gemm --tile block=32xx8": "block=32xx8: must be a shape, such as 32x8",
    "gemm --tile block=1x1x1x1": "must be a list of one to three whole numbers",
    "gemm --tile block=32x8 --block 8,8": "--block: is a size of the tiles already: --tile block",
    "gemm --tile block=0": "must be one to three numbers of at least 1",
    "gemm.tild --tile TI=8": "unknown kernel 'gemm.tild'; did you mean 'gemm.tiled'",
    "nest.json --tile TI=8": "nest.json: no such file",
    "./gemm --tile TI=8": "./gemm: no such file",
    "gemm.tiled --tile TI=8 --gpu gtx47": "unknown GPU 'gtx47'; did you mean",
    "gemm.tiled --tile TI=8 --objective tme": "unknown objective 'tme'; did you mean 'time'?",
    "gemm.tiled --tile TI=8 --effort quik": "unknown effort 'quik'; did you mean 'quick'?",
    "gemm.tiled --tile TI=8 --top 0": "top=0: must be at least 1",
    "gemm.tiled --tile TI=8 --jobs 0": "n_jobs=0: must be at least 1",
    "gemm.tiled --tile TI=8 --seed -1": "seed=-1: must be at least 0",
    "gemm.tiled --tile TI=8 --plot a.txt": "plot='a.txt': must end in .svg, .png, .pdf",
    "gemm.tiled --tile TI=8 --plot gone/a.svg": "there is no folder 'gone'",
    "gemm.tiled --tile TI=8 --json --csv": "argument --csv: not allowed with argument --json",
    "gemm.tiled --tile TI=8 --cache x --no-cache": "not allowed with argument --cache",
    "gemm.tiled --tile TI=8 --tiel TJ=8": "unknown argument '--tiel'; did you mean '--tile'",
    "gemm.tiled --tile TI=8 --grid 4": "--grid: gemm.tiled is not a CUDA program; it takes no such option",
    "gemm.tiled --tile TI=8 --block TI,8": "--block: 'TI,8' is not X,Y,Z, such as 16,16,1",
    "gemm.tiled --tile TI=8 --block 1,2,3,4": "'1,2,3,4' is not X,Y,Z, such as 16,16,1",
    "gemm.tiled --tile TI=8 --where TI": "'TI': is not a condition: must compare two expressions",
    "gemm.tiled --tile TI=8 --where TJ<4": "'TJ<4': unknown name 'TJ'; did you mean 'TI'?",
    "gemm.tiled --tile TI=8 --where TI<4": "must hold at least one tile that meets the condition",
    "gemm.tiled --tile TI=0": "none of 1 can run: gemm.tiled: TI=0: must be TI >= 1",
    "gemm.tiled --tile TI=4611686018427387904": "reaches numbers beyond 2^62",
    f"gemm.tiled --tile TI={10**30}": "must be a whole number of at most 2^63 - 1",
    "gemm.tiled --tile TI=8 --param NI=4611686018427387904": "must be at most 65535",
    "gemm.tiled --tile TI=8 --param NK=4611686018427387904": "end beyond address 2^63",
    f"gemm.tiled --tile TI={','.join(map(str, range(1, 100)))} --tile TJ={','.join(map(str, range(1, 100)))}": (
        "has more than 4096 tiles"
    ),
}


@pytest.mark.parametrize("line", MISTAKES, ids=lambda line: line[:60])
def test_a_mistake_is_one_line_and_status_2(run, line):
    status, out, err = run("tiles", *line.split())
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert MISTAKES[line] in err


def test_a_file_that_holds_no_loop_nest_is_refused(run, tmp_path):
    trace, broken = tmp_path / "a.trc", tmp_path / "a.json"
    trace.write_text("x")
    broken.write_text("{")
    forms = "must be the name of a kernel, a .json file with a loop nest, or a .cu file"
    assert forms in run("tiles", str(trace), "--tile", "T=8")[2]
    status, _, err = run("tiles", str(broken), "--tile", "T=8")
    assert status == 2
    assert "a.json" in err
    assert err.count("\n") == 1


def test_help_says_how_to_name_tiles(run):
    status, out, _ = run("tiles", "--help")
    assert status == 0
    for words in (
        "--tile NAME=VALUE,VALUE,...",
        "TI=8,16,32",
        "block=32x8,16x16",
        "--objective",
        "--plot",
        "--no-cache",
    ):
        assert words in out
    assert "tiles" in run("--help")[1]
