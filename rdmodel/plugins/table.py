"""Read the table of a compiled policy from its library: the types of ``rdmodel_policy.h`` for ctypes."""

from __future__ import annotations

import ctypes
import keyword
import math
import re
import sys
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p, sizeof
from dataclasses import dataclass, field
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, Literal

from rdmodel.errors import ConfigError

POLICY_VERSION = 1
"""The version of ``rdmodel_policy.h``."""

SYMBOL = "rdmodel_policy_table"
"""The function that a library exports."""

PERIOD_OPTION = "period"
"""The option that says how many cycles a policy's period has."""

RESERVED_OPTIONS = ("name", "kind", "library")
"""Names that no option can have, because results use them."""

PluginKind = Literal["admission", "throttling"]
KIND_NUMBERS: dict[int, PluginKind] = {1: "admission", 2: "throttling"}
"""The kinds of compiled policies by their numbers in the header."""

DECISIONS: dict[str, PluginKind] = {"admit": "admission", "replace": "admission", "permit": "throttling"}
"""The functions that decide, with the kind that may have them."""


class MachineStruct(ctypes.Structure):
    """``rdmodel_machine``."""

    _fields_ = [(name, c_int64) for name in ("sms", "warps", "schedulers", "sets", "ways", "line_bytes")]


class WarpStruct(ctypes.Structure):
    """``rdmodel_warp``."""

    _fields_ = [(name, c_int64) for name in ("slot", "block", "warp", "age", "rank")]


class AccessStruct(ctypes.Structure):
    """``rdmodel_access``."""

    _fields_ = [
        *((name, c_int64) for name in ("line", "set", "pc", "slot", "block", "warp")),
        ("present", c_int32),
        ("store", c_int32),
    ]


class LineStruct(ctypes.Structure):
    """``rdmodel_line``."""

    _fields_ = [*((name, c_int64) for name in ("line", "pc", "block", "warp", "uses")), ("data", c_uint64)]


class CountersStruct(ctypes.Structure):
    """``rdmodel_counters``."""

    _fields_ = [
        (name, c_int64)
        for name in (
            "warp_instructions",
            "thread_instructions",
            "hits",
            "pending_hits",
            "misses",
            "bypassed",
            "writes",
        )
    ]


class OptionStruct(ctypes.Structure):
    """``rdmodel_option``."""

    _fields_ = [
        ("name", c_char_p),
        ("value", c_double),
        ("least", c_double),
        ("most", c_double),
        ("whole", c_int32),
    ]


class PolicyStruct(ctypes.Structure):
    """``rdmodel_policy``."""

    _fields_ = [
        ("version", c_int32),
        ("bytes", c_int32),
        ("name", c_char_p),
        ("description", c_char_p),
        ("kind", c_int32),
        ("options", c_int32),
        ("option", POINTER(OptionStruct)),
        ("create", CFUNCTYPE(c_void_p, POINTER(MachineStruct), c_int64, POINTER(c_double))),
        ("destroy", CFUNCTYPE(None, c_void_p)),
        ("admit", CFUNCTYPE(c_int32, c_void_p, POINTER(AccessStruct))),
        ("replace", CFUNCTYPE(c_int64, c_void_p, POINTER(AccessStruct), POINTER(LineStruct), c_int64)),
        ("permit", CFUNCTYPE(c_int32, c_void_p, POINTER(WarpStruct))),
        ("loaded", CFUNCTYPE(None, c_void_p, POINTER(AccessStruct), c_int32, POINTER(c_uint64))),
        ("replaced", CFUNCTYPE(None, c_void_p, POINTER(AccessStruct), POINTER(LineStruct), c_int64, c_int64)),
        ("began", CFUNCTYPE(None, c_void_p, POINTER(WarpStruct))),
        ("ended", CFUNCTYPE(None, c_void_p, POINTER(WarpStruct))),
        ("period_ended", CFUNCTYPE(None, POINTER(c_void_p), POINTER(CountersStruct), c_int64)),
    ]


@dataclass(frozen=True, slots=True)
class PluginOption:
    """An option of a compiled policy: its default, its limits, and whether it is a whole number."""

    name: str
    value: float
    least: float
    most: float
    whole: bool

    def check(self, value: Any) -> None:
        """Raise `ConfigError` unless `value` is allowed."""
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            raise ConfigError(f"{self.name}={value!r}: must be a {'whole ' if self.whole else ''}number")
        if not self.least <= value <= self.most:
            raise ConfigError(f"{self.name}={value}: must be from {self.least:g} to {self.most:g}")


