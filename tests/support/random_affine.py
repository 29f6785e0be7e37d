"""Draw random affine kernels in their JSON form."""

from __future__ import annotations

from math import prod
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

import tracegen
from rdmodel.errors import TraceError
from tests.support.naive_affine import columns
from tracegen.affine.nest import NestLoop, walk

ARRAYS = {"A": ["N", 40], "B": [200]}
COEFFICIENTS = st.integers(-2, 2)


@st.composite
def sums(draw, variables, terms=2):
    """Return the text of an affine expression of some variables, the block's and the thread's."""
    chosen = draw(st.lists(st.sampled_from(variables), min_size=0, max_size=terms, unique=True))
    parts = [f"{draw(COEFFICIENTS)}*{name}" for name in chosen] + [str(draw(st.integers(-3, 6)))]
    return " + ".join(parts)


@st.composite
def bounds_of_loops(draw, variables):
    parts = draw(st.lists(sums(variables), min_size=1, max_size=2))
    return parts[0] if len(parts) == 1 else f"{draw(st.sampled_from(['min', 'max']))}({', '.join(parts)})"


@st.composite
def bodies(draw, variables, depth):
    statements: list[Any] = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = ["access", "access", "fitting", "other"] + (["for", "if", "for"] if depth else [])
        kind = draw(st.sampled_from(kinds))
        if kind == "access":
            op = draw(st.sampled_from(["load", "load", "store", "atomic"]))
            at = [f"{draw(sums(variables))} + {draw(st.sampled_from([0, 20, 60, 100]))}"]
            statements.append({op: "B", "at": at})
        elif kind == "fitting":
            row, column = draw(sums(variables)), draw(sums(variables))
            fits = [f"0 <= {row}", f"{row} < N", f"{column} >= 0", f"{column} <= 39"]
            statements.append({"if": fits, "do": [{"load": "A", "at": [row, column]}]})
        elif kind == "other":
            statements.append(draw(st.sampled_from(["wait", "barrier", {"gap": 3}, {"gap": 1}])))
        elif kind == "if":
            signs = st.sampled_from(["<", "<=", ">", ">=", "=="])
            conditions = [
                f"{draw(sums(variables))} {draw(signs)} {draw(sums(variables))}" for _ in range(draw(st.integers(1, 2)))
            ]
            statements.append({"if": conditions, "do": draw(bodies(variables, depth - 1))})
        else:
            name = f"i{depth}"
            loop = {"for": name, "from": draw(bounds_of_loops(variables)), "to": draw(bounds_of_loops(variables))}
            step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
            body = draw(bodies([*variables, name], depth - 1))
            own = draw(st.sampled_from([{}, {}, {"unroll": 2}, {"unroll": "none"}]))
            statements.append({**loop, "step": step, **own, "do": body})
    return statements


@st.composite
def kernels(draw, depth=3):
    variables = ["x", "y", "thread_x", "block_x", "block_y", "N"]
    grid = draw(st.sampled_from([{"grid": [3]}, {"grid": [2, 2]}, {"threads": ["N * 5", 3]}, {"threads": [70, "N"]}]))
    return {
        "name": "random",
        "parameters": {"N": draw(st.integers(1, 9))},
        "arrays": {"A": ["N", 40], "B": [200]},
        **grid,
        "block": draw(st.sampled_from([[8], [33], [6, 3], [32, 2], [5, "N"]])),
        "body": draw(bodies(variables, depth)),
    }


MOST_ROWS = 3000
"""Bound on the iterations and on the instructions of a random kernel; larger kernels are not compared."""


UNROLL = st.sampled_from([4, 1, 3, "none"])


def iterations(kernel, unroll=4):
    """Return the trace of a kernel and all its columns, or the error."""
    trace = None
    try:
        trace = tracegen.affine_kernel(kernel, unroll=unroll)
        assume(prod(node.most for node in walk(trace._nest.body) if isinstance(node, NestLoop)) < MOST_ROWS)
        assume(sum(segment.instructions for block in trace.blocks for segment in trace.block(block)) < MOST_ROWS)
        return trace, [columns(trace, block) for block in trace.blocks]
    except TraceError as error:
        return trace, error
