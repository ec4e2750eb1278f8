"""Diverse Triple Beam Search: by hand, and against Algorithm 1 written down line by line."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.parts.records import Integers
from ragindex.types import Triple
from ragindex_retrievers.gear.beams import NOTHING, Beams, Search, flatten, search_beams
from ragindex_retrievers.gear.space import DIGITS, Record

EXACT = Search(scoring="exact")


@dataclass(frozen=True)
class Listed:
    """Triples in a list: the place of each is its index. Neighbours by trying all pairs."""

    triples: Sequence[Triple]
    table: np.ndarray
    question: np.ndarray

    def of_passages(self, passage_ids: Sequence[str]) -> Integers:
        raise NotImplementedError

    def of_ids(self, triple_ids: Sequence[str]) -> Integers:
        raise NotImplementedError

    def around(self, triples: Integers, limit: int) -> list[Integers]:
        return [np.array(self.near(int(place))[:limit], np.int64) for place in triples]

    def near(self, place: int) -> list[int]:
        sides = {self.triples[place].subject, self.triples[place].object}
        shared = [n for n, triple in enumerate(self.triples) if n != place and sides & {triple.subject, triple.object}]
        return sorted((n for n in shared if self.table[n].any()), key=lambda n: (-self.cosine(self.table[n]), n))

    def vectors(self, triples: Integers) -> np.ndarray:
        return self.table[triples]

    def records(self, triples: Sequence[int]) -> list[Record]:
        return [Record(str(n), self.triples[n], text(self.triples[n]), f"p{n}") for n in triples]

    def cosine(self, vector: np.ndarray) -> float:
        return float(np.round(vector @ self.question, DIGITS))


def text(triple: Triple) -> str:
    return f"{triple.subject} {triple.predicate} {triple.object}"


def encode(texts: Sequence[str]) -> np.ndarray:
    """Words as directions, by their checksums: texts that share words are near each other."""
    rows = np.zeros((len(texts), 8), np.float32)
    for row, wording in zip(rows, texts, strict=True):
        for word in wording.split():
            row[zlib.crc32(word.encode()) % 8] += 1 + zlib.crc32(word.encode()) % 7
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def listed(triples: Sequence[Triple], question: str = "who is q") -> Listed:
    vectors = encode([text(triple) for triple in triples] or ["nothing"]).astype(np.float64)
    return Listed(triples, vectors, encode([question])[0].astype(np.float64))


def algorithm_1(space: Listed, initial: Sequence[int], b: int, length: int, gamma: float, most: int = 100):  # type: ignore[no-untyped-def]
    def score(chain: list[int]) -> float:
        return space.cosine(encode([" ".join(text(space.triples[n]) for n in chain)])[0].astype(np.float64))

    beams = [(space.cosine(space.table[t]), [t]) for t in dict.fromkeys(initial)]
    beams = sorted(beams, key=lambda beam: -beam[0])[:b]
    for _ in range(length - 1):
        following = []
        for s, chain in beams:
            extended = []
            for t in space.near(chain[-1])[:most]:
                if any(t in other for _, other in beams):
                    continue
                extended.append((s + score([*chain, t]), [*chain, t]))
            extended.sort(key=lambda beam: -beam[0])
            for n, (value, longer) in enumerate(extended):
                following.append((value * math.exp(-min(n, gamma) / gamma), longer))
        if not following:
            return beams
        beams = sorted(following, key=lambda beam: -beam[0])[:b]
    return beams


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f", "g"])
TRIPLES = st.lists(st.builds(Triple, NAMES, st.sampled_from(["is", "has", "q"]), NAMES), min_size=1, max_size=14)


@settings(max_examples=examples(150))
@given(TRIPLES, st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(1, 6), st.data())
def test_as_written_down_in_the_paper(
    triples: list[Triple], b: int, length: int, gamma: int, most: int, data: st.DataObject
) -> None:
    space = listed(triples)
    initial = data.draw(st.lists(st.integers(0, len(triples) - 1), min_size=1, max_size=8))
    expected = algorithm_1(space, initial, b, length, gamma, most)
    given = replace(EXACT, beam_width=b, beam_length=length, gamma=gamma, neighbours_per_beam=most)
    beams = search_beams(space, np.array(initial, np.int64), given, encode)
    assert beams.paths() == [chain for _, chain in expected]
    assert beams.scores == pytest.approx([score for score, _ in expected], abs=1e-8)


@settings(max_examples=examples(60))
@given(TRIPLES, st.integers(1, 4), st.integers(2, 3))
def test_refined_with_room_for_all_is_exact(triples: list[Triple], b: int, length: int) -> None:
    space, initial = listed(triples), np.arange(min(4, len(triples)))
    exact = search_beams(space, initial, replace(EXACT, beam_width=b, beam_length=length), encode)
    wide = replace(EXACT, beam_width=b, beam_length=length, scoring="refined", survivors=1000)
    refined = search_beams(space, initial, wide, encode)
    assert refined.paths() == exact.paths()
    assert refined.scores.tolist() == exact.scores.tolist()
    assert refined.encoded == exact.encoded == exact.considered - len(initial)


def corner(degrees: float) -> list[float]:
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def hand() -> Listed:
    """The question points east; each triple's vector is turned away from it by so many degrees."""
    triples = [
        Triple("a", "r", "b"),  # 0: 60 degrees
        Triple("b", "r", "c"),  # 1: -60, after 0
        Triple("b", "r", "d"),  # 2: 60, after 0
        Triple("e", "r", "f"),  # 3: 90, and nothing after it
        Triple("x", "r", "y"),  # 4: 0, joined to nothing
    ]
    table = np.array([corner(angle) for angle in (60, -60, 60, 90, 0)])
    return Listed(triples, table, np.array([1.0, 0.0]))


