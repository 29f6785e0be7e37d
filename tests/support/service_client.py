"""Run the service behind pipes, and check its answers against the schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import files
from typing import Any, Self

from jsonschema import Draft202012Validator

from tests.support.paths import ROOT

COMMAND = [sys.executable, "-m", "rdmodel", "serve"]
SCHEMA = json.loads(files("rdmodel.service").joinpath("schema.json").read_text())

WALK = {"for": "j", "to": "N", "do": [{"load": "A", "at": ["x", "j"]}]}

ROWS: dict[str, Any] = {
    "name": "rows",
    "parameters": {"N": 256},
    "arrays": {"A": ["N", "N"], "y": ["N"]},
    "threads": ["N"],
    "block": [64],
    "body": [{"if": "x < N", "do": [WALK, {"store": "y", "at": "x"}]}],
}
"""Kernel in which every thread walks along another row."""

ENDLESS = {**ROWS, "body": [{"for": "i", "to": 1 << 14, "do": [WALK]}]}
"""Kernel with too much work for a test to wait for its end."""


def validator(part: str) -> Draft202012Validator:
    return Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": f"#/$defs/{part}"}]})


INPUT, OUTPUT = validator("input"), validator("output")


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}


def serve(lines: bytes | str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run a service on an input until it ends, and return the finished process."""
    data = lines.encode() if isinstance(lines, str) else lines
    return subprocess.run(
        [*COMMAND, *(options or ("--no-cache",))], input=data, capture_output=True, env=environment(), check=False
    )


def checked(line: bytes | str) -> Any:
    """Return the value of a line of output, after a check against the schema."""
    value = json.loads(line)
    OUTPUT.validate(value)
    return value


class Client:
    """A running service, to which tests send requests."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *(options or ("--no-cache",))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def send(self, *requests: Any) -> None:
        lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in requests]
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def receive(self) -> Any:
        return checked(self.process.stdout.readline())

    def ask(self, request: Any) -> Any:
        self.send(request)
        return self.receive()

    def end(self) -> tuple[int, list[Any], str]:
        """End the input; return the exit status, the remaining answers, and stderr."""
        out, err = self.process.communicate()
        return self.process.returncode, [checked(line) for line in out.splitlines()], err.decode()
