"""Partial triples against a plain count over long histories, and what a change makes again."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from letters import Letters
from made_extractions import imported, openie, rows, spelt

from examples import examples
from ragindex.index.index import Index
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.vectors import Vectors
from ragindex.stores.lancedb.collection import LanceCollection
from ragindex.types import Document
from ragindex_retrievers.griever.parts.partial_triples import PartialTriples, partial_id

A = spelt("A", "Rhine|rises in|Alps", "Rhine|reaches|Rotterdam", "Rhine|rises in|Alps")
B = spelt("B", "Rhône|rises in|Alps", "Rhine|rises in|Basel")
C = Document("C", "", "Aare|rises in|Alps\nAlps|border|Alps", {})
D = Document("D", "", "Nothing is said here.", {"id": "D"})
PARTS = [PartialTriples(), PartialTriples(scope="passage")]
PLAIN = ("text", "predicate", "subject", "objects", "passage_ids", "in_inverse", "frequency")
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
    return {id: plain(spellings, frequency) for id, spellings in seen.items()}


def plain(spellings: list[tuple[str, str, str, tuple[str, str, bool]]], frequency: Any) -> tuple[Any, ...]:
    key, predicate, inverse = spellings[0][3]
    spelt_as = [own for own, _, _, _ in spellings]
    surface = sorted(spelt_as, key=lambda name: (-spelt_as.count(name), name))[0]
    text = f"{predicate} {surface}" if inverse else f"{surface} {predicate}"
    objects, passages = sorted({spelling[1] for spelling in spellings}), sorted({spelling[2] for spelling in spellings})
    return text, predicate, [key], objects, passages, float(inverse), float(frequency[key, predicate, inverse])


@settings(max_examples=examples(5))
@given(st.tuples(CORPORA, CORPORA), st.sampled_from(["exact", "casefold"]), st.sampled_from(PARTS))
def test_any_corpus_after_any_changes(states: Any, entity_key: Any, part: PartialTriples) -> None:
    part = PartialTriples(over=Triples(entity_key=entity_key), scope=part.scope)
    corpora = [[spelt(id, *triples) for id, triples in state.items()] for state in states]
    with TemporaryDirectory() as folder:
        file = openie(Path(folder) / "all.json", [D, *(document for corpus in corpora for document in corpus)])
        workspace = imported(Path(folder) / "w", file, encoder=Letters())  # type: ignore[arg-type]
        for corpus in corpora:
            workspace.replace([D, *corpus])
            workspace.build(Vectors(of=part))
            expected = plainly(corpus, part)
            for opened in (part, Vectors(of=part)):
                records = {row["id"]: tuple(row[name] for name in PLAIN) for row in rows(workspace, opened, *PLAIN)}
                assert records == expected


def written(part: PartialTriples, workspace: Index, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The texts of the part's records that a sync writes."""
    texts: set[str] = set()
    upsert = LanceCollection.upsert

    def noting(self: LanceCollection, records: Any) -> None:
        if self.name.startswith("partial_triples-") and self.name.endswith(".records"):
            texts.update(records.column("text").to_pylist())
        upsert(self, records)

    with monkeypatch.context() as patch:
        patch.setattr(LanceCollection, "upsert", noting)
        workspace.build(part)
    return texts


@pytest.mark.parametrize("part", PARTS)
def test_only_what_is_touched_is_made_again(
    part: PartialTriples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = openie(tmp_path / "all.json", [A, B, C, spelt("A", "Rhine|reaches|Basel")])
    workspace = imported(tmp_path / "w", file, [A, B])
    workspace.build(part)
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
