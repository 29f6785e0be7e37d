"""Run ``rdmodel plugin``: build and show compiled policies."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rdmodel.cli.option_values import output_form
from rdmodel.cli.output import print_json, print_text
from rdmodel.cli.text_tables import format_table
from rdmodel.errors import ConfigError
from rdmodel.plugins.build import build_plugin, include_folder
from rdmodel.plugins.table import PluginOption
from rdmodel.policies.compiled import CompiledPolicy
from rdmodel.policies.registry import load_policy


def run_plugin(arguments: argparse.Namespace) -> None:
    """Build a policy and show it, show one that has been built, or print the folder of the header."""
    action, file = arguments.action, arguments.file
    if action != "build" and arguments.output is not None:
        raise ConfigError(f"-o: belongs to 'plugin build'; {action!r} writes no file")
    if action == "include":
        if file is not None:
            raise ConfigError(f"FILE: 'plugin include' takes none; leave out {file!r}")
        folder = str(include_folder())
        if output_form(arguments) == "json":
            print_json({"include": folder})
        else:
            print_text(folder)
        return
    if file is None:
        raise ConfigError(f"FILE: is missing; name a {'source' if action == 'build' else 'library'}")
    library = Path(file) if action == "show" else build_plugin(file, arguments.output)
    cls = load_policy(library)
    if output_form(arguments) == "json":
        print_json({"library": str(library), **_fields(cls)})
    else:
        print_text(_summary(library, cls))


def _fields(cls: type[CompiledPolicy]) -> dict[str, Any]:
    table = cls.table
    options = [
        {"name": option.name, "default": option.value, "least": option.least, "most": option.most}
        for option in table.options
    ]
    return {
        "name": table.name,
        "kind": table.kind,
        "description": table.description,
        "digest": table.digest,
        "options": options,
    }


def _summary(library: Path, cls: type[CompiledPolicy]) -> str:
    table = cls.table
    head = f"{library}: policy {table.name!r} of the kind {table.kind!r}\n  {table.description}"
    rows = [("option", "default", "allowed"), *map(_row, table.options)]
    use = f"use: --policy {library if '/' in str(library) else f'./{library}'}"
    return "\n".join([head, *([format_table(rows)] if table.options else []), use])


def _row(option: PluginOption) -> tuple[str, str, str]:
    allowed = f"{'a whole number' if option.whole else 'a number'} from {option.least:g} to {option.most:g}"
    return option.name, f"{option.value:g}", allowed