def never(texts: Sequence[str]) -> np.ndarray:
    raise AssertionError(f"nothing is to be encoded, but {texts} is")


COMPOSED = Search(scoring="composed", beam_width=2, gamma=4)


def test_composed_by_hand() -> None:
    # The first beams: 0 with cos 60° = 0.5, 3 with cos 90° = 0. Beyond 3 there is nothing: it is lost.
    # 0 and 1 cancel sideways: their sum points at the question, cos 0° = 1; with 2 it stays at 60°: 0.5.
    # So 0.5 + 1 = 1.5 comes first (weight 1), 0.5 + 0.5 = 1 second: times exp(-1/4).
    beams = search_beams(hand(), np.array([3, 0]), COMPOSED, never)
    assert beams.paths() == [[0, 1], [0, 2]]
    assert beams.scores == pytest.approx([1.5, math.exp(-1 / 4)], abs=1e-9)
    assert (beams.considered, beams.encoded) == (4, 0)


def test_diversity_lets_another_start_in() -> None:
    # Two starts: 0 with two extensions, 4 (cos 1) with none; give 4 a neighbour 5 at 80 degrees, cos of the sum 40°.
    space = hand()
    wider = Listed([*space.triples, Triple("y", "r", "z")], np.vstack([space.table, corner(80)]), space.question)
    plain = replace(COMPOSED, diversity=False, gamma=1)
    start = np.array([0, 4])
    # From 4: 1 + cos 40° = 1.766. From 0: 1.5 and 1. Undiscounted the order is 1.766, 1.5 | 1.0.
    assert search_beams(wider, start, plain, never).paths() == [[4, 5], [0, 1]]
    assert search_beams(wider, start, replace(plain, beam_width=3), never).paths() == [[4, 5], [0, 1], [0, 2]]
    # With γ = 1 the second extension of 0 counts exp(-1) of 1.
    beams = search_beams(wider, start, replace(plain, beam_width=3, diversity=True), never)
    assert beams.paths() == [[4, 5], [0, 1], [0, 2]]
    assert beams.scores == pytest.approx([1 + math.cos(math.radians(40)), 1.5, math.exp(-1)], abs=1e-9)


def test_dead_ends() -> None:
    start, keep = np.array([0, 4]), replace(COMPOSED, dead_end="keep", beam_width=3)
    assert search_beams(hand(), start, COMPOSED, never).paths() == [[0, 1], [0, 2]]  # 4 had the best score, and is lost
    beams = search_beams(hand(), start, keep, never)
    assert beams.paths() == [[0, 1], [4], [0, 2]]
    assert beams.scores == pytest.approx([1.5, 1.0, math.exp(-1 / 4)], abs=1e-9)
    assert beams.chains.tolist() == [[0, 1], [4, NOTHING], [0, 2]]
    alone = search_beams(hand(), np.array([4, 3]), COMPOSED, never)
    assert alone.paths() == [[4], [3]]  # nothing extends: the last beams that there were


