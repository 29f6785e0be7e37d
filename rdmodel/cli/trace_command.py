"""Run ``rdmodel trace`` and ``rdmodel info``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rdmodel.cli.memory_limit import limit_memory
from rdmodel.cli.option_values import extent_options, output_form, selected_gpu, source_options
from rdmodel.cli.output import print_json, print_note, print_text
from rdmodel.cli.progress_line import block_progress
from rdmodel.cli.sources import cut_to_modelled, is_recorded, open_launches, open_source
from rdmodel.cli.text_trace import format_launches, format_summary
from rdmodel.errors import LaunchError, escape_unprintable
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import Occupancy, compute_occupancy
from rdmodel.trace import Trace, storage
from rdmodel.trace.summary import summarise
from tracegen import formats
from tracegen.recording.files import is_recording


def run_trace(arguments: argparse.Namespace) -> None:
    """Write the trace of a kernel, or convert a trace."""
    source, output, overwrite = arguments.source, arguments.output, arguments.overwrite
    form = arguments.format or formats.by_extension(output).name
    notes: tuple[str, ...] = ()
    with limit_memory("trace", arguments.memory) as budget, block_progress(source) as progress:
        trace = open_source(source, source_options(arguments), budget)
        if not arguments.all and (not is_recorded(trace) or _names_extent(arguments)):
            trace = cut_to_modelled(trace, selected_gpu(arguments), extent_options(arguments))
        if form == "native":
            origin = {"from": Path(source).name, "params": dict(trace.params)}
            storage.save(trace, output, source=origin, overwrite=overwrite, progress=progress)
        else:
            notes = formats.write(trace, output, format=form, overwrite=overwrite)
    for note in notes:
        print_note(note)
    blocks = 0 if trace.blocks is None else len(trace.blocks)
    text = f"{output}: wrote {blocks:,} of {trace.launch.blocks:,} blocks of {trace.launch.kernel}"
    print_text(escape_unprintable(text))


def run_info(arguments: argparse.Namespace) -> None:
    """Summarise a trace, or list the launches in a trace file."""
    if arguments.launches or _has_several_launches(arguments):
        _print_launches(arguments)
        return
    gpu = selected_gpu(arguments)
    with limit_memory("info", arguments.memory) as budget:
        trace = open_source(arguments.source, source_options(arguments), budget)
        if not is_recorded(trace) or _names_extent(arguments):
            trace = cut_to_modelled(trace, gpu, extent_options(arguments))
        with block_progress(f"{arguments.source}, counting lines") as progress:
            budget.admit_summary(trace, gpu.l1.line, progress)
        summary = summarise(trace, line=gpu.l1.line)
    occupancy = _occupancy(trace, gpu)
    if output_form(arguments) == "json":
        print_json(summary.to_dict() | {"occupancy": None if occupancy is None else occupancy.to_dict()})
    else:
        print_text(format_summary(summary, "no block fits on an SM" if occupancy is None else str(occupancy)))


def _names_extent(arguments: argparse.Namespace) -> bool:
    """Tell whether an option chooses blocks; without any, a recorded trace is taken whole."""
    return any(getattr(arguments, name) is not None for name in ("sms", "model_sms", "threads", "blocks"))


def _occupancy(trace: Trace, gpu: GPU) -> Occupancy | None:
    """Return the occupancy of an SM; None if not even one block fits."""
    try:
        return compute_occupancy(trace.launch, gpu)
    except LaunchError:
        return None


def _has_several_launches(arguments: argparse.Namespace) -> bool:
    """Return whether the source is a recording of which no launch is picked."""
    if arguments.kernel is not None or arguments.launch is not None or not is_recording(Path(arguments.source)):
        return False
    return len(open_launches(arguments.source, source_options(arguments))[1]) > 1


def _print_launches(arguments: argparse.Namespace) -> None:
    with limit_memory("info", arguments.memory):
        form, launches = open_launches(arguments.source, source_options(arguments))
    if output_form(arguments) == "json":
        print_json({"format": form, "launches": [listed.to_dict() for listed in launches]})
    else:
        print_text(format_launches(arguments.source, form, launches))
