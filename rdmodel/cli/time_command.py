"""Run ``rdmodel time``."""

from __future__ import annotations

import argparse

from rdmodel.cli.memory_limit import limit_memory
from rdmodel.cli.option_values import output_form, selected_gpu, source_options
from rdmodel.cli.output import print_results
from rdmodel.cli.progress_line import block_progress
from rdmodel.cli.register_notes import print_registers
from rdmodel.cli.sources import open_sources
from rdmodel.cli.text_time import format_time
from rdmodel.timing.launch_time import time


def run_time(arguments: argparse.Namespace) -> None:
    """Estimate the time of every kernel or trace, and print what binds it."""
    gpu = selected_gpu(arguments)
    shown = arguments.registers == "auto"
    if shown:
        arguments.registers = None  # a time counts them by itself, and knows their source
    reading = source_options(arguments)
    results = []
    with limit_memory("time", arguments.memory) as budget:
        for source in arguments.sources:
            for trace in open_sources(source, reading, budget):
                with block_progress(source) as progress:
                    found = time(
                        trace,
                        gpu,
                        sample=arguments.sample,
                        caches=arguments.caches,
                        seed=arguments.seed,
                        progress=progress,
                    )
                if shown or (found.registers is not None and not found.registers.is_exact):
                    print_registers(found.kernel, found.registers)
                results.append(found)
        print_results(output_form(arguments), results, format_time)
