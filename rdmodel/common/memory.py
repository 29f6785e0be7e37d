"""Bound the memory of the process: by a given size, or by a share of the machine; judge sizes before they are made.

On Linux the system refuses allocations beyond the bound, which ends a run with `MemoryError`. The bound is on data; the
pages of libraries and mapped files count with fixed sizes. Elsewhere only the judgements remain.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any

from rdmodel.errors import RdmodelError, TooLargeError

MACHINE_SHARE = 0.8
"""Share of the machine's memory that a command may take if it is given no limit."""

WINDOW_BYTES = 32 << 20
"""Bytes of a trace's mapped files that may be in memory at a time."""

SPARE_BYTES = 24 << 20
"""Memory for everything that no bound covers: pages of libraries, and the piece of a trace that is being read."""

_NO_ROOM_FOR_MODULE = ("failed to map segment", "cannot map zero-fill pages", "annot allocate memory")
"""Parts of the messages of the system's loader when it has no memory for a compiled module."""

ASSUMED_PEAK_BYTES = 64 << 20
"""Memory of the process where the system does not report it."""

LIBRARY_BYTES = 32 << 20
"""Memory that a part of SciPy takes."""

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


# ---- the machine


def machine_bytes() -> int | None:
    """Return the memory of the machine, or that of the control group of the process if it is smaller.

    None if the system reports neither.
    """
    sizes = [size for size in (_physical_bytes(), *_group_limits()) if size is not None and size > 0]
    return min(sizes, default=None)


def _physical_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None


def _group_limits() -> Iterator[int]:
    """Yield the limits of the control groups of the process and of those around them, versions 1 and 2."""
    for file in _limit_files(_PROC, _CGROUPS):
        try:
            text = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeError):
            continue
        if text.isdecimal():
            yield int(text)


@functools.lru_cache(maxsize=8)
def _limit_files(proc: Path, groups: Path) -> tuple[Path, ...]:
    """Return the files with these limits. A process rarely moves to another group, so they are looked for once."""
    try:
        rows = (proc / "self" / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    files = []
    for row in rows:
        _, _, rest = row.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root = groups / "memory" if controllers else groups
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        # In a container, the path may be that of the host: the root is then the group of the container.
        parts = [part for part in group.split("/") if part not in ("", "..")]
        files += [root.joinpath(*parts[:depth], name) for depth in range(len(parts), -1, -1)]
    return tuple(file for file in files if file.is_file())


def process_bytes(name: str) -> int:
    """Return a field of ``/proc/self/status`` in bytes; without that file, `ASSUMED_PEAK_BYTES`."""
    try:
        text = (_PROC / "self" / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ASSUMED_PEAK_BYTES
    return next((int(row.split()[1]) << 10 for row in text.splitlines() if row.startswith(f"{name}:")), 0)


# ---- the bound


def own_bytes() -> int:
    """Return the least limit for this process: its memory so far, and what no bound on its data covers."""
    return process_bytes("VmHWM") + WINDOW_BYTES + SPARE_BYTES


def data_limit(size: int) -> int:
    """Return the bound on the data of this process that holds its memory to `size` bytes."""
    return process_bytes("VmData") + max(0, size - own_bytes())


@contextmanager
def limited_data(limit: int) -> Iterator[None]:
    """Let the process allocate at most `limit` bytes of data, not counting mapped files; Linux only."""
    if not sys.platform.startswith("linux"):
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = [n for n in (limit, soft, hard) if n != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(allowed), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextmanager
def machine_share() -> Iterator[int | None]:
    """Hold the process to `MACHINE_SHARE` of the machine's memory; yield the size, or None if it is unknown."""
    machine = machine_bytes()
    if machine is None:
        yield None
        return
    size = int(MACHINE_SHARE * machine)
    with limited_data(data_limit(size)):
        yield size


def limit_worker(size: int) -> None:
    """Hold this worker process to `size` bytes of memory from now on; Linux only."""
    if sys.platform.startswith("linux"):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = process_bytes("VmData") + max(0, size - process_bytes("VmRSS"))
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error says that there is no memory left: also that of a module for which there is no room."""
    return isinstance(error, MemoryError) or (
        isinstance(error, ImportError) and any(text in str(error) for text in _NO_ROOM_FOR_MODULE)
    )


def import_library(name: str) -> Any:
    """Import a large library and return it; raise `MemoryError` if there is no room for it.

    The linear algebra within SciPy and NumPy reserves more memory than it uses, and tries again for ever if the system
    refuses it. The bound of the process is therefore lifted during the import, and raised by the unused part.
    """
    if name in sys.modules or not sys.platform.startswith("linux"):
        return import_module(name)
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft == resource.RLIM_INFINITY:
        return import_module(name)
    data, resident = process_bytes("VmData"), process_bytes("VmRSS")
    if soft - data < LIBRARY_BYTES:
        raise MemoryError
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    try:
        return import_module(name)
    finally:
        unused = process_bytes("VmData") - data - max(0, process_bytes("VmRSS") - resident)
        limit = soft + max(0, unused)
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


# ---- judgements


def room_bytes() -> int | None:
    """Return the number of bytes that this process may still allocate; None if nothing bounds it."""
    rooms = []
    machine = machine_bytes()
    if machine is not None:
        rooms.append(int(MACHINE_SHARE * machine) - process_bytes("VmRSS"))
    if sys.platform.startswith("linux"):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
        if soft != resource.RLIM_INFINITY:
            rooms.append(soft - process_bytes("VmData"))
    return max(0, min(rooms)) if rooms else None


SMALL_NEED = 1 << 24
"""Bytes up to which `require_room` does not look for room: finding it takes as long as a fifth of a short run."""

_share: ContextVar[int | None] = ContextVar("share", default=None)


@contextmanager
def memory_share(size: int) -> Iterator[None]:
    """Let `require_room` refuse whatever needs more than `size` bytes in this thread."""
    token = _share.set(size)
    try:
        yield
    finally:
        _share.reset(token)


def require_room(need: int, subject: str, advice: str, error: type[RdmodelError] = TooLargeError) -> None:
    """Raise `error` if `need` bytes exceed the memory that this process may still take, before they are allocated.

    `subject` names the field and its value, `advice` the next action besides more memory.
    """
    found = None if need <= SMALL_NEED else room_bytes()
    rooms = [room for room in (found, _share.get()) if room is not None]
    if (room := min(rooms, default=need)) < need:
        raise error(
            f"{subject}: needs about {memory_text(need)}, more than the {memory_text(room)} that are left; "
            f"{advice}, or allow more memory (--memory)"
        )


def memory_text(size: int) -> str:
    """Return a number of bytes as ``--memory`` takes it, rounded up to a tenth of its largest unit: 1.5G."""
    for unit, bits in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << bits:
            tenths = -(-10 * size // (1 << bits))
            return f"{tenths // 10}{unit}" if tenths % 10 == 0 else f"{tenths / 10:.1f}{unit}"
    return str(size)
