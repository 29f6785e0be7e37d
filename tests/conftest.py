"""What tests share: settings of hypothesis for people's machines, and the command line as a function.

On people's machines there are no deadlines, since no test asserts a time. Under CI hypothesis' own settings hold.
"""

import os

import pytest
from hypothesis import settings

from rdmodel.cli import main

if not os.environ.get("CI"):
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")


@pytest.fixture
def run(capsys):
    """Run a command: arguments in; exit status, standard output and standard error out."""

    def call(*argv: str) -> tuple[int, str, str]:
        try:
            status = main(list(argv))
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        return status, out, err

    return call
