"""The site of the documentation builds, its links resolve, and a browser shows it without a network."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support.browser import PHONE, open_browser, show
from tests.support.paths import ROOT

pytestmark = [pytest.mark.build, pytest.mark.filterwarnings("ignore::ResourceWarning")]

MOST_SCROLLED_PIXELS = 60
"""How far a table of options may be scrolled on a phone."""


@pytest.fixture
def build_tools() -> None:
    for package in ("furo", "myst_parser", "sphinx_copybutton", "latex2mathml"):
        pytest.importorskip(package)


@pytest.mark.usefixtures("build_tools")
def test_the_site_builds_without_warnings_and_its_links_resolve(tmp_path):
    build(tmp_path)
    check_links(tmp_path)


@pytest.mark.usefixtures("build_tools")
def test_a_phone_shows_the_site_without_a_network(tmp_path):
    with open_browser() as browser, serve(tmp_path) as address:
        build(tmp_path)
        (tmp_path / "favicon.ico").touch()  # browsers ask for it
        check_pages(browser, address)
        check_formulas(browser, address)
        check_tables_of_options(browser, address)
        check_copied_commands(browser, address)


def build(site: Path) -> None:
    # Every page would have the entries of all objects beside it, which takes as long as to read them. Typographic
    # quotes break no link.
    options = ["-q", "-W", "--keep-going", "-b", "html", "-D", "toc_object_entries=0", "-D", "smartquotes=0"]
    argv = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(site)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def check_links(site: Path) -> None:
    """Check that links within the site lead to a file, and to an element of that page."""
    idents = {page: set(re.findall(r' id="([^"]+)"', page.read_text())) for page in site.glob("*.html")}
    for page in idents:
        text = re.sub(r"<script.*?</script>", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r'<a [^>]*href="([^"]+)"', text):
            path, _, ident = unquote(link).partition("#")
            if ":" in path:
                continue
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), (page.name, link)
            if ident and target in idents:
                assert ident in idents[target], (page.name, link)


@functools.cache
def handler(site: Path) -> type[SimpleHTTPRequestHandler]:
    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(site))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class serve:
    """Serve a folder on the loopback: only such a page may use the clipboard."""

    def __init__(self, site: Path) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(site))

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def check_pages(browser, address: str) -> None:
    """Check that pages are as wide as the window, and fetch nothing from elsewhere."""
    fetched = "return performance.getEntriesByType('resource').map(one => one.name)"
    for name in ("index", "commands", "model", "gpus", "report"):
        show(browser, f"{address}/{name}.html", PHONE)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE
        assert not [one for one in browser.execute_script(fetched) if not one.startswith((address, "data:"))]


def check_formulas(browser, address: str) -> None:
    show(browser, f"{address}/model.html", PHONE)
    sizes = "return [...document.querySelectorAll('math')].map(one => one.getBoundingClientRect().width)"
    widths = browser.execute_script(sizes)
    assert len(widths) > 50
    assert min(widths) > 0
    assert "\\" not in browser.execute_script("return [...document.querySelectorAll('math')].map(m => m.textContent)")


def check_tables_of_options(browser, address: str) -> None:
    show(browser, f"{address}/commands.html", PHONE)
    scrolled = """
      return [...document.querySelectorAll('article table')].filter(table => table.textContent.includes('meaning'))
        .map(table => table.scrollWidth - table.parentElement.clientWidth)
    """
    most = browser.execute_script(scrolled)
    assert len(most) > 10
    assert max(most) <= MOST_SCROLLED_PIXELS


def check_copied_commands(browser, address: str) -> None:
    """Check that a copied session is what was typed, without prompts and output."""
    show(browser, f"{address}/report.html", PHONE)
    browser.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    copied = []
    actions = pytest.importorskip("selenium.webdriver").ActionChains
    for button in browser.find_elements("css selector", "button.copybtn"):
        browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", button)
        actions(browser).move_to_element(button).click().perform()
        copied.append(browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])"))
    assert copied[0] == ("rdmodel report atax.1 bicg.1 --param NX=512 --param NY=512 --l2 --simulate -o report.html")
    assert copied[1].startswith("import rdmodel as rd\nimport tracegen\n")
    assert not [text for text in copied if text.startswith(("$", ">>>"))]
