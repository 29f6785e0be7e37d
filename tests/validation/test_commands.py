"""Every command of the validation and every benchmark starts: `--help` prints its options."""

from __future__ import annotations

import re
import runpy

import pytest

from tests.support.paths import ROOT

COMMANDS = sorted(ROOT.glob("validation/*/__main__.py"))
MODULES = {".".join(path.relative_to(ROOT).parent.parts): path for path in COMMANDS}
PARTS = (
    "hardware.other_gpus",
    "h100.placed",
    "h100.plan",
    "h100.schedulers",
    "h100.times",
    "h100.tuning",
    "h100.tuning_plan",
    "liger.predict",
)
MODULES |= {f"validation.{name}": ROOT / "validation" / f"{name.replace('.', '/')}.py" for name in PARTS}
BENCHMARKS = sorted(path.name for path in ROOT.glob("benchmarks/*.py") if path.name != "children.py")
PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("validation/**/*.md"), *ROOT.glob("benchmarks/*.md")]


def help_of(monkeypatch, capsys, run):
    monkeypatch.setattr("sys.argv", ["program", "--help"])
    with pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("path", MODULES.values(), ids=MODULES)
def test_a_command_of_the_validation_starts(monkeypatch, capsys, path):
    assert "--help" in help_of(monkeypatch, capsys, lambda: runpy.run_path(str(path), run_name="__main__"))


@pytest.mark.parametrize("script", BENCHMARKS)
def test_a_benchmark_starts(monkeypatch, capsys, script):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    path = str(ROOT / "benchmarks" / script)
    assert "--json" in help_of(monkeypatch, capsys, lambda: runpy.run_path(path, run_name="__main__"))


def test_pages_name_commands_that_exist():
    text = "\n".join(page.read_text() for page in PAGES)
    assert set(re.findall(r"python -m (validation[\w.]*)", text)) <= MODULES.keys()
    assert set(re.findall(r"python benchmarks/(\w+\.py)", text)) <= set(BENCHMARKS)


def test_the_page_of_benchmarks_lists_all_of_them():
    text = (ROOT / "benchmarks" / "README.md").read_text()
    assert set(re.findall(r"^\| `(\w+\.py)` \|", text, re.M)) == set(BENCHMARKS)
