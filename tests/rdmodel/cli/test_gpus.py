"""``rdmodel gpus``: the list by architecture, GPUs like another one, and the options about carve-outs."""

from __future__ import annotations

import json
import os

import pytest

import rdmodel as rd
import tracegen
from rdmodel.gpu.config import gpu_from_dict
from rdmodel.presets import ARCHITECTURES

SMALL = ("--param", "NX=512", "--param", "NY=512")


def test_the_list_is_grouped_by_architecture(run):
    _, out, _ = run("gpus")
    lines = out.splitlines()
    starts = [line.split()[0] for line in lines[1:-2] if not line.startswith(" ")]
    assert starts == list(ARCHITECTURES)
    assert "192 KB *" in next(line for line in lines if " a100-80g " in line)
    listed = json.loads(run("gpus", "--json")[1])
    order = list(dict.fromkeys(gpu["architecture"] for gpu in listed))
    assert order == list(ARCHITECTURES)
    assert sorted(gpu["name"] for gpu in listed) == rd.presets.names()


def test_a_gpu_is_printed_under_any_of_its_names(run):
    assert run("gpus", "NVIDIA A100-PCIE-40GB")[1] == run("gpus", "a100-40g")[1]
    assert json.loads(run("gpus", "rtx 4090", "--json")[1]) == rd.presets.gpu("rtx4090").to_dict()


def test_a_gpu_like_another_goes_to_stdout_or_into_a_file(run, tmp_path):
    _, out, _ = run("gpus", "--like", "a100", "--set", "sms=112", "--set", "name=ours")
    path = tmp_path / "ours.toml"
    status, said, _ = run("gpus", "--like", "a100", "--set", "sms=112", "-o", str(path))
    assert (status, said) == (0, f"{path}: wrote ours; use it as --gpu {path}\n")
    ours = rd.presets.gpu(path)
    assert ours == rd.presets.gpu("a100").replace(name="ours", sms=112)
    assert (ours.sources["sms"], ours.sources["dram.row"][:15]) == ("set by the user", "as in a100-80g:")
    (tmp_path / "printed.toml").write_text(out)
    assert rd.presets.gpu(tmp_path / "printed.toml") == ours
    assert run("predict", "atax.1", *SMALL, "--gpu", str(path))[0] == 0
    assert run("gpus", "--like", "a100", "-o", str(path))[0] == 2
    assert run("gpus", "--like", "a100", "-o", str(path), "--overwrite")[0] == 0
    assert sorted(os.listdir(tmp_path)) == ["ours.toml", "printed.toml"]


BAD = {
    "gpus --set sms=3": "--set: needs a GPU; give NAME, or --like NAME for a new one",
    "gpus -o x.toml": "--output: needs a GPU",
    "gpus v100 --like a100": "--like a100: cannot be combined with NAME=v100",
    "gpus --like a100 -o x.json": "output='x.json': must end in .toml",
    "gpus --like a100 -o nowhere/x.toml": "there is no folder 'nowhere'",
    "gpus --like a101x --set sms=3": "unknown GPU 'a101x'; did you mean",
    "gpus --like a100 --set l1.sector=48": "l1.sector=48: must be a power of two from 4 to 128",
    "gpus --like a100 --set l2.fetch=48": "l2.fetch=48: must be a multiple of l2.sector=32",
    "predict atax.1 --gpu titan-x": "is the name of several GPUs; choose titan-x-maxwell or titan-x-pascal",
    "predict atax.1 --gpu v100 --carveout 12K": "l1.carveout=12288: must be one of auto, fit, max-l1, max-shared, 0",
    "predict atax.1 --gpu v100 --carveout most": "l1.carveout='most': must be one of auto, fit, max-l1, max-shared",
    "predict atax.1 --gpu p100 --carveout auto --set l1.unified=24K": "l1.carveouts=(): must hold the choices",
    "predict atax.1 --gpu gtx470-16k --carveout 16K": "l1.carveout=16384: needs unified",
    "predict atax.1 --l1 16K:4:128:48": "l1.sector=48: must be a power of two",
    "simulate atax.1 --gpu gtx480-khairy --set l1.sector=32": "l1.stores='free': the simulator knows 'update' and",
    "simulate atax.1 --gpu v100 --set l2.sector=64 --set l2.fetch=64": "l2.sector=64: the simulator needs that of the",
    "simulate atax.1 --gpu v100 --set l1.stores=step": "l1.stores='step': the simulator knows 'free', 'evict',",
    "compare atax.1 --gpu h100 --set l1.stores=evict": "l1.stores='evict': the simulator knows 'update' and",
    "locality atax.1 --gpu a100 --set l2.sector=64": "l2.sector=64: the simulator needs that of the L1",
    "calibrate a100 --set l2.partition_latency=-1": "l2.partition_latency=-1: must be at least 0",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_answered_with_the_field_the_value_and_what_is_allowed(run, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*line.split())
    assert (status, out) == (2, "")
    assert BAD[line] in err
    assert err.startswith("rdmodel: error: ")
    assert err.count("\n") == 1


def test_the_output_says_how_the_memory_of_an_sm_is_divided(run):
    _, out, _ = run("predict", "atax.1", *SMALL, "--gpu", "v100", "--carveout", "64K")
    assert out.splitlines()[2] == "L1 of 64 KB: 128 KB per SM, of which shared memory has 64 KB"
    plain = json.loads(run("predict", "atax.1", *SMALL, "--gpu", "a100", "--json")[1])
    assert plain["l1"] == {"size": 176 << 10, "carveout": 16 << 10, "sector": 32}
    again = rd.predict(tracegen.kernel("atax.1", NX=512, NY=512), gpu=gpu_from_dict(plain["config"]["gpu"]))
    assert again.misses.to_dict() == plain["misses"]
    fermi = json.loads(run("predict", "atax.1", *SMALL, "--gpu", "gtx470-16k", "--json")[1])
    assert fermi["l1"] == {"size": 16384, "carveout": None, "sector": 128}


def test_the_geometry_of_the_l1_may_have_sectors(run):
    plain = json.loads(run("predict", "atax.1", *SMALL, "--l1", "48K:6:128:32", "--json")[1])
    assert plain["l1"] == {"size": 49152, "carveout": None, "sector": 32}
