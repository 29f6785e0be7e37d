"""Write the pages of the manual, one of ``rdmodel`` and one of each command, from the argument parser.

A wheel contains them (``setup.py``), so that ``man rdmodel-predict`` finds them in the environment that it is installed
in. The build environment has no NumPy, and so this module may not import it.
"""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from rdmodel.cli.arguments import COMMANDS, build_parser
from rdmodel.version import __version__


def write_pages(folder: str | Path) -> list[str]:
    """Write all pages to a folder, and return their paths; raise `ImportError` without argparse-manpage."""
    parser, commands = build_parser()
    pages = {
        f"rdmodel-{name}": _page(f"rdmodel-{name}", command, COMMANDS[name][1]) for name, command in commands.items()
    }
    for action in parser._actions:
        if isinstance(action.choices, dict):
            action.choices.clear()  # the page of rdmodel lists the commands without their options
    pages["rdmodel"] = _page("rdmodel", parser, "Predict the cache behaviour of GPU kernels")
    paths = []
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        path = Path(folder, f"{name}.1")
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return sorted(paths)


def _page(name: str, parser: ArgumentParser, purpose: str) -> str:
    """Return the page of a command in the language of troff."""
    from argparse_manpage.manpage import Manpage

    values: dict[str, Any] = {
        "project_name": "rdmodel",
        "version": __version__,
        "manual_title": "rdmodel Manual",
        "description": purpose.rstrip("."),
    }
    page = Manpage(parser, values)
    page.prog = name
    # A line of text that begins with a dot, such as ".json", is not a macro; these have upper-case names.
    return re.sub(r"^\.(?=[a-z])", r"\\&.", str(page), flags=re.MULTILINE)


if __name__ == "__main__":
    print(*write_pages(sys.argv[1]), sep="\n")
