"""Worlds: the same bytes everywhere, one right answer to each question, and more to it than word overlap."""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world_solver import Solver

from examples import examples
from ragindex.types import Document, Triple
from ragindex_eval.data import worlds
from ragindex_eval.data.questions import DatasetQuestion
from ragindex_eval.data.worlds.draws import Draws, permutation
from ragindex_eval.data.worlds.layout import Layout, Ref
from ragindex_eval.data.worlds.naming import WorldNames

# Pinned: a world that changes is another benchmark, and nobody may tune one to flatter a method. Figures measured on
# the old ones cannot be compared with figures measured on new ones; a change belongs in
# docs/dev/evidence/figures-of-worlds.md.
PINNED = {
    (50, 0): "001e8a8fd18da33a9499f3d47daac50e7b38dbcea928d1fbbd9cd3b2e856f8ec",
    (1000, 0): "51324686e89faa7e83b3919b4ea8e5d65bfe43192559af0e1767d00de11c8ff1",
    (100, 20260101): "1c70ba3b3df424f3d9b45d115837f1c7e32f2ce3b4bf0c64eb2c9da93b0d2eb9",
}


@cache
def documents_of(size: int, seed: int) -> list[Document]:
    return list(worlds.make_documents(size, seed))


@cache
def triples_of(size: int, seed: int) -> list[tuple[str, Triple]]:
    return list(worlds.make_triples(size, seed))


@cache
def questions_of(size: int, seed: int, per_kind: int = 200) -> list[DatasetQuestion]:
    return list(worlds.make_questions(size, seed, per_kind))


def digest(values: Iterable[Any]) -> str:
    hashed = hashlib.sha256()
    for value in values:
        hashed.update(json.dumps(value, ensure_ascii=False).encode() + b"\n")
    return hashed.hexdigest()


def as_json(question: DatasetQuestion) -> list[Any]:
    assert question.gold is not None
    return [question.text, sorted(question.gold.doc_ids), list(question.gold.answers), question.gold.kind]


@pytest.mark.parametrize(("size", "seed"), PINNED)
def test_the_same_seed_gives_the_same_bytes(size: int, seed: int) -> None:
    documents = ([document.id, document.title, document.text] for document in documents_of(size, seed))
    triples = ([id, t.subject, t.predicate, t.object] for id, t in triples_of(size, seed))
    questions = map(as_json, questions_of(size, seed))
    assert digest([digest(documents), digest(triples), digest(questions)]) == PINNED[size, seed]


# ---------------------------------------------------------------- questions


@pytest.mark.parametrize(("size", "seed", "per_kind"), [(1000, 0, 200), (61, 4, 30)])
def test_every_question_has_one_answer_and_its_gold(size: int, seed: int, per_kind: int) -> None:
    solver = Solver(triples_of(size, seed))
    for question in questions_of(size, seed, per_kind):
        assert question.gold is not None
        assert solver.solve(question.text) == {(question.gold.answers[0], question.gold.doc_ids)}, question.text


def test_what_questions_are_like() -> None:
    questions = questions_of(1000, 0)
    gold = [question.gold for question in questions if question.gold is not None]
    assert Counter(question.kind for question in gold) == dict.fromkeys(worlds.QUESTION_KINDS, 200)
    assert len({question.text for question in questions}) == 1000
    sizes = {
        kind: {len(question.doc_ids) for question in gold if question.kind == kind} for kind in worlds.QUESTION_KINDS
    }
    assert sizes == {"2hop": {2}, "3hop": {3}, "4hop": {4}, "comparison": {2, 4}, "intersection": {1, 2}}
    assert not any(
        question.gold.answers[0] in question.text
        for question in questions
        if question.gold and question.gold.kind.endswith("hop")
    )
    assert {question.kind for question in gold[:20]} == set(worlds.QUESTION_KINDS)  # the order gives no kind away


def test_how_many_there_are_is_told() -> None:
    questions = questions_of(50, 0)
    counts = Counter(question.gold.kind for question in questions if question.gold)
    listed = ", ".join(f"{counts[kind]} {kind}" for kind in worlds.QUESTION_KINDS)
    assert (
        worlds.describe_shortfall(questions)
        == f"the world is too small for 200 questions of each kind: it holds {listed}"
    )
    assert all(0 < counts[kind] < 200 for kind in worlds.QUESTION_KINDS)
    assert worlds.describe_shortfall(worlds.make_questions(50, 0, 20), 20) is None


def test_accepted_forms_of_answers() -> None:
    answers = {question.gold.answers for question in questions_of(1000, 0) if question.gold}
    numbers = {" / ".join(re.sub(r"\d", "1", form) for form in forms) for forms in answers if forms[0][0].isdigit()}
    common = {"1111", "1,111 / 1111", "11,111 / 11111", "111 km / 111 kilometres / 111"}
    areas = {"1,111 square kilometres / 1111 square kilometres / 1,111 / 1111"}
    rare = {"111", "111,111 / 111111", "11 km / 11 kilometres / 11", "111 square kilometres / 111"}
    assert common | areas <= numbers <= common | areas | rare
    rivers = [forms for forms in answers if forms[0].startswith("River ")]
    assert len(rivers) > 5
    for forms in rivers:
        name = forms[0].removeprefix("River ")
        assert forms == (f"River {name}", f"the River {name}", name, f"the {name}")


