"""Run NVIDIA's compiler driver so that its programs can be recorded: linked dynamically, with readable PTX in them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tracegen.cuda.nvcc import find_nvcc
from tracegen.recording.libraries import DRIVER, stand_ins

_REMOVED = {
    "cudaThreadSynchronize": "cudaDeviceSynchronize",
    "cudaThreadExit": "cudaDeviceReset",
    "cudaThreadSetCacheConfig": "cudaDeviceSetCacheConfig",
    "cudaThreadGetCacheConfig": "cudaDeviceGetCacheConfig",
    "cudaThreadSetLimit": "cudaDeviceSetLimit",
    "cudaThreadGetLimit": "cudaDeviceGetLimit",
}
"""Functions that CUDA 13 removed, and the present names of the same functions."""

_ARCHITECTURE = re.compile(r"\b(sm|compute|lto)_(\d+)([af]?)\b")
_CODE = re.compile(r"arch=(compute_\d+[af]?),code=(?:\[?)([\w,]+)")


def run_nvcc(arguments: Sequence[str]) -> int:
    """Run nvcc with more options, and return its exit status; raises `ConfigError` as `find_nvcc` does."""
    nvcc = find_nvcc(packages_first=True)
    return subprocess.run([str(nvcc), *nvcc_arguments(nvcc, arguments)], check=False).returncode


def nvcc_arguments(nvcc: Path, arguments: Sequence[str]) -> list[str]:
    """Return the options for a program that can be recorded.

    The runtime is linked dynamically, and PTX is embedded without compression. Architectures that this nvcc no longer
    supports are replaced by its oldest one, and functions that only have a new name get it.
    """
    supported, release = _supported(nvcc), _release(nvcc)
    changed = [_renewed(argument, supported) for argument in arguments]
    added = ["--no-compress"]
    if not any(argument.lstrip("-").startswith("cudart") for argument in arguments):
        added += ["-cudart", "shared"]
    added += _ptx_options(changed)
    if release[0] >= 13:
        added += [f"-D{old}={new}" for old, new in _REMOVED.items()]
    links = _link_folder(release)
    return [*changed, *added, f"-L{links}", "-Xlinker", f"-rpath-link={links.parent}"]


def _supported(nvcc: Path) -> list[int]:
    done = subprocess.run([str(nvcc), "--list-gpu-arch"], capture_output=True, text=True, check=False)
    return sorted(int(number) for number in re.findall(r"compute_(\d+)", done.stdout))


def _renewed(argument: str, supported: Sequence[int]) -> str:
    def renew(found: re.Match[str]) -> str:
        old = supported and int(found[2]) < supported[0]
        return f"{found[1]}_{supported[0]}" if old else found[0]

    return _ARCHITECTURE.sub(renew, argument) if not os.path.exists(argument) else argument


def _ptx_options(arguments: Sequence[str]) -> list[str]:
    """Return options that embed PTX for the architectures that are compiled to machine code only."""
    codes = [found for argument in arguments for found in _CODE.findall(argument)]
    if not codes or any("compute_" in code for _, code in codes):
        return []
    return [
        word for arch in dict.fromkeys(arch for arch, _ in codes) for word in ("-gencode", f"arch={arch},code={arch}")
    ]


def _release(nvcc: Path) -> tuple[int, int]:
    done = subprocess.run([str(nvcc), "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"release (\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else (13, 0)


def _link_folder(release: tuple[int, int]) -> Path:
    """Return a folder with the libraries to link with, by the names that linkers look for."""
    version = f"{release[0]}" if release[0] >= 12 else "11.0" if release[0] == 11 else f"{release[0]}.{release[1]}"
    folder = stand_ins([f"libcudart.so.{version}"])
    links = folder / f"link-{version}"
    links.mkdir(exist_ok=True)
    for name, target in (("libcudart.so", f"libcudart.so.{version}"), ("libcuda.so", DRIVER)):
        with suppress(FileExistsError):
            (links / name).symlink_to(folder / target)
    return links
