"""The programs of docs/integrations.md that need packages of extras, run from files: compilers read their source."""

from __future__ import annotations

import re
import runpy

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "docs/integrations.md").read_text()
PROGRAM = re.compile(r"^```py\n(.*?)^```$", re.M | re.S)
IMPORTS = "import numpy as np\nimport rdmodel as rd\n\n"


def programs(heading: str) -> list[str]:
    """Return the programs of a section, from the first one that makes a trace."""
    section = PAGE[PAGE.index(f"\n## {heading}\n") :]
    found = PROGRAM.findall(section[: section.find("\n## ", 1)])
    first = next(at for at, text in enumerate(found) if "import trace" in text)
    return found[first:]


@pytest.mark.parametrize(
    ("heading", "packages", "printed"),
    [
        ("Triton", ["triton", "torch"], ["add_kernel on a100-80g", "add_kernel on h100"]),
        ("Numba", ["numba.cuda"], ["row_sums"]),
        ("Warp", ["warp"], ["advance"]),
    ],
)
def test_the_programs_of_a_section_run_without_a_gpu(heading, packages, printed, tmp_path, capfd):
    for package in packages:
        pytest.importorskip(package)
    program = tmp_path / "program.py"
    program.write_text(IMPORTS + "\n".join(programs(heading)))
    runpy.run_path(str(program))
    out = capfd.readouterr().out
    assert all(text in out for text in printed), out
    assert out.count("L1 miss rate") >= len(printed)
