"""Read a grid of configurations, names with lists of values, and enumerate its points."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from rdmodel import presets
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.config import GPU, GPU_TABLES
from rdmodel.gpu.default import default_gpu
from rdmodel.gpu.overrides import override, override_keys, parse_number
from rdmodel.model.options import Options
from rdmodel.policies import IndexFunction
from rdmodel.policies.index_registry import find_index_function
from rdmodel.simulator.options import SimulationOptions

Engine = Literal["predict", "estimate", "simulate"]

L1_NAMES = ("ways", "line", "index", "mshrs", "mshr_merge", "mshr_per_warp", "carveout", "dlcm")
"""Fields of the L1 that have a short name in a grid. Every field of a GPU has its key, ``l1.size`` or ``l1_size``."""

UNSOURCED_L1_NAMES = ("index", "mshrs", "mshr_merge", "mshr_per_warp", "carveout", "dlcm")
"""The `L1_NAMES` that are also options of `predict`; results do not list them among the sources of the GPU."""

PREDICT_ARGUMENTS = {
    "seed": int,
    "seeds": int,
    "ablation": bool,
    "breakdown": Literal["paper"] | None,
    "histogram": bool,
    "sample_sms": int | None,
    "sample_blocks": float | None,
}
"""Arguments of `predict` that are not fields of its options, with their types."""

CALL_ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "predict": PREDICT_ARGUMENTS,
    "estimate": {"seed": int, "work": float | None},
    "simulate": {"seed": int, "check": bool},
}
"""Arguments of each engine that are not fields of its options, with their types."""

WORDS_FOR_NONE = {"threads": "all", "model_sms": "all", "work": "all"}
"""Options for which another word than ``none`` means None, too."""

UNLIMITED_L1_NAMES = ("mshrs", "mshr_merge", "mshr_per_warp")
"""Fields for which ``inf`` means None, too."""

NOT_VARIED = ("name", "architecture", "l1.index.masks", "l1.carveouts", "l1.caches")
"""Keys of a GPU that a grid cannot vary: names, and those whose values are lists themselves."""

MAX_POINTS = 1 << 16
"""Limit on the points of a grid."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One name of a grid with its `values`: an option of the engine, a field of the GPU (its `key`), or the GPU.

    `varied` is True if the values were given as a list. `silent` is True if the GPU's sources omit the change.
    """

    name: str
    kind: Literal["gpu", "option", "field"]
    key: str
    values: tuple[Any, ...]
    varied: bool
    silent: bool

    @property
    def plain_values(self) -> tuple[Any, ...]:
        """The values in plain types: GPUs and index functions by their names."""
        return tuple(map(_plain_value, self.values))


@dataclass(frozen=True, slots=True)
class Point:
    """One value of every varied axis (`values`) and its meaning: the `base` GPU, its changed `fields`, and options."""

    values: Mapping[str, Any]
    base: GPU
    fields: Mapping[str, Any]
    options: Mapping[str, Any]
    silent: frozenset[str]

    def build_gpu(self) -> GPU:
        """Return the GPU with all fields changed at once; raises `ConfigError` if it cannot exist."""
        if not self.fields:
            return self.base
        changed = override(self.base, self.fields)
        sources = {key: text for key, text in changed.sources.items() if key not in self.silent}
        original = {key: text for key, text in self.base.sources.items() if key in self.silent}
        return changed.replace(sources={**sources, **original})


def read_axes(engine: str, gpu: Any, grid: Mapping[str, Any]) -> list[Axis]:
    """Return the axes of a grid: the GPU (None: the default one), and the names in `grid`, with one value or several.

    Raises `ConfigError` for unknown names, for values that no point can have (meaningless texts, wrong types, unknown
    choices), for names without values or with repeated ones, and for grids of too many points.
    """
    options = [_axis(engine, name, value) for name, value in grid.items()]
    if gpu is None:
        gpu = default_gpu(value for axis in options if axis.key == "definition" for value in axis.values)
    axes = [_axis(engine, "gpu", gpu), *options]
    by_key: dict[tuple[str, str], str] = {}
    for axis in axes:
        other = by_key.setdefault((axis.kind, axis.key), axis.name)
        if other != axis.name:
            raise ConfigError(f"{axis.name}: is another name of {other}; give only one of them")
    if math.prod(len(axis.values) for axis in axes) > MAX_POINTS:
        raise ConfigError(f"the grid has more than {MAX_POINTS} points")
    return axes


def grid_points(axes: Iterable[Axis]) -> Iterator[Point]:
    """Yield all points; the values of the last axis change fastest."""
    axes = list(axes)
    for chosen in itertools.product(*(range(len(axis.values)) for axis in axes)):
        pairs = [(axis, axis.values[at]) for axis, at in zip(axes, chosen, strict=True)]
        yield Point(
            values={axis.name: _plain_value(value) for axis, value in pairs if axis.varied},
            base=next(value for axis, value in pairs if axis.kind == "gpu"),
            fields={axis.key: value for axis, value in pairs if axis.kind == "field"},
            options={axis.key: value for axis, value in pairs if axis.kind == "option"},
            silent=frozenset(axis.key for axis in axes if axis.silent),
        )


# ---- Names


def _axis(engine: str, name: str, value: Any) -> Axis:
    kind, key, hint = _place(engine, name)
    varied = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    values = tuple(_read_value(name, hint, entry) for entry in (value if varied else (value,)))
    if not values:
        raise ConfigError(f"{name}: has no values")
    plain = [_plain_value(value) for value in values]
    for at, value in enumerate(plain):
        if value in plain[:at]:
            raise ConfigError(f"{name}: {value!r} is given twice")
    return Axis(name, kind, key, values, varied, silent=engine != "simulate" and name in UNSOURCED_L1_NAMES)


def _place(engine: str, name: str) -> tuple[Literal["gpu", "option", "field"], str, Any]:
    """Return the kind, the key and the type of a name."""
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
        raise ConfigError("policies: cannot be varied by a sweep; rdmodel.contest compares policies")
    raise ConfigError(unknown(f"name in a sweep of {engine}:", name, ["gpu", *options, *L1_NAMES, *known]))


@cache
def _options(engine: str) -> dict[str, Any]:
    """Return the options of an engine with their types."""
    fields: dict[str, Any] = get_type_hints(SimulationOptions if engine == "simulate" else Options)
    fields.pop("policies", None)
    return {**fields, **CALL_ARGUMENTS[engine]}


@cache
def _keys() -> dict[str, Any]:
    """Return the keys of a GPU with their types."""
    hints = {"": get_type_hints(GPU), **{name: get_type_hints(part) for name, part in GPU_TABLES.items()}}
    types = {}
    for key in override_keys():
        table, _, name = key.rpartition(".")
        if key not in NOT_VARIED:
            # Parameters of index functions other than masks are whole numbers.
            types[key] = hints[table][name] if table in hints else int
    return types


# ---- Values


def _read_value(name: str, hint: Any, value: Any) -> Any:
    """Return a value in the type of its name; texts are read as on the command line (``16K``, ``none``)."""
    if isinstance(value, np.generic):
        value = value.item()
    if hint is GPU:
        return presets.gpu(value)
    if hint is IndexFunction:
        return _index(name, value)
    kind = _Kind.of(name, hint)
    value = kind.of_text(value) if isinstance(value, str) else value
    if value == math.inf and name.rpartition(".")[2].removeprefix("l1_") in UNLIMITED_L1_NAMES:
        value = None
    if not kind.has(value):
        raise ConfigError(f"{name}={value!r:.60}: must be {kind}")
    return value


@dataclass(frozen=True, slots=True)
class _Kind:
    """The values that a name accepts: types of numbers, True and False, words, None."""

    name: str
    numbers: tuple[type, ...]
    flag: bool
    choices: tuple[str, ...]
    optional: bool

    @classmethod
    def of(cls, name: str, hint: Any) -> _Kind:
        """Return the kind of a type hint: a type, a `Literal`, or a union of them."""
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        return cls(
            name,
            tuple(kind for kind in kinds if kind in (int, float)),
            bool in kinds or name == "stores",
            tuple(choice for kind in kinds for choice in get_args(kind)),
            NoneType in kinds,
        )

    def of_text(self, text: str) -> Any:
        """Return the value that a text denotes."""
        if text in self.choices:
            return text
        unlimited = self.name.rpartition(".")[2].removeprefix("l1_") in UNLIMITED_L1_NAMES
        if self.optional and text in ("none", "inf" if unlimited else "none", WORDS_FOR_NONE.get(self.name, "none")):
            return None
        if self.flag and text in ("true", "false"):
            return text == "true"
        if self.numbers and (text[:1] in "+-." or text[:1].isdecimal() or not self.choices):
            return parse_number(text, self.name)
        if self.choices:
            raise ConfigError(unknown(f"value for {self.name}:", text, self.choices))
        return text

    def has(self, value: Any) -> bool:
        """Return whether a value is of this kind; the range of a number is checked by its field."""
        if value is None or isinstance(value, bool):
            return self.optional if value is None else self.flag
        if isinstance(value, str):
            return value in self.choices
        return isinstance(value, int | float if float in self.numbers else self.numbers)

    def __str__(self) -> str:
        """Return a description of the allowed values."""
        numbers = ["a number" if float in self.numbers else "a whole number"] if self.numbers else []
        words = [*map(repr, self.choices), *(["True", "False"] if self.flag else []), *(["None"] * self.optional)]
        return " or ".join([*numbers, *words])


def _index(name: str, value: Any) -> Any:
    if isinstance(value, str):
        find_index_function(value)
    if not isinstance(value, str | IndexFunction):
        raise ConfigError(f"{name}={value!r:.60}: must be an index function or the name of one")
    return value


def _plain_value(value: Any) -> Any:
    """Return a value in plain types: GPUs and index functions by their names."""
    if isinstance(value, GPU):
        return value.name
    if isinstance(value, IndexFunction):
        given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
        words = ",".join(f"{name}={entry}" for name, entry in given.items() if entry is not None)
        return f"{value.name}:{words}" if words else value.name
    return value
