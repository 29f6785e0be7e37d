"""Parts of a sweep: together they are the whole sweep, and their answers files are merged."""

from __future__ import annotations

import json

import pytest

import rdmodel as rd
from rdmodel.errors import ConfigError
from tests.support.presets import FERMI
from tests.support.sweep_grids import ATAX, BICG, LINEAR

GRID = {"ways": [1, 2, 4], "sched": ["random", "lrr"]}
WHOLE = rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, **GRID)


@pytest.mark.parametrize("shards", [1, 2, 5, 20])
def test_the_rows_of_all_shards_are_those_of_the_whole_sweep(shards):
    parts = [rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, shard=(i + 1, shards), **GRID) for i in range(shards)]
    assert [len(part.rows) for part in parts] == [len(WHOLE.rows[i::shards]) for i in range(shards)]
    assert [row for part in parts for row in part.rows] == [row for i in range(shards) for row in WHOLE.rows[i::shards]]


def test_results_of_shards_are_merged_and_stored(tmp_path, calls):
    files = [tmp_path / f"{i}.sqlite" for i in (1, 2, 3)]
    for i, file in enumerate(files, 1):
        rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, shard=(i, 3), answers=file, **GRID)
    calls.clear()
    merged = rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, answers=tmp_path / "all.sqlite", merge=files, **GRID)
    assert (merged, merged.kept, calls) == (WHOLE, 12, [])
    assert rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, merge=files[1:], **GRID).kept == 8
    for file in files:
        file.unlink()
    assert rd.sweep([ATAX, BICG], LINEAR, n_jobs=1, answers=tmp_path / "all.sqlite", **GRID).kept == 12


def test_a_shard_without_a_point_that_can_be_run_is_no_error(tmp_path):
    part = rd.sweep(ATAX, FERMI, n_jobs=1, ways=[4, 3], shard=(2, 2))
    assert [row.result for row in part.rows] == [None]
    assert "is not a multiple of line x ways" in part.rows[0].reason
    assert part.to_dict()["shard"] == [2, 2]


@pytest.mark.parametrize("shard", [(0, 3), (4, 3), (1, 0), (1.0, 3), "1/3", (1,)])
def test_a_shard_that_is_none_of_n_is_refused(shard):
    with pytest.raises(ConfigError, match=r"^shard"):
        rd.sweep(ATAX, FERMI, shard=shard, seed=[0, 1])


def test_a_file_that_cannot_be_merged_is_refused_by_name(tmp_path):
    (tmp_path / "notes").write_text("no answers\n" * 1000)
    with pytest.raises(ConfigError, match=r"^merge=.*notes: is not a cache of answers"):
        rd.sweep(ATAX, FERMI, merge=[tmp_path / "notes"], seed=[0, 1])
    with pytest.raises(ConfigError, match=r"^merge=.*gone: there is no such file"):
        rd.sweep(ATAX, FERMI, merge=[tmp_path / "gone"], seed=[0, 1])
    with pytest.raises(ConfigError, match="must be a list of answers files"):
        rd.sweep(ATAX, FERMI, merge="notes", seed=[0, 1])
    assert (tmp_path / "notes").read_text() == "no answers\n" * 1000


def test_the_command_runs_and_merges_shards(run, tmp_path):
    command = ["sweep", "atax.2", "--param", "NX=64", "--param", "NY=64", "--gpu", FERMI, "--vary", "seed=0,1"]
    files = [str(tmp_path / name) for name in ("one", "two", "all")]
    for i in (1, 2):
        status, out, _ = run(*command, "--shard", f"{i}/2", "--cache", files[i - 1], "--jobs", "1")
        assert (status, f", shard {i} of 2\n" in out) == (0, True)
    status, out, _ = run(*command, "--cache", files[2], "--merge", files[0], "--merge", files[1], "--json")
    assert (status, json.loads(out)["kept"]) == (0, 2)
    status, out, _ = run(*command, "--shard", "3/3", "--no-cache")
    assert (status, out) == (0, "no point of the shard has a result\n")
    for wrong in ("3", "0/3", "4/3", "a/b"):
        status, _, err = run(*command, "--shard", wrong)
        assert (status, f"argument --shard: '{wrong}' is not I/N" in err) == (2, True)
