"""Grids of configurations: names with values to choose from, checked once, and the points that they span."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from rdmodel import presets
from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.config import GPU, GPU_TABLES
from rdmodel.gpu.overrides import override, override_keys, parse_number
from rdmodel.model.options import Options
from rdmodel.policies import INDEX_FUNCTIONS, IndexFunction
from rdmodel.simulator.options import SimulationOptions

Engine = Literal["predict", "estimate", "simulate"]

L1_NAMES = ("ways", "line", "index", "mshrs", "mshr_merge", "mshr_per_warp")
"""Fields of the L1 that go by their own names; all fields of a GPU go by their keys, ``l1.size`` or ``l1_size``."""

L1_OPTIONS = ("index", "mshrs", "mshr_merge", "mshr_per_warp")
"""Those of them that `predict` has as options, with results that do not say that the GPU was changed."""

MODEL_CALL = {
    "seed": int,
    "seeds": int,
    "ablation": bool,
    "breakdown": Literal["paper"] | None,
    "histogram": bool,
    "sample_sms": int | None,
    "sample_blocks": float | None,
}
CALLS: Mapping[str, Mapping[str, Any]] = {
    "predict": MODEL_CALL,
    "estimate": {"seed": int, "work": float | None},
    "simulate": {"seed": int, "check": bool},
}
"""Arguments of each function that are no fields of its options, with their types."""

WORDS = {"threads": "all", "model_sms": "all", "work": "all"}
UNLIMITED = ("mshrs", "mshr_merge", "mshr_per_warp")
"""What stands for None as a text, beside ``none``: the word of these options, and ``inf`` for these fields."""

NOT_VARIED = ("name", "l1.index.masks")
"""Keys of a GPU that are not for a grid: masks are lists themselves, and belong to an index function."""

MOST_POINTS = 1 << 16


@dataclass(frozen=True, slots=True)
class Axis:
    """A name with its `values`: of an option of the engine, a field of the GPU (its `key`), or the GPU itself.

    `varied`: there was a list of them. `silent`: the GPU does not say that the field was set by the user.
    """

    name: str
    kind: Literal["gpu", "option", "field"]
    key: str
    values: tuple[Any, ...]
    varied: bool
    silent: bool

    @property
    def shown(self) -> tuple[Any, ...]:
        """The values as plain ones: GPUs and index functions by their names."""
        return tuple(map(_shown, self.values))


@dataclass(frozen=True, slots=True)
class Point:
    """What is chosen of every axis, and what that means: the GPU as it was chosen, fields changed, and options."""

    shown: Mapping[str, Any]
    base: GPU
    fields: Mapping[str, Any]
    options: Mapping[str, Any]
    silent: frozenset[str]

    def machine(self) -> GPU:
        """Return the GPU of the point, all fields changed at once; raises `ConfigError` if it cannot exist."""
        if not self.fields:
            return self.base
        changed = override(self.base, self.fields)
        sources = {key: text for key, text in changed.sources.items() if key not in self.silent}
        told = {key: text for key, text in self.base.sources.items() if key in self.silent}
        return changed.replace(sources={**sources, **told})


def read_axes(engine: str, gpu: Any, grid: Mapping[str, Any]) -> list[Axis]:
    """Return the axes of a grid: the GPU, and the names in `grid`, each with a value or several.

    Raises `ConfigError` for unknown names, for values that no point could have (texts that mean nothing, wrong types,
    unknown choices), for none, and for one that is given twice.
    """
    axes = [_axis(engine, name, value) for name, value in {"gpu": gpu, **grid}.items()]
    by_key: dict[tuple[str, str], str] = {}
    for axis in axes:
        other = by_key.setdefault((axis.kind, axis.key), axis.name)
        if other != axis.name:
            raise ConfigError(f"{axis.name}: is the same as {other}, which is given, too")
    if math.prod(len(axis.values) for axis in axes) > MOST_POINTS:
        raise ConfigError(f"the grid has more than {MOST_POINTS} points")
    return axes


def points(axes: Iterable[Axis]) -> Iterator[Point]:
    """Yield all points, the values of the last axis changing fastest."""
    found = list(axes)
    for chosen in itertools.product(*(range(len(axis.values)) for axis in found)):
        pairs = [(axis, axis.values[at]) for axis, at in zip(found, chosen, strict=True)]
        yield Point(
            shown={axis.name: _shown(value) for axis, value in pairs if axis.varied},
            base=next(value for axis, value in pairs if axis.kind == "gpu"),
            fields={axis.key: value for axis, value in pairs if axis.kind == "field"},
            options={axis.key: value for axis, value in pairs if axis.kind == "option"},
            silent=frozenset(axis.key for axis in found if axis.silent),
        )


# ---- names


def _axis(engine: str, name: str, value: Any) -> Axis:
    kind, key, hint = _place(engine, name)
    varied = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    values = tuple(_read(name, hint, one) for one in (value if varied else (value,)))
    if not values:
        raise ConfigError(f"{name}: has no values to choose from")
    shown = [_shown(one) for one in values]
    for at, one in enumerate(shown):
        if one in shown[:at]:
            raise ConfigError(f"{name}: {one!r} is there twice")
    return Axis(name, kind, key, values, varied, silent=engine != "simulate" and name in L1_OPTIONS)


def _place(engine: str, name: str) -> tuple[Literal["gpu", "option", "field"], str, Any]:
    """Return what a name stands for: its kind, key and type."""
    if name == "gpu":
        return "gpu", name, GPU
    options, known = _options(engine), _keys()
    if name in options:
        return "option", name, options[name]
    key = f"l1.{name}" if name in L1_NAMES else name
    for dotted, hint in known.items():
        if key in (dotted, dotted.replace(".", "_")):
            return "field", dotted, hint
    if name == "policies":
        raise ConfigError("policies: are not varied by a sweep; rdmodel.contest runs them side by side")
    raise ConfigError(unknown(f"name in a sweep of {engine}:", name, ["gpu", *options, *L1_NAMES, *known]))


@cache
def _options(engine: str) -> dict[str, Any]:
    """Return the options of an engine with their types."""
    fields: dict[str, Any] = get_type_hints(SimulationOptions if engine == "simulate" else Options)
    fields.pop("policies", None)
    return {**fields, **CALLS[engine]}


@cache
def _keys() -> dict[str, Any]:
    """Return the keys of a GPU with their types."""
    hints = {"": get_type_hints(GPU), **{name: get_type_hints(part) for name, part in GPU_TABLES.items()}}
    found = {}
    for key in override_keys():
        table, _, name = key.rpartition(".")
        if key not in NOT_VARIED:
            # Parameters of index functions are whole numbers, but for masks.
            found[key] = hints[table][name] if table in hints else int
    return found


# ---- values


def _read(name: str, hint: Any, value: Any) -> Any:
    """Return a value of the type that a name has; texts are read as on the command line (``16K``, ``none``)."""
    if isinstance(value, np.generic):
        value = value.item()
    if hint is GPU:
        return presets.gpu(value)
    if hint is IndexFunction:
        return _index(name, value)
    kind = _Kind.of(name, hint)
    value = kind.of_text(value) if isinstance(value, str) else value
    if value == math.inf and name.rpartition(".")[2].removeprefix("l1_") in UNLIMITED:
        value = None
    if not kind.has(value):
        raise ConfigError(f"{name}={value!r:.60}: must be {kind}")
    return value


@dataclass(frozen=True, slots=True)
class _Kind:
    """What values a name may have: types of numbers, True and False, words, None."""

    name: str
    numbers: tuple[type, ...]
    flag: bool
    choices: tuple[str, ...]
    optional: bool

    @classmethod
    def of(cls, name: str, hint: Any) -> _Kind:
        """Return the kind that a type hint means: a type, a `Literal`, or a union of them."""
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        return cls(
            name,
            tuple(kind for kind in kinds if kind in (int, float)),
            bool in kinds or name == "stores",
            tuple(choice for kind in kinds for choice in get_args(kind)),
            NoneType in kinds,
        )

    def of_text(self, text: str) -> Any:
        """Return the value that a text stands for."""
        if text in self.choices:
            return text
        unlimited = self.name.rpartition(".")[2].removeprefix("l1_") in UNLIMITED
        if self.optional and text in ("none", "inf" if unlimited else "none", WORDS.get(self.name, "none")):
            return None
        if self.flag and text in ("true", "false"):
            return text == "true"
        if self.numbers and (text[:1] in "+-." or text[:1].isdecimal() or not self.choices):
            return parse_number(text, self.name)
        if self.choices:
            raise ConfigError(unknown(f"value for {self.name}:", text, self.choices))
        return text

    def has(self, value: Any) -> bool:
        """Tell whether a value is of this kind; how large a number may be, its field says."""
        if value is None or isinstance(value, bool):
            return self.optional if value is None else self.flag
        if isinstance(value, str):
            return value in self.choices
        return isinstance(value, int | float if float in self.numbers else self.numbers)

    def __str__(self) -> str:
        """Return what is allowed."""
        numbers = ["a number" if float in self.numbers else "a whole number"] if self.numbers else []
        words = [*map(repr, self.choices), *(["True", "False"] if self.flag else []), *(["None"] * self.optional)]
        return " or ".join([*numbers, *words])


def _index(name: str, value: Any) -> Any:
    if isinstance(value, str) and value not in INDEX_FUNCTIONS:
        raise ConfigError(unknown("index function", value, INDEX_FUNCTIONS))
    if not isinstance(value, str | IndexFunction):
        raise ConfigError(f"{name}={value!r:.60}: must be an index function or the name of one")
    return value


def _shown(value: Any) -> Any:
    """Return a value as a plain one: GPUs and index functions by their names."""
    if isinstance(value, GPU):
        return value.name
    if isinstance(value, IndexFunction):
        given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
        words = ",".join(f"{name}={one}" for name, one in given.items() if one is not None)
        return f"{value.name}:{words}" if words else value.name
    return value
