"""Registers of CUDA programs where no assembler is installed: NVRTC, which compiled them, contains one."""

from __future__ import annotations

import pytest

from rdmodel.trace import RegisterUse
from tracegen import cuda
from tracegen.cuda import nvrtc
from tracegen.cuda.nvrtc_assembler import NvrtcAssembler
from tracegen.ptx.registers import ptxas

pytestmark = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

SOURCE = """
#include "shape.h"
template <int sums> __global__ void add(const float* x, float* y, int n) {
  float found[sums];
  _Pragma("unroll") for (int i = 0; i < sums; i++) found[i] = x[threadIdx.x + SCALE * i];
  for (int k = 0; k < n; k++)
    _Pragma("unroll") for (int i = 0; i < sums; i++) found[i] = found[i] * found[i] + k;
  _Pragma("unroll") for (int i = 0; i < sums; i++) y[threadIdx.x + 32 * i] = found[i];
}
"""


@pytest.fixture(autouse=True)
def no_assembler(monkeypatch):
    """Let no assembler be installed."""
    cached = ptxas.known_architectures, ptxas.assemble
    monkeypatch.setattr(ptxas, "find_assemblers", lambda: ())
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def use_of(folder, sums, capability=(8, 6), **options):
    """Return the registers of the kernel with so many sums in a thread."""
    (folder / "shape.h").write_text("#define SCALE WIDTH\n")
    (folder / "add.cu").write_text(SOURCE)
    arguments = ["float[32768]", "float[32768]", 3]
    given = {"defines": ["WIDTH=32"], **options}
    return cuda.trace(folder / "add.cu", f"add<{sums}>", 1, 32, arguments, **given).register_use(capability)


def test_the_compiler_assembles_the_program_that_it_compiled(tmp_path):
    few, many, most = (use_of(tmp_path, sums) for sums in (4, 64, 400))
    assert few.source == many.source == most.source == "ptxas"
    assert 4 < few.registers < 64 < many.registers < 255
    assert (few.spill_loads, many.spill_loads) == (0, 0)
    assert most.registers == 255
    assert most.spill_loads > 0


def test_it_gets_the_options_of_the_program(tmp_path):
    use = use_of(tmp_path, 64, options=["-maxrregcount=32"])
    assert use.registers == 32
    assert use.spill_loads > 0


def test_a_gpu_that_it_does_not_know_has_the_registers_of_a_related_one(tmp_path):
    library = nvrtc.load_nvrtc()
    assert library is not None
    known = frozenset(library.architectures())
    related = ptxas.related_architecture(35, known)
    assert use_of(tmp_path, 64, (3, 5)).source == ("ptxas" if related is None else f"ptxas for sm_{related}")
    assert use_of(tmp_path, 64, (2, 0)).source == use_of(tmp_path, 64, None).source == "estimated"


def test_an_installed_assembler_comes_first(tmp_path, monkeypatch):
    seen = RegisterUse(99, "ptxas")
    name = "_Z3addILi4EEvPKfPfi"
    monkeypatch.setattr(
        "tracegen.ptx.registers.counting.assemble", lambda *_: {name: ptxas.Assembled(seen.registers, 0, 0)}
    )
    assert use_of(tmp_path, 4) == seen


def test_code_for_the_gpu_comes_before_related_code_of_an_installed_assembler(tmp_path, monkeypatch):
    name = "_Z3addILi4EEvPKfPfi"
    counting = "tracegen.ptx.registers.counting"
    monkeypatch.setattr(f"{counting}.known_architectures", lambda: frozenset({80}))
    code = {80: {name: ptxas.Assembled(99, 0, 0)}}
    monkeypatch.setattr(f"{counting}.assemble", lambda _text, number, _relocatable: code.get(number, {}))
    assert use_of(tmp_path, 4, (8, 0)) == RegisterUse(99, "ptxas")
    exact = use_of(tmp_path, 4, (8, 6))
    assert exact.source == "ptxas"
    assert exact.registers < 99
    assert use_of(tmp_path, 4, (3, 5)) == RegisterUse(99, "ptxas for sm_80")


def test_without_the_library_there_are_no_messages(tmp_path, monkeypatch):
    use = use_of(tmp_path, 4)
    monkeypatch.setattr(nvrtc, "load_nvrtc", lambda: None)
    assembler = NvrtcAssembler(None, [])  # type: ignore[arg-type]  # it is not asked
    assert (assembler.architectures(), assembler.assemble(86)) == (frozenset(), ("", b""))
    assert use.source == "ptxas"
