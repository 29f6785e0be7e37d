"""Origins of misses: lines, arrays, ranges of addresses and instructions of a prediction."""

from __future__ import annotations

import dataclasses
import json
import pickle

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError
from rdmodel.results.origins import OriginEntry, Origins
from rdmodel.trace import ArrayInfo, InstructionSource, Trace
from tests.support.builders import make_gpu
from tests.support.random_sectors import make_trace

GPU = "v100"


def helper(k, array, index):
    return k.load(array, index)


def kernel(k, a, b, c):
    helper(k, a, k.x)
    helper(k, b, 32 * k.x)
    k.store(c, k.x)


def simt_trace() -> Trace:
    return tracegen.trace(kernel, grid=2, block=64, arrays={"a": 128, "b": 4096, "c": 128})


def row_of(table, name):
    [row] = [row for row in table.rows if row.name == name]
    return row


def loads(*addresses: int, pc: int = 0) -> list[dict]:
    row = {"op": 0, "needs": 0, "gap": 0, "size": 4, "pc": pc}
    return [{**row, "lanes": {0: address}} for address in addresses]


def test_each_array_has_the_misses_of_its_accesses():
    result = rd.predict(simt_trace(), GPU, origins=True, model_sms="all")
    table = result.by("array")
    assert [row.name for row in table.rows] == ["b", "a", "c"]
    assert row_of(table, "b").counts.misses.total == 128
    assert row_of(table, "a").counts.misses.total == 16
    assert row_of(table, "a").counts.l2_bytes == 16 * 32
    stored = row_of(table, "c").counts
    assert (stored.misses.total, stored.stores.sectors, stored.l2_bytes) == (0, 16, 16 * 32)
    assert np.isnan(stored.miss_rate)


def test_lines_of_helpers_are_those_that_access_memory_and_instructions_those_of_each_call():
    result = rd.predict(simt_trace(), GPU, origins=True)
    lines, instructions = result.by("line"), result.by("instruction")
    first = kernel.__code__.co_firstlineno
    assert {row.name for row in lines.rows} == {
        f"test_origins.py:{helper.__code__.co_firstlineno + 1}",
        f"test_origins.py:{first + 3}",
    }
    assert lines.rows[0].arrays == ("a", "b")
    assert [row.arrays for row in instructions.rows] == [("b",), ("a",), ("c",)]
    assert {row.source.file for row in instructions.rows} == {__file__}


def test_accesses_of_a_nest_are_named_by_their_subscripts():
    nest = tracegen.affine_kernel(
        {
            "name": "rows",
            "arrays": {"A": [64, 64], "y": [64]},
            "block": [64],
            "threads": [64],
            "body": [{"for": "j", "to": 64, "do": [{"load": "A", "at": ["x", "j"]}]}, {"store": "y", "at": ["x"]}],
        }
    )
    for kind in ("line", "instruction"):
        assert {row.name for row in rd.predict(nest, GPU, origins=True).by(kind).rows} == {"load A[x][j]", "store y[x]"}


def test_lines_of_a_trace_without_names_belong_to_ranges_of_addresses_and_numbered_instructions():
    far = 1 << 30
    trace = make_trace([[[*loads(0, 128), *loads(far, far + (1 << 21), pc=7)]]])
    result = rd.predict(trace, make_gpu(), origins=True)
    assert {row.name: row.counts.misses.total for row in result.by("array").rows} == {
        "0x0 to 0x1fffff": 2,
        f"{far:#x} to {far + (2 << 21) - 1:#x}": 2,
    }
    assert {row.name for row in result.by("line").rows} == {"pc 0", "pc 7"}
    assert {row.pc for row in result.by("instruction").rows} == {0, 7}


def test_arrays_with_one_name_are_told_apart_by_their_addresses():
    trace = make_trace([[loads(0, 4096)]])
    arrays = tuple(ArrayInfo("x", base, 1024) for base in (4096, 0))
    trace = Trace(dataclasses.replace(trace.launch, arrays=arrays), trace.columns)
    assert {row.name for row in rd.predict(trace, make_gpu(), origins=True).by("array").rows} == {
        "x at 0x0",
        "x at 0x1000",
    }


def test_a_prediction_without_origins_says_how_to_get_them():
    with pytest.raises(ConfigError, match=r"by\('line'\): the prediction has no origins; predict with origins=True"):
        rd.predict(simt_trace(), GPU).by("line")


def test_an_unknown_origin_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"^unknown origin 'lines'; did you mean 'line'"):
        rd.predict(simt_trace(), GPU, origins=True).by("lines")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_blocks": 0.5}, "sample_blocks cannot be combined with origins"),
        ({"l2": True, "work": 1e5}, "origins needs runs of everything"),
    ],
)
def test_samples_that_estimate_counters_have_no_origins(options, message):
    trace = tracegen.kernel("gemm", NI=2048, NJ=2048, NK=16)
    with pytest.raises(ConfigError, match=message):
        rd.predict(trace, GPU, origins=True, **options)


def test_a_sample_of_sms_has_the_origins_of_its_sms():
    result = rd.predict(tracegen.kernel("gemm", NI=64, NJ=64, NK=16), GPU, origins=True, sample_sms=3)
    assert sum(row.counts.misses.total for row in result.by("array").rows) == result.misses.total


def test_origins_survive_json_and_pickling():
    result = rd.predict(simt_trace(), GPU, origins=True)
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["by"]["line"][0]["misses"] == result.by("line").rows[0].counts.misses.to_dict()
    assert plain["by"]["line"][1]["miss_rate"] is None
    assert pickle.loads(pickle.dumps(result)) == result
    assert "by" not in rd.predict(simt_trace(), GPU).to_dict()


def test_origins_are_shown_as_a_table():
    table = rd.predict(simt_trace(), GPU, origins=True).by("array")
    assert repr(table) == "OriginTable(kernel by array: 3 origins, most misses at b)"
    assert "<table>" in table._repr_html_()
    rows = table.to_rows()
    assert [row["name"] for row in rows] == ["b", "a", "c"]
    assert rows[0]["misses_total"] == table.rows[0].counts.misses.total
    assert str(Origins(kernel="k", entries=(), sources={}, arrays=(), place_bytes=1, sector_bytes=32).by("line")) == (
        "k by line: 0 origins"
    )


def test_names_from_files_cannot_control_the_terminal():
    source = InstructionSource("\x1b[31m.cu", 3)
    entry = OriginEntry(0, 0, (1,) * 16)
    origins = Origins(
        kernel="k", entries=(entry,), sources={0: source}, arrays=(), place_bytes=1 << 21, sector_bytes=32
    )
    assert origins.by("line").rows[0].name == "\\x1b[31m.cu:3"
