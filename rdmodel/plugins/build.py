"""Compile a policy in C, C++ or Cython to a library that the machine can load."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from rdmodel.errors import ConfigError, RdmodelError

PLUGIN_SUFFIXES = (".c", ".cpp", ".cc", ".cxx", ".pyx")
"""Endings of the names of sources."""

COMPILE_ARGUMENTS = ("-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Wno-unused-parameter")


def include_folder() -> Path:
    """Return the folder of ``rdmodel_policy.h``."""
    return Path(__file__).resolve().parent


def build_plugin(source: str | os.PathLike[str], output: str | os.PathLike[str] | None = None) -> Path:
    """Compile a policy and return the path of the library; None: beside the source, with the ending ``.so``.

    The compiler is that of the environment variable CC (CXX for C++), else that of Python. It gets the words of CFLAGS
    (CXXFLAGS), too, and its messages go to stderr. Raises `ConfigError` for a source that is none, and
    `RdmodelError` if there is no compiler or it fails; an older library then stays.
    """
    path = Path(source)
    if path.suffix not in PLUGIN_SUFFIXES:
        raise ConfigError(f"{path}: must be a source in C, C++ or Cython ({', '.join(PLUGIN_SUFFIXES)})")
    if not path.is_file():
        raise ConfigError(f"{path}: is no file")
    library = path.with_suffix(".so") if output is None else Path(output)
    if path.suffix == ".pyx" and library.name.partition(".")[0] != path.stem:
        raise ConfigError(f"{library}: must be called {path.stem}.so, because a module in Cython knows its name")
    if not library.parent.is_dir():
        raise ConfigError(f"{library}: the folder does not exist")
    # Other processes may have loaded the old library, so the new one takes its place and does not overwrite it.
    with TemporaryDirectory(dir=library.parent, prefix=f".{library.name}.") as folder:
        translated = _translate(path, Path(folder)) if path.suffix == ".pyx" else path
        built = Path(folder, library.name)
        _run([*_compiler(path), *_arguments(path), str(translated), "-o", str(built)], "the compiler", path)
        built.replace(library)
    return library


def _compiler(source: Path) -> list[str]:
    name = "CC" if source.suffix in (".c", ".pyx") else "CXX"
    words = shlex.split(os.environ.get(name) or sysconfig.get_config_var(name) or name.lower().replace("xx", "++"))
    flags = shlex.split(os.environ.get("CFLAGS" if name == "CC" else "CXXFLAGS", ""))
    return [*words, *flags]


def _arguments(source: Path) -> list[str]:
    arguments = [*COMPILE_ARGUMENTS, f"-I{include_folder()}"]
    if source.suffix == ".pyx":
        arguments += [f"-I{sysconfig.get_path('include')}", f"-I{source.resolve().parent}", "-Wno-unused-function"]
        if sys.platform == "darwin":
            arguments += ["-undefined", "dynamic_lookup"]
    return arguments


def _translate(source: Path, folder: Path) -> Path:
    """Translate Cython to C."""
    if find_spec("Cython") is None:
        raise RdmodelError(f"{source}: needs Cython: pip install 'rdmodel[plugin]'")
    translated = folder / f"{source.stem}.c"
    packages = include_folder().parent.parent  # policy.pxd is in a package of this folder
    command = [sys.executable, "-m", "cython", "-3", f"-I{packages}", str(source.resolve()), "-o", str(translated)]
    _run(command, "Cython", source)
    return translated


def _run(command: Sequence[str], tool: str, source: Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RdmodelError(f"{command[0]}: cannot be run: {error.strerror}; name a compiler in CC") from None
    messages = (done.stderr if done.returncode == 0 else done.stderr or done.stdout).rstrip()
    if messages:
        print(messages, file=sys.stderr)
    if done.returncode != 0:
        raise RdmodelError(f"{source}: {tool} failed with status {done.returncode}; its messages are on stderr")
