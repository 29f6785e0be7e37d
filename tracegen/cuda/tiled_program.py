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
from tracegen.cuda.variables import merge_variables, split_symbols
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace
from tracegen.unrolling import DEFAULT_UNROLL, Unroll

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
    defines, includes, options, architecture, compiler, base, variables, max_instructions, unroll
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

    def __call__(self, tile: Mapping[str, Any]) -> EmulatedTrace:
        """Return the trace of the launch for a tile; raises the errors of `trace`, and those of expressions."""
        scope = self._scope(tile)
        grid, block = ([evaluate_size(size, scope) for size in _dimensions(shape)] for shape in (self.grid, self.block))
        args, symbols = split_symbols(self.args) if isinstance(self.args, Mapping) else (self.args, {})
        session = Session(
            self.source,
            kernels=[self.kernel] if self.kernel else [],
            defines=self._macros(tile),
            includes=self.includes,
            options=self.options,
            architecture=self.architecture,
            compiler=self.compiler,
            base=self.base,
            variables=merge_variables(self.variables or {}, symbols),
        )
        launch = session.prepare(
            self.kernel,
            grid,
            block,
            args,
            shared=evaluate_size(self.shared, scope),
            max_instructions=self.max_instructions,
            unroll=self.unroll,
        )
        return session.trace(launch, None)

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
