"""Aliases: which predicates say so, which names are written alike, and in which passages two names are one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from letters import Letters
from made_extractions import notes, openie, rows, spelt

from ragindex.index.index import Index
from ragindex.parts.triples.triples import Triples
from ragindex.plugins import registry
from ragindex.types import Document
from ragindex_retrievers.griever.parts.alias_names import keys, taken_apart
from ragindex_retrievers.griever.parts.alias_pairs import alias_predicate
from ragindex_retrievers.griever.parts.aliases import alike, likeness, slip
from ragindex_retrievers.griever.parts.name_vectors import NameVectors
from ragindex_retrievers.griever.parts.same_as import SameAs, pair_id

# ---------------------------------------------------------------- predicates


@pytest.mark.parametrize(
    "predicate",
    [
        *("also known as", "is also known as", "was formerly known as", "a.k.a.", "alias", "is nicknamed", "born as"),
        *("stands for", "abbreviated as", "is short for", "is the former name of", "has official name", "Renamed To"),
        *("originally named", "is called", "goes by the name", "is a pen name of", "changed its name to", "code-named"),
    ],
)
def test_predicates_that_say_so(predicate: str) -> None:
    assert alias_predicate(predicate)


@pytest.mark.parametrize(
    "predicate",
    [
        *("known for", "is known in", "named after", "named by", "named", "called", "called for", "renamed in"),
        *("title", "changed the name to", "is not the same company as", "was born in", "became", "is also", ""),
        "former members include",
        *("incorrectly referred to as", "stands over", "has daughter named", "falls short of", "refers to"),
    ],
)
def test_predicates_that_do_not(predicate: str) -> None:
    assert not alias_predicate(predicate)


# ---------------------------------------------------------------- names


def why(left: str, other: str) -> str | None:
    """The evidence for two names with a key in common, whichever comes first."""
    first, second = taken_apart(left), taken_apart(other)
    if not {*keys(first)} & {*keys(second)}:
        return None
    evidence = likeness(first, second)
    assert evidence == likeness(second, first)
    return None if evidence is None else f"{evidence} ({evidence.where})"


@pytest.mark.parametrize(
    ("left", "other", "evidence"),
    [
        ("Beyoncé", "beyonce", "spelling (agreeing)"),
        ("Kim Il Sung", "Kim Il-sung", "spelling (everywhere)"),
        ("U.S. Congress", "United States Congress", "spelling (everywhere)"),
        ("St. Louis", "Saint Louis", "spelling (everywhere)"),
        ("Washington DC", "Washington, D.C.", "spelling (everywhere)"),
        ("The Beatles", "Beatles", "left out: The (agreeing)"),
        ("Tesla", "Tesla, Inc.", "left out: Inc. (agreeing)"),
        ("Orange", "Orange S.A.", "left out: S.A. (agreeing)"),
        ("Republic of Cuba", "Cuba", "left out: Republic of (agreeing)"),
        ("President Barack Obama", "Barack Obama", "left out: President (agreeing)"),
        ("Louisville, Kentucky", "Louisville", "left out: Kentucky (agreeing)"),
        ("Louisville, Kentucky, United States", "Louisville, Kentucky", "left out: United States (agreeing)"),
        ("The Kid (1921 film)", "The Kid", "left out: 1921 film (apart)"),
        ("Joseph Smith", "Joseph Smith, Sr.", "left out: sr (apart)"),
        ("NATO", "North Atlantic Treaty Organization", "acronym (agreeing)"),
        ("DOD", "Department of Defense", "acronym (together)"),
        ("EU", "European Union", "acronym (together)"),
        ("JFK", "John Fitzgerald Kennedy", "acronym (together)"),
        ("EFTA", "European Free Trade Association (EFTA)", "acronym: stated in parentheses (agreeing)"),
        ("LeBron James", "LeBron Raymone James Sr.", "middle name left out: Raymone (agreeing)"),
        ("John F. Kennedy", "John Fitzgerald Kennedy", "middle name left out: Fitzgerald (agreeing)"),
        ("J.K. Rowling", "Joanne Kathleen Rowling", "initials (together)"),
        ("Churchill", "Winston Churchill", "last name (given)"),
    ],
)
def test_names_of_one_thing(left: str, other: str, evidence: str) -> None:
    assert why(left, other) == evidence


@pytest.mark.parametrize(
    ("left", "other"),
    [
        ("The Kid (film)", "The Kid (album)"),
        ("Jessica Jones", "Jessica Jones (season 1)"),
        ("Springfield, Illinois", "Springfield, Ohio"),
        ("Martin Luther King Jr.", "Martin Luther King Sr."),
        ("Kingdom of Ireland", "Republic of Ireland"),
        ("US", "us"),
        ("Python 3.5", "Python 35"),
        ("Henry IV", "Henry V"),
        ("North Carolina", "South Carolina"),
        ("John A. Smith", "John B. Smith"),
        ("John Smith", "Jane Smith"),
        ("John Paul II", "John II"),
        ("University of Texas", "University of North Texas"),
        ("Bank of America", "Bank of North America"),
        ("UK", "Southern Railway (UK)"),
        ("USA", "Union of South Africa"),
        ("BBC", "British Broadcasting Company of London"),
        ("Kansas", "Kansas City"),
        ("West Bengal", "Bengal"),
        ("Grey's Anatomy", "Anatomy"),
        ("Mount Vernon-Belvedere", "Belvedere"),
        ("Raymond L.S. Patriarca", "Raymond Patriarca, Jr."),
    ],
)
def test_names_of_two_things(left: str, other: str) -> None:
    assert why(left, other) is None


def test_words_written_small_are_no_person() -> None:
    assert why("Winter Mountains", "Winter Blue Mountains") == "middle name left out: Blue (agreeing)"
    common = frozenset({"mountains"})
    assert likeness(taken_apart("Winter Mountains", common), taken_apart("Winter Blue Mountains", common)) is None


@pytest.mark.parametrize(
    ("left", "other", "are"),
    [
        ("Bharatiya Janata Party", "Bharatiya Janta Party", True),
        ("Mohammed Airport", "Muhammed Airport", True),
        ("Dan Iosif", "Iosif Dan", True),
        ("Cathedral of Saint Paul", "St. Paul's Cathedral", True),
        ("Leader of Opposition", "Leader of the Opposition", True),
        ("1997 Cup", "1998 Cup", False),
        ("North Korea", "South Korea", False),
        ("Louis XVIII", "Louis XXIII", False),
        ("Julia Roberts", "Julian Roberts", False),
        ("Macroeconomics", "Microeconomics", False),
        ("First World War", "World War", False),
        ("Iran", "Iraq", False),
        ("Slovakia", "Slovenia", False),
        ("popular song", "song popular", False),
        ("Kid Brother (film)", "Brother Kid (album)", False),
        ("Virginia", "West Virginia", False),
    ],
)
def test_names_with_near_vectors(left: str, other: str, are: bool) -> None:
    assert alike(taken_apart(left), taken_apart(other)) is are
    assert alike(taken_apart(other), taken_apart(left)) is are


def test_slips() -> None:
    assert slip("recieve", "receive")
    assert slip("commonwealth", "comonweelth")
    assert not slip("commons", "comans")
    assert not slip("abcde", "abcdf")


WORDS = [
    *("The", "Orange", "John", "J.", "F.", "Smith", "Smyth", "of", "Republic of", "UN", "Inc.", "Jr."),
    *("(film)", ", Ohio"),
]


@given(st.lists(st.sampled_from(WORDS), max_size=5), st.lists(st.sampled_from(WORDS), max_size=5))
def test_nothing_alike_is_lost_by_keys(left: list[str], other: list[str]) -> None:
    first, second = taken_apart(" ".join(left)), taken_apart(" ".join(other))
    assert likeness(first, second) == likeness(second, first)
    assert alike(first, second) == alike(second, first)
    if likeness(first, second) is not None:
        assert {*keys(first)} & {*keys(second)}


@given(st.text(max_size=60))
def test_any_text_can_be_taken_apart(text: str) -> None:
    name = taken_apart(text)
    assert [key for key in keys(name) if not key.strip()] == []
    assert likeness(name, taken_apart(f" {text} ")) is None or name.key == taken_apart(f" {text} ").key


# ---------------------------------------------------------------- the part


APART = SameAs(passage_cosine=1)
"""Passages agree by what they name alone: in letters, all are near."""


ALL = SameAs(passage_cosine=1, common=1)
"""What all passages name tells something too."""


def build(tmp_path: Path, *documents: Document, part: SameAs = APART, of: tuple[Document, ...] = ()) -> Index:
    tmp_path.mkdir(exist_ok=True)
    workspace = Index.open(tmp_path / "w", encoder=Letters(), chunking=None, create=True)
    workspace.import_part("extractions", openie(tmp_path / "f.json", of or documents))
    workspace.add(documents)
    workspace.build(part)
    return workspace


def read_pairs(workspace: Index, part: SameAs = APART) -> dict[str, tuple[str, list[str]]]:
    """By text: the evidence, and the documents of the passages (one each)."""
    documents = {row["id"]: row["metadata"] for row in rows(workspace, registry.part("passages"), "metadata")}
    named = {id: text.split('"')[1] for id, text in documents.items()}
    records = rows(workspace, part, "text", "evidence", "passage_ids")
    return {row["text"]: (row["evidence"], sorted(named[id] for id in row["passage_ids"])) for row in records}


def test_by_hand(tmp_path: Path) -> None:
    renamed = spelt("A", "Burma|was renamed to|Myanmar", "Burma|lies in|Asia", "1989|also known as|MCMLXXXIX")
    two = spelt("B", "Myanmar|is the new name of|Burma", "Myanmar|formerly called|Burma")
    workspace = build(tmp_path, renamed, two)
    record = rows(workspace, APART)[0]
    passages = rows(workspace, registry.part("passages"), "title")
    assert record.pop("digest")
    assert record == {
        "id": pair_id("Myanmar", "Burma"),
        "text": "Burma = Myanmar",
        "evidence": "predicate: formerly called; predicate: is the new name of; predicate: was renamed to",
        "aliases": ["Burma", "Myanmar"],
        "passage_ids": [row["id"] for row in passages],
        "score": 0.9,
    }
    assert notes(workspace, "same_as") == [
        "1 pairs of names are taken for one (1 by predicate). 0 more were dropped: no passages agree on them."
    ]


def test_pairs_hold_in_their_own_passages(tmp_path: Path) -> None:
    """No third pair follows from two, and a year that both passages name tells nothing."""
    workspace = build(
        tmp_path,
        Document("none", "", "Nothing is said.", {"id": "none"}),
        spelt("firm", "Orange S.A.|operates|Livebox", "Orange S.A.|has seat in|Issy"),
        spelt("shop", "Orange|sells|Livebox"),
        spelt("fruit", "Orange|also known as|Citrus sinensis", "Orange|grows in|Valencia"),
        spelt("tree", "Citrus sinensis|is|tree"),
        spelt("long", "LeBron Raymone James Sr.|born in|Akron", "LeBron Raymone James Sr.|born in|1984"),
        spelt("short", "LeBron James|plays for|Lakers", "Akron|is home of|LeBron James"),
        spelt("other", "LeBron James|born in|1984"),
        spelt("war", "Winston Churchill|led|Britain", "Churchill|met|Roosevelt"),
        spelt("both", "Barack Obama|married|Michelle Obama", "Obama|wrote|Becoming"),
        spelt("hill", "Sierra Nevada|lies near|Nevada"),
        *(spelt(f"{n}", f"Nevada|holds|Town {n}") for n in range(2)),
        spelt("A", "Bronny Maxwell James|is the son of|Bronny James", "Kid (film)|is from|1921", "Kid|is a|goat"),
        spelt("B", "NY|is part of|New York"),
        spelt("C", "Tesla|invented|motor"),
        spelt("D", "Tesla, Inc.|makes|cars"),
    )
    assert read_pairs(workspace) == {
        "Orange = Orange S.A.": ("left out: S.A.", ["firm", "shop"]),
        "Citrus sinensis = Orange": ("predicate: also known as", ["fruit"]),
        "LeBron James = LeBron Raymone James Sr.": ("middle name left out: Raymone", ["long", "short"]),
        "Churchill = Winston Churchill": ("last name", ["war"]),
    }


def test_passages_agree_by_their_vectors(tmp_path: Path) -> None:
    documents = (spelt("A", "Tesla|invented|motor"), spelt("B", "Tesla, Inc.|makes|cars"), spelt("C", "Tesla|x|zzzzzz"))
    part = SameAs(passage_cosine=0.6)
    workspace = build(tmp_path, *documents, part=part)
    assert read_pairs(workspace, part) == {"Tesla = Tesla, Inc.": ("left out: Inc.", ["A", "B"])}


def test_what_all_passages_name_tells_nothing(tmp_path: Path) -> None:
    firms = [spelt(f"{n}", "world|holds|Tesla") for n in range(3)] + [spelt("4", "world|holds|Tesla, Inc.")]
    workspace = build(tmp_path, *firms, part=ALL)
    workspace.build(APART)
    assert read_pairs(workspace) == {}
    assert read_pairs(workspace, ALL) == {"Tesla = Tesla, Inc.": ("left out: Inc.", ["0", "1", "2", "4"])}


def test_an_entity_of_every_passage(tmp_path: Path) -> None:
    """It is compared in as many passages as are asked for, and those that name both come first."""
    documents = [spelt(f"{n:03}", f"Rome|holds|Via {n}") for n in range(60)]
    documents.append(spelt("x", "Rome, Italy|holds|Via 7", "Rome|is|old"))
    part = SameAs(passage_cosine=1, most_passages=5)
    workspace = build(tmp_path, *documents, part=part)
    workspace.build(APART)
    assert read_pairs(workspace, part) == {"Rome = Rome, Italy": ("left out: Italy", ["x"])}
    assert read_pairs(workspace) == {"Rome = Rome, Italy": ("left out: Italy", ["007", "x"])}


def test_a_qualifier_named_beside_a_name(tmp_path: Path) -> None:
    """Namibia agrees with "Windhoek, Namibia" however often it is named."""
    documents = [spelt(f"{n}", f"Namibia|holds|T{n}") for n in range(9)]
    full, bare = spelt("full", "X|died in|Windhoek, Namibia"), spelt("bare", "Windhoek|lies in|Namibia")
    other = spelt("other", "Windhoek|is|song")
    workspace = build(tmp_path, *documents, full, bare, other)
    assert read_pairs(workspace) == {"Windhoek = Windhoek, Namibia": ("left out: Namibia", ["bare", "full"])}


def test_acronyms(tmp_path: Path) -> None:
    """Of three letters and more where passages agree; of two where one passage names both."""
    documents = [
        spelt("A", "NATO|has seat in|Brussels", "EU|has seat in|Brussels", "UN|met in|Ghent"),
        spelt("B", "North Atlantic Treaty Organization|met in|Brussels", "European Union|met in|Brussels"),
        spelt("C", "United Nations|met in|Ghent", "UN|met in|Liège"),
    ]
    assert read_pairs(build(tmp_path, *documents, part=ALL), ALL) == {
        "NATO = North Atlantic Treaty Organization": ("acronym", ["A", "B"]),
        "UN = United Nations": ("acronym", ["C"]),
    }


def test_letters_that_stand_for_much(tmp_path: Path) -> None:
    """Names of a crowded key are compared within passages only."""
    names = [f"C{a} B{b} Agency" for a in "abcdefghijklmnopqrstuvwxyz" for b in "xy"]
    documents = [spelt(f"{n:02}", f"{name}|met in|Rome") for n, name in enumerate(names)]
    both = spelt("both", "CBA|met in|Rome", "Cc By Agency|met in|Paris")
    few = read_pairs(build(tmp_path / "few", *documents[:5], both, part=ALL), ALL)
    assert few == {f"CBA = {name}": ("acronym", [f"{n:02}", "both"]) for n, name in enumerate(names[:5])} | {
        "CBA = Cc By Agency": ("acronym", ["both"])
    }
    many = read_pairs(build(tmp_path / "many", *documents, both, part=ALL), ALL)
    assert many == {"CBA = Cc By Agency": ("acronym", ["05", "both"])}


def test_neighbours_count_where_they_are_written_alike(tmp_path: Path) -> None:
    document = spelt("A", "Dan Iosif|met|Iosif Dan", "Heart|met|Earth", "Albino Party|saw|Albiino Party")
    near = spelt("B", "Iosif Dan|met|Maria", "Dan Iosif|saw|Maria", "Albiino Party|saw|Heart", "Earth|is|Albino Party")
    workspace = build(tmp_path, near, of=(document, near))
    assert read_pairs(workspace) == {
        "Dan Iosif = Iosif Dan": ("neighbour: 1.00", ["B"]),
        "Albiino Party = Albino Party": ("neighbour: 0.97", ["B"]),
    }


def test_by_embedding(tmp_path: Path) -> None:
    """All near names are taken, numbers are not."""
    part = SameAs(by="embedding", cosine=0.99, passage_cosine=1)
    near = spelt("B", "Heart|met|Rome", "Earth|is|Paris", "1997|is|1979", "NATO|is short for|Pact")
    assert read_pairs(build(tmp_path, near, part=part), part) == {"Earth = Heart": ("neighbour: 1.00", ["B"])}


def test_names_in_folded_case(tmp_path: Path) -> None:
    """Keys are folded; what is read and compared is how a name is written most often."""
    part = SameAs(of=NameVectors(over=Triples(entity_key="casefold")), passage_cosine=1)
    workspace = build(
        tmp_path,
        spelt("A", "nato|met in|Oslo", "NATO|met in|Rome", "NATO|met in|Paris"),
        spelt("B", "North Atlantic  Treaty Organization|met in|Oslo"),
        part=part,
    )
    record = rows(workspace, part)[0]
    assert record["aliases"] == ["nato", "north atlantic treaty organization"]
    assert record["text"] == "NATO = North Atlantic  Treaty Organization"
    assert record["evidence"] == "acronym"
