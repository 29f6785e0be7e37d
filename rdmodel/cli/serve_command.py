"""Run ``rdmodel serve``."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.resources import files

from rdmodel.answers.store import Answers
from rdmodel.cli.memory_limit import limit_memory
from rdmodel.common.checks import check_int
from rdmodel.errors import ConfigError
from rdmodel.execution.threads import available_cores, check_jobs
from rdmodel.service.server import Service


def run_serve(arguments: argparse.Namespace) -> None:
    """Answer requests from stdin until its end; after a signal, exit with 128 plus the number of the signal."""
    if arguments.schema:
        print(files("rdmodel.service").joinpath("schema.json").read_text(encoding="utf-8"), end="")
        return
    check_jobs(arguments.jobs)
    check_int("queue", arguments.queue, 1, 1 << 20)
    if not 0 < arguments.timeout <= 1e6:
        raise ConfigError(f"timeout={arguments.timeout:g}: must be more than 0 and at most 1e6 seconds")
    store = None if arguments.no_cache else Answers(arguments.cache)
    with limit_memory("serve", arguments.memory):
        service = Service(
            sys.stdin.fileno(),
            sys.stdout.fileno(),
            store=store,
            jobs=available_cores() if arguments.jobs == -1 else arguments.jobs,
            threads=None if arguments.memory is None else 1,
            timeout=arguments.timeout,
            queue=arguments.queue,
            busy=arguments.busy,
            debug=arguments.debug,
        )
        status = service.run()
    if not service.idle:
        # A worker is still computing an abandoned answer. Exit at once: it might fail when the interpreter shuts down.
        os._exit(status)
    if store is not None:
        store.close()
    if status:
        raise SystemExit(status)
