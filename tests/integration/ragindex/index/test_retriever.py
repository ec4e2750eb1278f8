"""The public API: open, add, build, search; what reading must not write; where filters."""

import asyncio
import pydoc
import shutil
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from search_server import default_scheme

import ragindex
from ragindex.errors import MissingPartError, StaleWarning, UsageError
from ragindex.filters import All, Not, Range, Terms, from_mapping, meta
from ragindex.index.parts import KeyInputs, part_key, topological_order
from ragindex.plugins import registry

DOCUMENTS = [
    ragindex.Document(
        "light",
        "Lighthouse",
        "The lighthouse was built of slate in 1931.",
        {"year": 1931, "kind": "tower", "lit": date(1931, 5, 1)},
    ),
    ragindex.Document("harbour", "Harbour", "The harbour was rebuilt in 1850.", {"year": 1850, "kind": "port"}),
    ragindex.Document("mill", "Mill", "The mill ground corn, and was built in 1850.", {"year": 1850, "kind": "mill"}),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index over three documents, with bm25 built; never written to."""
    folder = tmp_path_factory.mktemp("built") / "my-index"
    with ragindex.open(folder, encoder="lsa", create=True) as index:
        index.add(DOCUMENTS)
        index.build("bm25")
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(built, tmp_path / "my-index"))


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder with its size and time of change."""
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


def test_a_method_that_is_not_built_is_not_built_by_reading(folder: Path) -> None:
    with ragindex.open(folder) as index:
        before = files(folder / "parts"), index.manifest
        with pytest.raises(MissingPartError) as raised:
            index.retriever("dense")
        assert (files(folder / "parts"), index.manifest) == before
    assert str(raised.value) == (
        f"The method dense is not built in {folder} with the encoder lsa and the LLM offline. "
        f"Call index.build('dense'), or run: ragindex index --index {folder} --methods dense"
    )


def test_reading_writes_nothing(folder: Path) -> None:
    with ragindex.open(folder) as index:
        index.build("hybrid", "gear.naive(scoring=composed)")
    before = files(folder)
    with ragindex.open(folder, read_only=True) as index:
        for method in ("bm25", "hybrid", "gear.naive(scoring=composed)"):
            assert index.retriever(method).search("Who built the mill?", where={"meta.year": 1850})[0].doc_ids == (
                "mill",
            )
        assert len(index) == 3
        for change in (
            lambda: index.add(DOCUMENTS),
            lambda: index.remove(["light"]),
            lambda: index.replace(DOCUMENTS),
            lambda: index.build("raptor"),
        ):
            with pytest.raises(UsageError, match="was opened with read_only=True"):
                change()
    readers = folder / "readers"  # a lease stood in it
    assert list(readers.iterdir()) == []
    assert files(folder) == {**before, str(readers): files(folder)[str(readers)]}


def test_asynchronous_and_batched_searches_find_the_same(folder: Path) -> None:
    with ragindex.open(folder) as index:
        retriever = index.retriever("bm25")
        alone = [retriever.search(text, k=2).hits for text in ("old harbour", "corn mill")]

        async def ask() -> list[ragindex.Hits]:
            return list(await asyncio.gather(retriever.asearch("old harbour", 2), retriever.asearch("corn mill", 2)))

        assert [retrieval.hits for retrieval in asyncio.run(ask())] == alone
        assert [retrieval.hits for retrieval in retriever.search_many(["old harbour", "corn mill"], k=2)] == alone


def test_values_have_short_texts(folder: Path) -> None:
    with ragindex.open(folder) as index:
        assert repr(index) == f"Index('{folder}': 3 documents; parts built: passages)"
        hits = index.retriever("bm25").search("lighthouse slate")
    assert repr(hits) == f"1 hit for 'lighthouse slate'\n  1. Hit({hits[0].score:.4g}, 'light#0', 'Lighthouse')"
    assert repr(DOCUMENTS[0]) == "Document('light', 'Lighthouse', 42 characters)"
    odd = ragindex.Hits("<b>", hits.hits)
    assert "<p>&lt;b&gt;</p>" in odd._repr_html_()
    assert hits.to_frame()[["id", "title"]].to_numpy().tolist() == [["light#0", "Lighthouse"]]


def test_a_path_is_not_taken_for_documents(folder: Path) -> None:
    with ragindex.open(folder) as index:
        with pytest.raises(UsageError, match=r"Expected documents, got a path. Write: ragindex.read\('docs'\)"):
            index.add("docs")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"'ids' must be a list of ids. Got the string 'light': write \['light'\]"):
            index.remove("light")
        assert len(index) == 3


