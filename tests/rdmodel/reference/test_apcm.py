"""Test `apcm` (access pattern-aware cache management) on the reference machine against results derived by hand.

Loads are identified by their program counters. Most tests have one monitored warp and a second one after it, in another
block, whose accesses show what the policy has learnt. Load 1 is the subject of the test, and load 2 often the last one
to use its lines; nothing is known of loads from 7 on. In an L1 of one set, the second warp begins with the lines that
the first one left there.
"""

from __future__ import annotations

import pytest

from rdmodel.policies import APCM, MRPB
from rdmodel.reference.machine.record import BYPASSED, HIT, MISS, PENDING, WRITE
from tests.support.machine_programs import (
    accessed,
    chain,
    counted,
    load,
    load_by,
    machine,
    one_warp,
    outcomes,
    simulated,
    store,
)

USED_BY_ANOTHER = [*chain(0, pc=1), *chain(0, pc=2)]
"""Load 1 is intra-warp, load 2 its last one."""

USED_IN_A_LOOP = chain(0, 0, pc=1)
"""Load 1 is intra-warp, and its own last one."""


def learned(monitored, *program, ways=1, allocate="miss", **options):
    """Return the outcomes of a warp that runs after the monitored one, in an L1 of one set."""
    gpu = machine(sets=1, ways=ways, l1={"allocate": allocate})
    outcome = simulated([[list(monitored)], [list(program)]], APCM(**options), gpu=gpu)
    return outcomes(outcome)[sum(len(one.lines) for one in monitored) :]


# ---- monitoring


def test_a_load_whose_line_nobody_used_again_bypasses_whatever_the_l1_holds():
    # One tag: line 1 takes it from line 0, of which there was one access. Line 2 bypasses, and line 0, too, which
    # load 2 finds in the L1.
    outcome = one_warp(*chain(0, 1, 2, 0, pc=1), *chain(0, pc=2), policies=[APCM(tags=1)])
    assert outcomes(outcome) == [MISS, MISS, BYPASSED, BYPASSED, HIT]
    assert counted(outcome, "bypassed") == (2,)


@pytest.mark.parametrize(("tags", "what"), [(1, [MISS, BYPASSED, BYPASSED]), (2, [MISS, MISS, BYPASSED])])
def test_lines_with_the_same_remainder_share_a_tag(tags, what):
    # With two tags it is line 2 that takes that of line 0.
    outcome = one_warp(*chain(0, 1, 2, 3, pc=1), policies=[APCM(tags=tags)])
    assert outcomes(outcome) == [MISS, *what]


def test_what_the_tags_say_is_known_when_the_monitored_warp_ends():
    # Warp 0 ends at 11. Warp 1 loads line 3 at 2 as ever, and line 5 at 13 past the L1.
    outcome = simulated([[chain(0, pc=1), chain(3, 5, pc=1)]], APCM())
    assert accessed(outcome) == [(1, 0, MISS), (2, 3, MISS), (13, 5, BYPASSED)]


def test_a_warp_without_instructions_is_not_monitored():
    outcome = simulated([[[], chain(0, 1, 2, pc=1)]], APCM(tags=1))
    assert outcomes(outcome) == [MISS, MISS, BYPASSED]


def test_only_the_first_warp_is_monitored():
    # Load 1 of warp 0 is intra-warp; load 3 of the next one would be streaming.
    assert learned(USED_BY_ANOTHER, *chain(1, 2, 3, 4, pc=3), tags=1) == [MISS] * 4


def test_a_line_that_another_warp_uses_is_neither_bypassed_nor_protected():
    # Warp 1 finds line 0 on its way at 2, when warp 0 is monitored; or line 9, which has no tag.
    for line, what in ((0, MISS), (9, BYPASSED)):
        outcome = simulated([[chain(0, pc=1), [load_by(1, line), *chain(1, pc=1)]]], APCM(), gpu=machine(ways=1))
        assert outcomes(outcome) == [MISS, PENDING if line == 0 else MISS, what]


