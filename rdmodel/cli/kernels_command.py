"""Run ``rdmodel kernels``."""

from __future__ import annotations

import argparse
from typing import Any

import tracegen
from rdmodel.cli.option_values import output_form
from rdmodel.cli.output import print_json
from rdmodel.cli.text_lists import format_kernels


def run_kernels(arguments: argparse.Namespace) -> None:
    """List the kernels that come with rdmodel."""
    specs = tracegen.kernels()
    if output_form(arguments) == "json":
        print_json([_kernel_fields(spec) for spec in specs])
    else:
        print(format_kernels(specs))


def _kernel_fields(spec: tracegen.KernelSpec | tracegen.TiledSpec) -> dict[str, Any]:
    sizes, inputs, block = dict(spec.sizes), list(spec.inputs), list(spec.block)
    return {"name": spec.name, "sizes": sizes, "inputs": inputs, "block": block, "description": spec.description}
