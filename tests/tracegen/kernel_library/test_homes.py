"""Test homes: each module declares the benchmarks that the table says, and a kernel loads no more than it needs."""

from __future__ import annotations

import subprocess
import sys

import tracegen
from tracegen.kernel_library.homes import BENCHMARKS
from tracegen.kernel_library.registry import REGISTRY, kernel_names
from tracegen.kernel_library.suites import ALL


def test_every_module_declares_its_benchmarks():
    tracegen.kernels()
    declared: dict[str, set[str]] = {}
    for name in ALL.keys() & REGISTRY.keys():
        spec = REGISTRY[name]
        assert name.partition(".")[0] == spec.benchmark.name
        declared.setdefault(spec.function.__module__.rpartition(".")[2], set()).add(spec.benchmark.name)
    assert declared == {module: set(benchmarks) for module, benchmarks in BENCHMARKS.items()}


def test_the_names_are_known_before_a_module_is_loaded_and_stay_the_same_afterwards():
    code = (
        "import sys, tracegen; from tracegen.kernel_library.registry import kernel_names; names = kernel_names();"
        "assert not any('polybench' in module for module in sys.modules);"
        "tracegen.kernels(); assert kernel_names() == names; print(*names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*ALL]


def test_a_kernel_loads_the_module_of_its_benchmark_and_no_other():
    code = "import sys, tracegen; tracegen.kernel('spmv.warp'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("tracegen.kernel_library.") for name in done.stdout.split()}
    assert loaded & BENCHMARKS.keys() == {"sparse"}


def test_a_kernel_that_a_user_declares_is_among_the_names_while_it_is_declared(monkeypatch):
    from tracegen.kernel_library import Benchmark

    monkeypatch.setitem(REGISTRY, "own", None)  # restored at the end
    Benchmark("own", {"N": 64}, lambda N: {"x": N}).kernel(threads=lambda N: (N,))(lambda k, x: x[k.x])
    assert "own" in kernel_names()
    assert tracegen.kernel("own").launch.blocks == 1
