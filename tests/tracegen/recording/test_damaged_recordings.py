"""A recording that is cut off, changed or of another version is refused, with the file and the field."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rdmodel.errors import RdmodelError, TraceError
from rdmodel.trace import Op
from tests.support.gather_recordings import INDEX, WEIGHT, X, Y, add_launch, begin_recording, end_recording
from tracegen.recording.replay import launches, list_launches


@pytest.fixture
def recording(tmp_path) -> Path:
    """Return a recording of a launch that depends on data that the program copied."""
    folder = tmp_path / "out"
    writer = begin_recording(folder)
    writer.add_content(INDEX, np.arange(255, -1, -1, np.int32).tobytes())
    writer.add_content(X, bytes(1024))
    writer.add("copy", to=Y, **{"from": X}, bytes=1024)
    add_launch(writer)
    writer.add("free", address=X)
    end_recording(writer)
    return folder


def change_head(folder: Path, **fields: object) -> None:
    head = json.loads((folder / "recording.json").read_text())
    (folder / "recording.json").write_text(json.dumps({**head, **fields}))


def change_event(folder: Path, number: int, **fields: object) -> None:
    lines = (folder / "events.jsonl").read_text().splitlines()
    lines[number - 1] = json.dumps({**json.loads(lines[number - 1]), **fields})
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")


def test_a_sound_recording_has_its_launch(recording):
    (trace,) = launches(recording)
    loads = trace.columns.addresses[np.repeat(trace.columns.op == Op.LOAD, np.diff(trace.columns.address_start))]
    assert sorted(loads[(loads >= X) & (loads < Y)]) == [X + 4 * n for n in range(224, 256)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "other"}, r"recording\.json: format: must be 'rdmodel-recording'"),
        ({"version": 2}, r"recording\.json: version=2: must be 1; record the program again"),
        ({"version": True}, r"version=True: must be 1"),
        ({"events": -1}, r"recording\.json: events=-1: must be a whole number"),
        ({"launches": 2}, r"events\.jsonl: holds 1 launches, must hold the 2 that recording\.json names"),
        ({"data": 9}, r"data\.bin: has 1024 bytes, must have the 9 bytes"),
        ({"program": "app"}, r"program='app': must be a list of texts"),
        ({"notes": [1]}, r"notes: must be a list of texts"),
    ],
)
def test_a_head_that_is_wrong_is_refused(recording, fields, message):
    change_head(recording, **fields)
    with pytest.raises(TraceError, match=message):
        list_launches(recording)


@pytest.mark.parametrize(
    ("number", "fields", "message"),
    [
        (1, {"event": "alloc"}, "line 1: event='alloc': must be one of allocate"),
        (1, {"bytes": 1 << 44}, "line 1: bytes=.*: must be a whole number"),
        (1, {"bytes": 1 << 42}, "line 1: bytes=.*: all allocations together"),
        (2, {"address": INDEX + 512}, "line 2: address=.*: lies in another allocation"),
        (4, {"module": 1}, "line 4: module=1: must be 0, the next one"),
        (4, {"variables": {"weight": WEIGHT}}, "line 4: variables: has no address of counter"),
        (4, {"variables": {"weight": X, "counter": X}}, "line 4: address=.*: lies in another allocation"),
        (5, {"address": 7}, "line 5: address=7: 1024 bytes from there must lie in one allocation"),
        (5, {"data": 1}, r"line 5: data=1: 1024 bytes from there are not in data\.bin"),
        (6, {"value": "0g"}, "line 6: value='0g': must be hexadecimal digits"),
        (6, {"value": ""}, "line 6: value='': must have at least one byte"),
        (7, {"from": Y + 1}, "line 7: from=.*: 1024 bytes from there"),
        (8, {"grid": [0, 1, 1]}, r"line 8: grid=\(0, 1, 1\): needs three dimensions"),
        (8, {"grid": [1, 1]}, r"line 8: grid=\[1, 1\]: must be three whole numbers"),
        (8, {"kernel": "scatter"}, "line 8: kernel='scatter': must be a kernel of module 0"),
        (8, {"module": 3}, "line 8: module=3: is not loaded"),
        (8, {"parameters": "00"}, "launch 1: gather: 1 bytes of parameters are too few"),
        (8, {"block": [2048, 1, 1]}, "launch 1: block=.* 1024"),
    ],
)
def test_an_event_that_is_wrong_is_refused(recording, number, fields, message):
    change_event(recording, number, **fields)
    with pytest.raises(RdmodelError, match=message):
        list(launches(recording))


def test_a_recording_that_is_cut_off_anywhere_is_refused(recording):
    whole = (recording / "events.jsonl").read_bytes()
    for length in range(0, len(whole), 13):
        (recording / "events.jsonl").write_bytes(whole[:length])
        with pytest.raises(TraceError, match=r"events\.jsonl: (line \d+: is cut off|holds \d+ (events|launches))"):
            list_launches(recording)


@pytest.mark.parametrize("name", ["events.jsonl", "data.bin", "module-0.ptx"])
def test_a_file_that_is_missing_is_named(recording, name):
    (recording / name).unlink()
    with pytest.raises(TraceError, match=name):
        list(launches(recording))
