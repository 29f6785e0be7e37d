"""Test late dataclasses: they behave as those of the standard library do, and make their methods when first used."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import Any, ClassVar, get_type_hints

import pytest
from hypothesis import strategies as st

from rdmodel.common.late_dataclass import dataclass


class Named:
    """A base without fields."""

    __slots__ = ()

    def __repr__(self):
        return f"<{type(self).__name__}>"


@dataclass(frozen=True, slots=True)
class Point:
    """Two numbers and what belongs to them."""

    axes: ClassVar[int] = 2
    x: int
    y: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict, compare=False)
    secret: str = field(default="", repr=False)

    def __post_init__(self):
        if self.x < 0:
            raise ValueError("x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Solid(Point):
    """A point with another number."""

    z: int = 1


@dataclass(frozen=True, slots=True, repr=False)
class Shown(Named):
    """A class with the text of its base, and a field that holds itself."""

    part: Any = None


@dataclass(frozen=True, slots=True)
class Empty:
    """A class without fields."""


@dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """A class whose instances equal only themselves."""

    x: int = 0


def fresh() -> Any:
    """Return a class that was not used yet, and the same of the standard library."""

    class Body:
        """Declare some fields."""

        a: int
        b: tuple[int, ...] = ()
        c: dict = field(default_factory=dict, hash=False, compare=False)

        def total(self):
            return self.a + sum(self.b)

    other = type("Body", (), dict(Body.__dict__))
    return dataclass(frozen=True, slots=True)(Body), dataclasses.dataclass(frozen=True)(other)


def test_values_texts_hashes_and_signatures_are_those_of_the_standard_library():
    late, plain = fresh()
    assert inspect.signature(late) == inspect.signature(plain)
    assert get_type_hints(late.__init__) == get_type_hints(plain.__init__)
    for arguments in ((1,), (1, (2, 3)), (1, (2,), {"x": 1})):
        mine, theirs = late(*arguments), plain(*arguments)
        assert hash(mine) == hash(theirs)
        assert repr(mine).split("(", 1)[1] == repr(theirs).split("(", 1)[1]
        assert dataclasses.asdict(mine) == dataclasses.asdict(theirs)
        assert mine.total() == theirs.total()
    assert [f.name for f in dataclasses.fields(late)] == [f.name for f in dataclasses.fields(plain)]
    assert get_type_hints(Solid)["z"] is int


def test_the_signature_is_there_however_often_it_is_asked_for():
    late, _ = fresh()
    assert late.__signature__ == late.__signature__ == inspect.signature(late)
    late, _ = fresh()
    st.builds(late, a=st.just(1)).validate()  # it asks twice in a row


def test_subclasses_and_instances_have_signatures_of_their_own():
    late, _ = fresh()

    class Sub(late):
        def __init__(self, only):
            super().__init__(only)

        def __call__(self, x, y):
            return x + y

    assert [*inspect.signature(Sub).parameters] == ["only"]
    assert [*inspect.signature(Sub(1)).parameters] == ["x", "y"]
    assert not hasattr(late(1), "__signature__")


@pytest.mark.parametrize("use", ["new", "fields", "replace", "signature", "subclass", "is_dataclass"])
def test_any_first_use_makes_the_methods(use):
    late, _ = fresh()
    if use == "fields":
        assert [f.name for f in dataclasses.fields(late)] == ["a", "b", "c"]
    elif use == "signature":
        assert [*inspect.signature(late).parameters] == ["a", "b", "c"]
    elif use == "is_dataclass":
        assert dataclasses.is_dataclass(late)
    elif use == "subclass":

        @dataclasses.dataclass(frozen=True)
        class Sub(late):
            d: int = 3

        assert [f.name for f in dataclasses.fields(Sub)] == ["a", "b", "c", "d"]
    assert dataclasses.replace(late(1), b=(5,)) == late(1, (5,))


def test_equality_leaves_out_fields_that_are_not_compared_and_other_classes():
    assert Point(1, 2, {"a": 1}) == Point(1, 2) != Point(1, 3)
    assert hash(Point(1, 2, {"a": 1})) == hash(Point(1, 2))
    assert Point(1) != Solid(1)
    assert (Point(1) == 1) is False
    assert Empty() == Empty()
    assert len({Empty(), Empty()}) == 1
    assert Alone() != Alone()
    assert len({Alone(), Alone()}) == 2


def test_a_subclass_has_the_fields_of_its_base_and_slots_for_its_own():
    solid = Solid(1, 2, z=3)
    assert repr(solid) == "Solid(x=1, y=2, notes={}, z=3)"
    assert Solid.__slots__ == ("z",)
    assert not hasattr(solid, "__dict__")
    assert Solid.axes == 2
    with pytest.raises(ValueError, match="x"):
        Solid(-1)
    with pytest.raises(TypeError):
        Solid(1, 2, {}, "", 3)


def test_fields_can_be_neither_set_nor_deleted_and_no_others_added():
    point = Point(1)
    for name in ("x", "y", "more"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(point, name, 1)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(point, name)
    assert point == Point(1)


def test_copies_and_pickles_are_equal_in_processes_that_have_made_none():
    for value in (Point(1, 2, {"a": [1]}, "s"), Solid(1, z=5), Empty(), Shown(Point(1))):
        for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert again == value
            assert type(again) is type(value)
    late, _ = fresh()
    again = late.__new__(late)
    again.__setstate__([1, (2,), {}])
    assert again == late(1, (2,))


def test_the_text_of_a_base_stays_and_values_may_hold_themselves():
    assert repr(Shown()) == "<Shown>"
    held: list[Any] = []
    late, _ = fresh()
    value = late(1, (), held)
    held.append(value)
    assert repr(value).endswith("(a=1, b=(), c=[...])")


def test_patterns_match_by_position():
    match Point(4, 5):
        case Point(x, y):
            assert (x, y) == (4, 5)


def test_a_class_is_whole_after_an_interrupt_while_its_methods_were_made(monkeypatch):
    late, _ = fresh()
    original = dataclasses.dataclass

    def interrupted(*arguments, **options):
        original(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dataclasses, "dataclass", interrupted)
        with pytest.raises(KeyboardInterrupt):
            late(1)
    assert late(1) == late(1, (), {"compared": False})
    assert late(1).c == {}


def test_threads_may_use_a_class_for_the_first_time_together():
    for _ in range(50):
        late, _ = fresh()
        with ThreadPoolExecutor(4) as pool:
            assert {value.c is not None for value in pool.map(late, range(8))} == {True}