@pytest.mark.parametrize(("another", "what"), [(True, MISS), (False, BYPASSED)])
def test_a_line_that_its_own_and_another_warp_use_is_not_protected(another, what):
    # Warp 1, or warp 0 itself, finds line 0 on its way at 2; warp 0 finds it there at 12 and ends at 15.
    block = [USED_IN_A_LOOP, [load_by(1, 0)]] if another else [[load_by(1, 0), load_by(1, 0), *chain(0, pc=1)], []]
    blocks = [block, [[*chain(2, pc=1), *chain(3, pc=7)]]]
    outcome = simulated(blocks, APCM(), gpu=machine(sets=1, ways=1))
    assert outcomes(outcome) == [MISS, PENDING, HIT, MISS, what]


BUFFERED = MRPB(latency=0, bypass=None)


@pytest.mark.parametrize("policies", [[APCM(tags=2)], [APCM(tags=2), BUFFERED]])
def test_only_the_first_two_transactions_of_an_instruction_take_tags(policies):
    # Line 2 does not take the tag of line 0. Line 3, the first one of the next instruction, takes that of line 1, so
    # that line 5 bypasses.
    outcome = one_warp(load_by(1, 0, 1, 2), *chain(3, 5, pc=1), gpu=machine(sets=8), policies=policies)
    assert outcomes(outcome) == [MISS, MISS, MISS, MISS, BYPASSED]


def test_all_transactions_of_an_instruction_count_where_there_is_a_tag():
    # The third transaction finds line 0 on its way: intra-warp, so that line 2 is protected. Had it been for line 4,
    # which takes no tag, load 1 were streaming.
    program = [*chain(2, pc=1), *chain(3, pc=7)]
    assert learned([load_by(1, 0, 1, 0)], *program, ways=2, tags=2) == [MISS, MISS]
    assert learned([load_by(1, 0, 1, 0)], *chain(2, 4, pc=1), *chain(3, pc=7), ways=2) == [MISS, MISS, BYPASSED]
    assert learned([load_by(1, 0, 1, 4)], *program, ways=3, tags=2) == [BYPASSED, MISS]


@pytest.mark.parametrize("sooner", [False, True])
@pytest.mark.parametrize(("uses", "protected"), [(2, False), (3, False), (4, True)])
def test_a_tag_begins_with_what_the_l1_has_counted(uses, protected, sooner):
    # Warp 1 misses line 0 at 2 and finds it on its way at 4. At 14, or on its way at 5, the monitored warp is the third
    # to ask for it: three accesses, one of its own. Then it loads line 1 several times, which speaks of load 1 only if
    # that are more than three. Block 1 brings line 2 and shuts line 3 out if it protects that.
    gap = 2 if sooner else 11
    monitored = [load_by(1, 0, gap=gap), *[load_by(1, 1, needs=1)] * uses]
    other = [load_by(7, 0), load_by(7, 0)]
    blocks = [[monitored, other], [[*chain(2, pc=1), *chain(3, pc=8)]]]
    outcome = simulated(blocks, APCM(), gpu=machine(sets=1, ways=1), sched="lrr")
    first = [what for _, line, what in accessed(outcome) if line == 0]
    assert first == [MISS, PENDING, PENDING if sooner else HIT]
    assert outcomes(outcome)[-2:] == [MISS, BYPASSED if protected else MISS]


def test_a_tag_of_a_line_that_a_local_store_brought_counts_loads_only():
    # The monitored warp is the first load to find line 0: load 1 is streaming.
    assert learned([store(0, local=True), load_by(1, 0)], *chain(1, pc=1)) == [BYPASSED]


def test_only_more_accesses_overwrite_what_is_known():
    # One tag. Line 1 takes it from line 0: load 1 is streaming, so that line 1 bypasses, which is the second access to
    # it. Line 2, which still bypasses, takes its tag: intra-warp. Lines 4 and 5 take those of lines with one access.
    outcome = one_warp(*chain(0, 1, 1, 2, 3, 4, 5, pc=1), gpu=machine(sets=8), policies=[APCM(tags=1)])
    assert outcomes(outcome) == [MISS, MISS, BYPASSED, BYPASSED, MISS, MISS, MISS]


