"""Names in the triples of a corpus, and candidate pairs of them with their evidence.

Candidates come from shared keys, statements and near vectors, never from all pairs.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ragindex.english import is_number
from ragindex.interfaces import Collection, Floats
from ragindex.parts.records import Flags, Integers, large_text
from ragindex.parts.vectors.similar_pairs import near_pairs
from ragindex.text_analysis import analyse
from ragindex_retrievers.griever.parts.alias_names import WITHIN, Name, keys, may_be_a_name, name_words, taken_apart
from ragindex_retrievers.griever.parts.aliases import LAST_NAME, AliasEvidence, alike, likeness, more_beside

# ---------------------------------------------------------------- names in the triples of a corpus


_FIELDS = ("subject", "predicate", "object", "subject_key", "object_key", "passage_ids")


@dataclass(frozen=True, slots=True)
class MemberLists:
    """Lists of members in one array: `members[starts[i] : starts[i + 1]]` are those of place i, sorted and distinct."""

    starts: Integers
    members: Integers

    def of(self, place: int) -> Integers:
        """Return the members of one place."""
        return self.members[self.starts[place] : self.starts[place + 1]]

    def counts(self) -> Integers:
        """Return the number of members of each place, (places,)."""
        return np.diff(self.starts)

    def of_many(self, places: Integers) -> tuple[Integers, Integers]:
        """Return the concatenated members of several places, and for each member the index of its place in `places`."""
        counts = self.starts[places + 1] - self.starts[places]
        numbers = np.repeat(np.arange(len(places)), counts)
        before = np.cumsum(counts) - counts
        return self.members[np.arange(len(numbers)) - before[numbers] + self.starts[places][numbers]], numbers


@dataclass(frozen=True, slots=True)
class NameMentions:
    """Names in the triples of a corpus, as arrays of places.

    Entities go by their place in the sorted `keys`, passages by their place in the sorted `passages`. `names`
    is the most frequent spelling of each entity; `named` (entities,) is false for numbers. Per triple: `sides`
    (n, 2) are its entities, `owners` (n,) its passage, `predicates` (n,) its predicate by place in `spoken`.
    """

    keys: list[str]
    names: list[str]
    named: Flags
    passages: pa.Array
    sides: Integers
    owners: Integers
    predicates: Integers
    spoken: list[str]
    passages_of: MemberLists
    entities_of: MemberLists


def read_mentions(triples: Collection) -> NameMentions:
    """Read all triples, in O(n log n); the result does not depend on their order."""
    batches = [_flatten_batch(batch) for batch in triples.scan(_FIELDS)]
    table = pa.Table.from_batches(batches, pa.schema([(name, pa.large_string()) for name in ("id", *_FIELDS)]))
    table = table.take(pc.sort_indices(table.column("id")))
    ends = pa.concat_arrays([_read_column(table, name) for name in ("subject_key", "object_key")])
    spellings = pa.concat_arrays([_read_column(table, name) for name in ("subject", "object")])
    (keys, codes), (passages, owners) = _encode_texts(ends), _encode_texts(_read_column(table, "passage_ids"))
    spoken, predicates = _encode_texts(_read_column(table, "predicate"))
    twice, names = np.tile(owners, 2), _find_most_frequent(codes, spellings)
    return NameMentions(
        keys.to_pylist(),
        names,
        np.array([not is_number(name) for name in names], np.bool_),
        passages,
        np.ascontiguousarray(codes.reshape(2, -1).T),
        owners,
        predicates,
        spoken.to_pylist(),
        _group_members(codes, twice, len(keys)),
        _group_members(twice, codes, len(passages)),
    )


def _flatten_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [batch.column(name) for name in ("id", *_FIELDS)]
    flat = [column.flatten() if pa.types.is_list(column.type) else column for column in columns]
    return pa.RecordBatch.from_arrays([each.cast(pa.large_string()) for each in flat], names=["id", *_FIELDS])


def _read_column(table: pa.Table, name: str) -> pa.Array:
    return large_text(table.column(name).chunks)


def _encode_texts(texts: pa.Array) -> tuple[pa.Array, Integers]:
    """Return the sorted distinct texts, and the place of each text among them."""
    distinct = texts.unique()
    distinct = distinct.take(pc.sort_indices(distinct))
    places = pc.index_in(texts, value_set=distinct)
    return distinct, np.asarray(places.to_numpy(zero_copy_only=False), np.int64)


def _find_most_frequent(codes: Integers, spellings: pa.Array) -> list[str]:
    """Return the most frequent spelling of each entity; of equally frequent ones the first."""
    counts = (
        pa.table({"code": pa.array(codes), "name": spellings}).group_by(["code", "name"]).aggregate([([], "count_all")])
    )
    ordered = counts.sort_by([("code", "ascending"), ("count_all", "descending"), ("name", "ascending")])
    _, first = np.unique(ordered.column("code").to_numpy(), return_index=True)
    return [str(name) for name in ordered.column("name").take(pa.array(first)).to_pylist()]


def _group_members(places: Integers, members: Integers, count: int) -> MemberLists:
    width = int(members.max(initial=0)) + 1
    pairs = np.unique(places * width + members)
    starts = np.concatenate([[0], np.cumsum(np.bincount(pairs // width, minlength=count))])
    return MemberLists(starts.astype(np.int64), pairs % width)


# ---------------------------------------------------------------- candidate pairs


_CROWD_SIZE = 50
"""A key shared by more names than this is weak evidence: its names are compared within passages only."""
_STATED_SCORE = 0.9
NEIGHBOUR = "neighbour"


class AliasCandidate(NamedTuple):
    """Two entities by place, `first` < `second`. `passages` are those where the evidence holds in any case."""

    first: int
    second: int
    evidence: AliasEvidence
    passages: tuple[int, ...] = ()


def find_stated(mentions: NameMentions) -> Iterator[AliasCandidate]:
    """Yield the pairs that triples with alias-like predicates state, with the passages that state them."""
    passages_of: dict[tuple[int, int, str], set[int]] = defaultdict(set)
    says = _find_alias_like(mentions)
    fit = {int(side): _can_have_alias(mentions, side) for side in np.unique(mentions.sides[says])}
    for row in np.flatnonzero(says).tolist():
        first, second = sorted(mentions.sides[row].tolist())
        if first != second and fit[first] and fit[second]:
            passages_of[first, second, mentions.spoken[mentions.predicates[row]]].add(int(mentions.owners[row]))
    for (first, second, predicate), passages in sorted(passages_of.items()):
        yield AliasCandidate(
            first, second, AliasEvidence("predicate", _STATED_SCORE, predicate, "given"), tuple(sorted(passages))
        )


def find_alike(mentions: NameMentions) -> Iterator[AliasCandidate]:
    """Yield pairs of names that share a key and are written alike.

    Pairs of WITHIN keys and of crowded keys are looked for within single passages only. The number of
    comparisons is at most _CROWD_SIZE times the number of keys.
    """
    names = parse_names(mentions.names)
    groups: dict[str, list[int]] = defaultdict(list)
    for place in np.flatnonzero(mentions.named).tolist():
        for key in keys(names[place]):
            groups[key].append(place)
    within: dict[int, list[str]] = defaultdict(list)
    place_of = {name.casefold(): place for place, name in enumerate(mentions.names)}
    for key, places in groups.items():
        if len(places) > 1 and (key.startswith(WITHIN) or len(places) > _CROWD_SIZE):
            for place in places:
                within[place].append(key)
        else:
            yield from (
                _add_qualifier_passages(candidate, names, place_of, mentions)
                for candidate in _compare_names(names, places)
            )
    yield from _find_within_passages(mentions, names, within)


def parse_names(names: Sequence[str]) -> list[Name]:
    """Return the parsed names. A word that some name writes without a capital is not part of a person's name."""
    common = frozenset(word for name in names for word in name.split() if word.islower())
    return [taken_apart(name, common) for name in names]


