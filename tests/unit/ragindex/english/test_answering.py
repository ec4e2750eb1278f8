"""Summaries, answers and nearest triples by rule."""

import pytest

from ragindex.english import extract_answer, nearest_texts, nearest_triples, overlaps, summarise
from ragindex.types import Triple

FERRY = (
    "Velm Ferry",
    "Velm Ferry is a ferry built by Tellin Shipyard in May 1990. It carries 250 passengers. "
    "It is named after Mia Holt. It sails from Oslo to Kiel.",
)
LUND = ("Ada Lund", "Ada Lund (born 3 May 1950) is a painter. She lives in Bergen. She never left Norway.")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who is Velm Ferry named after?", "Mia Holt"),
        ("When was Velm Ferry built?", "May 1990"),
        ("In which year was Velm Ferry built?", "1990"),
        ("How many passengers does Velm Ferry carry?", "250"),
        ("Where does Ada Lund live?", "Bergen"),
        ("Which shipyard built Velm Ferry?", "Tellin Shipyard"),
        ("When was Ada Lund born?", "3 May 1950"),
        ("Is Ada Lund a painter?", "yes"),
        ("Is Ada Lund a composer of operas?", "no"),
        ("Did Ada Lund ever leave Norway?", "no"),
        ("Which is a painter, Ada Lund or Velm Ferry?", "Ada Lund"),
        ("Who composed the quartet?", ""),
        ("", ""),
    ],
)
def test_answers(question: str, expected: str) -> None:
    assert extract_answer(question, [FERRY, LUND]) == expected


def test_there_is_no_answer_without_passages() -> None:
    assert extract_answer("Who is Ada Lund?", []) == ""


def test_answers_have_at_most_six_words() -> None:
    passage = ("Salt", 'Salt was followed by "The Long and Winding Way to the Quay" in Norway.')
    assert extract_answer("Which album followed Salt?", [passage]) == "The Long and Winding Way to"


# ---------------------------------------------------------------- nearest

TRIPLES = [
    Triple("Velm Ferry", "was built by", "Tellin Shipyard"),
    Triple("Velm Ferry", "sails to", "Kiel"),
    Triple("Ada Lund", "lives in", "Bergen"),
    Triple("Ada Lund", "painted", "Kiel"),
]


def test_nearest_triples_share_the_rarest_words() -> None:
    assert nearest_triples("Who built Velm Ferry?", TRIPLES, 3) == [TRIPLES[0], TRIPLES[1]]
    assert nearest_triples("What did Ada Lund paint?", TRIPLES, 1) == [TRIPLES[3]]
    assert nearest_triples("What is a quartet?", TRIPLES, 3) == []
    assert nearest_triples("Kiel?", [], 3) == []


def test_nearest_takes_a_triple_once_and_equals_in_their_order() -> None:
    assert nearest_triples("Ferry Lund", [TRIPLES[2], TRIPLES[1], TRIPLES[2]], 5) == [TRIPLES[2], TRIPLES[1]]
    assert nearest_texts("b", ["a b", "b c", "c d"], 5) == ["a b", "b c"]


def test_overlap_is_the_cosine_of_weighted_sets() -> None:
    # "red" is in both of two texts, ln 2; "sea" and "sky" in one each, ln 3
    assert overlaps("red sea", ["red sea", "red sky"]) == pytest.approx([1.0, 0.6931 / (0.6931 + 1.0986)], abs=1e-4)
    assert overlaps("", ["red sea"]) == [0.0]
    assert overlaps("red", []) == []


# ---------------------------------------------------------------- summaries


def test_a_summary_holds_what_is_said_most_and_then_something_else() -> None:
    texts = [
        "Ferries sail from Oslo harbour. The weather was mild yesterday. Ferries sail to Kiel harbour.",
        "Ferries sail from Oslo harbour. A painter lives alone.",
    ]
    assert summarise(texts, 5) == "Ferries sail to Kiel harbour."
    assert summarise(texts, 10) == "The weather was mild yesterday. Ferries sail to Kiel harbour."
    assert summarise(texts, 100) == (
        "Ferries sail from Oslo harbour. The weather was mild yesterday. Ferries sail to Kiel harbour. "
        "A painter lives alone."
    )


def test_a_summary_keeps_to_its_words() -> None:
    assert summarise(["One two three four five six seven."], 3) == "One two three"
    assert summarise(["One two three."], 0) == ""
    assert summarise([], 10) == ""
    assert summarise(["", " \n"], 10) == ""
