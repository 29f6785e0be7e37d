"""Run ``rdmodel calibrate``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from rdmodel.cli.option_values import changed_gpu, output_form
from rdmodel.cli.output import print_json, print_text
from rdmodel.cli.progress_line import block_progress
from rdmodel.cli.text_comparison import format_calibration
from rdmodel.common.checks import MAX_VALUE
from rdmodel.common.numerals import read_decimal
from rdmodel.common.regular_files import read_bounded_bytes
from rdmodel.comparison.calibrate import calibrate
from rdmodel.errors import TraceError

MAX_LATENCIES_BYTES = 1 << 26
"""Largest file of measured latencies."""


def run_calibrate(arguments: argparse.Namespace) -> None:
    """Fit latencies to the simulated machine, or to the latencies in a file."""
    gpu = changed_gpu(arguments.gpu, dict(arguments.assignments))
    measured = None if arguments.measured is None else list(_read_latencies(Path(arguments.measured)))
    with block_progress("latencies") as progress:
        fitted = calibrate(gpu, measured=measured, seed=arguments.seed, progress=progress)
    if output_form(arguments) == "json":
        print_json(fitted.to_dict())
    else:
        print_text(format_calibration(fitted))


def _read_latencies(path: Path) -> Iterator[float]:
    """Yield the numbers in a file, separated by white space or commas; raise `TraceError` for any other text."""
    try:
        lines = read_bounded_bytes(path, MAX_LATENCIES_BYTES).decode().splitlines()
    except UnicodeDecodeError:
        raise TraceError(f"{path}: is not a text file") from None
    words = [(number, word) for number, line in enumerate(lines, 1) for word in re.split(r"[\s,]+", line) if word]
    if not words:
        raise TraceError(f"{path}: holds no latencies")
    for number, word in words:
        try:
            value = read_decimal(word)
        except ValueError:
            value = -1.0
        if not 0 <= value <= MAX_VALUE:
            raise TraceError(f"{path}:{number}: {word!r} is not a latency: a number from 0 to 2^40")
        yield value
