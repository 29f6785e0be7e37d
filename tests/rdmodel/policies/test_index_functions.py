"""Index functions against scalar twins, against the papers' own numbers, and at their borders."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import policies
from rdmodel.errors import ConfigError
from rdmodel.policies.polynomials import is_irreducible, remainder, smallest_irreducible

LINES = st.lists(st.integers(0, (1 << 56) - 1), min_size=1, max_size=20)
SETS = st.integers(1, 10).map(lambda n: 1 << n)

# Nugteren et al., HPCA 2014, section 5.1, figure 6: byte address, its set in the 16 KB and in the 48 KB
# cache, worked out from the bits that the figure names.
FERMI = [
    (0, 0, 0),
    (128, 1, 1),
    (4096, 0, 32),
    (8192, 1, 1),
    (8320, 0, 0),
    (131072, 8, 8),
    (524288, 16, 16),
    (8590983168, 0, 0),
    (8590983296, 1, 1),
    (206158430080, 0, 32),
    (4886718336, 12, 12),
]

# Khairy et al., GPGPU-8 2015, figure 7: which of address bits 7-25 polynomial 37 xors into a bit of the
# set; long division gives bits 1 and 2.
FIGURE_7 = {
    0: {25, 24, 23, 22, 21, 18, 17, 15, 12, 7},
    3: {23, 22, 21, 20, 19, 16, 15, 13, 10},
    4: {24, 23, 22, 21, 20, 17, 16, 14, 11},
}
DEGREE_5 = (37, 41, 47, 55, 59, 61)  # section 4.3: all irreducible polynomials of degree 5


# Of the functions that need them.
PARAMETERS = {"masks": {"masks": (1, 2)}, "table": {"table": (1, 0)}, "function": {"function": abs}}


# --- scalar twins, written from the definitions ---


def primes_to(limit):
    return [n for n in range(2, limit + 1) if all(n % d for d in range(2, n))]


def linear(line, sets):
    return line % sets


def bxor(line, sets):
    return (line % sets) ^ (line // sets % sets)


def pmod(line, sets):
    return line % primes_to(sets)[-1]


def pdisp(line, sets, p=9):
    return (p * (line // sets) + line % sets) % primes_to(sets - 1)[-1]


def fup(line, sets, features=28):
    n = sets.bit_length() - 1
    s1, s2, s3 = (line // sets**g % sets for g in range(3))
    s4 = line // sets**3 % 2 ** (max(features, 4 * n) - 3 * n)
    if features > 4 * n:
        s4 %= primes_to(sets - 1)[-1]
    return (s1 ^ s2) ^ (s3 ^ s4)


def divide(line, poly):
    """Long division of polynomials over GF(2), coefficient by coefficient, as on paper."""
    divisor = [int(c) for c in f"{poly:b}"]
    dividend = [int(c) for c in f"{line:b}"]
    for i in range(len(dividend) - len(divisor) + 1):
        if dividend[i]:
            for k, coefficient in enumerate(divisor):
                dividend[i + k] ^= coefficient
    return int("".join(map(str, dividend[-(len(divisor) - 1) :])), 2)


def fermi(address, sets):
    bit = lambda i: address // 2**i % 2  # noqa: E731
    low = sum((bit(7 + j) ^ bit(high)) * 2**j for j, high in enumerate((13, 14, 15, 17, 19)))
    return low + 32 * bit(12) * (sets == 64)


def sets_of(index, lines, sets, line_size=128):
    result = index.set_of(np.array(lines, dtype=np.int64), sets, line_size)
    assert result.dtype == np.int64
    return result.tolist()


@given(LINES, SETS)
def test_linear_takes_the_low_bits(lines, sets):
    assert sets_of(policies.Linear(), lines, sets) == [linear(line, sets) for line in lines]


@given(LINES, SETS)
def test_bxor_adds_the_next_bits(lines, sets):
    assert sets_of(policies.BXor(), lines, sets) == [bxor(line, sets) for line in lines]


@given(LINES, SETS)
def test_pric_is_the_remainder_of_long_division(lines, sets):
    poly = next(p for p in range(sets | 1, 2 * sets) if irreducible_by_trial(p))
    assert sets_of(policies.Pric(), lines, sets) == [divide(line, poly) for line in lines]


@given(LINES, SETS.filter(lambda sets: sets >= 4), st.integers(1, 56))
def test_fup_xors_four_groups(lines, sets, features):
    assert sets_of(policies.Fup(features), lines, sets) == [fup(line, sets, features) for line in lines]


@given(LINES)
def test_fup_with_two_sets_has_no_prime_and_keeps_to_four_bits(lines):
    assert sets_of(policies.Fup(), lines, 2) == [fup(line, 2, 4) for line in lines]


@given(LINES, st.integers(2, 1024))
def test_pmod_works_with_any_number_of_sets(lines, sets):
    assert sets_of(policies.PMod(), lines, sets) == [pmod(line, sets) for line in lines]


@given(LINES, SETS.filter(lambda sets: sets >= 4), st.integers(1, 65535))
def test_pdisp_displaces_by_the_tag(lines, sets, p):
    assert sets_of(policies.PDisp(p), lines, sets) == [pdisp(line, sets, p) for line in lines]


@given(LINES, st.sampled_from([32, 64]))
def test_fermi_xors_the_bits_of_figure_6(lines, sets):
    assert sets_of(policies.Fermi(), lines, sets) == [fermi(line * 128, sets) for line in lines]


@given(LINES, st.lists(st.integers(1, (1 << 56) - 1), min_size=1, max_size=10))
def test_masks_take_parities(lines, masks):
    expected = [sum(bin(line & m).count("1") % 2 << j for j, m in enumerate(masks)) for line in lines]
    assert sets_of(policies.Masks(tuple(masks)), lines, 1 << len(masks)) == expected


@pytest.mark.parametrize("name", [name for name in policies.INDEX_FUNCTIONS if name not in ("fermi", *PARAMETERS)])
@given(lines=LINES, sets=SETS.filter(lambda sets: sets >= 4))
def test_every_set_is_one_of_the_sets(name, lines, sets):
    assert all(0 <= s < sets for s in sets_of(policies.index_function(name), lines, sets))


# --- the papers ---


@pytest.mark.parametrize(("address", "set16", "set48"), FERMI)
def test_fermi_gives_the_sets_of_the_paper(address, set16, set48):
    assert sets_of(policies.Fermi(), [address // 128], 32) == [set16] == [fermi(address, 32)]
    assert sets_of(policies.Fermi(), [address // 128], 64) == [set48] == [fermi(address, 64)]


def test_pric_with_19_line_bits_is_figure_7():
    masks = policies.Pric(37).compile(32, 128).masks
    drawn = [{i + 7 for i in range(19) if mask >> i & 1} for mask in masks]
    divided = [{i + 7 for i in range(19) if divide(1 << i, 37) >> j & 1} for j in range(5)]
    assert drawn == divided
    for j, bits in FIGURE_7.items():
        assert drawn[j] == bits


def test_pric_defaults_to_polynomial_37():
    assert policies.Pric().compile(32, 128) == policies.Pric(37).compile(32, 128)


def test_pric_spreads_runs_and_strides_of_eight_over_eight_sets():
    sets = np.array(sets_of(policies.Pric(), range(64), 8, line_size=1)).reshape(8, 8)
    for run in (*sets, *sets.T):
        assert sorted(run) == list(range(8))


@pytest.mark.parametrize("poly", range(32, 64))
def test_pric_takes_the_six_irreducible_polynomials_of_degree_5_and_no_other(poly):
    if poly in DEGREE_5:
        assert sets_of(policies.Pric(poly), [poly, 1], 32) == [0, 1]
    else:
        with pytest.raises(ConfigError, match=rf"polynomial={poly}: is reducible over GF\(2\).*37"):
            policies.Pric(poly).compile(32, 128)


# --- polynomials ---


def irreducible_by_trial(poly):
    degree = poly.bit_length() - 1
    return degree > 0 and all(divide(poly, d) for d in range(2, 1 << degree))


@pytest.mark.parametrize("degree", range(1, 9))
def test_irreducible_means_that_no_smaller_polynomial_divides(degree):
    for poly in range(1 << degree, 2 << degree):
        assert is_irreducible(poly) == irreducible_by_trial(poly), poly


def test_constants_are_not_irreducible():
    assert not is_irreducible(0)
    assert not is_irreducible(1)


@given(st.integers(0, 1 << 60), st.integers(2, 1 << 20))
def test_remainder_is_that_of_long_division(a, b):
    assert remainder(a, b) == divide(a, b)


@pytest.mark.parametrize(("degree", "poly"), [(0, 1), (1, 3), (2, 7), (3, 11), (4, 19), (5, 37), (8, 283)])
def test_smallest_irreducible_polynomials(degree, poly):
    assert smallest_irreducible(degree) == poly


# --- borders ---


@pytest.mark.parametrize("index", [policies.Linear(), policies.BXor(), policies.Pric(), policies.Fup()])
def test_a_single_set_takes_every_line(index):
    assert sets_of(index, [0, 1, 12345], 1) == [0, 0, 0]


@pytest.mark.parametrize("index", [policies.Linear(), policies.BXor(), policies.Pric(), policies.Fup()])
def test_masks_stay_within_the_line_bits_when_there_are_very_many_sets(index):
    assert all(mask < 1 << 56 for mask in index.compile(1 << 20, 128).masks)


@pytest.mark.parametrize(
    "index", [policies.Linear(), policies.BXor(), policies.Pric(), policies.Fup(), policies.PDisp()]
)
@pytest.mark.parametrize("sets", [0, 3, 33, 96])
def test_linear_maps_refuse_a_number_of_sets_that_is_no_power_of_two(index, sets):
    with pytest.raises(
        ConfigError, match=f"index='{index.name}': the number of sets must be a power of two, not {sets}"
    ):
        index.compile(sets, 128)


@pytest.mark.parametrize(("sets", "line"), [(16, 128), (128, 128), (32, 64), (33, 128)])
def test_fermi_is_defined_for_its_own_caches_only(sets, line):
    with pytest.raises(ConfigError, match=f"32 or 64 sets of 128-byte lines, not {sets} of {line}"):
        policies.Fermi().compile(sets, line)


@pytest.mark.parametrize(
    ("index", "sets", "message"),
    [
        (policies.Pric(37), 64, "polynomial=37: has degree 5, 64 sets need degree 6"),
        (policies.Pric(37.0), 32, "polynomial=37.0: must be a whole number"),
        (policies.Pric(-37), 32, "polynomial=-37: must be a whole number from 1"),
        (policies.Fup(0), 32, "feature_bits=0: must be a whole number from 1 to 56"),
        (policies.Fup(57), 32, "feature_bits=57: must be a whole number from 1 to 56"),
        (policies.PDisp(0), 32, "p=0: must be a whole number from 1 to 65535"),
        (policies.PDisp(65536), 32, "p=65536: must be a whole number from 1 to 65535"),
        (policies.PDisp(), 2, "index='pdisp': needs at least 4 sets, not 2"),
        (policies.PMod(), 1, "index='pmod': needs at least 2 sets, not 1"),
        (policies.Masks((1, 2)), 32, "32 sets need 5 masks, not 2"),
        (policies.Masks((1, 0)), 4, "masks=0: must be a whole number from 1"),
        (
            policies.Masks((1, 1 << 56)),
            4,
            f"masks={1 << 56}: must be a whole number from 1 to {(1 << 56) - 1}",
        ),
    ],
)
def test_a_parameter_that_means_nothing_is_named(index, sets, message):
    with pytest.raises(ConfigError) as error:
        index.compile(sets, 128)
    assert message in str(error.value)


def test_a_line_size_that_is_no_power_of_two_is_refused():
    with pytest.raises(ConfigError, match="line=100: must be a power of two"):
        policies.Pric().set_of(np.arange(3), 32, 100)


def test_index_functions_are_values():
    assert policies.Pric(37) == policies.Pric(37) != policies.Pric(41)
    assert policies.Masks([1, 2]) == policies.Masks((1, 2))
    assert len({policies.Masks([1, 2]), policies.Masks((1, 2)), policies.Linear(), policies.BXor()}) == 3


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("fermy", {}, "unknown index function 'fermy'; did you mean 'fermi'"),
        ("pric", {"polynom": 37}, "unknown parameter of index='pric': 'polynom'; did you mean 'polynomial'"),
        ("linear", {"p": 9}, "index='linear': has no parameters; leave out 'p'"),
        ("masks", {}, "index='masks': parameter 'masks' is missing"),
        ("masks", {"masks": 5}, "masks=5: must be a sequence of whole numbers"),
        ("masks", {"masks": "12"}, "masks='12': must be a sequence of whole numbers"),
    ],
)
def test_index_function_by_name_explains_what_is_wrong(name, parameters, message):
    with pytest.raises(ConfigError) as error:
        policies.index_function(name, **parameters)
    assert message in str(error.value)


def test_index_function_by_name_builds_every_function():
    for name in policies.INDEX_FUNCTIONS:
        assert policies.index_function(name, **PARAMETERS.get(name, {})).name == name


def test_evaluating_keeps_the_shape():
    lines = np.arange(24).reshape(2, 3, 4)
    for index in (policies.Pric(), policies.Fup(), policies.PMod(), policies.PDisp()):
        assert index.set_of(lines, 32).shape == (2, 3, 4)
