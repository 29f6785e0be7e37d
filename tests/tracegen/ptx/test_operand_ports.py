"""Waits of multiply-adds for the ports of the register file: in code made by hand, and in that of the assembler."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cubins import cubin
from tests.support.examples import examples
from tracegen import cuda
from tracegen.cuda import nvrtc
from tracegen.cuda.compiler import compile_program
from tracegen.cuda.source import read_source
from tracegen.ptx.registers.operand_ports import operand_stalls, section
from tracegen.ptx.registers.ptxas import find_assemblers, parse_messages

OTHER, BAR = (0x7918, 0), (0x7B1D, 0)


def ffma(a: int, b: int, c: int, kept: str = "", form: int = 1) -> tuple[int, int]:
    """Return the two words of ``FFMA R0, Ra, Rb, Rc``; the operands `kept` (of "abc") have ``.reuse``."""
    low = 0x023 | form << 9 | 7 << 12 | a << 24 | b << 32
    return low, c | sum(1 << 58 + "abc".index(name) for name in kept)


def branch(at: int, target: int, architecture: int) -> tuple[int, int]:
    """Return the words of a branch."""
    distance = 16 * (target - at - 1)
    if architecture >= 90:
        words = distance // 4
        number = words >> 8 & (1 << 48) - 1
        return 0x947 | (words & 255) << 16 | (number & (1 << 30) - 1) << 34, number >> 30
    return 0x947 | (distance & 0xFFFFFFFF) << 32, distance >> 32 & 0x3FFFF


def stalls(*instructions: tuple[int, int], architecture: int = 86) -> float:
    return operand_stalls(cubin(*instructions), "k", architecture) * sum(low & 0x1FF == 0x23 for low, _ in instructions)


@pytest.mark.parametrize(("x", "y", "cycles"), [(19, 21, 0), (18, 21, 1), (19, 20, 1), (18, 20, 2)])
def test_the_second_of_two_multiply_adds_waits_as_on_an_a6000(x, y, cycles):
    # Huerta et al., arXiv 2503.20481, section 5.3: FFMA R11, R10, R12, R14; FFMA R13, R16, RX, RY.
    assert stalls(ffma(10, 12, 14), ffma(16, x, y)) == cycles


def test_a_kept_operand_is_not_read_again_at_the_same_place():
    again = [ffma(2, 4 + 2 * at, 6 + 4 * at, "a") for at in range(8)]
    assert stalls(*again) < stalls(*[(low, high & 255) for low, high in again])
    assert stalls(ffma(10, 12, 14, "a"), ffma(10, 16, 18)) == 1
    assert stalls(ffma(10, 12, 14, "a"), ffma(16, 10, 18)) == 2
    assert stalls(ffma(10, 12, 14), ffma(10, 16, 18)) == 2


def test_another_instruction_leaves_the_ports_time_and_nothing_kept():
    assert stalls(ffma(10, 12, 14), OTHER, OTHER, ffma(16, 18, 20)) == 0
    assert stalls(ffma(10, 12, 14, "a"), OTHER, ffma(10, 18, 20)) == 1


def test_the_register_of_zeros_and_constants_are_not_read():
    assert stalls(ffma(10, 255, 14), ffma(16, 18, 20)) == 1
    for form in (4, 5, 6):  # a number, constant memory and a uniform register in the place of the second operand
        assert stalls(ffma(10, 12, 14, form=form), ffma(16, 18, 20)) == 1


@pytest.mark.parametrize("architecture", [80, 86, 89, 90, 100, 120])
def test_the_innermost_loops_count(architecture):
    slow, fast = [ffma(10, 12, 14)] * 3, [ffma(10, 13, 255)] * 3
    outer = [*slow, *fast, branch(6, 3, architecture), *slow, branch(10, 0, architecture), *slow]
    assert operand_stalls(cubin(*outer), "k", architecture) == 0
    assert operand_stalls(cubin(*slow, branch(3, 0, architecture), *fast), "k", architecture) == pytest.approx(4 / 3)
    # A loop without multiply-adds does not stand for the others, and a branch ahead is no loop.
    idle = [*slow, OTHER, branch(4, 3, architecture), branch(5, 9, architecture)]
    assert operand_stalls(cubin(*idle), "k", architecture) == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    "code",
    [b"", b"\x7fELF", b"\x7fELF\x01" + bytes(100), cubin(OTHER), cubin(ffma(10, 12, 14))[:100], cubin(kernel="other")],
)
def test_other_files_have_no_stalls(code):
    assert operand_stalls(code, "k", 86) == 0.0


def test_a_section_has_the_name_that_is_asked_for():
    code = cubin(OTHER, BAR, kernel="one")
    assert section(code, ".text.one") == struct.pack("<4Q", *OTHER, *BAR)
    assert section(code, ".text.on") == section(code, "text.one") == b""


REGISTERS = st.integers(0, 7)
INSTRUCTIONS = st.one_of(
    st.just(OTHER), st.builds(ffma, REGISTERS, REGISTERS, REGISTERS, st.sampled_from(["", "a", "b", "c", "ab", "abc"]))
)


@examples(300)
@given(st.lists(INSTRUCTIONS, min_size=1, max_size=30))
def test_stalls_are_those_of_a_table_of_cycles(instructions):
    taken: set[tuple[int, int]] = set()  # bank and cycle
    cycle, expected, kept = 0, 0, {}
    for low, high in instructions:
        if low & 0x1FF == 0x23:
            operands = {"a": low >> 24 & 255, "b": low >> 32 & 255, "c": high & 255}
            read = [register % 2 for place, register in operands.items() if kept.get(place) != register]
            kept = {place: register for at, (place, register) in enumerate(operands.items()) if high >> 58 + at & 1}

            while any(len(_free(taken, bank, cycle)) < read.count(bank) for bank in (0, 1)):
                cycle, expected = cycle + 1, expected + 1
            for bank in (0, 1):
                taken |= set(_free(taken, bank, cycle)[: read.count(bank)])
        else:
            kept = {}
        cycle += 1
    assert stalls(*instructions) == pytest.approx(expected)


def _free(taken: set[tuple[int, int]], bank: int, cycle: int) -> list[tuple[int, int]]:
    """Return the cycles from one on in which an instruction can read a register of a bank."""
    return [(bank, each) for each in range(cycle, cycle + 3) if (bank, each) not in taken]


@pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="NVRTC is not installed")
def test_code_of_the_assembler_would_wait_longer_if_it_kept_nothing():
    source = """
        extern "C" __global__ void product(float *c, const float *a) {
            float left[8], right[8], sum[64] = {};
            for (int k = 0; k < 64; k++) {
                for (int i = 0; i < 8; i++) { left[i] = a[k * 16 + i]; right[i] = a[k * 16 + 8 + i]; }
                for (int i = 0; i < 64; i++) sum[i] += left[i / 8] * right[i % 8];
            }
            for (int i = 0; i < 64; i++) c[i * 32 + threadIdx.x] = sum[i];
        }
    """
    program = compile_program(read_source(source), architecture="sm_86")
    messages, code = program.assembler.assemble(86)
    assert parse_messages(messages, code).keys() == {"product"}
    text = section(code, ".text.product")
    words = np.frombuffer(text, "<u8").reshape(-1, 2).copy()
    words[:, 1] &= ~np.uint64(7 << 58)
    found, without = (operand_stalls(each, "product", 86) for each in (code, code.replace(text, words.tobytes())))
    assert 0.0 < found < without < 1.5
    use = cuda.trace(source, "product", 1, 32, ["float[2048]", "float[1024]"], architecture="sm_86").register_use(
        (8, 6)
    )
    if not find_assemblers():
        assert use.operand_stalls == found
