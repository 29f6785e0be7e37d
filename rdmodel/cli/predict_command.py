"""Run ``rdmodel predict``."""

from __future__ import annotations

import argparse

from rdmodel.cli.executed_work import ExecutedWork, count_executed
from rdmodel.cli.memory_limit import limit_memory
from rdmodel.cli.option_values import model_options, output_form, selected_gpu, source_options
from rdmodel.cli.output import print_results
from rdmodel.cli.progress_line import block_progress
from rdmodel.cli.sources import open_sources
from rdmodel.cli.text_prediction import format_prediction, format_with_metrics
from rdmodel.model.predict import predict
from rdmodel.results.metrics import check_countable
from rdmodel.results.prediction import Prediction


def run_predict(arguments: argparse.Namespace) -> None:
    """Predict the miss rate of every kernel or trace, and print the predictions."""
    gpu = selected_gpu(arguments)
    options = model_options(arguments)
    reading = source_options(arguments)
    if arguments.metrics is not None:
        check_countable(gpu.l1.sector_bytes, options["stores"])
    form, executed = output_form(arguments), dict[int, ExecutedWork]()
    results: list[Prediction] = []
    with limit_memory("predict", arguments.memory) as budget:
        for source in arguments.sources:
            for trace in open_sources(source, reading, budget):
                with block_progress(f"{source}, counting lines") as progress:
                    budget.admit_prediction(trace, gpu, options, progress)
                with block_progress(source) as progress:
                    results.append(predict(trace, gpu, progress=progress, **options))
                if form == "json" or arguments.metrics is not None:
                    executed[id(results[-1])] = count_executed(trace, gpu, results[-1])

        def metrics(result: Prediction) -> dict[str, float]:
            return {**result.metrics(), **executed[id(result)].metrics()}

        more = None if arguments.metrics is None else metrics
        print_results(
            form,
            results,
            format_prediction if more is None else lambda result: format_with_metrics(result, metrics(result)),
            more,
            lambda result: executed[id(result)].to_dict(),
        )
