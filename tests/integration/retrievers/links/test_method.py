"""`links` over corpora written by hand: which passages are linked and how much, what is explained, and files."""

from collections.abc import Sequence
from itertools import count
from math import log
from pathlib import Path
from types import SimpleNamespace

import pytest
from built_retriever import built_retriever
from letters import Letters

import ragindex
from ragindex.filters import meta
from ragindex.index.index import Index
from ragindex.interfaces import OpenIndex
from ragindex.types import Chunking, Document, MetadataValue, Query, Retrieval, Section, Triple
from ragindex_retrievers.links import method as method_module
from ragindex_retrievers.links.lookups import Link, LinkLookups
from ragindex_retrievers.links.method import Links
from ragindex_retrievers.links.passage_links import PassageLinks

FILM = Document("film", "Red Harbour (film)", "A film by Ada Lund, shot in New York City.", {"year": 1990})
DIRECTOR = Document("ada", "Ada Lund", "She was born in Tellin and lived in New York.", {"year": 1990})
TOWN = Document("town", "Tellin", "A town by the sea.", {"year": 1970})
OTTER = Document("otter", "Otter", "It eats fish.", {"year": 1990})
CITY = Document("city", "New York", "A city.")
LONGER = Document("longer", "New York City", "A city of five boroughs.")


@pytest.fixture
def workspace(tmp_path: Path) -> Index:
    return Index.open(tmp_path / "w", encoder=Letters(), chunking=None, create=True)


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """Four documents; no test adds others."""
    index = Index.open(tmp_path_factory.mktemp("harbour"), encoder=Letters(), chunking=None, create=True)
    index.add([FILM, DIRECTOR, TOWN, OTTER])
    index.build(Links())
    return index


def links_of(workspace: Index, documents: Sequence[Document], *seeds: str, **settings: int) -> set[Link]:
    workspace.add(documents)
    scheme = Links(**settings)
    workspace.build(scheme)
    index: OpenIndex = workspace
    return set(LinkLookups(index.open_part(PassageLinks()), scheme).find(seeds))


def ask(workspace: Index, method: object, text: str, k: int = 5, year: int | None = None) -> Retrieval:
    where = None if year is None else meta("year", year)
    [retrievals] = built_retriever(workspace, method).retrieve([Query("q", text, where)], k)
    return retrievals


def test_links_in_both_directions(harbour: Index) -> None:
    assert links_of(harbour, [], "ada") == {
        Link("ada", "town", ("town",), 1.0, "tellin"),  # log(4 / 1) / log 4: one passage mentions it, one has the name
        Link("ada", "film", ("film",), 1.0, "ada lund", backward=True),
    }


def test_a_longer_name_is_preferred_even_if_it_is_added_later(workspace: Index) -> None:
    before = links_of(workspace, [FILM, DIRECTOR, CITY, OTTER], "city", "film")
    mentions = log(4 / 2) / log(4)
    assert {(link.seed, link.passage, round(link.weight, 9)) for link in before if link.name == "new york"} == {
        ("city", "film", mentions),
        ("city", "ada", mentions),
        ("film", "city", mentions),
    }
    after = links_of(workspace, [LONGER], "city", "film")
    assert {(link.seed, link.passage) for link in after if link.name == "new york"} == {("city", "ada")}
    assert {(link.seed, link.passage) for link in after if link.name == "new york city"} == {("film", "longer")}
    workspace.remove(["longer"])
    assert links_of(workspace, [], "city", "film") == before


def test_a_name_is_linked_once_its_passage_is_added(workspace: Index) -> None:
    assert links_of(workspace, [DIRECTOR, OTTER], "ada") == set()
    assert {link.passage for link in links_of(workspace, [TOWN], "ada")} == {"town"}


LEXICAL = "links(weight=0,seeds=1,title_bonus=0,link_weight=0.25,novelty_weight=0)"
"""The base score is BM25 alone, from 0 to 1 over all passages; a link is worth a quarter of its seed's score."""


def test_a_linked_passage_gains_a_share_of_its_seed(harbour: Index) -> None:
    retrieval = ask(harbour, LEXICAL, "a film that was shot")
    assert {hit.id: hit.score for hit in retrieval.hits} == {"film": 1.0, "ada": 0.25, "otter": 0.0, "town": 0.0}
    assert (retrieval.trace[-1].query, retrieval.trace[-1].ids) == ("film", ("ada",))
    assert retrieval.trace[-1].note == "ada is mentioned by film (ada lund)"
    assert retrieval.trace[-1].paths == ((Triple("film", "ada lund", "ada"),),)
    two = ask(harbour, LEXICAL.replace("seeds=1", "seeds=1,hops=2"), "a film that was shot")
    assert {hit.id: hit.score for hit in two.hits} == {"film": 1.0, "ada": 0.25, "otter": 0.0, "town": 0.0625}
    assert two.trace[-1].note == "town is mentioned by ada (tellin)"


