"""Pip installs a wheel made from the source distribution, and it works without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from setuptools import Distribution

from rdmodel.cli.arguments import COMMANDS
from tests.support.paths import ROOT

pytestmark = pytest.mark.build

COMPILED_AGAIN = ROOT / "rdmodel" / "trace"


# One test, since several would build the package in several worker processes.
def test_the_package_holds_what_it_should_and_works_without_the_checkout(tmp_path):
    sdist, wheel = build(tmp_path / "dist")
    check_source_distribution(sdist)
    check_wheel(wheel)
    check_installation(wheel, tmp_path)


def build(out: Path) -> tuple[Path, Path]:
    # Through the source distribution, as a stranger's pip would; its file list must not owe anything to the checkout.
    # Without isolation: the installation of the checkout has shown that pyproject.toml names all that a build needs.
    run_build(ROOT, "--sdist", out)
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        # Python 3.11 has filters since 3.11.4; later ones warn without.
        filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(out.parent / "unpacked", **filters)
    (unpacked,) = (out.parent / "unpacked").iterdir()
    check_sources(unpacked)
    reuse_translations(unpacked)
    run_build(unpacked, "--wheel", out)
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def check_sources(unpacked: Path) -> None:
    """Check that a source distribution has everything that the modules are translated from."""
    for package in ("rdmodel", "tracegen"):
        for kind in ("*.pyx", "*.pxd"):
            names = {path.relative_to(ROOT) for path in (ROOT / package).rglob(kind)}
            assert names == {path.relative_to(unpacked) for path in (unpacked / package).rglob(kind)}


def reuse_translations(unpacked: Path) -> None:
    """Copy the C sources that the installation of the checkout has made from the same files, and most modules.

    Modules of one folder are compiled again: they import each other, and the shared code for memoryviews.
    """
    command = Distribution().get_command_obj("build")
    command.ensure_finalized()
    for package in ("rdmodel", "tracegen"):
        for path in (ROOT / package).rglob("*.c"):
            shutil.copy(path, unpacked / path.relative_to(ROOT))
        for path in (ROOT / package).rglob("*.so"):
            if path.parent != COMPILED_AGAIN:
                compiled = unpacked / command.build_platlib / path.relative_to(ROOT)
                compiled.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, compiled)


def run_build(source: Path, kind: str, out: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", str(out), str(source)],
        env={**os.environ, "RDMODEL_OPTIMIZE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def check_source_distribution(sdist: Path) -> None:
    """Check that the source distribution holds sources and no generated code."""
    with tarfile.open(sdist) as archive:
        names = [Path(name) for name in archive.getnames()]
    assert {"_tree.pyx", "_hardware.pyx", "_trc.pyx", "LICENSE", "py.typed", "gtx470-16k.toml"} <= {
        n.name for n in names
    }
    assert not [name for name in names if name.suffix == ".so"]
    # Written by hand.
    assert {name.name for name in names if name.suffix == ".c"} == {
        "client.c", "entry.c", "feedback.c", "core.c", "driver.c", "graphs.c", "properties.c", "runtime.c",
        "runtime_arrays.c", "runtime_graphs.c", "runtime_memory.c", "runtime_streams.c", "tensor_maps.c", "chaos.c",
        "chaos_throttling.c", "lru.c", "oldest.c",
    }  # fmt: skip
    assert any("fuzzing" in name.parts and name.name == "launch.toml" for name in names)


def check_wheel(wheel: Path) -> None:
    """Check that the wheel holds compiled modules, types and presets, and no generated code."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    sources = [
        path.relative_to(ROOT) for package in ("rdmodel", "tracegen") for path in (ROOT / package).rglob("*.pyx")
    ]
    for source in sources:
        assert any(name.startswith(str(source.with_suffix("")) + ".") and name.endswith(".so") for name in names), (
            source
        )
        assert str(source.with_suffix(".pyi")) in names
    assert {
        "rdmodel/py.typed",
        "tracegen/py.typed",
        "rdmodel/presets/gtx570-16k.toml",
        "rdmodel/results/expected_errors.toml",
        "rdmodel/service/schema.json",
        "rdmodel/reports/style.css",
        "rdmodel/plugins/rdmodel_policy.h",
        "rdmodel/plugins/policy.pxd",
    } <= set(names)
    pages = {name.rpartition("/")[2] for name in names if ".data/data/share/man/man1/" in name}
    assert pages == {"rdmodel.1", *(f"rdmodel-{name}.1" for name in COMMANDS)}
    written_by_hand = "tracegen/recording/stub/"
    assert not [name for name in names if name.endswith(".c") and not name.startswith(written_by_hand)]
    assert not [name for name in names if name.startswith("tests/")]


def check_installation(wheel: Path, tmp_path: Path) -> None:
    """Check that the wheel works in a fresh environment."""
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, "install", "-q", "--no-deps", wheel], env=alone, check=True, capture_output=True)
    # The requirements come from the environment of the tests. Its own .pth files, and so the checkout, are not read.
    (environment,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (environment / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    done = subprocess.run(
        [tmp_path / "env" / "bin" / "rdmodel", "predict", "atax.1", "--param", "NX=64", "--param", "NY=64"],
        cwd=tmp_path,
        env=alone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "L1 miss rate" in done.stdout
    where = subprocess.run(
        [python, "-c", "import rdmodel; print(rdmodel.__file__)"],
        cwd=tmp_path,
        env=alone,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(where.stdout.strip()).is_relative_to(environment)


def test_type_checkers_find_an_editable_install(tmp_path):
    command = [sys.executable, "-m", "mypy", "--follow-imports=skip", "-c", "import rdmodel, tracegen"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (0, "Success: no issues found in 1 source file\n")
