"""``python -m validation.liger.predict RELEASE``: predict the rows of a release of Liger-Kernel that is importable."""

from __future__ import annotations

import argparse
import sys

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.integrations.triton import recorded_launches
from validation.common import records
from validation.liger.operations import operation
from validation.liger.rows import Predicted, Published, published


def predict(row: Published) -> Predicted:
    """Return the predicted time of an operation, that of all its kernels."""
    import torch

    major, minor = compute_capability(presets.gpu(row.gpu))
    target = f"sm_{major}{minor}"
    with recorded_launches(
        row.gpu, architecture=target, tune="time", then=lambda launch: rd.time(launch, row.gpu)
    ) as found:
        operation(row.operation, row.extents, getattr(torch, row.type))()
    total = sum(each.milliseconds for each in found)
    longest = max(found, key=lambda each: each.milliseconds)
    return Predicted(*row.key, round(1000 * total, 2), len(found), longest.bound)


def main() -> None:
    """Print the predictions of a release as CSV, and its progress on standard error."""
    parser = argparse.ArgumentParser(prog="python -m validation.liger.predict", description=__doc__)
    parser.add_argument("release", help="the release, such as 0.8.0")
    options = parser.parse_args()
    rows = [row for row in published() if row.release == options.release]
    for number, row in enumerate(rows, 1):
        print(f"{row.release} {number} of {len(rows)}: {row.operation} {row.shape} on {row.gpu}", file=sys.stderr)
        heading, line = records.to_csv(Predicted, [predict(row)]).splitlines()
        print(*([heading] if number == 1 else []), line, sep="\n", flush=True)


if __name__ == "__main__":
    main()
