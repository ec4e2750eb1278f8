"""Methods over passages of other chunkings than the index's own, in one index."""

from pathlib import Path
from typing import Any

import pytest
from histories import materials
from search_server import default_scheme

import ragindex
from ragindex.errors import StaleWarning, UsageError
from ragindex.index.index import Index
from ragindex.index.parts import topological_order
from ragindex.interfaces import Part, Retriever
from ragindex.plugins import registry
from ragindex.types import Chunking, Position

PIER = """# Pier\n\nThe old pier is closed.\n
## Tides\n\nThe tide turns twice a day.\n
## Fees\n\nA berth costs nine crowns."""
MILL = "# Mill\n\nThe mill grinds rye.\n\n## Wheel\n\nIts wheel is of oak."
HEADINGS = {"pier.md": (("Pier", "Tides"), ("Pier", "Fees")), "mill.md": (("Mill", "Wheel"),)}


def page(id: str, text: str) -> ragindex.Document:
    title = text[2 : text.index("\n")]
    below = [ragindex.Section(text.index(f"## {path[-1]}"), path) for path in HEADINGS[id]]
    return ragindex.Document(id, title, text, sections=(ragindex.Section(0, (title,)), *below))


@pytest.fixture
def space(tmp_path: Path) -> Index:
    opened = Index.open(tmp_path / "w", encoder=materials.Hashed(), create=True)
    opened.add([page("pier.md", PIER), page("mill.md", MILL)])
    return opened


def made_from(space: Index, method: str) -> list[str]:
    return [registry.name_of(part) for part in space.all_parts(registry.scheme(method))]


def test_each_method_searches_its_own_passages(space: Index) -> None:
    methods = ["bm25", "bm25(over=passages(by=sections))", "bm25(over=passages(size=4, overlap=1))"]
    space.build(*[registry.scheme(method) for method in methods])
    hits_by_method = {}
    for method in methods:
        scheme = registry.scheme(method)
        (answer,) = space.open_method(scheme).retrieve([ragindex.Query("q", "berth crowns")], 2)
        (answer,) = space.positions(scheme).locate([answer])
        hits_by_method[method] = [(hit.id, hit.text, hit.positions) for hit in answer.hits]
    start, end, fees = PIER.index("## Fees"), len(PIER), ("Pier", "Fees")
    assert hits_by_method == {
        methods[0]: [("pier.md#0", PIER, (Position("pier.md", 0, len(PIER), None, ("Pier",)),))],
        methods[1]: [
            ("pier.md#sections.2", PIER[start:], (Position("pier.md", start, end, None, fees),)),
        ],
        methods[2]: [
            (
                "pier.md#words4+1.6",
                "berth costs nine crowns.",
                (Position("pier.md", start + 11, end, None, fees),),
            ),
            ("pier.md#words4+1.5", "## Fees\n\nA berth", (Position("pier.md", start, start + 16, None, fees),)),
        ],
    }


def test_equal_chunkings_are_shared(space: Index) -> None:
    written = [f"{method}(over=passages(by=headings, size=20))" for method in ("bm25", "dense", "hybrid", "links")]
    space.build(*[registry.scheme(scheme) for scheme in written])
    names = [record.name for record in space.manifest.parts.values()]
    assert sorted(names) == ["chunks", "links", "passages", "vectors"]
    assert made_from(space, written[2]) == ["chunks", "passages", "vectors"]
    same = "bm25(over=passages(by=headings, size=20, context=title, overlap=0))"
    for method in (written[1], same):
        assert space.build(registry.scheme(method)).made == 0


def test_one_more_document(space: Index) -> None:
    schemes = [registry.scheme(scheme) for scheme in ("bm25", "dense(over=passages(by=sections))")]
    space.build(*schemes)
    longer = page("mill.md", MILL + "\n\nIt turns.")
    assert space.add([longer]).changed == 1
    synced = space.build()
    # mill.md: its whole passage; its document in chunks; its last section in passages and vectors
    assert (synced.made, synced.forgotten) == (4, 0)
    space.remove(["pier.md"])
    synced = space.build()
    assert (synced.made, synced.forgotten) == (0, 1 + 1 + 3 + 3)
    (answer,) = space.open_method("dense(over=passages(by=sections))").retrieve([ragindex.Query("q", "oak wheel")], 9)
    assert [hit.id for hit in answer.hits] == ["mill.md#sections.1", "mill.md#sections.0"]