def test_words_of_a_question_are_those_of_the_language_of_the_index(tmp_path: Path) -> None:
    german = Index.open(tmp_path / "w", language="german", encoder=Letters(), chunking=None, create=True)
    german.add([Document("a", "Hafen", "Am Meer."), Document("b", "Not", "Im Tal.")])
    retrieval = ask(german, LEXICAL, "Not am Hafen")  # a noun that is spelled like a stop word of English
    assert {hit.id: hit.score for hit in retrieval.hits} == {"a": 1.0, "b": 1.0}


def test_what_a_linked_passage_adds_to_the_question_counts(harbour: Index) -> None:
    method = "links(weight=0,seeds=1,title_bonus=0,link_weight=0,novelty_weight=1,kept={kept})"
    question = "film born"
    words = {word: {hit.id: hit.score for hit in ask(harbour, "bm25", word).hits} for word in question.split()}
    film = words["film"]["film"]  # more than "born" of ada, whose text is longer
    base = words["born"]["ada"] / film
    retrieval = ask(harbour, method.format(kept=0), question)
    assert [hit.id for hit in retrieval.hits] == ["ada", "film", "otter", "town"]
    gained = pytest.approx(base + 1.0 * base)
    assert [hit.score for hit in retrieval.hits] == [gained, 1.0, 0.0, 0.0]
    assert retrieval.trace[-1].note == "ada is mentioned by film (ada lund); adds born"
    longer = ask(harbour, method.format(kept=0), "film shot city tellin born")
    assert longer.trace[-1].note == "ada is mentioned by film (ada lund); adds born, tellin"  # what adds most is first
    keeping = ask(harbour, method.format(kept=1), question)
    assert [(hit.id, hit.score) for hit in keeping.hits] == [
        ("film", gained),
        ("ada", gained),
        ("otter", 0),
        ("town", 0),
    ]