def find_neighbours(
    mentions: NameMentions, vectors: Floats, least: float, most: int, seed: int, spelt: bool
) -> Iterator[AliasCandidate]:
    """Yield pairs of names with near vectors; with `spelt` only those that are also written alike.

    Dates and numbers have none.
    """
    candidates_of_names = [place for place in range(len(mentions.names)) if _can_have_alias(mentions, place)]
    pairs = near_pairs(vectors[candidates_of_names], least, most, seed)
    for left, other, cosine in zip(pairs.first.tolist(), pairs.second.tolist(), pairs.cosines.tolist(), strict=True):
        first, second = candidates_of_names[left], candidates_of_names[other]
        if not spelt or alike(taken_apart(mentions.names[first]), taken_apart(mentions.names[second])):
            yield AliasCandidate(first, second, AliasEvidence(NEIGHBOUR, round(min(cosine, 1.0), 4), f"{cosine:.2f}"))


def _can_have_alias(mentions: NameMentions, place: int) -> bool:
    return bool(mentions.named[place]) and may_be_a_name(mentions.names[place])


def find_different(mentions: NameMentions) -> frozenset[tuple[int, int]]:
    """Return the pairs that a triple joins with a predicate that is not alias-like.

    An entity that has a relation to another is not the same entity.
    """
    sides = np.unique(np.sort(mentions.sides[~_find_alias_like(mentions)], axis=1), axis=0)
    return frozenset((first, second) for first, second in sides.tolist())


