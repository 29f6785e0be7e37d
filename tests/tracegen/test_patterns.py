"""Patterns do what their names say."""

from __future__ import annotations

import doctest
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

import tracegen
from rdmodel.errors import ConfigError
from rdmodel.trace import Op
from tracegen import patterns


def elements(trace, size=4):
    """Return the element of its first array that each lane accesses, in trace order."""
    trace.columns.check()
    return (trace.columns.addresses - trace.launch.arrays[0].base) // size


def by_thread(trace, size=4):
    """Return {thread: elements in order} of a trace without divergence inside its active lanes."""
    c, found, place = trace.columns, {}, elements(trace, size)
    for w in range(c.warps):
        for row in range(c.warp_start[w], c.warp_start[w + 1]):
            lanes = [lane for lane in range(32) if int(c.mask[row]) >> lane & 1]
            for lane, at in zip(lanes, place[c.address_start[row] : c.address_start[row + 1]], strict=True):
                found.setdefault(w * 32 + lane, []).append(int(at))
    return found


def test_a_stream_touches_every_element_once_per_pass():
    trace = patterns.stream(1000, passes=3)
    assert by_thread(trace) == {i: [i] * 3 for i in range(1000)}


def test_a_stride_takes_every_so_manieth_element():
    trace = patterns.stride(100, 33)
    assert by_thread(trace) == {i: [33 * i] for i in range(100)}
    assert trace.launch.arrays[0].bytes == 4 * (99 * 33 + 1)


def test_random_loads_stay_in_their_array_and_reach_all_of_it():
    found = elements(patterns.random(500, 20, 64, seed=3))
    assert len(found) == 500 * 20
    assert set(found.tolist()) == set(range(64))


def test_random_loads_are_as_frequent_as_each_other():
    count = np.bincount(elements(patterns.random(1024, 50, 16, seed=1)), minlength=16)
    expected = 1024 * 50 / 16
    assert ((count - expected) ** 2 / expected).sum() < 45  # chi-square, 15 degrees of freedom: p < 1e-4


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_zipf_frequencies_fall_as_the_power_of_the_rank(exponent):
    count = np.bincount(elements(patterns.zipf(1024, 60, 20, exponent=exponent, seed=5)), minlength=20)
    weight = np.arange(1, 21) ** -exponent
    expected = 1024 * 60 * weight / weight.sum()
    assert ((np.sort(count)[::-1] - expected) ** 2 / expected).sum() < 50


def test_popular_elements_are_spread_over_the_array():
    count = np.bincount(elements(patterns.zipf(1024, 60, 1000, seed=5)), minlength=1000)
    assert set(np.argsort(count)[::-1][:5].tolist()) != set(range(5))


@pytest.mark.parametrize("make", [patterns.random, patterns.zipf])
def test_equal_seeds_make_equal_traces_and_others_do_not(make):
    one, same, other = (elements(make(64, 5, 1000, seed=seed)).tolist() for seed in (1, 1, 2))
    assert one == same != other


def test_a_stencil_loads_the_star_around_each_interior_point():
    height, width, radius = 9, 40, 2
    trace = patterns.stencil(height, width, radius=radius)
    c = trace.columns
    c.check()
    source, result = trace.launch.arrays
    stored = np.concatenate(
        [c.addresses[c.address_start[r] : c.address_start[r + 1]] for r in np.flatnonzero(c.op == Op.STORE)]
    )
    inside = [i * width + j for i in range(radius, height - radius) for j in range(radius, width - radius)]
    assert sorted(((stored - result.base) // 4).tolist()) == inside
    star = [0, *(s * d for d in (1, 2) for s in (1, -1)), *(s * d * width for d in (1, 2) for s in (1, -1))]
    loaded = c.addresses[c.addresses < result.base]
    wanted = sorted(4 * (at + d) + source.base for at in inside for d in star)
    assert sorted(loaded.tolist()) == wanted


def test_a_pointer_chase_follows_one_cycle_through_all_nodes():
    trace = patterns.pointer_chase(40, 70, 70, seed=9)
    successor = {}
    for thread, way in by_thread(trace).items():
        assert way[0] == thread % 70
        assert sorted(way) == list(range(70))
        for at, then in pairwise(way):
            assert successor.setdefault(at, then) == then


def test_each_load_of_a_pointer_chase_waits_for_the_one_before():
    assert patterns.pointer_chase(32, 5, 16).columns.needs.tolist() == [0, 1, 1, 1, 1]


def test_two_passes_visit_the_same_lines_in_the_same_order():
    trace = patterns.two_passes(6, 4096)
    assert [s.trips for s in trace.block(0)] == [6, 6]
    lines = trace.columns.addresses[::32] // 128
    assert lines[:6].tolist() == lines[6:].tolist()
    assert np.diff(lines[:6]).tolist() == [32] * 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: patterns.stream(0), "length=0: must be a whole number of at least 1"),
        (lambda: patterns.stride(32, -1), "step=-1"),
        (lambda: patterns.random(32, 1.5, 4), "loads=1.5"),
        (lambda: patterns.zipf(32, 1, 4, exponent=-1), "exponent=-1"),
        (lambda: patterns.zipf(32, 1, 4, exponent=float("inf")), "exponent=inf"),
        (lambda: patterns.stencil(8, 8, radius=True), "radius=True"),
        (lambda: patterns.pointer_chase(1, 1, 0), "nodes=0"),
        (lambda: patterns.two_passes(4, 100), "step=100: must be a multiple of 128"),
    ],
)
def test_sizes_that_cannot_be_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_the_examples_in_the_docstrings_run():
    for name in ("tracegen", "tracegen.simt.kernel_trace", "tracegen.kernel_library.registry"):
        assert doctest.testmod(sys.modules[name]).failed == 0


def test_importing_tracegen_does_not_import_scipy():
    code = "import sys, tracegen; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_tracegen_names_what_it_exports():
    assert all(hasattr(tracegen, name) for name in tracegen.__all__)
