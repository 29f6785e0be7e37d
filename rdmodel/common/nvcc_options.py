"""Read the options that users give to nvcc, on a command line or in a list, and tell what each one is for here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rdmodel.common.late_dataclass import dataclass

_FLAG_NAMES = """
g G w v c dc dlink lineinfo m64 keep ptx cubin fatbin lib shared dryrun save-temps device-debug generate-line-info
expt-relaxed-constexpr expt-extended-lambda extended-lambda restrict use_fast_math disable-warnings device-c res-usage
resource-usage
"""
_FLAGS = frozenset(_FLAG_NAMES.split())
"""Options without a value, without their dashes."""

_VALUED_NAMES = """
O std maxrregcount rdc relocatable-device-code arch gpu-architecture code gpu-code gencode generate-code Xptxas
ptxas-options Xcompiler compiler-options Xlinker linker-options Xcudafe ccbin compiler-bindir cudart fmad ftz prec-div
prec-sqrt default-stream diag-suppress diag_suppress Werror x
"""
_VALUED = frozenset(_VALUED_NAMES.split())
"""Options with a value, behind ``=`` or as the next word."""

_PASSED_FLAGS = frozenset({"use_fast_math", "extended-lambda", "restrict"})
_PASSED_VALUES = frozenset({"std", "maxrregcount", "fmad", "ftz", "prec-div", "prec-sqrt"})
_SYNONYMS = {"diag_suppress": "diag-suppress", "expt-extended-lambda": "extended-lambda"}
"""Options that change the PTX, or that NVRTC checks; all others concern files, the host or later tools."""

_ATTACHED = re.compile(r"-(?:O[0-4s]|[lL].+|std=.+|W\w.*|f(?!mad|tz)\w.*|m(?:32|64))")
"""Options of which the value belongs to the word, and options of the host's compiler, which nvcc passes on."""

_TARGET = re.compile(r"(?:arch=)?(?:compute|sm)_(\d+[af]?)\b")


@dataclass(frozen=True, slots=True)
class NvccOptions:
    """The options of nvcc that matter here.

    `architecture` is the virtual architecture (``compute_70``), `dlcm` the default operator of global loads in
    ``-Xptxas -dlcm=ca``, and `passed` are options for NVRTC: those that change the PTX, and unknown ones.
    `relocatable`: the code is assembled before it is linked (``-rdc=true``).
    """

    architecture: str | None = None
    dlcm: str | None = None
    passed: tuple[str, ...] = ()
    relocatable: bool = False


def read_nvcc_options(words: Iterable[str]) -> NvccOptions:
    """Return what options of nvcc ask for; options for other tools are left out, and unknown ones are passed."""
    found = NvccOptions()
    waiting = list(words)[::-1]
    while waiting:
        word = waiting.pop()
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name in _VALUED:
            found = _with_value(found, name, value if equals else waiting.pop() if waiting else "")
        elif name in _FLAGS or _ATTACHED.fullmatch(word):
            name = _SYNONYMS.get(name, name)
            if name in ("dc", "device-c"):
                found = replace(found, relocatable=True)
            if name in _PASSED_FLAGS:
                found = replace(found, passed=(*found.passed, f"--{name}"))
            elif word.startswith("-std="):
                found = replace(found, passed=(*found.passed, f"-{word}"))
        else:
            found = replace(found, passed=(*found.passed, word))
    return found


def _with_value(found: NvccOptions, name: str, value: str) -> NvccOptions:
    name = _SYNONYMS.get(name, name)
    if name in ("arch", "gpu-architecture", "gencode", "generate-code"):
        target = _TARGET.search(value)
        return replace(found, architecture=f"compute_{target[1]}") if target else found
    if name in ("Xptxas", "ptxas-options"):
        default = re.search(r"(?:-dlcm|--def-load-cache)=(c[agsv])\b", value)
        return replace(found, dlcm=default[1]) if default else found
    if name in ("rdc", "relocatable-device-code"):
        return replace(found, relocatable=value == "true")
    if name in _PASSED_VALUES or (name == "diag-suppress" and value):
        return replace(found, passed=(*found.passed, f"--{name}={value}"))
    return found


def split_nvcc_options(argv: Sequence[str], known: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the words of a command line without options of nvcc, and these options; `known` names other options.

    A value that stands apart is joined to its option with ``=``.
    """
    own = set(known)
    rest: list[str] = []
    options: list[str] = []
    waiting = list(argv)[::-1]
    while waiting:
        word = waiting.pop()
        head, equals, _ = word.partition("=")
        name = head.lstrip("-")
        if word == "--":
            return [*rest, word, *reversed(waiting)], options
        if not word.startswith("-") or head in own:
            rest.append(word)
        elif name in _VALUED:
            options.append(word if equals or not waiting else f"{word}={waiting.pop()}")
        elif name in _FLAGS or _ATTACHED.fullmatch(word):
            options.append(word)
        else:
            rest.append(word)
    return rest, options
