"""Make the tiles of a CUDA program: its tile sizes are macros, and determine the shape of its launch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rdmodel.common.checks import check_int
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError, RdmodelError
from tracegen.affine.conditions import evaluate_size, holds
from tracegen.affine.expression import Expression
from tracegen.cuda.compiler import Defines, compile_program
from tracegen.cuda.session import MAX_INSTRUCTIONS, Arguments, Session
from tracegen.cuda.source import Source, read_source
from tracegen.cuda.tile_questions import describe_code, describe_values
from tracegen.cuda.variables import merge_variables, split_symbols
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace
from tracegen.unrolling import DEFAULT_UNROLL, Unroll

_LAST_SESSION = "_last_session"
"""Name under which an object keeps the program that it compiled last: tiles may share their code."""

_MAX_COMPILERS = 1024
_OWN_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"', re.MULTILINE)
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class TiledProgram:
    """A launch of a CUDA kernel whose tile sizes are free: a call with a tile returns the trace of that launch.

    A tile is a mapping of names to values. Each becomes a macro of the source, and the shape of the launch may depend
    on it, so that `rdmodel.rank_tiles` can rank the tiles of a program.

    Parameters
    ----------
    source
        A CUDA file, or a string of CUDA C++.
    kernel
        Name of the kernel in the source, as in `trace` (None: the only kernel).
    grid, block
        One to three expressions (x, y, z) of tile sizes and of arguments that are whole numbers, by name, such as
        ``"(n + BX * TX - 1) // (BX * TX)"``. Expressions are those of loop nests: ``+ - * // %``, ``min`` and ``max``.
    args
        Arguments of the kernel, as in `trace`.
    shared
        Bytes of dynamic shared memory, as an expression.
    where
        Conditions that tiles must meet, such as ``"BX * BY <= 1024"`` (`allows`).
    defines, includes, options, architecture, compiler, base, variables, max_instructions, unroll, capability
        As in `trace`.

    Raises
    ------
    ConfigError
        If `grid` or `block` does not have one to three dimensions.
    TraceError
        If the source cannot be read.
    """

    source: str | Path
    kernel: str | None
    grid: Expression | Sequence[Expression]
    block: Expression | Sequence[Expression]
    args: Arguments
    shared: Expression = 0
    where: Sequence[str] = ()
    defines: Defines = ()
    includes: Sequence[str | Path] = ()
    options: Sequence[str] = ()
    architecture: str | None = None
    compiler: str = "auto"
    base: int | None = None
    variables: Mapping[str, Any] | None = None
    max_instructions: int = MAX_INSTRUCTIONS
    unroll: Unroll = DEFAULT_UNROLL
    capability: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Check the number of dimensions, and read the source."""
        for name in ("grid", "block"):
            if not 1 <= len(_dimensions(getattr(self, name))) <= 3:
                raise ConfigError(f"{name}={getattr(self, name)!r:.60}: must be one to three expressions (x, y, z)")
        _ = self._read

    def allows(self, tile: Mapping[str, Any]) -> bool:
        """Return whether a tile meets all conditions; raise `TraceError` for a malformed one or an unknown name."""
        scope = self._scope(tile)
        return all(holds(condition, scope) for condition in self.where)

    def evaluate(self, expression: str, tile: Mapping[str, Any]) -> int:
        """Return the value of an expression for a tile; raise `TraceError` for a malformed one or an unknown name."""
        return evaluate_size(expression, self._scope(tile))

    def __call__(self, tile: Mapping[str, Any]) -> EmulatedTrace:
        """Return the trace of the launch for a tile; raises the errors of `trace`, and those of expressions."""
        grid, block, shared = self._shape(tile)
        args, symbols = split_symbols(self.args) if isinstance(self.args, Mapping) else (self.args, {})
        code = self.code(tile)
        kept: tuple[Any, Session] | None = self.__dict__.get(_LAST_SESSION)
        if kept is None or kept[0] != code:
            session = Session(
                self.source,
                kernels=[self.kernel] if self.kernel else [],
                defines=code,
                includes=self.includes,
                options=self.options,
                architecture=self.architecture,
                capability=self.capability,
                compiler=self.compiler,
                base=self.base,
                variables=merge_variables(self.variables or {}, symbols),
            )
            kept = self.__dict__[_LAST_SESSION] = code, session
        session = kept[1]
        launch = session.prepare(
            self.kernel,
            grid,
            block,
            args,
            shared=shared,
            max_instructions=self.max_instructions,
            unroll=self.unroll,
        )
        return session.trace(launch, None)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the compiled program, which takes as long to unpickle as to make."""
        return {name: value for name, value in self.__dict__.items() if name != _LAST_SESSION}

    def code(self, tile: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the macros of a tile: tiles with equal ones share their code, and differ in their launches only."""
        return tuple(self._macros(tile))

    def question(self, tile: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return everything that determines the trace of a tile, as JSON; None if an argument cannot be told.

        Texts and arrays are represented by digests, files of arguments by their sizes and times. Raises the errors of
        expressions.
        """
        if self._program_question["arguments"] is None:
            return None
        grid, block, shared = self._shape(tile)
        return {
            **self._program_question,
            "macros": list(self.code(tile)),
            "grid": grid,
            "block": block,
            "shared": shared,
        }

    def compile(self, tiles: Iterable[Mapping[str, Any]], *, n_jobs: int = -1, progress: Progress | None = None) -> int:
        """Compile the code of tiles into the cache on disk, each distinct code once, in parallel.

        Parameters
        ----------
        tiles
            The tiles.
        n_jobs
            Number of compilers that run at a time; -1 means one for each core.
        progress
            Called with (codes compiled, distinct codes). An exception that it raises ends the compilation; codes that
            are finished stay in the cache.

        Returns
        -------
        int
            The number of distinct codes. One that does not compile counts, and its error is left to the call.

        Raises
        ------
        ConfigError
            If `n_jobs` is neither -1 nor at least 1.
        """
        distinct = list({tuple(macros): macros for macros in map(self._macros, tiles)}.values())
        import joblib  # here, because it takes long to import

        if n_jobs != -1:
            check_int("n_jobs", n_jobs, 1, _MAX_COMPILERS)
        jobs, done = joblib.cpu_count() if n_jobs == -1 else n_jobs, 0

        def report() -> None:
            if progress is not None:
                progress(done, len(distinct))

        report()
        with ThreadPoolExecutor(jobs) as pool:
            try:
                for _ in as_completed([pool.submit(self._compile, macros) for macros in distinct]):
                    done += 1
                    report()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return len(distinct)

    def _compile(self, macros: Sequence[str]) -> None:
        with suppress(RdmodelError):  # the trace of the tile raises it again
            compile_program(
                self._read,
                defines=macros,
                includes=self.includes,
                options=self.options,
                architecture=self.architecture,
                capability=self.capability,
                compiler=self.compiler,
                kernels=[self.kernel] if self.kernel else [],
            )

    @cached_property
    def _read(self) -> Source:
        return read_source(self.source)

    @cached_property
    def _words(self) -> frozenset[str] | None:
        """The words of the source; None if the project's own headers may hold others."""
        text = self._read.text
        return None if _OWN_INCLUDE.search(text) else frozenset(_WORD.findall(text))

    @cached_property
    def _program_question(self) -> dict[str, Any]:
        """The part of the question that all tiles share."""
        return {
            "code": describe_code(self._read, self.includes, self.compiler),
            "kernel": self.kernel,
            "options": list(self.options),
            "architecture": self.architecture,
            "capability": self.capability and list(self.capability),
            "base": self.base,
            "max_instructions": self.max_instructions,
            "unroll": self.unroll,
            "arguments": describe_values([self.args, dict(self.variables or {})]),
        }

    def _shape(self, tile: Mapping[str, Any]) -> tuple[list[int], list[int], int]:
        """Return grid, block and bytes of dynamic shared memory of the launch for a tile."""
        scope = self._scope(tile)
        grid, block = ([evaluate_size(size, scope) for size in _dimensions(shape)] for shape in (self.grid, self.block))
        return grid, block, evaluate_size(self.shared, scope)

    def _scope(self, tile: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of names in expressions: the arguments that are whole numbers, and the sizes of a tile."""
        args = self.args if isinstance(self.args, Mapping) else {}
        numbers = {name: int(value) for name, value in args.items() if _WHOLE_NUMBER.fullmatch(str(value))}
        return {**numbers, **tile}

    def _macros(self, tile: Mapping[str, Any]) -> list[str]:
        """Return the macros of a tile; one that the source does not name would only make codes differ."""
        given = self.defines
        fixed = [f"{name}={value}" for name, value in given.items()] if isinstance(given, Mapping) else list(given)
        names = {macro.partition("=")[0] for macro in fixed}
        for name in tile:
            if name in names:
                raise ConfigError(f"{name}: is a tile size and a macro that is defined; give one of them")
        return fixed + [f"{name}={value}" for name, value in tile.items() if self._words is None or name in self._words]


def _dimensions(shape: Expression | Sequence[Expression]) -> Sequence[Expression]:
    return (shape,) if isinstance(shape, int | str) else shape
