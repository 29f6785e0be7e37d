"""The compiler gets the options without which a program cannot be recorded."""

from __future__ import annotations

import pytest

from tracegen.cuda import nvcc
from tracegen.recording.nvcc import nvcc_arguments, run_nvcc


@pytest.fixture
def compiler(tmp_path):
    """Return a program that answers questions about the compiler, and otherwise prints its arguments."""
    path = tmp_path / "nvcc"
    path.write_text(
        '#!/bin/sh\ncase "$1" in --list-gpu-arch) echo compute_75; echo compute_90;; '
        '--version) echo "Cuda compilation tools, release 13.1, V13.1.2";; *) echo "$@"; exit 7;; esac\n'
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("given", "has", "lacks"),
    [
        (["-O2", "a.cu"], ["-O2", "a.cu", "--no-compress", "-cudart", "shared"], ["-gencode"]),
        (["a.cu", "-cudart", "none"], ["-cudart", "none"], ["shared"]),
        (["-arch=sm_35"], ["-arch=sm_75"], ["-arch=sm_35"]),
        (["-gencode", "arch=compute_90,code=sm_90"], ["-gencode", "arch=compute_90,code=compute_90"], []),
        (["-gencode", "arch=compute_90,code=[sm_90,compute_90]"], [], ["arch=compute_90,code=compute_90"]),
        ([], ["-DcudaThreadSynchronize=cudaDeviceSynchronize"], []),
    ],
)
def test_the_options_of_a_recordable_program_are_added(compiler, given, has, lacks):
    options = nvcc_arguments(compiler, given)
    assert [word for word in has if word not in options] == []
    assert [word for word in lacks if word in options] == []
    folder = next(word for word in options if word.startswith("-L"))
    assert folder.endswith("link-13")


def test_the_status_of_the_compiler_is_returned(compiler, monkeypatch, capfd):
    monkeypatch.setattr(nvcc, "nvidia_packages", list)
    monkeypatch.setenv("CUDA_HOME", "")
    monkeypatch.setenv("PATH", f"{compiler.parent}:/usr/bin:/bin")
    assert run_nvcc(["app.cu", "-o", "app"]) == 7
    assert capfd.readouterr().out.startswith("app.cu -o app --no-compress -cudart shared")
