"""What tests share: settings of hypothesis for people's machines, an empty cache, and the command line as a function.

On people's machines there are no deadlines, since no test asserts a time. Under CI hypothesis' own settings hold.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from rdmodel.cli import main

if not os.environ.get("CI"):
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")


@pytest.fixture(autouse=True, scope="session")
def no_answers_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no test find, or leave, answers in the cache of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RDMODEL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


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