def _find_alias_like(mentions: NameMentions) -> Flags:
    """Return for each triple whether its predicate is alias-like, (triples,)."""
    return np.array([alias_predicate(predicate) for predicate in mentions.spoken], np.bool_)[mentions.predicates]


def _compare_names(names: Sequence[Name], places: Sequence[int]) -> Iterator[AliasCandidate]:
    for first, second in combinations(places, 2):
        evidence = likeness(names[first], names[second])
        if evidence is not None:
            yield AliasCandidate(first, second, evidence)


def _add_qualifier_passages(
    candidate: AliasCandidate, names: Sequence[Name], place_of: Mapping[str, int], mentions: NameMentions
) -> AliasCandidate:
    """Add to a candidate with a qualifier the passages that name the bare name and the qualifier.

    A passage with Windhoek and Namibia agrees with "Windhoek, Namibia", however many other passages name
    Namibia.
    """
    bare, full = sorted((candidate.first, candidate.second), key=lambda place: len(names[place].beside))
    more = more_beside(names[bare], names[full])
    beside = place_of.get(more[0].casefold()) if more and candidate.evidence.where == "agreeing" else None
    if beside is None:
        return candidate
    passages = mentions.passages_of.of(bare)
    named, owners = mentions.entities_of.of_many(passages)
    qualified = passages[np.unique(owners[named == beside])]
    return candidate._replace(
        passages=tuple(np.union1d(qualified, mentions.passages_of.of(full)).tolist() if len(qualified) else ())
    )


def _find_within_passages(
    mentions: NameMentions, names: Sequence[Name], within: Mapping[int, Sequence[str]]
) -> Iterator[AliasCandidate]:
    passages_of: dict[AliasCandidate, set[int]] = defaultdict(set)
    for passage in range(len(mentions.passages)):
        for candidate in _find_in_passage(names, mentions.entities_of.of(passage).tolist(), within):
            passages_of[candidate].add(passage)
    for candidate, passages in passages_of.items():
        if candidate.evidence.kind != LAST_NAME or _is_mostly_full_name(candidate, names, mentions, len(passages)):
            yield candidate._replace(passages=tuple(sorted(passages)))


