"""Pages of the manual have every option of the parser, and a troff reader has nothing to say about them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rdmodel.cli.arguments import COMMANDS, command_parser
from rdmodel.cli.manual import write_pages


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    pytest.importorskip("argparse_manpage")
    return {Path(path).stem: Path(path) for path in write_pages(tmp_path_factory.mktemp("manual"))}


def test_there_is_a_page_of_each_command_with_all_its_options(pages):
    assert set(pages) == {"rdmodel", *(f"rdmodel-{name}" for name in COMMANDS)}
    for name, (_, purpose) in COMMANDS.items():
        text = pages[f"rdmodel-{name}"].read_text().replace("\\-", "-")
        assert f"rdmodel-{name} - {purpose.rstrip('.')}" in text
        assert not [option for option in {*command_parser(name).option_names()} - {"--help"} if option not in text]


def test_the_page_of_the_program_lists_the_commands_and_none_of_their_options(pages):
    text = pages["rdmodel"].read_text()
    assert not [purpose for _, purpose in COMMANDS.values() if purpose not in text.replace("\\-", "-")]
    assert "--gpu NAME" not in text.replace("\\-", "-")


def test_pages_are_written_without_numpy(tmp_path):
    program = (
        "import sys; sys.modules['numpy'] = None; from rdmodel.cli.manual import write_pages; write_pages('pages')"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    assert (tmp_path / "pages" / "rdmodel.1").is_file()


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_groff_sets_every_page_without_a_warning(pages):
    for page in pages.values():
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-K", "utf8", page], capture_output=True, check=True)
        assert not done.stderr
