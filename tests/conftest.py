"""Configure the tests: hypothesis without deadlines, an empty answers file, and the command line as a function.

No test asserts a time, so that deadlines would only report a slow machine. The profiles add to the one that hypothesis
has chosen, which under CI draws the same examples in every run.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

import pytest
from hypothesis import settings

from rdmodel.cli import main

pytest.register_assert_rewrite("tests.support")  # its checks report values as those of test files do

settings.register_profile("few", deadline=None, max_examples=25)
settings.register_profile("many", deadline=None, max_examples=400)  # --hypothesis-profile=many
settings.load_profile("few")

# Shells ignore interrupts for commands in the background, and nohup hangups. So would the processes that tests signal.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker process more than there are cores, since many tests wait for processes that they start."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import the test files in another order in each worker process of a whole run.

    All workers need all files, and the first to import one stores its byte code, with rewritten assertions, for the
    others. In the same order they would all do that for every file at the same time.
    """
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is None or config.option.file_or_dir:
        return
    folder = config.rootpath / "tests"
    files = sorted(folder.rglob("test_*.py"))
    at = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in [*files[at:], *files[:at]]:
        # Collection reports the files that cannot be imported or skip themselves.
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that are listed as slow."""
    from tests.support.durations import listed_tests  # after its assertions were registered

    slow = listed_tests()
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker("slow")


@pytest.fixture(autouse=True, scope="session")
def no_answers_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the tests an empty cache directory, so that they neither read nor change the user's answers file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RDMODEL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def run(capsys):
    """Return a function that runs a command and returns its exit status, standard output and standard error."""

    def call(*argv: str) -> tuple[int, str, str]:
        try:
            status = main(list(argv))
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        return status, out, err

    return call
