"""List the tests that take long: `python -m tests.support.durations REPORT.xml`, after `pytest --junitxml=REPORT.xml`.

The list, tests/slow_tests.txt, has the tests that get the marker `slow` beside those that carry it in the source.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from tests.support.paths import ROOT

SLOW_TESTS = ROOT / "tests" / "slow_tests.txt"

SLOW_SECONDS = 0.25
"""Seconds that a test function takes with all its parameters, from which on it is listed."""


def listed_tests() -> frozenset[str]:
    """Return the listed tests as ``path::function``."""
    return frozenset(SLOW_TESTS.read_text().split())


def slow_tests(report: Path) -> list[str]:
    """Return the slow tests of a JUnit report as ``path::function``, in order."""
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        module, *classes = re.split(r"\.(?=Test)", case.attrib["classname"])
        path = module.replace(".", "/") + ".py"
        function = case.attrib["name"].partition("[")[0]
        seconds["::".join([path, *classes, function])] += float(case.attrib["time"])
    return sorted(test for test, taken in seconds.items() if taken >= SLOW_SECONDS)


if __name__ == "__main__":
    SLOW_TESTS.write_text("".join(f"{test}\n" for test in slow_tests(Path(sys.argv[1]))))