def _find_in_passage(
    names: Sequence[Name], places: Sequence[int], within: Mapping[int, Sequence[str]]
) -> Iterator[AliasCandidate]:
    """Yield the candidates within one passage, without those that the passage tells apart.

    A last name is a candidate only if all persons of the passage with that last name are the same person.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for place in places:
        for key in within.get(place, ()):
            groups[key].append(place)
    for group in groups.values():
        persons = [place for place in group if names[place].person][:_CROWD_SIZE]
        same_person = all(likeness(names[first], names[second]) for first, second in combinations(persons, 2))
        for candidate in _compare_names(names, group[:_CROWD_SIZE]):
            if candidate.evidence.where != "apart" and (same_person or candidate.evidence.kind != LAST_NAME):
                yield candidate


def _is_mostly_full_name(
    candidate: AliasCandidate, names: Sequence[Name], mentions: NameMentions, together: int
) -> bool:
    """Return whether at least half of the passages with a last name also have the full name.

    Nevada, for example, mostly occurs without Sierra Nevada.
    """
    short = candidate.second if names[candidate.first].person else candidate.first
    return 2 * together >= len(mentions.passages_of.of(short))


# ---------------------------------------------------------------- alias-like predicates


def _split_phrases(text: str) -> frozenset[str]:
    return frozenset(" ".join(phrase.split()) for phrase in text.split(","))


_COPULAS = name_words("is was are were be been being")
_ADVERBS = name_words("""
    also formerly previously originally initially first once now currently presently later then subsequently today
    recently alternatively alternately otherwise sometimes often occasionally commonly usually generally frequently
    popularly colloquially informally unofficially officially formally legally affectionately historically locally
    internationally traditionally simply better best widely more properly professionally collectively
""")
_FILLERS = name_words("has had have having a an became becomes become came come will")

SAY_SO = _split_phrases("""
    known as, known by the name, known under the name, known by the nickname, known by the stage name, referred to as,
    nicknamed, nicknamed as, nickname, nickname of, nickname for, dubbed, alias, alias of, alias for, aka,
    born as, same as, same person as, same thing as, one and same as,
    renamed, renamed to, renamed as, renamed from, changed name to, changed name from, changed its name to,
    changed its name from, changed its trading name to, changed his name to, changed her name to, changed their name to,
    name changed to, name changed from, title changed to, title changed from, rebranded as, rebranded to, retitled,
    retitled as, retitled to, abbreviated, abbreviated as, abbreviated to, abbreviation, abbreviation of,
    abbreviation for, shortened to, shortened as, short for, short form of, stands for, stand for, stood for, acronym,
    acronym of, acronym for, initialism of, initialism for, synonym, synonym of, synonym for, synonymous with,
    used as synonym for, treated as synonym of, goes by, goes by the name, goes by the name of, went by,
    went by the name, went by the name of, played under the name, sold under the name, performs as,
    performs under the name, credited as, billed as, spelled, spelled as, spelt, spelt as, written as, translated as,
    translates as, transliterated as, romanized as, styled as, stylized as, branded as, trades as, trading as,
    doing business as, codenamed, codenamed as, code named, code named as
""")
"""Alias-like phrases without copulas, adverbs and fillers: "was formerly known as" becomes "known as"."""

_NAMED_BY_ADVERB = _split_phrases("named, called, titled, entitled, designated, name, title")
"""Phrases that are alias-like only with an adverb ("originally named"): "named" alone says who gave a name."""

_NAMED_BY_COPULA = _split_phrases("called")
"""Phrases that are alias-like also as a passive ("is called"), but not as an active verb (who called for what)."""

_KINDS_OF_NAME = name_words("""
    full real birth maiden stage pen brand official original former short long alternative other another common
    scientific legal public old new previous current native
""")
_OF_NAME = _split_phrases("name, name of, name for, name as, title, title of")


def alias_predicate(predicate: str) -> bool:
    """Return whether a predicate states that subject and object are the same.

    Examples: "is also known as", "stands for", "has official name".
    """
    words = analyse(predicate.replace("a.k.a", "aka"), "none")
    content = [word for word in words if word not in _COPULAS and word not in _FILLERS]
    content = content[content[:1] == ["the"] :]
    core = [word for word in content if word not in _ADVERBS]
    return " ".join(core) in SAY_SO or " ".join(content) in SAY_SO or any(_check_naming(words, content, core))


def _check_naming(words: list[str], content: list[str], core: list[str]) -> Iterator[bool]:
    phrase = " ".join(core)
    yield phrase in _NAMED_BY_ADVERB and len(content) > len(core)
    yield phrase in _NAMED_BY_COPULA and not _COPULAS.isdisjoint(words)
    yield len(core) > 1 and core[0] in _KINDS_OF_NAME and " ".join(core[1:]) in _OF_NAME
