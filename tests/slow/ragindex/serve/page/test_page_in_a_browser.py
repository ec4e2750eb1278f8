"""The page in a real browser: asked and judged by keyboard, on a phone and a desk. Skipped where there is none."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import BrowserPage, browsing, needs_browser
from served import RunningServer, build_index, serving

import ragindex
from ragindex.corpus.judgements import JudgedQuestion, add_judgement, question_id, read_judgements
from ragindex.serve.keys import load_keyring

pytestmark = needs_browser

JUDGE = "judge-key-0123456789abcdef"
QUESTION = "When was the lighthouse built?"
ATTACK = "</p></article><script>stolen=1</script><img src=/stolen onerror='stolen=1'><svg onload='stolen=1'></svg>"
DOCUMENTS = [
    ragindex.Document(
        "first", "Lighthouse", "The lighthouse was built in 1856. It was built of stone, and is a lighthouse."
    ),
    ragindex.Document("second", ATTACK + "W" * 300, f"Lighthouse. {ATTACK}", {"url": "javascript:stolen=1"}),
    ragindex.Document("third", "Ferry", "The ferry takes twenty minutes."),
]
PAINTED = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_index(tmp_path_factory.mktemp("page") / "docs", ("bm25", "hybrid"), DOCUMENTS)


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningServer]:
    monkeypatch.setenv("RAGINDEX_JUDGE_KEY", JUDGE)
    with serving(f"docs={folder}", methods=("bm25", "hybrid"), keys=load_keyring(None, ["docs"])) as running:
        yield running


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserPage]:
    with browsing(tmp_path_factory.mktemp("profile")) as browser_page:
        yield browser_page


def ask(page: BrowserPage, server: RunningServer) -> None:
    page.logged.clear()
    page.requested.clear()
    page.open(f"{server.url}/")
    page.wait_for("document.querySelectorAll('#methods input').length === 2")
    page.evaluate("document.getElementById('question').focus()")
    page.type(QUESTION)
    page.press("Enter")
    page.wait_for("document.getElementById('status').textContent === '2 methods answered.'")


def give_key(page: BrowserPage) -> None:
    page.evaluate("document.getElementById('keys').open = true; document.getElementById('judge-key').focus()")
    page.type(JUDGE)
    page.press("Enter")
    page.wait_for("document.body.classList.contains('may-judge')")


def test_a_question_is_asked_and_hits_are_judged_by_keyboard(page: BrowserPage, server: RunningServer) -> None:
    page.show(1280)
    ask(page, server)
    give_key(page)
    page.evaluate("document.querySelector('li.hit[tabindex=\"0\"]').focus()")
    focused = "document.activeElement.closest('article').dataset.method + ' ' + document.activeElement.dataset.document"
    assert page.evaluate(focused) == "bm25 first"
    page.press("y")
    page.wait_for("document.getElementById('status').textContent === 'Saved: yes, for Lighthouse.'")
    page.press("ArrowRight")
    page.press("ArrowDown")
    assert page.evaluate(focused) == "hybrid second"
    page.press("n")
    page.wait_for("document.getElementById('status').textContent.startsWith('Saved: no, for </p>')")
    page.press("/")
    assert page.evaluate("document.activeElement.id") == "question"

    judgements = read_judgements(server.service.collections["docs"].spec.folder / "judgements")
    assert judgements == {question_id(QUESTION): JudgedQuestion(QUESTION, {"first": 2, "second": 0})}
    pressed = "[...document.querySelectorAll('[aria-pressed=true]')].map(one => one.closest('li').dataset.document)"
    assert page.evaluate(pressed) == ["first", "second", "first", "second"]
    assert page.evaluate("document.querySelectorAll('figure .node.hit.grade-2').length") == 1


def test_saved_judgements_are_shown_again_and_a_link_holds_the_question(
    page: BrowserPage, server: RunningServer
) -> None:
    folder = server.service.collections["docs"].spec.folder / "judgements"
    add_judgement(folder, QUESTION, "third", 1)
    ask(page, server)
    address = page.evaluate("location.href")
    page.open(address.replace("/#", "/?loaded=again#"))
    page.wait_for("document.getElementById('status').textContent === 'Press Ask.'")  # a link alone costs nothing
    assert page.evaluate("document.getElementById('question').value") == QUESTION
    assert page.evaluate("document.querySelectorAll('li.hit').length") == 0
    give_key(page)
    page.press("Tab")
    page.evaluate("document.getElementById('ask').requestSubmit()")
    page.wait_for("document.querySelector('li.hit[data-document=third].grade-1')")


def test_documents_run_nothing_and_nothing_is_fetched_from_elsewhere(page: BrowserPage, server: RunningServer) -> None:
    ask(page, server)
    assert page.evaluate("typeof stolen") == "undefined"
    assert page.evaluate("document.querySelectorAll('#found script, #found img, #found a').length") == 0
    assert page.evaluate("document.querySelectorAll('li.hit')[1].textContent.includes('<script>stolen=1</script>')")
    assert page.logged == []
    outside = [url for url in page.requested if not url.startswith((server.url, "data:", "about:"))]
    assert outside == []
    assert f"{server.url}/stolen" not in page.requested


def test_the_policy_stops_handlers_and_scripts(page: BrowserPage, server: RunningServer) -> None:
    ask(page, server)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p id=\"put\" onclick=\"ran = 1\">x</p>')")
    page.evaluate("document.getElementById('put').click()")
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'ran = 1'}))")
    assert page.evaluate("typeof ran") == "undefined"
    assert len([line for line in page.logged if "Content Security Policy" in line]) == 2


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize(
    ("dark", "colours"),
    [(False, ["rgb(255, 255, 255)", "rgb(27, 31, 35)"]), (True, ["rgb(20, 23, 26)", "rgb(228, 231, 234)"])],
)
def test_the_page_fits_a_phone_and_a_desk_in_light_and_dark(
    page: BrowserPage, server: RunningServer, width: int, dark: bool, colours: list[str]
) -> None:
    page.show(width, dark=dark, phone=width < 500)
    ask(page, server)
    give_key(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    assert page.evaluate(PAINTED) == colours
    assert (
        page.evaluate("Math.min(...[...document.querySelectorAll('svg text')].map(one => one.getBBox().height))") >= 11
    )
    least = 38 if width < 500 else 28  # fingers need larger targets than a mouse
    heights = "[...document.querySelectorAll('[data-grade]')].map(one => one.getBoundingClientRect().height)"
    assert page.evaluate(f"Math.min(...{heights})") >= least
