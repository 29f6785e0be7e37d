"""Command lines that do again what another command has done, from its arguments."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Container, Sequence
from typing import Any

from rdmodel.cli.arguments import command_parser
from rdmodel.cli.parser import assignment, geometry, latency, triple

BETWEEN = {assignment: "=", triple: ",", latency: ":", geometry: ":"}
"""What stands between the parts of an option's value, by what has read it."""


def command_line(
    command: str,
    source: str,
    arguments: argparse.Namespace,
    groups: Sequence[str],
    more: Sequence[str] = (),
    without: Container[str] = (),
) -> str:
    """Return the line that runs `command` on `source` with those of the arguments that stand in some of its groups.

    Only what is not a default is written, and nothing of arguments `without` which it is to run; `more` are further
    words.
    """
    words = ["rdmodel", command, source]
    for group in command_parser(command)._action_groups:
        if group.title in groups:
            for action in group._group_actions:
                if action.dest not in without:
                    words += _words(action, getattr(arguments, action.dest, action.default))
    return shlex.join([*words, *more])


def _words(action: argparse.Action, value: Any) -> list[str]:
    """Return the words that give an option its value; none for its default."""
    if value == action.default or value is None:
        return []
    option = action.option_strings[-1]
    if action.nargs == 0:
        return [option]
    values = value if isinstance(action.default, list) else [value]
    return [word for one in values for word in (option, _text(action, one))]


def _text(action: argparse.Action, value: Any) -> str:
    if isinstance(value, tuple):
        between = next(text for kind, text in BETWEEN.items() if action.type is kind)
        return between.join(str(part) for part in value if part is not None)
    return str(value)
