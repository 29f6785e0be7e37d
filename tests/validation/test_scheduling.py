"""Unrolled loops, loads behind stores and short branches, against the machine code that the assembler makes of them."""

from __future__ import annotations

import pytest

from tracegen.ptx import parse
from tracegen.ptx.lowering.inner_loops import find_inner_loops
from tracegen.ptx.lowering.lowering import lower_kernel
from tracegen.ptx.timing.chains import PREDICATES, straight_pieces
from tracegen.ptx.timing.store_order import NONE, stores_before
from tracegen.ptx.timing.unrolled_loops import OTHER_COPIES, unrolled_copies
from validation.common.assembled import CAPABILITIES, read_record, table_of_cases
from validation.scheduling.__main__ import (
    BRANCHES,
    CASES,
    INNER_LOOPS,
    LEFT,
    LOOPS,
    MOVED,
    PAIRS,
    RECORD,
    ROLLED,
    STORES,
    UNROLLED,
    source,
)

ROWS = {(row.case, row.capability): row.instructions for row in read_record(RECORD)}


def lowered(case):
    return lower_kernel(parse(source(case), case), "k", {"s": 0}, 0)


@pytest.mark.parametrize("name", [name for name in LOOPS if "a way out" not in name])
def test_a_loop_is_unrolled_where_the_assembler_unrolls_it(name):
    kernel, recorded = lowered(f"loop of {name}"), {ROWS[f"loop of {name}", each] for each in CAPABILITIES}
    end = max(at for at, step in enumerate(kernel.steps) if step.op == "BRA")
    copies = unrolled_copies(kernel, kernel.steps[end].target, end + 1)
    (found,) = recorded
    if found == ROLLED:
        assert copies == 1
    elif found == UNROLLED:
        assert copies >= LOOPS[name].trips
    elif LOOPS[name].trips:
        assert copies == pytest.approx(int(found.split()[0]), rel=0.25)
    else:
        assert copies == OTHER_COPIES == int(found.split()[0])


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", INNER_LOOPS)
def test_an_inner_loop_is_unrolled_completely_where_the_assembler_does_so(name, capability):
    function = parse(source(f"inner loop of {name}", capability), name).functions["k"]
    found = [loop.iterations for loop in find_inner_loops(function, int(capability))]
    assert found == ([INNER_LOOPS[name].trips] if ROWS[f"inner loop of {name}", capability] == UNROLLED else [])


@pytest.mark.parametrize("name", STORES)
def test_a_load_stays_behind_the_stores_that_the_assembler_leaves_it_behind(name):
    steps = [step for step in lowered(f"load {name}").steps if step.op in ("LOAD", "STORE", "ATOM")]
    steps = [step for step in steps if step.space != "CONST"][: 2 * PAIRS]
    loads = [at for at, step in enumerate(steps) if step.op == "LOAD"]
    assert len(loads) == PAIRS
    behind = [stores_before(steps)[at] for at in loads]
    (found,) = {ROWS[f"load {name}", each] for each in CAPABILITIES}
    if found == MOVED:
        assert behind == [NONE] * PAIRS
    else:
        assert found == LEFT
        # The first load follows the last store of the iteration before.
        assert behind == [2 * PAIRS - 1, *(at - 1 for at in loads[1:])]


@pytest.mark.parametrize("n", BRANCHES)
def test_loads_in_short_branches_move_ahead_as_far_as_there_are_predicates(n):
    ahead = {int(ROWS[f"{n} short branches", each].split()[0]) for each in CAPABILITIES}
    crowded = any(piece.crowded for piece in straight_pieces(lowered(f"{n} short branches"), {}))
    assert ahead == {n} if n <= PREDICATES else max(ahead) <= PREDICATES
    assert crowded == (n > PREDICATES)


def test_the_record_has_every_case_and_the_table_each_in_order():
    assert ROWS.keys() == {(case, capability) for case in CASES for capability in CAPABILITIES}
    lines = table_of_cases(read_record(RECORD), CASES).splitlines()
    width = 2 + max(map(len, CASES))
    assert list(dict.fromkeys(line[:width].strip() for line in lines)) == [*CASES]
