"""Run ``rdmodel predict``."""

from __future__ import annotations

import argparse
from typing import Any

from rdmodel.cli.executed_work import ExecutedWork, count_executed
from rdmodel.cli.memory_limit import limit_memory
from rdmodel.cli.option_values import model_options, output_form, selected_gpu, source_options
from rdmodel.cli.output import print_csv, print_results
from rdmodel.cli.progress_line import block_progress
from rdmodel.cli.sources import open_sources
from rdmodel.cli.text_origins import format_origins
from rdmodel.cli.text_prediction import format_prediction
from rdmodel.cli.text_tables import format_metrics
from rdmodel.common.source_texts import SourceTexts
from rdmodel.errors import ConfigError
from rdmodel.gpu.occupancy import Occupancy, compute_occupancy
from rdmodel.model.predict import predict
from rdmodel.results.metrics import check_countable
from rdmodel.results.origin_texts import rows_with_texts
from rdmodel.results.prediction import Prediction


def run_predict(arguments: argparse.Namespace) -> None:
    """Predict the miss rate of every kernel or trace, and print the predictions."""
    gpu = selected_gpu(arguments)
    options = model_options(arguments)
    reading = source_options(arguments)
    form, origins = output_form(arguments), list(dict.fromkeys(arguments.origins))
    if arguments.metrics is not None:
        check_countable(gpu.l1.sector_bytes, options["stores"])
        if origins and form == "csv":
            raise ConfigError("--csv: has a row for each kernel with --metrics, or for each origin with --by, not both")
    executed, occupancies = dict[int, ExecutedWork](), dict[int, Occupancy]()
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
                occupancies[id(results[-1])] = compute_occupancy(trace.launch, gpu)
        if origins and form == "csv":
            print_csv(row for result in results for origin in origins for row in result.by(origin).to_rows())
            return
        texts = SourceTexts()

        def metrics(result: Prediction) -> dict[str, float]:
            return {**result.metrics(), **executed[id(result)].metrics()}

        def objects(result: Prediction) -> dict[str, Any]:
            by = {origin: rows_with_texts(result.by(origin), texts) for origin in origins}
            occupancy = occupancies[id(result)].to_dict()
            return {"occupancy": occupancy, **executed[id(result)].to_dict(), **({"by": by} if origins else {})}

        def text(result: Prediction) -> str:
            main = format_prediction(result, occupancies[id(result)])
            if arguments.metrics is not None:
                main += f"\n\n{format_metrics(result, metrics(result))}"
            return "\n\n".join([main, *(format_origins(result.by(origin), texts) for origin in origins)])

        print_results(form, results, text, None if arguments.metrics is None else metrics, objects)
