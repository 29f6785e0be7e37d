"""`main`: run one command; results to stdout, everything else to stderr; exit 0, 1 (failed) or 2 (bad input)."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from rdmodel.cli.arguments import parse
from rdmodel.errors import RdmodelError, SimulationError

MODULES = {
    "compare": "comparing",
    "calibrate": "comparing",
    "policies": "contesting",
    "report": "reporting",
    "serve": "serving",
    "sweep": "sweeping",
    "tiles": "tiling",
}
"""The modules that run commands, but for `commands`, which runs all others."""


FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What ends a run whatever it was given: no more room for what it writes, or a broken disk."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (default: the program's arguments) and return the exit status."""
    arguments = None
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        # Commands load NumPy and the cores; help and usage errors do without, and each command without the others'.
        module = import_module(f"rdmodel.cli.{MODULES.get(arguments.command, 'commands')}")
        module.COMMANDS[arguments.command](arguments)
        sys.stdout.flush()
    except SimulationError as error:
        return _fail(str(error), 1)
    except RdmodelError as error:
        return _fail(str(error), 1 if getattr(error.__cause__, "errno", None) in FAILURES else 2)
    except MemoryError:
        given = getattr(arguments, "memory", None)
        why = "out of memory" if given is None else f"the run needs more than --memory {given >> 20}M"
        return _fail(f"{why}; fewer blocks (--blocks, --threads) or SMs (--sms, --model-sms) need less", 1)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader of a pipe is gone; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", 1)
    return 0


def _fail(message: str, status: int) -> int:
    print(f"rdmodel: error: {message}", file=sys.stderr)
    return status
