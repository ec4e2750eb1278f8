"""Partial triples: every field by hand, against a plain count, over several syncs, and searched by flat schemes."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from built_retriever import built_retriever
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import ENCODED, Letters
from made_extractions import asking, imported, openie, rows, spelt
from openai_server import KEY, OpenAIServer, chat

from examples import examples
from ragindex import canonical
from ragindex.errors import UsageError
from ragindex.filters import Terms, meta
from ragindex.parts.triples.extractions import Extractions
from ragindex.parts.triples.triple_json import from_json
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.stores.lancedb.store import LanceCollection
from ragindex.types import Document, Query
from ragindex.workspace import sync
from ragindex.workspace.workspace import Workspace
from ragindex_retrievers.griever.parts.partial_triples import PartialTriples, partial_id

A = spelt("A", "Rhine|rises in|Alps", "Rhine|reaches|Rotterdam", "Rhine|rises in|Alps")
B = spelt("B", "Rhône|rises in|Alps", "Rhine|rises in|Basel")
C = Document("C", "", "Aare|rises in|Alps\nAlps|border|Alps", {})
D = Document("D", "", "Nothing is said here.", {"id": "D"})
PARTS = [PartialTriples(), PartialTriples(scope="passage")]


def made(folder: Path, *documents: Document, encoder: Any = "lsa") -> Workspace:
    folder.mkdir(parents=True, exist_ok=True)
    return imported(folder / "w", openie(folder / "f.json", (A, B, C, D, *documents)), documents, encoder)


def record(entity: str, predicate: str, inverse: int, text: str, **fields: Any) -> dict[str, Any]:
    shared = {"kind": "partial_triple", "title": "", "text": text, "predicate": predicate, "subject": [entity]}
    return {"id": partial_id(entity, predicate, bool(inverse)), **shared, "in_inverse": float(inverse), **fields}


def sources(ids: str, frequency: int) -> dict[str, Any]:
    """The fields of a record that say where it comes from, for passages that are whole documents A, B and C."""
    metadata = {id: {"id": id} for id in ids if id != "C"}
    terms = [id if id != "C" else None for id in ids]
    return {
        "metadata": json.dumps(metadata) if metadata else "",
        "passage_ids": list(ids),
        "doc_ids": list(ids),
        "frequency": float(frequency),
        "meta.id": terms if metadata else None,
    }


def test_every_field_by_hand(tmp_path: Path) -> None:
    workspace = made(tmp_path, A, B, C, D)
    workspace.sync([PartialTriples()])
    expected = [
        record("Rhine", "rises in", 0, "Rhine rises in", objects=["Alps", "Basel"], **sources("AB", 2)),
        record("Rhine", "reaches", 0, "Rhine reaches", objects=["Rotterdam"], **sources("A", 1)),
        record("Rhône", "rises in", 0, "Rhône rises in", objects=["Alps"], **sources("B", 1)),
        record("Aare", "rises in", 0, "Aare rises in", objects=["Alps"], **sources("C", 1)),
        record("Alps", "border", 0, "Alps border", objects=["Alps"], **sources("C", 1)),
        record("Alps", "rises in", 1, "rises in Alps", objects=["Aare", "Rhine", "Rhône"], **sources("ABC", 3)),
        record("Rotterdam", "reaches", 1, "reaches Rotterdam", objects=["Rhine"], **sources("A", 1)),
        record("Basel", "rises in", 1, "rises in Basel", objects=["Rhine"], **sources("B", 1)),
        record("Alps", "border", 1, "border Alps", objects=["Alps"], **sources("C", 1)),
    ]
    assert rows(workspace, PartialTriples()) == sorted(expected, key=lambda row: str(row["id"]))


def test_a_record_a_passage(tmp_path: Path) -> None:
    workspace = made(tmp_path, A, B)
    part = PartialTriples(scope="passage")
    workspace.sync([part])
    fields = ("text", "passage_ids", "doc_ids", "objects", "frequency", "metadata", "meta.id")
    found = {row.pop("id"): row for row in rows(workspace, part, *fields)}
    assert set(found) == {
        *(partial_id("Rhine", "rises in", False, id) for id in "AB"),
        *(partial_id("Alps", "rises in", True, id) for id in "AB"),
        partial_id("Rhine", "reaches", False, "A"),
        partial_id("Rotterdam", "reaches", True, "A"),
        partial_id("Rhône", "rises in", False, "B"),
        partial_id("Basel", "rises in", True, "B"),
    }
    assert found[partial_id("Rhine", "rises in", False, "B")] == {
        "text": "Rhine rises in",
        "passage_ids": ["B"],
        "doc_ids": ["B"],
        "objects": ["Basel"],
        "frequency": 2.0,  # of the corpus
        "metadata": '{"B": {"id": "B"}}',
        "meta.id": ["B"],
    }


def test_ids_are_those_of_entity_predicate_and_direction() -> None:
    assert partial_id("Rhine", "rises in", False) == canonical.digest(["Rhine", "rises in", False])
    assert partial_id("Rhine", "rises in", True, "A#1") == f"A#1#{partial_id('Rhine', 'rises in', True)}"
    assert len({partial_id(*one, inverse) for one in (("a b", "c"), ("a", "b c")) for inverse in (True, False)}) == 4


def test_spellings_of_one_entity(tmp_path: Path) -> None:
    one = spelt("1", "Mont  Blanc|lies in|France", "MONT BLANC|lies in|Italy", "Mont Blanc|lies in|Italy")
    two = spelt("2", "mont blanc|Lies in|Italy", "Mont Blanc|lies in|FRANCE")
    three = spelt("3", "b|is|x", "B|is|x", "a|is|y", "A|is|y", "a|is|z")
    workspace = made(tmp_path, one, two, three)
    part = PartialTriples(over=Triples(entity_key="casefold"))
    workspace.sync([part])
    found = {row["text"]: row for row in rows(workspace, part)}
    texts = ["Mont Blanc lies in", "mont blanc Lies in", "B is", "a is"]
    assert set(found) == {*texts, "lies in Italy", "Lies in Italy", "lies in FRANCE", "is x", "is y", "is z"}
    blanc = found["Mont Blanc lies in"]  # twice so, else once; FRANCE comes before France
    assert (blanc["subject"], blanc["objects"], blanc["frequency"]) == (["mont blanc"], ["france", "italy"], 4.0)
    assert blanc["id"] == partial_id("mont blanc", "lies in", False)
    assert found["lies in FRANCE"]["passage_ids"] == ["1", "2"]


def test_a_corpus_without_triples(tmp_path: Path) -> None:
    workspace = made(tmp_path, D, encoder=Letters())
    workspace.sync([Vectors(of=PartialTriples())])
    assert rows(workspace, PartialTriples()) == rows(workspace, Vectors(of=PartialTriples()), "text") == []
    workspace.add([A])
    workspace.sync()
    assert len(rows(workspace, PartialTriples())) == len(rows(workspace, Vectors(of=PartialTriples()), "text")) == 4
    workspace.remove(["A", "D"])
    workspace.sync()
    assert rows(workspace, PartialTriples()) == rows(workspace, Vectors(of=PartialTriples()), "text") == []


# ---------------------------------------------------------------- against a plain count

NAMES = st.sampled_from(["a", "A", "b", "b  c", "B c"])
TRIPLES = st.builds("{}|{}|{}".format, NAMES, st.sampled_from(["p", "q"]), NAMES)
CORPORA = st.dictionaries(st.sampled_from("12345"), st.lists(TRIPLES, max_size=4), max_size=5)


def plainly(corpus: Sequence[Document], part: PartialTriples) -> dict[str, tuple[Any, ...]]:
    """(text, predicate, subject, objects, passages, direction, frequency) by id, one triple after the other."""
    frequency: Counter[tuple[str, str, bool]] = Counter()
    seen: dict[str, list[tuple[str, str, str, tuple[str, str, bool]]]] = {}
    for document in corpus:
        for subject, predicate, object in {tuple(line.split("|")) for line in document.text.splitlines()}:
            for own, other, inverse in ((subject, object, False), (object, subject, True)):
                partial = (part.over.key(own), predicate, inverse)
                frequency[partial] += 1
                id = partial_id(*partial, document.id if part.scope == "passage" else None)
                seen.setdefault(id, []).append((own, part.over.key(other), document.id, partial))
    return {id: plain(found, frequency) for id, found in seen.items()}


def plain(found: list[tuple[str, str, str, tuple[str, str, bool]]], frequency: Any) -> tuple[Any, ...]:
    key, predicate, inverse = found[0][3]
    spelt_as = [own for own, _, _, _ in found]
    surface = sorted(spelt_as, key=lambda name: (-spelt_as.count(name), name))[0]
    text = f"{predicate} {surface}" if inverse else f"{surface} {predicate}"
    objects, passages = sorted({one[1] for one in found}), sorted({one[2] for one in found})
    return text, predicate, [key], objects, passages, float(inverse), float(frequency[key, predicate, inverse])


PLAIN = ("text", "predicate", "subject", "objects", "passage_ids", "in_inverse", "frequency")


@pytest.mark.slow
@settings(max_examples=examples(5))
@given(st.tuples(CORPORA, CORPORA), st.sampled_from(["exact", "casefold"]), st.sampled_from(PARTS))
def test_any_corpus_after_any_changes(states: Any, entity_key: Any, part: PartialTriples) -> None:
    part = PartialTriples(over=Triples(entity_key=entity_key), scope=part.scope)
    corpora = [[spelt(id, *triples) for id, triples in state.items()] for state in states]
    with TemporaryDirectory() as folder:
        workspace = made(Path(folder), encoder=Letters())
        file = openie(Path(folder) / "all.json", [D, *(one for corpus in corpora for one in corpus)])
        workspace.import_part("extractions", file)
        for corpus in corpora:
            workspace.replace([D, *corpus])
            workspace.sync([Vectors(of=part)])
            expected = plainly(corpus, part)
            for opened in (part, Vectors(of=part)):
                found = {row["id"]: tuple(row[name] for name in PLAIN) for row in rows(workspace, opened, *PLAIN)}
                assert found == expected


# ---------------------------------------------------------------- over several syncs


@pytest.mark.parametrize("part", PARTS)
def test_the_law(part: PartialTriples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragindex.workspace.sync._BATCH", 3)
    changed = Document("A", "", "Rhine|reaches|Basel", {"id": "other", "year": 1900})
    documents = [A, B, D, *(spelt(f"{n}", f"Rhine|flows past|town {n}", f"town {n}|lies in|Alps") for n in range(4))]
    vectors, hybrid = Vectors(of=part), registry.scheme(f"hybrid(over={registry.label(part)})")
    once = made(tmp_path / "once", *documents, encoder=Letters())
    once.sync([hybrid])
    file = openie(tmp_path / "all.json", [*documents, C, changed])
    often = imported(tmp_path / "often", file, [changed, C, *documents[1:4]], Letters())
    often.sync([hybrid])
    often.add(documents[4:])
    often.sync([hybrid])
    often.remove(["C", "2"])
    often.sync([part])  # the vectors stay behind
    often.add([A, C])
    often.sync([hybrid])
    often.remove(["C"])
    often.add([documents[5]])
    often.sync([hybrid])
    assert often.open_part(part).count() == {"corpus": 16, "passage": 24}[part.scope]
    for opened in (part, vectors):
        fields = [name for name in once.open_part(opened).fields()] + ["vector"] * (opened is vectors)
        assert rows(often, opened, *fields) == rows(once, opened, *fields)
    assert {row["meta.year"] for row in rows(often, part, "meta.year") if row["meta.year"]} == set()


def written(part: PartialTriples, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The texts of the part's records that a sync writes."""
    texts: set[str] = set()
    upsert = LanceCollection.upsert

    def noting(self: LanceCollection, records: Any) -> None:
        if self.name.startswith("partial_triples-") and self.name.endswith(".records"):
            texts.update(records.column("text").to_pylist())
        upsert(self, records)

    with monkeypatch.context() as patch:
        patch.setattr(LanceCollection, "upsert", noting)
        workspace.sync([part])
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_only_what_is_touched_is_made_again(
    part: PartialTriples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = made(tmp_path, A, B)
    file = openie(tmp_path / "all.json", [A, B, C, spelt("A", "Rhine|reaches|Basel")])
    workspace.import_part("extractions", file)
    workspace.sync([part])
    workspace.add([C])
    assert written(part, workspace, monkeypatch) == {"Aare rises in", "rises in Alps", "Alps border", "border Alps"}
    workspace.remove(["C"])
    assert written(part, workspace, monkeypatch) == {"rises in Alps"}
    workspace.add([spelt("A", "Rhine|reaches|Basel")])
    touched = {"Rhine rises in", "rises in Alps", "Rhine reaches", "reaches Basel"}
    assert written(part, workspace, monkeypatch) == touched
    monkeypatch.setattr("ragindex_retrievers.griever.parts.partial_triples._MOST_TERMS", 0)  # all records are looked at
    workspace.add([A])
    assert written(part, workspace, monkeypatch) == touched - {"reaches Basel"} | {"reaches Rotterdam"}
    assert len(rows(workspace, part)) == {"corpus": 6, "passage": 8}[part.scope]


def test_partials_of_one_block_and_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [spelt(f"{n:02}", *(f"x{n % 7}|p{i}|y{n * i % 5}" for i in range(n % 4))) for n in range(40)]
    found = []
    for block in (1, 8192):
        monkeypatch.setattr("ragindex_retrievers.griever.parts.partial_triples._BLOCK", block)
        workspace = made(tmp_path / str(block), *documents)
        workspace.sync([PartialTriples()])
        found.append(rows(workspace, PartialTriples()))
    assert found[0] == found[1]
    assert {row["id"]: tuple(row[name] for name in PLAIN) for row in found[1]} == plainly(documents, PartialTriples())


# ---------------------------------------------------------------- cut short


def dying_once(real: Callable[..., Any], whether: Callable[..., bool]) -> Callable[..., Any]:
    """Does its work and dies, the first time that `whether`."""
    dead: list[bool] = []

    def dying(*given: Any) -> Any:
        done = real(*given)
        if not dead and whether(*given):
            dead.append(True)
            raise KeyboardInterrupt
        return done

    return dying


def applied(part: PartialTriples, change: Any, site: Any) -> bool:
    return bool(change.upsert or change.remove)


def collection(name: str) -> Callable[..., bool]:
    return lambda self, *_: self.name.startswith("partial_triples-") and self.name.endswith(name)


DEATHS: list[tuple[Any, str, Callable[..., bool]]] = [
    (PartialTriples, "apply", applied),
    (sync, "_cover", lambda task, *_: task.name == "partial_triples"),
    (LanceCollection, "upsert", collection(".records")),
    (LanceCollection, "delete", collection(".records")),
    (LanceCollection, "delete", collection(".marks")),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The records of A and C, and those that have vectors."""
    workspace = made(tmp_path_factory.mktemp("once"), A, C, encoder=Letters())
    parts = PartialTriples(), Vectors(of=PartialTriples())
    workspace.sync(parts)
    first, second = (rows(workspace, part, *PLAIN, "meta.id") for part in parts)
    assert {row["text"] for row in first} >= {"Aare rises in", "Rhine rises in"}
    return first, second


@pytest.mark.parametrize(("owner", "name", "whether"), DEATHS)
def test_a_sync_that_dies(
    owner: Any, name: str, whether: Any, undisturbed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While all is made, and while some is: then the passage that was about to come is gone for good, or another."""
    monkeypatch.setattr("ragindex.workspace.sync._BATCH", 1)
    monkeypatch.setattr("ragindex_retrievers.griever.parts.partial_triples._BLOCK", 2)
    part, vectors = PartialTriples(), Vectors(of=PartialTriples())
    workspace = made(tmp_path, A, B, encoder=Letters())
    for change in (lambda: None, lambda: (workspace.add([C]), workspace.remove(["B"]))):
        change()
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, dying_once(getattr(owner, name), whether))
            with pytest.raises(KeyboardInterrupt):
                workspace.sync([vectors])
    workspace.remove(["C"])
    workspace.sync([part])
    workspace.add([C])
    workspace.sync([vectors])
    fields = (*PLAIN, "meta.id")
    assert (rows(workspace, part, *fields), rows(workspace, vectors, *fields)) == undisturbed


# ---------------------------------------------------------------- searched


@pytest.mark.parametrize("method", ["bm25", "dense", "hybrid", "composed"])
def test_flat_schemes_find_partials(method: str, tmp_path: Path) -> None:
    workspace = made(tmp_path, A, B, C, encoder=Letters())
    retriever = built_retriever(workspace, f"{method}(over=partial_triples)")
    hits = retriever.retrieve([Query("q", "which river rises in the Alps?")], 9)[0].hits
    (hit,) = [hit for hit in hits if hit.text == "rises in Alps"]
    assert (hit.id, hit.kind, hit.title) == (partial_id("Alps", "rises in", True), "partial_triple", "")
    assert (hit.passage_ids, hit.doc_ids) == (("A", "B", "C"), ("A", "B", "C"))
    assert hit.metadata == {"A": {"id": "A"}, "B": {"id": "B"}}


def test_a_filter_holds_for_every_document_of_a_partial(tmp_path: Path) -> None:
    workspace = made(tmp_path, A, B, C, encoder=Letters())
    retriever = built_retriever(workspace, "dense(over=partial_triples)")

    def found(*values: str) -> set[str]:
        return {hit.text for hit in retriever.retrieve([Query("q", "Alps", meta("id", *values))], 9)[0].hits}

    assert found("A") == {"Rhine reaches", "reaches Rotterdam"}
    assert found("B") == {"Rhône rises in", "rises in Basel"}
    assert found("A", "B") == found("A") | found("B") | {"Rhine rises in"}  # C, which has no id, rises in the Alps too


def test_records_are_looked_up_by_entity_and_by_what_stands_opposite(tmp_path: Path) -> None:
    workspace = made(tmp_path, A, B, C)
    workspace.sync([PartialTriples()])
    opened = workspace.open_part(PartialTriples())
    texts = [
        {row["text"] for batch in opened.scan(("text",), Terms(field, ("Alps",))) for row in batch.to_pylist()}
        for field in ("subject", "objects")
    ]
    assert texts[0] == {"rises in Alps", "Alps border", "border Alps"}
    assert texts[1] == {"Rhine rises in", "Rhône rises in", "Aare rises in", "Alps border", "border Alps"}


def test_each_text_is_encoded_once(tmp_path: Path) -> None:
    ENCODED.clear()
    workspace = made(tmp_path, A, encoder=Letters())
    workspace.sync([Vectors(of=PartialTriples())])
    workspace.add([B])
    workspace.sync()
    assert sorted(text.strip() for text in ENCODED[4:]) == ["Rhône rises in", "rises in Basel"]


# ---------------------------------------------------------------- passages that fail


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as running:
        yield running


def test_what_a_failed_passage_said_is_forgotten_until_it_is_read(server: OpenAIServer, tmp_path: Path) -> None:
    sulking: set[str] = set()

    def choose(received: Any, earlier: int) -> Any:
        text = received.body["messages"][5]["content"]  # after the instructions and two demonstrations
        triples = [line.split("|") for line in text.splitlines()]
        answer = {"entities": [], "triples": triples}
        return chat(content="I would rather not." if text in sulking else json.dumps(answer))

    server.choose = choose
    workspace = asking(tmp_path, server, encoder=Letters())  # type: ignore[arg-type]
    part = Vectors(of=PartialTriples())
    workspace.add([spelt("1", "a|knows|b"), spelt("2", "c|knows|b")])
    workspace.sync([part])
    found = {row["text"]: row["frequency"] for row in rows(workspace, part, "text", "frequency")}
    assert found == {"a knows": 1.0, "c knows": 1.0, "knows b": 2.0}
    sulking.add("c|knows|b\nc|knows|d")
    workspace.add([spelt("2", "c|knows|b", "c|knows|d")])
    workspace.sync()
    found = {row["text"]: row["frequency"] for row in rows(workspace, part, "text", "frequency")}
    assert found == {"a knows": 1.0, "knows b": 1.0}
    sulking.clear()
    workspace.sync()
    found = {row["text"]: row["frequency"] for row in rows(workspace, part, "text", "frequency")}
    assert found == {"a knows": 1.0, "c knows": 2.0, "knows b": 2.0, "knows d": 1.0}
    assert [from_json(row["triples"])[-1].object for row in rows(workspace, Extractions(), "triples")] == ["b", "d"]


# ---------------------------------------------------------------- parameters


def test_other_parts_are_refused() -> None:
    message = "The 'over' parameter of partial_triples must be triples. Got 'passages' instead."
    with pytest.raises(UsageError, match=message):
        registry.part("partial_triples(over=passages)")


def test_the_registry_makes_it_again() -> None:
    part = PartialTriples(over=Triples(entity_key="casefold"), scope="passage")
    assert registry.part(registry.describe(part)) == part
    assert registry.label(part) == "partial_triples(over=triples(entity_key=casefold), scope=passage)"


def test_seconds_of_earlier_finishes_are_kept(tmp_path: Path) -> None:
    """Each finish makes only what has changed: what the part took is what all of them took."""
    documents = [spelt(f"d{n}", f"thing {n}|lies beside|thing {n + 1}") for n in range(4)]
    workspace = imported(tmp_path / "w", openie(tmp_path / "f.json", documents), documents[:3])
    taken = []
    for added in ([], documents[3:], []):
        workspace.add(added)
        workspace.sync([registry.scheme("bm25(over=partial_triples)")])
        [record] = [one for one in workspace.manifest.parts.values() if one.name == "partial_triples"]
        assert record.seconds > record.finish_seconds > 0
        taken.append(record.finish_seconds)
    assert taken == sorted(taken)
    assert taken[0] < taken[1]
