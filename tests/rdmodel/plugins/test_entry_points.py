"""Installed packages offer policies and index functions by entry point."""

from __future__ import annotations

import json
import os

import pytest

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import gpu_from_dict
from rdmodel.gpu.overrides import override
from rdmodel.plugins.entry_points import installed
from rdmodel.policies import find_index_function, find_policy, index_function, registry
from rdmodel.policies.combinations import combination
from tests.support.commands import run
from tests.support.compiled_policies import compiled
from tests.support.presets import FERMI

MODULE = '''
from dataclasses import dataclass
from typing import ClassVar
from rdmodel.policies import IndexCode, IndexFunction, Policy

LIBRARY = {library!r}

@dataclass(frozen=True)
class Solo(Policy):
    """One warp of each scheduler may load (an example)."""
    name: ClassVar[str] = "solo"
    kind: ClassVar[str] = "throttling"
    def settings(self):
        return {{"rule": "oldest", "limit": 1}}

@dataclass(frozen=True)
class Folded(IndexFunction):
    """Exclusive or of the set bits with bits above them (an example)."""
    lift: int = 5
    name: ClassVar[str] = "folded"
    def compile(self, sets, line_size):
        bits = (sets - 1).bit_length()
        return IndexCode(0, sets, tuple(1 << i | 1 << (i + self.lift) for i in range(bits)))
'''

ENTRY_POINTS = """
[rdmodel.policies]
solo = {package}:Solo
lru = {package}:LIBRARY
swl = {package}:Solo
alias = {package}:Solo
number = {package}:Folded
absent = {package}:Nothing
missing = not_a_module_of_anyone:Policy
[rdmodel.index_functions]
folded = {package}:Folded
wrong = {package}:Solo
"""


def install(folder, package="their_package", entry_points=ENTRY_POINTS):
    """Write a package with its metadata into a folder."""
    (folder / f"{package}.py").write_text(MODULE.format(library=str(compiled("lru.c").table.path)))
    info = folder / f"{package}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(entry_points.format(package=package))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package for this test."""
    install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "LOADED", {})  # other tests load policies of the same names
    installed.cache_clear()
    yield tmp_path
    installed.cache_clear()


@pytest.mark.usefixtures("package")
def test_policies_and_index_functions_of_a_package_are_known_by_name():
    trace = tracegen.kernel("atax.1", NX=64, NY=64)
    solo, one = (rd.simulate(trace, FERMI, sms=1, policies=[name]) for name in ("solo", "swl:warps=1"))
    assert solo.cycles == one.cycles
    assert find_policy("lru") is compiled("lru.c")
    assert find_policy("swl").__module__ == "rdmodel.policies.swl"
    gpu = override(rd.presets.gpu("gtx470-16k"), {"l1.index": "folded", "l1.index.lift": "7"})
    assert gpu.l1.index == index_function("folded", lift=7)
    assert override(gpu, {"l1.index.lift": "9"}).l1.index == index_function("folded", lift=9)
    for text in ("folded", "index:folded"):
        assert combination(f"solo+{text}").index == find_index_function("folded")()
    assert gpu_from_dict(gpu.to_dict()) == gpu
    found = rd.sweep(trace, gpu="gtx470-16k", index=["fermi", "folded"])
    assert [row.result is not None for row in found.rows] == [True, True]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("find", "name", "message"),
    [
        (find_policy, "alias", "rdmodel.policies: 'alias' leads to a policy called 'solo'; must be equal"),
        (find_policy, "number", "must be a subclass of Policy, or the path of a library"),
        (find_policy, "absent", "'absent' of their_package 1.5 cannot be loaded: AttributeError"),
        (find_policy, "missing", "'missing' of their_package 1.5 cannot be loaded: ModuleNotFoundError"),
        (find_policy, "soso", "unknown policy 'soso'; did you mean 'solo'"),
        (find_index_function, "wrong", "must be a subclass of IndexFunction"),
        (find_index_function, "foldet", "unknown index function 'foldet'; did you mean 'folded'"),
    ],
)
def test_a_package_that_cannot_give_what_it_offers_is_named(find, name, message):
    with pytest.raises(ConfigError, match=message):
        find(name)


def test_a_name_that_two_packages_offer_belongs_to_none(package):
    install(package, "another_package", "[rdmodel.policies]\nsolo = {package}:Solo\n")
    installed.cache_clear()
    with pytest.raises(
        ConfigError, match=r"'solo' is offered by another_package 1\.5, their_package 1\.5; exactly one"
    ):
        find_policy("solo")


def test_lists_and_commands_know_the_policies_of_packages(package):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])}
    rows = {row["name"]: row for row in json.loads(run(["policies", "--list", "--json"], env=env).stdout)}
    assert rows["solo"]["description"] == "One warp of each scheduler may load"
    assert rows["solo"]["source"] == "an example"
    assert rows["lru"]["kind"] == "admission" and rows["index:folded"]["kind"] == "index"
    assert (
        rows["missing"]["kind"] == "broken" and "their_package 1.5 cannot be loaded" in rows["missing"]["description"]
    )
    done = run(["simulate", "vectoradd", "--sms", "1", "--policy", "solo+folded", "--json"], env=env)
    assert json.loads(done.stdout)["config"]["options"]["policies"] == [{"name": "solo"}]
    assert "solo" in run(["policies"], env=env).stdout
