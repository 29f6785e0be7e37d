"""Programs that know nothing of rdmodel run without a GPU, and their launches become traces."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rdmodel.errors import TraceError
from rdmodel.gpu.device_properties import device_properties
from rdmodel.presets import gpu
from rdmodel.trace import Op
from tests.support.recorded_programs import build_program, write_images, write_units
from tracegen.recording.libraries import stand_ins
from tracegen.recording.recorder import record
from tracegen.recording.replay import launches, list_launches

N = 256
INDEX = 8 * np.arange(N) % N
GATHERED = 3 * int(INDEX.sum())
DEVICE = device_properties(gpu("a100-80g"), 1 << 30)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    built = build_program(folder, stand_ins(["libcudart.so.12"]))
    fat, plain = write_images(folder)
    return built, fat, plain


@pytest.fixture
def run(program, tmp_path, capfd):
    def recorded(mode, *, values=True, image=None, **options):
        built, fat, plain = program
        chosen = {"fat": fat, "plain": plain}.get(image or "fat", image)
        options = {"device": DEVICE, "gpu": "a100-80g", **options}
        result = record([str(built), str(chosen), mode], tmp_path / "out", values=values, **options)
        return result, capfd.readouterr().out.split()

    return recorded


def names(folder):
    return [entry.launch.kernel for entry in list_launches(folder)]


def accesses(trace, op):
    lanes = np.repeat(trace.columns.op == op, np.diff(trace.columns.address_start))
    return trace.columns.addresses[lanes]


@pytest.mark.parametrize("values", [True, False])
def test_a_launch_gathers_by_the_results_of_the_one_before(run, values):
    # Whether the kernels ran during the recording makes no difference to the traces.
    result, printed = run("run", values=values)
    assert printed == [str(GATHERED if values else 0)]
    assert (result.status, result.launches, names(result.folder)) == (0, 2, ["order", "gather"])
    assert [("--values" in note) for note in result.notes] == [True] * (not values)
    order, gather = launches(result.folder)
    index, x, y = (order.launch.arrays[n].base for n in range(3))
    assert sorted(accesses(order, Op.STORE)) == [index + 4 * n for n in range(N)]
    loads = accesses(gather, Op.LOAD)
    assert sorted(loads[loads >= x]) == sorted([*(x + 4 * INDEX), *([loads.max()] * N)])
    assert sorted(accesses(gather, Op.STORE)) == [y + 4 * n for n in range(N)]


def test_units_of_relocatable_code_are_linked(program, tmp_path, capfd):
    first, second = write_units(tmp_path)
    command = [str(program[0]), str(first), "run", str(second)]
    result = record(command, tmp_path / "out", device=DEVICE, gpu="a100-80g", values=True)
    assert capfd.readouterr().out == f"{GATHERED}\n"
    assert names(result.folder) == ["order", "gather"]
    assert json.loads((tmp_path / "out/recording.json").read_text())["modules"] == 1


def test_a_launch_is_picked_by_number_or_name(run):
    folder = run("run", values=False)[0].folder
    assert [trace.launch.kernel for trace in launches(folder, "gath*")] == ["gather"]
    assert [trace.launch.kernel for trace in launches(folder, number=1)] == ["order"]
    (gather,) = launches(folder, "2")
    assert len(np.unique(accesses(gather, Op.LOAD))) == 256 + len(set(INDEX)) + 1
    with pytest.raises(TraceError, match="no launch matches kernel='3'; there are 1 \\(order\\), 2 \\(gather\\)"):
        list(launches(folder, number=3))


def test_the_host_writes_and_reads_managed_memory_itself(run):
    result, printed = run("managed")
    changed = GATHERED + 3 * 1000 * int((INDEX == 0).sum())
    assert printed == [str(GATHERED), str(changed)]
    assert len(list(launches(result.folder))) == 4


def test_copies_and_fills_act_as_on_a_device(run):
    _, printed = run("copies")
    assert printed == ["1010101", "0", "512", "7", "1", "1", "1", "1", str(GATHERED)]


def test_the_driver_interface_takes_texts_and_packed_parameters(run):
    result, printed = run("driver", image="plain")
    assert printed == [str(int((8 * np.arange(N) % (N // 2)).sum()))]
    assert names(result.folder) == ["order", "order"]


def test_ptx_for_a_newer_device_is_used_with_a_note_if_there_is_no_other(run):
    older, _ = run("run", device=device_properties(gpu("gv100"), 1 << 30), gpu="gv100")
    assert older.notes == ("the program has no PTX for compute capability 7.0: that for 7.5 is used",)


def test_the_program_sees_the_properties_of_the_chosen_gpu(program, tmp_path, capfd):
    chosen = gpu("h100-sxm")
    with pytest.raises(TraceError, match="launched no kernel"):
        record(
            [str(program[0]), str(program[1]), "properties"], tmp_path / "out",
            device=device_properties(chosen, 1 << 30), gpu=chosen.name,
        )  # fmt: skip
    assert capfd.readouterr().out == f"h100-sxm {chosen.sms} 9.0\n"


def test_a_call_that_is_not_provided_is_named_and_the_launches_before_it_are_kept(run, tmp_path):
    with pytest.raises(TraceError, match=r"calls cudaMallocMipmappedArray, which .* holds the 2 launches until then"):
        run("array")
    assert names(tmp_path / "out") == ["order", "gather"]
    assert json.loads((tmp_path / "out/recording.json").read_text())["complete"] is False


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (b"\x7fELF machine code", "holds machine code and no PTX: rebuild the program with 'rdmodel nvcc'"),
        (b"no PTX at all", r"module 0:1: .*\.version"),
    ],
)
def test_an_image_without_ptx_is_refused(run, tmp_path, image, message):
    (tmp_path / "bad").write_bytes(image + bytes(1))
    with pytest.raises(TraceError, match=message):
        run("driver", image=tmp_path / "bad")
    assert not (tmp_path / "out").exists()


def test_a_forked_process_ends_when_it_uses_cuda(program, tmp_path, capfd):
    built, fat, _ = program
    result = record([str(built), str(fat), "fork"], tmp_path / "out", device=DEVICE, gpu="a100-80g", values=True)
    output = capfd.readouterr()
    assert (output.out, result.launches) == (f"{GATHERED}\n", 2)
    assert output.err == "rdmodel: error: a second process uses CUDA after a fork; it ends, and is not recorded\n"


def test_a_program_that_fails_is_recorded(run):
    result, _ = run("fail")
    assert (result.status, result.launches) == (3, 2)


def test_a_folder_is_replaced_only_if_it_is_a_recording(run, tmp_path):
    run("run")
    with pytest.raises(TraceError, match="exists already"):
        run("driver", image="plain")
    run("driver", image="plain", overwrite=True)
    assert names(tmp_path / "out") == ["order", "order"]
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(TraceError, match="never overwritten"):
        run("run", overwrite=True)


def test_a_program_without_cuda_is_told_how_to_link(tmp_path):
    with pytest.raises(TraceError, match=r"did not use the stand-ins .* -cudart shared"):
        record(["true"], tmp_path / "out", device=DEVICE, gpu="a100-80g")
    assert not any(tmp_path.iterdir())


def test_a_kernel_that_cannot_be_executed_is_noted(run):
    result, printed = run("freed")
    assert printed == ["0"]
    assert len(result.notes) == 1
    assert result.notes[0].startswith("launch 2: not all of its results are computed: gather: PTX line")


def test_memory_that_is_freed_before_its_kernel_runs_still_holds_its_contents(run):
    # Copies back execute pending kernels; nothing else does here.
    assert run("late")[1] == [str(GATHERED)]
