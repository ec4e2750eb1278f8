"""The words that are written by hand for users: of README.md and of docs without docs/dev, in at most 40,000 words."""

import regex
from project import ROOT

MOST = 40_000
_MADE = regex.compile(r"Made (?:by|from [\w ]+ by) `python docs/make_\w+\.py`")  # a page that a script writes whole
_BLOCK = regex.compile(r"<!-- (\w+): begin -->.*?<!-- \1: end -->", regex.DOTALL)


def test_users_read_at_most_so_many_words() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = [page.read_text(encoding="utf-8") for page in pages if "dev" not in page.relative_to(ROOT).parts]
    by_hand = [text for text in texts if not _MADE.search(text[:700])]
    assert len(texts) - len(by_hand) == 8
    assert sum(len(_BLOCK.sub("", text).split()) for text in by_hand) <= MOST
