"""Give each of several kernels its share of ``--param``."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from pathlib import Path

import tracegen
from rdmodel.cli.output import print_note
from rdmodel.common.numerals import read_integer
from rdmodel.errors import ConfigError, RdmodelError, unknown
from tracegen.kernel_library.registry import kernel_names, spec_of

AFFINE_SUFFIX = ".json"
"""Suffix of files with affine kernels."""

Pairs = Iterable[tuple[str, str]]
"""Names and values of ``--param`` or a similar option."""


def kernel_parameters(pairs: Pairs, sizes: Container[str]) -> dict[str, int | str]:
    """Return the values of ``--param``; raise `ConfigError` for a size that is not a whole number, or a name twice.

    A name that is not among `sizes` is an input file or a mistake, which the kernel reports.
    """
    parameters: dict[str, int | str] = {}
    for name, text in refuse_repeated("--param", pairs):
        try:
            parameters[name] = read_integer(text) if name in sizes else text
        except ValueError as error:
            raise ConfigError(f"param {name}={text!r:.60}: must be {error}") from None
    return parameters


def refuse_repeated(option: str, pairs: Pairs) -> list[tuple[str, str]]:
    """Return pairs of a name and a value; raise `ConfigError` if a name occurs twice."""
    given = list(pairs)
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{option} {name}: is given twice; give it one value")
    return given


def applicable_pairs(source: str, own: Collection[str], pairs: Pairs, sources: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of ``--param`` that apply to one of several sources of a command.

    A name that another source has, and this one does not, is left out, and a note says so. Raises `ConfigError`
    for a name that none of several kernels has; the only kernel of a command reports its mistake itself.
    """
    given = refuse_repeated("--param", pairs)
    foreign = [name for name, _ in given if name not in own]
    if not foreign:
        return given
    others = {name for other in dict.fromkeys(sources) if other != source for name in _parameter_names(other)}
    if not others:
        return given
    for name in foreign:
        if name not in others:
            raise ConfigError(unknown("size of these kernels", name, sorted({*own, *others})))
    print_note(f"{source}: has no {' and no '.join(foreign)}, so --param {', '.join(foreign)} does not apply to it")
    return [pair for pair in given if pair[0] in own]


def _parameter_names(source: str) -> list[str]:
    """Return the sizes and input files of a kernel; none for a source that takes no ``--param``."""
    path = Path(source)
    if path.exists():
        try:
            return list(tracegen.load_affine(path).parameters) if path.suffix == AFFINE_SUFFIX else []
        except RdmodelError:
            return []  # reported when it is this file's turn
    if source not in kernel_names():
        return []
    spec = spec_of(source)
    return [*spec.sizes, *spec.inputs]
