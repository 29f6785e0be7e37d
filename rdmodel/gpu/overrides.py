"""Override fields of a GPU by keys and values in text form: ``l1.size`` and ``48K``, ``sms`` and ``15``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rdmodel.common.numerals import read_integer
from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.cache import OWN_DATA
from rdmodel.gpu.config import GPU, GPU_TABLES, gpu_from_dict
from rdmodel.policies import INDEX_FUNCTIONS, IndexFunction, Linear
from rdmodel.policies.index_registry import find_index_function

SIZE_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20}
"""Suffixes of whole numbers, with the factors that they mean."""

LIST_KEYS = ("l1.index.masks", "l1.index.table", "l1.carveouts")
"""Fields whose value is a list, written with commas."""

NAME_KEYS = (
    "name",
    "architecture",
    "l1.allocate",
    "l1.stores",
    "l1.dlcm",
    "core.sched",
    "core.first_scheduler",
    "l2.index",
    "crossbar.packets",
    "l1.index.function",
)
"""Keys whose values are names and not numbers."""

LINE_KEYS = ("l1.sector", "l2.sector", "l2.fetch")
"""Keys for which ``none`` means as many bytes as before: those of a line, or of a sector."""

FLAGS = {"true": True, "false": False}
"""Values of the keys in `FLAG_KEYS`."""

FLAG_KEYS = ("core.store_acks",)
"""Keys whose values are true or false."""

OVERRIDE_SOURCE = "set by the user"
"""The source of an overridden number, in `GPU.sources`."""

DERIVED_SOURCE = "follows from "
"""The start of the source of a number that other numbers decide."""


def override_keys(*more: type[IndexFunction]) -> list[str]:
    """Return all keys of `override`: the fields of a GPU, nested ones dotted, with the parameters of index functions.

    Those are the parameters of the index functions of this package, and of `more`.
    """
    known = [name for name in _fields(GPU) if name not in (*GPU_TABLES, "sources")]
    known += [f"{group}.{name}" for group, cls in GPU_TABLES.items() for name in _fields(cls)]
    parameters = {name for cls in (*INDEX_FUNCTIONS.values(), *more) for name in _fields(cls)}
    return known + [f"l1.index.{name}" for name in sorted(parameters)]


def override(gpu: GPU, assignments: Mapping[str, Any]) -> GPU:
    """Return a copy of `gpu` with fields changed all at once, so that only the result has to be valid.

    `assignments` maps dotted keys (see `override_keys`) to values: texts in the form of `parse_number`, or values of
    the field's type. ``inf`` means unlimited for the MSHR fields. A new ``l1.index`` drops the parameters of the old
    function; ``l1.index.polynomial`` and similar keys change one parameter. A new ``l1.size`` without ``l1.unified`` or
    a carve-out gives the L1 memory of its own, of that size in every launch. New ``l1.size`` and ``l1.ways`` without
    ``l1.tag_sets`` give each way data of its own, and a linear index unless there is another one; ``l1.tag_sets=0``
    drops the other fields about data that belong to no set. If the simulator
    reads one of the changed fields, `calibrated` becomes None unless it is assigned, too. Raises a `ConfigError` that
    names the key.
    """
    plain = gpu.to_dict()
    plain["l1"]["index"] = _index(gpu.l1.index)
    assigned = assignments.get("l1.index")
    named = [find_index_function(assigned)] if isinstance(assigned, str) else []
    known = override_keys(type(gpu.l1.index), *named)
    # Sorted, the index function precedes its parameters.
    for key in sorted(assignments):
        if key not in known:
            raise ConfigError(unknown("key", key, _near(key, known)))
        *path, last = key.split(".")
        table = plain
        for name in path:
            table = table.setdefault(name, {})
        table[last] = _parse(key, assignments[key])
        plain["sources"][key] = OVERRIDE_SOURCE
    _separate_l1(plain, assignments)
    _give_ways_data(plain, assignments)
    _resize_l1(plain, gpu, assignments)
    changed = gpu_from_dict(plain)
    return changed if any(key.startswith("calibrated.") for key in assignments) else changed.fitted_to(gpu)


def _separate_l1(plain: dict[str, Any], assignments: Mapping[str, Any]) -> None:
    """Drop the fields about memory shared with shared memory if the L1 gets a fixed size, or memory of its own."""
    fields = ("unified", "carveouts", "carveout")
    given = [name for name in fields if f"l1.{name}" in assignments]
    if ("l1.size" in assignments and not given) or plain["l1"].get("unified") == 0:
        _drop(plain, [name for name in fields if name not in given])


def _give_ways_data(plain: dict[str, Any], assignments: Mapping[str, Any]) -> None:
    """Drop the fields about data that belong to no set if the L1 gets both a size and ways, or `tag_sets` of 0."""
    l1 = plain["l1"]
    if "l1.tag_sets" in assignments:
        if l1["tag_sets"] == 0:
            _drop(plain, [name for name in OWN_DATA if f"l1.{name}" not in assignments])
        return
    if "tag_sets" not in l1 or not {"l1.size", "l1.ways"} <= assignments.keys():
        return
    _drop(plain, OWN_DATA)
    if not any(key.startswith("l1.index") for key in assignments):
        l1["index"] = Linear.name
        plain["sources"]["l1.index"] = f"{DERIVED_SOURCE}l1.size and l1.ways"


def _drop(plain: dict[str, Any], names: Iterable[str]) -> None:
    """Drop fields of the L1, and their sources."""
    for name in names:
        plain["l1"].pop(name, None)
        plain["sources"].pop(f"l1.{name}", None)


def _resize_l1(plain: dict[str, Any], gpu: GPU, assignments: Mapping[str, Any]) -> None:
    """Derive numbers of the L1 that are not assigned from those that are.

    A new carve-out decides the size and the shared memory. A new size of an L1 with sectors, or that shares its memory,
    decides the ways: these L1s have few sets, whose number stays. Values of wrong types stay for the checks of the GPU.
    """
    l1, sources = plain["l1"], plain["sources"]
    shared = [name for name in ("unified", "carveouts", "carveout") if f"l1.{name}" in assignments]
    resized = "l1.size" in assignments
    choices = l1.get("carveouts")
    known = isinstance(choices, list | tuple) and _whole(*choices, l1.get("unified")) and len(choices) > 0
    if shared and not resized and known:
        # A carve-out that is no choice stays for the checks, which must not find a size that does not fit first.
        carveout = l1.get("carveout", "auto")
        l1["size"] = l1["unified"] - (carveout if carveout in choices else min(choices))
        sources["l1.size"] = f"{DERIVED_SOURCE}l1.unified and the carve-out"
        if "carveouts" in shared and "shared_memory" not in assignments:
            plain["shared_memory"] = max(choices)
            sources["shared_memory"] = f"{DERIVED_SOURCE}l1.carveouts"
        resized = True
    keeps_sets = (gpu.l1.sectors > 1 or gpu.l1.unified) and not l1.get("tag_sets")
    if resized and keeps_sets and "l1.ways" not in assignments and _whole(l1["size"], l1.get("line", 0)):
        l1["ways"] = l1["size"] // max(1, l1["line"] * gpu.l1.sets)
        sources["l1.ways"] = f"{DERIVED_SOURCE}l1.size and the number of sets"


def _whole(*values: Any) -> bool:
    """Tell whether all values are whole numbers of at least 0."""
    return all(isinstance(value, int) and value >= 0 for value in values)


def parse_number(text: str, name: str = "value") -> int | float:
    """Parse a number: ``15``, ``48K`` or ``2M`` (binary), ``40.5``, ``inf`` (unlimited).

    Raises a `ConfigError` with `name` for anything else, NaN included.
    """
    if text == "inf":
        return float("inf")
    if whole := re.fullmatch(r"([+-]?[0-9]+)([KM]?)", text):
        try:
            # Read again with its suffix, which may make it too large.
            return read_integer(str(read_integer(whole[1]) * SIZE_SUFFIXES[whole[2]]))
        except ValueError as error:
            raise ConfigError(f"{name}={text!r:.60}: must be {error}") from None
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    raise ConfigError(f"{name}={text!r}: must be a number (15, 48K, 2M, 40.5) or inf")


def parse_size(text: str, name: str = "size") -> int:
    """Parse a whole number, usually of bytes: ``16384``, ``48K``, ``2M``.

    Raises a `ConfigError` with `name` for anything else.
    """
    value = parse_number(text, name)
    if not isinstance(value, int):
        raise ConfigError(f"{name}={text!r}: must be a whole number, optionally with suffix K (1024) or M (1024 K)")
    return value


def _near(key: str, known: list[str]) -> list[str]:
    """Return the keys of the same table, or all if there is no such table, so that `l1` is not confused with `l2`."""
    table = key.rpartition(".")[0] + "."
    return [name for name in known if name.startswith(table)] or known


def _parse(key: str, value: Any) -> Any:
    if key == "l1.index":
        return _index(value)
    if key == "l1.dlcm" and value == "none":
        return None
    if not isinstance(value, str) or key in NAME_KEYS:
        return value
    if key in LIST_KEYS:
        # As on the command line, or as in the TOML that `rdmodel gpus` prints.
        numbers = value.removeprefix("[").removesuffix("]").split(",")
        return [parse_size(number.strip(), key) for number in numbers if number]
    if key == "l1.caches":
        return [] if value == "none" else value.split(",")
    if key == "l1.carveout" and not value[:1].isdecimal():
        return value
    if key in LINE_KEYS and value == "none":
        return None
    if key in FLAG_KEYS:
        if value not in FLAGS:
            raise ConfigError(f"{key}={value!r}: must be true or false")
        return FLAGS[value]
    return parse_number(value, key)


def _index(value: Any) -> dict[str, Any]:
    if isinstance(value, IndexFunction):
        parameters = {name: getattr(value, name) for name in _fields(value)}
        return {"name": value.name, **{name: found for name, found in parameters.items() if found is not None}}
    if not isinstance(value, str):
        raise ConfigError(f"l1.index={value!r}: must be an index function or the name of one")
    return {"name": value}


def _fields(cls: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(cls)]
