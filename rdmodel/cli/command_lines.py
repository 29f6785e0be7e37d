"""Write the command lines that reproduce the numbers of another command."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Container, Mapping, Sequence
from typing import Any

from rdmodel.cli.arguments import command_parser
from rdmodel.cli.parser import assignment, dimensions, l1_geometry, miss_latency

SEPARATORS = {assignment: "=", dimensions: ",", miss_latency: ":", l1_geometry: ":"}
"""Separator between the parts of a value, by the type that reads it."""


def command_line(
    command: str,
    source: str,
    values: Mapping[str, Any],
    groups: Sequence[str],
    more: Sequence[str] = (),
    without: Container[str] = (),
) -> str:
    """Return the line that runs `command` on `source` with option `values` by name.

    Only options in the named `groups` of the command are written, unless they have their default or are in `without`;
    `more` are further words at the end of the line.
    """
    words = ["rdmodel", command, source]
    for group in command_parser(command)._action_groups:
        if group.title in groups:
            for action in group._group_actions:
                if action.dest not in without:
                    words += _option_words(action, values.get(action.dest, action.default))
    return shlex.join([*words, *more])


def _option_words(action: argparse.Action, value: Any) -> list[str]:
    """Return the words that give an option its value; none for its default."""
    if value == action.default or value is None:
        return []
    option = action.option_strings[-1]
    if action.nargs == 0:
        return [option]
    values = value if isinstance(action.default, list) else [value]
    return [word for value in values for word in (option, _value_text(action, value))]


def _value_text(action: argparse.Action, value: Any) -> str:
    if isinstance(value, tuple):
        separator = next(text for type_, text in SEPARATORS.items() if action.type is type_)
        return separator.join(str(part) for part in value if part is not None)
    return str(value)
