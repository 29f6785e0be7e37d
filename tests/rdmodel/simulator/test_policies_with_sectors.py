"""The policies that run where lines have sectors, and those that are refused there, as the page lists them."""

from __future__ import annotations

import re

import pytest

from rdmodel import presets, simulate
from rdmodel.errors import ConfigError
from rdmodel.policies import POLICIES
from tests.support.builders import make_trace
from tests.support.paths import ROOT
from tests.support.scenarios import load, store

TRACE = make_trace([[[load(line), store(line)] for line in range(4)]], warps=4)
GPU = presets.gpu("t4").replace(sms=1)
OPTIONS = {"swl": ":warps=1"}


def listed(heading: str) -> set[str]:
    """Return the policies in the first column of the table with a heading, on the page of the policies."""
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    table = page.split(heading)[1].split("\n\n")[0]
    return set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE))


KNOWN, REFUSED = listed("| policy | meaning with sectors |"), listed("| policy | open question |")


def test_the_page_lists_every_policy_once():
    assert KNOWN.isdisjoint(REFUSED)
    assert {*POLICIES, "index"} == KNOWN | REFUSED


@pytest.mark.parametrize("name", sorted(KNOWN - {"index"}))
def test_a_policy_with_a_meaning_runs(name):
    assert simulate(TRACE, GPU, policies=name + OPTIONS.get(name, ""), check=True).transactions == 4


def test_an_index_function_runs():
    assert simulate(TRACE, GPU, policies="index:pmod", check=True).transactions == 4


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_policy_without_one_is_refused_by_name(name):
    with pytest.raises(ConfigError, match=f"policies: {name}: not defined where lines are fetched by sector"):
        simulate(TRACE, GPU, policies=name)