def test_refined_encodes_the_survivors_alone() -> None:
    space = listed([Triple("a", "is", "b"), *(Triple("b", "has", f"c{n}") for n in range(30))])
    seen: list[str] = []

    def watched(texts: Sequence[str]) -> np.ndarray:
        seen.extend(texts)
        return encode(texts)

    given = Search(scoring="refined", beam_width=5, survivors=7)
    refined = search_beams(space, np.array([0]), given, watched)
    composed = search_beams(space, np.array([0]), replace(given, scoring="composed", beam_width=7), never)
    assert seen == [f"a is b b has c{chain[1] - 1}" for chain in composed.paths()]
    assert (refined.encoded, refined.considered) == (7, 31)
    assert {chain[1] for chain in refined.paths()} <= {chain[1] for chain in composed.paths()}
    exact = {row: float(score) for row, score in enumerate(encode(seen).astype(float) @ space.question)}
    first = refined.paths()[0]
    assert refined.scores[0] == pytest.approx(space.cosine(space.table[0]) + max(exact.values()), abs=1e-8)
    assert f"a is b b has c{first[1] - 1}" == seen[max(exact, key=lambda row: exact[row])]


def test_visited() -> None:
    # a–b, b–c, c–a: a ring. After two steps from 0 only the reading "last" may come back to 0.
    ring = [Triple("a", "r", "b"), Triple("b", "r", "c"), Triple("c", "r", "a")]
    space = Listed(ring, np.array([corner(angle) for angle in (0, 10, 20)]), np.array([1.0, 0.0]))
    given = replace(COMPOSED, beam_width=1, beam_length=4)
    # 0 → 1 (the nearer), → 2; then 0 stands in the chain itself, which is in the beams: never again within it.
    assert search_beams(space, np.array([0]), given, never).paths() == [[0, 1, 2]]
    # With two beams, 0–1 and 0–2: a triple of any beam is out of bounds for all.
    both = replace(given, beam_width=2, beam_length=3)
    assert search_beams(space, np.array([0]), both, never).paths() == [[0, 1], [0, 2]]
    # Triple 3 is in the beams at first, and not afterwards: then it may come again.
    star = [Triple("a", "r", "b"), Triple("b", "r", "c"), Triple("c", "r", "d"), Triple("c", "s", "e")]
    space = Listed(star, np.array([corner(angle) for angle in (0, 1, 40, 2)]), np.array([1.0, 0.0]))
    single = replace(given, beam_width=1, beam_length=3)
    assert search_beams(space, np.array([0, 3]), single, never).paths() == [[0, 1, 3]]


def test_the_same_statement_of_two_passages() -> None:
    twice = [Triple("a", "r", "b"), Triple("b", "r", "c"), Triple("b", "r", "c"), Triple("a", "r", "b")]
    space = Listed(twice, np.array([corner(angle) for angle in (0, 30, 30, 0)]), np.array([1.0, 0.0]))
    records = search_beams(space, np.array([0, 3]), replace(COMPOSED, beam_width=4), never)
    assert sorted(records.paths()) == [[0, 1], [0, 2], [3, 1], [3, 2]]
    spo = search_beams(space, np.array([0, 3]), replace(COMPOSED, beam_width=4, triple_identity="spo"), never)
    assert spo.paths() == [[0, 1], [0, 2]]


def test_what_has_no_vector_is_no_start() -> None:
    space = hand()
    space.table[0] = 0
    assert search_beams(space, np.array([0, 3]), COMPOSED, never).paths() == [[3]]
    nothing = search_beams(space, np.array([], np.int64), COMPOSED, never)
    assert (nothing.paths(), flatten(nothing, "level"), nothing.considered) == ([], [], 0)


@pytest.mark.parametrize(("order", "expected"), [("level", [5, 7, 6, 8]), ("beam", [5, 6, 7, 8])])
def test_flatten(order: str, expected: list[int]) -> None:
    beams = Beams(np.array([3.0, 2.0, 1.0]), np.array([[5, 6], [7, NOTHING], [5, 8]]))
    assert flatten(beams, order) == expected  # type: ignore[arg-type]
