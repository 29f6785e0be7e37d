"""Run ``rdmodel diff``: the counters of two kernels, traces or saved results, side by side."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rdmodel.cli.memory_limit import limit_memory
from rdmodel.cli.option_values import model_options, output_form, selected_gpu, source_options
from rdmodel.cli.output import print_csv, print_json, print_note, print_text
from rdmodel.cli.progress_line import block_progress
from rdmodel.cli.sources import open_sources
from rdmodel.cli.text_difference import format_difference
from rdmodel.common.regular_files import read_bounded_bytes
from rdmodel.comparison.conditions import read_condition
from rdmodel.comparison.differences import Difference, Result, diff, traffic_counters
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.model.predict import predict
from rdmodel.results.origin_kinds import Origin
from tracegen import formats

MAX_RESULT_BYTES = 1 << 28
"""Size up to which a file with saved results is read."""


def run_diff(arguments: argparse.Namespace) -> None:
    """Compare every kernel of the new source with that of the old one; exit with status 1 if a condition holds."""
    for text in arguments.fail_if:
        read_condition(text)
    if arguments.old == arguments.new == formats.STDIN_NAME:
        raise ConfigError("-: standard input can be read only once")
    gpu, options = selected_gpu(arguments), model_options(arguments)
    old, new = (_results(arguments, source, gpu, options) for source in (arguments.old, arguments.new))
    pairs, alone = pair_results(old, new)
    if not pairs:
        raise ConfigError(f"{arguments.new}: has no kernel of {arguments.old}: {', '.join(_kernels(old))}")
    differences = [_with_origins(diff(*pair), arguments.origins) for pair in pairs]
    broken = [each.broken(arguments.fail_if) for each in differences]
    for source, kernels in zip((arguments.old, arguments.new), alone, strict=True):
        if kernels:
            print_note(f"only in {source}: {', '.join(kernels)}")
    _print(arguments, differences, broken)
    sentences = [f"{each.kernels[1]}: {text}" for each, some in zip(differences, broken, strict=True) for text in some]
    for sentence in sentences:
        print_note(f"failed: {sentence}")
    if sentences:
        sys.exit(1)


def _with_origins(difference: Difference, origins: Sequence[Origin]) -> Difference:
    """Return a difference with the kinds of origins that were asked for; refuse one that a saved result lacks."""
    if lacking := [origin for origin in origins if origin not in difference.by]:
        raise ConfigError(
            f"--by {lacking[0]}: a saved result of {difference.kernels[0]} has no misses by {lacking[0]}; "
            f"rdmodel predict --by {lacking[0]} --json saves them"
        )
    return replace(difference, by={origin: difference.by[origin] for origin in origins})


def pair_results(
    old: Sequence[Result], new: Sequence[Result]
) -> tuple[list[tuple[Result, Result]], tuple[list[str], list[str]]]:
    """Return pairs of results, and the kernels of both sides that are in no pair.

    Single results are a pair whatever their names. Among several, the n-th launches of a kernel are a pair.
    """
    if len(old) == len(new) == 1:
        return [(old[0], new[0])], ([], [])
    places = [_number_launches(results) for results in (old, new)]
    pairs = [(places[0][key], result) for key, result in places[1].items() if key in places[0]]
    only = ([name for name, n in mine if (name, n) not in other] for mine, other in (places, places[::-1]))
    first, second = only
    return pairs, (first, second)


def _number_launches(results: Sequence[Result]) -> dict[tuple[str, int], Result]:
    """Return results by the name of the kernel and the number of its launch."""
    numbered: dict[tuple[str, int], Result] = {}
    for name, result in zip(_kernels(results), results, strict=True):
        numbered[name, sum(other == name for other, _ in numbered)] = result
    return numbered


def _kernels(results: Sequence[Result]) -> list[str]:
    return [str(one["kernel"] if isinstance(one, Mapping) else one.kernel) for one in results]


def _results(arguments: argparse.Namespace, source: str, gpu: GPU, options: Mapping[str, Any]) -> list[Result]:
    """Return the saved results in a file, or the predictions of the kernels of another source."""
    if (saved := _saved_results(source)) is not None:
        return saved
    return list(_predictions(arguments, source, gpu, options))


def _predictions(arguments: argparse.Namespace, source: str, gpu: GPU, options: Mapping[str, Any]) -> Iterator[Result]:
    # Sizes are given to the side that has them, as with several kernels of predict.
    names = argparse.Namespace(**vars(arguments), sources=[arguments.old, arguments.new])
    with limit_memory("diff", arguments.memory) as budget:
        for trace in open_sources(source, source_options(names), budget):
            with block_progress(f"{source}, counting lines") as progress:
                budget.admit_prediction(trace, gpu, options, progress)
            with block_progress(source) as progress:
                yield predict(trace, gpu, progress=progress, **options)


def _saved_results(source: str) -> list[Result] | None:
    """Return the results that ``rdmodel predict --json`` wrote to a file; None for another source, such as a nest."""
    path = Path(source)
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        plain = json.loads(read_bounded_bytes(path, MAX_RESULT_BYTES, ConfigError))
    except ValueError:
        return None  # the reader of loop nests says what is wrong
    results = plain if isinstance(plain, list) else [plain]
    if not results or not all(isinstance(one, dict) and "kernel" in one for one in results):
        return None
    for number, one in enumerate(results):
        try:
            traffic_counters(one)
        except ConfigError as error:
            raise ConfigError(f"{source}: result {number + 1}: {error}") from None
    return results


def _print(arguments: argparse.Namespace, differences: Sequence[Difference], broken: Sequence[Sequence[str]]) -> None:
    form = output_form(arguments)
    if form == "json":
        objects = [{**each.to_dict(), "failed": list(some)} for each, some in zip(differences, broken, strict=True)]
        print_json(objects[0] if len(objects) == 1 else objects)
    elif form == "csv":
        rows = ((each.kernels[1], row) for each in differences for row in (each.origin_rows() or each.to_rows()))
        print_csv({"kernel": kernel, **row} for kernel, row in rows)
    else:
        print_text("\n\n".join(map(format_difference, differences)))
