"""``python -m validation.scheduling``: assemble loops and loads, and record what the assembler makes of them.

Of a loop, it may put several iterations into one body, or all of them; inside another loop, all of many. A load moves
ahead of a store before it or stays behind. Of several short branches that load, some loads move ahead of all uses.
Needs ``ptxas`` and ``nvdisasm`` of CUDA 13 in the folder ``bin`` of ``--cuda``, or on the path. Tests compare the
record with the modules `unrolled_loops`, `store_order` and `chains` of `tracegen.ptx.timing`, and with `inner_loops` of
`tracegen.ptx.lowering`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from validation.common.assembled import Assembled, machine_code, run_command

RECORD = Path(__file__).parent / "recorded.csv"

MOVED, LEFT, ROLLED, UNROLLED = "moves ahead", "stays behind", "rolled", "unrolled completely"
LEFT_ROLLED = "not unrolled completely"

PAIRS = 6
"""Loads, each with a use and a store behind it, of a case of `STORES`."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop with so many loads and, beside the sum of each load, so many sums; `trips` is 0 if it is an argument.

    `inside` stands in the loop, too, and `step` is what is added to the counter.
    """

    loads: int
    sums: int
    trips: int = 0
    inside: str = ""
    step: str = "1"

    @property
    def text(self) -> str:
        """The loop in PTX."""
        loads = [f"ld.global.f32 %f{at + 2}, [%q1+{4096 * at}];" for at in range(self.loads)]
        uses = [f"fma.rn.f32 %f1, %f{at + 2}, %f{at + 2}, %f1;" for at in range(self.loads)]
        sums = ["fma.rn.f32 %f1, %f1, %f1, 0f3f800001;"] * self.sums
        end = [
            f"add.s64 %q1, %q1, {4096 * self.loads}; add.s32 %r1, %r1, {self.step};",
            f"setp.lt.s32 %p1, %r1, {self.trips or '%r2'}; @%p1 bra L; E:",
        ]
        return "\n".join(["mov.u32 %r1, 0; L:", self.inside, *loads, *uses, *sums, *end])


LOOPS: Mapping[str, Loop] = {
    **{f"{size} instructions, 1000 times": Loop(*shape, trips=1000) for size, shape in {
        16: (4, 4), 32: (8, 12), 60: (16, 24), 64: (4, 52), 68: (16, 32)}.items()},
    "16 instructions, 5 times": Loop(4, 4, trips=5),
    "68 instructions, 5 times": Loop(16, 32, trips=5),
    **{f"{2 * loads + sums + 4} instructions, {loads} of them loads": Loop(loads, sums) for loads, sums in (
        (1, 0), (4, 8), (8, 22), (4, 32), (1, 44), (4, 36), (12, 12))},
    "16 instructions, rolled by a pragma": Loop(4, 4, inside='.pragma "nounroll";'),
    "16 instructions, 1000 times, rolled by a pragma": Loop(4, 4, trips=1000, inside='.pragma "nounroll";'),
    "18 instructions, with a way out": Loop(4, 4, inside="setp.gt.f32 %p2, %f1, 0f42c80000; @%p2 bra E;"),
    "19 instructions, with a short branch": Loop(
        4, 4, inside="setp.gt.f32 %p2, %f1, 0f42c80000; @%p2 bra S; add.f32 %f1, %f1, %f1; S:"),
    "19 instructions, 1000 times, with a short branch": Loop(
        4, 4, trips=1000, inside="setp.gt.f32 %p2, %f1, 0f42c80000; @%p2 bra S; add.f32 %f1, %f1, %f1; S:"),
    "16 instructions, with a step from an argument": Loop(4, 4, step="%r2"),
}  # fmt: skip
"""Loops by what is special about them; without a number of iterations, it is an argument."""


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """A loop inside another one, with so many loads from shared memory at its counter, sums of them, and iterations."""

    loads: int
    sums: int
    trips: int

    @property
    def text(self) -> str:
        """Both loops in PTX."""
        loads = [f"ld.shared.f32 %f{at + 2}, [%r8+{4 * at}];" for at in range(self.loads)]
        sums = [f"fma.rn.f32 %f1, %f{at % self.loads + 2}, %f{(7 * at) % self.loads + 2}, %f1;"
                for at in range(self.sums)]  # fmt: skip
        inner = ["mov.u32 %r1, 0; I: shl.b32 %r7, %r1, 8; add.s32 %r8, %r3, %r7;", *loads, *sums,
                 f"add.s32 %r1, %r1, 1; setp.ne.s32 %p1, %r1, {self.trips}; @%p1 bra I;"]  # fmt: skip
        outer = ["mov.u32 %r9, 0; L: bar.sync 0; st.shared.f32 [%r3], %f1; bar.sync 0;", *inner]
        return "\n".join([*outer, "add.s32 %r9, %r9, 1; setp.lt.s32 %p2, %r9, %r2; @%p2 bra L;"])


INNER_LOOPS: Mapping[str, InnerLoop] = {
    f"{loads} loads and {sums} sums, {trips} times": InnerLoop(loads, sums, trips)
    for loads, sums, trips in (
        (2, 64, 3), (2, 64, 8), (2, 64, 24), (4, 16, 6), (4, 16, 32), (8, 64, 3), (8, 64, 8), (8, 64, 24), (8, 64, 64),
        (16, 64, 16), (16, 64, 96), (16, 128, 2), (16, 128, 16), (16, 128, 48), (8, 256, 2), (8, 256, 6), (24, 128, 16))
}  # fmt: skip
"""Inner loops by their instructions, beside those of the counter, and their iterations."""

_GLOBAL, _SHARED = "ld.global.f32 {f}, [%q1+{far}];", "ld.shared.f32 {f}, [%r3+{near}];"

STORES: Mapping[str, tuple[str, str]] = {
    "behind a store to another pointer": (_GLOBAL, "st.global.f32 [%q2+{far}], %f1;"),
    "behind a store to the same pointer": (_GLOBAL, "st.global.f32 [%q1+{near}], %f1;"),
    "of unchanging data behind a store": (_GLOBAL.replace("f32", "nc.f32"), "st.global.f32 [%q2+{far}], %f1;"),
    "behind a store to shared memory": (_GLOBAL, "st.shared.f32 [%r3+{near}], %f1;"),
    "behind a reduction": (_GLOBAL, "red.global.add.f32 [%q2+{far}], %f1;"),
    "behind a store without a space": (_GLOBAL, "st.f32 [%q2+{far}], %f1;"),
    "from shared memory behind a store to another place": (_SHARED, "st.shared.f32 [%r4+{near}], %f1;"),
    "from shared memory behind a store to the same place": (_SHARED, "st.shared.f32 [%r3+{near}], %f1;"),
    "from shared memory behind a store to global memory": (_SHARED, "st.global.f32 [%q2+{far}], %f1;"),
}
"""Loads and the stores behind each of them, by what they have in common."""

_BRANCH = (
    "add.s32 %r7, %r5, {threads}; setp.ge.s32 %p{at}, %r7, %r2; @%p{at} bra S{at}; "
    "ld.global.f32 %f{value}, [%q1+{far}]; st.shared.f32 [%r3+{near}], %f{value}; S{at}:"
)

BRANCHES = (2, 4, 6, 7, 8, 10, 12)
"""Numbers of short branches, each of which loads a number and stores it in shared memory."""

CASES = {**{f"loop of {name}": loop.text for name, loop in LOOPS.items()}, **{
    f"inner loop of {name}": loop.text for name, loop in INNER_LOOPS.items()
}, **{
    f"load {name}": "\n".join(
        f"{load} fma.rn.f32 %f1, {{f}}, {{f}}, %f1; {store}".format(f=f"%f{at + 2}", far=4096 * at, near=512 * at)
        for at in range(PAIRS)
    )
    for name, (load, store) in STORES.items()
}, **{
    f"{n} short branches": "\n".join(
        _BRANCH.format(at=at, threads=7 * at, value=at + 2, far=4096 * at, near=512 * at) for at in range(n)
    )
    for n in BRANCHES
}}  # fmt: skip
"""The PTX of each case."""


def source(case: str, capability: str = "80") -> str:
    """Return the kernel of a case."""
    return f""".version 8.7
