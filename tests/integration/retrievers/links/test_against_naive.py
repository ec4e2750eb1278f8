"""`links` against a plain second writing of it: the same passages with the same scores on random corpora."""

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import naive_links
import pytest

from ragindex.corpus.chunking import chunk
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.types import Chunking, Document, Query, Section
from ragindex_retrievers.links.method import Links

NAMES = (
    *("New York", "New York City", "New York City Ballet", "York", "York (ship)", "York City Hall", "City of York"),
    *("Ada", "Ada Holm", "Ada Holm (film)", "Ada Holm of New York", "Holm (crater)", "Holm (island)", "The Holm"),
    *("The Who", "Who", "The Band", "Band", "Of Mice and Men", "In York", "(Untitled)", "3 Doors Down", "iPhone"),
    *("Émile Straße", "Straße", "The Walk of Ada Holm to New York City", "Walk of Ada Holm to New York City"),
)
WORDS = (
    *("river", "bridge", "harbour", "lamp", "winter", "orchard", "singer", "painter", "poem", "stone", "glass"),
    *("copper", "engine", "street", "garden", "market", "wrote", "built", "crossed", "found", "band", "walk", "city"),
    *("film", "ship", "who", "doors", "a", "the", "of", "in", "to", "was", "and", "by", "it"),
)
PATTERNS = (
    *("{name}", "{name}", "The {name}", "In {name}", "{name},", "{name}.", "({name})", "Mr {name}", "{name}s"),
    *('"{name}"', "“{lower}”", "„{lower}“", "«{lower}»", "`{lower}`", "‘{lower}’", "[{lower}]", "'{lower}'", "{lower}"),
    *("{first}", "{first}", "{upper}"),
)
QUESTIONS = (
    "What {word} did {name} {word} in {name}?",
    "{lower} {word} {word} {word}",
    "Who {word} the {word} of the {word} that {name} {word}?",
    "{word} {word} {word} {word} {word}",
    "{word} {word} {word}, {word} and {name}, {name} or {name}",
    "Where is it?",
    "Nothing zyzzyva",
)
KINDS = ("a", "b", "c")
# How many results, and the kinds that are allowed.
ASKED: Sequence[tuple[int, Sequence[str] | None]] = (*((1, None), (50, None)), *((5, ("b", "c")), (50, ("a",))))
CLOSE = 1e-6
HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
TITLED = {"confirmed_titles": 0}
UNTITLED = {"confirmed_titles": 1}
SHALLOW = {**TITLED, "depth": 3}
CHANGED: Sequence[Mapping[str, Any]] = (
    {"backward": 0},
    {"novelty_weight": 0},
    {"link_weight": 0},
    {"seeds": 0},
    {"seeds": 2},
    {"kept": 5},
    {"hops": 2},
    {"hops": 3},
    {"max_mentions": 2},
    {"max_mentions": 8},
    {"title_bonus": 0},
    {"weight": 0.5},
    {"hops": 3, "seeds": 2, "max_mentions": 12},
)
READINGS = (TITLED, SHALLOW, *({**SHALLOW, **changed} for changed in CHANGED))
WITHOUT_KEPT = {**SHALLOW, "kept": 0}
BY_CONFIRMED: Sequence[Mapping[str, Any]] = ({}, UNTITLED, {**SHALLOW, **UNTITLED})
ALL = [TITLED, *READINGS, WITHOUT_KEPT, *BY_CONFIRMED]
"""In turn of the corpus of whole documents and of that of passages; the first of both."""


def made_text(chance: random.Random) -> str:
    pieces = []
    for _ in range(chance.randint(3, 25)):
        name = chance.choice(NAMES)
        cases = {"name": name, "lower": name.lower(), "upper": name.upper(), "first": name.capitalize()}
        piece = chance.choice(PATTERNS).format(**cases)
        pieces.append(piece if chance.random() < 0.2 else chance.choice(WORDS))
        if chance.random() < 0.03:
            pieces.append(f"\n{'#' * chance.randint(1, 7)} {chance.choice(NAMES)}\n")
    return " ".join(pieces).replace(" \n", "\n").replace("\n ", "\n")


