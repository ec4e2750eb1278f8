"""GRIEVER against a plain second writing of it: the same passages with the same scores, whichever way it is read."""

import random
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import naive_griever
import pytest
from made_extractions import imported, openie, spelt

from ragindex.plugins import registry
from ragindex.types import Document, Query

PEOPLE = ["Ada Holm", "Boris Holm", "Ada Ketch", "Clara Ketch", "Boris Vries", "Clara Vries", "Edda Holm"]
PLACES = ["Port Arnhem", "New Arnhem", "Port Bruges", "New Bruges", "Old Arnhem"]
RIVERS = ["Upper Leie", "Lower Leie", "Upper Tajo", "Lower Tajo"]
WORKS = ["Golden Harvest", "Winter Harvest", "Golden Orchard", "Winter Quarrel", "Silent Orchard", "Silent Quarrel"]
OTHER_NAMES = {"Ada Holm": "Lady Byron", "Clara Vries": "Northern Lady", "Old Arnhem": "New Krupp"}
TRIPLES = (
    ("lived quietly near", PEOPLE, PLACES),
    ("lived happily in", PEOPLE, PLACES),
    ("secretly married", PEOPLE, PEOPLE),
    ("secretly wrote", PEOPLE, WORKS),
    ("happily painted", PEOPLE, WORKS),
    ("flows quietly through", RIVERS, PLACES),
    ("painted portrait of", PEOPLE, PEOPLE),
)
QUESTIONS = (
    "Where lived the woman who secretly wrote {work}?",
    "Which river flows through the city where {person} lived happily?",
    "Who married the author whose book {work} was painted for {person}?",
    "Who happily painted the work that {person} wrote?",
    "In {place}, where the {river} flows quietly, which painter lived who married {person}?",
    "Whom did the man who lived quietly near {place} marry?",
    "Nobody knows what it meant?",
    "Who's the painter that the author who secretly wrote {work} married?",
)
CLOSE = 1e-5
SEED, K = 2, 5
READINGS: Sequence[Mapping[str, Any]] = (
    {},
    {"iterations": 1},
    {"iterations": 3},
    {"split": False},
    {"combine": "subgraph"},
    {"iterations": 3, "combine": "subgraph"},
    {"triple_score": "question"},
    {"rewrite": False},
    {"rewrite_order": "entity"},
    {"same_as": "none"},
    {"t_max": 3, "join": "all"},
    {"predicate_score": "query"},
    {"frequency": "objects"},
    {"frequency": "triples"},
    {"iterations": 3, "keep_prefixes": False},
    {"t_max": 3},
    {"retrieval_weight": 0},
    {"retrieval_weight": 0.4},
    {"iterations": 3, "retrieval_score": "query"},
)


def made_up(seed: int) -> list[Document]:
    """Documents of 2 to 4 triples over few names, some stated twice; some say that a name has another, some nothing."""
    chance = random.Random(seed)

    def name(names: Sequence[str]) -> str:
        chosen = chance.choice(names)
        return OTHER_NAMES[chosen] if chosen in OTHER_NAMES and chance.random() < 0.4 else chosen

    def line() -> str:
        predicate, subjects, objects = chance.choice(TRIPLES)
        return f"{name(subjects)}|{predicate}|{name(objects)}"

    documents = [spelt(f"d{number}", *(line() for _ in range(chance.randint(2, 4)))) for number in range(27)]
    for number, (known_name, other) in enumerate(OTHER_NAMES.items()):
        documents.append(spelt(f"alias{number}", f"{known_name}|is also known as|{other}", line()))
        documents.append(spelt(f"bare{number}", f"Nobody knows what {known_name} meant to {chance.choice(PLACES)}."))
    return documents


def make_questions(seed: int) -> list[str]:
    chance = random.Random(seed)
    known = {"person": [*PEOPLE, *OTHER_NAMES.values()], "place": PLACES, "river": RIVERS, "work": WORKS}
    return [
        template.format(**{name: chance.choice(values) for name, values in known.items()}) for template in QUESTIONS
    ]


def read_off(document: Document) -> list[tuple[str, str, str]]:
    lines = [line.split("|") for line in document.text.splitlines() if "|" in line]
    return [(subject, predicate, object) for subject, predicate, object in lines]


class Compared:
    """A corpus with questions, and what the naive writing answers: each once, for several tests."""

    def __init__(self, folder: Path) -> None:
        documents = made_up(SEED)
        self.workspace = imported(folder / "w", openie(folder / "f.json", documents), documents)
        self.workspace.build(registry.scheme("griever"), registry.scheme("dense"))
        self.triples = {document.id: read_off(document) for document in documents}
        self.questions = make_questions(SEED)
        self._expected: dict[tuple[str, int], list[dict[str, float]]] = {}
        self._corpora: dict[str, naive_griever.Corpus] = {}

    def expected(self, readings: Mapping[str, Any], k: int = K) -> list[dict[str, float]]:
        """For each question all passages with their scores, best first."""
        if (str(readings), k) not in self._expected:
            read = naive_griever.Readings(**readings)
            if read.same_as not in self._corpora:
                self._corpora[read.same_as] = naive_griever.Corpus(self.workspace, self.triples, read)
            corpus = copy(self._corpora[read.same_as])  # shares what was searched and matched
            corpus.readings = read
            self._expected[str(readings), k] = [dict(naive_griever.ranked(corpus, text, k)) for text in self.questions]
        return self._expected[str(readings), k]

    def find(self, readings: Mapping[str, Any], k: int) -> list[dict[str, float]]:
        """For each question the k best passages of the real one."""
        real = registry.scheme({"name": "griever", "params": dict(readings)}).open(self.workspace)
        answers = real.retrieve([Query(str(place), text) for place, text in enumerate(self.questions)], k)
        return [{hit.id: hit.score for hit in answer.hits} for answer in answers]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return Compared(tmp_path_factory.mktemp("naive"))


@pytest.mark.parametrize(("readings", "k"), [({}, 2), *((readings, K) for readings in READINGS)], ids=str)
def test_the_same_passages_with_the_same_scores(readings: Mapping[str, Any], k: int, compared: Compared) -> None:
    answers = zip(compared.questions, compared.find(readings, k), compared.expected(readings, k), strict=True)
    for text, scores, every in answers:
        best = list(every.values())[:k]
        assert list(scores.values()) == pytest.approx(best, abs=CLOSE), (text, scores, every)
        assert scores == pytest.approx({id: every.get(id) for id in scores}, abs=CLOSE), (
            text
        )  # equal ones may be swapped


@pytest.mark.parametrize("readings", READINGS[1:], ids=str)
def test_every_reading_makes_a_difference(readings: Mapping[str, Any], compared: Compared) -> None:
    """Else the comparison says nothing of it."""
    usual = dict(list(readings.items())[:-1])
    assert compared.expected(readings) != compared.expected(usual)


def test_what_there_is_to_compare(compared: Compared) -> None:
    """Passages that no triple was scored of, and others; some of them found under a rewritten question only."""
    every = [score for scores in compared.expected({"retrieval_weight": 0}) for score in scores.values()]
    assert {score < -1 for score in every} == {True, False}
    assert compared.expected({})[0].keys() != compared.expected({"rewrite": False})[0].keys()
