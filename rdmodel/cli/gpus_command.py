"""Run ``rdmodel gpus``: list the presets, print a GPU, or describe a new one."""

from __future__ import annotations

import argparse
from pathlib import Path

from rdmodel import presets
from rdmodel.cli.option_values import changed_gpu, output_form
from rdmodel.cli.output import print_json, print_text
from rdmodel.cli.text_lists import format_gpus
from rdmodel.cli.text_tables import format_table
from rdmodel.errors import ConfigError, escape_lines, escape_unprintable
from rdmodel.gpu.config import GPU
from tracegen.formats.atomic_write import refuse_existing, replacing


def run_gpus(arguments: argparse.Namespace) -> None:
    """List the presets by architecture, or print or write one GPU in a form that can be loaded again."""
    if arguments.name is not None and arguments.like is not None:
        raise ConfigError(f"--like {arguments.like}: cannot be combined with NAME={arguments.name}; give one of them")
    if arguments.name is None and arguments.like is None:
        if arguments.assignments or arguments.rates or arguments.output is not None:
            option = "--set" if arguments.assignments else "--rates" if arguments.rates else "--output"
            raise ConfigError(f"{option}: needs a GPU; give NAME, or --like NAME for a new one")
        _list(output_form(arguments))
        return
    if arguments.rates:
        _print_rates(_described(arguments, None), output_form(arguments))
        return
    output = None if arguments.output is None else _checked_output(arguments.output, overwrite=arguments.overwrite)
    gpu = _described(arguments, output)
    if output is not None:
        with replacing(output) as partial:
            partial.write_text(presets.dumps(gpu), encoding="utf-8")
    if output_form(arguments) == "json":
        print_json(gpu.to_dict())
    elif output is None:
        print_text(presets.dumps(gpu).rstrip("\n"))
    else:
        print_text(escape_unprintable(f"{arguments.output}: wrote {gpu.name}; use it as --gpu {arguments.output}"))


def _list(form: str) -> None:
    groups = {
        architecture: [presets.gpu(name) for name in names] for architecture, names in presets.architectures().items()
    }
    if form == "json":
        print_json([gpu.to_dict() for group in groups.values() for gpu in group])
    else:
        print_text(format_gpus(groups))


def _print_rates(gpu: GPU, form: str) -> None:
    rates, sources = presets.rates_of(gpu)
    if form == "json":
        print_json({"gpu": gpu.name, "rates": rates, "sources": sources})
    else:
        rows = [("rate", "value", "source"), *((name, f"{value:g}", sources[name]) for name, value in rates.items())]
        print_text(escape_lines(format_table(rows, right=[1])))


def _described(arguments: argparse.Namespace, output: Path | None) -> GPU:
    """Return the GPU that the arguments describe; a new one is called like its file."""
    changes = dict(arguments.assignments)
    if arguments.like is None:
        return changed_gpu(arguments.name, changes)
    return presets.like(arguments.like, changes, name=None if output is None else output.stem)


def _checked_output(name: str, *, overwrite: bool) -> Path:
    """Return the path to write to; raise `ConfigError` unless `presets.gpu` would read it as a file."""
    path = Path(name)
    if not name.endswith(presets.SUFFIX):
        raise ConfigError(f"output={name!r}: must end in {presets.SUFFIX}, so that --gpu reads it as a file")
    refuse_existing(path, overwrite=overwrite)
    if not path.parent.is_dir():
        raise ConfigError(f"output={name!r}: there is no folder {str(path.parent)!r}")
    return path
