"""Run the sessions in the documentation, and write their output and the generated parts into the pages.

`python docs/refresh.py` renews README.md and all pages in docs/, or only the pages named on the command line, and
prints the names of changed pages. tests/project/test_docs.py fails if that would change a page. In a page,

* a fence ``python`` has examples after ``>>>``, which share one namespace per page;
* a fence ``console`` has commands after ``$``, which run in one empty folder per page, as the examples do;
* the text between ``<!-- generated: NAME -->`` and ``<!-- end -->`` is the result of the function `GENERATED[NAME]`.

Other fences are not run. Times differ from run to run, and are therefore printed as ``...``. Notes about estimated
registers, which machines without an assembler print, are left out (`MASKS`).
"""

from __future__ import annotations

import csv
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import Any
from unittest.mock import patch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rdmodel.cli import main
from rdmodel.cli.arguments import build_parser
from rdmodel.cli.parser import Parser
from rdmodel.policies.registry import LOADED
from tracegen.kernel_library.homes import load_all
from tracegen.kernel_library.registry import REGISTRY

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.M | re.S)
REGION = re.compile(r"(<!-- generated: ([^>]+) -->\n).*?(<!-- end -->)", re.S)
MASKS = (
    (re.compile(r"\b\d+\.\d+ s\b"), "... s"),
    (re.compile(r'("(?:trace_)?seconds": ?)[^,\s}]+'), r"\1..."),
    (re.compile(r"^rdmodel: .*\bregisters per thread\b.*\bestimated\b.*\n", re.M), ""),
)
"""Patterns of what depends on the machine in the output of commands and examples, and their replacements."""

TRACEBACK = "Traceback (most recent call last):"
DEFAULT = re.compile(r" \(default: (.*)\)$")
"""The default at the end of the help text of an option."""

_NO_BREAK = "\0"
"""Stands for a space inside a link while lines are wrapped."""

IN_PROCESS = re.compile(
    r"""rdmodel(?P<arguments>(?!\ record)(?:'[^']*'|"[^"`$\\]*"|[^'"`$\\|<>;&*])*?)"""
    r"""(?P<both>\ 2>&1)?(?:\ \|\ (?P<filter>.+))?""",
    re.DOTALL,
)
"""A command of rdmodel that needs no shell, and the filter that reads what it prints.

Recorded programs print past the streams of this process.
"""


