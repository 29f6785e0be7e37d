"""Test the registers of kernels: live values against a search of paths, and the messages of the assembler."""

from __future__ import annotations

import stat
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import ConfigError
from rdmodel.presets import gpu as preset
from rdmodel.trace.registers import RegisterUse
from tests.support.examples import examples
from tests.support.ptx_kernels import HEAD
from tracegen import cuda
from tracegen.ptx import parse
from tracegen.ptx.registers import ptxas
from tracegen.ptx.registers.liveness import estimate_registers

REGISTERS = (
    ".reg .b32 %r<40>; .reg .b64 %rd<10>; .reg .f32 %f<40>; .reg .f64 %d<4>; .reg .pred %p<4>; .reg .b128 %q<2>;"
)


def estimate(body: str, before: str = "", directives: str = "") -> int:
    text = f"{HEAD}{before}\n.visible .entry k(.param .u64 x, .param .u32 n) {directives} {{{REGISTERS}\n{body}\nret;}}"
    return estimate_registers(parse(text), "k")


def loads(registers) -> str:
    return " ".join(f"ld.global.f32 %f{i}, [%rd1+{4 * i}];" for i in registers)


def stores(registers) -> str:
    return " ".join(f"st.global.f32 [%rd1+{4 * i}], %f{i};" for i in registers)


def test_values_are_live_from_their_definition_to_their_last_use():
    # The address (2, defined by an addition) and 12 values.
    address = "ld.param.u64 %rd2, [x]; add.s64 %rd1, %rd2, 8; "
    twelve = range(12)
    assert estimate(f"{address}{loads(twelve)} {stores(twelve)}") == 14
    # Stored one by one, they never meet; a kernel has eight registers at least.
    assert estimate(address + " ".join(f"{loads([i])} {stores([i])}" for i in twelve)) == 8


def test_wide_values_take_more_registers_and_predicates_and_constants_none():
    # The parameter is a constant; its copy is an address, in two registers. Ten values stay live.
    copies = "ld.param.u64 %rd2, [x]; cvta.to.global.u64 %rd1, %rd2; setp.eq.s32 %p1, 1, 1; "
    assert estimate(f"{copies}{loads(range(10))} {stores(range(10))}") == 2 + 10
    doubles = "ld.global.f64 %d1, [%rd1]; ld.global.f64 %d2, [%rd1+8]; ld.global.f64 %d3, [%rd1+16];"
    kept = "st.global.f64 [%rd1], %d1; st.global.f64 [%rd1], %d2; st.global.f64 [%rd1], %d3;"
    assert estimate(f"{copies}{loads(range(10))} {doubles} {kept} {stores(range(10))}") == 2 + 16
    wide = "mov.b128 %q1, {%rd1, %rd1}; "
    assert estimate(f"{copies}{loads(range(10))} {wide}{stores(range(10))} mov.b128 {{%rd3, %rd4}}, %q1;") == 2 + 14


def test_values_that_a_loop_needs_again_are_live_in_all_of_it():
    # Ten values are read in each iteration: they are live while the twelve others are, too.
    body = f"ld.param.u64 %rd1, [x]; {loads(range(10))} LOOP: {loads(range(10, 22))} {stores(range(10, 22))} "
    body += f"{stores(range(10))} setp.eq.s32 %p1, 1, 1; @%p1 bra LOOP;"
    assert estimate(body) == 2 + 22


def test_a_guarded_write_keeps_the_old_value():
    guarded = f"ld.param.u64 %rd1, [x]; {loads(range(12))} {stores(range(11))} @%p1 mov.f32 %f11, 0f00000000; "
    always = guarded.replace("@%p1 mov", "mov")
    # %f11 is live before its guarded write; without a guard it is dead there, so that one value fewer meets the others.
    assert estimate(guarded + stores([11])) == 2 + 12
    assert estimate(always.replace("ld.global.f32 %f11, [%rd1+44];", "") + stores([11])) == 2 + 11


