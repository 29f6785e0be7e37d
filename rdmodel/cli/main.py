"""Run the command line: results go to stdout, everything else to stderr."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from rdmodel.cli.arguments import parse
from rdmodel.errors import RdmodelError, SimulationError

COMMAND_MODULES = {
    "predict": "predict_command",
    "simulate": "simulate_command",
    "compare": "compare_command",
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
    "kernels": "kernels_command",
    "gpus": "gpus_command",
}
"""Module of `rdmodel.cli` with the function ``run_COMMAND`` of each command."""

DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""System errors that fail a run whatever its input was: a full or a broken disk."""

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
"""Exit statuses, beside 0 for success."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (default: the arguments of the program) and return its exit status.

    The status is 0 for success, 1 for a run that failed, 2 for bad usage or bad input, and 130 after an interruption.
    """
    memory: int | None = None
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        memory = getattr(arguments, "memory", None)
        # A command loads its own module only, so that help and usage errors need neither NumPy nor the cores.
        module = import_module(f"rdmodel.cli.{COMMAND_MODULES[arguments.command]}")
        getattr(module, f"run_{arguments.command}")(arguments)
        sys.stdout.flush()
    except SimulationError as error:
        return _fail(str(error), EXIT_FAILED)
    except RdmodelError as error:
        disk_failed = getattr(error.__cause__, "errno", None) in DISK_ERRNOS
        return _fail(str(error), EXIT_FAILED if disk_failed else EXIT_BAD_INPUT)
    except MemoryError:
        why = "out of memory" if memory is None else f"the run needs more than --memory {memory >> 20}M"
        advice = "fewer blocks (--blocks, --threads) or SMs (--sms, --model-sms) need less"
        return _fail(f"{why}; {advice}", EXIT_FAILED)
    except KeyboardInterrupt:
        return _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of the pipe is gone: without a new target, Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", EXIT_FAILED)
    return 0


def _fail(message: str, status: int) -> int:
    print(f"rdmodel: error: {message}", file=sys.stderr)
    return status
