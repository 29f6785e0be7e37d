"""Pip installs a wheel made from the source distribution, and it works without the checkout."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = [pytest.mark.build, pytest.mark.xdist_group("packaging")]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    # Through the source distribution, as a stranger's pip would; its file list must not owe anything to the checkout.
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def test_the_source_distribution_holds_sources_and_no_generated_code(built):
    with tarfile.open(built[0]) as archive:
        names = [Path(name) for name in archive.getnames()]
    assert {"_tree.pyx", "_model.pyx", "_trc.pyx", "LICENSE", "py.typed", "gtx470-16k.toml"} <= {n.name for n in names}
    assert not [name for name in names if name.suffix == ".so"]
    # Written by hand.
    assert {name.name for name in names if name.suffix == ".c"} == {"client.c", "entry.c", "feedback.c"}
    assert any("fuzzing" in name.parts and name.name == "launch.toml" for name in names)


def test_the_wheel_holds_compiled_modules_types_and_presets_and_no_generated_code(built):
    with zipfile.ZipFile(built[1]) as archive:
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
        "rdmodel/service/schema.json",
        "rdmodel/reports/style.css",
    } <= set(names)
    assert not [name for name in names if name.endswith(".c") or name.startswith("tests/")]


def test_the_wheel_works_in_a_fresh_environment(built, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", built[1]], check=True, capture_output=True)
    done = subprocess.run(
        [tmp_path / "env" / "bin" / "rdmodel", "predict", "atax.1", "--param", "NX=64", "--param", "NY=64"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "L1 miss rate" in done.stdout