def test_functions_add_their_registers_and_directives_bound_them():
    body = "ld.param.u64 %rd1, [x]; {loads} {{ .param .b32 a; st.param.f32 [a], %f0; call inner, (a); }} {stores}"
    inner = f".func inner(.param .b32 a) {{ {REGISTERS} ld.param.f32 %f0, [a]; {loads(range(1, 10))} "
    inner += f"{stores(range(10))} ret; }}"
    text = body.format(loads=loads(range(8)), stores=stores(range(8)))
    assert estimate(text, inner) == 2 + 8 + 2 + 10
    many = f"ld.param.u64 %rd1, [x]; {loads(range(30))} {stores(range(30))}"
    assert (estimate(many), estimate(many, directives=".maxnreg 24")) == (32, 24)


# ---- random control flow


def instruction(kind: str, a: int, b: int, c: int, target: int) -> str:
    texts = {
        "add": f"add.s32 %r{a}, %r{b}, %r{c};", "guarded": f"@%p1 add.s32 %r{a}, %r{b}, %r{c};",
        "store": f"st.global.u32 [%rd1], %r{b};", "wide": f"mul.wide.s32 %rd{a % 8 + 2}, %r{b}, %r{c};",
        "use": f"st.global.u64 [%rd1], %rd{b % 8 + 2};", "branch": f"bra L{target};", "maybe": f"@%p1 bra L{target};",
        "exit": "@%p1 exit;",
    }  # fmt: skip
    return texts[kind]


LINES = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "guarded", "store", "wide", "use", "branch", "maybe", "maybe", "exit"]),
        *[st.integers(0, 30)] * 3,
        st.integers(0, 24),
    ),
    min_size=20,
    max_size=24,
)


def searched(lines) -> int:
    """Return the most registers that are live or written at an instruction: a path leads to a use before a write."""
    n = len(lines)
    after, writes, reads = [], [], []
    for at, (kind, a, b, c, target) in enumerate(lines):
        goes_on = () if kind == "branch" else (at + 1,)
        after.append((*goes_on, target) if kind in ("branch", "maybe") else goes_on)
        writes.append({"add": f"r{a}", "guarded": f"r{a}", "wide": f"d{a % 8}"}.get(kind))
        operands = {"store": [f"r{b}", "d"], "use": [f"d{b % 8}", "d"], "branch": [], "maybe": [], "exit": []}
        reads.append(operands.get(kind, [f"r{b}", f"r{c}"]))

    def is_live(name: str, starts) -> bool:
        waiting, seen = list(starts), set()
        while waiting:
            at = waiting.pop()
            if at >= n or at in seen:
                continue
            seen.add(at)
            if name in reads[at]:
                return True
            if writes[at] != name or lines[at][0] == "guarded":
                waiting += after[at]
        return False

    names = {*(f"r{i}" for i in range(31)), *(f"d{i}" for i in range(8)), "d"}  # the last one is the address
    sizes = [
        sum(1 + (name[0] == "d") for name in names if writes[at] == name or is_live(name, after[at])) for at in range(n)
    ]
    address = any("d" in read for read in reads)  # written before the first line
    at_first = sum(1 + (name[0] == "d") for name in names if is_live(name, [0]) or (name == "d" and address))
    return max(8, at_first, *sizes)


@given(LINES)
@examples(60)
def test_random_kernels_have_the_live_values_that_a_search_finds(lines):
    lines = [(*line[:4], line[4] % (len(lines) + 1)) for line in lines]
    body = "ld.param.u64 %rd1, [x];\n"
    body += "\n".join(f"L{at}: {instruction(*line)}" for at, line in enumerate(lines)) + f"\nL{len(lines)}:"
    assert estimate(body) == searched(lines)


# ---- the assembler