def test_where(built: Path) -> None:
    with ragindex.open(built, read_only=True) as index:
        retriever = index.retriever("bm25")
        for where, documents in (
            ({"meta.year": 1850}, {"harbour", "mill"}),
            ({"meta.year": [1850, 1931], "meta.kind": ("tower", "port")}, {"harbour", "light"}),
            ({"meta.year": {"gte": 1900}}, {"light"}),
            ({"meta.lit": date(1931, 5, 1)}, {"light"}),
            ({"meta.lit": {"gte": "1931-05-01", "lte": "1931-12-31"}}, {"light"}),
            ({"doc_ids": "mill"}, {"mill"}),
            ({}, {"light", "harbour", "mill"}),
            (None, {"light", "harbour", "mill"}),
            (Terms("meta.kind", ("port",)), {"harbour"}),
        ):
            hits = retriever.search("lighthouse harbour mill", where=where)  # type: ignore[arg-type]
            assert {id for hit in hits for id in hit.doc_ids} == documents, where


@pytest.mark.parametrize("id", ["caf\u00e9.md", "cafe\u0301.md"])
def test_documents_are_named_in_either_form_of_unicode(id: str, tmp_path: Path) -> None:
    """As file names of macOS are decomposed, and keyboards are not; what is shown stays as the index has it."""
    spelled = ("caf\u00e9.md", "cafe\u0301.md")
    with ragindex.open(tmp_path / "my-index", create=True) as index:
        for written in spelled:
            index.add([ragindex.Document(id, "Coffee", "Coffee is roasted.", {"source": id}), *DOCUMENTS])
            index.build("bm25")
            assert [document.id for document in index.read([written, "mill", "tea"])] == [id, "mill"]
            for where in ({"meta.source": written}, {"doc_ids": ["mill", written]}, Not(meta("source", written))):
                ids = [hit.doc_ids[0] for hit in index.retriever("bm25").search("coffee mill", where=where)]
                assert (id in ids, "mill" in ids) == (not isinstance(where, Not), where != {"meta.source": written})
            assert index.remove([written]).removed == 1
            assert len(index) == 3


def test_filters_on_lists_and_mappings(tmp_path: Path) -> None:
    salaries = {"access": ["staff", "hr"], "owner": {"team": "board"}}
    documents = [
        ragindex.Document("minutes", "Minutes", "The harbour board met.", {"access": "open"}),
        ragindex.Document("salaries", "Salaries", "The harbour board is paid.", salaries),
    ]

    def search(retriever: ragindex.IndexRetriever, where: Any) -> set[str]:
        return {id for hit in retriever.search("harbour board", where=where) for id in hit.doc_ids}

    with ragindex.open(tmp_path / "index", create=True) as index:
        index.add(documents)
        index.build("bm25", "dense")
        for retriever in (index.retriever("bm25"), index.retriever("dense")):
            assert search(retriever, Not(meta("access", "staff"))) == {"minutes"}
            assert search(retriever, {"meta.access": "staff"}) == {"salaries"}
            assert search(retriever, {"meta.access": ["hr", "nobody"]}) == {"salaries"}
            assert search(retriever, Not(meta("access", "open"))) == {"salaries"}
            with pytest.raises(UsageError, match="The metadata key 'owner' of some documents holds a mapping"):
                search(retriever, Not(meta("owner", "board")))


