"""Build the compiled policies of tests/data/plugins, each once per process."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from textwrap import dedent

from rdmodel.plugins.build import build_plugin
from rdmodel.policies.compiled import CompiledPolicy
from rdmodel.policies.registry import load_policy
from tests.support.paths import ROOT

SOURCES = ROOT / "tests" / "data" / "plugins"


@cache
def folder() -> Path:
    """Return a folder for libraries; they stay loaded until the process ends."""
    return Path(mkdtemp(prefix="rdmodel-plugins-"))


@cache
def built(name: str) -> Path:
    """Return the library of a source in tests/data/plugins."""
    return build_plugin(SOURCES / name, folder() / f"{Path(name).stem}.so")


def compiled(name: str) -> type[CompiledPolicy]:
    """Return the policy of a source in tests/data/plugins, which is known by its name from then on."""
    return load_policy(built(name))


def build_text(path: Path, text: str) -> Path:
    """Write a source and return its library."""
    path.write_text(dedent(text))
    return build_plugin(path)
