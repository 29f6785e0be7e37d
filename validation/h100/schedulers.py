"""``python -m validation.h100.schedulers``: predict L1 miss rates with schedulers that issue every instruction.

By default the model draws the next warp at random, and only what accesses memory takes a step. Here it has the options
with which `rdmodel time` and `rdmodel tiles` describe the machine (`rdmodel.model.machine_options`): four schedulers,
each with some of the warps, and a step for every instruction. Under one of the rules, one block begins per cycle.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import rdmodel as rd
from rdmodel.model.machine_options import complete_options
from validation.common import records
from validation.counters.study import COUNTERS
from validation.h100.cases import FOLDER, Case, own_cases
from validation.h100.study import gpu_of, read_measured

SCHEDULED = FOLDER / "scheduled.csv"

SCHEDULERS = ("lrr", "gto", "gty")
"""Values of `sched`: loose round-robin; greedy, then oldest; greedy, then youngest."""

IN_TURN = "lrr in turn"
"""The rule `lrr`, where the first blocks begin one after the other, one per cycle.

Those of an SM begin as many cycles apart as there are SMs. One per cycle is assumed; the GPU takes two cycles at most
(`2dconv 2048`: 16,384 blocks in 16.4 us).
"""

RULES = (*SCHEDULERS, IN_TURN)
"""Names of the rules by which warps issue and blocks begin."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The predicted L1 miss rate of loads under one of the rules, in percent."""

    case: str
    rule: str
    miss_rate: float


def cases_with_hits() -> list[Case]:
    """Return the launches of kernels of this project whose loads were measured to hit in the L1."""
    measured = read_measured()
    return [case for case in own_cases() if measured.get(case.name, {}).get(COUNTERS["L1 loads hit"])]


def predict(task: tuple[Case, str]) -> Scheduled:
    """Return the miss rate of a case under a rule."""
    case, rule = task
    gpu = gpu_of(case)
    choice = {"sched": "lrr", "stagger": gpu.sms} if rule == IN_TURN else {"sched": rule}
    options = complete_options(gpu, {**choice, "model_sms": "all", "threads": None, "histogram": False})
    found = rd.predict(case.trace(), gpu, **options)
    return Scheduled(case.name, rule, round(100 * found.miss_rate, 4))


def read_scheduled() -> dict[str, dict[str, float]]:
    """Return the recorded miss rates of each case by rule."""
    found: dict[str, dict[str, float]] = {}
    for row in records.from_csv(Scheduled, SCHEDULED.read_text()):
        found.setdefault(row.case, {})[row.rule] = row.miss_rate
    return found


def write(rows: Iterable[Scheduled], order: Sequence[str]) -> None:
    """Renew the record, with the cases in an order."""
    known = sorted(rows, key=lambda row: (order.index(row.case), RULES.index(row.rule)))
    SCHEDULED.write_text(records.to_csv(Scheduled, known))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.h100.schedulers", description=__doc__)
    parser.add_argument("--record", action="store_true", help="predict again, and renew the record")
    parser.add_argument("--cases", nargs="+", metavar="CASE", help="only these launches")
    parser.add_argument("--jobs", type=records.positive, default=2, metavar="N", help="processes (default: 2)")
    options = parser.parse_args()
    if options.record:
        text = SCHEDULED.read_text() if SCHEDULED.exists() else ""
        rows = {(row.case, row.rule): row for row in records.from_csv(Scheduled, text)}
        cases = cases_with_hits()
        order = [case.name for case in cases]
        wanted = [case for case in cases if options.cases is None or case.name in options.cases]
        for found in records.run_all(predict, list(product(wanted, RULES)), options.jobs):
            rows[found.case, found.rule] = found
            write(rows.values(), order)
    print(SCHEDULED.read_text(), end="")


if __name__ == "__main__":
    main()
