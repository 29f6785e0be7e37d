"""Run ``rdmodel completion``: make a completion script for a shell from the argument parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from shlex import quote
from typing import Any

from rdmodel import presets
from rdmodel.cli.arguments import build_parser
from rdmodel.cli.parser import OneOf
from rdmodel.errors import RdmodelError
from rdmodel.policies.index_registry import index_names
from rdmodel.policies.registry import COMBINATIONS, policy_names
from tracegen.kernel_library.registry import kernel_names

FILE_METAVARS = ("FILE", "OUT", "PAGE.html", "FILE.toml")
FOLDER_METAVARS = ("DIR", "FOLDER")
"""Metavars of arguments that name a file, and of those that name a folder."""

GPU_ARGUMENTS = ("gpu", "like", "name")
"""Destinations of arguments that name a GPU."""

POLICY_ARGUMENTS = ("policies", "combinations")
"""Destinations of arguments that name policies."""


def run_completion(arguments: argparse.Namespace) -> None:
    """Print the completion script of a shell; raise `RdmodelError` without shtab (extra ``completion``)."""
    try:
        import shtab
    except ImportError:
        raise RdmodelError("completion needs shtab: pip install 'rdmodel[completion]'") from None
    parser, commands = build_parser()
    for command in commands.values():
        for action in command._actions:
            _describe(action, shtab)
    script: str = shtab.complete(parser, arguments.shell)
    if arguments.shell == "zsh":
        # shtab writes arguments that can be repeated in a form that completes only the first of them.
        script = script.replace('"(*)::', '"*:').replace('"(*):', '"*:')
    print(script.rstrip())


def _describe(action: argparse.Action, shtab: Any) -> None:
    """Tell shtab the values of an argument, which argparse does not know."""
    complete: Any = None
    if isinstance(action.metavar, str) and ":" in action.metavar:
        action.metavar = "VALUE"  # shtab does not escape the separator of zsh here
    if isinstance(action.type, OneOf):
        action.choices = action.type.allowed
    elif action.metavar == "KERNEL_OR_FILE":
        complete = _names_or_files("kernel", kernel_names(), shtab)
    elif action.dest in GPU_ARGUMENTS:
        complete = _names_or_files("gpu", presets.names(), shtab)
    elif action.dest in POLICY_ARGUMENTS:
        action.choices = [*policy_names(), *COMBINATIONS]
    elif action.dest == "index":
        action.choices = index_names()
    elif action.metavar in FILE_METAVARS:
        complete = shtab.FILE
    elif action.metavar in FOLDER_METAVARS:
        complete = shtab.DIRECTORY
    if complete is not None:
        action.complete = complete  # type: ignore[attr-defined]


def _names_or_files(noun: str, names: Iterable[str], shtab: Any) -> dict[str, Any]:
    """Return how each shell completes a name among `names`, or a file."""
    words = " ".join(names)
    # shtab treats what a function returns as names of files only if "file" is a part of its name.
    function = f"_rdmodel_{noun}_or_file"
    return {
        "bash": function,
        "zsh": function,
        "fish": f"{words} {shtab.FILE['fish']}",
        "preamble": {
            "bash": f'{function}() {{ compgen -W {quote(words)} -- "$1"; compgen -f -- "$1"; }}',
            "zsh": f"{function}() {{ _alternative {quote(f'names:{noun}:({words})')} 'files:file:_files' }}",
        },
    }
