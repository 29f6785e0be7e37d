"""Run the command line: results go to stdout, everything else to stderr."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module

from rdmodel.cli.arguments import parse
from rdmodel.cli.signals import Stopped, stopping_signals
from rdmodel.cli.streams import standard_streams
from rdmodel.common.memory import MACHINE_SHARE, lacks_memory, machine_share, memory_text
from rdmodel.errors import RdmodelError, SimulationError, shorten_message

COMMAND_MODULES = {
    "predict": "predict_command",
    "time": "time_command",
    "simulate": "simulate_command",
    "compare": "compare_command",
    "diff": "diff_command",
    "policies": "policies_command",
    "calibrate": "calibrate_command",
    "locality": "simulate_command",
    "trace": "trace_command",
    "info": "trace_command",
    "mrc": "mrc_command",
    "report": "report_command",
    "tiles": "tiles_command",
    "sweep": "sweep_command",
    "serve": "serve_command",
    "record": "record_command",
    "nvcc": "record_command",
    "kernels": "kernels_command",
    "gpus": "gpus_command",
    "plugin": "plugin_command",
    "completion": "completion_command",
}
"""Module of `rdmodel.cli` with the function ``run_COMMAND`` of each command."""

DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""System errors that fail a run whatever its input was: a full or a broken disk."""

BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Variables with which a user chooses the number of OpenBLAS threads; OpenBLAS reads them once, when it is loaded."""

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_SIGNALLED = 128
"""Exit statuses, beside 0 for success; the number of the signal is added to the last one."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (default: the arguments of the program) and return its exit status.

    The status is 0 for success, 1 for a run that failed, 2 for bad usage or bad input, and 128 plus the number of the
    signal after SIGINT (130), SIGTERM (143) or SIGHUP (129).
    """
    arguments: argparse.Namespace | None = None
    share: int | None = None
    try:
        with stopping_signals(), standard_streams():
            try:
                arguments = parse(sys.argv[1:] if argv is None else argv)
                # A command loads its own module only, so that help and usage errors need neither NumPy nor the cores.
                with _one_blas_thread():
                    module = import_module(f"rdmodel.cli.{COMMAND_MODULES[arguments.command]}")
                with machine_share() if getattr(arguments, "memory", None) is None else nullcontext() as share:
                    getattr(module, f"run_{arguments.command}")(arguments)
            except SystemExit:
                sys.stdout.flush()
                raise
            sys.stdout.flush()
    except SimulationError as error:
        return _fail(str(error), EXIT_FAILED)
    except RdmodelError as error:
        disk_failed = getattr(error.__cause__, "errno", None) in DISK_ERRNOS
        return _fail(str(error), EXIT_FAILED if disk_failed else EXIT_BAD_INPUT)
    except (MemoryError, ImportError) as error:
        if not lacks_memory(error):
            raise
        return _fail(_memory_message(getattr(arguments, "memory", None), share), EXIT_FAILED)
    except Stopped as stop:
        return _fail(str(stop), EXIT_SIGNALLED + stop.number)
    except KeyboardInterrupt as interrupt:
        # Python ends by the signal if it interrupted code that was given as text, as `dataclasses` does, and no other
        # such code ran afterwards.
        exec("")
        return _fail(str(interrupt) or "interrupted", EXIT_SIGNALLED + signal.SIGINT)
    except BrokenPipeError:
        _drop_output()
        return EXIT_FAILED
    except OSError as error:
        _drop_output()
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return _fail(shorten_message(f"{where}{error.strerror or error}"), EXIT_FAILED)
    return 0


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Let NumPy's OpenBLAS start no threads when it is loaded, unless the user chose their number.

    The variable is removed afterwards, because programs that a command starts inherit the environment.
    """
    if any(name in os.environ for name in BLAS_VARIABLES):
        yield
        return
    os.environ[BLAS_VARIABLES[0]] = "1"
    try:
        yield
    finally:
        del os.environ[BLAS_VARIABLES[0]]


def _memory_message(memory: int | None, share: int | None) -> str:
    """Return the message for a run that exceeds the limit `memory`, or the `share` of the machine's memory."""
    why = "out of memory" if memory is None else f"the run needs more than --memory {memory >> 20}M"
    if share is not None:
        why = f"the run needs more than {memory_text(share)}, {MACHINE_SHARE:.0%} of the memory of this machine"
    return f"{why}; fewer blocks (--blocks, --threads) or SMs (--sms, --model-sms) need less"


def _drop_output() -> None:
    """Drop the text that stdout cannot take; Python would complain again when it flushes at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, status: int) -> int:
    """Print a message, which is printable, and return the status; the errors of rdmodel have escaped their messages."""
    if sys.stderr is not None:
        print(f"rdmodel: error: {message}", file=sys.stderr)
    return status