def test_a_base_brings_its_chunking_along(space: Index) -> None:
    inner, outer = "self-ask(base=dense(over=passages(size=9)))", "self-ask(over=passages(size=9))"
    assert [space.key(part, None) for part in space.all_parts(registry.scheme(inner))] == [
        space.key(part, None) for part in space.all_parts(registry.scheme(outer))
    ]
    with pytest.raises(UsageError, match="Hybrid needs one chunking for all its parts. Got 2 different ones"):
        registry.scheme("hybrid(bases=[bm25(over=passages(size=9)), dense(over=passages(size=8))])").parts()


@pytest.mark.parametrize("name", registry.plugin_names("schemes"))
def test_all_parts_of_a_method_are_made_from_its_passages(name: str) -> None:
    scheme = default_scheme(name, over="passages(by=sentences, size=30, overlap=5)")
    expected = Chunking(30, 5, "sentences")

    units = registry.part("passages(by=sections)").with_chunking(None)  # what `parent` returns

    def reads_passages(part: Part[Any]) -> bool:
        return registry.name_of(part) != "chunks" and part != units

    parts = [part for part in topological_order(scheme.parts()) if reads_passages(part)]
    assert len(parts) >= 1
    assert {part.own_chunking() for part in parts} == {expected}
    for part in parts:
        assert registry.part(registry.describe(part)) == part  # as the manifest keeps it
        assert registry.part(registry.label(part)).with_chunking(None) == part
        assert registry.label(part).count("sentences") == 1
    assert registry.scheme(registry.label(scheme)) == scheme


def test_rechunking(space: Index) -> None:
    own, named = registry.scheme("bm25"), registry.scheme("dense(over=passages(by=sections))")
    space.build(own, named)
    reader = own.open(space)
    changed = space.rechunk(Chunking(None, 0, "sections"))
    assert (changed.changed, changed.unchanged) == (2, 0)
    assert hits(reader) == ["pier.md#0"]  # opened before
    with pytest.warns(StaleWarning, match="The part passages is older than the corpus"):
        assert hits(own.open(space)) == ["pier.md#0"]
    assert space.build(named).made == 0
    synced = space.build(own)
    assert (synced.made, synced.forgotten) == (2 + 3, 0)  # two have other texts than before
    assert hits(own.open(space)) == ["pier.md#2"]
    again = space.rechunk(Chunking(None, 0, "sections"))
    assert (again.changed, again.unchanged) == (0, 2)
    assert space.build(own, named).made == 0


def hits(retriever: Retriever) -> list[str]:
    (answer,) = retriever.retrieve([ragindex.Query("q", "berth crowns")], 1)
    return [hit.id for hit in answer.hits]


def test_documents_added_after_rechunking_are_split_by_it(space: Index) -> None:
    space.rechunk(Chunking(4, 1, "words"))
    space.add([ragindex.Document("ferry.md", "Ferry", "The ferry leaves at noon and at six.")])
    space.build(registry.scheme("bm25"))
    assert space.counts().passages == 14
    other = Index.open(
        space.folder.parent / "v", encoder=materials.Hashed(), chunking=Chunking(4, 1, "words"), create=True
    )
    other.add(space.documents)
    other.build(registry.scheme("bm25"))
    assert space.manifest.corpus == other.manifest.corpus


def test_interrupted_rechunking(space: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    space.build(registry.scheme("bm25"))

    def stop(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped, pytest.raises(KeyboardInterrupt):
        stopped.setattr("ragindex.index.documents._build_document", stop)
        space.rechunk(Chunking(None, 0, "sections"))
    again = Index.open(space.folder, encoder=materials.Hashed(), create=True)
    with pytest.warns(StaleWarning, match="The part passages is older than the corpus"):
        assert hits(registry.scheme("bm25").open(again)) == ["pier.md#0"]
    again.build()
    assert hits(registry.scheme("bm25").open(again)) == ["pier.md#2"]
    assert again.manifest.rechunking is False


def test_other_units_than_asked(space: Index) -> None:
    with pytest.raises(UsageError) as refused:
        Index.open(space.folder, chunking=Chunking(150, 0, "words"), create=True)
    assert str(refused.value) == (
        f"The index {space.folder} splits its documents otherwise: passages(by=characters, size=1200, overlap=200). "
        f"To change it, run: ragindex index --index {space.folder} --chunking 'passages(by=…, size=…)'"
    )
    with pytest.raises(UsageError, match="An index's own chunking is by characters, words, sentences, headings"):
        space.rechunk(Chunking(9, 0, "tokens"))
