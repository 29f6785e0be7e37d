"""Compile a program with NVRTC: give it the headers of the project, of NVIDIA and those built in, and empty ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path

from tracegen.cuda import headers, nvrtc, ptx_cache
from tracegen.cuda.hostcode import LIBRARY_NAMESPACES, device_code
from tracegen.cuda.missing_headers import (
    missing_in_log,
    stand_in,
    stand_ins_for_missing,
    unopened_header,
    without_marks,
)
from tracegen.cuda.source import Source

_PRELUDE = "rdmodel/macros.h"
"""Name of the in-memory header included before all others: the implicit includes of nvcc, and the macros."""

_IMPLICIT_HEADERS = ("cuda_runtime.h", "cmath", "stdint.h", "limits.h", "time.h")
"""Headers that nvcc includes before every file, directly or through headers of the host."""

_STANDARD_NAMES = {
    "utility": r"is_|remove_|pair\b|make_pair|common_type|enable_if|conditional|bool_constant|decay"
    r"|\w*index_sequence|exchange\b",
    "limits": r"numeric_limits",
    "tuple": r"tuple\b|make_tuple|tie\b",
    "iterator": r"\w+_iterator_tag",
    "optional": r"optional\b|nullopt",
    "string": r"string\b",
    "vector": r"vector\b",
    "rdmodel_std.h": r"(?:array|complex|plus|minus|multiplies|divides|modulus|negate|(?:not_)?equal_to|greater|less"
    r"|greater_equal|less_equal|logical_\w+|bit_(?:and|or|xor|not)|invoke|accumulate|gcd|lcm)\b",
}
"""Names of ``std`` that many headers of the C++ library declare, so that programs use them without these headers.

Others are in headers that the programs name, but take long to compile.
"""

_HEADERS_OF_WORDS = {
    # References that CUDA 12 removed, for programs that declare one.
    "rdmodel_texture_references.h": r"\b(?<!struct )(?<!class )(?:texture|surface)\s*<",
    "rdmodel_thrust.h": r"\bthrust::",
    "rdmodel_typeof.h": r"\b__typeof",
    **{header: rf"\bstd::(?:{names})" for header, names in _STANDARD_NAMES.items()},
}
"""Built-in headers that programs with certain words get without asking for them."""

_MAX_MISSING = 100
"""Largest number of headers that are found to be missing one by one."""

_QUICK_OPTION = "--define-macro=_CG_LIMIT_INCLUDED_DEPENDENCIES"
"""Option with which NVIDIA's cooperative groups do without the C++ library, which takes a second to compile."""

_DEVICE_RUNTIME_IN_LOG = re.compile(r'identifier "cuda[A-Z]\w+" is undefined|device-side kernel launch')
"""Messages about functions and launches of the runtime that device code uses."""

_UNKNOWN_INSTANCE_IN_LOG = re.compile(r'__nv_name_map\(\d+\): error: identifier "\w+" is undefined')
"""Message about the name of a template kernel that lies in a namespace."""

_DESIGNATOR = re.compile(r"[{,]\s*\.\w+\s*=")
"""A designated initialiser, which nvcc takes before C++20, too."""

_STATEMENT_EXPRESSION = re.compile(r"\(\{([^{}]*;)([^;{}]+;)([\s\\]*)\}\)")
"""Statements with a value, an extension of gcc that nvcc takes: ``({ int b = a; b * b; })``."""

_NAMESPACE = re.compile(r"^[ \t]*namespace\s+(\w+(?:::\w+)*)\s*\{", re.MULTILINE)


