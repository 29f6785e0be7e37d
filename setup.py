"""Compiled extensions and their directives; everything else about the package is in pyproject.toml.

RDMODEL_CHECKED=1 builds with bounds checks and live assertions; RDMODEL_SANITIZE=1 builds for AddressSanitizer;
RDMODEL_OPTIMIZE=0 builds quickly, for tests of the packaging.
"""

import os
import sys

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.install import install

CHECKED = os.environ.get("RDMODEL_CHECKED", "0") not in ("", "0")
SANITIZE = os.environ.get("RDMODEL_SANITIZE", "0") not in ("", "0")
OPTIMIZE = os.environ.get("RDMODEL_OPTIMIZE", "3")

MODULES = ["rdmodel._tree", "tracegen._addresses"]
for package, names in {
    "rdmodel.trace": ("_banks", "_coalesce", "_truncation"),
    "rdmodel.reuse": ("_shards",),
    "rdmodel.model": (
        "_core",
        "_generators",
        "_paper",
        "_hardware",
        "_fast",
        "_listed",
        "_scheduled",
        "_l2",
        "_pending",
    ),
    "rdmodel.simulator": (
        "_network",
        "_sectored_network",
        "_partitioned_network",
        "_hinting_network",
        "_loadstore",
        "_plugins",
        "_admission",
        "_sectored_loadstore",
        "_reorder",
        "_residency",
        "_prediction",
        "_scheduling",
        "_block_issue",
        "_inspection",
        "_feeding",
        "_engine",
    ),
    "rdmodel.locality_analysis": ("_locality",),
    "tracegen.formats": ("_trc", "_plain", "_line_groups", "_nvbit", "_ppt", "_accelsim", "_accelsim_out"),
    "tracegen.formats.ordering": ("_gather",),
    "tracegen.simt": ("_block_moves", "_scoreboard"),
    "tracegen.ptx.isa": ("_code",),
    "tracegen.ptx.emulator": (
        "_integers",
        "_floats",
        "_access",
        "_places",
        "_log",
        "_events",
        "_warp",
        "_poison",
        "_tensor_map",
        "_texture",
        "_mbarrier",
        "_registers",
        "_threads",
        "_control_steps",
        "_arithmetic_steps",
        "_memory_steps",
        "_texture_steps",
        "_barrier_steps",
        "_bulk_copy_steps",
        "_emulator",
    ),
}.items():
    MODULES += [f"{package}.{name}" for name in names]

SHARED = "rdmodel._cython"
"""Cython's own code for memoryviews, compiled once for all modules; its C source is generated."""

# Debug symbols double the time to compile, and make the modules ten times as large.
compile_args = [f"-O{OPTIMIZE}", "-g0", "-fno-strict-aliasing"]
link_args = []
if SANITIZE:
    compile_args = ["-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined"]
    link_args = ["-fsanitize=address,undefined"]


HEADERS = {"rdmodel.simulator.": "rdmodel/plugins", "rdmodel.model.": "rdmodel/model"}
"""Folders with headers in C, by the modules that include them."""


def extension(name: str, source: str, more_args: tuple[str, ...] = ()) -> Extension:
    """Return the extension module `name`, made from one source."""
    return Extension(
        name,
        [source],
        include_dirs=[folder for room, folder in HEADERS.items() if name.startswith(room)],
        extra_compile_args=[*compile_args, *more_args],
        extra_link_args=link_args,
        define_macros=[] if CHECKED else [("CYTHON_WITHOUT_ASSERTIONS", "1")],
    )


# These two do nothing in a loop, and would take a fifth of the whole time to compile.
RARELY_RUN = ("-O1",) if OPTIMIZE == "3" else ()

extensions = [extension(SHARED, SHARED.replace(".", "/") + ".c", RARELY_RUN)]
# Neighbouring fields that were written one by one and are read at once wait for each other.
ONE_BY_ONE = ("-fno-tree-slp-vectorize",)

MORE_ARGS = {
    "tracegen.ptx.isa._code": RARELY_RUN,
    "rdmodel.model._listed": ONE_BY_ONE,
    "rdmodel.model._scheduled": ONE_BY_ONE,
}
MORE_ARGS |= dict.fromkeys((name for name in MODULES if name.startswith("rdmodel.simulator.")), ONE_BY_ONE)
extensions += [extension(name, name.replace(".", "/") + ".pyx", MORE_ARGS.get(name, ())) for name in MODULES]

# Neither translation nor compilation of a module waits for another module.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class TranslateAndCompile(build_ext):
    """Translate the modules to C, then compile them; a source distribution or metadata needs neither."""

    def finalize_options(self) -> None:
        """Put the translated extensions in the place of those that the set-up names."""
        self.distribution.ext_modules = cythonize(
            extensions,
            nthreads=CORES if CORES > 1 else 0,
            compiler_directives={
                "language_level": 3,
                "boundscheck": CHECKED,
                "wraparound": False,
                "cdivision": True,
                "initializedcheck": CHECKED,
                "overflowcheck": False,
                "embedsignature": True,
            },
            force=CHECKED or SANITIZE,
            shared_utility_qualified_name=SHARED,
        )
        super().finalize_options()


class InstallWithManual(install):
    """Install the pages of the manual, too, which come from the argument parser. A wheel holds what this installs."""

    def finalize_options(self) -> None:
        """Write the pages, and name them as data files."""
        super().finalize_options()
        if not self.distribution.data_files:
            sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
            from rdmodel.cli.manual import write_pages

            folder = os.path.join(self.get_finalized_command("build").build_base, "manual")
            self.distribution.data_files = [("share/man/man1", write_pages(folder))]


setup(
    cmdclass={"build_ext": TranslateAndCompile, "install": InstallWithManual},
    options={"build_ext": {"parallel": CORES}},
    ext_modules=extensions,
)
