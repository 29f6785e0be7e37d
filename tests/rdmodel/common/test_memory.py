"""Test the size of the machine as the process may use it, and judgements of sizes before they are made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rdmodel.common import memory
from rdmodel.errors import ConfigError, TooLargeError, TraceError

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits data")
GB = 1 << 30


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Return a function that sets up control groups: the rows of the process, and the limits by path."""

    def make(rows: str, limits: dict[str, str], physical: int | None = 64 * GB) -> None:
        (tmp_path / "proc" / "self").mkdir(parents=True)
        (tmp_path / "proc" / "self" / "cgroup").write_text(rows)
        for path, text in limits.items():
            (tmp_path / "groups" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "groups" / path).write_text(text)
        monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
        monkeypatch.setattr(memory, "_CGROUPS", tmp_path / "groups")
        monkeypatch.setattr(memory, "_physical_bytes", lambda: physical)

    return make


@pytest.mark.parametrize(
    ("rows", "limits", "expected"),
    [
        ("0::/\n", {}, 64),
        ("0::/\n", {"memory.max": f"{4 * GB}\n"}, 4),
        ("0::/\n", {"memory.max": "max\n"}, 64),
        ("0::/\n", {"memory.max": f"{400 * GB}\n"}, 64),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{3 * GB}\n"}, 3),
        ("0::/a/b\n", {"a/b/memory.max": f"{2 * GB}\n", "a/memory.max": f"{3 * GB}\n"}, 2),
        ("0::/../host/x\n", {"memory.max": f"{5 * GB}\n"}, 5),
        ("4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": f"{6 * GB}\n"}, 6),
        ("3:cpu:/a\n", {"cpu/a/memory.limit_in_bytes": f"{6 * GB}\n"}, 64),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 64),
        ("junk\n", {"memory.max": "junk"}, 64),
    ],
)
def test_the_machine_is_as_large_as_its_smallest_control_group(system, rows, limits, expected):
    system(rows, limits)
    assert memory.machine_bytes() == expected * GB


def test_a_machine_that_reports_nothing_has_no_size_and_refuses_nothing(system, monkeypatch):
    system("", {}, physical=None)
    assert memory.machine_bytes() is None
    with memory.machine_share() as size:
        assert size is None
    memory.require_room(1 << 60, "x=1", "use less")


def test_a_size_beyond_the_room_is_refused_with_its_need_the_room_and_an_advice(monkeypatch):
    monkeypatch.setattr(memory, "room_bytes", lambda: 100 << 20)
    memory.require_room(100 << 20, "N=5", "use a smaller N")
    message = r"^N=5: needs about 1\.5G, more than the 100M that are left; use a smaller N, or allow more memory"
    for error in (ConfigError, TraceError):
        with pytest.raises(error, match=message):
            memory.require_room(3 << 29, "N=5", "use a smaller N", error)


def test_small_needs_are_held_against_the_share_of_a_thread_only(monkeypatch):
    monkeypatch.setattr(memory, "room_bytes", lambda: pytest.fail("it looked for room"))
    memory.require_room(memory.SMALL_NEED, "N=5", "use a smaller N")
    with memory.memory_share(1 << 20), pytest.raises(TooLargeError, match="needs about 16M, more than the 1M"):
        memory.require_room(memory.SMALL_NEED, "N=5", "use a smaller N")


@LINUX
def test_a_library_loads_under_a_bound_in_which_its_reserved_memory_does_not_fit():
    """Without care, the import of scipy.special never ends in 60 MB: it asks for memory again and again."""
    code = """
import resource
from rdmodel.cli import predict_command
from rdmodel.common import memory
bound = memory.process_bytes("VmData") + (60 << 20)
with memory.limited_data(bound):
    memory.import_library("scipy.special")
    grown = resource.getrlimit(resource.RLIMIT_DATA)[0]
    assert bound <= grown <= bound + (400 << 20), (bound, grown)
with memory.limited_data(memory.process_bytes("VmData") + (1 << 20)):
    try:
        memory.import_library("scipy.sparse")
    except MemoryError:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("refused\n", "")
