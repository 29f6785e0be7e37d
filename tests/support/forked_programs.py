"""Run programs in processes forked from one that has imported the command line, which saves most of a start.

Such a process is as fresh as one that is started: the one that it is forked from does nothing but these imports.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

FORKING = """
import json, os, signal, sys, traceback
import rdmodel.cli.memory_limit

def run(code, argv, folder, where, variables, seconds):
    for number, name in enumerate((os.devnull, folder + "/out", folder + "/err")):
        opened = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)
    signal.alarm(seconds)
    os.chdir(where)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["-c", *argv]
    exec(code, {"__name__": "__main__"})

for request in sys.stdin:
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    status = 1
    try:
        run(*json.loads(request))
        status = 0
    except SystemExit as stop:
        status = stop.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
"""
"""A program that runs other programs, each in a fork of itself."""


@cache
def forking_process(owner: int) -> subprocess.Popen[str]:
    """Return the process that forks, one for each process that asks; it ends with that one."""
    command = [sys.executable, "-c", FORKING]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)
    return process


def run_forked(code: str, *argv: str, timeout: int = 120) -> subprocess.CompletedProcess[str]:
    """Run a program, as ``python -c CODE ARGV`` does with an empty input; SIGALRM ends it after `timeout` seconds."""
    process = forking_process(os.getpid())
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        request = (code, argv, folder, os.getcwd(), dict(os.environ), timeout)
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        status = int(process.stdout.readline())
        out, err = ((Path(folder) / name).read_text() for name in ("out", "err"))
    return subprocess.CompletedProcess(["-c", *argv], status, out, err)
