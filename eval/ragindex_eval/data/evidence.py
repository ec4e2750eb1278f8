"""Evidence: the places in documents that answer a question, as quotes or offsets in a file of questions.

Gold documents say which documents answer a question; evidence says where. Whether a passage has it can be compared
over any chunking.
"""

from collections.abc import Iterable, Mapping

import regex

from ragindex._util.ids import find_spelling
from ragindex.corpus.json_reader import Item
from ragindex.types import Document
from ragindex_eval.data.gold import EvidencePlace

_OFFSETS = regex.compile(r"(?P<document>.+):(?P<start>[0-9]{1,9})-(?P<end>[0-9]{1,9})", regex.DOTALL)
_WORD = regex.compile(r"\S+")


def find_evidence(
    written: Iterable[str], doc_ids: Iterable[str], documents: Mapping[str, Document], item: Item
) -> tuple[EvidencePlace, ...]:
    """Return the places that quotes and offsets name.

    A quote is a text that stands once in the gold documents `doc_ids`, whatever white space stands between its words.
    Offsets are `DOCUMENT:START-END`, in characters of a gold document's text. Raises DataError otherwise.
    """
    gold = {id: documents[id] for id in sorted(doc_ids) if id in documents}
    return tuple(_find_place(quote.strip(), gold, item) for quote in written if quote.strip())


def _find_place(quote: str, gold: Mapping[str, Document], item: Item) -> EvidencePlace:
    offsets = _OFFSETS.fullmatch(quote)
    id = offsets and find_spelling(offsets["document"], gold)
    if offsets is not None and id is not None:
        document, start, end = gold[id], int(offsets["start"]), int(offsets["end"])
        if not document.text[start:end].strip() or end > len(document.text):
            raise item.error(f"evidence inside the {len(document.text)} characters of {document.id!r}", repr(quote))
        return _mark_words(document, start, end)
    pattern = regex.compile(r"\s+".join(map(regex.escape, quote.split())))
    matches = [(document, match) for document in gold.values() for match in pattern.finditer(document.text)]
    if len(matches) != 1:
        counted = (
            f"{quote[:80]!r}, which stands there {len(matches)} times" if matches else f"{quote[:80]!r}, which is not"
        )
        raise item.error("evidence that stands once in a gold document of the question", counted)
    return _mark_words(matches[0][0], *matches[0][1].span())


def _mark_words(document: Document, start: int, end: int) -> EvidencePlace:
    return EvidencePlace(document.id, tuple(match.span() for match in _WORD.finditer(document.text, start, end)))