MESSAGES = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z3onePf' for 'sm_80'
ptxas info    : Function properties for _Z3onePf
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 360 bytes cmem[0]
ptxas info    : Compiling entry function 'two' for 'sm_80'
ptxas info    : Used 10 registers, 4096 bytes smem, 376 bytes cmem[0]
"""

FAKE = """#!/bin/sh
[ "$1" != --help ] || {{ echo "Allowed values: 'compute_75', {known}."; exit; }}
grep -q 'version {version}' "$3" ||
    {{ echo "fatal : Unsupported .version 9.9; current version is '{version}'"; exit 1; }}
grep -q 'target sm_{target}' "$3" || exit 1
grep -q {only} "$3" || exit 1
echo "ptxas info : Compiling entry function 'k' for '$2'" >&2
echo "ptxas info : Used {registers} registers" >&2
"""

KERNEL = ".version 9.9\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x) { .reg .b64 %rd<3>; ret; }"


def test_messages_give_registers_and_spills():
    found = ptxas.parse_messages(MESSAGES)
    assert found == {"_Z3onePf": ptxas.Assembled(255, 12, 20, 12), "two": ptxas.Assembled(10, 0, 0)}
    assert ptxas.parse_messages("ptxas fatal : Ptx assembly aborted due to errors") == {}


@pytest.fixture
def assembler(tmp_path, monkeypatch):
    """Return a function that installs a stand-in for the assembler, which knows one version of PTX."""

    def install(
        registers: int,
        target: int = 80,
        version: str = "8.0",
        variable: str = "CUDA_HOME",
        only: str = "''",
        known: Sequence[int] = (),
    ) -> None:
        program = tmp_path / variable / "bin" / "ptxas"
        program.parent.mkdir(exist_ok=True, parents=True)
        names = ",".join(f"'sm_{number}','sm_{number}a'" for number in known)
        program.write_text(FAKE.format(registers=registers, target=target, version=version, only=only, known=names))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv(variable, str(tmp_path / variable))

    monkeypatch.setattr(ptxas.shutil, "which", lambda name: None)
    monkeypatch.delenv(ptxas.CHOSEN_VARIABLE, raising=False)
    monkeypatch.setattr(ptxas, "_WHEELS", ())
    monkeypatch.setattr(ptxas, "_USUAL_PLACE", tmp_path / "absent")
    caches = ptxas.find_assemblers, ptxas.known_architectures, ptxas.assemble
    for cached in caches:
        cached.cache_clear()
    yield install
    for cached in caches:
        cached.cache_clear()


def test_an_assembler_that_is_older_than_the_code_is_asked_for_its_own_version(assembler):
    assembler(77)
    trace = cuda.trace(KERNEL, "k", 1, 32, ["float[4]"])
    assert trace.register_use((8, 0)) == RegisterUse(77, "ptxas")
    assert str(trace.register_use((8, 0))) == "77 registers per thread (ptxas)"


def test_the_assembler_counts_that_knows_the_version_of_the_code(assembler):
    assembler(77)
    assembler(66, version="9.9", variable="CUDA_PATH")
    trace = cuda.trace(KERNEL, "k", 1, 32, ["float[4]"])
    assert trace.register_use((8, 0)) == RegisterUse(66, "ptxas")


def test_an_assembler_that_rejects_the_code_is_passed_over(assembler):
    assembler(66, version="9.9", only="'not in the code'")
    assembler(77, variable="CUDA_PATH")
    trace = cuda.trace(KERNEL, "k", 1, 32, ["float[4]"])
    assert trace.register_use((8, 0)) == RegisterUse(77, "ptxas")


def test_code_for_a_newer_gpu_is_assembled_for_an_older_one(assembler):
    assembler(64, target=70)
    trace = cuda.trace(KERNEL, "k", 1, 32, ["float[4]"])
    assert trace.register_use((7, 0)).registers == 64


def test_a_gpu_that_the_assembler_does_not_know_has_the_registers_of_a_related_one(assembler):
    assembler(70, known=(75, 80, 86, 90))
    trace = cuda.trace(KERNEL, "k", 1, 32, ["float[4]"])
    assert trace.register_use((7, 0)) == RegisterUse(70, "ptxas for sm_80")
    assert str(trace.register_use((7, 0))) == "70 registers per thread (ptxas for sm_80)"
    assert trace.register_use((7, 0)).is_assembled
    assert trace.register_use((9, 0)) == RegisterUse(70, "ptxas")


def test_a_gpu_with_fewer_registers_per_thread_is_related_to_none(assembler):
    assembler(70, known=(80,))
    trace = cuda.trace(KERNEL, "k", 1, 32, ["float[4]"])
    assert trace.register_use((2, 0)) == RegisterUse(8, "estimated")


@pytest.mark.parametrize(
    ("architecture", "related"),
    [(35, 80), (52, 80), (61, 80), (70, 80), (72, 80), (75, None), (89, None), (103, 100), (120, 89), (130, 100)],
)
def test_related_gpus_have_as_many_threads_on_an_sm(architecture, related):
    assert ptxas.related_architecture(architecture, frozenset((75, 80, 86, 89, 90, 100))) == related


def test_all_assemblers_together_know_architectures(assembler):
    assembler(70, target=70, known=(75, 80))
    assembler(66, target=70, known=(70,), variable="CUDA_PATH")
    assert ptxas.known_architectures() == {70, 75, 80}
    assert cuda.trace(KERNEL, "k", 1, 32, ["float[4]"]).register_use((7, 2)) == RegisterUse(70, "ptxas for sm_70")


def test_an_assembler_without_a_list_of_architectures_is_asked_for_the_gpu(assembler):
    assembler(64, target=70)
    assert ptxas.known_architectures() == frozenset()
    assert cuda.trace(KERNEL, "k", 1, 32, ["float[4]"]).register_use((7, 0)) == RegisterUse(64, "ptxas")


def test_an_assembler_that_the_user_chooses_is_the_only_one(assembler, tmp_path, monkeypatch):
    assembler(77, known=(80,))
    assembler(66, known=(80,), variable="CUDA_PATH")
    chosen = tmp_path / "CUDA_PATH" / "bin" / "ptxas"
    monkeypatch.setenv("RDMODEL_PTXAS", str(chosen))
    assert ptxas.find_assemblers() == (str(chosen),)
    trace = cuda.trace(KERNEL, "k", 1, 32, ["float[4]"])
    assert trace.register_use((8, 0)) == RegisterUse(66, "ptxas")


@pytest.mark.parametrize("name", ["absent", "a folder", "a text"])
def test_what_the_user_chooses_must_be_a_program(assembler, tmp_path, monkeypatch, name):
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a text").write_text("text")
    monkeypatch.setenv("RDMODEL_PTXAS", str(tmp_path / name))
    with pytest.raises(
        ConfigError, match=r"^RDMODEL_PTXAS='.*': must be the path of a program, such as .../bin/ptxas$"
    ):
        ptxas.find_assemblers()


def test_relocatable_code_is_assembled_without_linking(assembler, tmp_path):
    assembler(77)
    program = tmp_path / "CUDA_HOME" / "bin" / "ptxas"
    program.write_text(program.read_text().replace("Used 77", "Used $(($# + 70))"))
    linked, relocatable = (
        cuda.trace(KERNEL, "k", 1, 32, ["float[4]"], options=options).register_use((8, 0)).registers
        for options in ([], ["-rdc=true"])
    )
    assert relocatable == linked + 1, "one option more, -c"


def test_without_an_assembler_the_live_values_count(assembler):
    trace = cuda.trace(KERNEL, "k", 1, 32, ["float[4]"])
    assert trace.register_use((8, 0)) == trace.register_use() == RegisterUse(8, "estimated")
    assert preset("a100-80g").architecture == "Ampere"
