"""The report as a real browser shows it. Skipped where there is none."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from browser import BROWSER, needs_browser
from made_comparisons import make_comparison

from ragindex.types import Query, Step
from ragindex_eval.report import page
from ragindex_eval.results.model import Comparison, MethodAnswer, SavedHit, Study

pytestmark = needs_browser

WIDTHS = (360, 1280)
DARK, LIGHT = 0, 1  # Chromium's own numbers
ATTACK = (
    "</title></style></svg><script>document.title='run'</script><img src=/stolen onerror=\"document.title='run'\">"
    "<svg onload=\"document.title='run'\"></svg>" + "W" * 300
)
# Opens the report at both widths and writes down what it finds: the sizes of the pages, whether anything ran, colours.
WRAPPER = """<!doctype html><body><script>
const found = [];
for (const width of %s) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.onload = () => {
    const inside = frame.contentDocument, root = inside.documentElement;
    inside.querySelectorAll("details").forEach(one => one.open = true);
    const style = frame.contentWindow.getComputedStyle(inside.body);
    const small = [...inside.querySelectorAll(".plot text")].map(one => one.getBoundingClientRect().height);
    found.push({width, scroll: root.scrollWidth, title: inside.title, background: style.backgroundColor,
      ink: style.color, plots: inside.querySelectorAll(".plot").length, text: Math.min(...small),
      ran: inside.querySelectorAll("script, img, iframe").length});
    document.title = JSON.stringify(found);
  };
  frame.src = "report.html";
  document.body.append(frame);
}
</script>"""


class Handler(SimpleHTTPRequestHandler):
    paths: list[str]

    def __init__(self, *arguments: Any, paths: list[str], **named: Any) -> None:
        self.paths = paths
        super().__init__(*arguments, **named)

    def log_message(self, format: str, *arguments: Any) -> None:
        self.paths.append(self.path)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The folder at an address, and the paths that were asked for."""
    paths: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder), paths=paths)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", paths
        finally:
            server.shutdown()
            thread.join()


def seen(study: Study, folder: Path, scheme: int) -> tuple[list[dict[str, Any]], list[str]]:
    """What the browser found at each width, and what it asked the server for."""
    (folder / "report.html").write_text(page.render_report(study), encoding="utf-8")
    (folder / "wrapper.html").write_text(WRAPPER % json.dumps(WIDTHS), encoding="utf-8")
    with served(folder) as (address, paths):
        done = subprocess.run(
            [
                str(BROWSER),
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                f"--user-data-dir={folder / f'profile-{scheme}'}",
                f"--blink-settings=preferredColorScheme={scheme}",
                "--virtual-time-budget=10000",
                "--dump-dom",
                f"{address}/wrapper.html",
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    title = done.stdout.partition("<title>")[2].partition("</title>")[0]
    return sorted(json.loads(unescape(title)), key=lambda measurement: measurement["width"]), paths


def attacked() -> Study:
    """Methods with hostile labels, wide tables, long words, steps and errors, with gold and without."""
    labels = [f"{ATTACK}{number}" for number in range(9)]
    recalls = {label: [1.0] * (2 * at + 3) + [0.0] * (30 - 2 * at) for at, label in enumerate(labels)}
    times = {label: [1.0 + at] * 33 for at, label in enumerate(labels)}
    kinds = ["2hop"] * 20 + ["3hop"] * 13
    judged = _with_text(make_comparison(recalls, times, kinds=kinds, name=ATTACK, ks=(5, 10)))
    bare = _with_text(make_comparison({label: [] for label in labels}, times, name="no gold"))
    return Study(ATTACK, (judged, bare), ATTACK)


def _with_text(comparison: Comparison) -> Comparison:
    step = Step(1, ATTACK, ATTACK, (ATTACK,))
    answer = MethodAnswer("q1", (SavedHit(ATTACK, (ATTACK,), 0.5, ATTACK, ATTACK),), None, (step,), (ATTACK,))
    methods = tuple(
        replace(method, answers={k: (answer, *answers[1:]) for k, answers in method.answers.items()})
        for method in comparison.methods
    )
    queries = tuple(Query(query.id, ATTACK) for query in comparison.queries)
    return replace(comparison, methods=methods, queries=queries, notes=(ATTACK,), encoder=ATTACK)


@pytest.mark.parametrize(
    ("scheme", "background", "ink"),
    [(LIGHT, "rgb(255, 255, 255)", "rgb(27, 31, 35)"), (DARK, "rgb(20, 23, 26)", "rgb(228, 231, 234)")],
)
def test_the_page_fits_a_phone_and_a_desk_and_runs_nothing(
    tmp_path: Path, scheme: int, background: str, ink: str
) -> None:
    widths, paths = seen(attacked(), tmp_path, scheme)
    assert [entry["width"] for entry in widths] == list(WIDTHS)
    for measurement in widths:
        assert measurement["scroll"] <= measurement["width"], "the page scrolls sideways"
        assert measurement["title"].endswith("a comparison of retrievers")
        assert (measurement["ran"], measurement["plots"]) == (0, 5)
        assert (measurement["background"], measurement["ink"]) == (background, ink)
        assert measurement["text"] >= 9.0, "text in a plot is too small to read"
    assert sorted(set(paths) - {"/favicon.ico"}) == ["/report.html", "/wrapper.html"]