@pytest.mark.parametrize(("most", "what"), [(2, BYPASSED), (3, MISS)])
def test_a_full_count_is_known_at_once(most, what):
    # After the second access to line 0 load 1 protects line 1.
    gpu = machine(sets=1, ways=1)
    outcome = one_warp(*chain(0, 0, 1, pc=1), *chain(2, pc=7), gpu=gpu, policies=[APCM(most=most)])
    assert outcomes(outcome) == [MISS, HIT, MISS, what]


def test_a_full_tag_does_not_change_any_more():
    # Load 2 has been the last to use line 0 when its tag was full; load 3 comes later. So line 1 is protected until
    # load 2 is done, and not until load 3 is.
    program = [*chain(1, pc=1), *chain(1, pc=3), *chain(2, pc=7), *chain(1, pc=2), *chain(2, pc=7)]
    for most, what in ((2, [MISS, HIT, BYPASSED, HIT, MISS]), (3, [MISS, HIT, MISS, MISS, MISS])):
        assert learned([*USED_BY_ANOTHER, *chain(0, pc=3)], *program, most=most) == what


def test_loads_beyond_the_table_are_left_alone():
    # One tag and one number, for load 1. Load 2 does not take the tag; line 7 of load 1 does.
    program = [*chain(0, pc=1), *chain(1, 2, 3, pc=2), *chain(7, 8, pc=1)]
    outcome = one_warp(*program, policies=[APCM(tags=1, loads=1)])
    assert outcomes(outcome) == [MISS] * 5 + [BYPASSED]


def test_local_loads_and_stores_have_no_numbers():
    local = [load_by(1, line, needs=1, local=True) for line in (0, 1, 2)]
    outcome = one_warp(*local, store(9, needs=1), *chain(3, 4, 5, pc=2), policies=[APCM(tags=1, loads=1)])
    assert outcomes(outcome) == [MISS, MISS, MISS, WRITE, MISS, MISS, BYPASSED]


def test_a_local_load_is_not_bypassed_for_a_global_one_of_the_same_instruction():
    program = [*chain(0, 1, pc=1), load_by(1, 2, needs=1, local=True), *chain(3, pc=1)]
    outcome = one_warp(*program, policies=[APCM(tags=1)])
    assert outcomes(outcome) == [MISS, MISS, MISS, BYPASSED]


# ---- protection


@pytest.mark.parametrize(("mode", "again"), [("both", HIT), ("protect", HIT), ("bypass", MISS)])
def test_a_protected_line_stays_until_its_last_load(mode, again):
    # Two ways. Lines 3, 4 and 5 leave line 2, the least recently used one, alone; load 2 uses it, and it goes with
    # line 7 after 6.
    program = [*chain(2, pc=1), *chain(3, 4, 5, pc=7), *chain(2, pc=2), *chain(6, 7, pc=7), *chain(2, pc=2)]
    assert learned(USED_BY_ANOTHER, *program, ways=2, mode=mode) == [MISS, MISS, MISS, MISS, again, MISS, MISS, MISS]


@pytest.mark.parametrize(("mode", "what"), [("both", BYPASSED), ("bypass", BYPASSED), ("protect", MISS)])
def test_the_mode_says_whether_streaming_loads_bypass(mode, what):
    assert learned(chain(0, pc=1), *chain(1, pc=1), mode=mode) == [what]


def test_a_load_bypasses_where_all_lines_are_protected():
    # Line 2 is protected, whichever load is at it, until load 2 is done.
    local = load_by(8, 4, needs=1, local=True)
    program = [*chain(2, pc=1), *chain(3, pc=7), local, *chain(5, pc=1), *chain(2, pc=2), *chain(3, pc=7)]
    assert learned(USED_BY_ANOTHER, *program) == [MISS, BYPASSED, BYPASSED, BYPASSED, HIT, MISS]


def test_a_line_is_not_filled_where_all_lines_are_protected():
    # Line 3 comes and does not stay, twice; after load 2 it does.
    program = [*chain(2, pc=1), *chain(3, 3, pc=7), *chain(2, pc=2), *chain(3, 3, pc=7)]
    what = [MISS, MISS, MISS, HIT, MISS, HIT]
    assert learned(USED_BY_ANOTHER, *program, allocate="fill") == what