class NvrtcProgram:
    """A program and its headers in memory: `project` are the included files of the project, by name.

    `instances` are the names of template kernels with arguments.
    """

    def __init__(
        self,
        source: Source,
        project: Mapping[str, Source],
        macros: Sequence[str],
        folders: Sequence[Path],
        instances: Sequence[str] = (),
    ) -> None:
        self._instances = instances
        source_folders = [source.directory] if source.directory else []
        own_folders = [*source_folders, *folders]
        self._folders = [*own_folders, *nvrtc.header_folders()]
        texts = {**{name: part.text for name, part in project.items()}, source.name: source.text}
        self._texts = texts
        files = device_code(texts, mentions=instances)
        self._name, self._text = source.name, files.pop(source.name)
        built_in = _built_in_headers(folders)
        self._files = files
        known = {*built_in, *files}
        missing = stand_ins_for_missing([source, *project.values()], known, self._folders)
        self._headers = {**built_in, **missing, **files, _PRELUDE: _prelude(macros, self._additions())}

    @property
    def _device_texts(self) -> tuple[str, ...]:
        """The texts of the program and of the headers of its project, without host code."""
        return self._text, *self._files.values()

    def _additions(self) -> list[str]:
        """Return the lines of the prelude that only some programs need."""
        texts = self._device_texts
        return [
            *(
                f"#include <{header}>"
                for header, words in _HEADERS_OF_WORDS.items()
                if any(re.search(words, text) for text in texts)
            ),
            # The headers that declare a namespace may have been left out.
            *(f"namespace {name} {{}}" for name in LIBRARY_NAMESPACES if any(f"namespace {name}" in t for t in texts)),
            # NVRTC is not nvcc and compiles for no system, but programs ask for both.
            *(f"#define {name} 1" for name in ("__linux__", "__NVCC__") if any(name in text for text in texts)),
        ]

    def compile(self, library: nvrtc.Nvrtc, target: str, options: Sequence[str]) -> tuple[nvrtc.Compilation, list[str]]:
        """Compile the program; return the result, and the names of missing headers that the compiler reached."""
        flags = [
            f"--gpu-architecture={target}",
            "--device-as-default-execution-space",
            "--generate-line-info",
            "--diag-suppress=47",  # NVIDIA's C++ library defines the limits of <limits.h> again
            f"--pre-include={_PRELUDE}",
            *(f"--include-path={folder}" for folder in self._folders),
            *options,
        ]
        result = self._compile(library, [*flags, _QUICK_OPTION])
        if result.ptx is None and "cooperative_groups" in result.log:
            result = self._compile(library, flags)
        if result.ptx is None and _DEVICE_RUNTIME_IN_LOG.search(result.log):
            self._headers[_PRELUDE] += "#include <cuda_device_runtime_api.h>\n"
            result = self._compile(library, [*flags, "--relocatable-device-code=true"])
        if result.ptx is None and self._is_of_later_standard(options):
            result = self._compile(library, [*flags, _QUICK_OPTION, "--std=c++20"])
        if result.ptx is None and _UNKNOWN_INSTANCE_IN_LOG.search(result.log):
            self._text += "".join(f"\nusing namespace {name};" for name in self._namespaces())
            result = self._compile(library, [*flags, _QUICK_OPTION])
        for variant in self._variants(result.log) if result.ptx is None else ():
            other = variant._compile(library, [*flags, _QUICK_OPTION])
            if other.ptx is not None:
                self._text, self._headers, result = variant._text, variant._headers, other
                break
        missing = missing_in_log(result.log)
        return result._replace(log=without_marks(result.log)), missing

    def _variants(self, log: str) -> Iterator[NvrtcProgram]:
        """Yield the program as nvcc may see it, after the compiler failed with a log."""
        if any(map(_STATEMENT_EXPRESSION.search, self._device_texts)):
            files = {name: _with_lambdas(text) for name, text in self._files.items()}
            yield self._changed(_with_lambdas(self._text), files)
        files = device_code(self._texts, mentions=self._instances, unmarked_members=False)
        text = files.pop(self._name)
        if (text, files) != (self._text, self._files):
            yield self._changed(text, files)
        if "long long" in log:
            prelude = f"#define RDMODEL_LONG_INTEGERS\n{self._headers[_PRELUDE]}"
            yield self._changed(text, {**files, _PRELUDE: prelude})

    def _changed(self, text: str, headers: Mapping[str, str]) -> NvrtcProgram:
        """Return the program with another text, and with other headers of some names."""
        changed = copy(self)
        changed._text, changed._headers = text, {**self._headers, **headers}
        return changed

    def _is_of_later_standard(self, options: Sequence[str]) -> bool:
        """Return whether the files may need C++20, and the options name no standard."""
        if any(option.lstrip("-").startswith("std") for option in options):
            return False
        return any(map(_DESIGNATOR.search, self._device_texts))

    def _namespaces(self) -> list[str]:
        """Return the namespaces that the files open: the name of a kernel may do without them."""
        found = (name for text in self._device_texts for name in _NAMESPACE.findall(text))
        return [name for name in dict.fromkeys(found) if name not in ("std", "cuda", "nvcuda")]

    def _compile(self, library: nvrtc.Nvrtc, flags: Sequence[str]) -> nvrtc.Compilation:
        for _ in range(_MAX_MISSING):
            key = ptx_cache.compilation_key(
                library.version(), self._text, self._name, self._headers, flags, self._instances, self._folders
            )
            stored = ptx_cache.load(key)
            if stored is not None:
                return stored
            result = library.compile_apart(self._text, self._name, self._headers, flags, self._instances)
            ptx_cache.store(key, result)
            name = unopened_header(result.log) if result.ptx is None else None
            if name is None or name in self._headers:
                break
            self._headers[name] = stand_in(name)
        return result


def _with_lambdas(text: str) -> str:
    """Replace statements with a value by lambdas, which leave names and lines as they are."""
    # In parentheses, since two brackets together begin an attribute.
    return _STATEMENT_EXPRESSION.sub(r"([&]() {\1 return \2\3}())", text)


def _prelude(macros: Sequence[str], additions: Sequence[str]) -> str:
    # Macros passed as options would also change the compiler's own header, where T=4 breaks every template.
    defined = (macro.partition("=") for macro in macros)
    lines = [
        *(f"#include <{name}>" for name in _IMPLICIT_HEADERS),
        *additions,
        "#define register",  # not allowed in C++17, but in older programs
        # Words of gcc: the first one stands in front of what the compiler takes without it.
        "#define __extension__",
        "#define __asm__ asm",
        "#define __volatile__ volatile",
        "#define __const__ const",
        *(f"#define {name} {value if equals else 1}" for name, equals, value in defined),
    ]
    return "\n".join(lines) + "\n"


def _built_in_headers(folders: Sequence[Path]) -> dict[str, str]:
    """Return the built-in headers by name, without those that the user or NVIDIA provides."""
    names = headers.header_names()
    given = {name for name in names if any((folder / name).is_file() for folder in folders)}
    nvidia = nvrtc.header_folders()
    own = {name for name in names if headers.is_host_only(name)}
    given |= {name for name in names - own if any((folder / name).is_file() for folder in nvidia)}
    return {name: headers.header_text(name) for name in sorted(names - given)}
