"""Names of parameters: those of `inspect.signature`, for every kind of function."""

from __future__ import annotations

import functools
import inspect

import pytest

from tracegen.parameter_names import parameter_names


def plain(k, A, n=3):
    local = (k, A)
    return local, n


def with_keywords(k, *, A, n: int = 2):
    return k


def with_any_number(k, *arrays, **sizes):
    return k


def positional_only(k, A, /, n):
    return k


def without():
    return None


@functools.wraps(plain)
def wrapped(*arguments):
    return plain(*arguments)


class Holder:
    def method(self, k, A):
        return k

    def __call__(self, k, B):
        return k


def with_own_signature(*arguments):
    return arguments


with_own_signature.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "function",
    [
        plain, with_keywords, with_any_number, positional_only, without, wrapped, with_own_signature, lambda a, b: a,
        Holder().method, Holder(), functools.partial(plain, 1), functools.partial(plain, n=1),
    ],
)  # fmt: skip
def test_parameters_are_those_of_the_signature(function):
    assert parameter_names(function) == list(inspect.signature(function).parameters)
