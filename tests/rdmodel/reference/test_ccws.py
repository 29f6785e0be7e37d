"""Test `ccws` (cache-conscious warp scheduling) on the reference machine against results derived by hand.

Data arrive 50 cycles after the access. So loads that need each other issue at 0, 51, 102 and so on, and the last of n
loads accesses the L1 at 51 (n - 1) + 1. In all other cycles but 0 a second warp, the watcher, executes non-memory
instructions, until it tries to load in the cycle after that access.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import CCWS, BypassAll
from rdmodel.reference.machine.ccws import Scores
from rdmodel.reference.machine.instruction import Owner
from rdmodel.reference.machine.warps import Warp
from tests.support.machine_programs import barrier, chain, issued, load, machine, simulated, store

ALWAYS = {"throttle": 1000}
"""Whoever loses a line is the only one that loads for a long time."""


def watched(*instructions, gap, **options):
    """Return the cycle in which the watcher loads after `gap` others, beside a warp with `instructions`."""
    block = [list(instructions), [load(5, gap=gap)]]
    outcome = simulated([block], CCWS(**options), gpu=machine(sets=1, ways=1), sched="lrr", memory=50)
    return next(t for t, slot in issued(outcome) if slot == 1)


@pytest.mark.parametrize(
    ("throttle", "at"),
    [
        # One loss after 103 instructions, and two warps: the score is throttle * 200 * 1 / 103, rounded down.
        (51, 104),  # 99, which is less than 100
        (52, 104),  # 100
        (53, 105),  # 102 at 103, 100 at 105
        (60, 119),  # 116 at 103, 100 at 119
        (1000, 154),  # warp 0 ends at 153
    ],
)
def test_a_line_lost_and_missed_holds_others_back_until_the_score_has_decayed(throttle, at):
    # Line 0 is replaced at 52 and missed at 103.
    assert watched(*chain(0, 1, 0), gap=101, throttle=throttle) == at


@pytest.mark.parametrize(
    ("throttle", "first", "second"),
    [
        # One loss after 209 instructions, and three warps: throttle * 300 / 209. Warps 0 and 1 have 100.
        (130, 104, 189),  # 186 at 103: warp 0 may load, warp 1 from 100 on, 86 cycles later
        (140, 104, 203),  # 200
        (141, 105, 205),  # 202 at 103, 200 at 105; warp 2 has ended at 204
        (300, 205, 205),  # 430
    ],
)
def test_warps_load_by_score_and_age_as_long_as_the_scores_fit_the_cutoff(throttle, first, second):
    # Every warp has a scheduler. Warp 2 loads lines 0 and 8, which share a way, and line 0 again at 102; at 153 it
    # issues the last of its loads, whatever its score. The others have executed 103 instructions each before 103.
    gpu = machine(sets=8, ways=1, core={"schedulers": 3, "ldst_queue": 3})
    block = [[load(1, gap=104)], [load(2, gap=104)], chain(0, 8, 0, 7)]
    outcome = simulated([block], CCWS(throttle=throttle), gpu=gpu, memory=50)
    own = [t for t, slot in issued(outcome) if slot == 2]
    assert own == [0, 51, 102, 153]
    assert [[t for t, slot in issued(outcome) if slot == warp] for warp in (0, 1)] == [[first], [second]]


@pytest.mark.parametrize(
    ("entries", "ways", "lines", "lost"),
    [
        (1, 1, [0, 1, 0], False),  # as line 0 is missed, line 1 enters before, and there is one tag
        (2, 2, [0, 1, 0], True),
        (2, 1, [0, 1, 0], True),  # line 1 is of the other set
        (2, 1, [0, 2, 0], False),
        (2, 1, [0, 1, 3, 0], True),  # line 3 drops line 1
        (2, 2, [0, 1, 3, 0], False),  # line 3 drops line 0, the least recently used
        (3, 3, [0, 1, 3, 0], True),
    ],
)
def test_victim_tags_are_sets_with_lru(entries, ways, lines, lost):
    # The watcher wants to load 2 cycles after the last of the loads, which keeps it until the data come if it has lost
    # its line.
    loads = len(lines)
    at = watched(*chain(*lines), gap=50 * (loads - 1) + 1, entries=entries, ways=ways, **ALWAYS)
    assert at == 51 * (loads - 1) + (52 if lost else 2)


def test_a_tag_that_was_found_is_taken_out():
    # The loss at 103 is forgotten at 119. The store issues at 153 and drops line 0 from the L1, which nothing replaces;
    # the load issues at 155, and at 156 line 0 is absent, and no tag is there. The watcher executes 151 others, in all
    # cycles but 0, 51, 102, 153 and 155.
    program = [*chain(0, 1, 0), store(0, needs=1), load(0)]
    assert watched(*program, gap=151, throttle=60) == 156


def test_a_line_that_is_lost_twice_has_one_tag():
    # A local store brings line 0 back at 103, whose tag is there, and line 2 replaces it at 105. At 156 it is missed:
    # 60 * 200 / 156 is less than 100. The other store drops it at 207, and at 209 there is no tag; 60 * 200 * 2 / 209
    # were more. The watcher executes 202 others, in all cycles but 0, 51, 102, 104, 155, 206 and 208.
    program = [*chain(0, 1), store(0, needs=1, local=True), *chain(2, 0), store(0, needs=1), load(0)]
    assert watched(*program, gap=202, throttle=60) == 209


def test_all_losses_of_an_sm_count():
    # At 103 the score would be 45 * 200 * 1 / 103 = 87; at 154, when line 1 is missed, 45 * 200 * 2 / 154 = 116.
    assert watched(*chain(0, 1, 0, 1), gap=151, throttle=45) == 154 + 16


@pytest.mark.parametrize(("active", "score"), [(8, 400), (3, 150), (1, 100)])
def test_a_loss_lowers_no_score(active, score):
    # The first of two losses counts 100 * active / 2.
    scores = Scores(CCWS(throttle=1))
    warps = [Warp(slot, slot, Owner(0, slot), [load(0)]) for slot in range(2)]
    for warp in warps:
        scores.add_warp(warp.owner)
    scores.record_lost_line(warps[0].owner, 7)
    scores.record_lost_line(warps[0].owner, 8)
    scores.record_miss(warps[0].owner, 7, active, 2)
    scores.record_miss(warps[0].owner, 8, 1, 1000)
    waits = 0
    while len(scores.may_load) < 2:
        scores.choose_loaders(warps)
        waits += len(scores.may_load) < 2
        scores.decay()
    assert waits == score - 100


def test_a_line_that_somebody_has_brought_back_is_not_lost():
    # As below: warp 1 replaces line 0 at 52 and brings it back at 103, so that warp 0 finds it at 155.
    gpu = machine(sets=1, ways=1, core={"schedulers": 3, "ldst_queue": 3})
    first = [load(0), load(0, gap=153)]
    second = [load(1, gap=51), load(0, gap=50), store(9, gap=200)]
    outcome = simulated([[first, second, [load(2, gap=156)]]], CCWS(**ALWAYS), gpu=gpu, memory=50)
    assert issued(outcome)[-2:] == [(156, 2), (303, 1)]


@pytest.mark.parametrize(("loser", "at"), [(0, 154), (1, 104)])
def test_a_line_is_lost_by_the_warp_that_had_brought_it(loser, at):
    # Every warp has a scheduler. Warp 0 brings line 0, warp 1 replaces it at 52. At 103 either of them misses it; if
    # that is warp 0, which ends at 153, warp 2 does not load before. Whoever does not executes other instructions.
    gpu = machine(sets=1, ways=1, core={"schedulers": 3, "ldst_queue": 3})
    rest = [store(9, gap=200)]
    first = [load(0), load(0, gap=101)] if loser == 0 else [load(0), *rest]
    second = [load(1, gap=51), load(0, gap=50)] if loser == 1 else [load(1, gap=51), *rest]
    outcome = simulated([[first, second, [load(2, gap=104)]]], CCWS(**ALWAYS), gpu=gpu, memory=50)
    assert next(t for t, slot in issued(outcome) if slot == 2) == at


def test_what_a_warp_has_lost_ends_with_it():
    # Block 0 loses line 0 at 52 and ends at 102. Block 2 begins in its place and misses line 0 at 104: the watcher,
    # block 1, which issues in all cycles but 0, 51 and 103, loads at 105.
    blocks = [[chain(0, 1)], [[load(5, gap=102)]], [chain(0)]]
    outcome = simulated(blocks, CCWS(**ALWAYS), gpu=machine(sets=1, ways=1), slots=2, sched="lrr", memory=50)
    assert issued(outcome) == [(0, 0), (51, 0), (103, 0), (105, 1)]


def test_a_line_of_a_warp_that_has_ended_is_lost_by_nobody():
    # Warp 0 ends at 51. Warp 1 replaces line 0 at 53 and misses it at 104, which does not keep warp 2 at 105.
    block = [chain(0), [load(1, gap=52), load(0, needs=1)], [load(5, gap=105)]]
    gpu = machine(sets=1, ways=1, core={"schedulers": 3, "ldst_queue": 3})
    outcome = simulated([block], CCWS(**ALWAYS), gpu=gpu, memory=50)
    assert issued(outcome) == [(0, 0), (52, 1), (103, 1), (105, 2)]


def test_warps_at_a_barrier_neither_count_nor_load():
    # Warp 0 loses line 0 at 103, and would hold the watcher back until 119; it comes to the barrier at 104.
    at = watched(*chain(0, 1, 0), barrier(), gap=101, throttle=60)
    assert at == 105


def test_only_loads_with_transactions_are_held_back():
    # The watcher wants to load at 104 and waits until 154; a store and a load without transactions do not.
    for other in (store(5, gap=101), load(gap=101)):
        block = [chain(0, 1, 0), [other]]
        outcome = simulated([block], CCWS(**ALWAYS), gpu=machine(sets=1, ways=1), sched="lrr", memory=50)
        assert issued(outcome) == [(0, 0), (51, 0), (102, 0), (104, 1)]


def test_a_load_that_bypasses_has_lost_its_line_as_well():
    # A local store brings line 0, another one replaces it at 2. Warp 0, the older one, issues until 101: it misses
    # line 0 at 102, and only then warp 1 may issue at all, which wants to load at 162. Warp 0 loads again at 152 and
    # ends at 203.
    program = [store(0, local=True), store(1, local=True), load(0, gap=99), load(0, needs=1)]
    block = [program, [load(5, gap=60)]]
    gpu = machine(sets=1, ways=1)
    outcome = simulated([block], CCWS(**ALWAYS), BypassAll(), gpu=gpu, sched="old", memory=50)
    assert [t for t, slot in issued(outcome) if slot == 1] == [204]