def test_a_line_that_a_local_store_wrote_on_its_way_takes_the_place_of_a_protected_one():
    # In the second case there is line 9 that is not protected.
    wrote = [load_by(7, 3, needs=1), store(3, local=True)]
    program = [*chain(2, pc=1), *wrote, load_by(7, 3, needs=0b10), *chain(2, pc=2)]
    assert learned(USED_BY_ANOTHER, *program, allocate="fill") == [MISS, MISS, WRITE, HIT, MISS]
    program.insert(1, load_by(7, 9, needs=1))
    assert learned(USED_BY_ANOTHER, *program, ways=2, allocate="fill") == [MISS, MISS, MISS, WRITE, HIT, HIT]


def test_local_stores_replace_protected_lines():
    program = [*chain(2, pc=1), store(3, needs=1, local=True), *chain(4, pc=7), *chain(2, pc=2)]
    assert learned(USED_BY_ANOTHER, *program) == [MISS, WRITE, MISS, MISS]


@pytest.mark.parametrize(("mode", "last", "fails"), [("both", (18, 3, BYPASSED), 0), ("bypass", (27, 3, MISS), 9)])
def test_a_line_in_flight_can_be_protected_too(mode, last, fails):
    # Warp 0 ends at 15, as its load hits at 12. Line 2 misses at 17 and is on its way until 27, and line 3 is at the L1
    # from 18 on.
    blocks = [[USED_BY_ANOTHER], [[load_by(1, 2), load_by(7, 3)]]]
    outcome = simulated(blocks, APCM(mode=mode), gpu=machine(sets=1, ways=1))
    assert accessed(outcome)[2:] == [(17, 2, MISS), last]
    assert counted(outcome, "fail_line_alloc") == (fails,)


def test_protection_in_a_loop_ends_as_the_warp_leaves_it():
    # Load 1 hits at 2 without leaving the loop, load 7 leaves another one, and then load 1 leaves it.
    out = load_by(1, 2, needs=1, leaves=True)
    other = load_by(7, 3, needs=1, leaves=True)
    program = [*chain(2, 2, pc=1), other, other, out, other]
    assert learned(USED_IN_A_LOOP, *program) == [MISS, HIT, BYPASSED, BYPASSED, HIT, MISS]


def test_the_last_load_ends_protection_in_a_loop_too():
    program = [*chain(2, pc=1), load_by(1, 2, needs=1, leaves=True), *chain(3, pc=7), *chain(2, pc=2), *chain(3, pc=7)]
    assert learned(USED_BY_ANOTHER, *program) == [MISS, HIT, BYPASSED, HIT, MISS]


def test_protection_ends_with_the_last_transaction_of_an_instruction():
    # Two ways with lines 2 and 4. Load 2 finds line 2, finds no way for line 3, and is done.
    program = [load_by(1, 2, 4), load_by(2, 2, 3, needs=1), *chain(5, pc=7)]
    assert learned(USED_BY_ANOTHER, *program, ways=2) == [MISS, MISS, HIT, BYPASSED, MISS]


def test_an_instruction_that_is_its_own_last_one_protects_nothing_beyond_it():
    program = [load_by(1, 2, 4, leaves=True), *chain(5, pc=7)]
    assert learned(USED_IN_A_LOOP, *program) == [MISS, BYPASSED, MISS]


def test_protection_ends_with_the_warp():
    # Block 1 begins at 15. Its first warp protects line 2 from 17 on, executes 19 others, and ends with its store at
    # 37. The second one executes two others and loads line 3 at 18, 4 at 29 and 5 at 40.
    first = [load_by(1, 2), store(9, gap=19)]
    second = [load_by(7, 3, gap=2), *chain(4, 5, pc=7)]
    gpu = machine(sets=1, ways=1, core={"schedulers": 2, "ldst_queue": 2})
    outcome = simulated([[USED_BY_ANOTHER, []], [first, second]], APCM(), gpu=gpu)
    bypassed = [(19, 3, BYPASSED), (30, 4, BYPASSED)]
    assert accessed(outcome)[2:] == [(17, 2, MISS), *bypassed, (37, 9, WRITE), (41, 5, MISS)]


