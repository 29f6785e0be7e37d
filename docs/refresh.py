"""The sessions in the documentation, run: what the pages print is what the program prints.

`python docs/refresh.py` writes every page anew and names those that changed; tests/test_docs.py fails where that
would change anything. In a page,

* a fence ``python`` holds examples after ``>>>``, which share one namespace per page;
* a fence ``console`` holds commands after ``$``, which run in one empty folder per page (Python too);
* ``<!-- generated: NAME -->`` to ``<!-- end -->`` holds what the entry of `GENERATED` returns.

Other fences are not run. Times differ from run to run, and so are printed as ``...`` (`MASKS`).
"""

from __future__ import annotations

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
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rdmodel.cli import main
from rdmodel.cli.arguments import Parser, _build
from tracegen.kernels.registry import REGISTRY

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(python|console)\n(.*?)^```$", re.M | re.S)
REGION = re.compile(r"(<!-- generated: ([^>]+) -->\n).*?(<!-- end -->)", re.S)
MASKS = (
    (re.compile(r"\b\d+\.\d+ s\b"), "... s"),
    (re.compile(r'("(?:trace_)?seconds": )[^,\s]+'), r"\1..."),
)
"""What is replaced in the output of commands and examples: times."""

NEEDS_SHELL = re.compile(r"[|<>;&$*]")


def pages() -> list[Path]:
    """Return the files that may hold sessions."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def refresh(text: str) -> str:
    """Return a page with every session run and every generated part made anew."""
    text = REGION.sub(lambda m: m[1] + GENERATED[m[2]]() + m[3], text)
    # A page may declare kernels; they are gone when it ends.
    with tempfile.TemporaryDirectory() as folder, chdir(folder), patch.dict(REGISTRY):
        names: dict[str, Any] = {"__name__": "__main__"}
        run = {"python": lambda code: "".join(_python(code, names)), "console": lambda code: "".join(_console(code))}
        return FENCE.sub(lambda m: f"```{m[1]}\n{run[m[1]](m[2])}```", text)


def mask(output: str) -> str:
    """Return an output with the times in it replaced by dots."""
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
    lines = iter(code.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            continue  # the output of an earlier run
        command = line[2:]
        while command.endswith("\\"):
            command += "\n" + next(lines)
        yield f"$ {command}\n{mask(_run(command))}"


def _run(command: str) -> str:
    """Return what a command prints, on stdout and stderr; those of rdmodel run here if they need no shell."""
    if NEEDS_SHELL.search(command) or not command.startswith("rdmodel "):
        return _run_shell(command)
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        try:
            main(shlex.split(command)[1:])
        except SystemExit:
            pass  # usage and help
    return output.getvalue()


def _run_shell(command: str) -> str:
    script = f'rdmodel() {{ {shlex.quote(sys.executable)} -m rdmodel "$@"; }}\n{command}'
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LC_ALL": "C"}
    done = subprocess.run(
        ["bash", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        check=False,
    )
    return done.stdout


# ---- generated parts

SHARED = ("the kernel", "the GPU", "what is modelled")
"""Groups of options that several commands have; they stand on the page once."""


def _commands() -> dict[str, Parser]:
    return _build()[1]


def _command(name: str) -> str:
    """Return what a command does, how it is called, and a table of the options that it alone has."""
    parser = _commands()[name]
    groups = [(g.title, g._group_actions) for g in parser._action_groups]
    own = [action for title, actions in groups for action in actions if title not in SHARED and action.dest != "help"]
    words = " ".join(_word(action) for action in own if not action.option_strings)
    also = [f"[{title}](#{title.replace(' ', '-').lower()})" for title, _ in groups if title in SHARED]
    table = _table([action for action in own if action.option_strings])
    text = f"`rdmodel {name} [OPTIONS]{' ' + words if words else ''}`\n\n{parser.description}\n\n{table}"
    return text + (f"\nAlso: the options of {', '.join(also)}.\n" if also else "")


def _group(title: str) -> str:
    for parser in _commands().values():
        for group in parser._action_groups:
            if group.title == title:
                return _table(group._group_actions)
    raise KeyError(title)


def _table(actions: list[Any]) -> str:
    rows = [
        f"| {_forms(action)} | {_default(action)} | {action.help % vars(action) if action.help else ''} |\n"
        for action in actions
    ]
    return "| option | default | meaning |\n|---|---|---|\n" + "".join(rows)


def _forms(action: Any) -> str:
    value = f" {action.metavar or action.dest.upper()}" if action.nargs != 0 else ""
    value = value if action.nargs != "?" else f" [{value.strip()}]"
    return ", ".join(f"`{form}{value}`".replace("|", "\\|") for form in action.option_strings)


def _default(action: Any) -> str:
    if action.default is None or action.default == [] or action.nargs == 0:
        return ""
    return f"`{action.default}`"


def _word(action: Any) -> str:
    return {None: action.metavar, "+": f"{action.metavar}...", "?": f"[{action.metavar}]"}[action.nargs]


GENERATED = {
    **{f"command {name}": (lambda name=name: _command(name)) for name in _commands()},
    **{f"options of {title}": (lambda title=title: _group(title)) for title in SHARED},
}


if __name__ == "__main__":
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = refresh(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(page.relative_to(ROOT))
