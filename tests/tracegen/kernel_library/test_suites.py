"""Test suites: every kernel is in one, with sizes that it has, and the command line knows all suites."""

from __future__ import annotations

import pytest

import tracegen
from rdmodel.cli import arguments, option_groups
from tests.support.doc_tables import checked_table, quoted
from tracegen.kernel_library.suites import ALL, CLASSIC, IRREGULAR, POLYBENCH, SUITES, TILED


def test_every_kernel_is_in_one_of_four_suites_and_all_of_them_are_in_all():
    parts = (POLYBENCH, CLASSIC, IRREGULAR, TILED)
    assert sum(map(len, parts)) == len(ALL)
    assert set(ALL) == {spec.name for spec in tracegen.kernels()}
    assert set(IRREGULAR) >= {spec.name for spec in tracegen.kernels() if spec.inputs}


@pytest.mark.parametrize("name", IRREGULAR)
def test_the_sizes_of_irregular_kernels_are_possible_and_give_every_sm_of_a_gpu_blocks(name):
    assert tracegen.kernel(name, **IRREGULAR[name]).launch.blocks >= 32


def test_suites_of_studies_are_parts_of_all_with_its_sizes():
    for name in ("khairy", "jia", "koo", "wang"):
        assert SUITES[name].items() <= ALL.items()
    applications = {name: list(dict.fromkeys(one.partition(".")[0] for one in SUITES[name])) for name in SUITES}
    assert len(applications["khairy"]) == 21  # table 2 has 22; there is no neural network
    assert len(applications["jia"]) == 12
    assert applications["wang"][:2] == ["atax", "bicg"]
    assert len(applications["wang"]) == 10
    assert applications["koo"] == ["bfs", "kmeans", "iix", "wc", "color", "sssp", "spmv", "ss", "cc", "srad"]


def test_the_documentation_counts_them():
    documented = [(quoted(name)[0], int(kernels)) for name, kernels, _ in checked_table("comparison.md", "suites")]
    assert documented == [(name, len(kernels)) for name, kernels in SUITES.items()]


@pytest.mark.parametrize("command", ["compare", "policies"])
def test_the_command_line_knows_every_suite(command):
    option = arguments.build_parser()[1][command]._option_string_actions["--suite"]
    assert option.metavar == "|".join(SUITES)
    assert tuple(SUITES) == option_groups.SUITES
    for name in SUITES:
        assert option.type(name) == name
