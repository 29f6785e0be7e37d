"""Graphs of CUDA: captured from streams or built of nodes, their operations run at each launch, in order."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.gpu.device_properties import device_properties
from rdmodel.presets import gpu
from tests.support.graph_programs import GRAPH_PROGRAM
from tests.support.recorded_programs import build_program, write_images
from tracegen.recording.libraries import stand_ins
from tracegen.recording.recorder import record
from tracegen.recording.replay import list_launches

N = 256
DEVICE = device_properties(gpu("a100-80g"), 1 << 30)


def gathered(n):
    """The sum of what the kernel gathers if its list of N indices runs from 0 to n."""
    return 3 * int((8 * np.arange(N) % n).sum())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    built = build_program(folder, stand_ins(["libcudart.so.12"]), GRAPH_PROGRAM)
    image, text = write_images(folder)

    def recorded(mode, capfd):
        command = [str(built), str(text if mode == "driver" else image), mode]
        result = record(command, folder / f"{mode}.out", device=DEVICE, gpu="a100-80g", values=True)
        launched = [entry.launch.kernel for entry in list_launches(result.folder)]
        return launched, [line.split() for line in capfd.readouterr().out.splitlines()]

    return recorded


def test_a_captured_graph_runs_at_each_launch_with_what_memory_holds_then(run, capfd):
    launched, printed = run("captured", capfd)
    assert launched == ["order", "gather"] * 2
    refused, captured, first, second = printed
    assert refused == ["1", "1"]  # the default stream cannot be captured
    # The second stream joins the capture; nothing has run when the graph is ready.
    assert captured == ["1", "0", "7", "0", "0"]
    assert first == [str(gathered(N)), "1"]
    assert second == [str(2 * gathered(N)), "2"]


def test_a_graph_of_nodes_runs_in_the_order_of_its_dependencies(run, capfd):
    launched, printed = run("built", capfd)
    counted, first, shorter, disabled, updated, twice, results = printed
    assert counted == ["7", "1", "3", "1", "0", "2"]  # host, copy, kernel ... fill
    assert first == [str(gathered(N)), "1"]
    assert shorter == [str(gathered(N // 2)), "2"]
    assert disabled == ["0", "2"]
    assert updated == [str(gathered(N)), "2"]  # the graph itself has not changed, and its last node is disabled still
    assert twice == [str(gathered(N)), "4"]
    assert results == ["2", "1", "0"]  # another topology; a circle; the circle without one of its nodes
    assert launched == [*["order", "gather"] * 2, "order", *["order", "gather"] * 4]


def test_memory_that_a_graph_allocates_stays_for_its_next_launch(run, capfd):
    launched, printed = run("memory", capfd)
    assert launched == ["order"] * 2
    assert printed == [[str(gathered(N) // 3), "0"], ["0"], [str(gathered(N) // 3), "0"]]


def test_the_driver_interface_captures_graphs(run, capfd):
    launched, printed = run("driver", capfd)
    assert launched == ["order"] * 2
    assert printed == [["1", "0", "0"], [str(gathered(N) // 3), "2"]]


@pytest.mark.parametrize("runtime", ["libcudart.so.11.0", "libcudart.so.13"])
def test_other_versions_of_the_runtime_have_the_interface(runtime):
    assert (stand_ins([runtime]) / runtime).is_file()
