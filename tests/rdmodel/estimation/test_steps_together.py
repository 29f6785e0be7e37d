"""Blocks whose barriers keep their warps in step: how they are recognised, and that a pilot agrees."""

from __future__ import annotations

import dataclasses
from unittest.mock import patch

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel.estimation import bounds
from rdmodel.estimation.bounds import stay_in_step
from rdmodel.model.grid_pilot import STEADY_ROWS
from tests.support.builders import Instructions, load, make_trace
from tests.support.presets import FERMI
from tests.support.random_traces import ProgramTrace

BARRIER = (3, 0, 0, ())


def tiled(loads: int = 2, barrier: bool = True, inner: int = 1) -> dict:
    """Return a kernel whose loop has some loads, each in a loop of `inner` iterations, and perhaps a barrier."""
    body = [
        {"for": f"p{i}", "to": inner, "do": [{"load": "a", "at": ["y", f"k + p{i}"]}]} if inner > 1
        else {"load": "a", "at": ["y", f"k + {i}"]}
        for i in range(loads)
    ]  # fmt: skip
    return {
        "name": "tiled",
        "parameters": {"N": 512},
        "arrays": {"a": ["N", "2*N"], "c": ["N", "N"]},
        "threads": ["N", "N"],
        "block": [16, 16],
        "body": [
            {"for": "k", "to": "N", "do": [*body, *(["barrier"] if barrier else [])]},
            {"store": "c", "at": ["y", "x"]},
        ],
    }


def in_step(kernel: dict) -> bool:
    return stay_in_step(tracegen.affine_kernel(kernel), [0])


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (tiled(), True),
        (tiled(loads=STEADY_ROWS - 2), True),
        (tiled(loads=STEADY_ROWS - 1), False),
        (tiled(barrier=False), False),
        (tiled(inner=2), False),
        (tiled(inner=20), False),
        (tiled(inner=2, barrier=False), False),
    ],
    ids=[
        "short body",
        "longest body",
        "too long a body",
        "no barrier",
        "two iterations",
        "short inner loops",
        "inner loops",
    ],
)
def test_loops_with_barriers_keep_warps_in_step(kernel, expected):
    assert in_step(kernel) == expected


@pytest.mark.parametrize(("before", "between", "after"), [(32, 0, 0), (5, 31, 5), (0, 0, 32), (32, 32, 0), (0, 10, 33)])
def test_columns_are_in_step_if_no_stretch_of_a_warp_is_long(before, between, after):
    def rows(n: int) -> Instructions:
        return [load(line) for line in range(n)]

    warp = [*rows(before), BARRIER, *rows(between), BARRIER, *rows(after)]
    longest = max(before + 1, between + 1, after + 1)
    assert stay_in_step(make_trace([[warp, warp]], warps=2), [0]) == (longest <= STEADY_ROWS)


def test_a_barrier_that_some_warps_do_not_execute_keeps_none_in_step():
    [*program] = tracegen.affine_kernel(tiled()).block(0)
    masks = [np.where(np.arange(len(s.mask))[:, None] == 0, 0, s.mask) for s in program]
    partly = [dataclasses.replace(s, mask=mask) for s, mask in zip(program, masks, strict=True)]
    launch = tracegen.affine_kernel(tiled()).launch
    assert stay_in_step(ProgramTrace(launch, {0: program}), [0])
    assert not stay_in_step(ProgramTrace(launch, {0: partly}), [0])


def test_a_pilot_is_run_for_loops_around_others_without_barriers():
    kernel = tiled(loads=1, barrier=False, inner=2)
    with patch.object(bounds, "run_pilot", wraps=bounds.run_pilot) as pilot:
        rd.estimate(tracegen.affine_kernel(kernel), FERMI, l2=True, work=20_000)
    assert pilot.called


def test_no_pilot_is_run_for_blocks_in_step_and_it_would_find_the_same():
    trace = tracegen.affine_kernel(tiled())
    with patch.object(bounds, "run_pilot", side_effect=AssertionError("a pilot was run")):
        alone = rd.estimate(trace, FERMI, l2=True, work=150_000)
    with patch.object(bounds, "obeys_barriers", return_value=False):
        with_pilot = rd.estimate(trace, FERMI, l2=True, work=150_000)
    assert alone.estimates == with_pilot.estimates


@pytest.mark.parametrize("options", [{"definition": "paper"}, {"divergence": False}])
def test_a_pilot_is_run_if_warps_do_not_wait_at_barriers(options):
    trace = tracegen.affine_kernel(tiled())
    with patch.object(bounds, "run_pilot", wraps=bounds.run_pilot) as pilot:
        rd.estimate(trace, FERMI, work=20_000, **options)
    assert pilot.called
