"""What holds of the offline rules for any text at all."""

import sys
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.english import (
    Extraction,
    entity_key,
    extract,
    extract_answer,
    extracting,
    find_mentions,
    normalize_text,
    sentences,
    split_sentences,
    summarise,
)
from ragindex.english.sentences import MAX_SENTENCE_LENGTH

VOCABULARY = """
The the a of in and , . ; : ( ) " ' 's - who which that whose where when after before to never not no was is made
directed by starring He She it its his they film company Ada Lund Tellin Inc. Dr. A. 1990 May 3 12% km such as well
longer born living city seat government Red Harbour Ministry Health & University 19th century 《 》 。 中文 Å
"""
prose = st.lists(st.sampled_from(VOCABULARY.split()), max_size=60).map(" ".join)
anything = st.one_of(st.text(max_size=300), prose)


@settings(max_examples=examples(100))
@given(title=st.one_of(st.just(""), anything), text=anything)
def test_extraction_of_any_text(title: str, text: str) -> None:
    extraction = extract(title, text)
    assert extract(title, text) == extraction
    keys = {entity_key(entity) for entity in extraction.entities}
    assert len(keys) == len(extraction.entities)
    for triple in extraction.triples:
        assert triple.subject.strip()
        assert triple.predicate.strip()
        assert triple.object.strip()
        assert keys & {entity_key(triple.subject), entity_key(triple.object)}
    assert len(set(extraction.triples)) == len(extraction.triples)
    for proposition in extraction.propositions:
        assert proposition.text.strip()
        assert {entity_key(entity) for entity in proposition.entities} <= keys


@settings(max_examples=examples(100))
@given(text=anything)
def test_mentions_of_any_text(text: str) -> None:
    text = normalize_text(text)
    mentions = find_mentions(text)
    assert [text[mention.start : mention.end] for mention in mentions] == [mention.text for mention in mentions]
    assert all(mention.text.strip() for mention in mentions)
    assert all(pair.end <= next.start for pair, next in pairwise(mentions))


@settings(max_examples=examples(100))
@given(text=anything)
def test_sentences_of_any_text(text: str) -> None:
    parts = split_sentences(text)
    assert "".join("".join(parts).split()) == "".join(normalize_text(text).split())
    assert all(part == part.strip() and 0 < len(part) <= MAX_SENTENCE_LENGTH for part in parts)


@settings(max_examples=examples(100))
@given(question=anything, passages=st.lists(st.tuples(anything, anything), max_size=3), most=st.integers(0, 40))
def test_answers_and_summaries_of_any_text(question: str, passages: list[tuple[str, str]], most: int) -> None:
    assert len(extract_answer(question, passages).split()) <= 6
    assert len(summarise([text for _, text in passages], most).split()) <= most


NASTY = {
    "one letter": "a",
    "capitals": "Aa ",
    "initials": "A. ",
    "open brackets": "(",
    "bracketed verbs": "( is ",
    "closed brackets": ")",
    "quotes": '"A ',
    "digits": "1,",
    "line breaks": "\n",
    "descriptions": "the film ",
    "links": "Of of ",
    "lists": "And A and B, ",
    "relatives": "that A which who ",
    "everything": "The A of B, a C, was D in 1990 (born 3 May 1950) and ",
    "Chinese sentences": "中文。",
    "Arabic": "العربية ",
    "marks": "a" + "\u0301" * 30,
    "emoji": "👩‍👩‍👧",
    "zeros": "\x00",
    "surrogates": "\ud800",
    "references": "[1",
}


@pytest.mark.parametrize("piece", NASTY.values(), ids=NASTY)
def test_work_grows_with_text_to_its_limit(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 3 * MAX_SENTENCE_LENGTH
    for module in (sentences, extracting):
        monkeypatch.setattr(module, "MAX_TEXT_LENGTH", limit)
    text = piece * (10_000 // len(piece))
    few, _ = count_calls(text[:MAX_SENTENCE_LENGTH])
    many, extraction = count_calls(text)
    assert many <= 3.2 * few
    assert extraction.notes[0] == f"Only the first {limit:,} of {len(text):,} characters were read."
    assert extraction.entities[0] == "Film"


def count_calls(text: str) -> tuple[int, Extraction]:
    """How many functions are called to extract from a text, and what is found."""
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        extraction = extract("Film", text)
    finally:
        sys.setprofile(before)
    return count, extraction