def test_a_warp_protects_lines_of_one_load_at_a_time():
    # Loads 1 and 3 are intra-warp, with loads 2 and 4 after them. Load 3 brings line 3, which is not protected, so that
    # line 5 replaces it; load 4, its last one, ends nothing. After load 2 it is load 3 whose line is protected.
    monitored = [*USED_BY_ANOTHER, *chain(1, pc=3), *chain(1, pc=4)]
    program = [*chain(2, pc=1), *chain(3, pc=3), *chain(5, pc=7), *chain(3, pc=4), *chain(6, pc=7)]
    what = [MISS, MISS, MISS, MISS, MISS]
    assert learned(monitored, *program, *chain(2, pc=2), ways=2) == [*what, HIT]
    program += [*chain(2, pc=2), *chain(7, 8, pc=3), *chain(9, pc=7)]
    assert learned(monitored, *program, ways=2) == [*what, HIT, MISS, MISS, BYPASSED]


@pytest.mark.parametrize(("used", "what"), [(True, MISS), (False, BYPASSED)])
def test_lines_are_protected_as_long_as_their_load_is_intra_warp(used, what):
    # Two tags, three ways. Line 2 takes the tag of line 0: load 1 is intra-warp, and protects line 1 at 27. If warp 1
    # finds that twice on its way, load 1 is not intra-warp any more when line 3, still protected, has taken its tag.
    # Then line 5 is not protected, but lines 1 and 3 still are.
    other = [load_by(8, 1, gap=24), load_by(8, 1)] if used else [store(9)]
    program = [*chain(0, 0, 2, 1, 3, 5, pc=1), *chain(7, 3, pc=7)]
    gpu = machine(sets=1, ways=3)
    outcome = simulated([[program, other]], APCM(tags=2), gpu=gpu, sched="lrr")
    own = [what for _, line, what in accessed(outcome) if what not in (PENDING, WRITE)]
    assert own == [MISS, HIT, MISS, MISS, MISS, MISS, what, HIT]


def test_what_was_protected_once_is_not_again():
    # Lines 2 and 3 are brought by load 1, before and after load 2. Line 4 replaces the first of them.
    program = [*chain(2, pc=1), *chain(2, pc=2), *chain(3, pc=1), *chain(4, pc=7)]
    assert learned(USED_BY_ANOTHER, *program, *chain(2, pc=8), ways=2) == [MISS, HIT, MISS, MISS, MISS]


def test_lines_that_are_found_are_not_protected():
    # Line 2 is brought by load 7 and found by load 1.
    program = [*chain(2, pc=7), *chain(2, pc=1), *chain(3, pc=7)]
    assert learned(USED_BY_ANOTHER, *program) == [MISS, HIT, MISS]


def test_a_line_that_a_global_store_dropped_protects_no_way():
    program = [*chain(2, pc=1), store(2, needs=1), *chain(3, pc=7)]
    assert learned(USED_BY_ANOTHER, *program) == [MISS, WRITE, MISS]


def test_every_sm_learns_by_itself():
    # SM 1 has not seen any load 1 whose line was not used again.
    outcome = simulated([[chain(0, 1, 2, pc=1)], [chain(0, 0, pc=1)]], APCM(tags=1), sms=2)
    assert counted(outcome, "bypassed") == (1,)
    assert counted(outcome, "bypassed", sm=1) == (0,)


def test_loads_without_transactions_end_no_protection_and_get_no_number():
    empty = load()._replace(pc=2)
    program = [*chain(2, pc=1), empty, *chain(3, pc=7)]
    assert learned(USED_BY_ANOTHER, *program) == [MISS, BYPASSED]
    outcome = one_warp(empty, *chain(0, 1, 2, pc=1), policies=[APCM(tags=1, loads=1)])
    assert outcomes(outcome) == [MISS, MISS, BYPASSED]
