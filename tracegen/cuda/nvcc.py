"""Find NVIDIA's compiler driver, and compile CUDA C++ to PTX with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rdmodel.errors import ConfigError
from tracegen.cuda.nvrtc import TOOLKIT_VARIABLES, Compilation, nvidia_packages
from tracegen.cuda.source import Source

_PARTS = (
    ("bin/nvcc", "nvidia-cuda-nvcc"),
    ("nvvm/bin/cicc", "nvidia-nvvm"),
    ("include/crt/host_config.h", "nvidia-cuda-crt"),
    ("include/cuda_runtime.h", "nvidia-cuda-runtime"),
    ("include/nv/target", "nvidia-cuda-cccl"),
)
"""A file of each Python package that the compiler consists of."""


def find_nvcc(*, packages_first: bool = False) -> Path:
    """Return the path of nvcc: that of the machine, or else that of the Python packages; `packages_first`: vice versa.

    The machine's own builds the user's programs, and releases differ in the code that they make. Raises `ConfigError`,
    which names the packages to install.
    """
    found = (not packages_first and _on_machine()) or _among_packages() or _on_machine()
    if found is None:
        packages = " ".join(package for _, package in _PARTS)
        raise ConfigError(f"nvcc: is not installed: pip install 'rdmodel[record]', or {packages}")
    return found


def installed_nvcc() -> Path | None:
    """Return the path of nvcc as `find_nvcc` does, or None if it is not installed."""
    try:
        return find_nvcc()
    except ConfigError:
        return None


def _on_machine() -> Path | None:
    homes = [os.path.join(os.environ[name], "bin") for name in TOOLKIT_VARIABLES if os.environ.get(name)]
    found = shutil.which("nvcc", path=os.pathsep.join([*homes, os.environ.get("PATH", os.defpath)]))
    return None if found is None else Path(found)


def _among_packages() -> Path | None:
    for root in nvidia_packages():
        if (root / "bin/nvcc").exists():
            missing = [package for file, package in _PARTS if not _has_part(root, file)]
            if missing:
                raise ConfigError(f"nvcc: is installed without other parts: pip install {' '.join(missing)}")
            return root / "bin/nvcc"
    return None


def _has_part(root: Path, file: str) -> bool:
    return (root / file).exists() or (file.startswith("include/nv") and (root / "include/cccl/nv/target").exists())


def compile_with_nvcc(
    source: Source,
    macros: Sequence[str],
    folders: Sequence[Path],
    options: Sequence[str],
    target: str,
    instances: Sequence[str],
) -> Compilation:
    """Compile a source for the architecture `target`; kernels with template arguments in `instances` are instantiated.

    Raises `ConfigError` as `find_nvcc` does.
    """
    program = find_nvcc()
    source_folders = [source.directory.resolve()] if source.directory else []
    with tempfile.TemporaryDirectory(prefix="rdmodel-") as folder:
        copy, result = Path(folder, "kernel.cu"), Path(folder, "kernel.ptx")
        # Taking the address of a kernel instantiates its template.
        uses = "".join(
            f"\n__attribute__((used)) static auto rdmodel_{i} = &{name};" for i, name in enumerate(instances)
        )
        copy.write_text(f'#line 1 "{source.name}"\n{source.text}{uses}\n', encoding="utf-8")
        flags = ["-ptx", f"-arch={target}", "-lineinfo", "--expt-relaxed-constexpr", "-o", str(result)]
        flags += [f"-D{macro}" for macro in macros] + [f"-I{folder}" for folder in [*source_folders, *folders]]
        process = subprocess.run([program, *flags, *options, copy], capture_output=True, text=True, check=False)
        log = (process.stdout + process.stderr).strip()
        return Compilation(result.read_text() if process.returncode == 0 else None, log, {})