# ---------------------------------------------------------------- passages


def forms(subject: str, text: str) -> list[str]:
    """How a passage may write what a triple calls `text`."""
    first, _, last = text.rpartition(" ")
    shorter = {
        text.removeprefix("River "),
        re.sub(r"^(Vale|County) of | (Plain|March)$", "", text),
        re.sub(r"^(\w+) family of", r"the \1s of", text),
        text.partition(" ")[0] + "\b",
    }
    if first.isalpha() and last.isalpha():  # somebody: by initial, by surname, a parent by the first name
        shorter |= {f"{first[0]}. {last}", last, *([first] if subject.endswith(f" {last}") else [])}
    return [text, *shorter]


def test_every_passage_states_its_triples_and_nothing_else_does() -> None:
    documents = {passage.id: passage for passage in documents_of(1000, 0)}
    stated: dict[str, int] = Counter()
    for id, triple in triples_of(1000, 0):
        document = documents[id]
        assert triple.subject == document.title
        assert document.title in document.text
        assert any(form.removesuffix("\b") in document.text for form in forms(triple.subject, triple.object)), triple
        stated[id] += 1
    assert stated.keys() == documents.keys()
    pairs = [(triple.subject, triple.predicate) for _, triple in triples_of(1000, 0)]
    assert len(set(pairs)) == len(pairs)  # a chain can go one way only


def test_short_names_stand_for_one_entity() -> None:
    documents = documents_of(1500, 1)
    titles = [document.title for document in documents]
    initials = Counter(re.sub(r"^(\w)\w+ (\w+)$", r"\1. \2", title) for title in titles)
    mentions = [name for document in documents for name in re.findall(r"\b[A-Z]\. [A-Z][a-z]+", document.text)]
    assert len(mentions) > 100
    assert {initials[name] for name in mentions} == {1}


def test_names_are_shared_in_part() -> None:
    titles = [document.title for document in documents_of(1000, 0)]
    families = defaultdict(set)
    for title in titles:
        if match := re.fullmatch(r"(\w+) family of (.+)", title):
            families[match[1]].add(match[2])
    assert len(families) < sum(map(len, families.values())) / 1.9  # a surname, two families
    first_words = Counter(word for title in titles for word in title.split())
    assert sum(first_words[word] > 1 for title in titles for word in title.split()[:1]) > 600


# ---------------------------------------------------------------- any size, any seed


@settings(max_examples=examples(8))
@given(st.integers(50, 600), st.integers(0, 2**60))
def test_any_world_is_whole(size: int, seed: int) -> None:
    documents = list(worlds.make_documents(size, seed))
    ids = {document.id for document in documents}
    assert len(documents) == len(ids) == len({document.title for document in documents}) == size
    assert ids == {f"p{number:06d}" for number in range(size)}
    assert all(40 <= len(document.text.split()) <= 120 for document in documents)
    for question in worlds.make_questions(size, seed, per_kind=5):
        assert question.gold is not None
        assert question.gold.doc_ids <= ids


def test_large_worlds_stream_and_keep_names_apart() -> None:
    first = [(document.id, document.title) for document in islice(worlds.make_documents(1_000_000), 3)]
    assert first == [("p891909", "Garlavia"), ("p769285", "Vandath March"), ("p307950", "Toulmarth Heath")]
    layout = Layout(1_000_000, 0)
    names = WorldNames(layout)
    refs = [ref for region in range(0, layout.regions, 97) for ref in layout.refs(region)]
    assert len(refs) > 10_000
    assert len({names.name(ref) for ref in refs}) == len(refs) == len({layout.doc_id(ref) for ref in refs})
    last = Ref("work", layout.regions - 1, 0)
    assert names.name(last) == "The Northern Forest at Dawn"


def test_seeds_and_sizes_make_other_worlds() -> None:
    def titles(size: int, seed: int) -> set[str]:
        return {document.title for document in documents_of(size, seed)}

    assert len(titles(200, 0) & titles(200, 1)) < 20
    assert len(titles(200, 0) & titles(300, 0)) < 200


@pytest.mark.parametrize("n", [1, 2, 3, 10, 97, 1000])
def test_permutations(n: int) -> None:
    order = permutation(n, 7, "x")
    assert sorted(order(i) for i in range(n)) == list(range(n))
    assert [order.inverse(order(i)) for i in range(n)] == list(range(n))
    with pytest.raises(IndexError, match=rf"{n} is not in \[0, {n}\)"):
        order(n)


def test_draws() -> None:
    draws = Draws(3, "die")
    counts = Counter(draws.below(6) for _ in range(6000))
    assert sorted(counts) == [0, 1, 2, 3, 4, 5]
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 20.5  # chi-squared, five degrees, p = 0.001
    assert sorted(Draws("a").shuffled(range(50))) == list(range(50)) != Draws("a").shuffled(range(50))
