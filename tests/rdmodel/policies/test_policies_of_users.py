"""Index functions and policies that a user has written are checked before a compiled core runs them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

import tracegen
from rdmodel import policies, predict, presets, simulate
from rdmodel.errors import ConfigError
from tests.support.presets import FERMI


@dataclass(frozen=True, slots=True)
class Returning(policies.IndexFunction):
    """An index function that compiles to anything."""

    code: object
    name: ClassVar[str] = "returning"

    def compile(self, sets, line_size):
        return self.code


class WithoutFields(policies.IndexFunction):
    def compile(self, sets, line_size):
        return policies.Linear().compile(sets, line_size)


@dataclass(frozen=True)
class WithoutCompile(policies.IndexFunction):
    name: ClassVar[str] = "without-compile"


def code(kind: int = 0, sets: int = 32, masks: tuple = (), **fields: object) -> policies.IndexCode:
    return policies.IndexCode(kind, sets, masks, **fields)


BITS = (1, 2, 4, 8, 16)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (WithoutCompile(), "WithoutCompile: has no method compile(sets, line_size), which returns an IndexCode"),
        (WithoutFields(), "WithoutFields: must be a dataclass with a class variable 'name'"),
        (Returning(5), "index='returning': compile returned 5, which is no IndexCode"),
        (Returning(code(masks=7)), "which is no IndexCode with a tuple of masks"),
        (Returning(code(masks=(1.5,))), "must have whole numbers from 0 to 2^63 - 1"),
        (Returning(code(masks=(-1,))), "must have whole numbers from 0 to 2^63 - 1"),
        (Returning(code(masks=(*BITS, 32))), "which can leave the 32 sets of the cache"),
        (Returning(code(masks=BITS, modulus=33)), "which can leave the 32 sets"),
        (Returning(code(masks=BITS, modulus=3, shift=63)), "which can leave the 32 sets"),
        (Returning(code(sets=64, masks=BITS)), "which can leave the 32 sets"),
        (Returning(code(kind=1, modulus=33)), "which can leave the 32 sets"),
        (Returning(code(kind=1)), "which can leave the 32 sets"),
        (Returning(code(kind=2, modulus=31, factor=1 << 16)), "which can leave the 32 sets"),
        (Returning(code(kind=3)), "which can leave the 32 sets"),
        (Returning(code(kind=3, table=b"1234567")), "which can leave the 32 sets"),
        (Returning(code(kind=3, table=(32).to_bytes(8, "little"))), "which can leave the 32 sets"),
        (Returning(code(kind=4)), "which can leave the 32 sets"),
        (Returning(code(kind=4, call=abs)), "which can leave the 32 sets"),
        (Returning(code(kind=5)), "which can leave the 32 sets"),
        (policies.Table((0, 32)), "table=32: must be a whole number from 0 to 31"),
        (policies.Table((0, 1.5)), "table=1.5: must be a whole number from 0 to 31"),
        (policies.Table(()), "table: has 0 entries; must have 1 to 16,777,216"),
        (policies.Table((0, 1), shift=63), "shift=63: must be a whole number from 0 to 62"),
    ],
)
def test_an_index_function_of_the_user_is_checked_before_a_core_runs_it(index, message):
    l1 = presets.gpu("gtx470-16k").l1
    with pytest.raises(ConfigError, match=re.escape(message)):
        replace(l1, index=index)
    with pytest.raises(ConfigError, match=re.escape(message)):
        simulate(tracegen.kernel("atax.1", NX=64, NY=64), gpu=FERMI, policies=[index])


def test_a_sound_index_function_of_the_user_runs():
    gpu = presets.gpu("gtx470-16k")
    trace = tracegen.kernel("atax.1", NX=64, NY=64)
    mine = predict(trace, gpu.replace(l1=replace(gpu.l1, index=Returning(code(masks=BITS)))))
    assert mine.misses == predict(trace, gpu.replace(l1=replace(gpu.l1, index=policies.Linear()))).misses


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"size": 128 << 10, "ways": 8}, "linear, bxor, pric, fup, pmod, pdisp"),
        ({"size": 48 << 10, "ways": 8}, "pmod"),
        ({"size": 128, "ways": 1}, "linear, bxor, pric, fup"),
    ],
)
def test_the_refusal_of_fermi_names_the_index_functions_that_suit_the_cache(changes, said):
    with pytest.raises(ConfigError, match=rf"; index functions for this L1: {said}$"):
        replace(presets.gpu("gtx470-16k").l1, **changes)
    for name in said.split(", "):
        replace(presets.gpu("gtx470-16k").l1, index=policies.index_function(name), **changes)


@dataclass(frozen=True)
class WithoutKind(policies.Policy):
    name: ClassVar[str] = "without-kind"


class WithoutAnything(policies.Policy):
    pass


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (WithoutKind(), "policy 'without-kind': must have a class variable 'kind'"),
        (WithoutAnything(), "WithoutAnything: must be a dataclass with a class variable 'name'"),
    ],
)
def test_a_policy_of_the_user_must_say_its_name_and_kind(policy, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        simulate(tracegen.kernel("atax.1", NX=64, NY=64), gpu=FERMI, policies=[policy])
