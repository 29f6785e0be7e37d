"""Commands and functions without a GPU take the default one, and that of the paper for its definition."""

from __future__ import annotations

import json
import re

import pytest

import rdmodel as rd
import tracegen
from rdmodel.cli.arguments import COMMANDS, command_parser
from rdmodel.errors import ConfigError
from rdmodel.presets import DEFAULT_GPU, PAPER_GPU
from tests.support.commands import SIZES, SMALL
from tests.support.paths import ROOT

ATAX = tracegen.kernel("atax.1", **SIZES)
TILES = {"block": [(32, 1, 1)]}


def ranked(**options: object) -> rd.Ranking:
    return rd.rank_tiles(lambda tile: ATAX, TILES, n_jobs=1, **options)


FUNCTIONS = {
    "predict": lambda: rd.predict(ATAX),
    "estimate": lambda: rd.estimate(ATAX),
    "rank_tiles": ranked,
    "sweep": lambda: rd.sweep(ATAX, n_jobs=1).rows[0].result,
    "report": lambda: rd.report(ATAX, ablation=False, what_ifs={}).gpu,
    "simulate": lambda: rd.simulate(ATAX),
    "locality": lambda: rd.locality(ATAX).simulation,
    "compare": lambda: rd.compare(ATAX).simulation,
    "contest": lambda: rd.contest(ATAX, [], n_jobs=1).simulations[0]["none"],
}
PAPER_FUNCTIONS = {
    "predict": lambda: rd.predict(ATAX, definition="paper"),
    "estimate": lambda: rd.estimate(ATAX, definition="paper"),
    "rank_tiles": lambda: ranked(definition="paper", objective="misses"),
    "sweep": lambda: rd.sweep(ATAX, n_jobs=1, definition=["hardware", "paper"]).rows[0].result,
    "report": lambda: rd.report(ATAX, ablation=False, what_ifs={}, definitions=["hardware", "paper"]).gpu,
    "compare": lambda: rd.compare(ATAX, definitions=["paper"]).simulation,
}
"""Each returns a result with the name of its GPU, or the GPU."""


def name_of(found: object) -> str:
    return found.name if isinstance(found, rd.GPU) else found.gpu  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_without_a_gpu_takes_the_default_one(function):
    assert name_of(FUNCTIONS[function]()) == DEFAULT_GPU


@pytest.mark.parametrize("function", PAPER_FUNCTIONS)
def test_the_definition_of_the_paper_takes_its_gpu_unless_one_is_named(function):
    assert name_of(PAPER_FUNCTIONS[function]()) == PAPER_GPU


def test_a_named_gpu_with_sectors_is_refused_by_the_paper_and_one_that_works_is_named():
    with pytest.raises(ConfigError, match=rf"l1.sector=32: the definition 'paper' .*such as {PAPER_GPU}$"):
        rd.predict(ATAX, DEFAULT_GPU, definition="paper")
    with pytest.raises(ConfigError, match=r"the definition 'paper' fetches whole lines"):
        rd.compare(ATAX, "v100", definitions=["paper"])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_names_the_default_gpu(command):
    text = " ".join(command_parser(command).format_help().split())
    if "--gpu NAME" in text or command == "calibrate":
        assert f"(default: {DEFAULT_GPU}" in text


@pytest.mark.parametrize(
    ("argv", "gpu"),
    [
        (["predict", "atax.1", *SMALL], DEFAULT_GPU),
        (["predict", "atax.1", *SMALL, "--definition", "paper"], PAPER_GPU),
        (["mrc", "atax.1", *SMALL, "--order", "paper"], PAPER_GPU),
        (["sweep", "atax.1", *SMALL, "--vary", "definition=hardware,paper", "--no-cache", "--jobs", "1"], PAPER_GPU),
        (["tiles", "gemm.tiled", "--tile", "TI=8", "--no-cache"], DEFAULT_GPU),
        (["report", "atax.1", *SMALL, "--definition", "paper", "--no-what-if"], PAPER_GPU),
    ],
)
def test_a_command_without_a_gpu_takes_that_of_its_definition(run, argv, gpu):
    status, out, err = run(*argv, "--json")
    assert (status, err) == (0, "")
    assert set(re.findall(r'"(?:name|gpu)": "((?:gtx|a100)[^"]*)"', out)) == {gpu}


def test_a_report_on_the_gpu_of_the_paper_names_it_in_its_command_lines(run):
    _, out, _ = run("report", "atax.1", *SMALL, "--definition", "hardware", "--definition", "paper", "--json")
    lines = [line for part in json.loads(out)["kernels"][0]["commands"].values() for line in part]
    assert lines
    assert all(f"--gpu {PAPER_GPU}" in line for line in lines)


def test_a_comparison_leaves_out_a_definition_that_cannot_model_the_gpu_and_says_so(run):
    status, out, err = run("compare", "atax.1", *SMALL, "--json")
    assert (status, list(json.loads(out)["predictions"])) == (0, ["hardware"])
    assert err.startswith("rdmodel: definition paper is left out: l1.sector=32: ")


def test_a_contest_without_names_has_all_policies_on_the_default_gpu_too(run):
    status, out, err = run("policies", "atax.1", *SMALL, "--jobs", "1", "--json")
    names = [one["name"] for one in json.loads(out)["combinations"]]
    assert (status, err) == (0, "")
    assert names[:2] == ["none", "swl:best"]
    assert {"streaming-bypass", "pd", "abyp", "apcm", "mrpb", "dwt-pric", "apcm-swl"} < set(names)
    assert list(rd.contest(ATAX, n_jobs=1).names) == names


def test_a_sampled_curve_of_all_lines_is_the_exact_one_on_the_default_gpu(run):
    argv = ("mrc", "atax.1", *SMALL, "--csv")
    exact, sampled = (run(*argv, *sample)[1].splitlines() for sample in ((), ("--sample", "1")))
    assert exact[0] == "lines,bytes,miss_ratio"
    assert [line.split(",")[:3] for line in sampled[1:]] == [line.split(",") for line in exact[1:]]


def test_one_module_names_the_default_gpus():
    named = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "rdmodel").rglob("*.py")
        if re.search(rf'= "({DEFAULT_GPU}|{PAPER_GPU})"', path.read_text())
    ]
    assert named == ["rdmodel/gpu/default.py"]