def test_steps_have_the_time_they_took(harbour: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = count(1.0)  # a second passes between two readings of the clock
    monkeypatch.setattr(method_module, "time", SimpleNamespace(perf_counter=lambda: next(readings)))
    steps = ask(harbour, Links(hops=2), "a film that was shot").trace
    assert [(step.iteration, step.index, step.ms) for step in steps] == [
        (1, "text", 500.0),  # both searches run at once: each has half
        (1, "vectors", 500.0),
        (1, "links", 1000.0),
        (2, "links", 1000.0),
    ]


def test_hyperlinks_of_files(workspace: Index, tmp_path: Path) -> None:
    (tmp_path / "docs" / "more").mkdir(parents=True)
    files = {
        "start.md": "# Start\n\nFirst [the setup](more/setup.html), then run it.",
        "more/setup.html": "<h1>Setup</h1><p>Uses <a href='../limits.md#two'>these bounds</a>.</p>",
        "limits.md": "# Limits\n\nAt most twelve.",
        "other.md": "# Other\n\nNothing.",
    }
    for name, text in files.items():
        (tmp_path / "docs" / name).write_text(text, encoding="utf-8")
    workspace.add(ragindex.read(tmp_path / "docs").documents)
    scheme = Links()
    workspace.build(scheme)
    hyperlinks = LinkLookups(workspace.open_part(PassageLinks()), scheme).find(["start.md", "limits.md"])
    assert {(link.seed, link.passage, link.name, link.backward) for link in hyperlinks} == {
        ("start.md", "more/setup.html", "/more/setup.html", False),
        ("limits.md", "more/setup.html", "/limits.md", True),
    }


def test_headings_of_all_formats_are_names(workspace: Index, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    files = {
        "a.html": "<title>Harbours</title><h1>Harbours</h1><p>Boats.</p><h2>3.1. Red Quay</h2><p>Stone.</p>",
        "b.md": "# Rivers\n\nWater.\n\n## Green Weir\n\nWood.",
        "c.txt": "A note on Red Quay and Green Weir.",
    }
    for name, text in files.items():
        (tmp_path / "docs" / name).write_text(text, encoding="utf-8")
    workspace.add(ragindex.read(tmp_path / "docs").documents)
    links = links_of(workspace, [], "c.txt")
    assert {(link.passage, link.name) for link in links} == {("a.html", "red quay"), ("b.md", "green weir")}


def test_a_heading_that_becomes_text_is_no_name_any_more(workspace: Index) -> None:
    note, text = Document("b", "Notes", "On Red Quay."), "Boats. Red Quay Stone."
    workspace.add([OTTER])
    sections = (Section(0, ("Walks",)), Section(7, ("Walks", "Red Quay")))
    links = links_of(workspace, [note, Document("a", "Walks", text, sections=sections)], "b")
    assert {link.name for link in links} == {"red quay"}
    assert links_of(workspace, [Document("a", "Walks", text, sections=sections[:1])], "b") == set()


def letters(confirmed: int, unconfirmed: int) -> list[Document]:
    return [
        *(Document(f"c{n}", f"Letter {n}", f"This is letter {n}.") for n in range(confirmed)),
        *(Document(f"u{n}", f"Overview {n}", f"Ada Lund{'x' * n} is a writer.") for n in range(unconfirmed)),
    ]


def test_titles_are_names_if_half_of_the_documents_begin_with_a_word_of_theirs(workspace: Index) -> None:
    """They are not where most titles are wrong or say nothing: there a passage is known by the first name in it."""
    mention = Document("m", "Letter", "A letter on Overview 3 and on Ada Lundxxxx.")
    believed = {("u3", "overview 3")}
    assert named_by(workspace, [mention, *letters(14, 15)]) == believed  # 15 of 30
    assert named_by(workspace, [Document("more", "Summary", "Nothing.")]) == {("u4", "ada lundxxxx")}  # 15 of 31
    assert named_by(workspace, [], confirmed_titles=0) == believed
    workspace.remove(["more"])
    assert named_by(workspace, []) == believed


def test_few_titles_are_names(workspace: Index) -> None:
    mention = Document("m", "Diary", "A letter on Overview 3 and on Ada Lundxxxx.")
    assert named_by(workspace, [mention, *letters(0, 28)]) == {("u3", "overview 3")}
    assert named_by(workspace, [Document("more", "Summary", "Nothing.")]) == {("u4", "ada lundxxxx")}  # 0 of 30


def named_by(workspace: Index, documents: Sequence[Document], **settings: int) -> set[tuple[str, str]]:
    links = links_of(workspace, documents, "m", **settings)
    return {(link.passage, link.name) for link in links if not link.backward}


def test_mentions_are_counted_by_document(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path / "cut", encoder=Letters(), chunking=Chunking(30, 0), create=True)
    letter = "Tellin is far from everywhere. " * 3  # three passages
    documents = [Document("a", "Letter", letter), Document("b", "Diary", "We saw Tellin."), TOWN]
    links = links_of(workspace, documents, "b#0", max_mentions=2)
    assert links == {Link("b#0", "town#0", ("town",), log(5 / 2) / log(5), "tellin")}
    assert links_of(workspace, [], "b#0", max_mentions=1) == set()


@pytest.mark.parametrize(("passages", "linked"), [(4, 4), (5, 0)])
def test_a_name_in_more_than_four_passages_per_document_links_nothing(
    tmp_path: Path, passages: int, linked: int
) -> None:
    """Its documents are not counted then: the passages that are read may be all of one."""
    workspace = Index.open(tmp_path / "cut", encoder=Letters(), chunking=Chunking(30, 0), create=True)
    letter = Document("a", "Letter", "Tellin is far from everywhere. " * passages)
    towards = links_of(workspace, [letter, TOWN], *(f"a#{n}" for n in range(passages)), max_mentions=1)
    assert {link.passage for link in towards} == ({"town#0"} if linked else set())
    back = links_of(workspace, [], "town#0", max_mentions=1)
    assert {(link.passage, link.backward) for link in back} == {(f"a#{n}", True) for n in range(linked)}


def test_any_metadata_under_hyperlinks(workspace: Index) -> None:
    given: list[MetadataValue] = [7, "text", ["text", [1], ["first", "b.md", 3]], [["first", 5]], {"first": "b.md"}]
    documents = [Document(f"a{n}.md", f"Start {n}", "first", {"hyperlinks": links}) for n, links in enumerate(given)]
    seeds = [document.id for document in documents]
    assert links_of(workspace, [*documents, Document("b.md", "Other", "nothing")], *seeds) == set()
