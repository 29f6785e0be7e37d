"""Run ``rdmodel record`` and ``rdmodel nvcc``."""

from __future__ import annotations

import argparse

from rdmodel.cli.option_values import output_form, selected_gpu
from rdmodel.cli.output import print_json, print_note, print_notes
from rdmodel.common.text import counted
from rdmodel.errors import SimulationError
from rdmodel.gpu.device_properties import device_properties
from tracegen.recording import nvcc
from tracegen.recording.recorder import record


def run_record(arguments: argparse.Namespace) -> None:
    """Run a program and record its launches; its output stays that of the program, and the summary is a note."""
    command = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    gpu = selected_gpu(arguments)
    recorded = record(
        command,
        arguments.output,
        device=device_properties(gpu, arguments.device_memory),
        gpu=gpu.name,
        values=arguments.values,
        overwrite=arguments.overwrite,
    )
    print_notes(recorded.notes)
    launches = counted(recorded.launches, "launch", "launches")
    if output_form(arguments) == "json":
        print_json(
            {
                "recording": str(recorded.folder),
                "launches": recorded.launches,
                "status": recorded.status,
                "notes": recorded.notes,
            }
        )
    else:
        print_note(f"{recorded.folder}: recorded {launches}")
    if recorded.status:
        how = f"with status {recorded.status}" if recorded.status > 0 else f"by signal {-recorded.status}"
        raise _ProgramError(f"{command[0]}: ended {how}; {recorded.folder} holds its {launches}")


def run_nvcc(arguments: argparse.Namespace) -> None:
    """Run nvcc with the options that make a program recordable, and exit with its status."""
    status = nvcc.run_nvcc(arguments.arguments)
    if status:
        raise SystemExit(status if status > 0 else 128 - status)


class _ProgramError(SimulationError):
    """The recorded program itself failed."""
