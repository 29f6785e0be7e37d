"""Test what the commands print about executed instructions, shared memory and registers."""

from __future__ import annotations

import json

import pytest

from rdmodel.trace import RegisterUse
from tracegen.cuda import nvrtc
from tracegen.ptx.emulator import emulated_launch
from tracegen.ptx.registers import ptxas

SHIFT = """
extern "C" __global__ void shift(float* a, float* b, int n) {
  __shared__ float words[64];
  int i = blockIdx.x * 64 + threadIdx.x;
  words[threadIdx.x] = a[i];
  __syncthreads();
  if (i < n) b[i] = fmaf(2.0f, words[threadIdx.x * 2 % 64], 1.0f);
}
"""
"""Two warps; the lanes of a warp read every second word: 16 banks with 2 words each, 2 wavefronts."""

ARGUMENTS = ("--grid", "20", "--block", "64", "--arg", "a=float[1280]", "--arg", "b=float[1280]", "--arg", "n=1280")


@pytest.fixture
def launch(tmp_path):
    """The words that launch 20 blocks of `SHIFT`."""
    if nvrtc.load_nvrtc() is None:
        pytest.skip("needs NVRTC: pip install 'rdmodel[cuda]'")
    source = tmp_path / "shift.cu"
    source.write_text(SHIFT)
    return (str(source), *ARGUMENTS, "--gpu", "v100")


def test_predict_has_the_work_of_the_modelled_blocks_and_the_occupancy(run, launch):
    options = ("--registers", "100", "--model-sms", "all", "--metrics", "ncu", "--json")
    status, out, err = run("predict", *launch, *options)
    assert (status, err) == (0, "")
    plain = json.loads(out)
    # 104 registers for each of 32 lanes: 4 warps take 13312 of the 16384 of a sub-core, and 8 blocks have 16 warps.
    assert plain["occupancy"] == {"blocks": 8, "limiter": "registers", "warps": 16, "max_warps": 64}
    work = plain["work"]
    assert (work["blocks"], work["counted_blocks"]) == (20, 8)
    assert work["flops"]["fp32"] == 20 * 2 * 64
    assert work["shared_wavefronts"]["load_shared"] == 2 * work["shared_groups"]["load_shared"] == 20 * 4
    assert work["shared_conflicts"]["load_shared"] == 20 * 2
    metrics = plain["metrics"]
    assert metrics["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 20 * 64
    assert metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"] == 20 * 2
    assert metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"] == 20 * (2 + 4)


@pytest.mark.parametrize("command", ["predict", "simulate"])
def test_texts_and_json_name_what_limits_the_occupancy(run, launch, command):
    options = (command, *launch, "--registers", "100")
    assert "\noccupancy: 8 blocks, 16 of 64 warps (registers)\n\n" in run(*options)[1]
    plain = json.loads(run(*options, "--json")[1])
    assert plain["occupancy"] == {"blocks": 8, "limiter": "registers", "warps": 16, "max_warps": 64}
    assert [*plain][-1] == "config"


def test_info_and_report_list_what_the_blocks_execute(run, launch, tmp_path):
    status, out, _ = run("info", *launch, "--model-sms", "all")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert status == 0
    assert {"flops, fp32 2,560", "wavefronts of shared loads 80", "conflicts 40", "load shared 40"} <= set(lines)
    assert "occupancy 32 blocks, 64 of 64 warps (blocks)" in lines
    page = tmp_path / "page.html"
    assert run("report", *launch, "--json", "-o", str(page))[0] == 0
    assert "wavefronts of shared loads" in page.read_text()
    assert "32 blocks, 64 of 64 warps (blocks)" in page.read_text()


def test_registers_are_a_number_or_counted_for_one_gpu(run):
    status, _, err = run("predict", "vectoradd", "--registers", "many")
    assert (status, err.count("\n")) == (2, 1)
    assert "argument --registers: 'many' is not a whole number" in err
    status, _, err = run("predict", "vectoradd", "--registers", "auto")
    assert status == 0
    assert err == "rdmodel: vectoradd: the registers per thread are unknown; give them with --registers N\n"


NOTES = {
    "given": (100, ""),
    "ptxas": (12, ""),
    "ptxas for sm_80": (12, "rdmodel: shift: 12 registers per thread (ptxas for sm_80)\n"),
    "estimated": (12, "rdmodel: shift: 12 registers per thread (estimated)\n"),
}


@pytest.mark.parametrize("source", NOTES)
def test_a_time_tells_registers_that_are_not_those_of_the_gpus_own_code(run, launch, monkeypatch, source):
    monkeypatch.setattr(emulated_launch, "count_registers", lambda *_: RegisterUse(12, source))
    monkeypatch.setattr(ptxas, "find_assemblers", lambda: ("ptxas",))
    options = ("--registers", "100") if source == "given" else ()
    status, out, err = run("time", *launch, *options, "--json")
    registers, note = NOTES[source]
    assert (status, err) == (0, note)
    nothing = dict.fromkeys(("spill_stores", "spill_loads", "spill_frame", "operand_stalls"), 0)
    expected = {"registers": registers, "source": source, **nothing}
    assert json.loads(out)["registers"] == expected


def test_registers_that_a_time_is_asked_for_have_their_source(run, launch, monkeypatch):
    monkeypatch.setattr(emulated_launch, "count_registers", lambda *_: RegisterUse(12, "ptxas"))
    status, out, err = run("time", *launch, "--registers", "auto", "--json")
    assert (status, err) == (0, "rdmodel: shift: 12 registers per thread (ptxas)\n")
    assert json.loads(out)["registers"]["source"] == "ptxas"
    status, out, err = run("time", "vectoradd", "--registers", "auto", "--json")
    assert err == "rdmodel: vectoradd: the registers per thread are unknown; give them with --registers N\n"


def test_who_has_no_assembler_learns_where_to_get_one(run, launch, monkeypatch):
    monkeypatch.setattr(emulated_launch, "count_registers", lambda *_: RegisterUse(12, "estimated"))
    monkeypatch.setattr(ptxas, "find_assemblers", lambda: ())
    for options in (("time",), ("info", "--registers", "auto")):
        status, _, err = run(options[0], *launch, *options[1:])
        advice = "ptxas tells them if it knows the GPU: pip install nvidia-cuda-nvcc"
        assert (status, err) == (0, f"rdmodel: shift: 12 registers per thread (estimated); {advice}\n")


def test_a_time_of_unknown_registers_says_nothing_about_them(run):
    status, out, err = run("time", "vectoradd", "--json")
    assert (status, err) == (0, "")
    assert "registers" not in json.loads(out)
