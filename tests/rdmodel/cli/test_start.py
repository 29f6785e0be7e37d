"""Check what the start of a command loads and leaves behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

UNUSED_BY_PREDICT = (
    "rdmodel.contests",
    "rdmodel.locality_analysis",
    "rdmodel.model.sample_grid",
    "rdmodel.plots",
    "rdmodel.policies.mrpb",
    "rdmodel.reports",
    "rdmodel.simulator",
    "rdmodel.sweeps",
    "rdmodel.timing",
    "statistics",
    "tracegen.affine.nest",
    "tracegen.cuda",
    "tracegen.formats.registry",
    "tracegen.patterns",
    "tracegen.ptx",
    "joblib",
    "matplotlib",
    "scipy",
)
"""Modules that take time to load, and that the prediction of a named kernel does not need."""

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
def test_a_command_starts_no_blas_threads_and_leaves_the_environment_as_it_was():
    code = (
        "import os, sys; from rdmodel.cli import main\n"
        "before = dict(os.environ)\n"
        "main(['predict', 'gemm', '--param', 'NI=64', '--param', 'NJ=64', '--param', 'NK=64'])\n"
        "print(len(os.listdir('/proc/self/task')), dict(os.environ) == before, file=sys.stderr)"
    )
    environment = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr.splitlines()[-1] == "1 True"


def test_the_prediction_of_a_named_kernel_loads_no_module_that_it_does_not_need():
    code = (
        "import sys; from rdmodel.cli import main\n"
        "main(['predict', 'gemm', '--param', 'NI=64', '--param', 'NJ=64', '--param', 'NK=64'])\n"
        f"print([name for name in {UNUSED_BY_PREDICT!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
