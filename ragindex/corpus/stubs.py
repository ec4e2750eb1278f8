"""Stubs: pages that only say where their content is now. By their titles they rank before the pages they point to."""

from collections.abc import Sequence

import regex

from ragindex._util.text import first_names
from ragindex.corpus.readers.content import FileContent

_MOST_WORDS = 80
"""A longer page has content of its own, whatever it says of other content."""
_MOST_OTHER_WORDS = 12
"""Words beside the sentences of a stub, such as a heading, "New location:" or a name."""
_WHAT = (
    r"(?:page|article|document(?:ation)?|content|guide|file|section|chapter|tutorial|topic|readme|docs|manual|pep)s?"
)
_GONE = r"(?:has|have|had|was|were|is|are)(?:\s+now)?(?:\s+been)?(?:\s+permanently)?\s+(?:moved|relocated|redirected)"
_MOVED = regex.compile(
    rf"\bthis\s+(?:\w+\s+){{0,3}}?{_WHAT}\b(?:\s+\w+){{0,4}}?\s+(?:{_GONE}|redirects)\b"
    rf"|\bthe\s+(?:\w+\s+){{0,3}}?{_WHAT}\s+(?:on|of|in|from)\s+this\s+{_WHAT}\s+{_GONE}\b"
    rf"|\bthe\s+(?:\w+\s+){{0,3}}?(?:docs|documentation)\b[^.!?]{{0,60}}?\s{_GONE}\b"
    rf"|\A\W*(?:{_WHAT}\s+)?(?:moved(?:\s+permanently)?|relocated|redirect(?:ing|ed|s)?)\s*(?:to\b|:|→|->|\.\.\.|…|\Z)"
    r"|\A\W*#redirect\b|\byou\s+(?:are|will\s+be)\s+(?:being\s+)?redirected\b|\bif\s+you\s+are\s+not\s+redirected\b",
    regex.IGNORECASE,
)
_PLACE = regex.compile(r"https?://|www\.|(?<=\S)\.(?:md|rst|html?|adoc|txt)\b|(?<=\S)/\S")
"""An address or a path, which says where the content is now."""
_POINTER = regex.compile(
    r"\A\W*(?:please\s+)?(?:see|visit|go\s+to|refer\s+to|use|update|check|click|continue|follow|read|find)\b"
    r"|\A\W*(?:the|their|its)\s+new\s+(?:location|page|address|home)|\A\W*(?:you|it|they)\s+can\s+(?:now\s+)?(?:be\s+)?f"
    r"|\A\W*(?:this|the\s+old)\s+(?:stub|page|file|location|link)\b.*\b(?:removed|kept|deprecated|deleted)",
    regex.IGNORECASE | regex.DOTALL,
)
_SEE_ALSO = regex.compile(r"^\W*see also\b", regex.IGNORECASE | regex.MULTILINE)
_SENTENCE_END = regex.compile(r"(?<=[.!?…])\s+|\n\s*\n")
_WORD = regex.compile(r"\w+")


def is_stub(content: FileContent) -> bool:
    r"""Return whether all that a file says is where its content is now.

    Example:
        assert is_stub(FileContent("Tags", "Tags\n\nThis page has moved to playbook_tags."))
    """
    text = _SEE_ALSO.split(content.text)[0]
    if content.inner or content.blocks or len(text) > 20 * _MOST_WORDS or len(_WORD.findall(text)) > _MOST_WORDS:
        return False
    headings = {heading for section in content.sections for heading in section.headings} | {content.title}
    sentences = [part.strip() for part in _SENTENCE_END.split(text)]
    body = [part for part in sentences if part and part.strip("#=*-~^ \n") not in headings]
    moved = [part for part in body if _MOVED.search(part)]
    others = [part for part in body if part not in moved and not _is_pointer(part)]
    return bool(moved) and sum(len(_WORD.findall(part)) for part in others) <= _MOST_OTHER_WORDS


def _is_pointer(sentence: str) -> bool:
    return _POINTER.search(sentence) is not None or _PLACE.search(sentence) is not None


def describe_stubs(names: Sequence[str]) -> str:
    """Return a sentence on stubs that were read."""
    only = "page only says" if len(names) == 1 else "pages only say"
    return (
        f"{len(names):,} {only} where the content is now, and may rank before it: {first_names(names)}. "
        "To leave such pages out: --skip-stubs"
    )