.target sm_{capability}
.address_size 64
.shared .align 16 .b8 s[8192];
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n) {{
.reg .b64 %q<6>; .reg .b32 %r<10>; .reg .f32 %f<40>; .reg .pred %p<16>;
ld.param.u64 %q1, [a]; ld.param.u64 %q2, [b]; ld.param.u32 %r2, [n];
cvta.to.global.u64 %q1, %q1; cvta.to.global.u64 %q2, %q2; mov.u32 %r5, %tid.x; mul.wide.u32 %q3, %r5, 4;
add.s64 %q1, %q1, %q3; add.s64 %q2, %q2, %q3; mov.u32 %r6, s; shl.b32 %r3, %r5, 2; add.u32 %r3, %r3, %r6;
shl.b32 %r4, %r2, 2; add.u32 %r4, %r4, %r6; mov.f32 %f1, 0f00000000;
{CASES[case]}
st.global.f32 [%q2+65536], %f1; ret; }}"""


def assemble(case: str, capability: str, tools: Path | None) -> Assembled:
    """Return how many iterations the body of a loop has, whether loads move ahead of stores, or how many do."""
    text = machine_code(source(case, capability), capability, tools)
    assert text is not None, f"{case}: ptxas rejects the kernel"
    lines = [line for line in text.splitlines() if re.search(r"/\*[0-9a-f]{4,}\*/\s", line) or line.startswith(".L_")]
    if case.startswith("inner loop "):
        inner = INNER_LOOPS[case.removeprefix("inner loop of ")]
        return Assembled(case, capability, UNROLLED if _sums(lines) >= inner.sums * inner.trips else LEFT_ROLLED)
    if not case.startswith("loop "):
        first = next(at for at, line in enumerate(lines) if re.search(r"\b(STG|STS|ST|RED|REDG)\b", line))
        ahead = sum(bool(re.search(r"\b(LDG|LDS)\b", line)) for line in lines[:first])
        if case.startswith("load "):
            return Assembled(case, capability, MOVED if ahead == PAIRS else LEFT)
        return Assembled(case, capability, f"{ahead} loads ahead")
    loop = LOOPS[case.removeprefix("loop of ")]
    copies = max((_sums(lines[begin:end]) // (loop.loads + loop.sums) for begin, end in _loops(lines)), default=0)
    return Assembled(case, capability, UNROLLED if not copies else ROLLED if copies == 1 else f"{copies} iterations")


def _loops(lines: list[str]) -> list[tuple[int, int]]:
    """Return the loops of some machine code, without the endless one behind its end."""
    places = {line.split(":")[0]: at for at, line in enumerate(lines) if line.startswith(".L_")}
    found = []
    for at, line in enumerate(lines):
        target = re.search(r"\bBRA\b[^;]*?(\.L_\w+)", line)
        if target and places.get(target[1], at) < at and _sums(lines[places[target[1]] : at]):
            found.append((places[target[1]], at))
    return found


def _sums(lines: list[str]) -> int:
    return sum("FFMA" in line for line in lines)


if __name__ == "__main__":
    run_command("validation.scheduling", __doc__, RECORD, CASES, assemble)
