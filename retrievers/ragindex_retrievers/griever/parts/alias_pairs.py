"""Which pairs of names are worth a look, and why: through shared keys, statements and near vectors, never all pairs."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ragindex.interfaces import Floats
from ragindex.parts.support.arrays import Flags
from ragindex.parts.vectors.similar_pairs import near_pairs
from ragindex_retrievers.griever.parts.alias_names import WITHIN, Name, keys, may_be_a_name, taken_apart
from ragindex_retrievers.griever.parts.alias_predicates import alias_predicate
from ragindex_retrievers.griever.parts.alias_senses import NameMentions
from ragindex_retrievers.griever.parts.aliases import LAST_NAME, Evidence, alike, likeness, more_beside

_CROWDED = 50
"""A key of more names than this says too little by itself: they are compared within passages only."""
_STATED = 0.9
NEIGHBOUR = "neighbour"


class AliasCandidate(NamedTuple):
    """Two entities by their places, `first` < `second`; `passages`: where the evidence holds whatever else does."""

    first: int
    second: int
    evidence: Evidence
    passages: tuple[int, ...] = ()


def find_stated(mentions: NameMentions) -> Iterator[AliasCandidate]:
    """What triples state with alias-like predicates, in the passages that state it."""
    found: dict[tuple[int, int, str], set[int]] = defaultdict(set)
    says = _alias_like(mentions)
    fit = {int(side): _fit(mentions, side) for side in np.unique(mentions.sides[says])}
    for row in np.flatnonzero(says).tolist():
        first, second = sorted(mentions.sides[row].tolist())
        if first != second and fit[first] and fit[second]:
            found[first, second, mentions.spoken[mentions.predicates[row]]].add(int(mentions.owners[row]))
    for (first, second, predicate), passages in sorted(found.items()):
        yield AliasCandidate(first, second, Evidence("predicate", _STATED, predicate, "given"), tuple(sorted(passages)))


def find_alike(mentions: NameMentions) -> Iterator[AliasCandidate]:
    """Names that share a key and are alike, wherever they stand; those of within keys, and of crowded ones, by passage.

    At most _CROWDED times as many comparisons as there are keys.
    """
    names = parse_names(mentions.names)
    groups: dict[str, list[int]] = defaultdict(list)
    for place in np.flatnonzero(mentions.named).tolist():
        for key in keys(names[place]):
            groups[key].append(place)
    within: dict[int, list[str]] = defaultdict(list)
    written = {name.casefold(): place for place, name in enumerate(mentions.names)}
    for key, places in groups.items():
        if len(places) > 1 and (key.startswith(WITHIN) or len(places) > _CROWDED):
            for place in places:
                within[place].append(key)
        else:
            yield from (_with_qualifier(candidate, names, written, mentions) for candidate in _compared(names, places))
    yield from _within_passages(mentions, names, within)


def parse_names(names: Sequence[str]) -> list[Name]:
    """Names taken apart; no word that one of them writes without a capital is taken for a person's name."""
    common = frozenset(word for name in names for word in name.split() if word.islower())
    return [taken_apart(name, common) for name in names]


def find_neighbours(
    mentions: NameMentions, vectors: Floats, least: float, most: int, seed: int, spelt: bool
) -> Iterator[AliasCandidate]:
    """Names with near vectors; `spelt`: only those that are written alike too. Dates and numbers have none."""
    named = [place for place in range(len(mentions.names)) if _fit(mentions, place)]
    pairs = near_pairs(vectors[named], least, most, seed)
    for one, other, cosine in zip(pairs.first.tolist(), pairs.second.tolist(), pairs.cosines.tolist(), strict=True):
        first, second = named[one], named[other]
        if not spelt or alike(taken_apart(mentions.names[first]), taken_apart(mentions.names[second])):
            yield AliasCandidate(first, second, Evidence(NEIGHBOUR, round(min(cosine, 1.0), 4), f"{cosine:.2f}"))


def _fit(mentions: NameMentions, place: int) -> bool:
    return bool(mentions.named[place]) and may_be_a_name(mentions.names[place])


def find_different(mentions: NameMentions) -> frozenset[tuple[int, int]]:
    """Pairs that a triple joins with a predicate that is not alias-like: what has a relation to it is not the same."""
    sides = np.unique(np.sort(mentions.sides[~_alias_like(mentions)], axis=1), axis=0)
    return frozenset((first, second) for first, second in sides.tolist())


def _alias_like(mentions: NameMentions) -> Flags:
    """(triples,): whether the predicate is alias-like."""
    return np.array([alias_predicate(predicate) for predicate in mentions.spoken], np.bool_)[mentions.predicates]


def _compared(names: Sequence[Name], places: Sequence[int]) -> Iterator[AliasCandidate]:
    for first, second in combinations(places, 2):
        evidence = likeness(names[first], names[second])
        if evidence is not None:
            yield AliasCandidate(first, second, evidence)


def _with_qualifier(
    candidate: AliasCandidate, names: Sequence[Name], written: Mapping[str, int], mentions: NameMentions
) -> AliasCandidate:
    """A passage with Windhoek and Namibia agrees with Windhoek, Namibia, however many others name Namibia."""
    bare, full = sorted((candidate.first, candidate.second), key=lambda place: len(names[place].beside))
    more = more_beside(names[bare], names[full])
    beside = written.get(more[0].casefold()) if more and candidate.evidence.where == "agreeing" else None
    if beside is None:
        return candidate
    passages = mentions.passages_of.of(bare)
    named, owners = mentions.entities_of.of_many(passages)
    found = passages[np.unique(owners[named == beside])]
    return candidate._replace(
        passages=tuple(np.union1d(found, mentions.passages_of.of(full)).tolist() if len(found) else ())
    )


def _within_passages(
    mentions: NameMentions, names: Sequence[Name], within: Mapping[int, Sequence[str]]
) -> Iterator[AliasCandidate]:
    found: dict[AliasCandidate, set[int]] = defaultdict(set)
    for passage in range(len(mentions.passages)):
        for candidate in _in_passage(names, mentions.entities_of.of(passage).tolist(), within):
            found[candidate].add(passage)
    for candidate, passages in found.items():
        if candidate.evidence.kind != LAST_NAME or _mostly(candidate, names, mentions, len(passages)):
            yield candidate._replace(passages=tuple(sorted(passages)))


def _in_passage(
    names: Sequence[Name], places: Sequence[int], within: Mapping[int, Sequence[str]]
) -> Iterator[AliasCandidate]:
    """Of a last name only where all persons of the passage with it are one; nothing that the passage tells apart."""
    groups: dict[str, list[int]] = defaultdict(list)
    for place in places:
        for key in within.get(place, ()):
            groups[key].append(place)
    for group in groups.values():
        persons = [place for place in group if names[place].person][:_CROWDED]
        one = all(likeness(names[first], names[second]) for first, second in combinations(persons, 2))
        for candidate in _compared(names, group[:_CROWDED]):
            if candidate.evidence.where != "apart" and (one or candidate.evidence.kind != LAST_NAME):
                yield candidate


def _mostly(candidate: AliasCandidate, names: Sequence[Name], mentions: NameMentions, together: int) -> bool:
    """Whether half the passages with a last name have the whole one: Nevada mostly stands without Sierra Nevada."""
    short = candidate.second if names[candidate.first].person else candidate.first
    return 2 * together >= len(mentions.passages_of.of(short))
