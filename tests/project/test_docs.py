"""The documentation says what is so: its sessions are run, its tables compared with the code, its links followed."""

from __future__ import annotations

import csv
import importlib.util
import json
import pkgutil
import re
import typing
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

import rdmodel
import tracegen
from rdmodel.errors import ConfigError
from rdmodel.gpu.overrides import override_keys
from rdmodel.model.options import Options
from rdmodel.service.protocol import CODES
from rdmodel.trace.storage import DTYPES
from tests.support.doc_tables import DOCS, checked_table, quoted
from tests.support.floors import FLOORS
from tests.support.paths import ROOT
from tracegen.formats import parquet


def script(name: str) -> ModuleType:
    """Return a script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


refresh = script("refresh")
notebooks = script("notebooks")
PAGES = refresh.pages()


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# ---- sessions and generated parts


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_prints_and_draws_is_what_the_program_prints_and_draws(page, tmp_path):
    text = page.read_text(encoding="utf-8")
    assert refresh.refresh(text, tmp_path) == text, "if the new output is right: python docs/refresh.py"
    for figure in re.findall(r"!\[[^\]]*\]\((\w+\.svg)\)", text):
        if (tmp_path / figure).exists():
            old, new = (words_of(folder / figure) for folder in (page.parent, tmp_path))
            assert old == new, f"if the new figure is right, copy what the page's command draws: {figure}"
    for example in re.findall(r"\]\(examples/(\w+\.html)\)", text):
        same = (page.parent / "examples" / example).read_bytes() == (tmp_path / example).read_bytes()
        assert same, f"if the new one is right, copy what the page's command writes: docs/examples/{example}"


@pytest.mark.parametrize("notebook", notebooks.notebooks(), ids=name_of)
def test_the_stored_outputs_of_a_notebook_are_those_of_its_cells(notebook):
    text = notebook.read_text(encoding="utf-8")
    assert notebooks.refresh(text) == text, "if the new output is right: python docs/notebooks.py"


def test_a_cell_of_a_notebook_shows_what_it_prints_and_the_value_of_its_last_line():
    cells = [{"cell_type": "code", "source": [line]} for line in ("print('a'); x = 2", "x + 1", "None")]
    found = json.loads(notebooks.refresh(json.dumps({"cells": [*cells, {"cell_type": "markdown"}]})))["cells"]
    printed, shown, nothing = (cell["outputs"] for cell in found[:3])
    assert printed == [{"name": "stdout", "output_type": "stream", "text": ["a\n"]}]
    assert shown[0]["data"] == {"text/plain": ["3"]}
    assert nothing == []
    assert [cell.get("execution_count") for cell in found] == [1, 2, 3, None]


def words_of(figure: Path) -> list[str]:
    """Return the words and numbers of a figure; its coordinates differ with the version of matplotlib."""
    return re.findall(r">([^<>]+)</text>", figure.read_text())


def test_old_output_is_replaced_and_a_page_shares_names_and_files():
    page = (
        "```python\n>>> x = 1\nold\n```\ntext\n```python\n>>> x + 1\n```\n```console\n$ echo a > f\nold\n$ cat f\n```\n"
    )
    wanted = (
        "```python\n>>> x = 1\n```\ntext\n```python\n>>> x + 1\n2\n```\n```console\n$ echo a > f\n$ cat f\na\n```\n"
    )
    assert refresh.refresh(page) == wanted
    assert refresh.refresh(wanted) == wanted


def test_empty_lines_and_errors_are_printed_as_doctest_reads_them():
    page = "```python\n>>> print('a\\n\\nb')\n>>> 1 / 0\n```\n"
    printed = refresh.refresh(page)
    assert "a\n<BLANKLINE>\nb\n" in printed
    assert "Traceback (most recent call last):\n    ...\nZeroDivisionError: division by zero\n" in printed
    assert refresh.refresh(printed) == printed


@pytest.mark.parametrize(
    "command",
    [
        "rdmodel predict gem 2>&1 | cut -c 1-30",
        "rdmodel predict gem --param 'NI=1|2' | head -1",
        'rdmodel kernels \\\n  "atax" | head -2 | sed "s/ a/ b/"',
    ],
)
def test_a_filter_reads_what_it_reads_from_a_pipe_of_the_shell(command, monkeypatch):
    found = refresh._run(command)
    monkeypatch.setattr(refresh, "main", None)
    assert found == refresh._run_shell(command) != ""


def test_other_fences_are_left_alone():
    page = "```sh\n$ false\n```\n```text\n>>> 1\n```\n"
    assert refresh.refresh(page) == page


def test_a_kernel_declared_on_a_page_is_gone_when_the_page_ends():
    declare = (
        "```python\n>>> from tracegen.kernel_library import Benchmark\n"
        '>>> b = Benchmark("page", {"N": 1}, lambda N: {"A": N})\n'
        ">>> @b.kernel(threads=lambda N: (N,))\n... def page_1(k, A): pass\n```\n"
    )
    refresh.refresh(declare)
    assert "page" not in {spec.name for spec in tracegen.kernels()}


@pytest.mark.parametrize(
    ("output", "masked"),
    [
        ("trace 0.02 s, model 12.70 s", "trace ... s, model ... s\n"),
        ('"seconds": 0.1,\n"trace_seconds": 1e-05\n', '"seconds": ...,\n"trace_seconds": ...\n'),
        ('{"seconds":0.1,"trace_seconds":1e-05}\n', '{"seconds":...,"trace_seconds":...}\n'),
        ("94.34 % of 2 transactions, 3 seeds\n", "94.34 % of 2 transactions, 3 seeds\n"),
        (
            "rdmodel: k: 8 registers per thread (estimated); ptxas tells them if it knows the GPU\nk on v100\n",
            "k on v100\n",
        ),
        ("rdmodel: registers per thread are estimated, since there is none\n", ""),
        ("rdmodel: k: 8 registers per thread (ptxas)\n", "rdmodel: k: 8 registers per thread (ptxas)\n"),
    ],
)
def test_times_and_estimated_registers_are_masked_and_nothing_else(output, masked):
    assert refresh.mask(output) == masked


def test_every_command_and_every_group_of_options_is_documented():
    text = (DOCS / "commands.md").read_text()
    for name in refresh.GENERATED:
        if name.startswith(("command ", "options of ")):
            assert f"<!-- generated: {name} -->" in text


# ---- tables


def other_value(name: str) -> object:
    """Return a value of an option that is not its default."""
    default = Options.__dataclass_fields__[name].default
    hint = typing.get_type_hints(Options)[name]
    if isinstance(default, bool):
        return not default
    if isinstance(default, str):
        return next(value for value in typing.get_args(hint) if value != default)
    return 3 if default is None else default + 1


def definitions_of(name: str) -> str:
    """Return which definitions take an option, as the table says it."""
    takes = []
    for definition in ("hardware", "paper"):
        # Several schedulers do not choose at random, which is what a single one does by default.
        more = {"sched": "lrr"} if (name, definition) == ("schedulers", "hardware") else {}
        try:
            Options(**{"definition": definition, name: other_value(name), **more})
        except ConfigError:
            continue
        takes.append(definition)
    return "both" if len(takes) == 2 else takes[0]


def test_the_table_of_options_has_every_option_with_its_default_and_definition():
    table = {
        quoted(name)[0]: (default, definition) for name, default, definition, _ in checked_table("model.md", "options")
    }
    assert list(table) == [field.name for field in fields(Options)]
    for field in fields(Options):
        default, definition = table[field.name]
        if field.default is None:
            assert default in ("the GPU's", "all")
        else:
            assert default == f"`{field.default!r}`"
        if field.name not in ("definition", "stores"):
            assert definition == definitions_of(field.name), field.name


def test_the_table_of_columns_is_the_native_format():
    table = {quoted(name)[0]: quoted(kind)[0] for name, kind, _, _ in checked_table("traces.md", "columns")}
    assert table == {f"{name}.npy": kind for name, kind in DTYPES.items()}


def test_the_table_of_columns_is_the_parquet_form():
    table = {quoted(name)[0]: kind.removeprefix("list of ") for name, kind, _ in checked_table("traces.md", "parquet")}
    assert table == parquet.COLUMN_TYPES


def test_the_table_of_keys_has_every_key_that_can_be_set():
    listed = [key for name, _ in checked_table("gpus.md", "keys") for key in quoted(name)]
    assert sorted(listed) == sorted(override_keys())


def test_the_codes_of_errors_of_the_service_are_documented():
    assert {quoted(code)[0]: meaning for code, meaning in checked_table("serve.md", "codes")} == CODES


def test_the_house_has_the_floors_that_are_tested():
    listed = {int(floor): set(quoted(modules)) for floor, modules, _, _ in checked_table("house.md", "floors")}
    assert listed == {floor: set(modules.split()) for floor, modules in FLOORS.items()}


def test_the_figure_of_the_house_is_drawn_from_its_table():
    drawn = script("draw_house").draw((DOCS / "house.md").read_text())
    assert drawn == (DOCS / "house.svg").read_text(), "python docs/draw_house.py"


def test_the_reference_has_every_public_name():
    text = (DOCS / "api.md").read_text()
    documented = set(re.findall(r"^\.\. auto\w+:: ([\w.]+)$", text, re.M))
    public = {f"{module.__name__}.{name}" for module in (rdmodel, tracegen) for name in module.__all__}
    assert public - {"rdmodel.__version__"} <= documented


def test_the_noise_of_the_measured_rows_is_as_stated():
    with (ROOT / "validation/hardware/gtx570.csv").open() as file:
        runs = [(row["miss_rate_run1"], row["miss_rate_run2"]) for row in csv.DictReader(file)]
    noise = [abs(float(first) - float(second)) for first, second in runs if first and second]
    text = (DOCS / "accuracy.md").read_text()
    assert f"differ by {sum(noise) / len(noise):.1f} points in the mean over {len(noise)} rows" in text
    assert f"and by {max(noise):.1f} for `gemm`" in text


# ---- links and names


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_modules_functions_and_files_that_are_named_exist(page):
    text = page.read_text()
    for name in re.findall(r"`((?:rdmodel|tracegen)(?:\.\w+)+)(?:\(\))?`", text):
        pkgutil.resolve_name(name)
    for path in re.findall(r"`((?:rdmodel|tracegen|tests|docs|validation)/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path


def test_the_two_commands_of_the_readme_are_what_continuous_integration_runs():
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci/run").read_text()
    first, second = re.findall(r"```sh\n(.*)\n```", readme)
    assert second.replace("pip install", "pip install -q") in ci
    assert first.rpartition("&& ")[2] in ci
