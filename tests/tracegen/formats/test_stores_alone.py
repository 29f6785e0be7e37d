"""Traces of kernels that only store are read in every format, and both engines run them."""

from __future__ import annotations

import pytest

import rdmodel as rd
from rdmodel.trace import ALL_NEEDS, Op
from tests.support import nvbit_texts, ppt_texts
from tests.support.builders import make_trace
from tests.support.presets import FERMI
from tracegen import formats

STORES = make_trace([[[(int(Op.STORE), ALL_NEEDS, 0, tuple(range(4)))]]], warps=1)
"""One warp that stores to four lines."""


def check(trace: rd.Trace, transactions: int) -> None:
    simulation = rd.simulate(trace, gpu=FERMI)
    assert (simulation.transactions, simulation.stores) == (0, transactions)
    prediction = rd.predict(trace, gpu=FERMI, l2=True)
    assert (prediction.transactions, prediction.l2.writes) == (0, transactions)


@pytest.mark.parametrize("form", ["native", "trc", "accelsim", "parquet"])
def test_stores_alone_are_read_back(tmp_path, form):
    if form == "parquet":
        pytest.importorskip("pyarrow")
    if form == "native":
        rd.save(STORES, tmp_path / "trace")
    else:
        formats.write(STORES, tmp_path / "trace", format=form)
    check(formats.read(tmp_path / "trace", format=form), 4)


def test_stores_alone_are_read_from_nvbit(tmp_path):
    text = nvbit_texts.header(grid=(1, 1, 1), block=(32, 1, 1))
    text += nvbit_texts.record(nvbit_texts.lanes(), opcode="STG.E.SYS")
    (tmp_path / "kernel.txt").write_text(text)
    check(formats.read(tmp_path / "kernel.txt"), 1)


def test_stores_alone_are_read_from_ppt(tmp_path):
    (tmp_path / "memory_traces").mkdir()
    (tmp_path / "memory_traces" / "kernel_1_block_0.mem").write_text(ppt_texts.record("STG.E.SYS"))
    (tmp_path / "app_config.py").write_text(ppt_texts.config(kernel_1=("fill", 1, 32)))
    check(formats.read(tmp_path), 1)
