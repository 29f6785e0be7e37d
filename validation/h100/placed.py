"""``python -m validation.h100.placed``: predict kernels whose blocks begin on the SMs on which an H100 begins them.

The model deals blocks in rounds over the SMs, so that the first blocks of an SM are as many blocks apart as there are
SMs. The H100 deals pairs of blocks to pairs of SMs, and does not go round in steady rounds (`places.py`).
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass

from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model.dealing import deal
from rdmodel.model.options import Options
from rdmodel.model.run import ModelRun
from rdmodel.model.study import Study
from rdmodel.trace import Launch
from validation.common import records
from validation.h100.cases import FOLDER, Case, own_cases
from validation.h100.study import gpu_of

PLACES, PLACED = FOLDER / "places.csv", FOLDER / "placed.csv"
CASES = (
    *("gemm 512", "2mm.1 768", "syrk 256", "syr2k 256", "matMul_gpu 512", "matMul_gpu_uncoalesced 512"),
    *("matMul_gpu_sharedmem_uncoalesced 512", "matMul_gpu_sharedmem_uncoalesced 768"),
)
"""Products of matrices, whose neighbouring blocks read the same data; blocks of 256 threads."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The predicted misses of loads in the L1, in sectors, with the blocks where an H100 begins them."""

    case: str
    misses: float


def first_blocks(launch: Launch) -> Sequence[int]:
    """Return the blocks that are resident first, in the order in which a dispatcher deals them that goes in rounds."""
    own: dict[int, list[int]] = {}
    with PLACES.open(newline="") as file:
        for row in csv.DictReader(file):
            if int(row["threads"]) == launch.block_threads and int(row["block"]) < launch.blocks:
                own.setdefault(int(row["sm"]), []).append(int(row["block"]))
    rounds = max(map(len, own.values()))
    return [own[sm][at] for at in range(rounds) for sm in sorted(own) if at < len(own[sm])]


def predict(case: Case) -> Placed:
    """Return the misses of a case."""
    gpu, trace = gpu_of(case), case.trace()
    options = Options(model_sms="all", threads=None).resolve(gpu)
    dealt = tuple(enumerate(deal(trace.launch, options)))
    resident = compute_occupancy(trace.launch, gpu).blocks
    run = ModelRun(trace, gpu, options, False, False, 0, dealt, resident, order=first_blocks(trace.launch))
    (found,) = Study(trace, 0, 1, 1, None).run_all([run])
    return Placed(case.name, found.misses.total)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.h100.placed", description=__doc__)
    parser.add_argument("--record", action="store_true", help="predict again, and renew the record")
    parser.add_argument("--jobs", type=records.positive, default=2, metavar="N", help="processes (default: 2)")
    options = parser.parse_args()
    if options.record:
        own = {case.name: case for case in own_cases()}
        tasks = [own[name] for name in CASES]
        PLACED.write_text(records.to_csv(Placed, list(records.run_all(predict, tasks, options.jobs))))
    else:
        print(PLACED.read_text(), end="")


if __name__ == "__main__":
    main()
