"""Programs with arrays, textures and surfaces are recorded, and their kernels read the texels where these lie."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rdmodel.errors import TraceError
from rdmodel.gpu.device_properties import device_properties
from rdmodel.presets import gpu
from rdmodel.trace import Op
from tests.support.recorded_programs import build_program, fat_binary
from tests.support.texture_programs import TEXTURE_PROGRAM, TEXTURE_PTX
from tracegen.ptx.emulator.textures import block_places
from tracegen.recording.libraries import stand_ins
from tracegen.recording.recorder import record
from tracegen.recording.replay import launches

W, H = 50, 21
HOST = np.arange(W * H)
DEVICE = device_properties(gpu("a100-80g"), 1 << 30)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("textures")
    (folder / "image").write_bytes(fat_binary([(1, 75, 0, TEXTURE_PTX.encode(), 0)]))
    return build_program(folder, stand_ins(["libcudart.so.12"]), TEXTURE_PROGRAM), folder / "image"


@pytest.fixture
def run(program, tmp_path, capfd):
    def recorded(mode, *, values=True):
        command = [str(program[0]), str(program[1]), mode]
        record(command, tmp_path / "out", device=DEVICE, gpu="a100-80g", values=values)
        return [line.split() for line in capfd.readouterr().out.splitlines()]

    return recorded


def loads(folder, number=1):
    """The addresses that the loads of a launch access, block by block, from the first address of its texture on."""
    (trace,) = launches(folder, number=number)
    columns = trace.columns
    addresses = columns.addresses[np.repeat(columns.op == Op.LOAD, np.diff(columns.address_start))]
    events = map(json.loads, (folder / "events.jsonl").read_text().splitlines())
    texture = next(event for event in events if event["event"] == "texture")
    return addresses.reshape(trace.launch.blocks, -1) - texture["address"]


@pytest.mark.parametrize("mode", ["array", "device"])
def test_an_array_lies_in_blocks_and_holds_what_was_copied_there(run, tmp_path, mode):
    assert run(mode) == [["0"], ["0"], ["read", *map(str, HOST)]]
    # 21 rows are three times 8 rows: blocks have four of them.
    assert (loads(tmp_path / "out") == block_places(4 * W, H, 4)[:, ::4]).all()


def test_the_traces_are_those_of_a_recording_without_values(run, tmp_path):
    run("array", values=False)
    assert (loads(tmp_path / "out") == block_places(4 * W, H, 4)[:, ::4]).all()


def test_rows_of_a_pitched_texture_lie_a_pitch_apart(run, tmp_path):
    pitch, created, read = run("pitched")
    assert (created, read) == (["0"], ["read", *map(str, HOST)])
    expected = int(pitch[1]) * np.arange(H)[:, None] + 4 * np.arange(W)[None, :]
    assert (loads(tmp_path / "out") == expected).all()


def test_a_texture_of_memory_has_its_components_side_by_side(run, tmp_path):
    (fetched,) = run("linear")
    assert fetched == ["fetched", *(str(4 * i + 1 - 2 * W) for i in range(W))]
    assert (loads(tmp_path / "out") == 4 * np.arange(W)).all()


def test_a_surface_changes_its_array_and_copies_cross_rows(run, tmp_path):
    _, _, surface, info, results = run("surface")
    changed = 2 * HOST.reshape(H, W)
    changed[5, -2:], changed[6, 0] = (-1, -2), -3
    expected = np.zeros((2, W), int)
    expected[:, : W - 3] = changed[5:7, 3:]
    assert surface == ["surface", *map(str, expected.ravel())]
    assert info == ["32", "2", str(W), str(H), "0", "2"]
    assert results == ["1", "0", "0", "400"]  # a box beyond the array; the last texture is of an array that was freed
    # A copy stores the whole array once, however many rows it touches.
    events = [json.loads(line) for line in (tmp_path / "out/events.jsonl").read_text().splitlines()]
    assert len([event for event in events if event["event"] == "write"]) == 2
    assert (loads(tmp_path / "out", 2) == block_places(4 * W, H, 4)[:, ::4]).all()


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("srgb", r"calls cudaCreateTextureObject \(with sRGB\)"),
        ("modes", r"calls cudaCreateTextureObject \(with several address modes\)"),
        ("view", r"calls cudaCreateTextureObject \(with a view of the resource\)"),
    ],
)
def test_a_texture_that_is_not_followed_is_named(run, mode, message):
    with pytest.raises(TraceError, match=message):
        run(mode)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "half"}, "kind='half': must be one of float, signed, unsigned"),
        ({"components": 3}, "components=3: must be one of 1, 2, 4"),
        ({"bytes": 1}, "bytes=1: must be one of 2, 4"),
        ({"block": 3}, "block=3: must be one of 0, 1, 2, 4, 8, 16"),
        ({"linear": 2}, "linear=2: must be one of 0, 1"),
        ({"mode": "repeat"}, "mode='repeat': must be one of"),
        ({"depth": 0}, "depth=0: must be at least 1"),
        ({"pitch": 8}, "pitch=8: must be at least the 200 bytes of a row"),
        ({"height": 1000}, r"address=\d+: \d+ bytes from there must lie in one allocation"),
        ({"width": 1 << 43, "pitch": 1 << 43, "components": 1}, "pitch=.*: must be at least"),
        ({"handle": "x"}, "handle='x': must be a whole number"),
    ],
)
def test_a_texture_that_is_wrong_is_refused(run, tmp_path, fields, message):
    run("array")
    path = tmp_path / "out/events.jsonl"
    lines = path.read_text().splitlines()
    (number,) = (n for n, line in enumerate(lines) if '"texture"' in line)
    lines[number] = json.dumps({**json.loads(lines[number]), **fields})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(TraceError, match=rf"line {number + 1}: {message}"):
        list(launches(tmp_path / "out"))