@dataclass(frozen=True, slots=True)
class PluginTable:
    """The description of a policy by its library: `digest` is that of the file, `address` leads to the table."""

    path: Path
    digest: str
    name: str
    description: str
    kind: PluginKind
    options: tuple[PluginOption, ...]
    functions: PolicyStruct = field(repr=False, compare=False)

    @property
    def address(self) -> int:
        """The address of the table, which stays valid until the process ends."""
        return ctypes.addressof(self.functions)


def read_table(path: Path) -> PluginTable:
    """Load a library and return its table; raise `ConfigError` if it has none that can be used.

    The code of the library runs in this process: load only what you trust.
    """
    import hashlib  # its library takes more memory than the simulator does

    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ConfigError(f"{path}: is no shared library for this machine: {error}") from None
    _initialize_module(path, library)
    if not hasattr(library, SYMBOL):
        raise ConfigError(f"{path}: exports no {SYMBOL}; write it against rdmodel_policy.h (rdmodel plugin include)")
    get = getattr(library, SYMBOL)
    get.restype = POINTER(PolicyStruct)
    pointer = get()
    if not pointer:
        raise ConfigError(f"{path}: {SYMBOL} returned NULL")
    try:
        return _described(path, digest, pointer.contents)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _initialize_module(path: Path, library: ctypes.CDLL) -> None:
    """Run the initialization of a library that is a Python module, such as one written in Cython.

    Cython enters a module in `sys.modules` by its bare name. Taking it out again lets two libraries of one name be
    used, and keeps a library from hiding an installed module.
    """
    name = path.name.partition(".")[0]
    if not hasattr(library, f"PyInit_{name}"):
        return
    loader = ExtensionFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    before = sys.modules.get(name)
    try:
        loader.exec_module(module_from_spec(spec))
    except Exception as error:  # a module may raise anything
        raise ConfigError(f"{path}: cannot be initialized: {error!r}") from None
    finally:
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before


def _described(path: Path, digest: str, table: PolicyStruct) -> PluginTable:
    if table.version != POLICY_VERSION or table.bytes != sizeof(PolicyStruct):
        raise ConfigError(
            f"was built for version {table.version} of rdmodel_policy.h with {table.bytes} bytes, and this is version "
            f"{POLICY_VERSION} with {sizeof(PolicyStruct)} bytes; build it again"
        )
    name = _text("name", table.name)
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ConfigError(f"name={name!r}: must consist of lower-case letters, digits and hyphens")
    if table.kind not in KIND_NUMBERS:
        raise ConfigError(f"kind={table.kind}: must be RDMODEL_ADMISSION or RDMODEL_THROTTLING")
    kind = KIND_NUMBERS[table.kind]
    for function, owner in DECISIONS.items():
        if owner != kind and getattr(table, function):
            raise ConfigError(f"{function}: belongs to policies of the kind {owner!r}, and this is of {kind!r}")
    if not any(getattr(table, function) for function in DECISIONS):
        needed = " or ".join(function for function, owner in DECISIONS.items() if owner == kind)
        raise ConfigError(f"decides nothing; a policy of the kind {kind!r} must have {needed}")
    if table.options < 0 or (table.options and not table.option):
        raise ConfigError(f"options={table.options}: must be the number of options in the table")
    options = tuple(_option(table.option[i]) for i in range(table.options))
    names = [option.name for option in options]
    if len(set(names)) < len(names):
        raise ConfigError("option: two have one name")
    periods = [option for option in options if option.name == PERIOD_OPTION and option.whole and option.least >= 1]
    if table.period_ended and not periods:
        raise ConfigError(f"period_ended: needs a whole option {PERIOD_OPTION!r} of at least 1, the cycles of a period")
    return PluginTable(path, digest, name, _text("description", table.description), kind, options, table)


def _option(option: OptionStruct) -> PluginOption:
    name = _text("option", option.name)
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", name) or keyword.iskeyword(name) or name in RESERVED_OPTIONS:
        raise ConfigError(f"option {name!r}: must be a Python identifier in lower case, and none of {RESERVED_OPTIONS}")
    numbers = (option.value, option.least, option.most)
    if not option.least <= option.value <= option.most or not math.isfinite(option.value):
        raise ConfigError(
            f"option {name!r}: the default {option.value:g} must be from {option.least:g} to {option.most:g}"
        )
    if option.whole and any(math.isfinite(number) and number != int(number) for number in numbers):
        raise ConfigError(f"option {name!r}: is a whole number; its default and its limits must be, too")
    return PluginOption(
        name, int(option.value) if option.whole else option.value, option.least, option.most, bool(option.whole)
    )


def _text(what: str, value: bytes | None) -> str:
    if value is None:
        raise ConfigError(f"{what}: is NULL")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{what}={value!r:.60}: must be UTF-8") from None
