"""Load NVRTC, whose package may not say where its companion library is, and call it in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tracegen.cuda import nvrtc

LIBRARY = """
#include <dlfcn.h>
const char *nvrtcGetErrorString(int status) { return "no companion"; }
int nvrtcVersion(int *major, int *minor) {
  *major = 9, *minor = 1;
  return dlopen("libnvrtc-builtins.so.rdmodel", RTLD_NOW) == 0;
}
"""


def build(folder, name, text):
    """Build a shared library with gcc, and return its path."""
    path = folder / name
    command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-xc", "-", "-o", str(path), "-ldl"]
    subprocess.run(command, input=text.encode(), check=True)
    return str(path)


def test_a_library_finds_the_companion_that_lies_beside_it(tmp_path):
    library = build(tmp_path, "libnvrtc.so.rdmodel", LIBRARY)
    with pytest.raises(OSError, match="no companion"):
        nvrtc.open_library(library).version()
    build(tmp_path, "libnvrtc-builtins.so.rdmodel", "int builtins;")
    assert nvrtc.open_library(library).version() == (9, 1)


@pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
def test_the_script_of_the_compiling_process_needs_the_standard_library_alone():
    library = next(map(str, nvrtc.library_candidates()))
    request = json.dumps([library, 'extern "C" __global__ void k() {}', "k.cu", {}, [], []])
    command = [sys.executable, "-I", "-S", nvrtc.__file__]
    ptx, *_ = json.loads(subprocess.run(command, input=request.encode(), capture_output=True, check=True).stdout)
    assert ".entry k" in ptx