def pages() -> list[Path]:
    """Return the files that may have sessions."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def refresh(text: str, folder: Path | None = None) -> str:
    """Run every session of a page, make every generated part, and return the new text.

    The sessions leave the files that they write in `folder`, or in none.
    """
    text = REGION.sub(lambda m: m[1] + GENERATED[m[2]]() + m[3], text)
    # A page may declare kernels and load policies, which must not reach the next page. Nor must the user's answers
    # file reach any page. The modules with kernels are loaded before, since they declare them only once.
    load_all()
    with (
        tempfile.TemporaryDirectory() as passing,
        tempfile.TemporaryDirectory() as cache,
        patch.dict(os.environ, RDMODEL_CACHE=cache),
        chdir(folder or passing),
        patch.dict(REGISTRY),
        patch.dict(LOADED),
    ):
        names: dict[str, Any] = {"__name__": "__main__"}

        def run(fence: re.Match[str]) -> str:
            parts = _python(fence[2], names) if fence[1] == "python" else _console(fence[2])
            return f"```{fence[1]}\n{''.join(parts)}```"

        return FENCE.sub(run, text)


def mask(output: str) -> str:
    """Replace the times in an output by dots, and leave out notes about estimated registers."""
    for pattern, replacement in MASKS:
        output = pattern.sub(replacement, output)
    return output if not output or output.endswith("\n") else output + "\n"


# ---- Python


def _python(code: str, names: dict[str, Any]) -> Iterator[str]:
    for part in doctest.DocTestParser().parse(code):
        if isinstance(part, str):
            yield part
            continue
        for prompt, line in zip([">>> ", *["... "] * part.source.count("\n")], part.source.splitlines(), strict=False):
            yield (prompt + line).rstrip() + "\n"
        yield re.sub(r"^$(?=\n)", "<BLANKLINE>", mask(_execute(part.source, names)), flags=re.M)


def _execute(source: str, names: dict[str, Any]) -> str:
    output = io.StringIO()
    with redirect_stdout(output):
        try:
            exec(compile(source, "<page>", "single", dont_inherit=True), names)
        except Exception as error:
            print("Traceback (most recent call last):\n    ...")
            print(traceback.format_exception_only(error)[-1], end="")
    return output.getvalue()


# ---- commands


def _console(code: str) -> Iterator[str]:
    lines = code.splitlines()
    for at, line in enumerate(lines):
        if not line.startswith("$ "):
            continue  # the output of an earlier run
        more = list(takewhile(lambda below: below.startswith(">"), lines[at + 1 :]))
        command = "\n".join([line[2:], *(below[2:] for below in more)])
        yield "\n".join([line, *more]) + f"\n{mask(_run(command))}"


def _run(command: str) -> str:
    """Return the output of a command, stdout and stderr; run commands of rdmodel in this process if possible."""
    match = IN_PROCESS.fullmatch(command.replace("\\\n", ""))
    if match is None:
        return _run_shell(command)
    output, errors = io.StringIO(), io.StringIO()
    together = match["both"] or not match["filter"]
    with redirect_stdout(output), redirect_stderr(output if together else errors), suppress(SystemExit):
        main(shlex.split(match["arguments"]))
    if not match["filter"]:
        return output.getvalue()
    return errors.getvalue() + _run_shell(match["filter"], output.getvalue())


def _run_shell(command: str, text: str | None = None) -> str:
    """Return the output of a command in a shell, which reads `text` if that is given."""
    script = f'rdmodel() {{ {shlex.quote(sys.executable)} -m rdmodel "$@"; }}\n{command}'
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LC_ALL": "C"}
    done = subprocess.run(
        ["bash", "-c", script],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        check=False,
    )
    return done.stdout


# ---- generated parts: the command line

SHARED = ("the kernel", "a CUDA program", "the GPU", "modelled SMs and blocks")
"""Groups of options that several commands have; they stand on the page once."""


def _commands() -> dict[str, Parser]:
    return build_parser()[1]


def _command(name: str) -> str:
    """Return the usage of a command, its description, and a table of its own options."""
    parser = _commands()[name]
    groups = [(group.title, group._group_actions) for group in parser._action_groups]
    own = [action for title, actions in groups for action in actions if title not in SHARED and action.dest != "help"]
    words = "".join(" " + _word(action) for action in own if not action.option_strings)
    shared = [title for title, _ in groups if title in SHARED]
    also = [f"[{title.replace(' ', _NO_BREAK)}](#{title.replace(' ', '-').lower()})" for title in shared]
    table = _table([action for action in own if action.option_strings])
    text = f"`rdmodel {name} [OPTIONS]{words}`\n\n{parser.description}\n\n{table}"
    if not also:
        return text
    others = fill(f"Also: the options of {', '.join(also)}.", width=140, break_on_hyphens=False)
    return f"{text}\n{others.replace(_NO_BREAK, ' ')}\n"


def _group(title: str) -> str:
    """Return the table of a group of options that several commands share."""
    groups = (group for parser in _commands().values() for group in parser._action_groups)
    return _table(next(group for group in groups if group.title == title)._group_actions)


def _table(actions: list[Any]) -> str:
    rows = [f"| {_forms(action)} | {_default(action)} | {_meaning(action)} |\n" for action in actions]
    return "| option | default | meaning |\n|---|---|---|\n" + "".join(rows)


def _forms(action: Any) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    value = f" [{value.strip()}]" if action.nargs == "?" else value
    return ", ".join(f"`{form}{value}`".replace("|", "\\|") for form in action.option_strings)


def _default(action: Any) -> str:
    match = DEFAULT.search(action.help or "")
    if match is None:
        return ""
    return f"`{match[1]}`" if match[1] == str(action.default) else match[1].replace("%%", "%")


def _meaning(action: Any) -> str:
    # The default has a column of its own.
    return DEFAULT.sub("", action.help or "").replace("%%", "%")


def _word(action: Any) -> str:
    return {
        None: action.metavar,
        "+": f"{action.metavar}...",
        "*": f"[{action.metavar}...]",
        "?": f"[{action.metavar}]",
        "...": action.metavar,
    }[action.nargs]


# ---- generated parts: the record of the validation


def _accuracy() -> str:
    """Return the errors in the committed records of the validation, in two sentences."""
    count, hardware, paper = _errors("predicted.csv")
    _, compiled, _ = _errors("cuda.csv")
    return (
        f"Against L1 counters of a GeForce GTX 570 on {count} kernels of PolyBench/GPU, "
        f"the mean absolute error of the\nmiss rate is {hardware} percentage points for `hardware` "
        f"and {paper} for `paper`\n(`python -m validation.hardware`, from a checkout). "
        f"Traced from CUDA sources instead, it is\n{compiled} for `hardware` "
        "(`python -m validation.hardware --source cuda`).\n"
    )


def _errors(record: str) -> tuple[int, str, str]:
    """Return the number of kernels and the mean errors of both definitions on SM 0 in a record of the validation."""
    with (ROOT / "validation/hardware" / record).open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["sms"] == "1"]
    errors = [
        [abs(float(row["error"])) for row in rows if row["definition"] == definition]
        for definition in ("hardware", "paper")
    ]
    return len(errors[0]), *(f"{fmean(values):.2f}" for values in errors)


def _client() -> str:
    """Return the example of a client for the service."""
    return f"```c\n{(ROOT / 'docs/examples/client.c').read_text(encoding='utf-8')}```\n"


GENERATED = {
    "accuracy": _accuracy,
    "client in C": _client,
    **{f"command {name}": partial(_command, name) for name in _commands()},
    **{f"options of {title}": partial(_group, title) for title in SHARED},
}
"""Functions that make the generated parts, by name."""


def renew(files: list[Path]) -> None:
    """Write pages with new output, and print the names of changed pages."""
    for page in files:
        before = page.read_text(encoding="utf-8")
        after = refresh(before)
        if after.count(TRACEBACK) > before.count(TRACEBACK):
            name = page.relative_to(ROOT)
            raise SystemExit(f"{name}: an example fails that did not fail before; the page was not written")
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    renew([Path(name).resolve() for name in sys.argv[1:]] or pages())
