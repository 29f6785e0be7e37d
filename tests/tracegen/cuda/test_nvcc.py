"""nvcc is found among Python packages and on the machine, and compiles to PTX."""

from __future__ import annotations

import re

import pytest

from rdmodel.errors import ConfigError
from tracegen.cuda import nvcc, nvrtc
from tracegen.cuda.compiler import CompileError, compile
from tracegen.cuda.nvcc import find_nvcc

PTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a folder of programs; there is no compiler but those that a test puts there."""
    monkeypatch.setattr(nvcc, "nvidia_packages", list)
    monkeypatch.setattr(nvrtc, "load_nvrtc", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    for home in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(home, raising=False)
    return tmp_path


@pytest.fixture
def package(machine, monkeypatch):
    """Return the folder of Python packages that hold a whole compiler, which makes the same PTX of every source."""
    root = machine / "nvidia"
    for file, _ in nvcc._PARTS:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    program = root / "bin/nvcc"
    program.write_text(f"#!/bin/sh\nwhile [ $1 != -o ]; do shift; done\necho '{PTX}' > $2\n")
    program.chmod(0o755)
    monkeypatch.setattr(nvcc, "nvidia_packages", lambda: [root])
    return root


def test_missing_packages_are_named(machine, monkeypatch):
    with pytest.raises(ConfigError, match=r"nvcc: is not installed: pip install 'rdmodel\[record\]'"):
        find_nvcc()
    (machine / "bin").mkdir()
    (machine / "bin/nvcc").touch()
    monkeypatch.setattr(nvcc, "nvidia_packages", lambda: [machine])
    with pytest.raises(ConfigError, match="pip install nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime"):
        find_nvcc()


@pytest.mark.parametrize("which", ["nvcc", "auto"])
def test_the_compiler_of_the_python_packages_compiles(package, which):
    assert compile("__global__ void k() {}", compiler=which).strip() == PTX.strip()


def test_kernels_are_compiled_by_the_compiler_of_the_machine_if_there_are_two(package, machine):
    (machine / "nvcc").write_text((package / "bin/nvcc").read_text().replace("entry k", "entry other"))
    (machine / "nvcc").chmod(0o755)
    assert find_nvcc(packages_first=True) == package / "bin/nvcc"
    assert find_nvcc() == machine / "nvcc"
    assert ".entry other" in compile("__global__ void k() {}", compiler="nvcc")


def test_what_the_compiler_says_is_the_error(package):
    (package / "bin/nvcc").write_text("#!/bin/sh\necho 'kernel.cu(1): error: wrong' >&2\nexit 2\n")
    with pytest.raises(CompileError, match=r"kernel.cu\(1\): error: wrong"):
        compile("__global__ void k() {}", compiler="nvcc")


def test_a_compiler_that_is_asked_for_and_missing_is_named(machine):
    with pytest.raises(ConfigError, match="nvcc: is not installed"):
        compile("__global__ void k() {}", compiler="nvcc")
    message = "no CUDA compiler found; install one with: pip install 'rdmodel[cuda]'"
    for which in ("nvrtc", "auto"):
        with pytest.raises(ConfigError, match=re.escape(message)) as caught:
            compile("__global__ void k() {}", compiler=which)
        assert "\n" not in str(caught.value)
