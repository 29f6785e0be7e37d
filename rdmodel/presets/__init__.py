"""Read and write GPUs as TOML files; find the preset GPUs, one file each, with a source for every number.

A file holds the fields of `rdmodel.gpu.config.GPU` under their names, a table for each nested one (``l1``, ``latency``,
``dram``, ...), and the table ``sources``, which maps dotted field names to the sources of the numbers. ``inf`` means
unlimited. ``l1.index`` is a name, or a table with a name and parameters.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rdmodel.common.regular_files import read_bounded_bytes
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU, gpu_from_dict
from rdmodel.gpu.default import DEFAULT_GPU as DEFAULT_GPU
from rdmodel.gpu.default import PAPER_GPU as PAPER_GPU
from rdmodel.gpu.default import default_gpu
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.gpu.overrides import DERIVED_SOURCE, OVERRIDE_SOURCE, override
from rdmodel.presets.aliases import resolve_name

ARCHITECTURES = ("Fermi", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell")
"""The architectures of the presets, from the oldest to the newest."""

MAX_FILE_BYTES = 1 << 20
"""Largest description of a GPU."""

FOLDER = Path(__file__).parent
SUFFIX = ".toml"
"""The folder and the suffix of preset files."""


def names() -> list[str]:
    """Return the names of the preset GPUs, sorted."""
    return list(_names())


@functools.cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(file.name.removesuffix(SUFFIX) for file in FOLDER.glob(f"*{SUFFIX}")))


def gpu(which: str | os.PathLike[str] | GPU) -> GPU:
    """Return a GPU by its name or by the path of its ``.toml`` file; return a `GPU` unchanged.

    Besides the names of presets, names that people type and drivers report are known (`rdmodel.presets.aliases`):
    ``"a100"``, ``"NVIDIA GeForce RTX 3070"``. Raises `ConfigError` for an unknown name, with near misses, for a name
    that several presets share, and for a file that does not describe a GPU.
    """
    if isinstance(which, GPU):
        return which
    if not isinstance(which, str | os.PathLike):
        raise ConfigError(f"gpu={which!r}: must be a name, a path or a GPU")
    name = os.fspath(which)
    if name.endswith(SUFFIX):
        return load(name)
    preset = _preset(resolve_name(name, names()))
    return dataclasses.replace(preset, sources=dict(preset.sources))


def gpu_or_default(which: str | os.PathLike[str] | GPU | None, definitions: Iterable[object] = ()) -> GPU:
    """Return `gpu` of a name, path or `GPU`; for None, the default GPU of runs with these definitions of the model."""
    return gpu(default_gpu(definitions) if which is None else which)


@functools.cache
def _preset(name: str) -> GPU:
    return _parse((FOLDER / (name + SUFFIX)).read_bytes(), name)


def like(which: str | os.PathLike[str] | GPU, changes: Mapping[str, Any], name: str | None = None) -> GPU:
    """Return a GPU that is like another one except for `changes`, with the origin of every number in its sources.

    `changes` maps keys to values, as in `rdmodel.gpu.overrides.override`. The sources of other numbers start with "as
    in" and the name of the other GPU. `name` is the name of the new GPU, unless `changes` has one; None: that of the
    other one with "-like". Raises `ConfigError`.
    """
    base = gpu(which)
    changed = override(base, {"name": f"{base.name}-like" if name is None else name, **changes})
    kept = (OVERRIDE_SOURCE, DERIVED_SOURCE)
    sources = {
        key: text if text.startswith(kept) else f"as in {base.name}: {text}"
        for key, text in changed.sources.items()
        if key != "name"
    }
    return changed.replace(sources=sources, calibrated=changed.calibrated)


def rates_of(gpu: GPU) -> tuple[dict[str, float], dict[str, str]]:
    """Return the rates of a GPU by name (`rdmodel.gpu.rates`), and the source of each.

    Rates that `gpu.rates` does not give are those of the compute capability (`rdmodel.gpu.device_properties`), or of
    the nearest earlier one of which there is a table. Raises `ConfigError` if the compute capability is unknown.
    """
    capability = compute_capability(gpu)
    table = max((each for each in _rate_tables() if each <= capability), default=_rate_tables()[0])
    values, sources = _rate_table(table)
    given = gpu.rates.given()
    texts = {name: gpu.sources.get(f"rates.{name}", "") for name in given}
    return {**values, **given}, {**sources, **texts}


@functools.cache
def _rate_tables() -> list[tuple[int, int]]:
    files = [file.name.removesuffix(SUFFIX).split(".") for file in (FOLDER / "rates").iterdir()]
    return sorted((int(major), int(minor)) for major, minor in files)


@functools.cache
def _rate_table(capability: tuple[int, int]) -> tuple[dict[str, float], dict[str, str]]:
    name = f"{capability[0]}.{capability[1]}{SUFFIX}"
    plain = tomllib.loads((FOLDER / "rates" / name).read_text(encoding="utf-8"))
    sources = plain.pop("sources")
    return plain, sources


def architectures() -> dict[str, list[str]]:
    """Return the names of the presets by architecture, from the oldest to the newest."""
    by_name = {each: _preset(each).architecture for each in names()}
    order = sorted(set(by_name.values()), key=lambda each: (ARCHITECTURES.index(each), each))
    return {each: [name for name, other in by_name.items() if other == each] for each in order}


def load(path: str | os.PathLike[str]) -> GPU:
    """Return the GPU in a TOML file; raise a `ConfigError` that names the file, and the line of malformed TOML."""
    return _parse(read_bounded_bytes(path, MAX_FILE_BYTES, ConfigError), os.fspath(path))


def dumps(gpu: GPU) -> str:
    """Return a GPU as TOML text with all fields; `load` returns an equal GPU from it."""
    plain = gpu.to_dict()
    tables = {key: value for key, value in plain.items() if isinstance(value, Mapping)}
    lines = list(_entries({key: value for key, value in plain.items() if key not in tables}))
    for name, table in tables.items():
        lines += ["", f"[{name}]", *_entries(table)]
    return "\n".join(lines) + "\n"


def _parse(content: bytes, where: str) -> GPU:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{where}:{line}: must be UTF-8 text") from None
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}:{_line_of(error, text)}: {error}") from None
    except (ValueError, RecursionError) as error:  # numbers with thousands of digits; deeply nested lists
        raise ConfigError(f"{where}: {error}") from None
    try:
        return gpu_from_dict(plain)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _line_of(error: tomllib.TOMLDecodeError, text: str) -> int:
    # tomllib gives the line only in its message, and no line at all if the text ends too early.
    match = re.search(r"\(at line (\d+), ", str(error))
    return int(match[1]) if match else text.count("\n") + 1


def _entries(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        yield f"{_key(key)} = {_index(value) if isinstance(value, Mapping) else _value(value)}"


def _index(index: Mapping[str, Any]) -> str:
    if len(index) == 1:
        return _value(index["name"])
    return "{ " + ", ".join(_entries(index)) + " }"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"


def _value(value: Any) -> str:
    if value is None:
        return "inf"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        # JSON strings are TOML strings, but TOML has no pairs of escapes for characters beyond 16 bits.
        import json  # which a run does not need

        text = json.dumps(value, ensure_ascii=False)
        return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)
    return repr(value)
