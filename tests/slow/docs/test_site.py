"""The site of the documentation in a real browser: the questions of users find their page, and nothing is fetched."""

import runpy
import time
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from browser import BrowserPage, browsing, needs_browser
from project import ROOT

pytest.importorskip("zensical")
QUESTIONS: list[dict[str, Any]] = tomllib.loads((ROOT / "docs" / "dev" / "user_questions.toml").read_text("utf-8"))[
    "question"
]
_SHADOWED_LINKS = """(() => {
    const addresses = [];
    const walk = root => root.querySelectorAll("*").forEach(element => {
        if (element.shadowRoot) walk(element.shadowRoot);
        if (element.tagName === "A" && (element.href || "").includes("?h=")) addresses.push(element.href);
    });
    walk(document);
    return addresses;
})()"""
_SECONDS = 60.0


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the site, built from the docs as they are."""
    make_site = runpy.run_path(str(ROOT / "docs" / "make_site.py"))
    assert make_site["main"]() == 0
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=make_site["SITE"])) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserPage]:
    with browsing(tmp_path_factory.mktemp("profile")) as opened:
        opened.show(1280)
        yield opened


def search(page: BrowserPage, address: str, words: str) -> list[str]:
    """The addresses of the results of the site's search, best first, once they no longer change."""
    page.open(f"{address}/index.html")
    page.wait_for("document.querySelector('.md-search__button')")
    page.evaluate("document.querySelector('.md-search__button').click()")
    page.wait_for("document.activeElement && document.activeElement !== document.body")
    page.type(words)
    until, results, unchanged = time.monotonic() + _SECONDS, list[str](), 0
    while unchanged < 4 and time.monotonic() < until:
        time.sleep(0.5)
        shown = page.evaluate(_SHADOWED_LINKS)
        unchanged = unchanged + 1 if shown and shown == results else 0
        results = shown
    return results


@needs_browser
@pytest.mark.parametrize("question", QUESTIONS, ids=[question["words"] for question in QUESTIONS])
def test_search_finds_the_page_that_answers(page: BrowserPage, address: str, question: dict[str, Any]) -> None:
    results = [urlsplit(result).path.removeprefix("/") for result in search(page, address, question["words"])]
    assert question["page"] in list(dict.fromkeys(results))[:3]


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_fits_and_fetches_nothing_from_elsewhere(
    page: BrowserPage, address: str, width: int, dark: bool, tmp_path: Path
) -> None:
    page.show(width, dark=dark, phone=width < 500)
    page.open(f"{address}/docs/reference/table-of-a-comparison.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    hosts = {urlsplit(url).netloc for url in page.requested if urlsplit(url).scheme in ("http", "https")}
    assert hosts == {urlsplit(address).netloc}