def made_documents(seed: int) -> list[Document]:
    """Documents whose names overlap; some share a title, and two hold no word that the encoder knows."""
    chance = random.Random(seed)
    numbers = list(range(chance.randint(55, 75)))
    chance.shuffle(numbers)
    documents = []
    for number in numbers:
        title = chance.choice(NAMES) if chance.random() < 0.6 else f"{chance.choice(WORDS)} {chance.choice(WORDS)}"
        text = made_text(chance)
        sections = tuple(Section(match.start(), ("Top", match[1])) for match in HEADING.finditer(text))
        documents.append(Document(f"d{number}", title, text, {"kind": chance.choice(KINDS)}, sections))
    for number in range(4):  # more have this name than mention it
        text = f"{made_text(chance)} {'of Lost Harbour' if number == 0 else ''}"
        documents.append(Document(f"h{number}", "Lost Harbour", text, {"kind": chance.choice(KINDS)}))
    documents.append(Document("only function words", "Who", "It was in the", {"kind": "a"}))
    documents.append(Document("only an unknown name", "Zyzzyva", "Zyzzyva", {"kind": "b"}))
    return documents


def made_questions(seed: int) -> list[str]:
    chance, questions = random.Random(seed), []
    for template in QUESTIONS:
        text = template
        for slot, choices in (("{word}", WORDS), ("{name}", NAMES), ("{lower}", [name.lower() for name in NAMES])):
            while slot in text:
                text = text.replace(slot, chance.choice(choices), 1)
        questions.append(text)
    return questions


class Compared:
    """A corpus with questions, and the plain writing of what they find."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.documents = made_documents(seed)
        cut = Chunking(60, 0) if seed % 2 else None  # several passages a document, or one
        self.questions = made_questions(seed)
        self.workspace = Index.open(folder, encoder="lsa", chunking=cut, create=True)
        self.workspace.add(self.documents)
        self.workspace.build(Links())
        passages = [passage for document in self.documents for passage in chunk(document, cut)]
        self.naive = cache(lambda least: naive_links.Corpus(self.workspace, self.documents, passages, least))

    def expected(
        self, question: str, k: int, kinds: Sequence[str] | None, readings: Mapping[str, Any]
    ) -> dict[str, float]:
        """All passages that are scored, best first."""
        documents = {document.id for document in self.documents if not kinds or document.metadata["kind"] in kinds}
        parameters = Links(**readings)
        naive = self.naive(parameters.confirmed_titles)
        allowed = {id for id, document in naive.documents.items() if document in documents}
        scores: dict[str, float] = naive_links.ranked(naive, question, k, allowed, parameters)
        return scores

    def find(self, k: int, kinds: Sequence[str] | None, readings: Mapping[str, Any]) -> list[dict[str, float]]:
        """For each question the k best of the real one."""
        real = Links(**readings).open(self.workspace)
        where = meta("kind", *kinds) if kinds else None
        answers = real.retrieve([Query(str(place), text, where) for place, text in enumerate(self.questions)], k)
        return [{hit.id: hit.score for hit in answer.hits} for answer in answers]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Compared]:
    return [Compared(tmp_path_factory.mktemp("naive") / "w", seed) for seed in range(2)]


@pytest.mark.parametrize("place", range(len(ALL)), ids=lambda place: str(ALL[place]))
def test_the_same_passages_with_the_same_scores(place: int, corpora: Sequence[Compared]) -> None:
    readings, compared = ALL[place], corpora[place % 2]
    for k, kinds in ASKED if place < 2 else ASKED[place // 2 % 2 :: 2]:  # all of the first, half of the others
        for text, scores in zip(compared.questions, compared.find(k, kinds, readings), strict=True):
            every, case = compared.expected(text, k, kinds, readings), (text, kinds, k)
            assert list(scores.values()) == pytest.approx(list(every.values())[:k], abs=CLOSE), case
            # Passages whose scores differ by rounding alone may be swapped.
            assert scores == pytest.approx({id: every.get(id) for id in scores}, abs=CLOSE), case


@pytest.mark.parametrize("readings", [*READINGS[1:], BY_CONFIRMED[-1]], ids=str)
def test_every_reading_makes_a_difference(readings: Mapping[str, Any], corpora: Sequence[Compared]) -> None:
    """Else the comparison says nothing of it."""
    usual, compared = SHALLOW if len(readings) > len(SHALLOW) or "depth" not in readings else TITLED, corpora[1]
    first, second = (
        [list(compared.expected(text, 1, None, given).items()) for text in compared.questions]
        for given in (readings, usual)
    )
    assert first != second
