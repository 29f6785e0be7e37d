"""The example of docs/policies.md, "How to add a policy", in both machines: what it says is all that is needed."""

from __future__ import annotations

import re

import numpy as np

import rdmodel as rd
import tracegen
from rdmodel.policies import POLICIES
from rdmodel.reference.machine.choice import THROTTLES
from tests.support.engine_checks import check
from tests.support.paths import ROOT
from tests.support.random_machines import Mix, random_blocks, random_gpu

PAGE = ROOT / "docs" / "policies.md"


def test_the_policy_of_the_example_does_the_same_in_both_machines():
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## How to add a policy") : page.index("## What is left out")]
    prompts = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", section, flags=re.M)
    names = {"rd": rd, "traces": [tracegen.kernel("atax.1", NX=64, NY=64)]}
    source = "\n".join(line for line in prompts if not line.startswith("del "))
    before = dict(POLICIES), dict(THROTTLES)
    try:
        exec(compile(source, str(PAGE), "exec"), names)
        for seed in range(20):
            random = np.random.default_rng(seed)
            blocks = random_blocks(random, 4, 4, Mix(most=12))
            check(random, random_gpu(random), blocks, 2, 1, None, (names["Solo"](),))
    finally:
        for registry, held in zip((POLICIES, THROTTLES), before, strict=True):
            registry.clear()
            registry.update(held)
