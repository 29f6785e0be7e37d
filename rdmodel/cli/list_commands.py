"""Run ``rdmodel kernels`` and ``rdmodel gpus``."""

from __future__ import annotations

import argparse
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.cli.option_values import changed_gpu, output_form
from rdmodel.cli.output import print_json, print_text
from rdmodel.cli.text_lists import format_gpus, format_kernels


def run_kernels(arguments: argparse.Namespace) -> None:
    """List the kernels that come with rdmodel."""
    specs = tracegen.kernels()
    if output_form(arguments) == "json":
        print_json([_kernel_fields(spec) for spec in specs])
    else:
        print_text(format_kernels(specs))


def _kernel_fields(spec: tracegen.KernelSpec | tracegen.TiledSpec) -> dict[str, Any]:
    sizes, inputs, block = dict(spec.sizes), list(spec.inputs), list(spec.block)
    return {"name": spec.name, "sizes": sizes, "inputs": inputs, "block": block, "description": spec.description}


def run_gpus(arguments: argparse.Namespace) -> None:
    """List the presets, or print one GPU in a form that can be loaded again."""
    form = output_form(arguments)
    if arguments.name is None:
        gpus = [presets.gpu(name) for name in presets.names()]
        if form == "json":
            print_json([gpu.to_dict() for gpu in gpus])
        else:
            print_text(format_gpus(gpus))
        return
    gpu = changed_gpu(arguments.name, dict(arguments.assignments))
    if form == "json":
        print_json(gpu.to_dict())
    else:
        print_text(presets.dumps(gpu).rstrip("\n"))
