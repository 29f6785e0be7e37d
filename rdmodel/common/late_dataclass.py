"""Declare frozen dataclasses with slots, whose methods are made when a class is first used.

`dataclasses.dataclass` writes and compiles six methods where a class is declared, which takes half a millisecond. A
command loads modules with many classes, and uses half of them. The decorator of this module makes the class with its
slots at once. Methods that differ from class to class are made before the first instance, and only `__init__` is
compiled. `dataclasses.InitVar` is not supported, nor are values for fields with ``init=False``.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from inspect import Signature, get_annotations, signature
from operator import attrgetter
from reprlib import recursive_repr
from threading import RLock
from typing import TYPE_CHECKING, Any

_MADE = ("__match_args__", "__dataclass_params__", "__dataclass_fields__")
"""Attributes that a class takes from the one that `dataclasses.dataclass` has completed."""

_LOCK = RLock()
"""Held while methods are made, since threads may use a class for the first time together."""

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool, slots: bool, **options: Any) -> Any:
        """Declare a dataclass as `dataclasses.dataclass` does; ``frozen=True, slots=True`` must be given."""
        assert frozen and slots
        return _declare(cls, **options) if cls is not None else lambda cls: _declare(cls, **options)


class _Late:
    """A class attribute that is there when the methods of the class have been made."""

    __slots__ = ("_make", "_name")

    def __init__(self, name: str, make: Callable[[], None]) -> None:
        self._name, self._make = name, make

    def __get__(self, instance: object, owner: type) -> Any:
        self._make()
        return getattr(owner, self._name)


class _LateSignature:
    """The signature of a class, which documentation and completion ask for before there is an instance."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], None]) -> None:
        self._make = make

    def __get__(self, instance: object, owner: type) -> Signature:
        if instance is not None:
            raise AttributeError("__signature__")  # an instance that can be called has a signature of its own
        self._make()
        own = signature(owner.__init__)  # type: ignore[misc]
        return own.replace(parameters=list(own.parameters.values())[1:])


def _declare(plain: type, eq: bool = True, repr: bool = True, **options: Any) -> type:
    """Return the class with the slots of `plain`; a dataclass made of `plain` gives it its `__init__` later."""
    names = [name for name, hint in get_annotations(plain).items() if not str(hint).startswith("ClassVar")]
    inherited = {name for base in plain.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    values: Callable[[Any], object]
    complete = False

    def make() -> None:
        nonlocal values, complete
        with _LOCK:
            if complete:
                return
            # The dataclass is made of a copy, since an interrupt would leave a half-made one.
            copy: Any = type(plain)(plain.__name__, plain.__bases__, dict(namespace))
            # Frozen ones have two compiled methods, which `made` does not need; bases insist on it.
            frozen = any(dataclasses.is_dataclass(base) for base in plain.__bases__)
            dataclasses.dataclass(copy, frozen=frozen, init=False, eq=False, repr=False, **options)
            copy.__dataclass_params__.frozen = True
            fields = dataclasses.fields(copy)
            compared = [field.name for field in fields if field.compare]
            values = attrgetter(*compared) if compared else lambda _: ()
            initializer = _initializer(made, fields)
            for name in _MADE:
                if name in copy.__dict__:
                    setattr(made, name, copy.__dict__[name])
            made.__init__ = initializer  # type: ignore[misc]
            complete = True

    def first_init(self: Any, *arguments: Any, **named: Any) -> None:
        make()
        made.__init__(self, *arguments, **named)  # type: ignore[misc]

    def equal(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    namespace = {name: value for name, value in plain.__dict__.items() if name not in ("__dict__", "__weakref__")}
    body: dict[str, Any] = {"__init__": first_init, "__getstate__": _state, "__setstate__": _set_state}
    body |= {"__eq__": equal, "__hash__": lambda self: hash(values(self))} if eq else {}
    body |= {"__repr__": _text} if repr else {}
    body |= {name: value for name, value in namespace.items() if name not in names}  # fields would hide their slots
    body |= {"__slots__": tuple(name for name in names if name not in inherited)}
    body |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    body |= {"__dataclass_fields__": _Late("__dataclass_fields__", make), "__signature__": _LateSignature(make)}
    made = type(plain)(plain.__name__, plain.__bases__, body)
    made.__qualname__ = plain.__qualname__
    return made


# Signatures show it for the value that the factory of a field makes; it has no public name.
_DEFAULT = dataclasses._HAS_DEFAULT_FACTORY  # type: ignore[attr-defined]


def _initializer(cls: type, fields: Sequence[dataclasses.Field[Any]]) -> Any:
    """Return the `__init__` that `dataclasses` gives a frozen class with these fields."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_DEFAULT": _DEFAULT}
    parameters, lines = ["self"], []
    for field in sorted((field for field in fields if field.init), key=lambda field: bool(field.kw_only)):
        name, value = field.name, field.name
        if field.kw_only and "*" not in parameters:
            parameters.append("*")
        if field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = field.default_factory
            parameters.append(f"{name}=_DEFAULT")
            value = f"_make_{name}() if {name} is _DEFAULT else {name}"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        lines.append(f"  _set(self, {name!r}, {value})\n")
    if hasattr(cls, "__post_init__"):
        lines.append("  self.__post_init__()\n")
    body = "".join(lines) or "  pass\n"
    text = f"def make({', '.join(known)}):\n def __init__({', '.join(parameters)}):\n{body} return __init__\n"
    namespace: dict[str, Any] = {}
    exec(text, vars(sys.modules[cls.__module__]), namespace)
    initializer = namespace["make"](**known)
    initializer.__qualname__ = f"{cls.__qualname__}.__init__"
    initializer.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return initializer


def field_values(instance: Any) -> dict[str, Any]:
    """Return the values of the fields of a dataclass by name, without converting them as `dataclasses.asdict` does."""
    return {name: getattr(instance, name) for name in instance.__dataclass_fields__}


@recursive_repr()
def _text(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _refuse_to_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