def test_other_terms_of_metadata_are_another_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its filters could pass what they must keep out: every part of it is made anew."""
    means = KeyInputs("encoder", "llm", 0)
    schemes = [default_scheme(method) for method in registry.plugin_names("schemes")]
    parts = [part for scheme in schemes for part in topological_order(scheme.parts())]
    now = {part_key(part, means) for part in parts}
    monkeypatch.setattr("ragindex.index.parts.TERMS_VERSION", 1)
    assert now.isdisjoint(part_key(part, means) for part in parts)


def test_mappings_as_filters() -> None:
    assert from_mapping({"meta.a": True, "meta.b": {"gte": 1, "lte": 2}, "meta.c": date(2020, 1, 2)}) == All(
        (Terms("meta.a", ("true",)), Range("meta.b", 1, 2), Terms("meta.c", ("2020-01-02",)))
    )
    for where, message in (
        ({"year": 1}, "A filter's field must be meta.KEY or one of doc_ids, passage_ids. Got 'year' instead."),
        ({"meta.a": {"gt": 1}}, "A range on 'meta.a' has the keys 'gte' or 'lte', or both. Got {'gt': 1} instead."),
        ({"meta.a": None}, "A filter's values must be strings, numbers, booleans or dates. Got None for 'meta.a'."),
    ):
        with pytest.raises(UsageError) as raised:
            from_mapping(where)
        assert str(raised.value) == message


def test_help_is_a_page_of_all_public_names() -> None:
    page = pydoc.plain(pydoc.render_doc(ragindex))
    for name in ragindex.__all__:
        assert getattr(ragindex, name).__doc__, name
        assert name in page
    assert set(ragindex.__all__) <= set(dir(ragindex))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = ragindex.nothing


GUIDE = (
    "# Guide\n\nIntro to the pier.\n\n## Tides\n\nThe tide turns twice.\n\n## Moorings\n\nTie the boat to the bollard."
)


def guide(text: str = GUIDE) -> ragindex.Document:
    sections = [ragindex.Section(text.index(line), path) for line, path in HEADINGS.items()]
    return ragindex.Document("guide.md", "Guide", text, sections=tuple(sections))


HEADINGS = {"# Guide": ("Guide",), "## Tides": ("Guide", "Tides"), "## Moorings": ("Guide", "Moorings")}


def test_hits_know_where_they_stand(tmp_path: Path) -> None:
    with ragindex.open(tmp_path / "w", encoder="lsa", chunking=ragindex.Chunking(48, 5), create=True) as index:
        index.add([guide(), *DOCUMENTS])
        index.build("bm25", "sirerag", "bm25(over=triples)")
        (first, *_) = index.retriever("bm25").search("Where is the boat tied to a bollard?", k=1)
        (position,) = first.positions
        assert (position.doc_id, position.page, position.headings) == ("guide.md", None, ("Guide", "Moorings"))
        assert GUIDE[position.start : position.end] == first.text
        (turn,) = index.retriever("bm25").search("How often does the tide turn?", k=1)[0].positions
        assert turn.headings == ("Guide", "Tides")
        texts = {document.id: document.text for document in [guide(), *DOCUMENTS]}
        for method in ("sirerag", "bm25(over=triples)"):
            for hit in index.retriever(method).search("The tide turns at the harbour.", k=10):
                assert [position.doc_id for position in hit.positions] == [id.split("#")[0] for id in hit.passage_ids]
                assert all(texts[place.doc_id][place.start : place.end].strip() for place in hit.positions)


def test_a_hit_inside_a_table_begins_with_its_header_and_stands_at_its_rows(tmp_path: Path) -> None:
    header = "| bolt | price |\n| --- | --- |\n"
    rows = "\n".join(f"| M{number} | {number} euro |" for number in range(60))
    text = f"Prices.\n\n{header}{rows}"
    with ragindex.open(tmp_path / "w", chunking=ragindex.Chunking(200, 0), create=True) as index:
        index.add([ragindex.Document("prices", "Prices", text, blocks=((9, len(text)),))])
        index.build("bm25", "bm25(over=passages(size=40, by=sentences))")
        for method in ("bm25", "bm25(over=passages(size=40, by=sentences))"):
            (hit,) = index.retriever(method).search("price M37", k=1)
            (position,) = hit.positions
            assert text[position.start : position.end].startswith("| M")
            assert hit.text == header + text[position.start : position.end]


def test_positions_are_those_of_the_text_that_was_found(tmp_path: Path) -> None:
    with ragindex.open(tmp_path / "w", encoder="lsa", create=True) as index:
        index.add([guide()])
        index.build("bm25", "dense")
        before = index.retriever("bm25")
        index.add([guide("# Guide\n\nA longer intro to the old pier.\n\n## Tides\n\nNone.\n\n## Moorings\n\nGone.")])
        with pytest.warns(StaleWarning):
            after = index.retriever("bm25")
        for retriever in (before, after):  # both built from the text before
            (hit,) = retriever.search("bollard", k=1)
            assert [(position.start, position.end) for position in hit.positions] == [(0, len(GUIDE))]
        index.build("bm25")  # and dense is of the text before
        (hit,) = index.retriever("bm25").search("longer intro", k=1)
        assert [(position.start, position.end) for position in hit.positions] == [(0, len(hit.text))]
        with pytest.warns(StaleWarning):
            (hit,) = index.retriever("dense").search("bollard", k=1)
        assert (hit.text, hit.positions) == (GUIDE, ())


def test_reader_beside_an_update_is_not_warned(tmp_path: Path) -> None:
    """What it searches is older than the corpus until the update ends: the command would be refused."""
    with ragindex.open(tmp_path / "w", create=True) as index:
        index.add([guide()])
        index.build("bm25")
        with index.writer("indexing"):
            index.add([ragindex.Document("more", "More", "Another text.")])
            with ragindex.open(tmp_path / "w", read_only=True) as reader, warnings.catch_warnings():
                warnings.simplefilter("error", StaleWarning)
                assert len(reader.retriever("bm25").search("bollard")) == 1
        with ragindex.open(tmp_path / "w", read_only=True) as reader, pytest.warns(StaleWarning, match="older than"):
            reader.retriever("bm25")


def test_a_document_whose_sections_change_is_changed(tmp_path: Path) -> None:
    """A passage with other headings is another one; a page number is only looked up."""
    with ragindex.open(tmp_path / "w", create=True) as index:
        index.add([guide()])
        index.build("bm25")
        changed = ragindex.Document("guide.md", "Guide", GUIDE, sections=(ragindex.Section(0),))
        assert index.add([changed]).changed == 1
        assert index.build("bm25").made == 1
        changed = ragindex.Document("guide.md", "Guide", GUIDE, sections=(ragindex.Section(0, (), 7),))
        assert index.add([changed]).changed == 1
        assert index.build("bm25").made == 0
        (hit,) = index.retriever("bm25").search("bollard", k=1)
        assert [(position.page, position.headings) for position in hit.positions] == [(7, ())]
        with pytest.raises(UsageError, match=r"must be sorted by 'start'. Got the starts \[3, 1\]"):
            index.add([ragindex.Document("x", "", "abcd", sections=(ragindex.Section(3), ragindex.Section(1)))])


def test_newest_follows_the_own_encoder_of_the_index(folder: Path) -> None:
    """What was opened with another encoder keeps it."""
    with ragindex.open(folder) as own, ragindex.open(folder, encoder="lsa:1") as other:
        with ragindex.open(folder, encoder="lsa:2") as writer:
            writer.build("dense")
        for index, encoder in ((own, "lsa(dimensions=2)"), (other, "lsa(dimensions=1)")):
            assert index.newest().encoder_name == encoder
        assert own.encoder_name == "lsa"
        assert len(own.newest().retriever("dense").search("slate", k=3)) == 3
