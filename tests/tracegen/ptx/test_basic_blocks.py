"""Test what the basic blocks of PTX wait for, against sets of loads per register."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tracegen import cuda

REGISTERS = st.integers(1, 3)
PLAIN = st.one_of(
    st.tuples(st.just("load"), REGISTERS),
    st.tuples(st.just("add"), REGISTERS, REGISTERS, REGISTERS),
    st.tuples(st.sampled_from(["mov", "mov"]), REGISTERS, REGISTERS),
    st.tuples(st.sampled_from(["store", "shared"]), REGISTERS),
    st.just(("barrier",)),
)


@st.composite
def bodies(draw, depth):
    """Return a list of instructions, of branches that skip instructions but are never taken, and of loops."""
    inner = bodies(depth - 1) if depth else st.just([])
    branches = st.tuples(
        st.just("if"), st.one_of(st.lists(PLAIN, min_size=6, max_size=9), st.lists(PLAIN, max_size=3), inner)
    )
    loops = st.tuples(st.just("loop"), st.integers(1, 9), st.booleans(), inner)
    return draw(st.lists(st.one_of(PLAIN, PLAIN, *([branches, loops] if depth else [])), max_size=8))


class Text:
    """The PTX of a body."""

    def __init__(self, body):
        self.lines, self.labels = [], 0
        self.write(body)
        head = ".version 8.0 .target sm_80 .address_size 64 .visible .entry k(.param .u64 A) { .shared .b32 s[32];"
        head += f".reg .b64 %rd<2>; .reg .f32 %f<4>; .reg .b32 %r<{self.labels + 2}>; .reg .pred %p;"
        self.text = "\n".join([head, "ld.param.u64 %rd1, [A]; mov.u32 %r1, s;", *self.lines, "ret; }"])

    def write(self, body):
        for what, *of in body:
            if what == "if":
                label = self.label()
                self.lines += [f"setp.ne.u32 %p, %r1, %r1; @%p bra L{label};"]
                self.write(of[0])
                self.lines += [f"L{label}:"]
            elif what == "loop":
                trips, rolled, inner = of
                label = self.label()
                pragma = '.pragma "nounroll";' if rolled else ""
                self.lines += [f"mov.u32 %r{label}, 0; L{label}: {pragma}"]
                self.write(inner)
                again = f"setp.lt.u32 %p, %r{label}, {trips}; @%p bra L{label};"
                self.lines += [f"add.u32 %r{label}, %r{label}, 1; {again}"]
            else:
                self.lines += [PTX[what].format(*of)]

    def label(self):
        self.labels += 1
        return self.labels + 1


PTX = {
    "load": "ld.global.f32 %f{0}, [%rd1];",
    "add": "add.f32 %f{0}, %f{1}, %f{2};",
    "mov": "mov.f32 %f{0}, %f{1};",
    "store": "st.global.f32 [%rd1], %f{0};",
    "shared": "st.shared.f32 [%r1], %f{0};",
    "barrier": "bar.sync 0;",
}


class Naive:
    """The needs of a body: each register holds the set of loads that its value comes from."""

    def __init__(self, body, unroll):
        self.unroll, self.values = unroll, {1: set(), 2: set(), 3: set()}
        self.needs, self.count = [], 0
        self.open, self.computed, self.published, self.pending = set(), set(), set(), set()
        self.run(body)

    def run(self, body):
        for what, *of in body:
            getattr(self, f"do_{what}")(*of)

    def wait(self, loads):
        self.pending |= loads & self.open
        self.open -= loads

    def end_block(self):
        if self.unroll != "none":
            self.wait(self.computed)
            self.computed = set()

    def row(self):
        distances = [self.count - 1 - load for load in self.pending]
        self.needs.append(sum(1 << d for d in distances if d < 64))
        self.pending = set()

    def do_load(self, register):
        self.row()
        self.values[register] = {self.count}
        self.open.add(self.count)
        self.count += 1

    def do_add(self, to, one, other):
        self.values[to] = self.values[one] | self.values[other]
        self.computed |= self.values[to]

    def do_mov(self, to, one):
        self.values[to] = self.values[one]

    def do_store(self, register):
        self.wait(self.values[register])
        self.row()
        self.count += 1

    def do_shared(self, register):
        self.computed |= self.values[register]
        self.published |= self.values[register]

    def do_barrier(self):
        self.wait(self.published)
        self.published = set()
        self.row()

    def do_if(self, body):
        predicated = len(body) <= 7 and not any(what in ("if", "loop", "barrier") for what, *_ in body)
        for part in ([], body):
            self.run(part)
            if not predicated:
                self.end_block()

    def do_loop(self, trips, rolled, body):
        times = 1 if rolled or has_loop(body) or self.unroll == "none" else self.unroll
        self.end_block()
        for t in range(1, trips + 1):
            self.run(body)
            if t % times == 0 or t == trips:
                self.end_block()


def has_loop(body):
    return any(what == "loop" or (what == "if" and has_loop(of[0])) for what, *of in body)


@examples(200)
@given(bodies(2), st.sampled_from([4, 1, 3, "none"]))
def test_blocks_wait_for_the_loads_that_the_one_before_computes_with(body, unroll):
    columns = cuda.trace(Text(body).text, "k", 1, 32, ["float[64]"], unroll=unroll).columns
    assert columns.needs.tolist() == Naive(body, unroll).needs
